// SPDX-License-Identifier: MIT
// Reads the sensors of the device that the rank computes on. For a CPU these are the sensors of the
// packages that the process is bound to. Estimates nothing.
#include "exec/setup/effort.h"

#include <math.h>
#include <sched.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/setup/context.h"

// Interval of reads. A package at 500 W takes 8 minutes until the shortest energy counters wrap.
static const double READ_SECONDS = 30;
static const double LOOK_SECONDS = 0.45, RATE_SECONDS = 1, LONG_SECONDS = 1;

// ---------------------------------------------------------------------------------------- sensors

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

static void close_sensors(struct mmul_effort *effort) {
    if (effort->is_open)
        mmul_sensors_close(&effort->sensors);
    effort->is_open = false;
}

static void open_sensors(const struct mmul_context *context, double now, bool quick) {
    struct mmul_effort *effort = context->effort;
    const struct mmul_cpuset cores = own_cores();
    struct mmul_device_info info;
    close_sensors(effort);
    mmul_device_describe(context->device, &info);
    const struct mmul_sensors_request request = {
        .root = "", .pci = info.pci, .cores = &cores, .quick = quick};
    mmul_sensors_open(&effort->sensors, &request, now);
    effort->is_open = true;
    effort->is_quick = quick && info.pci[0] != '\0';
    effort->replacements = context->replacements;
}

static void lock_sensors(struct mmul_effort *effort) {
    // the other thread holds it for one read only
    while (atomic_flag_test_and_set(&effort->reading))
        mmul_clock_nap(20e-6);
}

// Reads the energy counters and releases the flag that the caller has taken by lock_sensors().
static double read_joules_and_unlock(struct mmul_effort *effort, double now) {
    const double joules = mmul_sensors_joules(&effort->sensors);
    effort->read_at = now;
    atomic_flag_clear(&effort->reading);
    return joules;
}

void mmul_effort_begin_run(struct mmul_context *context, double predicted_seconds) {
    struct mmul_effort *effort = context->effort;
    const double now = mmul_clock_now();
    effort->first_at = effort->first_at == 0 ? now : effort->first_at;
    const bool quick = predicted_seconds < LONG_SECONDS && now - effort->first_at < LOOK_SECONDS;
    if (!effort->is_open || effort->replacements != context->replacements ||
        (effort->is_quick && !quick))
        open_sensors(context, now, quick);
    lock_sensors(effort);
    effort->begun_joules = read_joules_and_unlock(effort, now);
}

void mmul_effort_attend(struct mmul_context *context, double now) {
    struct mmul_effort *effort = context->effort;
    if (isnan(effort->begun_joules) || atomic_flag_test_and_set(&effort->reading))
        return;
    if (now - effort->read_at >= READ_SECONDS)
        read_joules_and_unlock(effort, now);
    else
        atomic_flag_clear(&effort->reading);
}

double mmul_effort_joules(struct mmul_context *context) {
    struct mmul_effort *effort = context->effort;
    if (isnan(effort->begun_joules) || effort->replacements != context->replacements)
        return NAN;
    lock_sensors(effort);
    return read_joules_and_unlock(effort, mmul_clock_now()) - effort->begun_joules;
}

void mmul_effort_destroy(struct mmul_effort *effort) {
    if (effort != NULL)
        close_sensors(effort);
    mmul_free(effort);
}

// ------------------------------------------------------------------------------------------ looks

void mmul_effort_look(struct mmul_context *context, double flops, double now) {
    struct mmul_effort *effort = context->effort;
    if (now - effort->looked_at < LOOK_SECONDS)
        return;
    if (effort->looked_at == 0) {
        effort->since = now;
        effort->since_flops = effort->flops + flops;
        effort->flops_per_second = NAN;
    }
    effort->looked_at = now;
    if (effort->is_quick && isnan(effort->begun_joules) && now - effort->first_at >= LOOK_SECONDS)
        // without begun_joules no other thread reads the sensors
        open_sensors(context, now, false);
    lock_sensors(effort);
    effort->sensed = mmul_sensors_read(&effort->sensors, now);
    atomic_flag_clear(&effort->reading);
    effort->resident_bytes = mmul_process_resident_bytes();
    if (now - effort->since < RATE_SECONDS)
        return;
    const double all = effort->flops + flops;
    effort->flops_per_second = (all - effort->since_flops) / (now - effort->since);
    effort->since = now;
    effort->since_flops = all;
}

void mmul_effort_end_run(struct mmul_context *context, double flops) {
    context->effort->flops += flops;
}
