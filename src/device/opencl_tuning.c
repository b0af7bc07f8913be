// SPDX-License-Identifier: MIT
// Passes tuned parameters to CLBlast, which keeps them for the device until the process ends:
// neither CLBlastClearCache nor closing the device removes them. Untested parameters are therefore
// tried in a child process (opencl_tuner.c).
#include <clblast_c.h>

#include "base/status.h"
#include "device/opencl_device.h"
#include "device/opencl_error.h"
#include "device/tuning.h"

enum mmul_status mmul_opencl_tune(void *self, const struct mmul_tuned_kernel *kernel,
                                  struct mmul_error *err) {
    struct mmul_opencl *opencl = self;
    const char *names[MMUL_TUNED_PARAMETERS];
    size_t values[MMUL_TUNED_PARAMETERS];
    for (int i = 0; i < kernel->count; i++) {
        names[i] = kernel->names[i];
        values[i] = (size_t)kernel->values[i];
    }
    CLBlastStatusCode code =
        CLBlastOverrideParameters(opencl->device, kernel->kernel, CLBlastPrecisionSingle,
                                  (size_t)kernel->count, names, values);
    if (code == CLBlastSuccess)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA, "cannot tune kernel '%s' on '%s': %s (%d)", kernel->kernel,
                     opencl->label, mmul_opencl_code_name((int)code), (int)code);
}
