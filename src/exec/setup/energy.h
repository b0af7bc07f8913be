// SPDX-License-Identifier: MIT
// What this rank's device uses of energy while a run goes on, where the system counts it: all that the card, or the
// packages of the CPU, have used, by whomever.
#pragma once

#include <stdatomic.h>

#include "host/sensors.h"

struct mmul_context;

struct mmul_energy { // zeroed: nothing has been looked for
    struct mmul_sensors sensors;
    bool is_open;
    int replacements;    // of the context's device, when these were looked for
    double begun;        // joules when the run began; NAN: not measured
    atomic_flag reading; // held by the thread that reads
    double looked_at;    // clock
};

// A run begins: looks for counters, once for each device that a rank has, and reads them. Local.
void mmul_energy_begin(struct mmul_context *context);

// To be called while it goes on: counters begin again, and must be looked at before that.
void mmul_energy_attend(struct mmul_context *context, double now);

// All that the device's sensors tell, now. On any thread.
struct mmul_sensed mmul_energy_sense(struct mmul_context *context, double now);

// Joules since it began, so far; NAN: not measured, or by a device that was replaced meanwhile. On any thread.
double mmul_energy_used(struct mmul_context *context);

void mmul_energy_close(struct mmul_context *context);
