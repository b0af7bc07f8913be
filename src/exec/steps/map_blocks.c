// SPDX-License-Identifier: MIT
// Describes parts of operands by the steps between their elements: transposed, repeated or permuted
// operands.
#include "exec/steps/map_blocks.h"

#include <math.h>

#include "base/integer.h"
#include "base/status.h"
#include "exec/steps/map_check.h"
#include "exec/steps/rank_resources.h"
#include "exec/threads/compute_thread.h"
#include "model/dtype.h"
#include "model/matrix.h"

struct making {
    struct mmul_stage *stage;
    const struct mmul_block_owner *part; // owner of the block
    const struct mmul_program *program;
    const struct mmul_operation *operation;
    struct mmul_shape shape;        // shape of the result
    struct mmul_region block;       // region in the first matrix
    int64_t matrices;               // number of matrices from the first one on, with equal regions
    int64_t inner_begin, inner_end; // range of the reduced axis
    struct mmul_view result;        // view of the first matrix
    int64_t result_step;            // step to the next matrix
    struct mmul_host_map host;
};

static struct mmul_shape shape_of(const struct making *m, int operand) {
    return m->program->values[m->operation->operands[operand]].shape;
}

struct mmul_host_operand mmul_map_operand_from_view(const struct mmul_view *view, int64_t row,
                                                    int64_t rows, int64_t col, int64_t cols) {
    const struct mmul_region r = view->region;
    struct mmul_host_operand o = {.dtype = view->dtype,
                                  .row_step = view->transposed ? 1 : view->ld,
                                  .col_step = view->transposed ? view->ld : 1,
                                  .rows = rows,
                                  .cols = cols};
    if (r.row_end - r.row_begin == 1 && r.row_begin == 0)
        o.row_step = row = 0;
    if (r.col_end - r.col_begin == 1 && r.col_begin == 0)
        o.col_step = col = 0;
    o.at = mmul_view_element(view, row, col);
    return o;
}

struct mmul_host_operand mmul_map_operand_constant(const double *number, enum mmul_dtype dtype,
                                                   int64_t rows, int64_t cols) {
    if (dtype == MMUL_F64)
        return (struct mmul_host_operand){
            .at = number, .dtype = MMUL_F64, .rows = rows, .cols = cols};
    return (struct mmul_host_operand){.number = (float)*number};
}

// Returns a copy of `m` for `matrices` matrices from the t-th on.
static struct making select_matrices(const struct making *m, int64_t t, int64_t matrices) {
    struct making some = *m;
    some.block.matrix += t;
    some.matrices = matrices;
    some.result.at = mmul_dtype_advance(m->result.dtype, m->result.at, t * m->result_step);
    some.result.region.matrix += t;
    return some;
}

// ------------------------------------------------------------------------------------------ stacks

// Returns the matrix of an operand that belongs to matrix t of the result. Sizes of 1 repeat, and
// heads of a group in attention share one.
static int64_t find_operand_matrix(const struct making *m, int operand, int64_t t) {
    const struct mmul_shape have = shape_of(m, operand);
    const int64_t batch = have.batch == 1 ? 0 : t / m->shape.depth;
    return batch * have.depth + t % m->shape.depth / (m->shape.depth / have.depth);
}

static struct mmul_view view_operand(const struct making *m, int operand, int64_t t) {
    return mmul_values_view(m->stage->rank_resources->values, m->stage->is.step->operands[operand],
                            m->part->rank, find_operand_matrix(m, operand, t));
}

static int64_t count_elements_between(const struct mmul_view *view, const struct mmul_view *first) {
    return ((char *)view->at - (char *)first->at) / (int64_t)mmul_dtype_bytes(view->dtype);
}

static bool has_equal_region(struct mmul_region x, struct mmul_region y) {
    return x.row_begin == y.row_begin && x.row_end == y.row_end && x.col_begin == y.col_begin &&
           x.col_end == y.col_end;
}

// Finds the step between the matrices of an operand that the block depends on. Returns false if
// they are not equally spaced.
static bool find_stack(const struct making *m, int operand, struct mmul_stack *stack) {
    const struct mmul_shape have = shape_of(m, operand);
    const struct mmul_view first = view_operand(m, operand, m->block.matrix);
    const int64_t begin = find_operand_matrix(m, operand, m->block.matrix);
    int64_t step = 0;
    for (int64_t t = 1; t < m->matrices; t++) {
        const int64_t off = find_operand_matrix(m, operand, m->block.matrix + t) - begin;
        if (off == 0)
            continue;
        const struct mmul_view view = view_operand(m, operand, m->block.matrix + t);
        const int64_t behind = count_elements_between(&view, &first);
        step = step == 0 ? behind / off : step;
        if (behind != off * step || !has_equal_region(view.region, first.region))
            return false;
    }
    *stack = (struct mmul_stack){.batch_step = have.batch == 1 ? 0 : have.depth * step,
                                 .depth_step = step,
                                 .shared = m->shape.depth / have.depth};
    return true;
}

// Finds the steps of all operands. Copies and lookups find theirs themselves.
static bool find_stacks(struct making *m) {
    const enum mmul_operation_class class = mmul_operation_row(m->operation->kind)->class;
    if (class == MMUL_CLASS_OWN || class == MMUL_CLASS_COPY || class == MMUL_CLASS_LOOKUP)
        return true;
    for (int i = 0; i < m->operation->operand_count; i++)
        if (m->operation->operands[i] != MMUL_NUMBER &&
            !find_stack(m, i, &m->host.operands[i].stack))
            return false;
    return true;
}

// Sets rows [row, ..) and columns [col, ..) of an operand, and keeps its steps between matrices.
static void set_part(struct making *m, int operand, int64_t row, int64_t rows, int64_t col,
                     int64_t cols) {
    const struct mmul_view view = view_operand(m, operand, m->block.matrix);
    const struct mmul_stack stack = m->host.operands[operand].stack;
    m->host.operands[operand] = mmul_map_operand_from_view(&view, row, rows, col, cols);
    m->host.operands[operand].stack = stack;
}

static struct making begin_making(struct mmul_stage *stage, const struct mmul_block_owner *part,
                                  const struct mmul_block *block, int64_t matrices) {
    const struct mmul_program *program = stage->plan->program;
    const struct mmul_operation *o = &program->operations[stage->is.step->operation];
    struct making m = {.stage = stage,
                       .part = part,
                       .program = program,
                       .operation = o,
                       .shape = mmul_program_shape(program, o),
                       .block = block->at,
                       .matrices = matrices,
                       .inner_begin = block->inner_begin,
                       .inner_end = block->inner_end,
                       .result = mmul_block_result(stage, part, block->at.matrix),
                       .host.map.operand_count = o->operand_count};
    const struct mmul_view second =
        mmul_block_result(stage, part, block->at.matrix + (matrices > 1));
    m.result_step = count_elements_between(&second, &m.result);
    return m;
}

// Removes the sign of a NaN, which means nothing to a reader.
static double without_nan_sign(double id) {
    return isnan(id) ? fabs(id) : id;
}

static bool is_index(double id, int64_t count) {
    return id >= 0 && id < (double)count && id == (double)(int64_t)id;
}

// Rejects numbers that are not valid indices in an operand of indices. A lookup has its own check
// with a more precise error.
static enum mmul_status check_indices(const struct making *m, const struct mmul_host_map *host,
                                      struct mmul_error *err) {
    const struct mmul_operation_row *row = mmul_operation_row(m->operation->kind);
    struct mmul_operand_info infos[MMUL_OPERANDS];
    if (row->indices == 0 || row->class == MMUL_CLASS_LOOKUP)
        return MMUL_OK;
    const struct mmul_operation_call call =
        mmul_program_describe_call(m->program, m->operation, infos);
    const int64_t limit = mmul_operation_index_limit(m->operation->kind, &call);
    const struct mmul_host_operand *o = &host->operands[row->indices - 1];
    for (int64_t t = 0; t < m->matrices; t++) {
        const void *at =
            mmul_dtype_advance(o->dtype, o->at, mmul_stack_offset(&host->map, o->stack, t));
        for (int64_t e = 0; e < o->rows * o->cols; e++) {
            const double id = mmul_dtype_get_real(
                o->dtype, at, e / o->cols * o->row_step + e % o->cols * o->col_step);
            if (!is_index(id, limit))
                return mmul_fail(
                    err, MMUL_ERR_DATA,
                    "'%s' contains %g, but %s needs whole numbers from 0 to %lld as indices",
                    infos[row->indices - 1].name, without_nan_sign(id), row->name,
                    (long long)(limit - 1));
        }
    }
    return MMUL_OK;
}

// Makes a region of the block's matrices from the operands.
static enum mmul_status run_map(const struct making *m, struct mmul_region to,
                                struct mmul_error *err) {
    struct mmul_host_map host = m->host;
    host.map.kind = m->operation->kind;
    host.map.with = &m->operation->with;
    host.map.shape = m->shape;
    host.map.rows = to.row_end - to.row_begin;
    host.map.cols = to.col_end - to.col_begin;
    host.map.row = to.row_begin;
    host.map.col = to.col_begin;
    host.map.matrix = m->block.matrix;
    host.map.matrices = m->matrices;
    host.map.result_step = m->result_step;
    host.result = mmul_view_element(&m->result, to.row_begin, to.col_begin);
    host.dtype = m->result.dtype;
    host.ld = m->result.ld;
    char place[192], more[32] = "";
    if (check_indices(m, &host, err) != MMUL_OK)
        return err->status;
    if (m->matrices > 1)
        snprintf(more, sizeof more, " and %lld more", (long long)(m->matrices - 1));
    snprintf(place, sizeof place, "rows %lld-%lld of matrix %lld%s of '%.90s'",
             (long long)to.row_begin, (long long)to.row_end, (long long)m->block.matrix, more,
             m->program->values[m->operation->result].name);
    return mmul_stage_run_map(m->stage, m->operation, &host, place, err);
}

// ------------------------------------------------------------------------- elements, rows, axes

// Scales a mean over a part of the axis to a summand of the whole mean. The device's copy still has
// the old mean, so it is dropped.
static void scale_mean(const struct making *m, double share) {
    const struct mmul_region b = m->block;
    for (int64_t i = b.row_begin; i < b.row_end; i++)
        for (int64_t j = b.col_begin; j < b.col_end; j++) {
            void *mean = mmul_view_element(&m->result, i, j);
            if (m->result.dtype == MMUL_F64)
                *(double *)mean *= share;
            else
                *(float *)mean = (float)((double)*(float *)mean * share);
        }
    mmul_worker_invalidate_memory(&m->stage->rank_resources->worker,
                                  mmul_view_element(&m->result, b.row_begin, b.col_begin),
                                  mmul_view_element(&m->result, b.row_end - 1, b.col_end));
}

// Reduces a whole row or column, or the rank's part of it.
static enum mmul_status make_reduction(struct making *m, struct mmul_error *err) {
    const bool down = m->operation->with.axis == -2;
    const struct mmul_region b = m->block;
    const struct mmul_shape have = shape_of(m, 0);
    const int64_t inner = m->inner_end - m->inner_begin, all = down ? have.rows : have.cols;
    if (m->operation->kind == MMUL_SUM_AT)
        set_part(m, 1, m->inner_begin, inner, 0, 1);
    if (down)
        set_part(m, 0, m->inner_begin, inner, b.col_begin, b.col_end - b.col_begin);
    else
        set_part(m, 0, b.row_begin, b.row_end - b.row_begin, m->inner_begin, inner);
    enum mmul_status status = run_map(m, b, err);
    if (status != MMUL_OK || m->operation->kind != MMUL_MEAN || inner == all)
        return status;
    for (int64_t t = 0; t < m->matrices; t++) {
        const struct making one = select_matrices(m, t, 1);
        scale_mean(&one, (double)inner / (double)all);
    }
    return MMUL_OK;
}

static enum mmul_status make_alike(struct making *m, struct mmul_error *err) {
    const struct mmul_operation_row *row = mmul_operation_row(m->operation->kind);
    const struct mmul_region b = m->block;
    for (int i = 0; i < m->operation->operand_count; i++) {
        if (m->operation->operands[i] == MMUL_NUMBER) {
            m->host.operands[i] =
                mmul_map_operand_constant(&m->operation->with.numbers[i], m->result.dtype,
                                          b.row_end - b.row_begin, b.col_end - b.col_begin);
            continue;
        }
        const struct mmul_shape have = shape_of(m, i);
        const bool all = row->class != MMUL_CLASS_ELEMENTS; // all columns
        const bool is_vector = row->class == MMUL_CLASS_ROWS && i >= row->by_row;
        set_part(m, i, b.row_begin, is_vector ? 1 : b.row_end - b.row_begin, all ? 0 : b.col_begin,
                 all ? have.cols : b.col_end - b.col_begin);
    }
    return run_map(m, m->block, err);
}

// -------------------------------------------------------------------------------------- generated

// Generates elements of the result from their positions, independent of the rank. Doubles are the
// floats of their places.
static void generate_run(const struct making *m, int64_t begin, int64_t end, void *to) {
    enum { MOST = 1024 };
    const struct mmul_operation *o = m->operation;
    float made[MOST];
    double *doubles = to;
    if (m->result.dtype == MMUL_F32) {
        mmul_generate(o->generator, o->seed, m->shape, begin, end, to);
        return;
    }
    for (int64_t e = begin, next; e < end; e = next) {
        next = mmul_min(e + MOST, end);
        mmul_generate(o->generator, o->seed, m->shape, e, next, made);
        for (int64_t i = e; i < next; i++)
            doubles[i - begin] = (double)made[i - e];
    }
}

// Rows that each thread of the rank generates.
struct generating {
    const struct making *m;
    int64_t rows_each;
};

static void generate_part(void *context, int index) {
    const struct generating *g = context;
    const struct making *m = g->m;
    const struct mmul_region b = m->block;
    int64_t begin = b.row_begin + index * g->rows_each;
    int64_t end = mmul_min(begin + g->rows_each, b.row_end);
    for (int64_t i = begin; i < end; i++) {
        int64_t first = (b.matrix * m->shape.rows + i) * m->shape.cols + b.col_begin;
        generate_run(m, first, first + b.col_end - b.col_begin,
                     mmul_view_element(&m->result, i, b.col_begin));
    }
}

static void generate_block(const struct making *m) {
    enum { ROWS_LEAST = 16 };
    const int64_t rows = m->block.row_end - m->block.row_begin;
    const int64_t parts =
        mmul_min(m->stage->rank_resources->context->fallback_threads, rows / ROWS_LEAST);
    struct generating g = {m, parts > 1 ? (rows + parts - 1) / parts : rows};
    if (parts > 1)
        mmul_helper_threads_run((int)parts, generate_part, &g);
    else
        generate_part(&g, 0);
}

// ----------------------------------------------------------------------------------------- copies

// Whole operand as four sizes and steps, including those between matrices. Its element `begin` is
// at `at`. An operand that is split by rows is contiguous. A transposed one consists of whole
// matrices.
struct whole {
    const void *at;
    enum mmul_dtype dtype;
    int64_t begin;
    int64_t sizes[4], steps[4];
};

static const void *find_element(const struct whole *x, int64_t element) {
    return mmul_dtype_advance(x->dtype, x->at, element - x->begin);
}

static struct whole describe_whole(const struct making *m, int operand) {
    const struct mmul_values *values = m->stage->rank_resources->values;
    const int place = m->stage->is.step->operands[operand];
    const struct mmul_shape s = shape_of(m, operand);
    const struct mmul_part_range held =
        mmul_placement_part(&values->plan->places[place].placement, s, m->part->rank);
    const struct mmul_view view = mmul_values_view(values, place, m->part->rank, held.matrix_begin);
    struct whole x = {.at = view.at,
                      .dtype = view.dtype,
                      .sizes = {s.batch, s.depth, s.rows, s.cols},
                      .steps = {s.depth * s.rows * s.cols, s.rows * s.cols,
                                view.transposed ? 1 : s.cols, view.transposed ? s.rows : 1}};
    x.begin = held.matrix_begin * x.steps[1] + view.region.row_begin * x.steps[2] +
              view.region.col_begin * x.steps[3];
    return x;
}

// Copies to a region of the block's matrices, from `element` of the operand on.
static enum mmul_status copy_region(struct making *m, struct mmul_region to, const struct whole *x,
                                    int64_t element, const int64_t steps[4],
                                    struct mmul_error *err) {
    const int64_t rows = to.row_end - to.row_begin, cols = to.col_end - to.col_begin;
    m->host.operands[0] = (struct mmul_host_operand){.at = find_element(x, element),
                                                     .dtype = x->dtype,
                                                     .row_step = steps[2],
                                                     .col_step = steps[3],
                                                     .rows = rows,
                                                     .cols = cols,
                                                     .stack = {steps[0], steps[1], 1}};
    m->host.map.operand_count = 1;
    return run_map(m, to, err);
}

// Copies with size s of the result from size axes[s] of the operand. A slice begins at `begin` and
// has its own steps.
static enum mmul_status copy_axes(struct making *m, const int axes[4],
                                  const struct mmul_parameters *slice, struct mmul_error *err) {
    const struct whole x = describe_whole(m, 0);
    const struct mmul_region b = m->block;
    const int64_t at[4] = {b.matrix / m->shape.depth, b.matrix % m->shape.depth, b.row_begin,
                           b.col_begin};
    int64_t from = 0, steps[4];
    for (int s = 0; s < 4; s++) {
        const int64_t each = x.steps[axes[s]];
        steps[s] = slice != NULL ? each * mmul_slice_step(slice, s) : each;
        from += at[s] * steps[s] + (slice != NULL ? slice->begin[s] * each : 0);
    }
    return copy_region(m, b, &x, from, steps, err);
}

// Copies the block's intersection with one joined operand, which begins at `begin` of the axis.
static enum mmul_status copy_part(struct making *m, const struct whole *x, int axis, int64_t begin,
                                  struct mmul_error *err) {
    const struct mmul_region b = m->block;
    int64_t from[4] = {b.matrix / m->shape.depth, b.matrix % m->shape.depth, b.row_begin,
                       b.col_begin};
    int64_t to[4] = {from[0] + 1, from[1] + 1, b.row_end, b.col_end};
    from[axis] = mmul_max(from[axis], begin);
    to[axis] = mmul_min(to[axis], begin + x->sizes[axis]);
    int64_t at = 0;
    for (int s = 0; s < 4; s++) {
        if (from[s] >= to[s])
            return MMUL_OK;
        at += (from[s] - (s == axis ? begin : 0)) * x->steps[s];
    }
    const struct mmul_region part = {b.matrix, from[2], to[2], from[3], to[3]};
    return copy_region(m, part, x, at, x->steps, err);
}

// Copies from one joined operand, matrix by matrix if the axis joins matrices.
static enum mmul_status copy_joined(struct making *m, int which, int axis, int64_t begin,
                                    struct mmul_error *err) {
    const struct whole x = describe_whole(m, which);
    enum mmul_status status = MMUL_OK;
    if (axis > 1)
        return copy_part(m, &x, axis, begin, err);
    for (int64_t t = 0; status == MMUL_OK && t < m->matrices; t++) {
        struct making one = select_matrices(m, t, 1);
        status = copy_part(&one, &x, axis, begin, err);
    }
    return status;
}

// Reshapes a transposed operand, run by run.
static enum mmul_status reshape_transposed(struct making *m, const struct whole *x,
                                           struct mmul_error *err) {
    const struct mmul_region b = m->block;
    const int64_t cols = m->shape.cols, matrix = x->sizes[2] * x->sizes[3];
    enum mmul_status status = MMUL_OK;
    for (int64_t i = b.row_begin; i < b.row_end; i++)
        for (int64_t j = b.col_begin, n; status == MMUL_OK && j < b.col_end; j += n) {
            const int64_t at = (b.matrix * m->shape.rows + i) * cols + j, in = at % matrix;
            const int64_t down = in / x->sizes[3], along = in % x->sizes[3];
            n = mmul_min(b.col_end - j, x->sizes[3] - along);
            status = copy_region(m, (struct mmul_region){b.matrix, i, i + 1, j, j + n}, x,
                                 at / matrix * matrix + down * x->steps[2] + along * x->steps[3],
                                 (const int64_t[]){0, 0, 0, x->steps[3]}, err);
        }
    return status;
}

// Copies all elements in C order.
static enum mmul_status reshape(struct making *m, struct mmul_error *err) {
    const struct whole x = describe_whole(m, 0);
    const struct mmul_region b = m->block;
    const int64_t rows = m->shape.rows, cols = m->shape.cols;
    const int64_t begin = (b.matrix * rows + b.row_begin) * cols + b.col_begin;
    const int64_t steps[] = {m->shape.depth * rows * cols, rows * cols, cols, 1};
    enum mmul_status status = MMUL_OK;
    if (x.steps[3] == 1 && x.steps[2] == x.sizes[3])
        return copy_region(m, b, &x, begin, steps, err);
    for (int64_t t = 0; status == MMUL_OK && t < m->matrices; t++) {
        struct making one = select_matrices(m, t, 1);
        status = reshape_transposed(&one, &x, err);
    }
    return status;
}

static enum mmul_status make_copy(struct making *m, struct mmul_error *err) {
    static const int same[] = {0, 1, 2, 3};
    const struct mmul_parameters *with = &m->operation->with;
    switch (m->operation->kind) {
    case MMUL_SLICE:
        return copy_axes(m, same, with, err);
    case MMUL_PERMUTE:
        return copy_axes(m, with->axes, NULL, err);
    case MMUL_CONCAT: {
        const int axis = with->axis + 4;
        enum mmul_status status = copy_joined(m, 0, axis, 0, err);
        return status != MMUL_OK ? status
                                 : copy_joined(m, 1, axis, describe_whole(m, 0).sizes[axis], err);
    }
    default:
        return reshape(m, err);
    }
}

// -------------------------------------------------------------------------- lookups, attention

enum mmul_status mmul_map_check_row_indices(const void *ids, enum mmul_dtype dtype, int64_t step,
                                            int64_t count, const struct mmul_value *table,
                                            struct mmul_error *err) {
    const int64_t rows = table->shape.rows;
    for (int64_t i = 0; i < count; i++) {
        const double id = mmul_dtype_get_real(dtype, ids, i * step);
        if (is_index(id, rows))
            continue;
        return mmul_fail(err, MMUL_ERR_DATA, "cannot read row %g of '%s', which has %lld rows",
                         without_nan_sign(id), table->name, (long long)rows);
    }
    return MMUL_OK;
}

static enum mmul_status make_lookup(struct making *m, struct mmul_error *err) {
    const struct whole table = describe_whole(m, 0), ids = describe_whole(m, 1);
    const struct mmul_region b = m->block;
    const int64_t rows = b.row_end - b.row_begin;
    const struct mmul_value *value = &m->program->values[m->operation->operands[0]];
    const void *first = NULL;
    for (int64_t t = m->matrices - 1; t >= 0; t--) {
        const int64_t matrix = (b.matrix + t) / ids.sizes[2], row = (b.matrix + t) % ids.sizes[2];
        first = find_element(&ids, matrix * ids.steps[1] + row * ids.steps[2] +
                                       b.row_begin * ids.steps[3]);
        if (mmul_map_check_row_indices(first, ids.dtype, ids.steps[3], rows, value, err) != MMUL_OK)
            return err->status;
    }
    m->host.operands[0] = (struct mmul_host_operand){.at = table.at,
                                                     .dtype = table.dtype,
                                                     .row_step = table.steps[2],
                                                     .col_step = table.steps[3],
                                                     .rows = table.sizes[2],
                                                     .cols = table.sizes[3]};
    m->host.operands[1] = (struct mmul_host_operand){.at = first,
                                                     .dtype = ids.dtype,
                                                     .row_step = 0,
                                                     .col_step = ids.steps[3],
                                                     .rows = 1,
                                                     .cols = rows,
                                                     .stack = {ids.steps[1], ids.steps[2], 1}};
    return run_map(m, m->block, err);
}

static enum mmul_status make_attention(struct making *m, struct mmul_error *err) {
    const struct mmul_operation_row *row = mmul_operation_row(m->operation->kind);
    const struct mmul_region b = m->block;
    const int64_t rows = b.row_end - b.row_begin;
    for (int i = 0; i < m->operation->operand_count; i++) {
        const bool by_row = row->parts[i] == 'r', by_column = row->parts[i] == 'i';
        struct mmul_shape have = shape_of(m, i);
        if (i >= row->least) { // the mask, as if it did not repeat
            have.rows = shape_of(m, 0).rows;
            have.cols = shape_of(m, 1).rows;
        }
        set_part(m, i, by_row ? b.row_begin : 0, by_row ? rows : have.rows,
                 by_column ? b.row_begin : 0, by_column ? rows : have.cols);
    }
    return run_map(m, m->block, err);
}

// ----------------------------------------------------------------------------------------- blocks

static enum mmul_status make_block(struct making *m, struct mmul_error *err) {
    switch (mmul_operation_row(m->operation->kind)->class) {
    case MMUL_CLASS_OWN:
        for (int64_t t = 0; t < m->matrices; t++) {
            const struct making one = select_matrices(m, t, 1);
            generate_block(&one);
        }
        return MMUL_OK;
    case MMUL_CLASS_REDUCE:
        return make_reduction(m, err);
    case MMUL_CLASS_COPY:
        return make_copy(m, err);
    case MMUL_CLASS_LOOKUP:
        return make_lookup(m, err);
    case MMUL_CLASS_ATTENTION:
        return make_attention(m, err);
    default:
        return make_alike(m, err);
    }
}

enum mmul_status mmul_map_make_block(struct mmul_stage *stage, const struct mmul_block_owner *part,
                                     const struct mmul_block *block, int64_t matrices,
                                     struct mmul_error *err) {
    struct making m = begin_making(stage, part, block, matrices);
    enum mmul_status status = MMUL_OK;
    if (find_stacks(&m))
        return make_block(&m, err);
    for (int64_t t = 0; status == MMUL_OK && t < matrices; t++) {
        struct making one = select_matrices(&m, t, 1);
        status = make_block(&one, err);
    }
    return status;
}
