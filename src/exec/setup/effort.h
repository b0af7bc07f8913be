// SPDX-License-Identifier: MIT
//
// What this rank's device does and uses, from run to run: operations per second, memory, temperature, watts, and energy
// where the system counts it: all that the card, or the packages of the CPU, have used, by whomever.
#pragma once

#include <stdatomic.h>

#include "host/sensors.h"

struct mmul_context;

struct mmul_effort { // zeroed: nothing is known yet, nor looked for
    struct mmul_sensors sensors;
    bool is_open, is_quick; // is_quick: a card's maker has not been asked yet
    int replacements;       // of the context's device, when its sensors were looked for
    double first_at;        // clock: when the first run began; 0: none has
    atomic_flag reading;    // held by the thread that reads them
    double read_at;         // clock
    double begun_joules;    // when the run began; NAN: not measured

    struct mmul_sensed sensed; // as of `looked_at`
    int64_t resident_bytes;
    double looked_at;          // clock; 0: never
    double flops;              // of all runs that are over
    double since, since_flops; // the clock and all of these when a rate was taken last
    double flops_per_second;   // since the time before that; NAN: not known
};

// A run begins: looks for sensors, once for each device that a rank has, and reads them. A card's maker, who answers in
// some hundred milliseconds, is asked for a run of a second and more, or a job that is half a second old: the energy of
// others is not known then. Local, like all here.
void mmul_effort_begin_run(struct mmul_context *context, double predicted_seconds);

// To be called while it goes on: counters of energy begin again, and must be looked at before that.
void mmul_effort_attend(struct mmul_context *context, double now);

// Joules since it began, so far; NAN: not measured, or by a device that was replaced meanwhile. On any thread.
double mmul_effort_joules(struct mmul_context *context);

// Looks again where the last time is half a second ago; `flops`: of the run at hand.
void mmul_effort_look(struct mmul_context *context, double flops, double now);

// That run is over.
void mmul_effort_end_run(struct mmul_context *context, double flops);

void mmul_effort_destroy(struct mmul_effort *effort);
