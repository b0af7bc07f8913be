// SPDX-License-Identifier: MIT
// A block's place in the views of its operands and of the result, and its check by itself.
#include "exec/steps/block.h"

#include "exec/steps/site.h"
#include "exec/steps/stage_work.h"
#include "model/matrix.h"

static const struct mmul_program_plan *plan_of(const struct mmul_stage *stage) {
    return stage->site->values->plan;
}

static const struct mmul_operation *operation_of(const struct mmul_stage *stage) {
    return &plan_of(stage)->program->operations[stage->is.step->operation];
}

// -------------------------------------------------------------------------------------- operands

// Which matrix of an operand meets matrix t of the result: sizes of 1 repeat.
static int64_t matrix_of(const struct mmul_stage *stage, int place, struct mmul_shape result,
                         int64_t t) {
    const struct mmul_program_plan *plan = plan_of(stage);
    struct mmul_shape have = plan->program->values[plan->places[place].value].shape;
    int64_t batch = have.batch == 1 ? 0 : t / result.depth;
    int64_t depth = have.depth == 1 ? 0 : t % result.depth;
    return batch * have.depth + depth;
}

struct mmul_program_walk mmul_block_walk(const struct mmul_stage *stage) {
    return mmul_program_walk(plan_of(stage), stage->is.step, stage->site->context->comm->rank);
}

struct mmul_view mmul_block_operand(const struct mmul_stage *stage, int index, int64_t matrix) {
    struct mmul_shape shape = mmul_program_shape(plan_of(stage)->program, operation_of(stage));
    int place = stage->is.step->operands[index];
    return mmul_values_view(stage->site->values, place, stage->site->context->comm->rank,
                            matrix_of(stage, place, shape, matrix));
}

struct mmul_view mmul_block_result(const struct mmul_stage *stage, int64_t matrix) {
    return mmul_values_view(stage->site->values, stage->is.step->made,
                            stage->site->context->comm->rank, matrix);
}

struct mmul_product mmul_block_product(const struct mmul_stage *stage,
                                       const struct mmul_program_task *task) {
    const struct mmul_region b = task->block;
    struct mmul_view x = mmul_block_operand(stage, 0, b.matrix),
                     y = mmul_block_operand(stage, 1, b.matrix);
    struct mmul_view z = mmul_block_result(stage, b.matrix);
    return (struct mmul_product){.transpose_a = x.transposed,
                                 .transpose_b = y.transposed,
                                 .m = b.row_end - b.row_begin,
                                 .n = b.col_end - b.col_begin,
                                 .k = task->inner_end - task->inner_begin,
                                 .alpha = 1,
                                 .a_dtype = x.dtype,
                                 .b_dtype = y.dtype,
                                 .a = mmul_view_element(&x, b.row_begin, task->inner_begin),
                                 .lda = x.ld,
                                 .b = mmul_view_element(&y, task->inner_begin, b.col_begin),
                                 .ldb = y.ld,
                                 .c = mmul_view_element(&z, b.row_begin, b.col_begin),
                                 .ldc = z.ld};
}

static void name_block(const struct mmul_stage *stage, const struct mmul_program_task *task,
                       char text[static 192]) {
    const struct mmul_value *value = &plan_of(stage)->program->values[operation_of(stage)->result];
    snprintf(text, 192, "rows %lld-%lld of matrix %lld of '%.90s'",
             (long long)task->block.row_begin, (long long)task->block.row_end,
             (long long)task->block.matrix, value->name);
}

struct mmul_panel mmul_block_rows(const struct mmul_program_task *task) {
    return (struct mmul_panel){task->block.row_begin, task->block.row_end};
}

enum mmul_status mmul_block_check(struct mmul_stage *stage, const struct mmul_program_task *task,
                                  struct mmul_panel rows, struct mmul_error *err) {
    const struct mmul_region b = task->block;
    const struct mmul_product product = mmul_block_product(stage, task),
                              part = mmul_product_rows(&product, rows.begin - b.row_begin,
                                                       rows.end - b.row_begin);
    const bool is_all = part.m == product.m;
    char place[192];
    name_block(stage, task, place);
    mmul_verifier_forget(&stage->verifier); // the same memory may be read the other way round now
    const struct mmul_verifier_block block = {
        .product = &product, .looked_at = is_all ? NULL : &part, .place = place};
    return mmul_stage_check(stage, &block, err);
}
