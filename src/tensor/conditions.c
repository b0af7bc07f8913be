// SPDX-License-Identifier: MIT
// Conditions of `if`. A number known during evaluation decides at once. A computed number ends the
// current program: root reads it after the run and decides, and the statements after the condition
// form the next program. So all ranks follow one decision. A reading that runs nothing assumes
// false; the first reading tries both branches.
#include <string.h>

#include "base/status.h"
#include "tensor/builtins.h"
#include "tensor/evaluate.h"
#include "tensor/jobs.h"
#include "tensor/loop_costs.h"
#include "tensor/script.h"

enum truth { FALSE, TRUE, UNKNOWN };

static enum mmul_status read_number(struct mmul_evaluator *e, const struct mmul_node *branch,
                                    const struct mmul_node *at, const struct mmul_object *x,
                                    enum truth *truth) {
    double number = 0;
    if (mmul_view_number(e, at, x, &number) != MMUL_OK)
        return e->err->status;
    if (mmul_job_run(e, branch, NULL) != MMUL_OK)
        return mmul_job_prefix_turn(e, e->turn);
    *truth = number != 0 ? TRUE : FALSE; // NaN is true, as in Python
    return MMUL_OK;
}

// word: the enclosing "and", "or" or "not"; NULL for none.
static enum mmul_status fail_kind(struct mmul_evaluator *e, const struct mmul_node *at,
                                  const char *word, const struct mmul_object *x) {
    if (word != NULL)
        return mmul_evaluate_fail_condition(e, at, word, x);
    mmul_evaluator_fail(e, at, "a condition must be a number, found %s", mmul_object_name(x));
    if (x->kind == MMUL_OBJECT_MATRIX)
        mmul_hint(e->err, "where(c, x, y) chooses element by element");
    return MMUL_ERR_DATA;
}

// Values local to a function have no global name and cannot move to the next program. Outside of
// loops, files are written only after the whole text has run.
static enum mmul_status check_place(struct mmul_evaluator *e, const struct mmul_node *at) {
    if (e->frame == e->top && e->loops > 0)
        return MMUL_OK;
    mmul_evaluator_fail(e, at,
                        "'if' on a computed number is only allowed inside loop(...) and outside "
                        "of functions");
    mmul_hint(e->err, "where(c, x, y) chooses without 'if'");
    return MMUL_ERR_DATA;
}

// Decides an operand other than `and` and `or`. branch NULL: a trial, in which a failure counts as
// unknown.
static enum mmul_status evaluate_operand(struct mmul_evaluator *e, const struct mmul_node *branch,
                                         const struct mmul_node *at, const char *word,
                                         enum truth *truth) {
    struct mmul_object x;
    const struct mmul_error before = *e->err;
    enum mmul_status status = mmul_evaluate(e, at, &x);
    *truth = UNKNOWN;
    if (status == MMUL_OK && mmul_object_is_number(&x))
        *truth = mmul_object_number(&x) != 0 ? TRUE : FALSE;
    if (branch == NULL)
        *e->err = before;
    if (branch == NULL || status != MMUL_OK || *truth != UNKNOWN)
        return branch == NULL ? MMUL_OK : status;
    if (!mmul_object_is_one_element(&x))
        return fail_kind(e, at, word, &x);
    if (check_place(e, at) != MMUL_OK)
        return e->err->status;
    if (!e->script->only_checked)
        return read_number(e, branch, at, &x, truth);
    return e->script->is_first_reading ? mmul_held_types_note(e, branch, false, NULL) : MMUL_OK;
}

static enum mmul_status evaluate_truth(struct mmul_evaluator *e, const struct mmul_node *branch,
                                       const struct mmul_node *at, const char *word,
                                       enum truth *truth) {
    if (at->kind == MMUL_NODE_NOT) {
        enum mmul_status status = evaluate_truth(e, branch, at->first, "not", truth);
        *truth = *truth == UNKNOWN ? UNKNOWN : *truth == TRUE ? FALSE : TRUE;
        return status;
    }
    if (at->kind == MMUL_NODE_LOGIC) {
        const enum truth ends = strcmp(at->text, "or") == 0 ? TRUE : FALSE;
        enum truth all = ends == TRUE ? FALSE : TRUE;
        for (const struct mmul_node *child = at->first; child != NULL && all != ends;
             child = child->next) {
            if (evaluate_truth(e, branch, child, at->text, truth) != MMUL_OK)
                return e->err->status;
            // A later known operand may still decide.
            all = *truth == ends || *truth == UNKNOWN ? *truth : all;
        }
        *truth = all;
        return MMUL_OK;
    }
    return evaluate_operand(e, branch, at, word, truth);
}

enum mmul_status mmul_evaluate_condition(struct mmul_evaluator *e, const struct mmul_node *branch,
                                         bool *is_true) {
    enum truth truth = UNKNOWN;
    enum mmul_status status = evaluate_truth(e, branch, branch->first, NULL, &truth);
    if (status == MMUL_OK && truth == UNKNOWN && e->script->is_first_reading)
        return mmul_held_types_choose_branch(e, branch, is_true);
    *is_true = truth == TRUE;
    if (status == MMUL_OK && e->script->is_first_reading)
        status = mmul_held_types_note_branch(e, branch, *is_true);
    else if (status == MMUL_OK && truth == UNKNOWN) // a run has no unknown ones
        status = mmul_unplanned_block_add(e, branch);
    return status;
}

bool mmul_condition_may_differ(struct mmul_evaluator *e, const struct mmul_node *branch) {
    struct mmul_held_types *f = e->script->foreseen;
    enum truth truth = UNKNOWN;
    if (evaluate_truth(e, NULL, branch->first, NULL, &truth) != MMUL_OK)
        return false;
    if (truth != UNKNOWN)
        return !mmul_held_types_has_branch(f, branch, truth == TRUE);
    // In `i > 10 and loss > best`, the second operand appears only after the first becomes true.
    return branch->first->kind == MMUL_NODE_LOGIC && !mmul_held_types_has_branch(f, branch, true) &&
           mmul_held_types_try_branch(e, branch);
}
