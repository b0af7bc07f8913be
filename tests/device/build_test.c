// SPDX-License-Identifier: MIT
//
// Kernel builds that fail at first and succeed a moment later: `build_test NAME`. PoCL does so
// while other ranks build the same kernel. This program puts itself between the library, CLBlast
// and OpenCL.
#include <dlfcn.h>

#include "tap.h"

enum { SIDE = 40, ELEMENTS = SIDE * SIDE };

#if MMUL_WITH_OPENCL
#include <CL/cl.h>

static int refused, refuse; // consecutive builds

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                      const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                      void *of_caller) {
    cl_int (*build)(cl_program, cl_uint, const cl_device_id *, const char *,
                    void(CL_CALLBACK *)(cl_program, void *), void *);
    *(void **)&build = dlsym(RTLD_NEXT, "clBuildProgram");
    if (refused < refuse) {
        refused++;
        return CL_BUILD_PROGRAM_FAILURE;
    }
    refused = 0;
    return build(program, count, devices, options, notify, of_caller);
}

// Sets *right if a sum of SIDE products of 1 and 2, which the device widens to float32, is right.
static enum mmul_status multiply(struct mmul_device *device, bool *right, struct mmul_error *err) {
    struct mmul_buffer *a = NULL, *b = NULL, *c = NULL;
    uint16_t ones[ELEMENTS];
    float found[ELEMENTS] = {0};
    for (int e = 0; e < ELEMENTS; e++)
        ones[e] = 0x3c00; // float16
    must_succeed(mmul_device_buffer_create(device, MMUL_F32, ELEMENTS, &a, err), err);
    must_succeed(mmul_device_buffer_create(device, MMUL_F32, ELEMENTS, &b, err), err);
    must_succeed(mmul_device_buffer_create(device, MMUL_F32, ELEMENTS, &c, err), err);
    const struct mmul_gemm args = {.m = SIDE,
                                   .n = SIDE,
                                   .k = SIDE,
                                   .alpha = 2,
                                   .a = {a, 0, SIDE},
                                   .b = {b, 0, SIDE},
                                   .c = {c, 0, SIDE}};
    const struct mmul_upload to_a = {args.a, SIDE, SIDE, ones, SIDE, MMUL_F16};
    const struct mmul_upload to_b = {args.b, SIDE, SIDE, ones, SIDE, MMUL_F16};
    enum mmul_status status = mmul_device_upload(device, &to_a, err);
    if (status == MMUL_OK)
        status = mmul_device_upload(device, &to_b, err);
    if (status == MMUL_OK)
        status = mmul_device_gemm(device, &args, err);
    if (status == MMUL_OK)
        status = mmul_device_download(
            device, &(struct mmul_download){args.c, SIDE, SIDE, found, SIDE, MMUL_F32}, err);
    if (status == MMUL_OK)
        status = mmul_device_wait(device, err);
    *right = status == MMUL_OK;
    for (int e = 0; e < ELEMENTS; e++)
        *right = *right && found[e] == 2 * SIDE;
    mmul_device_buffer_destroy(device, a);
    mmul_device_buffer_destroy(device, b);
    mmul_device_buffer_destroy(device, c);
    return status;
}

static void test_builds(const char *name) {
    struct mmul_device *device = NULL;
    struct mmul_error err = {0};
    bool right = false;
    refuse = 1000;
    must_succeed(mmul_device_open(name, &device, &err), &err);
    const bool fails = multiply(device, &right, &err) == MMUL_ERR_UNAVAILABLE;
    report_point(fails && strstr(err.text, "cannot build kernels on '") == err.text &&
                     strstr(err.text, "CL_BUILD_PROGRAM_FAILURE (-11)") != NULL,
                 "a kernel that cannot be built is an error", err.text);
    report_point(refused == 3, "the build was tried three times", "another number of tries");
    mmul_device_close(device);
    refuse = 2, refused = 0;
    must_succeed(mmul_device_open(name, &device, &err), &err);
    report_point(multiply(device, &right, &err) == MMUL_OK,
                 "a build that fails twice succeeds, for our kernels and CLBlast's", err.text);
    report_point(right, "the product is right after retried builds", "elements differ");
    mmul_device_close(device);
    refuse = 0;
}
#endif

int main(int argc, char **argv) {
    struct mmul_device *device = open_device(argc, argv);
#if MMUL_WITH_OPENCL
    if (strcmp(device->table->kind, "opencl") == 0)
        test_builds(argv[1]);
#endif
    return close_device(device);
}
