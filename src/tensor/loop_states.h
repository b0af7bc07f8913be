// SPDX-License-Identifier: MIT
//
// --resume of a text: the values that a loop carries are recorded behind a turn, and a later run of
// the same text begins the loop there. Statements outside of loops are computed again.
//
// A state is recorded at most every `journal_seconds`, and so rarely that writing takes at most a
// fiftieth of the time. The end of an outermost loop is recorded if the second bound holds: a later
// run skips the loop. A turn of an inner loop is recorded if this loop is a statement of the outer
// one itself, not of an `if` or a Python `for` between.
#pragma once

#include "tensor/jobs.h"

struct mmul_loop_states;

// Opens the journal of a text. Fails as mmul_loop_journal_open, and with MMUL_ERR_USAGE (a text
// without a file).
enum mmul_status mmul_loop_states_open(const struct mmul_script_request *request,
                                       const struct mmul_source *source,
                                       struct mmul_loop_states **states, struct mmul_error *err);
void mmul_loop_states_close(struct mmul_loop_states *states); // accepts NULL

// Removes the journal: the text has run to its end. Accepts NULL.
void mmul_loop_states_remove(struct mmul_loop_states *states);

// Called before the first job of a loop. With a recorded state, *first moves behind the
// recorded turns. A loop that had ended gets no turn. Restores the values of the names of the
// outermost loop, unless the state is one of an inner loop.
enum mmul_status mmul_loop_states_begin(struct mmul_evaluator *e, const struct mmul_node *loop,
                                        int64_t *first, int64_t end);

// Called at the begin of a turn. If a state of a loop inside is being restored, sets *statement to
// this loop, with which the turn continues, and restores the values.
enum mmul_status mmul_loop_states_enter(struct mmul_evaluator *e, const struct mmul_node *loop,
                                        int64_t turn, int64_t end,
                                        const struct mmul_node **statement);

// Called behind a turn, before its job runs. If a state is due, the program saves it. ends: it is
// the last turn.
enum mmul_status mmul_loop_states_save(struct mmul_evaluator *e, const struct mmul_node *loop,
                                       bool ends);

// Called after the turn's job: records the state that was saved, if any.
enum mmul_status mmul_loop_states_record(struct mmul_evaluator *e);

// Forgets outputs of a state, which the run has taken.
void mmul_loop_states_release(struct mmul_loop_states *states);
