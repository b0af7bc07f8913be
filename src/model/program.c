// SPDX-License-Identifier: MIT
// Arrays that grow, and shapes that are checked on the way in. Plans nothing.
#include "model/program.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "model/matrix.h"

enum mmul_status mmul_program_create(struct mmul_program **program, struct mmul_error *err) {
    return MMUL_ALLOCATE(*program, 1, "a program", err);
}

void mmul_program_destroy(struct mmul_program *program) {
    if (program == NULL)
        return;
    mmul_free(program->values);
    mmul_free(program->operations);
    mmul_free(program);
}

static enum mmul_status grow(struct mmul_program *p, struct mmul_error *err) {
    enum { FIRST = 16 };
    int capacity = p->capacity > 0 ? 2 * p->capacity : FIRST;
    struct mmul_value *values = NULL;
    struct mmul_operation *operations = NULL;
    enum mmul_status status = MMUL_ALLOCATE(values, capacity, "a program", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(operations, capacity, "a program", err);
    if (status != MMUL_OK) {
        mmul_free(values);
        return status;
    }
    if (p->capacity > 0) {
        memcpy(values, p->values, (size_t)p->value_count * sizeof *values);
        memcpy(operations, p->operations, (size_t)p->operation_count * sizeof *operations);
    }
    mmul_free(p->values);
    mmul_free(p->operations);
    p->values = values;
    p->operations = operations;
    p->capacity = capacity;
    return MMUL_OK;
}

void mmul_program_operands(const struct mmul_program *program,
                           const struct mmul_operation *operation,
                           struct mmul_operand_info operands[MMUL_OPERANDS]) {
    for (int i = 0; i < mmul_operation_row(operation->kind)->arity; i++) {
        const struct mmul_value *v = &program->values[operation->operands[i]];
        operands[i] = (struct mmul_operand_info){v->name, v->shape};
    }
}

struct mmul_shape mmul_program_shape(const struct mmul_program *program,
                                     const struct mmul_operation *operation) {
    return program->values[operation->result >= 0 ? operation->result : operation->operands[0]]
        .shape;
}

enum mmul_status mmul_program_append(struct mmul_program *program,
                                     const struct mmul_operation *request, const char *name,
                                     int *value, struct mmul_error *err) {
    const struct mmul_operation_row *row = mmul_operation_row(request->kind);
    struct mmul_operand_info operands[MMUL_OPERANDS] = {{0}};
    struct mmul_operation made = *request;
    struct mmul_shape shape = request->shape;
    int64_t bytes;
    for (int i = 0; i < row->arity; i++)
        if (request->operands[i] < 0 || request->operands[i] >= program->value_count)
            return mmul_fail(err, MMUL_ERR_USAGE, "cannot %s value %d: the program has %d values",
                             row->name, request->operands[i], program->value_count);
    mmul_program_operands(program, request, operands);
    enum mmul_status status = MMUL_OK;
    if (row->arity > 0)
        shape = operands[0].shape;
    if (row->shape != NULL)
        status = row->shape(operands, &shape, err);
    if (status == MMUL_OK)
        status = mmul_shape_bytes(shape, MMUL_F32, &bytes, err);
    if (status == MMUL_OK && program->operation_count == program->capacity)
        status = grow(program, err);
    if (status != MMUL_OK)
        return status;
    for (int i = 0; i < row->arity; i++)
        program->values[request->operands[i]].last_use = program->operation_count;
    made.result = row->has_result ? program->value_count : -1;
    if (row->has_result) {
        struct mmul_value *v = &program->values[program->value_count++];
        *v = (struct mmul_value){.shape = shape, .last_use = program->operation_count};
        if (name != NULL)
            mmul_text_copy(v->name, sizeof v->name, name);
        else
            snprintf(v->name, sizeof v->name, "value %d", made.result);
        mmul_make_printable(v->name);
        if (value != NULL)
            *value = made.result;
    }
    program->operations[program->operation_count++] = made;
    return MMUL_OK;
}

void mmul_program_print(const struct mmul_program *program, FILE *stream) {
    struct mmul_text text = {0};
    mmul_text_add(&text, "value\toperation\toperands\tshape\n");
    for (int i = 0; i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        const struct mmul_operation_row *row = mmul_operation_row(o->kind);
        struct mmul_operand_info operands[MMUL_OPERANDS];
        char shape[96];
        mmul_program_operands(program, o, operands);
        mmul_text_add(&text, "%s\t%s\t", o->result >= 0 ? program->values[o->result].name : "-",
                      row->name);
        for (int j = 0; j < row->arity; j++)
            mmul_text_add(&text, j > 0 ? ", %s" : "%s", operands[j].name);
        if (o->kind == MMUL_PLACE)
            mmul_text_add(&text, " %s", mmul_placement_name(o->wish));
        mmul_text_add(&text, "\t%s\n", mmul_shape_format(mmul_program_shape(program, o), shape));
    }
    mmul_text_print_table(mmul_text_get(&text), stream);
    mmul_text_fini(&text);
}
