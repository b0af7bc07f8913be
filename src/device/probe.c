// SPDX-License-Identifier: MIT
// Probing: asks every device kind that could satisfy the request for its devices. Opens no device;
// devices are opened later, by name.
#include "device/probe.h"

#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "device/registry.h"

enum { DEVICES_MAX = 128, WARNINGS_MAX = 64 };

struct mmul_probe {
    struct mmul_device_info devices[DEVICES_MAX];
    int count;
    char *warnings[WARNINGS_MAX]; // owned
    int warning_count;
};

void mmul_probe_add_device(struct mmul_probe *probe, const struct mmul_device_info *device) {
    if (probe->count == DEVICES_MAX)
        return;
    probe->devices[probe->count] = *device;
    probe->devices[probe->count++].probed = true;
}

enum mmul_status mmul_probe_add_warning(struct mmul_probe *probe, const char *line,
                                        struct mmul_error *err) {
    if (probe->warning_count == WARNINGS_MAX)
        return MMUL_OK;
    enum mmul_status status = mmul_copy_text(line, &probe->warnings[probe->warning_count], err);
    probe->warning_count += status == MMUL_OK;
    return status;
}

bool mmul_probe_is_automatic(const struct mmul_probe_options *options) {
    return options->device != NULL && strcmp(options->device, "auto") == 0;
}

enum mmul_status mmul_probe_create(const struct mmul_probe_options *options,
                                   struct mmul_probe **probe, struct mmul_error *err) {
    struct mmul_probe *made;
    struct mmul_probe_options taken;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_probe_options, options, &taken, err);
    if (status != MMUL_OK)
        return status;
    status = MMUL_ALLOCATE(made, 1, "a probe", err);
    const struct mmul_device_table *table;
    for (int i = 0; status == MMUL_OK && (table = mmul_device_kind(i)) != NULL; i++)
        if (table->probe != NULL && mmul_device_may_match(taken.device, table))
            status = table->probe(&taken, made, err);
    if (status == MMUL_OK)
        *probe = made;
    else
        mmul_probe_destroy(made);
    return status;
}

void mmul_probe_destroy(struct mmul_probe *probe) {
    if (probe == NULL)
        return;
    for (int i = 0; i < probe->warning_count; i++)
        mmul_free(probe->warnings[i]);
    mmul_free(probe);
}

int mmul_probe_devices(const struct mmul_probe *probe, const struct mmul_device_info **devices) {
    *devices = probe->devices;
    return probe->count;
}

int mmul_probe_warnings(const struct mmul_probe *probe, const char *const **warnings) {
    *warnings = (const char *const *)probe->warnings;
    return probe->warning_count;
}
