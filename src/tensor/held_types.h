// SPDX-License-Identifier: MIT
//
// Types of values that pass from one job to the next. A matrix made of numbers alone (zeros,
// generate) takes the type of the operand it meets, possibly in a later job. So a text with loops
// is read twice. The first reading builds one program, with as many iterations per loop as the
// types of carried values need to settle. The second one builds job after job with these types.
//
// A type is stored per place. A place is a loop or call, before its first iteration or behind one,
// with a name and the index of a matrix in that. Checkpoints are places, too: a state is saved in
// the type that a later run needs when it restores it.
#pragma once

#include "tensor/evaluator.h"

// Limit, since types that alternate never settle.
enum { MMUL_HELD_TYPES_TURNS = 64 };

struct mmul_carried;
struct mmul_script;
struct mmul_held_types;

struct mmul_held_place {
    int at;           // position of the loop or call in the text
    bool is_behind;   // behind an iteration; false: before the first one
    const char *name; // "": argument or result of a call; NULL: nothing is known
    int index;        // index of the next matrix in the object
};

// Returns true if the text needs the first reading: it contains a loop, apart() or checkpoint().
bool mmul_held_types_are_needed(const struct mmul_node *root);

enum mmul_status mmul_held_types_create(struct mmul_held_types **foreseen, struct mmul_error *err);
void mmul_held_types_destroy(struct mmul_held_types *foreseen);

// ------------------------------------------------------------------------------ the first reading

// Notes the types of all variables, and those of `given` (NULL for none) under the name "".
enum mmul_status mmul_held_types_note(struct mmul_evaluator *e, const struct mmul_node *at,
                                      bool is_behind, const struct mmul_object *given);

// Notes the types behind an iteration, as above. *is_settled: no carried value changed its type.
// carried NULL: only `given` is carried.
enum mmul_status mmul_held_types_end_turn(struct mmul_evaluator *e, const struct mmul_node *at,
                                          const struct mmul_object *given,
                                          const struct mmul_carried *carried, bool *is_settled);

// Notes the matrices of a state that the call `at` writes to, or restores from, the checkpoint
// `file` (absolute path).
enum mmul_status mmul_held_types_note_state(struct mmul_evaluator *e, const struct mmul_node *at,
                                            const char *file, bool is_restored,
                                            const struct mmul_object *state);

// Records the outcome of a condition. mmul_held_types_has_branch tells if it occurred before.
enum mmul_status mmul_held_types_note_branch(struct mmul_evaluator *e,
                                             const struct mmul_node *branch, bool is_true);
bool mmul_held_types_has_branch(const struct mmul_held_types *foreseen,
                                const struct mmul_node *branch, bool is_true);

// Chooses the outcome of an unknown condition: false first, then true, then the one that still
// hides an untried branch inside.
enum mmul_status mmul_held_types_choose_branch(struct mmul_evaluator *e,
                                               const struct mmul_node *branch, bool *is_true);
// Returns true if an unknown condition in this part of the text has had only one outcome.
bool mmul_held_types_has_untried_branch(const struct mmul_held_types *foreseen,
                                        struct mmul_span part);

// Returns the number of outcomes so far.
int mmul_held_types_branch_count(const struct mmul_held_types *foreseen);
// Returns true only on the first request for this branch.
bool mmul_held_types_try_branch(struct mmul_evaluator *e, const struct mmul_node *branch);

// Ends the first reading, also after a failure: chooses the types of all noted values and remembers
// files that are read as float32. Consumes the script's program.
enum mmul_status mmul_held_types_infer(struct mmul_held_types *foreseen, struct mmul_script *script,
                                       struct mmul_error *err);

// ----------------------------------------------------------------------------- the second reading

// Returns true if a value of this place fits both types and must be float64. False for NULL.
bool mmul_held_types_is_double(const struct mmul_held_types *foreseen,
                               struct mmul_held_place place);

bool mmul_held_types_is_rounded(const struct mmul_held_types *foreseen, const char *path);

// Returns line number `index` of the notes about types that change in a loop; NULL after the last
// one. Valid as long as `foreseen`.
const char *mmul_held_types_change(const struct mmul_held_types *foreseen, int index);
