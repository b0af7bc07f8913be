// SPDX-License-Identifier: MIT
// A stack times one matrix is one product, of all rows of the stack: many small ones are slow on every device.
// Reshapes before and after it say so, which share the memory of what they show. Plans nothing.
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "model/matrix.h"
#include "model/program.h"

// What is loaded is read as it is in its file, and what is read the other way round has other rows.
static bool is_in_rows(const struct mmul_program *p, int value) {
    const struct mmul_operation *maker = p->operations;
    while (maker->result != value)
        maker++;
    if (maker->kind == MMUL_PLACE)
        return is_in_rows(p, maker->operands[0]);
    return maker->kind != MMUL_LOAD && maker->kind != MMUL_TRANSPOSE;
}

static bool is_folded(const struct mmul_program *p, const struct mmul_operation *o) {
    return (o->kind == MMUL_MATMUL || o->kind == MMUL_SEARCH) &&
           mmul_shape_matrices(p->values[o->operands[0]].shape) > 1 &&
           mmul_shape_matrices(p->values[o->operands[1]].shape) == 1 &&
           is_in_rows(p, o->operands[0]);
}

// A value beside those that there are, with the name of another one.
static int add_value(struct mmul_program *p, int like, struct mmul_shape shape) {
    p->values[p->value_count] = p->values[like];
    p->values[p->value_count].shape = shape;
    p->values[p->value_count].is_integer = false;
    return p->value_count++;
}

static void add_reshape(struct mmul_program *p, int from, int to) {
    struct mmul_operation *o = &p->operations[p->operation_count++];
    *o = (struct mmul_operation){
        .kind = MMUL_RESHAPE, .operands = {from}, .operand_count = 1, .result = to};
    o->with.shape = p->values[to].shape;
}

static void fold(struct mmul_program *p, const struct mmul_operation *o) {
    const struct mmul_shape x = p->values[o->operands[0]].shape, y = p->values[o->result].shape;
    const int64_t rows = mmul_shape_matrices(x) * x.rows;
    struct mmul_operation product = *o;
    product.operands[0] = add_value(p, o->operands[0], (struct mmul_shape){1, 1, rows, x.cols});
    product.result = add_value(p, o->result, (struct mmul_shape){1, 1, rows, y.cols});
    add_reshape(p, o->operands[0], product.operands[0]);
    p->operations[p->operation_count++] = product;
    add_reshape(p, product.result, o->result);
}

void mmul_program_find_last_uses(struct mmul_program *program) {
    struct mmul_program *p = program;
    for (int i = 0; i < p->operation_count; i++) {
        const struct mmul_operation *o = &p->operations[i];
        if (o->result >= 0)
            p->values[o->result].last_use = i;
        for (int j = 0; j < o->operand_count; j++)
            if (o->operands[j] != MMUL_NUMBER)
                p->values[o->operands[j]].last_use = i;
    }
}

enum mmul_status mmul_program_fold(struct mmul_program *program, struct mmul_error *err) {
    struct mmul_program made;
    int count = 0;
    for (int i = 0; i < program->operation_count; i++)
        count += is_folded(program, &program->operations[i]);
    if (count == 0)
        return MMUL_OK;
    // Two values and two operations more for each.
    const int most = program->operation_count > program->value_count ? program->operation_count
                                                                     : program->value_count;
    if (mmul_program_begin_copy(program, 2 * count + most, &made, err) != MMUL_OK)
        return err->status;
    for (int i = 0; i < program->operation_count; i++)
        if (is_folded(program, &program->operations[i]))
            fold(&made, &program->operations[i]);
        else
            made.operations[made.operation_count++] = program->operations[i];
    mmul_program_end_copy(program, &made);
    return MMUL_OK;
}
