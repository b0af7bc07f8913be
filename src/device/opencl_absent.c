// SPDX-License-Identifier: MIT
// Replaces all opencl_*.c files in a build without OpenCL. Probing finds no device, and opening one
// by name fails with the reason.
#include "base/options.h"
#include "base/status.h"
#include "device/device.h"
#include "device/opencl_name.h"

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
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_tune_options, options, &taken, err);
    return status == MMUL_OK ? fail_absent(taken.device, err) : status;
}

static enum mmul_status open_absent(const char *text, void **self, struct mmul_error *err) {
    (void)self;
    return fail_absent(text, err);
}

static enum mmul_status probe_nothing(const struct mmul_probe_options *options,
                                      struct mmul_probe *probe, struct mmul_error *err) {
    (void)options;
    (void)probe;
    (void)err;
    return MMUL_OK;
}

// Nothing opens, so no other entry is ever called.
const struct mmul_device_table mmul_opencl_table = {
    .kind = "opencl",
    .names = MMUL_OPENCL_NAMES,
    .next = "cpu",
    .is_name = mmul_opencl_is_name,
    .probe = probe_nothing,
    .open = open_absent,
};
