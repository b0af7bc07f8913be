// SPDX-License-Identifier: MIT
// How far a rank is, and what its device does: what it tells root with its signs of life.
#pragma once

#include "mpimatmul_local.h"

struct mmul_run;
struct mmul_stage;

// The words of it. INT64_MIN: not known. done, total: of what this rank has to compute in the run, alike on all ranks:
// of one product elements of C, so that what is claimed counts where it is done, else predicted nanoseconds.
struct mmul_standing {
    int64_t stage; // that is at hand
    int64_t done, total;
    int64_t flops_per_second, resident_bytes, millicelsius, milliwatts;
};
enum { MMUL_STANDING_WORDS = sizeof(struct mmul_standing) / sizeof(int64_t) };

// What this rank needs to say that.
struct mmul_standing_watch {
    const struct mmul_run *run; // borrowed
    double *before;             // owned: predicted, of its stages before each; 0: nobody asked yet
    bool has_looked;
    double begin, stage_begin; // clock: of the run, of the stage at hand
    int64_t stage;
    double likely_flops; // per second, of a CPU whose speed nobody has measured; 0: not known
};

// Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_standing_watch_init(struct mmul_standing_watch *watch,
                                          const struct mmul_run *run, struct mmul_error *err);
void mmul_standing_watch_fini(struct mmul_standing_watch *watch);

// Local; for the main thread. `is_over`: the run is, and all there is to say is what the device did.
struct mmul_standing mmul_standing_look(struct mmul_standing_watch *watch, bool is_over,
                                        double now);

// Of what is under way by the clock: near its end it becomes slower, for it is not over before it is.
double mmul_standing_ease(double share);

// Predicted seconds of a stage, of a product of an unknown speed by the likely one; whether it is such a product, of
// which nothing is predicted but by an assumed speed.
double mmul_standing_seconds(const struct mmul_standing_watch *watch,
                             const struct mmul_stage *stage);
bool mmul_standing_is_unknown(const struct mmul_stage *stage);

// Is the run one product and nothing else?
bool mmul_standing_is_product(const struct mmul_run *run);
