// SPDX-License-Identifier: MIT
//
// Types of values that one job leaves to the next. What is made of numbers alone (zeros, generate) takes the type of
// what it meets, and that may stand in a later job. So a text with loops is read twice: first as one program, in which
// each loop has as many turns as the types of its carried values need to settle; then job by job, with the types found.
// A type is known by the place where the value is held: a loop or call of the text, before its first turn or behind
// one, a name, and the number of the matrix in it. A checkpoint has such places, too: a later run restores what this
// one saves, so a state is saved in the type that the text wants of the restored one.
#pragma once

#include "tensor/evaluator.h"

enum { MMUL_FORESEEN_TURNS = 64 }; // at most: types that swap settle never

struct mmul_carried;
struct mmul_script;
struct mmul_foreseen;

struct mmul_hold_place {
    int at;           // where the loop or call begins in the text
    bool is_behind;   // behind a turn; false: before the first one
    const char *name; // "": what a call is given, or gives; NULL: nothing is known of it
    int index;        // of the next matrix in it
};

// Does a text need the first reading? One with a loop, apart() or checkpoint() does.
bool mmul_foreseen_is_needed(const struct mmul_node *root);

enum mmul_status mmul_foreseen_create(struct mmul_foreseen **foreseen, struct mmul_error *err);
void mmul_foreseen_destroy(struct mmul_foreseen *foreseen);

// ------------------------------------------------------------------------------ the first reading

// Notes matrices of `given` (NULL: none) under the name "", and those of all names of the program.
enum mmul_status mmul_foreseen_note(struct mmul_evaluator *e, const struct mmul_node *at,
                                    bool is_behind, const struct mmul_object *given);

// A turn is over. Notes as above. *is_settled: no value that the next turn reads has another type than the turn
// before had. carried NULL: that is `given` alone.
enum mmul_status mmul_foreseen_turn(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const struct mmul_object *given,
                                    const struct mmul_carried *carried, bool *is_settled);

// Notes matrices of a state that the call `at` writes to, or restores from, the checkpoint `file`, an absolute path.
enum mmul_status mmul_foreseen_note_state(struct mmul_evaluator *e, const struct mmul_node *at,
                                          const char *file, bool is_restored,
                                          const struct mmul_object *state);

// The condition of an `if` is true, or not; has it been that before?
enum mmul_status mmul_foreseen_choose(struct mmul_evaluator *e, const struct mmul_node *branch,
                                      bool is_true);
bool mmul_foreseen_has_chosen(const struct mmul_foreseen *foreseen, const struct mmul_node *branch,
                              bool is_true);

// The condition is not known: false first, then true, then as a branch inside of it needs that has not been both.
enum mmul_status mmul_foreseen_choose_freely(struct mmul_evaluator *e,
                                             const struct mmul_node *branch, bool *is_true);
// Has any such condition inside of a part of the text been one of both alone?
bool mmul_foreseen_is_pending(const struct mmul_foreseen *foreseen, struct mmul_span part);

int mmul_foreseen_choices(const struct mmul_foreseen *foreseen); // how many there were
// True the first time that a branch is asked for.
bool mmul_foreseen_tries(struct mmul_evaluator *e, const struct mmul_node *branch);

// The end of the reading, also where it failed: chooses the types of what was noted, and remembers files that are
// read as float32. The script's program is used up.
enum mmul_status mmul_foreseen_end(struct mmul_foreseen *foreseen, struct mmul_script *script,
                                   struct mmul_error *err);

// ----------------------------------------------------------------------------- the second reading

// A value of this place fits both types, and is wanted in float64. foreseen NULL: no.
bool mmul_foreseen_is_double(const struct mmul_foreseen *foreseen, struct mmul_hold_place place);

bool mmul_foreseen_is_rounded(const struct mmul_foreseen *foreseen, const char *path);

// Types that change in a loop, index 0, 1, ...: a line each. NULL: no other. Lives as long as `foreseen`.
const char *mmul_foreseen_change(const struct mmul_foreseen *foreseen, int index);
