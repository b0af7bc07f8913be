// SPDX-License-Identifier: MIT
//
// Stands in for every opencl_*.c in a build without OpenCL: a look around finds no device, and
// opening one by name fails with a line that says why.
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "device/registry.h"

struct mmul_probe {
    bool empty;
};

enum mmul_status mmul_probe_create(const struct mmul_probe_options *options,
                                   struct mmul_probe **probe, struct mmul_error *err) {
    struct mmul_probe_options taken;
    enum mmul_status status = MMUL_OPTIONS_TAKE(mmul_probe_options, options, &taken, err);
    if (status != MMUL_OK)
        return status;
    struct mmul_probe *made = mmul_allocate(1, sizeof *made, "a probe", err);
    if (made == NULL)
        return err->status;
    *probe = made;
    return MMUL_OK;
}

void mmul_probe_destroy(struct mmul_probe *probe) {
    mmul_free(probe);
}

int mmul_probe_devices(const struct mmul_probe *probe, const struct mmul_device_info **devices) {
    (void)probe;
    *devices = NULL;
    return 0;
}

int mmul_probe_warnings(const struct mmul_probe *probe, const char *const **warnings) {
    (void)probe;
    *warnings = NULL;
    return 0;
}

static enum mmul_status fail_absent(const char *text, struct mmul_error *err) {
    mmul_fail(err, MMUL_ERR_UNAVAILABLE, "cannot open OpenCL device '%s': built without OpenCL",
              text);
    mmul_hint(err, "build again with WITH_OPENCL=yes, or use --device cpu");
    return MMUL_ERR_UNAVAILABLE;
}

enum mmul_status mmul_tune(const struct mmul_tune_options *options, struct mmul_tune_result *result,
                           struct mmul_error *err) {
    (void)result;
    struct mmul_tune_options taken;
    enum mmul_status status = MMUL_OPTIONS_TAKE(mmul_tune_options, options, &taken, err);
    return status == MMUL_OK ? fail_absent(taken.device, err) : status;
}

static enum mmul_status open_absent(const char *text, void **self, struct mmul_error *err) {
    (void)self;
    return fail_absent(text, err);
}

// Nothing opens, so no other entry is ever called.
const struct mmul_device_table mmul_opencl_table = {
    .kind = "opencl",
    .open = open_absent,
};
