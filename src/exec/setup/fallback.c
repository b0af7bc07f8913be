// SPDX-License-Identifier: MIT
// Replaces a rank's device by its successor, under a flag that keeps a second thread from using a
// device during its replacement. Callers decide when to replace.
#include "exec/setup/fallback.h"

#include <string.h>

#include "base/clock.h"
#include "base/status.h"

// Opens the next device. The caller then owns the present one.
static enum mmul_status open_next(struct mmul_context *context, const char *why,
                                  struct mmul_error *err) {
    char next[128], reason[sizeof err->text];
    struct mmul_device_info info;
    mmul_text_copy(reason, sizeof reason, why); // may lie in err
    if (mmul_device_fallback_name(context->device_name, next) == NULL)
        return mmul_fail(err, MMUL_ERR_UNAVAILABLE, "no fallback device after '%s': %.600s",
                         context->device_name, reason);
    mmul_device_describe(context->device, &info);
    mmul_context_warn(context, "rank %d: device '%s (%s)' is replaced by '%s': %s",
                      context->comm->rank, context->device_name, info.name, next, reason);
    struct mmul_device *opened;
    enum mmul_status status = mmul_device_open(next, &opened, err);
    if (status != MMUL_OK)
        return status;
    context->device = opened;
    context->replacements++;
    memset(context->warm, 0, sizeof context->warm);
    mmul_text_copy(context->device_name, sizeof context->device_name, next);
    mmul_device_set_threads(opened, context->fallback_threads);
    return context->fallback_bind ? mmul_topology_bind(&context->fallback_cores, err) : MMUL_OK;
}

enum mmul_status mmul_context_replace_device(struct mmul_context *context, const char *why,
                                             struct mmul_error *err) {
    struct mmul_device *old = context->device;
    // the other thread holds the flag only briefly
    while (atomic_flag_test_and_set(&context->is_device_locked))
        mmul_clock_sleep(20e-6);
    enum mmul_status status = open_next(context, why, err);
    bool replaced = context->device != old;
    atomic_flag_clear(&context->is_device_locked);
    if (replaced)
        mmul_device_close(old);
    return status;
}

bool mmul_context_lock_device(struct mmul_context *context) {
    return !atomic_flag_test_and_set(&context->is_device_locked);
}

void mmul_context_unlock_device(struct mmul_context *context) {
    atomic_flag_clear(&context->is_device_locked);
}

enum mmul_status mmul_context_abandon_device(struct mmul_context *context, const char *why,
                                             struct mmul_error *err) {
    return open_next(context, why, err);
}

enum mmul_status mmul_context_fall_back(struct mmul_context *context, bool no_fallback,
                                        struct mmul_error *err) {
    if (err->status == MMUL_ERR_SYSTEM && mmul_device_fails_like_fallback(context->device))
        return err->status;
    if (!no_fallback)
        return mmul_context_replace_device(context, err->text, err);
    mmul_hint(err, "leave out --no-fallback to let the CPU take over");
    return err->status = MMUL_ERR_UNAVAILABLE;
}
