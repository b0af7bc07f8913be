// SPDX-License-Identifier: MIT
// Sensors of the device that the rank computes on; of a CPU those of the packages that the process is bound to.
// Estimates nothing.
#include "exec/setup/energy.h"

#include <math.h>
#include <sched.h>

#include "base/clock.h"
#include "exec/setup/context.h"

// A package of 500 W takes 8 minutes to where the shortest counters begin again.
static const double LOOK_SECONDS = 30;

static struct mmul_cpuset own_cores(void) {
    struct mmul_cpuset cores = {{0}};
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (sched_getaffinity(0, sizeof mask, &mask) == 0)
        for (int i = 0; i < MMUL_CORES_MAX && i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &mask))
                mmul_cpuset_add(&cores, i);
    return cores;
}

static void look_for_counters(struct mmul_context *context, double now) {
    struct mmul_energy *energy = &context->energy;
    const struct mmul_cpuset cores = own_cores();
    struct mmul_device_info info;
    mmul_energy_close(context);
    mmul_device_describe(context->device, &info);
    const struct mmul_sensors_request request = {.root = "", .pci = info.pci, .cores = &cores};
    mmul_sensors_open(&energy->sensors, &request, now);
    energy->is_open = true;
    energy->replacements = context->replacements;
}

// The thread has the right to.
static struct mmul_sensed read_sensors(struct mmul_energy *energy, double now) {
    const struct mmul_sensed sensed = mmul_sensors_read(&energy->sensors, now);
    energy->looked_at = now;
    atomic_flag_clear(&energy->reading);
    return sensed;
}

struct mmul_sensed mmul_energy_sense(struct mmul_context *context, double now) {
    while (atomic_flag_test_and_set(&context->energy.reading)) // the other thread only reads
        mmul_clock_nap(20e-6);
    return read_sensors(&context->energy, now);
}

void mmul_energy_begin(struct mmul_context *context) {
    struct mmul_energy *energy = &context->energy;
    if (!energy->is_open || energy->replacements != context->replacements)
        look_for_counters(context, mmul_clock_now());
    energy->begun = mmul_energy_sense(context, mmul_clock_now()).joules;
}

void mmul_energy_attend(struct mmul_context *context, double now) {
    struct mmul_energy *energy = &context->energy;
    if (isnan(energy->begun) || atomic_flag_test_and_set(&energy->reading))
        return;
    if (now - energy->looked_at >= LOOK_SECONDS)
        read_sensors(energy, now);
    else
        atomic_flag_clear(&energy->reading);
}

double mmul_energy_used(struct mmul_context *context) {
    struct mmul_energy *energy = &context->energy;
    return isnan(energy->begun) || energy->replacements != context->replacements
               ? NAN
               : mmul_energy_sense(context, mmul_clock_now()).joules - energy->begun;
}

void mmul_energy_close(struct mmul_context *context) {
    if (context->energy.is_open)
        mmul_sensors_close(&context->energy.sensors);
    context->energy.is_open = false;
}
