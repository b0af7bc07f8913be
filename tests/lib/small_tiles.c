// SPDX-License-Identifier: MIT
//
// For LD_PRELOAD: CLBlast uses its tiled code path for small products already. `tune` and `devices
// --test` try products on both sides of the threshold, which take seconds on PoCL at its default.
#include <stdlib.h>

#if MMUL_WITH_OPENCL
#include <CL/cl.h>
#include <clblast_c.h>
#include <dlfcn.h>

enum { SMALLEST = 64 };

// Parameters belong to a device and a precision, and stay until the process ends.
static void lower_tile_threshold(cl_device_id device) {
    const char *name = "XGEMM_MIN_INDIRECT_SIZE";
    const size_t smallest = SMALLEST;
    CLBlastStatusCode (*override)(cl_device_id, const char *, CLBlastPrecision, size_t,
                                  const char **, const size_t *);
    *(void **)&override = dlsym(RTLD_DEFAULT, "CLBlastOverrideParameters");
    if (override == NULL ||
        override(device, "GemmRoutine", CLBlastPrecisionSingle, 1, &name, &smallest) !=
            CLBlastSuccess ||
        override(device, "GemmRoutine", CLBlastPrecisionDouble, 1, &name, &smallest) !=
            CLBlastSuccess)
        abort();
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties, cl_int *code) {
    cl_command_queue (*create)(cl_context, cl_device_id, cl_command_queue_properties, cl_int *);
    *(void **)&create = dlsym(RTLD_NEXT, "clCreateCommandQueue");
    lower_tile_threshold(device);
    return create(context, device, properties, code);
}
#endif
