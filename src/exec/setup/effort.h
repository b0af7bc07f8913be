// SPDX-License-Identifier: MIT
// What this rank's device does and needs, from run to run: operations per second, memory, temperature, watts.
#pragma once

#include "host/sensors.h"

struct mmul_context;

struct mmul_effort { // zeroed: nothing is known yet
    struct mmul_sensed sensed; // as of `looked_at`
    int64_t resident_bytes;
    double looked_at;          // clock; 0: never
    double flops;              // of all runs that are over
    double since, since_flops; // the clock and all of these when a rate was taken last
    double flops_per_second;   // since the time before that; NAN: not known
};

// Looks again where the last time is half a second ago; `flops`: of the run at hand. Local.
void mmul_effort_look(struct mmul_context *context, double flops, double now);

// That run is over.
void mmul_effort_end_run(struct mmul_context *context, double flops);
