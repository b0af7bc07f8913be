// SPDX-License-Identifier: MIT
// Progress of a command on stderr: a bar on a terminal, otherwise a line every few seconds. A
// thread prints the current activity and its duration while the library reports nothing, for
// example while a driver builds kernels.
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "mpimatmul_local.h"

enum progress_style { PROGRESS_NONE, PROGRESS_BAR, PROGRESS_PLAIN };

struct progress {
    enum progress_style style;
    double begin_seconds; // start of the command (clock)
    double loop_seconds;  // start of the current loop (clock)
    // Protected by `lock` while the thread runs:
    double next_seconds; // time of the next line or redraw (clock)
    bool is_drawn;       // a bar is on the terminal
    bool is_held;        // no bar may be drawn, because a printed line is not finished
    char doing[96];      // last reported activity: "multiply 45 %"
    bool is_thread_running;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ends;
};

// Returns seconds on the monotonic clock.
double mmul_progress_now(void);

// Formats "3 h 25 min", "2 min 5 s" or "4 s"; "" for NAN.
void mmul_progress_seconds(double seconds, char *text, size_t capacity);

// Initializes the display. `choice` is the index in "auto|bar|plain|none"; auto draws a bar if
// stderr is a terminal. The struct must not move until mmul_progress_fini.
void mmul_progress_init(struct progress *progress, int choice);

// Starts the thread that shows `doing` until there is more to report.
void mmul_progress_start_thread(struct progress *progress, const char *doing);

// Sets the current activity.
void mmul_progress_set_activity(struct progress *progress, const char *doing);

// Callback for the library's reports; `context` is the struct progress.
void mmul_progress_show(void *context, const struct mmul_progress *progress);

// Reports the start of a loop iteration.
void mmul_progress_show_turn(struct progress *progress, const struct mmul_script_turn *turn);

// Callback for a message of the library that must appear at once.
void mmul_progress_print_notice(void *context, const char *text);

// Suspends or resumes the bar. A bar would erase an unfinished line of output.
void mmul_progress_suspend(struct progress *progress, bool is_held);

// Removes the bar, so that the next output starts on an empty line.
void mmul_progress_clear(struct progress *progress);

// Ends the display and removes the bar.
void mmul_progress_fini(struct progress *progress);
