// SPDX-License-Identifier: MIT
// An OpenCL device: one context, queues for uploads, products and downloads (opencl_queues),
// CLBlast for products, our kernels for the rest. Only one thread of the process may call CLBlast:
// its caches are per process. No tiling here: the caller keeps operands and the temporary announced
// by gemm_temporary_bytes within the device's memory.
#include "device/opencl_device.h"

#include <clblast_c.h>
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/opencl_error.h"
#include "device/opencl_name.h"
#include "device/opencl_platform.h"
#include "device/opencl_program.h"
#include "device/registry.h"

// -------------------------------------------------------------------------------- open and close

static void close_opencl(void *self, bool lost) {
    struct mmul_opencl *opencl = self;
    if (opencl == NULL)
        return;
    if (lost) { // a driver that lost its device may hang in any call: leak its objects
        mmul_free(opencl);
        return;
    }
    mmul_opencl_queues_fini(&opencl->order);
    CLBlastClearCache(); // before the context, because the cache holds programs of it
    if (opencl->temporary != NULL)
        clReleaseMemObject(opencl->temporary);
    if (opencl->staging != NULL)
        clReleaseMemObject(opencl->staging);
    if (opencl->widen_float16 != NULL)
        clReleaseKernel(opencl->widen_float16);
    if (opencl->widen_bfloat16 != NULL)
        clReleaseKernel(opencl->widen_bfloat16);
    mmul_opencl_map_kernels_fini(&opencl->maps);
    mmul_opencl_sums_state_fini(&opencl->projects);
    if (opencl->program != NULL)
        clReleaseProgram(opencl->program);
    if (opencl->context != NULL)
        clReleaseContext(opencl->context);
    mmul_free(opencl);
}

static enum mmul_status create_context(struct mmul_opencl *opencl, cl_platform_id platform,
                                       struct mmul_error *err) {
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)platform, 0};
    cl_int code = CL_SUCCESS;
    opencl->context = clCreateContext(properties, 1, &opencl->device, NULL, NULL, &code);
    if (code != CL_SUCCESS) {
        opencl->context = NULL;
        return mmul_opencl_fail(err, code, "cannot open '%s'", opencl->label);
    }
    code = mmul_opencl_queues_init(&opencl->order, opencl->context, opencl->device);
    if (code != CL_SUCCESS)
        return mmul_opencl_fail(err, code, "cannot make a queue on '%s'", opencl->label);
    return MMUL_OK;
}

static enum mmul_status open_opencl(const char *text, void **self, struct mmul_error *err) {
    struct mmul_opencl *opencl = mmul_allocate(1, sizeof *opencl, "a device", err);
    if (opencl == NULL)
        return err->status;
    cl_platform_id platform = NULL;
    enum mmul_status status =
        mmul_opencl_find(text, &platform, &opencl->device, &opencl->info, err);
    if (status == MMUL_OK) {
        snprintf(opencl->label, sizeof opencl->label, "%s (%s)", opencl->info.id,
                 opencl->info.name);
        status = create_context(opencl, platform, err);
    }
    if (status != MMUL_OK) {
        close_opencl(opencl, false);
        return status;
    }
    *self = opencl;
    return MMUL_OK;
}

static void describe(const void *self, struct mmul_device_info *info) {
    const struct mmul_opencl *opencl = self;
    *info = opencl->info;
}

static bool has_dtype(const void *self, enum mmul_dtype dtype) {
    const struct mmul_opencl *opencl = self;
    return dtype == MMUL_F32 || (dtype == MMUL_F64 && opencl->info.has_double);
}

static enum mmul_status report_failure(const struct mmul_opencl *opencl, cl_int code,
                                       struct mmul_error *err) {
    if (code != CL_SUCCESS)
        return mmul_opencl_fail(err, code, "a command on '%s' failed", opencl->label);
    return MMUL_OK;
}

static enum mmul_status wait_all(void *self, struct mmul_error *err) {
    struct mmul_opencl *opencl = self;
    return report_failure(opencl, mmul_opencl_wait_all(&opencl->order), err);
}

static enum mmul_status wait_buffer(void *self, struct mmul_buffer *buffer,
                                    struct mmul_error *err) {
    struct mmul_opencl *opencl = self;
    return report_failure(opencl, mmul_opencl_wait_buffer(&opencl->order, &buffer->use), err);
}

// ------------------------------------------------------------------------------------------ gemm

static CLBlastTranspose convert_transpose(bool transpose) {
    return transpose ? CLBlastTransposeYes : CLBlastTransposeNo;
}

// Asks for the bytes of CLBlast's temporary for these operands; 0 for small products.
static CLBlastStatusCode ask_temporary(const struct mmul_opencl *opencl,
                                       const struct mmul_gemm *args, size_t *bytes) {
    cl_command_queue queue = opencl->order.queues[MMUL_QUEUE_COMPUTE];
    return (args->dtype == MMUL_F64 ? CLBlastDGemmTempBufferSize : CLBlastSGemmTempBufferSize)(
        CLBlastLayoutRowMajor, convert_transpose(args->transpose_a),
        convert_transpose(args->transpose_b), (size_t)args->m, (size_t)args->n, (size_t)args->k,
        (size_t)args->a.offset, (size_t)args->a.ld, (size_t)args->b.offset, (size_t)args->b.ld,
        (size_t)args->c.offset, (size_t)args->c.ld, &queue, bytes);
}

// Asks likewise for operands at an offset, which makes CLBlast copy all three: the worst case.
static CLBlastStatusCode ask_worst_temporary(const struct mmul_opencl *opencl,
                                             enum mmul_dtype dtype, int64_t m, int64_t n, int64_t k,
                                             size_t *bytes) {
    const struct mmul_gemm worst = {.dtype = dtype,
                                    .m = m,
                                    .n = n,
                                    .k = k,
                                    .a = {NULL, 1, k},
                                    .b = {NULL, 1, n},
                                    .c = {NULL, 1, n}};
    return ask_temporary(opencl, &worst, bytes);
}

static int64_t gemm_temporary_bytes(const void *self, enum mmul_dtype dtype, int64_t m, int64_t n,
                                    int64_t k) {
    size_t bytes = 0;
    if (ask_worst_temporary(self, dtype, m, n, k, &bytes) != CLBlastSuccess)
        bytes = (size_t)(m * k + k * n + m * n) * mmul_dtype_bytes(dtype);
    return (int64_t)bytes + 2 * (int64_t)MMUL_OPENCL_STAGING_COUNT;
}

// Queued work may still use the old temporary: OpenCL keeps it until that work is done.
static enum mmul_status grow_temporary(struct mmul_opencl *opencl, size_t bytes,
                                       struct mmul_error *err) {
    if (bytes <= opencl->temporary_bytes)
        return MMUL_OK;
    if (opencl->temporary != NULL)
        clReleaseMemObject(opencl->temporary);
    opencl->temporary = NULL;
    opencl->temporary_bytes = 0;
    enum mmul_status status =
        mmul_opencl_allocate(opencl, (int64_t)(bytes / sizeof(float)), sizeof(float),
                             "CLBlast's temporary", &opencl->temporary, err);
    opencl->temporary_bytes = status == MMUL_OK ? bytes : 0;
    return status;
}

static CLBlastStatusCode call_gemm(const struct mmul_opencl *opencl, const struct mmul_gemm *args,
                                   cl_command_queue *queue, cl_event *event) {
    const CLBlastTranspose of_a = convert_transpose(args->transpose_a);
    const CLBlastTranspose of_b = convert_transpose(args->transpose_b);
    const size_t m = (size_t)args->m, n = (size_t)args->n, k = (size_t)args->k;
    const struct mmul_operand *a = &args->a, *b = &args->b, *c = &args->c;
    if (args->dtype == MMUL_F64)
        return CLBlastDgemmWithTempBuffer(CLBlastLayoutRowMajor, of_a, of_b, m, n, k, args->alpha,
                                          a->buffer->memory, (size_t)a->offset, (size_t)a->ld,
                                          b->buffer->memory, (size_t)b->offset, (size_t)b->ld,
                                          args->beta, c->buffer->memory, (size_t)c->offset,
                                          (size_t)c->ld, queue, event, opencl->temporary);
    return CLBlastSgemmWithTempBuffer(
        CLBlastLayoutRowMajor, of_a, of_b, m, n, k, (float)args->alpha, a->buffer->memory,
        (size_t)a->offset, (size_t)a->ld, b->buffer->memory, (size_t)b->offset, (size_t)b->ld,
        (float)args->beta, c->buffer->memory, (size_t)c->offset, (size_t)c->ld, queue, event,
        opencl->temporary);
}

// CLBlast accepts no list of events: a barrier in the queue waits for them instead.
static CLBlastStatusCode begin_gemm(struct mmul_opencl *opencl, const struct mmul_gemm *args) {
    const enum mmul_opencl_queue compute = MMUL_QUEUE_COMPUTE;
    struct mmul_opencl_buffer_events *a = &args->a.buffer->use, *b = &args->b.buffer->use;
    struct mmul_opencl_buffer_events *c = &args->c.buffer->use;
    cl_command_queue queue = opencl->order.queues[compute];
    struct mmul_opencl_dependencies waits = {.count = 0};
    cl_event event = NULL;
    mmul_opencl_add_read_dependencies(&waits, a, compute);
    mmul_opencl_add_read_dependencies(&waits, b, compute);
    mmul_opencl_add_write_dependencies(&waits, c, compute);
    if (waits.count > 0) {
        cl_int code = clEnqueueBarrierWithWaitList(queue, waits.count, waits.events, NULL);
        if (code != CL_SUCCESS)
            return (CLBlastStatusCode)code;
    }
    CLBlastStatusCode code = call_gemm(opencl, args, &queue, &event);
    for (int failures = 1; mmul_opencl_should_rebuild((cl_int)code, failures); failures++)
        // CLBlast builds its kernels before it enqueues anything, so that a second call is safe.
        code = call_gemm(opencl, args, &queue, &event);
    if (code != CLBlastSuccess)
        return code;
    mmul_opencl_record_read(a, compute, event);
    mmul_opencl_record_read(b, compute, event);
    mmul_opencl_record_write(c, compute, event);
    return (CLBlastStatusCode)mmul_opencl_submit(&opencl->order, compute, event);
}

static enum mmul_status gemm(void *self, const struct mmul_gemm *args, struct mmul_error *err) {
    struct mmul_opencl *opencl = self;
    size_t bytes = 0;
    CLBlastStatusCode code = ask_temporary(opencl, args, &bytes);
    if (code == CLBlastSuccess) {
        enum mmul_status status = grow_temporary(opencl, bytes, err);
        if (status != MMUL_OK)
            return status;
        code = begin_gemm(opencl, args);
    }
    if (code != CLBlastSuccess) {
        return mmul_opencl_fail(err, (int)code,
                                "cannot multiply %lld x %lld by %lld x %lld on '%s'",
                                (long long)args->m, (long long)args->k, (long long)args->k,
                                (long long)args->n, opencl->label);
    }
    return MMUL_OK;
}

// --------------------------------------------------------------------------------------- warm up

enum { INDIRECT_STEP = 64 };

// Returns the smallest cube (in steps) that CLBlast multiplies with its indirect kernels.
static int64_t find_indirect_size(const struct mmul_opencl *opencl, enum mmul_dtype dtype) {
    const int64_t most = 2048;
    for (int64_t s = INDIRECT_STEP; s < most; s += INDIRECT_STEP) {
        size_t bytes = 0;
        if (ask_worst_temporary(opencl, dtype, s, s, s, &bytes) == CLBlastSuccess && bytes > 0)
            return s;
    }
    return most;
}

// Multiplies a cube of side `s` in buffers with rows of `ld` elements. Bit 0 transposes A, bit 1 B.
static enum mmul_status warm_gemm(struct mmul_opencl *opencl, struct mmul_buffer *const buffers[3],
                                  int64_t s, int64_t ld, int transposes, struct mmul_error *err) {
    const struct mmul_gemm args = {
        .dtype = buffers[0]->head.dtype,
        .transpose_a = (transposes & 1) != 0,
        .transpose_b = (transposes & 2) != 0,
        .m = s,
        .n = s,
        .k = s,
        .alpha = 1,
        .a = {buffers[0], 0, ld},
        .b = {buffers[1], 0, ld},
        .beta = 1,
        .c = {buffers[2], 0, ld},
    };
    return gemm(opencl, &args, err);
}

// CLBlast compiles kernels on first use. Direct kernels: one per pair of transposes. Indirect
// kernels: one that multiplies, and those that copy operands with and without transposing. No
// transpose and both transposed together use all of them, for sizes that are multiples of its tiles
// and for others. The indirect kernels take long on a slow device. They are skipped if the largest
// product, `most` = m n k, is below the cube of (large - one step) and so never uses them.
static enum mmul_status warm_clblast(struct mmul_opencl *opencl,
                                     struct mmul_buffer *const buffers[3], int64_t large,
                                     double most, struct mmul_error *err) {
    enum { DIRECT = 8 };
    const struct {
        int64_t side;
        int transposes;
    } products[] = {{32, 0}, {32, 1}, {32, 2},    {32, 3},    {33, 0},        {33, 1},
                    {33, 2}, {33, 3}, {large, 0}, {large, 3}, {large + 1, 0}, {large + 1, 3}};
    const int64_t ld = large + 1;
    const size_t count = most < pow((double)(large - INDIRECT_STEP), 3)
                             ? DIRECT
                             : sizeof products / sizeof *products;
    enum mmul_status status = MMUL_OK;
    for (size_t i = 0; i < count && status == MMUL_OK; i++)
        status = warm_gemm(opencl, buffers, products[i].side, ld, products[i].transposes, err);
    return status;
}

static enum mmul_status create_zeroed(struct mmul_opencl *opencl, enum mmul_dtype dtype,
                                      int64_t count, struct mmul_buffer **buffer,
                                      struct mmul_error *err) {
    const cl_float zero = 0.0f;
    enum mmul_status status = mmul_opencl_buffer_create(opencl, dtype, count, buffer, err);
    if (status != MMUL_OK)
        return status;
    (*buffer)->head = (struct mmul_buffer_head){dtype, count};
    const enum mmul_opencl_queue compute = MMUL_QUEUE_COMPUTE;
    cl_event event = NULL;
    cl_int code =
        clEnqueueFillBuffer(opencl->order.queues[compute], (*buffer)->memory, &zero, sizeof zero, 0,
                            (size_t)count * mmul_dtype_bytes(dtype), 0, NULL, &event);
    if (code == CL_SUCCESS) {
        mmul_opencl_record_write(&(*buffer)->use, compute, event);
        code = mmul_opencl_submit(&opencl->order, compute, event);
    }
    if (code != CL_SUCCESS)
        return mmul_opencl_fail(err, code, "cannot fill a buffer on '%s'", opencl->label);
    return MMUL_OK;
}

static enum mmul_status warm_up(void *self, enum mmul_dtype dtype, double most,
                                struct mmul_error *err) {
    struct mmul_opencl *opencl = self;
    static const uint16_t halves[1] = {0};
    const int64_t large = find_indirect_size(opencl, dtype), ld = large + 1;
    struct mmul_buffer *buffers[3] = {NULL, NULL, NULL};
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < 3 && status == MMUL_OK; i++)
        status = create_zeroed(opencl, dtype, ld * ld, &buffers[i], err);
    for (int i = 0; dtype == MMUL_F32 && i < 2 && status == MMUL_OK; i++) {
        struct mmul_operand to = {buffers[i], 0, 1};
        status = mmul_opencl_upload(
            opencl, &(struct mmul_upload){to, 1, 1, halves, 1, i == 0 ? MMUL_F16 : MMUL_BF16}, err);
    }
    if (status == MMUL_OK)
        status = warm_clblast(opencl, buffers, large, most, err);
    if (status == MMUL_OK)
        status = wait_all(opencl, err);
    for (int i = 0; i < 3; i++)
        mmul_opencl_buffer_destroy(opencl, buffers[i], status != MMUL_OK);
    return status;
}

const struct mmul_device_table mmul_opencl_table = {
    .kind = "opencl",
    .names = MMUL_OPENCL_NAMES,
    .next = "cpu",
    .is_name = mmul_opencl_is_name,
    .probe = mmul_opencl_probe,
    .open = open_opencl,
    .close = close_opencl,
    .describe = describe,
    .tune = mmul_opencl_tune,
    .warm_up = warm_up,
    .gemm_temporary_bytes = gemm_temporary_bytes,
    .has_dtype = has_dtype,
    .buffer_create = mmul_opencl_buffer_create,
    .buffer_destroy = mmul_opencl_buffer_destroy,
    .upload = mmul_opencl_upload,
    .download = mmul_opencl_download,
    .gemm = gemm,
    .map = mmul_opencl_map,
    .project = mmul_opencl_sum_matrix,
    .wait = wait_all,
    .wait_buffer = wait_buffer,
};
