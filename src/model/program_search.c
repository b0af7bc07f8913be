// SPDX-License-Identifier: MIT
// The largest elements of the rows of a product, which nobody else reads: one operation, that never has the product
// as a whole (exec/steps/search.h). Plans nothing.
#include "base/memory.h"
#include "base/status.h"
#include "model/matrix.h"
#include "model/program.h"

static double elements(struct mmul_shape s) {
    return (double)mmul_shape_matrices(s) * (double)s.rows * (double)s.cols;
}

// Rows of the result are made on the rank that has those of the first factor, and the second one is everywhere: that
// is less to have and to move only where the product is larger than both.
static bool is_worth_it(const struct mmul_program *p, const struct mmul_operation *product) {
    return elements(p->values[product->result].shape) >
           elements(p->values[product->operands[0]].shape) +
               elements(p->values[product->operands[1]].shape);
}

// Of every value the product that makes it, and how many operations read it.
struct use {
    int product; // -1: none
    int readers;
};

static void find_uses(const struct mmul_program *p, struct use *uses) {
    for (int i = 0; i < p->value_count; i++)
        uses[i] = (struct use){.product = -1};
    for (int i = 0; i < p->operation_count; i++) {
        const struct mmul_operation *o = &p->operations[i];
        if (o->kind == MMUL_MATMUL && is_worth_it(p, o))
            uses[o->result].product = i;
        for (int j = 0; j < o->operand_count; j++)
            if (o->operands[j] != MMUL_NUMBER)
                uses[o->operands[j]].readers++;
    }
}

// The product's operation stays in its place as one that is gone: it has the kind of none.
static void join(struct mmul_program *p, struct mmul_operation *topk, const struct use *uses) {
    if (topk->kind != MMUL_TOPK)
        return;
    const struct use of = uses[topk->operands[0]];
    if (of.product < 0 || of.readers != 1)
        return;
    struct mmul_operation *product = &p->operations[of.product];
    topk->kind = MMUL_SEARCH;
    topk->operand_count = MMUL_FACTORS;
    for (int i = 0; i < MMUL_FACTORS; i++)
        topk->operands[i] = product->operands[i];
    product->kind = MMUL_OPERATION_KINDS;
}

enum mmul_status mmul_program_search(struct mmul_program *program, struct mmul_error *err) {
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
        join(p, &p->operations[i], uses);
    for (int i = 0; i < p->operation_count; i++)
        if (p->operations[i].kind != MMUL_OPERATION_KINDS)
            p->operations[left++] = p->operations[i];
    p->operation_count = left;
    mmul_program_find_last_uses(p);
    mmul_free(uses);
    return MMUL_OK;
}
