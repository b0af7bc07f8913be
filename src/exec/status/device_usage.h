// SPDX-License-Identifier: MIT
//
// Rate and resource use of this rank's device over all runs: operations per second, memory,
// temperature, watts, and energy where the system counts it. Energy is all that the card, or the
// CPU packages, have used, including use by other processes.
#pragma once

#include <stdatomic.h>

#include "host/sensors.h"

struct mmul_context;

struct mmul_device_usage { // zeroed: nothing is known and no sensors are open
    struct mmul_sensors sensors;
    bool is_open, is_quick; // is_quick: the card's vendor library was not queried yet
    int replacements;       // `replacements` of the context when the sensors were opened
    double first_at;        // clock: begin of the first run; 0: none has begun
    atomic_flag reading;    // held by the thread that reads the sensors
    double read_at;         // clock: last read of the energy
    double joules_at_begin; // energy counter at the begin of the run; NAN: not measured

    struct mmul_sensor_readings sensed; // as of `looked_at`
    int64_t resident_bytes;
    double looked_at;          // clock; 0: never
    double flops;              // operations of all finished runs
    double since, since_flops; // clock and total operations at the last update of the rate
    double flops_per_second;   // rate over the interval before `since`; NAN: not known
};

// Begins a run: opens the sensors, once for each device that a rank has, and reads them. A card's
// vendor library takes some hundred milliseconds to answer. It is queried only for a run of a
// second or more, or in a job at least half a second old. Otherwise the card's energy is not
// measured. Local, like all functions here.
void mmul_device_usage_begin_run(struct mmul_context *context, double predicted_seconds);

// Reads the energy counters during a run, because they wrap.
void mmul_device_usage_poll(struct mmul_context *context, double now);

// Returns the joules used since the run began. NAN: not measured, or the device was replaced
// meanwhile. Any thread may call it.
double mmul_device_usage_joules(struct mmul_context *context);

// Reads all sensors if the last read is half a second old. `flops`: operations of the current run
// so far.
void mmul_device_usage_update(struct mmul_context *context, double flops, double now);

// Ends the run, which did `flops` operations.
void mmul_device_usage_end_run(struct mmul_context *context, double flops);

void mmul_device_usage_destroy(struct mmul_device_usage *device_usage);
