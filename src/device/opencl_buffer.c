// SPDX-License-Identifier: MIT
// Memory on an OpenCL device and transfers to and from it. Transfers are asynchronous. A packed
// region is copied as one run of bytes, any other as a rectangle. 16-bit elements cross the bus as
// 16 bits and are widened on the device by kernels/widen.cl. Widening runs on the upload queue: on
// the compute queue, a long product would block the staging buffer for the next piece. Host memory
// is not pinned: the caller's buffers are ordinary memory.
#include "device/opencl_device.h"

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/opencl_error.h"
#include "device/opencl_program.h"
#include "kernels.h"

// ----------------------------------------------------------------------------------------- buffers

enum mmul_status mmul_opencl_allocate(struct mmul_opencl *opencl, int64_t count, size_t bytes_each,
                                      const char *what, cl_mem *memory, struct mmul_error *err) {
    const int64_t indices = INT64_C(1) << 31;
    int64_t limit = opencl->info.max_allocation_bytes, bytes = 0;
    char wanted[32], most[32];
    if (count >= indices || !mmul_multiply_sizes(count, (int64_t)bytes_each, &bytes)) {
        return mmul_fail(err, MMUL_ERR_SYSTEM,
                         "cannot allocate %s of %lld elements on '%s': 32-bit indices end at %lld",
                         what, (long long)count, opencl->label, (long long)indices);
    }
    if (limit > 0 && bytes > limit) {
        return mmul_fail(
            err, MMUL_ERR_SYSTEM, "cannot allocate %s of %s on '%s': largest allocation is %s",
            what, mmul_bytes_format(bytes, wanted), opencl->label, mmul_bytes_format(limit, most));
    }
    cl_int code = CL_SUCCESS;
    cl_mem made = clCreateBuffer(opencl->context, CL_MEM_READ_WRITE, bytes > 0 ? (size_t)bytes : 1,
                                 NULL, &code);
    if (code != CL_SUCCESS) {
        mmul_opencl_fail(err, code, "cannot allocate %s of %s on '%s'", what,
                         mmul_bytes_format(bytes, wanted), opencl->label);
        err->status = MMUL_ERR_SYSTEM;
        return MMUL_ERR_SYSTEM;
    }
    *memory = made;
    return MMUL_OK;
}

enum mmul_status mmul_opencl_buffer_create(void *self, enum mmul_dtype dtype, int64_t count,
                                           struct mmul_buffer **buffer, struct mmul_error *err) {
    struct mmul_buffer *made = mmul_allocate(1, sizeof *made, "a device buffer", err);
    if (made == NULL)
        return err->status;
    enum mmul_status status =
        mmul_opencl_allocate(self, count, mmul_dtype_bytes(dtype), "a buffer", &made->memory, err);
    if (status != MMUL_OK) {
        mmul_free(made);
        return status;
    }
    *buffer = made;
    return MMUL_OK;
}

void mmul_opencl_buffer_destroy(void *self, struct mmul_buffer *buffer, bool lost) {
    (void)self;
    if (buffer != NULL && !lost) {
        mmul_opencl_buffer_events_fini(&buffer->use);
        clReleaseMemObject(buffer->memory);
    }
    mmul_free(buffer);
}

// --------------------------------------------------------------------------------------- transfers

// A region of a device buffer and its counterpart in host memory, in bytes.
struct transfer {
    cl_mem memory;
    size_t offset, pitch; // on the device
    size_t width, rows;   // size of the region
    char *host;           // only read if `upload`
    size_t host_pitch;
    bool upload;
    struct mmul_opencl_dependencies waits; // before its first byte
};

// Copies one run of bytes. Waits apply to the first run only; callers request an event for the last
// one.
static cl_int begin_run(cl_command_queue queue, const struct transfer *t, size_t row, size_t bytes,
                        cl_event *event) {
    const struct mmul_opencl_dependencies none = {.count = 0},
                                          *waits = row == 0 ? &t->waits : &none;
    size_t offset = t->offset + row * t->pitch;
    char *host = t->host + row * t->host_pitch;
    return t->upload ? clEnqueueWriteBuffer(queue, t->memory, CL_FALSE, offset, bytes, host,
                                            waits->count, mmul_opencl_dependency_list(waits), event)
                     : clEnqueueReadBuffer(queue, t->memory, CL_FALSE, offset, bytes, host,
                                           waits->count, mmul_opencl_dependency_list(waits), event);
}

static cl_int begin_rectangle(cl_command_queue queue, const struct transfer *t, cl_event *event) {
    const size_t origin[3] = {t->offset % t->pitch, t->offset / t->pitch, 0};
    const size_t host_origin[3] = {0, 0, 0};
    const size_t region[3] = {t->width, t->rows, 1};
    const cl_event *waits = mmul_opencl_dependency_list(&t->waits);
    return t->upload ? clEnqueueWriteBufferRect(queue, t->memory, CL_FALSE, origin, host_origin,
                                                region, t->pitch, 0, t->host_pitch, 0, t->host,
                                                t->waits.count, waits, event)
                     : clEnqueueReadBufferRect(queue, t->memory, CL_FALSE, origin, host_origin,
                                               region, t->pitch, 0, t->host_pitch, 0, t->host,
                                               t->waits.count, waits, event);
}

static cl_int begin_transfer(cl_command_queue queue, const struct transfer *t, cl_event *event) {
    if (t->rows == 1 || (t->width == t->pitch && t->width == t->host_pitch))
        return begin_run(queue, t, 0, t->width * t->rows, event);
    // Some drivers reject a rectangle that crosses the end of a row: copy row by row.
    if (t->offset % t->pitch + t->width <= t->pitch)
        return begin_rectangle(queue, t, event);
    cl_int code = CL_SUCCESS;
    for (size_t row = 0; row < t->rows && code == CL_SUCCESS; row++)
        code = begin_run(queue, t, row, t->width, row + 1 == t->rows ? event : NULL);
    return code;
}

// Starts a transfer and flushes the queue; `use` is that of the buffer.
static enum mmul_status start_transfer(struct mmul_opencl *opencl, const struct transfer *t,
                                       struct mmul_opencl_buffer_events *use,
                                       struct mmul_error *err) {
    enum mmul_opencl_queue queue = t->upload ? MMUL_QUEUE_UPLOAD : MMUL_QUEUE_DOWNLOAD;
    cl_event event = NULL;
    cl_int code = begin_transfer(opencl->order.queues[queue], t, &event);
    if (code == CL_SUCCESS) {
        (t->upload ? mmul_opencl_record_write : mmul_opencl_record_read)(use, queue, event);
        code = mmul_opencl_submit(&opencl->order, queue, event);
    }
    if (code != CL_SUCCESS) {
        return mmul_opencl_fail(err, code, "cannot copy %s '%s'", t->upload ? "to" : "from",
                                opencl->label);
    }
    return MMUL_OK;
}

static struct transfer describe_transfer(struct mmul_operand operand, int64_t rows, int64_t cols,
                                         char *host, int64_t host_ld, bool upload) {
    const size_t each = mmul_dtype_bytes(operand.buffer->head.dtype);
    return (struct transfer){
        .memory = operand.buffer->memory,
        .offset = (size_t)operand.offset * each,
        .pitch = (size_t)operand.ld * each,
        .width = (size_t)cols * each,
        .rows = (size_t)rows,
        .host = host,
        .host_pitch = (size_t)host_ld * each,
        .upload = upload,
    };
}

enum mmul_status mmul_opencl_download(void *self, const struct mmul_download *d,
                                      struct mmul_error *err) {
    struct transfer t = describe_transfer(d->from, d->rows, d->cols, d->host, d->host_ld, false);
    mmul_opencl_add_read_dependencies(&t.waits, &d->from.buffer->use, MMUL_QUEUE_DOWNLOAD);
    return start_transfer(self, &t, &d->from.buffer->use, err);
}

// ---------------------------------------------------------------------------------------- widening

// Creates the widening kernels and their staging buffer, unless they exist.
static enum mmul_status prepare_widening(struct mmul_opencl *opencl, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (opencl->program == NULL) {
        status = mmul_opencl_program_create(opencl->context, opencl->device, opencl->label,
                                            (const char *[]){mmul_kernel_widen, NULL},
                                            &opencl->program, err);
    }
    if (status == MMUL_OK && opencl->widen_float16 == NULL) {
        status = mmul_opencl_kernel_create(opencl->program, opencl->label, "widen_float16",
                                           &opencl->widen_float16, err);
    }
    if (status == MMUL_OK && opencl->widen_bfloat16 == NULL) {
        status = mmul_opencl_kernel_create(opencl->program, opencl->label, "widen_bfloat16",
                                           &opencl->widen_bfloat16, err);
    }
    if (status == MMUL_OK && opencl->widen_group == 0) {
        // A fixed group size: some drivers compile again for every size that they may choose.
        size_t most = 1;
        clGetKernelWorkGroupInfo(opencl->widen_float16, opencl->device, CL_KERNEL_WORK_GROUP_SIZE,
                                 sizeof most, &most, NULL);
        opencl->widen_group = most < 64 ? 1 : 64;
    }
    if (status == MMUL_OK && opencl->staging == NULL) {
        status = mmul_opencl_allocate(opencl, MMUL_OPENCL_STAGING_COUNT, 2, "a staging buffer",
                                      &opencl->staging, err);
    }
    return status;
}

// Staging buffer -> the rectangle of `u`.
static enum mmul_status begin_widening(struct mmul_opencl *opencl, const struct mmul_upload *u,
                                       struct mmul_error *err) {
    cl_kernel kernel = u->dtype == MMUL_F16 ? opencl->widen_float16 : opencl->widen_bfloat16;
    struct mmul_buffer *to = u->to.buffer;
    cl_int row_count = (cl_int)u->rows, col_count = (cl_int)u->cols;
    cl_uint offset = (cl_uint)u->to.offset, ld = (cl_uint)u->to.ld;
    const struct {
        size_t bytes;
        const void *value;
    } arguments[] = {
        {sizeof row_count, &row_count},     {sizeof col_count, &col_count},
        {sizeof(cl_mem), &opencl->staging}, {sizeof(cl_mem), &to->memory},
        {sizeof offset, &offset},           {sizeof ld, &ld},
    };
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < sizeof arguments / sizeof arguments[0] && code == CL_SUCCESS; i++)
        code = clSetKernelArg(kernel, i, arguments[i].bytes, arguments[i].value);
    const size_t local[2] = {opencl->widen_group, 1};
    const size_t global[2] = {((size_t)u->cols + local[0] - 1) / local[0] * local[0],
                              (size_t)u->rows};
    struct mmul_opencl_dependencies waits = {.count = 0};
    mmul_opencl_add_write_dependencies(&waits, &to->use, MMUL_QUEUE_UPLOAD);
    cl_event event = NULL;
    if (code == CL_SUCCESS) {
        code =
            clEnqueueNDRangeKernel(opencl->order.queues[MMUL_QUEUE_UPLOAD], kernel, 2, NULL, global,
                                   local, waits.count, mmul_opencl_dependency_list(&waits), &event);
    }
    if (code == CL_SUCCESS) {
        mmul_opencl_record_write(&to->use, MMUL_QUEUE_UPLOAD, event);
        code = mmul_opencl_submit(&opencl->order, MMUL_QUEUE_UPLOAD, event);
    }
    if (code != CL_SUCCESS)
        return mmul_opencl_fail(err, code, "cannot widen 16-bit elements on '%s'", opencl->label);
    return MMUL_OK;
}

// Uploads one piece that fits the staging buffer. The queue is in order, so the next piece
// overwrites the staging buffer only after this one is widened.
static enum mmul_status upload_piece(struct mmul_opencl *opencl, const struct mmul_upload *piece,
                                     struct mmul_error *err) {
    const struct transfer t = {
        .memory = opencl->staging,
        .offset = 0,
        .pitch = (size_t)piece->cols * 2,
        .width = (size_t)piece->cols * 2,
        .rows = (size_t)piece->rows,
        .host = (char *)piece->host,
        .host_pitch = (size_t)piece->host_ld * 2,
        .upload = true,
    };
    struct mmul_opencl_buffer_events staging = {.write = NULL}; // only this queue uses it
    enum mmul_status status = start_transfer(opencl, &t, &staging, err);
    mmul_opencl_buffer_events_fini(&staging);
    return status == MMUL_OK ? begin_widening(opencl, piece, err) : status;
}

static enum mmul_status upload_widened(struct mmul_opencl *opencl, const struct mmul_upload *u,
                                       struct mmul_error *err) {
    enum mmul_status status = prepare_widening(opencl, err);
    const int64_t piece_cols = mmul_min(u->cols, MMUL_OPENCL_STAGING_COUNT);
    const int64_t piece_rows = MMUL_OPENCL_STAGING_COUNT / piece_cols;
    for (int64_t r = 0; r < u->rows && status == MMUL_OK; r += piece_rows) {
        for (int64_t c = 0; c < u->cols && status == MMUL_OK; c += piece_cols) {
            struct mmul_upload piece = *u;
            piece.to.offset += r * u->to.ld + c;
            piece.rows = mmul_min(piece_rows, u->rows - r);
            piece.cols = mmul_min(piece_cols, u->cols - c);
            piece.host = (const char *)u->host + (r * u->host_ld + c) * 2;
            status = upload_piece(opencl, &piece, err);
        }
    }
    return status;
}

enum mmul_status mmul_opencl_upload(void *self, const struct mmul_upload *u,
                                    struct mmul_error *err) {
    if (u->dtype != u->to.buffer->head.dtype)
        return upload_widened(self, u, err);
    struct transfer t =
        describe_transfer(u->to, u->rows, u->cols, (char *)u->host, u->host_ld, true);
    mmul_opencl_add_write_dependencies(&t.waits, &u->to.buffer->use, MMUL_QUEUE_UPLOAD);
    return start_transfer(self, &t, &u->to.buffer->use, err);
}
