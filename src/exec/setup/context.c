// SPDX-License-Identifier: MIT
// Warnings and warm-up of a context. Creating one is the work of discover.c, replacing its device
// that of fallback.c.
#include "exec/setup/context.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/tuning.h"
#include "exec/threads/device_timeout.h"

void mmul_context_warn(struct mmul_context *context, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    mmul_text_add_va(&context->warnings, format, arguments);
    va_end(arguments);
    mmul_text_add(&context->warnings, "\n");
}

void mmul_context_warn_again(struct mmul_context *context, const struct mmul_report *report) {
    const char *const *lines = NULL;
    const int count = mmul_report_warnings(report, &lines);
    for (int i = 0; i < count; i++)
        mmul_context_warn(context, "%s", lines[i]);
}

static bool has_line(const char *const *lines, int count, const char *line) {
    while (count > 0 && strcmp(lines[count - 1], line) != 0)
        count--;
    return count > 0;
}

// Cuts `text` at its line ends. The lines point into it. Equal lines of several ranks become one.
static enum mmul_status cut_lines(char *text, const char ***lines, int *count,
                                  struct mmul_error *err) {
    int found = 0;
    for (const char *c = text; *c != '\0'; c++)
        found += *c == '\n';
    enum mmul_status status = MMUL_ALLOCATE(*lines, found + 1, "warnings", err);
    *count = 0;
    for (int i = 0; status == MMUL_OK && i < found; i++) {
        char *line = text;
        text = strchr(text, '\n');
        *text++ = '\0';
        if (!has_line(*lines, *count, line))
            (*lines)[(*count)++] = line;
    }
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
        mmul_comm_allgather_varying(context->comm, mmul_text_get(&context->warnings),
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

enum mmul_status mmul_context_warm_up(struct mmul_context *context, enum mmul_dtype dtype,
                                      double most, struct mmul_error *err) {
    struct mmul_error untuned;
    int kernels = 0;
    if (most <= context->warm[dtype])
        return MMUL_OK;
    double begin = mmul_clock_now();
    if (mmul_tuning_apply_stored(context->device, &kernels, &untuned) != MMUL_OK)
        mmul_context_warn(context, "rank %d: %s", context->comm->rank, untuned.text);
    enum mmul_status status = mmul_warm_up_with_timeout(context->device, dtype, most, err);
    context->warm_up_seconds += mmul_clock_now() - begin;
    if (status == MMUL_OK)
        context->warm[dtype] = most;
    return status;
}
