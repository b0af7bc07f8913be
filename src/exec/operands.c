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

struct mmul_part mmul_run_part(const struct mmul_run *run, int rank, struct mmul_step step) {
    const struct mmul_plan *plan = run->plan;
    const struct mmul_problem *p = &plan->problem;
    const struct mmul_layout *l = &run->layout;
    struct mmul_part part = {.range = mmul_schedule_part(plan, rank, step.round)};
    int64_t before = mmul_layout_units_before(l, rank, step.round);
    int64_t width = mmul_problem_result_width(p, plan->axis);
    int64_t each = (int64_t)mmul_dtype_bytes(mmul_problem_split_dtype(p, plan->axis));
    if (l->node->piece_lanes > 0) {
        const char *pieces = run->segment.data + mmul_layout_pieces(l, step.round);
        const char *c_in = run->segment.data + mmul_layout_c_in(l, step.round);
        part.pieces = pieces + before * p->k * each;
        part.c_in = c_in + before * width * (int64_t)sizeof(float);
    }
    if (l->node->result_slots > 0)
        part.c = run->segment.data + mmul_layout_result(l, step.index) +
                 mmul_layout_step_units_before(l, rank, step) * (step.end - step.begin) *
                     (int64_t)sizeof(float);
    return part;
}

// Units of the part before the segment.
static int64_t units_before(const struct mmul_run *run, const struct mmul_part *part,
                            struct mmul_segment segment) {
    return segment.matrix * mmul_problem_units(&run->plan->problem, run->plan->axis) +
           segment.begin - part->range.begin;
}

static struct place piece_place(const struct mmul_run *run, const struct mmul_part *part,
                                struct mmul_segment segment) {
    const struct mmul_plan *plan = run->plan;
    const struct mmul_problem *p = &plan->problem;
    size_t each = mmul_dtype_bytes(mmul_problem_split_dtype(p, plan->axis));
    struct mmul_region region = mmul_segment_operand(p, plan->axis, segment);
    if (run->mapped.split != NULL)
        return mapped_place(run->mapped.split, plan->axis == MMUL_ROWS ? p->a : p->b, region, each);
    return (struct place){part->pieces + units_before(run, part, segment) * p->k * (int64_t)each,
                          region_columns(region)};
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

// In the segment it is full in the other axis: the step takes a stretch of each row, or some rows.
static struct place c_in_place(const struct mmul_run *run, const struct mmul_part *part,
                               struct mmul_step step, struct mmul_segment segment) {
    bool rows = run->plan->axis == MMUL_ROWS;
    int64_t width = mmul_problem_result_width(&run->plan->problem, run->plan->axis);
    int64_t ld = rows ? width : segment.end - segment.begin;
    int64_t element = units_before(run, part, segment) * width + step.begin * (rows ? 1 : ld);
    if (run->mapped.c_in == NULL)
        return (struct place){part->c_in + element * (int64_t)sizeof(float), ld};
    return mapped_place(run->mapped.c_in, run->plan->problem.c,
                        mmul_step_result(run->plan, step, segment), sizeof(float));
}

static struct place c_place(const struct mmul_run *run, const struct mmul_part *part,
                            struct mmul_step step, struct mmul_segment segment,
                            int64_t step_offset) {
    struct mmul_region region = mmul_step_result(run->plan, step, segment);
    if (run->mapped.c != NULL)
        return mapped_place(run->mapped.c, run->plan->problem.c, region, sizeof(float));
    return (struct place){part->c + step_offset * (step.end - step.begin) * (int64_t)sizeof(float),
                          region_columns(region)};
}

struct mmul_product mmul_part_product(const struct mmul_run *run, const struct mmul_part *part,
                                      struct mmul_step step, struct mmul_segment segment,
                                      int64_t step_offset) {
    const struct mmul_problem *p = &run->plan->problem;
    bool rows = run->plan->axis == MMUL_ROWS;
    int64_t units = segment.end - segment.begin, width = step.end - step.begin;
    struct place c = c_place(run, part, step, segment, step_offset);
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
        struct place c_in = c_in_place(run, part, step, segment);
        product.c_in = (const float *)(const void *)c_in.data;
        product.ldc_in = c_in.ld;
    }
    if (p->alpha != 0) {
        struct place piece = piece_place(run, part, segment);
        struct place panel = panel_place(run, step, segment);
        product.a = rows ? piece.data : panel.data;
        product.lda = rows ? piece.ld : panel.ld;
        product.b = rows ? panel.data : piece.data;
        product.ldb = rows ? panel.ld : piece.ld;
    }
    return product;
}
