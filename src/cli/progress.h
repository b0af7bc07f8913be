// SPDX-License-Identifier: MIT
// How far a run is: a bar on a terminal, a line every few seconds elsewhere.
#pragma once

#include <stdbool.h>

#include "mpimatmul_local.h"

enum progress_style { PROGRESS_NONE, PROGRESS_BAR, PROGRESS_PLAIN };

struct progress {
    enum progress_style style;
    double next_seconds; // clock: when the next line, or redraw, is due
    bool is_drawn;       // a bar stands on the terminal
};

// Seconds on the monotonic clock.
double mmul_progress_now(void);

// `choice` is the place in "auto|bar|plain|none": auto is a bar when stderr is a terminal.
void mmul_progress_init(struct progress *progress, int choice);

// The library's callback; `context` is the struct progress.
void mmul_progress_show(void *context, const struct mmul_progress *progress);

// The library's callback for a line that cannot wait.
void mmul_progress_notice(void *context, const char *text);

// Removes a bar, so that what is printed next starts on an empty line.
void mmul_progress_fini(struct progress *progress);
