// SPDX-License-Identifier: MIT
// How far a run is, and how long it will take still: what root tells its user, and others of that user (exec/setup/
// board.h). Predictions, corrected by the time that what is done has taken; all ranks count, by their words.
#pragma once

#include "exec/conduct/heartbeat.h"

// What there is to do, or has been done.
struct mmul_outlook_work {
    double seconds; // as predicted
    double bytes, flops;
};

struct mmul_outlook {
    struct mmul_run *run;             // borrowed
    struct mmul_heartbeat *heartbeat; // borrowed: where ranks' words come
    void (*progress)(void *progress_context,
                     const struct mmul_progress *progress); // NULL: nobody asks
    void *progress_context;
    const char *phase;
    bool has_looked;                  // what follows is there
    const struct mmul_stage *longest; // of those that compute; NULL: none
    // Of all stages; of those that compute, by all ranks; of moves that are over, by root.
    struct mmul_outlook_work all, computing, moved;
    int stages_over;
    double begin, stage_begin,
        told;     // clock: of the run, of the first stage that is not over, of the last word
    double shown; // the part of the work that was told: it only grows
};

// Root, when its run begins.
void mmul_outlook_init(struct mmul_outlook *outlook, struct mmul_run *run,
                       struct mmul_heartbeat *heartbeat);

// Root's main thread, now and then; stages_over: so many of the run are, here.
void mmul_outlook_tell(struct mmul_outlook *outlook, int stages_over);

// Root, when the run is over: what its ranks said last stays on its board.
void mmul_outlook_end(struct mmul_outlook *outlook);
