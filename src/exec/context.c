// SPDX-License-Identifier: MIT
// Warnings and warm-up of a context. Creating one is exec/discover's work.
#include "exec/context.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/tuning.h"
#include "exec/watch.h"

void mmul_context_warn(struct mmul_context *context, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    mmul_text_add_list(&context->warnings, format, arguments);
    va_end(arguments);
    mmul_text_add(&context->warnings, "\n");
}

// Cuts `text` at its line ends; lines point into it.
static enum mmul_status cut_lines(char *text, const char ***lines, int *count,
                                  struct mmul_error *err) {
    int found = 0;
    for (const char *c = text; *c != '\0'; c++)
        found += *c == '\n';
    enum mmul_status status = MMUL_ALLOCATE(*lines, found + 1, "warnings", err);
    for (int i = 0; status == MMUL_OK && i < found; i++) {
        (*lines)[i] = text;
        text = strchr(text, '\n');
        *text++ = '\0';
    }
    if (status == MMUL_OK)
        *count = found;
    return status;
}

enum mmul_status mmul_context_collect_warnings(struct mmul_context *context, struct mmul_text *all,
                                               const char ***lines, int *count,
                                               struct mmul_error *err) {
    void *bytes = NULL;
    int64_t total = 0;
    *all = (struct mmul_text){0};
    *lines = NULL;
    *count = 0;
    enum mmul_status status =
        mmul_comm_share_varying(context->comm, mmul_text_get(&context->warnings),
                                (int64_t)context->warnings.length, &bytes, &total, err);
    if (status != MMUL_OK)
        return status;
    mmul_text_fini(&context->warnings);
    if (context->comm->rank == 0 && total > 0) {
        mmul_text_add(all, "%.*s", (int)total, (const char *)bytes);
        status = all->failed ? mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the warnings")
                             : cut_lines(all->data, lines, count, err);
    }
    mmul_free(bytes);
    return mmul_comm_agree(context->comm, status, err);
}

enum mmul_status mmul_context_warm_up(struct mmul_context *context, struct mmul_error *err) {
    struct mmul_error untuned;
    int kernels = 0;
    if (context->warm)
        return MMUL_OK;
    double begin = mmul_clock_now();
    if (mmul_tuning_apply_stored(context->device, &kernels, &untuned) != MMUL_OK)
        mmul_context_warn(context, "rank %d: %s", context->comm->rank, untuned.text);
    enum mmul_status status = mmul_watch_warm_up(context->device, err);
    context->warm_up_seconds = mmul_clock_now() - begin;
    context->warm = status == MMUL_OK;
    return status;
}

// Opens the next device; the present one is the caller's from then on.
static enum mmul_status open_next(struct mmul_context *context, const char *why,
                                  struct mmul_error *err) {
    char next[128], reason[sizeof err->text];
    struct mmul_device_info info;
    mmul_text_copy(reason, sizeof reason, why); // may lie in err
    if (mmul_device_next_name(context->device_name, next) == NULL)
        return mmul_fail(err, MMUL_ERR_UNAVAILABLE, "no device is left after '%s': %.600s",
                         context->device_name, reason);
    mmul_device_describe(context->device, &info);
    mmul_context_warn(context,
                      "rank %d: device '%s (%s)' is not used any more, '%s' takes over: %s",
                      context->comm->rank, context->device_name, info.name, next, reason);
    struct mmul_device *opened;
    enum mmul_status status = mmul_device_open(next, &opened, err);
    if (status != MMUL_OK)
        return status;
    context->device = opened;
    context->replacements++;
    context->warm = false;
    mmul_text_copy(context->device_name, sizeof context->device_name, next);
    mmul_device_set_threads(opened, context->fallback_threads);
    return context->fallback_bind ? mmul_topology_bind(&context->fallback_cores, err) : MMUL_OK;
}

enum mmul_status mmul_context_replace_device(struct mmul_context *context, const char *why,
                                             struct mmul_error *err) {
    struct mmul_device *old = context->device;
    while (atomic_flag_test_and_set(&context->replacing)) // the other thread only looks
        mmul_clock_nap(20e-6);
    enum mmul_status status = open_next(context, why, err);
    bool replaced = context->device != old;
    atomic_flag_clear(&context->replacing);
    if (replaced)
        mmul_device_close(old);
    return status;
}

bool mmul_context_hold_device(struct mmul_context *context) {
    return !atomic_flag_test_and_set(&context->replacing);
}

void mmul_context_release_device(struct mmul_context *context) {
    atomic_flag_clear(&context->replacing);
}

enum mmul_status mmul_context_abandon_device(struct mmul_context *context, const char *why,
                                             struct mmul_error *err) {
    return open_next(context, why, err);
}

enum mmul_status mmul_context_fall_back(struct mmul_context *context, bool no_fallback,
                                        struct mmul_error *err) {
    // The CPU only fails so when the process lacks something: plain loops are no answer to that.
    if (err->status == MMUL_ERR_SYSTEM && strcmp(context->device_name, "cpu") == 0)
        return err->status;
    if (!no_fallback)
        return mmul_context_replace_device(context, err->text, err);
    mmul_hint(err, "leave out --no-fallback to let the CPU take over");
    return err->status = MMUL_ERR_UNAVAILABLE;
}
