// SPDX-License-Identifier: MIT
//
// Runs a text with loops as a sequence of jobs: the part before a loop, each iteration, the part
// behind it. Each job is one program. The ranks hold the values that later jobs need
// (mmul_program_hold), and a later program loads them on first use. Variables keep their names; a
// variable first assigned inside an iteration does not survive it.
#pragma once

#include "tensor/held_types.h"

// Returns the value of a matrix in the current program, after loading it if necessary. Returns -1
// on failure.
int mmul_job_value(struct mmul_evaluator *e, const struct mmul_node *at,
                   const struct mmul_object *matrix);

// Called before the first job of a loop. From then on strings and tuples live in the job's memory.
void mmul_jobs_enter_loop(struct mmul_evaluator *e, const struct mmul_node *loop);
void mmul_jobs_leave_loop(struct mmul_evaluator *e);

// Runs the operations and output collected so far, then begins a new program. at: the loop or call
// that follows, or the loop with an iteration that just ended. turn: that iteration, for errors;
// NULL for none.
enum mmul_status mmul_job_run(struct mmul_evaluator *e, const struct mmul_node *at,
                              const int64_t *turn);

// Prefixes an error with the iteration. Returns its status.
enum mmul_status mmul_job_prefix_turn(struct mmul_evaluator *e, int64_t turn);

// Values that outlive their program, each listed once. Zero-initialised; `all` is released with
// mmul_free.
struct mmul_held_values {
    struct mmul_held_value {
        int value;
        int64_t held;
    } * all; // owned
    int count, capacity;
    // List with the numbers to reuse, in order; NULL for new numbers.
    const struct mmul_held_values *like;
    struct mmul_held_place place; // place of the next object, for its type
};

// Copies x to the memory of the next job; the ranks hold its matrices.
enum mmul_status mmul_held_values_add(struct mmul_evaluator *e, struct mmul_held_values *holds,
                                      const struct mmul_object *x, struct mmul_object *held);

// Called after a run: adds the held values to the script. releases: also releases values that no
// name and no pinned object refers to.
enum mmul_status mmul_held_values_commit(struct mmul_evaluator *e,
                                         const struct mmul_held_values *holds, bool releases);

// Copies the structure of x into `arena`. Strings and functions keep only their kind.
enum mmul_status mmul_copy_structure(struct mmul_evaluator *e, struct mmul_arena *arena,
                                     const struct mmul_object *x, struct mmul_object *copy);

// Copies x with all matrices replicated on every node, so that node programs can read them.
enum mmul_status mmul_job_replicate(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const struct mmul_object *x, struct mmul_object *spread);

// Returns true if the current outermost loop, the text behind it, or a function reads the name.
bool mmul_job_reads_name(const struct mmul_evaluator *e, const char *name);

// Returns true if any function of the text reads this global name.
bool mmul_functions_read_name(const struct mmul_evaluator *e, const char *name);

// Carried names: assigned by a loop and bound before it, so passed from iteration to iteration.
struct mmul_carried {
    struct mmul_carried_name {
        struct mmul_binding *binding;
        struct mmul_object before; // structure at the beginning of the iteration
        // Each iteration assigns to the name before reading it, so its shape may change.
        bool is_new;
    } * names; // owned
    int count;
    struct mmul_arena arena; // owned; memory of `before`, independent of jobs
};
enum mmul_status mmul_carried_find(struct mmul_evaluator *e, const struct mmul_node *loop,
                                   struct mmul_carried *carried);
enum mmul_status mmul_carried_begin_turn(struct mmul_evaluator *e, struct mmul_carried *carried);
void mmul_carried_fini(struct mmul_carried *carried);
// Checks that carried values kept their shapes, except that a number may become a one-element
// matrix and back. Forgets all other names assigned in the iteration.
enum mmul_status mmul_carried_end_turn(struct mmul_evaluator *e, const struct mmul_node *loop,
                                       const struct mmul_carried *carried);

// Returns true for equal nesting and equal shapes. Numbers always match.
bool mmul_objects_match(const struct mmul_object *x, const struct mmul_object *y);

// Called at the end of the text: schedules the deferred outputs in the last program.
enum mmul_status mmul_jobs_end(struct mmul_evaluator *e);
void mmul_jobs_fini(struct mmul_evaluator *e);

// Discards pending output and the transfers that it waits for.
void mmul_script_views_discard(struct mmul_script *script);

// Releases all values held by the ranks when a script ends.
void mmul_script_release_held(struct mmul_script *script);
