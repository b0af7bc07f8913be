// SPDX-License-Identifier: MIT
// Names of OpenCL and CLBlast error codes. Does not decide if a device is lost: device.c treats
// every failure as a loss.
#include "device/opencl_error.h"

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <clblast_c.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/status.h"

struct code {
    int code;
    const char *name;
};

#define CODE(name) \
    { name, #name }

static const struct code codes[] = {
    CODE(CL_DEVICE_NOT_FOUND),
    CODE(CL_DEVICE_NOT_AVAILABLE),
    CODE(CL_COMPILER_NOT_AVAILABLE),
    CODE(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    CODE(CL_OUT_OF_RESOURCES),
    CODE(CL_OUT_OF_HOST_MEMORY),
    CODE(CL_PROFILING_INFO_NOT_AVAILABLE),
    CODE(CL_MEM_COPY_OVERLAP),
    CODE(CL_BUILD_PROGRAM_FAILURE),
    CODE(CL_MAP_FAILURE),
    CODE(CL_MISALIGNED_SUB_BUFFER_OFFSET),
    CODE(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
    CODE(CL_COMPILE_PROGRAM_FAILURE),
    CODE(CL_LINKER_NOT_AVAILABLE),
    CODE(CL_LINK_PROGRAM_FAILURE),
    CODE(CL_INVALID_VALUE),
    CODE(CL_INVALID_DEVICE_TYPE),
    CODE(CL_INVALID_PLATFORM),
    CODE(CL_INVALID_DEVICE),
    CODE(CL_INVALID_CONTEXT),
    CODE(CL_INVALID_QUEUE_PROPERTIES),
    CODE(CL_INVALID_COMMAND_QUEUE),
    CODE(CL_INVALID_HOST_PTR),
    CODE(CL_INVALID_MEM_OBJECT),
    CODE(CL_INVALID_BINARY),
    CODE(CL_INVALID_BUILD_OPTIONS),
    CODE(CL_INVALID_PROGRAM),
    CODE(CL_INVALID_PROGRAM_EXECUTABLE),
    CODE(CL_INVALID_KERNEL_NAME),
    CODE(CL_INVALID_KERNEL_DEFINITION),
    CODE(CL_INVALID_KERNEL),
    CODE(CL_INVALID_ARG_INDEX),
    CODE(CL_INVALID_ARG_VALUE),
    CODE(CL_INVALID_ARG_SIZE),
    CODE(CL_INVALID_KERNEL_ARGS),
    CODE(CL_INVALID_WORK_DIMENSION),
    CODE(CL_INVALID_WORK_GROUP_SIZE),
    CODE(CL_INVALID_WORK_ITEM_SIZE),
    CODE(CL_INVALID_GLOBAL_OFFSET),
    CODE(CL_INVALID_EVENT_WAIT_LIST),
    CODE(CL_INVALID_EVENT),
    CODE(CL_INVALID_OPERATION),
    CODE(CL_INVALID_BUFFER_SIZE),
    CODE(CL_INVALID_GLOBAL_WORK_SIZE),
    CODE(CL_INVALID_PROPERTY),
    CODE(CL_PLATFORM_NOT_FOUND_KHR),
    {-9999, "NVIDIA: illegal read or write by a kernel"},
    CODE(CLBlastNotImplemented),
    CODE(CLBlastInvalidMatrixA),
    CODE(CLBlastInvalidMatrixB),
    CODE(CLBlastInvalidMatrixC),
    CODE(CLBlastInvalidDimension),
    CODE(CLBlastInvalidLeadDimA),
    CODE(CLBlastInvalidLeadDimB),
    CODE(CLBlastInvalidLeadDimC),
    CODE(CLBlastInsufficientMemoryA),
    CODE(CLBlastInsufficientMemoryB),
    CODE(CLBlastInsufficientMemoryC),
    CODE(CLBlastInsufficientMemoryTemp),
    CODE(CLBlastInvalidOverrideKernel),
    CODE(CLBlastMissingOverrideParameter),
    CODE(CLBlastInvalidLocalMemUsage),
    CODE(CLBlastDatabaseError),
    CODE(CLBlastUnknownError),
    CODE(CLBlastUnexpectedError),
};

const char *mmul_opencl_code_name(int code) {
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].code == code)
            return codes[i].name;
    return "an unknown code";
}

enum mmul_status mmul_opencl_fail(struct mmul_error *err, int code, const char *format, ...) {
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    mmul_fail(err, MMUL_ERR_UNAVAILABLE, "%s: %s (%d)", what, mmul_opencl_code_name(code), code);
    if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES)
        mmul_hint(err, "give --device-memory a smaller size to work in smaller pieces");
    return MMUL_ERR_UNAVAILABLE;
}
