// SPDX-License-Identifier: MIT
// Reads the sensors of the device that the rank computes on. For a CPU these are the sensors of the
// packages that the process is bound to. Estimates nothing.
#include "exec/status/device_usage.h"

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

static void close_sensors(struct mmul_device_usage *device_usage) {
    if (device_usage->is_open)
        mmul_sensors_close(&device_usage->sensors);
    device_usage->is_open = false;
}

static void open_sensors(const struct mmul_context *context, double now, bool quick) {
    struct mmul_device_usage *device_usage = context->device_usage;
    const struct mmul_cpuset cores = own_cores();
    struct mmul_device_info info;
    close_sensors(device_usage);
    mmul_device_describe(context->device, &info);
    const struct mmul_sensors_request request = {
        .root = "", .pci = info.pci, .cores = &cores, .quick = quick};
    mmul_sensors_open(&device_usage->sensors, &request, now);
    device_usage->is_open = true;
    device_usage->is_quick = quick && info.pci[0] != '\0';
    device_usage->replacements = context->replacements;
}

static void lock_sensors(struct mmul_device_usage *device_usage) {
    // the other thread holds it for one read only
    while (atomic_flag_test_and_set(&device_usage->reading))
        mmul_clock_sleep(20e-6);
}

// Reads the energy counters and releases the flag that the caller has taken by lock_sensors().
static double read_joules_and_unlock(struct mmul_device_usage *device_usage, double now) {
    const double joules = mmul_sensors_joules(&device_usage->sensors);
    device_usage->read_at = now;
    atomic_flag_clear(&device_usage->reading);
    return joules;
}

void mmul_device_usage_begin_run(struct mmul_context *context, double predicted_seconds) {
    struct mmul_device_usage *device_usage = context->device_usage;
    const double now = mmul_clock_now();
    device_usage->first_at = device_usage->first_at == 0 ? now : device_usage->first_at;
    const bool quick =
        predicted_seconds < LONG_SECONDS && now - device_usage->first_at < LOOK_SECONDS;
    if (!device_usage->is_open || device_usage->replacements != context->replacements ||
        (device_usage->is_quick && !quick))
        open_sensors(context, now, quick);
    lock_sensors(device_usage);
    device_usage->joules_at_begin = read_joules_and_unlock(device_usage, now);
}

void mmul_device_usage_poll(struct mmul_context *context, double now) {
    struct mmul_device_usage *device_usage = context->device_usage;
    if (isnan(device_usage->joules_at_begin) || atomic_flag_test_and_set(&device_usage->reading))
        return;
    if (now - device_usage->read_at >= READ_SECONDS)
        read_joules_and_unlock(device_usage, now);
    else
        atomic_flag_clear(&device_usage->reading);
}

double mmul_device_usage_joules(struct mmul_context *context) {
    struct mmul_device_usage *device_usage = context->device_usage;
    if (isnan(device_usage->joules_at_begin) || device_usage->replacements != context->replacements)
        return NAN;
    lock_sensors(device_usage);
    return read_joules_and_unlock(device_usage, mmul_clock_now()) - device_usage->joules_at_begin;
}

void mmul_device_usage_destroy(struct mmul_device_usage *device_usage) {
    if (device_usage != NULL)
        close_sensors(device_usage);
    mmul_free(device_usage);
}

// ------------------------------------------------------------------------------------------ looks

void mmul_device_usage_update(struct mmul_context *context, double flops, double now) {
    struct mmul_device_usage *device_usage = context->device_usage;
    if (now - device_usage->looked_at < LOOK_SECONDS)
        return;
    if (device_usage->looked_at == 0) {
        device_usage->since = now;
        device_usage->since_flops = device_usage->flops + flops;
        device_usage->flops_per_second = NAN;
    }
    device_usage->looked_at = now;
    if (device_usage->is_quick && isnan(device_usage->joules_at_begin) &&
        now - device_usage->first_at >= LOOK_SECONDS)
        // without joules_at_begin no other thread reads the sensors
        open_sensors(context, now, false);
    lock_sensors(device_usage);
    device_usage->sensed = mmul_sensors_read(&device_usage->sensors, now);
    atomic_flag_clear(&device_usage->reading);
    device_usage->resident_bytes = mmul_process_resident_bytes();
    if (now - device_usage->since < RATE_SECONDS)
        return;
    const double all = device_usage->flops + flops;
    device_usage->flops_per_second =
        (all - device_usage->since_flops) / (now - device_usage->since);
    device_usage->since = now;
    device_usage->since_flops = all;
}

void mmul_device_usage_end_run(struct mmul_context *context, double flops) {
    context->device_usage->flops += flops;
}
