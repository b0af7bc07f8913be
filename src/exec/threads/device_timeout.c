// SPDX-License-Identifier: MIT
// Watches the clock while another thread works on a device. The caller replaces a device that
// hangs.
#include "exec/threads/device_timeout.h"

#include <stdatomic.h>

#include "base/status.h"
#include "exec/threads/compute_thread.h"

// Limit for building kernels: a build that takes longer never ends. Slow hosts need a minute.
static const double WARM_UP_MOST_SECONDS = 300;

struct watch {
    const struct mmul_timed_work *watched;
    enum mmul_status status;
    struct mmul_error err;
    atomic_bool done;
};

// Runs the work. After the first thread was abandoned this is called again on a thread that can be
// joined.
static void run_work(void *context) {
    struct watch *w = context;
    struct mmul_error err;
    if (atomic_load(&w->done))
        return;
    enum mmul_status status = w->watched->work(w->watched->argument, &err);
    w->status = status;
    if (status != MMUL_OK)
        w->err = err;
    atomic_store(&w->done, true);
}

static void cancel_work(void *context) {
    struct watch *w = context;
    atomic_store(&w->done, true);
}

static enum mmul_poll_result watch_device(void *context) {
    struct watch *w = context;
    struct mmul_device *device = w->watched->device;
    struct mmul_device_info info;
    if (atomic_load(&w->done))
        return MMUL_POLL_FINISHED;
    if (mmul_device_call_seconds(device) < w->watched->call_seconds || !mmul_device_abandon(device))
        return MMUL_POLL_IDLE;
    mmul_device_describe(device, &info);
    w->status =
        mmul_fail(&w->err, MMUL_ERR_UNAVAILABLE, "device '%s (%s)' hangs: a call exceeded %g s",
                  info.id, info.name, w->watched->call_seconds);
    atomic_store(&w->done, true);
    return MMUL_POLL_ABANDONED;
}

enum mmul_status mmul_run_with_timeout(const struct mmul_timed_work *watched,
                                       struct mmul_error *err) {
    struct watch w = {.watched = watched};
    const struct mmul_compute_thread pipeline = {
        .cancel = cancel_work, .compute = run_work, .attend = watch_device, .context = &w};
    enum mmul_status status = mmul_compute_thread_run(&pipeline, err);
    if (status == MMUL_OK && w.status != MMUL_OK)
        *err = w.err;
    return status == MMUL_OK ? w.status : status;
}

struct warming {
    struct mmul_device *device;
    enum mmul_dtype dtype;
    double most;
};

static enum mmul_status warm_up_device(void *argument, struct mmul_error *err) {
    const struct warming *w = argument;
    return mmul_device_warm_up(w->device, w->dtype, w->most, err);
}

enum mmul_status mmul_warm_up_with_timeout(struct mmul_device *device, enum mmul_dtype dtype,
                                           double most, struct mmul_error *err) {
    struct warming w = {device, dtype, most};
    const struct mmul_timed_work building = {.device = device,
                                             .work = warm_up_device,
                                             .argument = &w,
                                             .call_seconds = WARM_UP_MOST_SECONDS};
    return mmul_run_with_timeout(&building, err);
}
