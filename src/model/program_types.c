// SPDX-License-Identifier: MIT
// Types of values. An operation is in float64 where that is the type of all its operands; whole numbers and
// generated matrices fit both types and take that of what reads them. Chosen from the last operation to the first,
// so that a file which is only wanted in float32 is read as float32. Plans nothing.
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "model/program.h"

// Which types the operations that read a value want of it: a bit each.
enum { WANTS_F32 = 1, WANTS_F64 = 2 };

// The result has the elements of its operand, or of a file, and may as well be made in float32.
static bool only_moves(enum mmul_operation_kind kind) {
    const struct mmul_operation_row *row = mmul_operation_row(kind);
    return kind == MMUL_LOAD || kind == MMUL_TAKE || row->is_view || row->class == MMUL_CLASS_COPY;
}

static enum mmul_dtype choose(const struct mmul_value *v, enum mmul_operation_kind maker,
                              unsigned wants) {
    if (v->is_open)
        return wants & WANTS_F64 ? MMUL_F64 : MMUL_F32;
    return wants == WANTS_F32 && only_moves(maker) ? MMUL_F32 : v->dtype;
}

static void choose_types(struct mmul_program *p, unsigned char *wants) {
    for (int i = p->operation_count - 1; i >= 0; i--) {
        const struct mmul_operation *o = &p->operations[i];
        if (o->result >= 0) {
            struct mmul_value *v = &p->values[o->result];
            v->dtype = choose(v, o->kind, wants[o->result]);
        }
        for (int j = 0; j < o->operand_count; j++) {
            if (o->operands[j] == MMUL_NUMBER)
                continue;
            // What is saved is as it is.
            const struct mmul_value *as = &p->values[o->result >= 0 ? o->result : o->operands[j]];
            const bool says_nothing = o->result < 0 && as->is_open;
            wants[o->operands[j]] |= says_nothing            ? 0
                                     : as->dtype == MMUL_F64 ? WANTS_F64
                                                             : WANTS_F32;
        }
    }
}

static bool needs_cast(const struct mmul_program *p, const struct mmul_operation *o, int operand) {
    return o->result >= 0 && o->operands[operand] != MMUL_NUMBER &&
           p->values[o->operands[operand]].dtype != p->values[o->result].dtype;
}

// A value in the other type, and the operation that makes the value itself, of the program as it was.
struct twin {
    int value; // 0: not made yet
    const struct mmul_operation *maker;
};

// The value in the other type, which is made when it is wanted for the first time. Whole numbers are moved once
// more, from their file on: reading refuses those that float32 has not, while a cast would round them.
static int cast(struct mmul_program *p, int value, struct twin *twins) {
    if (twins[value].value > 0)
        return twins[value].value;
    const struct mmul_value *v = &p->values[value];
    struct mmul_operation o = {.kind = MMUL_CAST, .operands = {value}, .operand_count = 1};
    if (v->dtype == MMUL_F64 && v->is_integer && only_moves(twins[value].maker->kind)) {
        o = *twins[value].maker;
        for (int j = 0; j < o.operand_count; j++)
            if (p->values[o.operands[j]].dtype == MMUL_F64)
                o.operands[j] = cast(p, o.operands[j], twins);
    }
    struct mmul_value *made = &p->values[p->value_count];
    *made = p->values[value];
    made->dtype = made->dtype == MMUL_F64 ? MMUL_F32 : MMUL_F64;
    o.result = p->value_count;
    p->operations[p->operation_count++] = o;
    return twins[value].value = p->value_count++;
}

static enum mmul_status add_casts(struct mmul_program *program, struct twin *twins,
                                  struct mmul_error *err) {
    struct mmul_program made;
    // A value and an operation more for each, at most.
    if (mmul_program_begin_copy(program, program->value_count + program->operation_count, &made,
                                err) != MMUL_OK)
        return err->status;
    for (int i = 0; i < program->operation_count; i++) {
        struct mmul_operation o = program->operations[i];
        if (o.result >= 0)
            twins[o.result].maker = &program->operations[i];
        for (int j = 0; j < o.operand_count; j++)
            if (needs_cast(&made, &o, j))
                o.operands[j] = cast(&made, o.operands[j], twins);
        made.operations[made.operation_count++] = o;
    }
    mmul_program_end_copy(program, &made);
    return MMUL_OK;
}

enum mmul_status mmul_program_types(struct mmul_program *program, struct mmul_error *err) {
    unsigned char *wants = NULL;
    struct twin *twins = NULL; // of every value
    bool meets = false;
    if (program->value_count == 0)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE(wants, program->value_count, "a program", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(twins, program->value_count, "a program", err);
    if (status == MMUL_OK)
        choose_types(program, wants);
    for (int i = 0; status == MMUL_OK && i < program->operation_count; i++)
        for (int j = 0; j < program->operations[i].operand_count; j++)
            meets |= needs_cast(program, &program->operations[i], j);
    if (meets)
        status = add_casts(program, twins, err);
    mmul_free(wants);
    mmul_free(twins);
    return status;
}
