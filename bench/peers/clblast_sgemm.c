// SPDX-License-Identifier: MIT
// Bare CLBlast: C = A B of one size on one OpenCL device, operands in its memory, row-major.
#include <CL/cl.h>
#include <clblast_c.h>

#include "peer.h"

enum { RUNS_MAX = 1000, DEVICES_MAX = 64 };

static const char usage[] = "clblast_sgemm P:D M K N [RUNS [WARMUP]]";

static void must(int code, const char *what) {
    if (code == CL_SUCCESS)
        return;
    fprintf(stderr, "clblast_sgemm: %s fails with %d\n", what, code);
    exit(69);
}

// Opens the device P:D, numbered as by clinfo.
static cl_device_id find(const char *text) {
    cl_platform_id platforms[DEVICES_MAX];
    cl_device_id devices[DEVICES_MAX];
    cl_uint platform_count = 0, device_count = 0;
    char *end = NULL;
    const unsigned long p = strtoul(text, &end, 10);
    const unsigned long d = *end == ':' ? strtoul(end + 1, &end, 10) : DEVICES_MAX;
    must(clGetPlatformIDs(DEVICES_MAX, platforms, &platform_count), "listing platforms");
    if (p < platform_count)
        must(clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &device_count),
             "listing devices");
    if (d >= device_count || *end != '\0') {
        fprintf(stderr, "clblast_sgemm: no device '%s'\n", text);
        exit(69);
    }
    return devices[d];
}

static cl_mem send(cl_context context, cl_command_queue queue, int rows, int cols, uint64_t seed) {
    const size_t count = (size_t)rows * (size_t)cols;
    float *host = peer_matrix(rows, cols, seed);
    cl_int code = CL_SUCCESS;
    cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, count * sizeof *host, NULL, &code);
    must(code, "allocating a matrix");
    must(clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, count * sizeof *host, host, 0, NULL, NULL),
         "sending a matrix");
    free(host);
    return memory;
}

int main(int argc, char **argv) {
    const int m = peer_number(argc, argv, 2, 1, usage), k = peer_number(argc, argv, 3, 1, usage);
    const int n = peer_number(argc, argv, 4, 1, usage);
    const int runs = argc > 5 ? peer_number(argc, argv, 5, 1, usage) : 5;
    const int warmup = argc > 6 ? peer_number(argc, argv, 6, 0, usage) : 1;
    static double seconds[RUNS_MAX];
    char name[128] = "", driver[128] = "";
    cl_int code = CL_SUCCESS;
    if (runs > RUNS_MAX) {
        fprintf(stderr, "clblast_sgemm: more than %d runs\n", RUNS_MAX);
        return 64;
    }
    cl_device_id device = find(argv[1]);
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
    clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof driver - 1, driver, NULL);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    must(code, "opening the device");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    must(code, "making a queue");
    cl_mem a = send(context, queue, m, k, 1), b = send(context, queue, k, n, 2);
    cl_mem c = send(context, queue, m, n, 3);
    for (int r = -warmup; r < runs; r++) {
        double begin = peer_now();
        must((int)CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo,
                               (size_t)m, (size_t)n, (size_t)k, 1, a, 0, (size_t)k, b, 0, (size_t)n,
                               0, c, 0, (size_t)n, &queue, NULL),
             "multiplying");
        must(clFinish(queue), "waiting");
        if (r >= 0)
            seconds[r] = peer_now() - begin;
    }
    float last = 0;
    must(clEnqueueReadBuffer(queue, c, CL_TRUE, ((size_t)m * (size_t)n - 1) * sizeof last,
                             sizeof last, &last, 0, NULL, NULL),
         "fetching an element");
    const bool is_right = last == peer_product(m - 1, n - 1, k);
    printf("{\"peer\": \"CLBlast sgemm\", \"counted\": \"compute only\", \"m\": %d, \"k\": %d, "
           "\"n\": %d, \"device\": \"%s\", \"driver\": \"%s\", \"right\": %s, ",
           m, k, n, name, driver, is_right ? "true" : "false");
    peer_print_seconds(seconds, runs);
    printf("}\n");
    CLBlastClearCache();
    clReleaseMemObject(c);
    clReleaseMemObject(b);
    clReleaseMemObject(a);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return is_right ? 0 : 79;
}
