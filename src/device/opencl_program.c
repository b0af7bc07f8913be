// SPDX-License-Identifier: MIT
// Builds our kernels from the text embedded in the library. A device keeps its programs as long as
// its context, so there is no other cache. CLBlast builds and caches its kernels itself.
#include "device/opencl_program.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/opencl_error.h"

// Reads the beginning of the compiler's log as one line; "" if there is none.
static void read_build_log(cl_program program, cl_device_id device, char *line, size_t capacity) {
    struct mmul_error ignored;
    size_t bytes = 0;
    line[0] = '\0';
    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) != CL_SUCCESS)
        return;
    char *log = mmul_allocate((int64_t)bytes + 1, 1, "a build log", &ignored);
    if (log == NULL)
        return;
    size_t length = 0;
    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log, NULL) ==
        CL_SUCCESS) {
        for (; log[length] != '\0' && length + 1 < capacity; length++)
            line[length] = (unsigned char)log[length] < ' ' ? ' ' : log[length];
        line[length] = '\0';
    }
    mmul_free(log);
}

// Ranks of a node that build the same kernels at the same time conflict in PoCL's cache (its issues
// 430 and 1480): a build fails on one of them and succeeds a moment later.
bool mmul_opencl_should_rebuild(cl_int code, int failures) {
    const int most = 3;
    const bool again = code == CL_BUILD_PROGRAM_FAILURE && failures < most;
    if (again)
        mmul_clock_sleep(0.1 * failures);
    return again;
}

// Builds a program. Keeps a failed one in *program, for its log.
static cl_int build_program(cl_context context, cl_device_id device, const char *const sources[],
                            cl_program *program) {
    cl_int code = CL_SUCCESS;
    const char *texts[MMUL_OPENCL_TEXTS];
    cl_uint count = 0;
    for (; count < MMUL_OPENCL_TEXTS && sources[count] != NULL; count++)
        texts[count] = sources[count];
    *program = clCreateProgramWithSource(context, count, texts, NULL, &code);
    return code == CL_SUCCESS ? clBuildProgram(*program, 1, &device, "-cl-std=CL1.1", NULL, NULL)
                              : code;
}

enum mmul_status mmul_opencl_program_create(cl_context context, cl_device_id device,
                                            const char *label, const char *const sources[],
                                            cl_program *program, struct mmul_error *err) {
    cl_program built = NULL;
    cl_int code = build_program(context, device, sources, &built);
    for (int failures = 1; built != NULL && mmul_opencl_should_rebuild(code, failures);
         failures++) {
        clReleaseProgram(built);
        code = build_program(context, device, sources, &built);
    }
    if (built == NULL)
        return mmul_opencl_fail(err, code, "cannot create a program on '%s'", label);
    if (code != CL_SUCCESS) {
        char log[600];
        read_build_log(built, device, log, sizeof log);
        clReleaseProgram(built);
        return mmul_fail(err, MMUL_ERR_UNAVAILABLE, "cannot build kernels on '%s': %s (%d): %s",
                         label, mmul_opencl_code_name(code), code,
                         log[0] != '\0' ? log : "the compiler left no log");
    }
    *program = built;
    return MMUL_OK;
}

enum mmul_status mmul_opencl_kernel_create(cl_program program, const char *label, const char *name,
                                           cl_kernel *kernel, struct mmul_error *err) {
    cl_int code = CL_SUCCESS;
    cl_kernel made = clCreateKernel(program, name, &code);
    if (code != CL_SUCCESS)
        return mmul_opencl_fail(err, code, "cannot create kernel '%s' on '%s'", name, label);
    *kernel = made;
    return MMUL_OK;
}
