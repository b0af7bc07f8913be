// SPDX-License-Identifier: MIT
// Rewrites a program before it is planned.
// Types of values. An operation is in float64 if all its operands are; whole numbers and generated
// matrices are exact in both types and take that of their readers. Types are chosen from the last
// operation to the first, so a file that is only needed in float32 is read as float32.
// The largest elements of the rows of a product that nothing else reads: one operation, which never
// has the whole product in memory (exec/steps/fused_topk.h).
// A stack times one matrix is one product, of all rows of the stack: many small products are slow
// on every device. Reshapes before and after it express this and share memory with their operands.
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "model/matrix.h"
#include "model/program.h"

// ------------------------------------------------------------------------------------------- types

// Returns true if the result has the elements of its operand, or of a file, and can be made in
// float32 as well.
static bool only_moves(enum mmul_operation_kind kind) {
    const struct mmul_operation_row *row = mmul_operation_row(kind);
    return kind == MMUL_LOAD || kind == MMUL_TAKE || row->is_view || row->class == MMUL_CLASS_COPY;
}

void mmul_program_choose_types(struct mmul_program *p, unsigned char *wants) {
    for (int i = p->operation_count - 1; i >= 0; i--) {
        const struct mmul_operation *o = &p->operations[i];
        if (o->result >= 0) {
            struct mmul_value *v = &p->values[o->result];
            if (o->kind == MMUL_LOAD_PERSISTENT) // it lies in memory and keeps its type
                ;
            else if (v->has_open_type)
                v->dtype = wants[o->result] & MMUL_WANTS_F64 ? MMUL_F64 : MMUL_F32;
            else if (wants[o->result] == MMUL_WANTS_F32 && only_moves(o->kind))
                v->dtype = MMUL_F32;
        }
        for (int j = 0; j < o->operand_count; j++) {
            if (o->operands[j] == MMUL_NUMBER)
                continue;
            // Saved values keep their type; a later program may need a held one in float64.
            const struct mmul_value *as = &p->values[o->result >= 0 ? o->result : o->operands[j]];
            const bool is_left = o->result < 0 && as->has_open_type;
            const enum mmul_dtype dtype = is_left ? o->dtype : as->dtype;
            wants[o->operands[j]] |= dtype == MMUL_F64 ? MMUL_WANTS_F64
                                     : is_left         ? 0
                                                       : MMUL_WANTS_F32;
        }
    }
}

static bool needs_cast(const struct mmul_program *p, const struct mmul_operation *o, int operand) {
    return o->result >= 0 && o->operands[operand] != MMUL_NUMBER &&
           p->values[o->operands[operand]].dtype != p->values[o->result].dtype;
}

// The copy of a value in the other type, and the operation of the original program that makes the
// value.
struct twin {
    int value; // 0: not made yet
    const struct mmul_operation *maker;
};

// Returns the value in the other type, made at its first use. Whole numbers are instead moved once
// more, beginning with their file: reading rejects numbers that float32 cannot represent, while a
// cast would round them.
static int find_or_add_cast(struct mmul_program *p, int value, struct twin *twins) {
    if (twins[value].value > 0)
        return twins[value].value;
    const struct mmul_value *v = &p->values[value];
    struct mmul_operation o = {.kind = MMUL_CAST, .operands = {value}, .operand_count = 1};
    if (v->dtype == MMUL_F64 && v->is_integer && only_moves(twins[value].maker->kind)) {
        o = *twins[value].maker;
        for (int j = 0; j < o.operand_count; j++)
            if (p->values[o.operands[j]].dtype == MMUL_F64)
                o.operands[j] = find_or_add_cast(p, o.operands[j], twins);
    }
    o.result = mmul_program_copy_value(p, value);
    struct mmul_value *made = &p->values[o.result];
    made->dtype = made->dtype == MMUL_F64 ? MMUL_F32 : MMUL_F64;
    p->operations[p->operation_count++] = o;
    return twins[value].value = o.result;
}

static enum mmul_status add_casts(struct mmul_program *program, struct twin *twins,
                                  struct mmul_error *err) {
    struct mmul_program made;
    // At most one value and one operation more for each.
    if (mmul_program_begin_copy(program, program->value_count + program->operation_count, &made,
                                err) != MMUL_OK)
        return err->status;
    for (int i = 0; i < program->operation_count; i++) {
        struct mmul_operation o = program->operations[i];
        if (o.result >= 0)
            twins[o.result].maker = &program->operations[i];
        for (int j = 0; j < o.operand_count; j++)
            if (needs_cast(&made, &o, j))
                o.operands[j] = find_or_add_cast(&made, o.operands[j], twins);
        made.operations[made.operation_count++] = o;
    }
    mmul_program_end_copy(program, &made);
    return MMUL_OK;
}

enum mmul_status mmul_program_assign_types(struct mmul_program *program, struct mmul_error *err) {
    unsigned char *wants = NULL;
    struct twin *twins = NULL; // one per value
    bool meets = false;
    if (program->value_count == 0)
        return MMUL_OK;
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("a program", err, MMUL_ARRAY(wants, program->value_count),
                          MMUL_ARRAY(twins, program->value_count));
    if (status == MMUL_OK)
        mmul_program_choose_types(program, wants);
    for (int i = 0; status == MMUL_OK && i < program->operation_count; i++)
        for (int j = 0; j < program->operations[i].operand_count; j++)
            meets |= needs_cast(program, &program->operations[i], j);
    if (meets)
        status = add_casts(program, twins, err);
    mmul_free(wants);
    mmul_free(twins);
    return status;
}

// ------------------------------------------------------------------------------------------ search

// Returns true if the product is larger than both factors. Rows of the result are made on the owner
// of these rows of the first factor, and the second one is replicated: otherwise that needs more
// memory and traffic.
static bool is_larger_than_factors(const struct mmul_program *p,
                                   const struct mmul_operation *product) {
    return mmul_shape_elements(p->values[product->result].shape) >
           mmul_shape_elements(p->values[product->operands[0]].shape) +
               mmul_shape_elements(p->values[product->operands[1]].shape);
}

// For every value, the product that makes it and the number of operations that read it.
struct use {
    int product; // -1: none
    int readers;
};

static void find_uses(const struct mmul_program *p, struct use *uses) {
    for (int i = 0; i < p->value_count; i++)
        uses[i] = (struct use){.product = -1};
    for (int i = 0; i < p->operation_count; i++) {
        const struct mmul_operation *o = &p->operations[i];
        if (o->kind == MMUL_MATMUL && is_larger_than_factors(p, o))
            uses[o->result].product = i;
        for (int j = 0; j < o->operand_count; j++)
            if (o->operands[j] != MMUL_NUMBER)
                uses[o->operands[j]].readers++;
    }
}

// Fuses topk with its product. The product's operation stays in its place with the kind
// MMUL_OPERATION_KINDS, which marks it as removed.
static void fuse_with_product(struct mmul_program *p, struct mmul_operation *topk,
                              const struct use *uses) {
    if (topk->kind != MMUL_TOPK)
        return;
    const struct use of = uses[topk->operands[0]];
    if (of.product < 0 || of.readers != 1)
        return;
    struct mmul_operation *product = &p->operations[of.product];
    topk->kind = MMUL_FUSED_TOPK;
    topk->operand_count = MMUL_FACTORS;
    for (int i = 0; i < MMUL_FACTORS; i++)
        topk->operands[i] = product->operands[i];
    product->kind = MMUL_OPERATION_KINDS;
}

enum mmul_status mmul_program_fuse_topk(struct mmul_program *program, struct mmul_error *err) {
    struct mmul_program *p = program;
    struct use *uses = NULL;
    int left = 0;
    if (p->value_count == 0)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE(uses, p->value_count, "a program", err);
    if (status != MMUL_OK)
        return status;
    find_uses(p, uses);
    for (int i = 0; i < p->operation_count; i++)
        fuse_with_product(p, &p->operations[i], uses);
    for (int i = 0; i < p->operation_count; i++)
        if (p->operations[i].kind != MMUL_OPERATION_KINDS)
            p->operations[left++] = p->operations[i];
    p->operation_count = left;
    mmul_program_find_last_uses(p);
    mmul_free(uses);
    return MMUL_OK;
}

// -------------------------------------------------------------------------------------------- fold

// Returns true if the rows of a value are contiguous: a loaded one is read as in its file, and a
// transposed one has other rows.
static bool is_in_rows(const struct mmul_program *p, int value) {
    const struct mmul_operation *maker = mmul_program_find_maker(p, value);
    if (maker->kind == MMUL_PLACE)
        return is_in_rows(p, maker->operands[0]);
    return maker->kind != MMUL_LOAD && maker->kind != MMUL_TRANSPOSE;
}

static bool is_folded(const struct mmul_program *p, const struct mmul_operation *o) {
    return (o->kind == MMUL_MATMUL || o->kind == MMUL_FUSED_TOPK) &&
           mmul_shape_matrices(p->values[o->operands[0]].shape) > 1 &&
           mmul_shape_matrices(p->values[o->operands[1]].shape) == 1 &&
           is_in_rows(p, o->operands[0]);
}

// Adds a value with the name of another one.
static int add_value(struct mmul_program *p, int like, struct mmul_shape shape) {
    const int made = mmul_program_copy_value(p, like);
    p->values[made].shape = shape;
    p->values[made].is_integer = false;
    return made;
}

static void add_reshape(struct mmul_program *p, int from, int to) {
    struct mmul_operation *o = &p->operations[p->operation_count++];
    *o = (struct mmul_operation){
        .kind = MMUL_RESHAPE, .operands = {from}, .operand_count = 1, .result = to};
    o->with.shape = p->values[to].shape;
}

static void fold_product(struct mmul_program *p, const struct mmul_operation *o) {
    const struct mmul_shape x = p->values[o->operands[0]].shape, y = p->values[o->result].shape;
    const int64_t rows = mmul_shape_matrices(x) * x.rows;
    struct mmul_operation product = *o;
    product.operands[0] = add_value(p, o->operands[0], (struct mmul_shape){1, 1, rows, x.cols});
    product.result = add_value(p, o->result, (struct mmul_shape){1, 1, rows, y.cols});
    p->values[product.operands[0]].rank_group = p->values[o->result].rank_group;
    add_reshape(p, o->operands[0], product.operands[0]);
    p->operations[p->operation_count++] = product;
    add_reshape(p, product.result, o->result);
}

enum mmul_status mmul_program_fold_stacks(struct mmul_program *program, struct mmul_error *err) {
    struct mmul_program made;
    int count = 0;
    for (int i = 0; i < program->operation_count; i++)
        count += is_folded(program, &program->operations[i]);
    if (count == 0)
        return MMUL_OK;
    // Two values and two operations more for each.
    const int most = (int)mmul_max(program->operation_count, program->value_count);
    if (mmul_program_begin_copy(program, 2 * count + most, &made, err) != MMUL_OK)
        return err->status;
    for (int i = 0; i < program->operation_count; i++)
        if (is_folded(program, &program->operations[i]))
            fold_product(&made, &program->operations[i]);
        else
            made.operations[made.operation_count++] = program->operations[i];
    mmul_program_end_copy(program, &made);
    return MMUL_OK;
}
