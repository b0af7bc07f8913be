// SPDX-License-Identifier: MIT
// How far a command is: a bar on a terminal, a line every few seconds elsewhere. While nobody tells of anything
// (drivers build kernels, a large file is compared) a thread of its own says what goes on, and for how long.
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "mpimatmul_local.h"

enum progress_style { PROGRESS_NONE, PROGRESS_BAR, PROGRESS_PLAIN };

struct progress {
    enum progress_style style;
    double begin_seconds; // clock: of the command
    double loop_seconds;  // clock: of the loop at hand
    // Under `lock`, where a thread ticks:
    double next_seconds; // clock: when the next line, or redraw, is due
    bool is_drawn;       // a bar stands on the terminal
    bool is_held;        // none may: a line that is not over does
    char doing[96];      // what was told of last: "multiply 45 %"
    bool is_ticking;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ends;
};

// Seconds on the monotonic clock.
double mmul_progress_now(void);

// "3 h 25 min", "2 min 5 s", "4 s"; nothing of what is not known (NAN).
void mmul_progress_seconds(double seconds, char *text, size_t capacity);

// `choice` is the place in "auto|bar|plain|none": auto is a bar when stderr is a terminal. Stays where it is until it
// is ended.
void mmul_progress_init(struct progress *progress, int choice);

// From now on there is always something to be seen: `doing`, until there is more to tell.
void mmul_progress_tick(struct progress *progress, const char *doing);

// What goes on now.
void mmul_progress_enter(struct progress *progress, const char *doing);

// The library's callback; `context` is the struct progress.
void mmul_progress_show(void *context, const struct mmul_progress *progress);

// A turn of a text's loop begins.
void mmul_progress_turn(struct progress *progress, const struct mmul_script_turn *turn);

// The library's callback for a line that cannot wait.
void mmul_progress_notice(void *context, const char *text);

// No bar from now on, or bars again: a bar would remove a line of the terminal that is not over.
void mmul_progress_hold(struct progress *progress, bool is_held);

// Removes a bar, so that what is printed next starts on an empty line.
void mmul_progress_clear(struct progress *progress);

// The same for good: nothing is drawn any more.
void mmul_progress_fini(struct progress *progress);
