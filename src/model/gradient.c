// SPDX-License-Identifier: MIT
// Reverse traversal of a program: marks the values that need gradients, then goes from the last
// operation to the first. The rules of the operations are in gradient_rules.c.
#include "model/gradient.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "model/gradient_pieces.h"
#include "model/matrix.h"

enum { AXES = 4 };

// ------------------------------------------------------------------------------------------- sizes

int mmul_build_broadcast(struct mmul_build *b, int value, struct mmul_shape shape) {
    if (value < 0 || mmul_shape_equal(mmul_build_shape(b, value), shape))
        return value;
    return mmul_build_binary_values(b, MMUL_ADD, mmul_build_fill(b, shape, false), value);
}

// Sums a value with sizes that repeat to `whole`, along the axes that `part` does not have; the
// result's sizes repeat to `part`.
static int sum_to_shape(struct mmul_build *b, int value, struct mmul_shape whole,
                        struct mmul_shape part) {
    int64_t have[AXES], all[AXES], want[AXES];
    double times = 1;
    mmul_shape_to_sizes(mmul_build_shape(b, value), have);
    mmul_shape_to_sizes(whole, all);
    mmul_shape_to_sizes(part, want);
    for (int s = AXES - 1; s >= 0; s--) {
        if (want[s] != 1 || all[s] == 1)
            continue;
        if (have[s] > 1)
            value = mmul_build_reduce(b, MMUL_SUM, value, s - AXES);
        else
            times *= (double)all[s];
    }
    return times > 1 ? mmul_build_binary_number(b, MMUL_MULTIPLY, value, times) : value;
}

// -------------------------------------------------------------------------------- adding gradients

// Adds two gradients of a value: on the ranks of both if these are equal, else on the value's.
static int add_two_gradients(struct mmul_gradient_traversal *w, int to, int one, int other) {
    struct mmul_program *p = w->b->program;
    const int rank_group = p->rank_group;
    p->rank_group = p->values[one].rank_group == p->values[other].rank_group
                        ? p->values[one].rank_group
                        : p->values[to].rank_group;
    const int sum = mmul_build_binary_values(w->b, MMUL_ADD, one, other);
    p->rank_group = rank_group;
    return sum;
}

void mmul_gradient_add(struct mmul_gradient_traversal *w, int operand, int value) {
    mmul_gradient_add_to(w, w->operation.operands[operand], value);
}

void mmul_gradient_add_to(struct mmul_gradient_traversal *w, int to, int value) {
    if (to == MMUL_NUMBER || !w->is_wanted[to] || value == MMUL_NO_VALUE)
        return;
    int *gradient = &w->gradients[to];
    if (*gradient == MMUL_NO_VALUE)
        *gradient = value;
    else
        *gradient = add_two_gradients(w, to, *gradient, value);
}

void mmul_gradient_add_summed_from(struct mmul_gradient_traversal *w, int operand, int value,
                                   struct mmul_shape shape) {
    const int to = w->operation.operands[operand];
    if (to != MMUL_NUMBER && w->is_wanted[to] && value != MMUL_NO_VALUE)
        mmul_gradient_add(w, operand, sum_to_shape(w->b, value, shape, mmul_build_shape(w->b, to)));
}

void mmul_gradient_add_summed(struct mmul_gradient_traversal *w, int operand, int value) {
    mmul_gradient_add_summed_from(w, operand, value, mmul_build_shape(w->b, w->operation.result));
}

// --------------------------------------------------------------------------------------- traversal

// Returns true if the result can depend on the operands smoothly.
static bool depends_smoothly(const struct mmul_program *p, const struct mmul_operation *o) {
    const char *reason = NULL;
    return o->result >= 0 && !p->values[o->result].stops_gradient &&
           (mmul_gradient_rule_of(o->kind, &reason) != NULL || reason != NULL);
}

// Marks the values that depend on one of xs.
static void find_dependent(const struct mmul_program *p, const int *xs, int count, bool *depends) {
    for (int i = 0; i < count; i++)
        depends[xs[i]] = true;
    for (int i = 0; i < p->operation_count; i++) {
        const struct mmul_operation *o = &p->operations[i];
        for (int j = 0; j < o->operand_count && depends_smoothly(p, o); j++)
            if (o->operands[j] != MMUL_NUMBER && depends[o->operands[j]])
                depends[o->result] = true;
    }
}

static void apply_rule(struct mmul_gradient_traversal *w, int operation) {
    struct mmul_program *p = w->b->program;
    const char *reason = NULL;
    bool is_needed = false;
    w->operation = p->operations[operation];
    const struct mmul_operation *o = &w->operation;
    if (o->result >= 0)
        mmul_gradient_join_pieces(w, o->result);
    if (!depends_smoothly(p, o) || w->gradients[o->result] == MMUL_NO_VALUE)
        return;
    for (int j = 0; j < o->operand_count; j++)
        is_needed |= o->operands[j] != MMUL_NUMBER && w->is_wanted[o->operands[j]];
    if (!is_needed)
        return;
    w->gradient = w->gradients[o->result];
    // A gradient is computed on the ranks of its operation.
    const struct mmul_value *made = &p->values[o->result];
    p->rank_group = made->backward_group != 0 ? made->backward_group : made->rank_group;
    mmul_gradient_rule *rule = mmul_gradient_rule_of(o->kind, &reason);
    if (rule != NULL)
        rule(w);
    else
        mmul_build_fail(w->b, MMUL_ERR_DATA, "cannot differentiate %s: %s",
                        mmul_operation_row(o->kind)->name, reason);
    p->rank_group = 0;
}

// Gives a requested gradient all of its sizes, a name and a type.
static int finish_gradient(struct mmul_build *b, int x, int gradient, int y) {
    char name[MMUL_VALUE_NAME_BYTES];
    struct mmul_value *values = b->program->values;
    if (gradient == MMUL_NO_VALUE) {
        mmul_build_fail(b, MMUL_ERR_DATA, "'%s' does not depend on '%s': it has no gradient",
                        values[y].name, values[x].name);
        return MMUL_NO_VALUE;
    }
    snprintf(name, sizeof name, "gradient of %.*s", MMUL_VALUE_NAME_BYTES - 16, values[x].name);
    gradient = mmul_build_broadcast(b, gradient, values[x].shape);
    struct mmul_value *made = &b->program->values[gradient];
    if (gradient >= b->values)
        memcpy(made->name, name, sizeof name);
    if (made->has_open_type &&
        !b->program->values[x].has_open_type) { // made of numbers alone: takes the type of x
        made->has_open_type = false;
        made->dtype = b->program->values[x].dtype;
    }
    return gradient;
}

static enum mmul_status check_request(const struct mmul_program *p,
                                      const struct mmul_gradient_request *request,
                                      struct mmul_error *err) {
    const int y = request->y;
    for (int i = -1; i < request->count; i++) {
        const int value = i < 0 ? y : request->xs[i];
        if (value < 0 || value >= p->value_count)
            return mmul_fail(err, MMUL_ERR_USAGE,
                             "cannot differentiate value %d: the program has %d values", value,
                             p->value_count);
        if (i >= 0 && p->values[value].is_integer)
            return mmul_fail(err, MMUL_ERR_DATA,
                             "cannot differentiate with respect to '%s': it holds whole numbers",
                             p->values[value].name);
    }
    const struct mmul_shape s = p->values[y].shape;
    char text[96];
    if (mmul_shape_matrices(s) * s.rows * s.cols == 1)
        return MMUL_OK;
    mmul_fail(err, MMUL_ERR_DATA, "cannot differentiate '%s' (%s): expected one element",
              p->values[y].name, mmul_shape_format(s, text));
    mmul_hint(err, "use sum or mean to get one element");
    return err->status;
}

// State for every value of the program before the gradients.
struct known {
    int *gradients;
    bool *depends; // depends on one of the requested values
    struct mmul_pieces pieces;
};

static enum mmul_status add_gradients(struct mmul_program *program,
                                      const struct mmul_gradient_request *request,
                                      struct known *known, int *gradients, struct mmul_error *err) {
    const int y = request->y;
    struct mmul_build b = mmul_build_begin(program, request->origin, err);
    struct mmul_gradient_traversal w = {.b = &b,
                                        .is_wanted = known->depends,
                                        .gradients = known->gradients,
                                        .pieces = &known->pieces};
    for (int i = 0; i < program->value_count; i++)
        known->gradients[i] = MMUL_NO_VALUE;
    find_dependent(program, request->xs, request->count, known->depends);
    if (known->depends[y])
        known->gradients[y] = mmul_build_fill(&b, program->values[y].shape, true);
    for (int i = b.operations - 1; i >= 0 && err->status == MMUL_OK; i--)
        apply_rule(&w, i);
    for (int i = 0; i < request->count && err->status == MMUL_OK; i++)
        mmul_gradient_join_pieces(&w, request->xs[i]);
    for (int i = 0; i < request->count && err->status == MMUL_OK; i++)
        gradients[i] = finish_gradient(&b, request->xs[i], known->gradients[request->xs[i]], y);
    return mmul_build_end(&b);
}

enum mmul_status mmul_program_add_gradients(struct mmul_program *program,
                                            const struct mmul_gradient_request *request,
                                            int *gradients, struct mmul_error *err) {
    struct known known = {0};
    if (check_request(program, request, err) != MMUL_OK)
        return err->status;
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("gradients", err, MMUL_ARRAY(known.gradients, program->value_count),
                          MMUL_ARRAY(known.depends, program->value_count),
                          MMUL_ARRAY(known.pieces.pieces, program->operation_count));
    if (status == MMUL_OK)
        status = add_gradients(program, request, &known, gradients, err);
    MMUL_FREE_ALL(known.gradients, known.depends, known.pieces.pieces);
    return status;
}
