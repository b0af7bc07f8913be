// SPDX-License-Identifier: MIT
// How far a run is, and how long it will take still: what root tells its user. Predictions, corrected by the time that
// what is done has taken.
#pragma once

#include "exec/steps/stage.h"

struct mmul_run;

// What there is to do, or has been done.
struct mmul_outlook_work {
    double seconds; // as predicted
    double bytes, flops;
};

struct mmul_outlook {
    void (*progress)(void *progress_context,
                     const struct mmul_progress *progress); // NULL: nobody asks
    void *progress_context;
    const char *phase;
    struct mmul_outlook_work all, over; // of all stages; of those that are over
    int stages_over;
    double begin, stage_begin,
        told;            // clock: of the run, of the first stage that is not over, of the last word
    double shown;        // the part of the work that was told: it only grows
    double glance_flops; // per second, of a CPU whose speed nobody has measured; 0: not needed
};

// Root, when its run begins.
void mmul_outlook_init(struct mmul_outlook *outlook, const struct mmul_run *run);

// Root's main thread, now and then; stages_over: so many of the run are, here.
void mmul_outlook_tell(struct mmul_outlook *outlook, const struct mmul_run *run, int stages_over);
