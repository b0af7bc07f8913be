// SPDX-License-Identifier: MIT
// Addresses and row distances. A mapped matrix keeps its file's rows, a value those of its part; what
// is in the stage's memory is packed: the pieces of a rank stretch after stretch, a panel matrix
// after matrix, a block of C stretch after stretch.
#include "exec/products/operands.h"

#include "exec/products/product.h"
#include "exec/steps/site.h"

struct place {
    const char *data;
    int64_t ld;
    bool transposed;
};

// Where a rectangle of a value begins, in what a rank has of it.
static struct place value_place(const struct mmul_stage *stage, int value_at, int rank,
                                struct mmul_region region) {
    struct mmul_view view = mmul_values_view(stage->site->values, value_at, rank, region.matrix);
    return (struct place){
        .data = (const char *)mmul_view_element(&view, region.row_begin, region.col_begin),
        .ld = view.ld,
        .transposed = view.transposed};
}

// A rectangle of a stack that is mapped at `data`.
static struct place mapped_place(const char *data, struct mmul_shape shape,
                                 struct mmul_region region, size_t each) {
    int64_t row = region.matrix * shape.rows + region.row_begin;
    int64_t element = row * shape.cols + region.col_begin;
    return (struct place){.data = data + element * (int64_t)each, .ld = shape.cols};
}

static int64_t region_columns(struct mmul_region region) {
    return region.col_end - region.col_begin;
}

struct mmul_part mmul_stage_part(const struct mmul_stage *stage, int rank, struct mmul_step step) {
    const struct mmul_plan *plan = stage->is.plan;
    const struct mmul_problem *p = &plan->problem;
    const struct mmul_layout *l = &stage->product->layout;
    struct mmul_part part = {.rank = rank, .range = mmul_schedule_part(plan, rank, step.round)};
    int64_t before = mmul_layout_units_before(l, rank, step.round);
    int64_t width = mmul_problem_result_width(p, plan->axis);
    int64_t each = (int64_t)mmul_dtype_bytes(mmul_problem_split_dtype(p, plan->axis));
    if (l->node->piece_lanes > 0) {
        const char *pieces = stage->memory + mmul_layout_pieces(l, step.round);
        const char *c_in = stage->memory + mmul_layout_c_in(l, step.round);
        part.pieces = pieces + before * p->k * each;
        part.c_in = c_in + before * width * mmul_problem_result_each(p);
    }
    if (l->node->result_slots > 0)
        part.c = stage->memory + mmul_layout_result(l, step.index) +
                 mmul_layout_step_units_before(l, rank, step) * (step.end - step.begin) *
                     mmul_problem_result_each(p);
    return part;
}

// Units of the part before the stretch.
static int64_t units_before(const struct mmul_stage *stage, const struct mmul_part *part,
                            struct mmul_stretch stretch) {
    return stretch.matrix * mmul_problem_units(&stage->is.plan->problem, stage->is.plan->axis) +
           stretch.begin - part->range.begin;
}

static struct place piece_place(const struct mmul_stage *stage, const struct mmul_part *part,
                                struct mmul_stretch stretch) {
    const struct mmul_plan *plan = stage->is.plan;
    const struct mmul_problem *p = &plan->problem;
    size_t each = mmul_dtype_bytes(mmul_problem_split_dtype(p, plan->axis));
    struct mmul_region region = mmul_stretch_operand(p, plan->axis, stretch);
    if (stage->is.places.split >= 0)
        return value_place(stage, stage->is.places.split, part->rank, region);
    if (stage->product->mapped.split != NULL)
        return mapped_place(stage->product->mapped.split, plan->axis == MMUL_ROWS ? p->a : p->b,
                            region, each);
    return (struct place){.data = part->pieces +
                                  units_before(stage, part, stretch) * p->k * (int64_t)each,
                          .ld = region_columns(region)};
}

static struct place panel_place(const struct mmul_stage *stage, struct mmul_step step,
                                struct mmul_stretch stretch) {
    const struct mmul_plan *plan = stage->is.plan;
    const struct mmul_problem *p = &plan->problem;
    size_t each = mmul_dtype_bytes(mmul_problem_whole_dtype(p, plan->axis));
    int64_t matrix = mmul_problem_whole_matrix(p, plan->axis, stretch.matrix);
    struct mmul_region region = mmul_step_panel(plan, step, matrix);
    if (stage->is.places.whole >= 0)
        return value_place(stage, stage->is.places.whole, stage->site->context->comm->rank, region);
    if (stage->product->mapped.whole != NULL)
        return mapped_place(stage->product->mapped.whole, mmul_problem_whole_shape(p, plan->axis),
                            region, each);
    int64_t before = (matrix - step.matrix_begin) * (step.end - step.begin) * p->k;
    const char *slot = stage->memory + mmul_layout_panel(&stage->product->layout, step.index);
    return (struct place){.data = slot + before * (int64_t)each, .ld = region_columns(region)};
}

// In the stage's memory it is full in the other axis: the step takes a part of each row, or some rows.
static struct place c_in_place(const struct mmul_stage *stage, const struct mmul_part *part,
                               struct mmul_step step, struct mmul_stretch stretch) {
    bool rows = stage->is.plan->axis == MMUL_ROWS;
    int64_t width = mmul_problem_result_width(&stage->is.plan->problem, stage->is.plan->axis);
    int64_t ld = rows ? width : stretch.end - stretch.begin;
    int64_t element = units_before(stage, part, stretch) * width + step.begin * (rows ? 1 : ld);
    int64_t each = mmul_problem_result_each(&stage->is.plan->problem);
    if (stage->product->mapped.c_in == NULL)
        return (struct place){.data = part->c_in + element * each, .ld = ld};
    return mapped_place(stage->product->mapped.c_in, stage->is.plan->problem.c,
                        mmul_step_result(stage->is.plan, step, stretch), (size_t)each);
}

static struct place c_place(const struct mmul_stage *stage, const struct mmul_part *part,
                            struct mmul_step step, struct mmul_stretch stretch,
                            int64_t step_offset) {
    struct mmul_region region = mmul_step_result(stage->is.plan, step, stretch);
    int64_t each = mmul_problem_result_each(&stage->is.plan->problem);
    if (stage->is.places.c >= 0)
        return value_place(stage, stage->is.places.c, part->rank, region);
    if (stage->product->mapped.c != NULL)
        return mapped_place(stage->product->mapped.c, stage->is.plan->problem.c, region,
                            (size_t)each);
    return (struct place){.data = part->c + step_offset * (step.end - step.begin) * each,
                          .ld = region_columns(region)};
}

struct mmul_product mmul_part_product(const struct mmul_stage *stage, const struct mmul_part *part,
                                      struct mmul_step step, struct mmul_stretch stretch,
                                      int64_t step_offset) {
    const struct mmul_problem *p = &stage->is.plan->problem;
    bool rows = stage->is.plan->axis == MMUL_ROWS;
    int64_t units = stretch.end - stretch.begin, width = step.end - step.begin;
    struct place c = c_place(stage, part, step, stretch, step_offset);
    struct mmul_product product = {.transpose_a = p->transpose_a,
                                   .transpose_b = p->transpose_b,
                                   .m = rows ? units : width,
                                   .n = rows ? width : units,
                                   .k = p->k,
                                   .alpha = p->alpha,
                                   .beta = p->beta,
                                   .a_dtype = p->a_dtype,
                                   .b_dtype = p->b_dtype,
                                   .c = (void *)(uintptr_t)c.data,
                                   .ldc = c.ld};
    if (p->beta != 0) {
        struct place c_in = c_in_place(stage, part, step, stretch);
        product.c_in = c_in.data;
        product.ldc_in = c_in.ld;
    }
    if (p->alpha != 0) {
        struct place piece = piece_place(stage, part, stretch);
        struct place panel = panel_place(stage, step, stretch);
        const struct place a = rows ? piece : panel, b = rows ? panel : piece;
        product.a = a.data;
        product.lda = a.ld;
        product.transpose_a ^= a.transposed;
        product.b = b.data;
        product.ldb = b.ld;
        product.transpose_b ^= b.transposed;
    }
    return product;
}
