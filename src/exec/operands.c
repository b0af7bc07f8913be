// SPDX-License-Identifier: MIT
// Addresses and row distances. A mapped matrix keeps its file's rows; what is in the segment is
// packed: the pieces of a rank segment after segment, a panel matrix after matrix, a block of C
// segment after segment.
#include "exec/operands.h"

struct place {
    const char *data;
    int64_t ld;
};

// A rectangle of a stack that is mapped at `data`.
static struct place mapped_place(const char *data, struct mmul_shape shape,
                                 struct mmul_region region, size_t each) {
    int64_t row = region.matrix * shape.rows + region.row_begin;
    int64_t element = row * shape.cols + region.col_begin;
    return (struct place){data + element * (int64_t)each, shape.cols};
}

static int64_t region_columns(struct mmul_region region) {
    return region.col_end - region.col_begin;
}

// The rank's units of `segment` of the split operand.
static struct place piece_place(const struct mmul_run *run, struct mmul_step step,
                                struct mmul_segment segment) {
    const struct mmul_plan *plan = run->plan;
    const struct mmul_problem *p = &plan->problem;
    int rank = run->context->comm->rank;
    size_t each = mmul_dtype_bytes(mmul_problem_split_dtype(p, plan->axis));
    struct mmul_region region = mmul_segment_operand(p, plan->axis, segment);
    if (run->mapped.split != NULL)
        return mapped_place(run->mapped.split, plan->axis == MMUL_ROWS ? p->a : p->b, region, each);
    struct mmul_range part = mmul_schedule_part(plan, rank, step.round);
    int64_t unit = segment.matrix * mmul_problem_units(p, plan->axis) + segment.begin - part.begin;
    unit += mmul_layout_units_before(&run->layout, rank, step.round);
    const char *lane = run->segment.data + mmul_layout_pieces(&run->layout, step.round);
    return (struct place){lane + unit * p->k * (int64_t)each, region_columns(region)};
}

static struct place panel_place(const struct mmul_run *run, struct mmul_step step,
                                struct mmul_segment segment) {
    const struct mmul_plan *plan = run->plan;
    const struct mmul_problem *p = &plan->problem;
    size_t each = mmul_dtype_bytes(mmul_problem_whole_dtype(p, plan->axis));
    int64_t matrix = mmul_problem_whole_matrix(p, plan->axis, segment.matrix);
    struct mmul_region region = mmul_step_panel(plan, step, matrix);
    if (run->mapped.whole != NULL)
        return mapped_place(run->mapped.whole, mmul_problem_whole_shape(p, plan->axis), region,
                            each);
    int64_t before = (matrix - step.matrix_begin) * (step.end - step.begin) * p->k;
    const char *slot = run->segment.data + mmul_layout_panel(&run->layout, step.index);
    return (struct place){slot + before * (int64_t)each, region_columns(region)};
}

// C_in lies by whole rounds: its rows (or columns) are full, the step takes a stretch of each.
static struct place c_in_place(const struct mmul_run *run, struct mmul_step step,
                               struct mmul_segment segment) {
    const struct mmul_plan *plan = run->plan;
    const struct mmul_problem *p = &plan->problem;
    int rank = run->context->comm->rank;
    struct mmul_region region = mmul_step_result(plan, step, segment);
    if (run->mapped.c_in != NULL)
        return mapped_place(run->mapped.c_in, p->c, region, sizeof(float));
    struct mmul_range part = mmul_schedule_part(plan, rank, step.round);
    int64_t unit = segment.matrix * mmul_problem_units(p, plan->axis) + segment.begin - part.begin;
    unit += mmul_layout_units_before(&run->layout, rank, step.round);
    int64_t width = mmul_problem_result_width(p, plan->axis);
    int64_t ld = plan->axis == MMUL_ROWS ? width : segment.end - segment.begin;
    int64_t element = unit * width + step.begin * (plan->axis == MMUL_ROWS ? 1 : ld);
    const char *lane = run->segment.data + mmul_layout_c_in(&run->layout, step.round);
    return (struct place){lane + element * (int64_t)sizeof(float), ld};
}

static struct place c_place(const struct mmul_run *run, struct mmul_step step,
                            struct mmul_segment segment, int64_t step_offset) {
    const struct mmul_plan *plan = run->plan;
    struct mmul_region region = mmul_step_result(plan, step, segment);
    if (run->mapped.c != NULL)
        return mapped_place(run->mapped.c, plan->problem.c, region, sizeof(float));
    int rank = run->context->comm->rank;
    int64_t unit = mmul_layout_step_units_before(&run->layout, rank, step) + step_offset;
    const char *slot = run->segment.data + mmul_layout_result(&run->layout, step.index);
    return (struct place){slot + unit * (step.end - step.begin) * (int64_t)sizeof(float),
                          region_columns(region)};
}

struct mmul_product mmul_run_product(const struct mmul_run *run, struct mmul_step step,
                                     struct mmul_segment segment, int64_t step_offset) {
    const struct mmul_problem *p = &run->plan->problem;
    bool rows = run->plan->axis == MMUL_ROWS;
    int64_t units = segment.end - segment.begin, width = step.end - step.begin;
    struct place c = c_place(run, step, segment, step_offset);
    struct mmul_product product = {.transpose_a = p->transpose_a,
                                   .transpose_b = p->transpose_b,
                                   .m = rows ? units : width,
                                   .n = rows ? width : units,
                                   .k = p->k,
                                   .alpha = p->alpha,
                                   .beta = p->beta,
                                   .a_dtype = p->a_dtype,
                                   .b_dtype = p->b_dtype,
                                   .c = (float *)(uintptr_t)c.data,
                                   .ldc = c.ld};
    if (p->beta != 0) {
        struct place c_in = c_in_place(run, step, segment);
        product.c_in = (const float *)(const void *)c_in.data;
        product.ldc_in = c_in.ld;
    }
    if (p->alpha != 0) {
        struct place piece = piece_place(run, step, segment);
        struct place panel = panel_place(run, step, segment);
        product.a = rows ? piece.data : panel.data;
        product.lda = rows ? piece.ld : panel.ld;
        product.b = rows ? panel.data : piece.data;
        product.ldb = rows ? panel.ld : piece.ld;
    }
    return product;
}
