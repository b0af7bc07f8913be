// SPDX-License-Identifier: MIT
// Views of matrices, wherever they are stored. A mapped matrix keeps its file's rows, a value the
// rows of its part. Data in the stage's memory is packed: a rank's pieces stretch after stretch, a
// panel matrix after matrix, C line after line.
#include "exec/steps/block.h"

#include "base/integer.h"
#include "exec/steps/product.h"
#include "exec/steps/rank_resources.h"
#include "model/dtype.h"
#include "model/matrix.h"

struct mmul_block_owner mmul_product_find_part(const struct mmul_stage *stage, int rank,
                                               struct mmul_pass pass) {
    const struct mmul_schedule *schedule = stage->schedule;
    struct mmul_block_owner part = {.rank = rank, .pass = pass};
    const struct mmul_problem *p = &schedule->problem;
    const struct mmul_layout *l = &stage->product->layout;
    const int64_t before = mmul_layout_units_before(l, rank, pass.round);
    const int64_t width = mmul_problem_result_width(p, schedule->axis);
    const int64_t each = (int64_t)mmul_dtype_bytes(mmul_problem_split_dtype(p, schedule->axis));
    part.range = mmul_schedule_part(schedule, rank, pass.round);
    if (l->node->piece_lanes > 0) {
        part.pieces = stage->memory + mmul_layout_pieces(l, pass.round) + before * p->k * each;
        part.c_in = stage->memory + mmul_layout_c_in(l, pass.round) +
                    before * width * mmul_problem_result_each(p);
    }
    if (l->node->result_slots > 0)
        part.c = stage->memory + mmul_layout_result(l, pass.index) +
                 mmul_layout_pass_units_before(l, rank, pass) * (pass.end - pass.begin) *
                     mmul_problem_result_each(p);
    return part;
}

struct mmul_block_owner mmul_block_owner_self(const struct mmul_stage *stage) {
    return (struct mmul_block_owner){.rank = stage->comm->rank};
}

// --------------------------------------------------------------------------- matrices of a product

// Views one matrix of a stack that is mapped at `data`. `is_transposed`: stored transposed.
static struct mmul_view view_mapped(const char *data, struct mmul_shape shape, int64_t matrix,
                                    enum mmul_dtype dtype, bool is_transposed) {
    const int64_t at = matrix * shape.rows * shape.cols * (int64_t)mmul_dtype_bytes(dtype);
    return (struct mmul_view){.at = (char *)(uintptr_t)data + at,
                              .dtype = dtype,
                              .ld = shape.cols,
                              .transposed = is_transposed,
                              .region = {matrix, 0, is_transposed ? shape.cols : shape.rows, 0,
                                         is_transposed ? shape.rows : shape.cols}};
}

// Views a region, in the operation's coordinates, that is packed at `data`.
static struct mmul_view view_packed(const char *data, struct mmul_region region,
                                    enum mmul_dtype dtype, bool is_transposed) {
    return (struct mmul_view){.at = (void *)(uintptr_t)data,
                              .dtype = dtype,
                              .ld = is_transposed ? region.row_end - region.row_begin
                                                  : region.col_end - region.col_begin,
                              .transposed = is_transposed,
                              .region = region};
}

// Returns the part's units of matrix t. *before: number of the part's units in front of them.
static struct mmul_range find_units(const struct mmul_stage *stage,
                                    const struct mmul_block_owner *part, int64_t t,
                                    int64_t *before) {
    const int64_t units = mmul_problem_units(&stage->schedule->problem, stage->schedule->axis);
    const struct mmul_range in = {mmul_max(part->range.begin - t * units, 0),
                                  mmul_min(part->range.end - t * units, units)};
    *before = t * units + in.begin - part->range.begin;
    return in;
}

// Views the split operand, which is in a file.
static struct mmul_view view_split(const struct mmul_stage *stage,
                                   const struct mmul_block_owner *part, int64_t t) {
    const struct mmul_schedule *schedule = stage->schedule;
    const struct mmul_problem *p = &schedule->problem;
    const enum mmul_dtype dtype = mmul_problem_split_dtype(p, schedule->axis);
    const bool rows = schedule->axis == MMUL_ROWS,
               is_transposed = rows ? p->transpose_a : p->transpose_b;
    const int64_t matrix = rows ? mmul_problem_a_matrix(p, t) : mmul_problem_b_matrix(p, t);
    int64_t before;
    if (stage->product->mapped.split != NULL)
        return view_mapped(stage->product->mapped.split, rows ? p->a : p->b, matrix, dtype,
                           is_transposed);
    const struct mmul_range in = find_units(stage, part, t, &before);
    const struct mmul_region region = rows
                                          ? (struct mmul_region){matrix, in.begin, in.end, 0, p->k}
                                          : (struct mmul_region){matrix, 0, p->k, in.begin, in.end};
    return view_packed(part->pieces + before * p->k * (int64_t)mmul_dtype_bytes(dtype), region,
                       dtype, is_transposed);
}

// Views the whole operand, which is in a file or arrives in panels.
static struct mmul_view view_whole(const struct mmul_stage *stage,
                                   const struct mmul_block_owner *part, int64_t t) {
    const struct mmul_schedule *schedule = stage->schedule;
    const struct mmul_problem *p = &schedule->problem;
    const struct mmul_pass pass = part->pass;
    const enum mmul_dtype dtype = mmul_problem_whole_dtype(p, schedule->axis);
    const bool rows = schedule->axis == MMUL_ROWS,
               is_transposed = rows ? p->transpose_b : p->transpose_a;
    const int64_t matrix = mmul_problem_whole_matrix(p, schedule->axis, t);
    if (stage->product->mapped.whole != NULL)
        return view_mapped(stage->product->mapped.whole,
                           mmul_problem_whole_shape(p, schedule->axis), matrix, dtype,
                           is_transposed);
    const int64_t before = (matrix - pass.matrix_begin) * (pass.end - pass.begin) * p->k;
    const struct mmul_region region =
        rows ? (struct mmul_region){matrix, 0, p->k, pass.begin, pass.end}
             : (struct mmul_region){matrix, pass.begin, pass.end, 0, p->k};
    const char *slot = stage->memory + mmul_layout_panel(&stage->product->layout, pass.index);
    return view_packed(slot + before * (int64_t)mmul_dtype_bytes(dtype), region, dtype,
                       is_transposed);
}

static struct mmul_view view_c_in(const struct mmul_stage *stage,
                                  const struct mmul_block_owner *part, int64_t t) {
    const struct mmul_schedule *schedule = stage->schedule;
    const enum mmul_dtype dtype = mmul_problem_result_dtype(&schedule->problem);
    const int64_t width = mmul_problem_result_width(&schedule->problem, schedule->axis);
    int64_t before;
    if (stage->product->mapped.c_in != NULL)
        return view_mapped(stage->product->mapped.c_in, schedule->problem.c, t, dtype, false);
    const struct mmul_range in = find_units(stage, part, t, &before);
    const struct mmul_region region = schedule->axis == MMUL_ROWS
                                          ? (struct mmul_region){t, in.begin, in.end, 0, width}
                                          : (struct mmul_region){t, 0, width, in.begin, in.end};
    return view_packed(part->c_in + before * width * (int64_t)mmul_dtype_bytes(dtype), region,
                       dtype, false);
}

static struct mmul_view view_moved_rows(const struct mmul_block_owner *part, const char *data,
                                        int64_t cols, enum mmul_dtype dtype) {
    const struct mmul_stolen_rows *at = &part->brought;
    return view_packed(data, (struct mmul_region){0, at->row_begin, at->row_end, 0, cols}, dtype,
                       false);
}

// Views the result of a block. block->line is its first line among those of the pass.
static struct mmul_view view_c(const struct mmul_stage *stage, const struct mmul_block_owner *part,
                               const struct mmul_block *block) {
    const struct mmul_schedule *schedule = stage->schedule;
    const struct mmul_pass pass = part->pass;
    const int64_t t = block->at.matrix;
    int64_t ignored;
    if (part->brought.a == NULL && !mmul_place_is_file(stage->plan, stage->is.step->made))
        return mmul_block_result(stage, part, t);
    const enum mmul_dtype dtype = mmul_problem_result_dtype(&schedule->problem);
    if (part->brought.a != NULL)
        return view_moved_rows(part, part->brought.c, schedule->problem.c.cols, dtype);
    if (stage->product->mapped.c != NULL)
        return view_mapped(stage->product->mapped.c, schedule->problem.c, t, dtype, false);
    const bool rows = schedule->axis == MMUL_ROWS;
    const struct mmul_range in = find_units(stage, part, t, &ignored);
    const int64_t before =
        block->line - (rows ? block->at.row_begin : block->at.col_begin) + in.begin;
    const struct mmul_region region =
        rows ? (struct mmul_region){t, in.begin, in.end, pass.begin, pass.end}
             : (struct mmul_region){t, pass.begin, pass.end, in.begin, in.end};
    return view_packed(part->c +
                           before * (pass.end - pass.begin) * (int64_t)mmul_dtype_bytes(dtype),
                       region, dtype, false);
}

// -------------------------------------------------------------------------------------- operands

// Returns the matrix of a value that is the operand for matrix t of the result. Sizes of 1 repeat.
static int64_t find_operand_matrix(const struct mmul_stage *stage, int place, int64_t t) {
    const struct mmul_program_plan *plan = stage->plan;
    const struct mmul_shape have = mmul_place_value(plan, place)->shape,
                            made = mmul_program_shape(plan->program, stage->operation);
    const int64_t batch = have.batch == 1 ? 0 : t / made.depth,
                  depth = have.depth == 1 ? 0 : t % made.depth;
    return batch * have.depth + depth;
}

struct mmul_view mmul_block_operand(const struct mmul_stage *stage,
                                    const struct mmul_block_owner *part, int index, int64_t t) {
    const int place = stage->is.step->operands[index];
    if (part->brought.a != NULL && index == 0)
        return view_moved_rows(part, part->brought.a, stage->schedule->problem.k,
                               stage->schedule->problem.a_dtype);
    const bool is_split = index == (stage->axis == MMUL_ROWS ? 0 : 1);
    if (mmul_place_is_file(stage->plan, place) || (place == stage->places.spread && !is_split))
        return is_split ? view_split(stage, part, t) : view_whole(stage, part, t);
    return mmul_values_view(stage->rank_resources->values, place, part->rank,
                            find_operand_matrix(stage, place, t));
}

struct mmul_view mmul_block_result(const struct mmul_stage *stage,
                                   const struct mmul_block_owner *part, int64_t t) {
    return mmul_values_view(stage->rank_resources->values, stage->is.step->made, part->rank, t);
}

struct mmul_product mmul_block_product(const struct mmul_stage *stage,
                                       const struct mmul_block_owner *part,
                                       const struct mmul_block *block) {
    const struct mmul_region at = block->at;
    const struct mmul_scale scale = stage->operation->scale;
    const struct mmul_view z = view_c(stage, part, block);
    struct mmul_product product = {.m = at.row_end - at.row_begin,
                                   .n = at.col_end - at.col_begin,
                                   .k = block->inner_end - block->inner_begin,
                                   .alpha = scale.is_given ? scale.alpha : 1,
                                   .beta = scale.beta,
                                   .a_dtype = z.dtype,
                                   .b_dtype = z.dtype,
                                   .c = mmul_view_element(&z, at.row_begin, at.col_begin),
                                   .ldc = z.ld};
    if (product.beta != 0) {
        const struct mmul_view c_in = view_c_in(stage, part, at.matrix);
        product.c_in = mmul_view_element(&c_in, at.row_begin, at.col_begin);
        product.ldc_in = c_in.ld;
    }
    if (product.alpha == 0)
        return product;
    const struct mmul_view x = mmul_block_operand(stage, part, 0, at.matrix),
                           y = mmul_block_operand(stage, part, 1, at.matrix);
    product.transpose_a = x.transposed;
    product.transpose_b = y.transposed;
    product.a_dtype = x.dtype;
    product.b_dtype = y.dtype;
    product.a = mmul_view_element(&x, at.row_begin, block->inner_begin);
    product.lda = x.ld;
    product.b = mmul_view_element(&y, block->inner_begin, at.col_begin);
    product.ldb = y.ld;
    return product;
}

char *mmul_block_name(const struct mmul_stage *stage, struct mmul_region block,
                      char text[static MMUL_BLOCK_NAME_BYTES]) {
    const bool rows = stage->axis == MMUL_ROWS;
    const int length =
        snprintf(text, MMUL_BLOCK_NAME_BYTES, "%s %lld-%lld of matrix %lld",
                 rows ? "rows" : "columns", (long long)(rows ? block.row_begin : block.col_begin),
                 (long long)(rows ? block.row_end : block.col_end), (long long)block.matrix);
    if (!mmul_place_is_file(stage->plan, stage->is.step->made))
        snprintf(text + length, MMUL_BLOCK_NAME_BYTES - (size_t)length, " of '%.90s'",
                 stage->plan->program->values[stage->operation->result].name);
    return text;
}
