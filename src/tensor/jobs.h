// SPDX-License-Identifier: MIT
//
// A text that has loops which run is carried out in jobs, one after the other: what stands before a loop, every turn,
// what comes behind it. A job is a program; what later ones need of it the ranks hold (mmul_program_hold), and it is a
// leaf of theirs as soon as they use it. Names stay what they are; of what is named in a turn only that outlives it
// which was there before the loop.
#pragma once

#include "tensor/foreseen.h"

// The value of a matrix in the program at hand; -1: failed.
int mmul_job_value(struct mmul_evaluator *e, const struct mmul_node *at,
                   const struct mmul_object *matrix);

// Before the first job of a loop: from now on strings and tuples are in memory of the job.
void mmul_jobs_enter(struct mmul_evaluator *e, const struct mmul_node *loop);
void mmul_jobs_leave(struct mmul_evaluator *e);

// Runs what there is so far, with its prints and files, and begins another program. at: the loop, or the call, that it
// stands before, or that it is a turn of. turn: which one it was; NULL: none.
enum mmul_status mmul_job_run(struct mmul_evaluator *e, const struct mmul_node *at,
                              const int64_t *turn);

// After a failure.
enum mmul_status mmul_job_name_turn(struct mmul_evaluator *e, int64_t turn);

// Values of a program that outlive it, each once. Zero-initialised; all: released with mmul_free.
struct mmul_holds {
    struct mmul_hold {
        int value;
        int64_t held;
    } * all; // owned
    int count, capacity;
    const struct mmul_holds
        *like; // their numbers are to be those of these, in order; NULL: new ones
    struct mmul_hold_place place; // of the next object, for its types
};

// A copy of x in memory of the next job, whose matrices are held.
enum mmul_status mmul_hold_object(struct mmul_evaluator *e, struct mmul_holds *holds,
                                  const struct mmul_object *x, struct mmul_object *held);

// After a program has run: the script has them from now on, until no name has them any more, nor anything pinned.
// releases: what that is true of goes; else nothing does yet.
enum mmul_status mmul_holds_settle(struct mmul_evaluator *e, const struct mmul_holds *holds,
                                   bool releases);

// A copy of x, in `arena`: what it is made of; of strings and functions only that they are some.
enum mmul_status mmul_copy_structure(struct mmul_evaluator *e, struct mmul_arena *arena,
                                     const struct mmul_object *x, struct mmul_object *copy);

// A copy of x whose matrices are whole on every node, so that programs of nodes can read them.
enum mmul_status mmul_job_spread(struct mmul_evaluator *e, const struct mmul_node *at,
                                 const struct mmul_object *x, struct mmul_object *spread);

// Does any function of the text read a name that it does not have itself?
bool mmul_functions_read(const struct mmul_evaluator *e, const char *name);

// Names that a loop assigns to and that were there before: carried from turn to turn.
struct mmul_carried {
    struct mmul_carried_name {
        struct mmul_binding *binding;
        struct mmul_object before; // at the beginning of the turn
        bool is_new;               // a turn assigns to it before it reads it: of any size
    } * names;                     // owned
    int count;
    struct mmul_arena arena; // owned: of `before`, whatever jobs a turn has
};
enum mmul_status mmul_carried_find(struct mmul_evaluator *e, const struct mmul_node *loop,
                                   struct mmul_carried *carried);
enum mmul_status mmul_carried_begin_turn(struct mmul_evaluator *e, struct mmul_carried *carried);
void mmul_carried_fini(struct mmul_carried *carried);
// Sizes are as they were, of what the turn has read, but that a number may become a matrix of one element, and that a
// number; what else it has named is forgotten.
enum mmul_status mmul_carried_end_turn(struct mmul_evaluator *e, const struct mmul_node *loop,
                                       const struct mmul_carried *carried);

// Matrices in the same tuples, of the same shapes; numbers.
bool mmul_is_alike(const struct mmul_object *x, const struct mmul_object *y);

// At the end of the text: what was saved before a loop is written by the last job.
enum mmul_status mmul_jobs_end(struct mmul_evaluator *e);
void mmul_jobs_fini(struct mmul_evaluator *e);

// What is to be printed is forgotten, and what was awaited for it given up.
void mmul_job_views_free(struct mmul_script *script);

// What the ranks hold for a script, which is over.
void mmul_jobs_release(struct mmul_script *script);
