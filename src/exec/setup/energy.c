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

void mmul_energy_begin(struct mmul_context *context) {
    struct mmul_energy *energy = &context->energy;
    const double now = mmul_clock_now();
    if (!energy->is_open || energy->replacements != context->replacements)
        look_for_counters(context, now);
    energy->begun = mmul_sensors_read(&energy->sensors, now).joules;
    energy->looked_at = now;
}

void mmul_energy_attend(struct mmul_context *context, double now) {
    struct mmul_energy *energy = &context->energy;
    if (isnan(energy->begun) || now - energy->looked_at < LOOK_SECONDS)
        return;
    mmul_sensors_read(&energy->sensors, now);
    energy->looked_at = now;
}

double mmul_energy_end(struct mmul_context *context) {
    struct mmul_energy *energy = &context->energy;
    if (isnan(energy->begun) || energy->replacements != context->replacements)
        return NAN;
    return mmul_sensors_read(&energy->sensors, mmul_clock_now()).joules - energy->begun;
}

void mmul_energy_close(struct mmul_context *context) {
    if (context->energy.is_open)
        mmul_sensors_close(&context->energy.sensors);
    context->energy.is_open = false;
}
