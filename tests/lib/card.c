// SPDX-License-Identifier: MIT
//
// PoCL in the guise of a graphics card, for LD_PRELOAD: `auto` selects it. Environment variables
// add faults:
//   MMUL_CARD_DRIVER=TEXT   version of its driver
//   MMUL_CARD=wrong         the last bytes of an upload do not arrive
//   MMUL_CARD=single        has no doubles
//   MMUL_CARD=small         as single, and work-groups of at most 64 (CLBlast's products need more)
//   MMUL_CARD=crash         the first product ends the process
//   MMUL_CARD=hasty         clFinish returns at once, as Mesa's rusticl does after a flush
//   MMUL_CARD=absent        the driver reports the device as not available
//   MMUL_CARD=closed        a CPU that is reported as available and cannot be opened
#include <stdlib.h>

#if MMUL_WITH_OPENCL
#include <CL/cl.h>
#include <dlfcn.h>
#include <string.h>

enum { GROUP_MOST = 64 };

static void *hidden_function(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    return function != NULL ? function : (abort(), NULL);
}

static int is_card(const char *what) {
    const char *wanted = getenv("MMUL_CARD");
    return wanted != NULL && strcmp(wanted, what) == 0;
}

// Copies an answer in the convention of OpenCL's queries.
static cl_int copy_answer(const void *bytes, size_t count, size_t capacity, void *value,
                          size_t *size) {
    if (size != NULL)
        *size = count;
    if (value == NULL)
        return CL_SUCCESS;
    if (capacity < count)
        return CL_INVALID_VALUE;
    memcpy(value, bytes, count);
    return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info name, size_t capacity, void *value,
                       size_t *size) {
    const cl_device_type type = CL_DEVICE_TYPE_GPU;
    const cl_device_fp_config none = 0;
    const cl_bool no = CL_FALSE;
    const size_t most = GROUP_MOST;
    const char *driver = getenv("MMUL_CARD_DRIVER");
    cl_int (*ask)(cl_device_id, cl_device_info, size_t, void *, size_t *);
    *(void **)&ask = hidden_function("clGetDeviceInfo");
    if (name == CL_DEVICE_AVAILABLE && is_card("absent"))
        return copy_answer(&no, sizeof no, capacity, value, size);
    if (name == CL_DEVICE_TYPE && !is_card("closed"))
        return copy_answer(&type, sizeof type, capacity, value, size);
    if (name == CL_DEVICE_DOUBLE_FP_CONFIG && (is_card("single") || is_card("small")))
        return copy_answer(&none, sizeof none, capacity, value, size);
    if (name == CL_DEVICE_MAX_WORK_GROUP_SIZE && is_card("small"))
        return copy_answer(&most, sizeof most, capacity, value, size);
    if (name == CL_DRIVER_VERSION && driver != NULL)
        return copy_answer(driver, strlen(driver) + 1, capacity, value, size);
    return ask(device, name, capacity, value, size);
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info name, size_t capacity,
                         void *value, size_t *size) {
    static const char card[] = "A card";
    cl_int (*ask)(cl_platform_id, cl_platform_info, size_t, void *, size_t *);
    *(void **)&ask = hidden_function("clGetPlatformInfo");
    if (name == CL_PLATFORM_NAME)
        return copy_answer(card, sizeof card, capacity, value, size);
    return ask(platform, name, capacity, value, size);
}

cl_context clCreateContext(const cl_context_properties *properties, cl_uint count,
                           const cl_device_id *devices,
                           void(CL_CALLBACK *tell)(const char *, const void *, size_t, void *),
                           void *context, cl_int *code) {
    cl_context (*create)(const cl_context_properties *, cl_uint, const cl_device_id *,
                         void(CL_CALLBACK *)(const char *, const void *, size_t, void *), void *,
                         cl_int *);
    *(void **)&create = hidden_function("clCreateContext");
    if (!is_card("absent") && !is_card("closed"))
        return create(properties, count, devices, tell, context, code);
    if (code != NULL)
        *code = CL_DEVICE_NOT_AVAILABLE;
    return NULL;
}

cl_int clFinish(cl_command_queue queue) {
    cl_int (*finish)(cl_command_queue);
    *(void **)&finish = hidden_function("clFinish");
    return is_card("hasty") ? CL_SUCCESS : finish(queue);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset,
                            size_t bytes, const void *from, cl_uint wait_count,
                            const cl_event *waits, cl_event *event) {
    cl_int (*begin)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint,
                    const cl_event *, cl_event *);
    *(void **)&begin = hidden_function("clEnqueueWriteBuffer");
    if (is_card("wrong") && bytes > 64)
        bytes -= 64;
    return begin(queue, memory, blocking, offset, bytes, from, wait_count, waits, event);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint wait_count, const cl_event *waits, cl_event *event) {
    cl_int (*begin)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                    const size_t *, cl_uint, const cl_event *, cl_event *);
    *(void **)&begin = hidden_function("clEnqueueNDRangeKernel");
    if (is_card("crash"))
        abort();
    size_t group = 1;
    for (cl_uint d = 0; local != NULL && d < dimensions; d++)
        group *= local[d];
    if (is_card("small") && group > GROUP_MOST)
        return CL_INVALID_WORK_GROUP_SIZE;
    return begin(queue, kernel, dimensions, offset, global, local, wait_count, waits, event);
}
#endif
