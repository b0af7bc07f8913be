// SPDX-License-Identifier: MIT
// Buffers in host memory, for devices that compute there. Creating allocates, uploading widens row
// by row, downloading copies. All work is complete when a call returns. Overlap of regions is not
// checked: the contract requires distinct regions.
#include "device/host_buffer.h"

#include "base/memory.h"
#include "base/rows.h"
#include "model/dtype.h"

static enum mmul_status wrap_memory(void *memory, bool owned, struct mmul_buffer **buffer,
                                    struct mmul_error *err) {
    struct mmul_buffer *made = mmul_allocate(1, sizeof *made, "a device buffer", err);
    if (made == NULL)
        return err->status;
    *made = (struct mmul_buffer){.memory = memory, .owned = owned};
    *buffer = made;
    return MMUL_OK;
}

bool mmul_host_has_dtype(const void *self, enum mmul_dtype dtype) {
    (void)self;
    return dtype == MMUL_F32 || dtype == MMUL_F64;
}

enum mmul_status mmul_host_buffer_create(void *self, enum mmul_dtype dtype, int64_t count,
                                         struct mmul_buffer **buffer, struct mmul_error *err) {
    (void)self;
    void *memory = mmul_allocate_raw(count, mmul_dtype_bytes(dtype), "a device buffer", err);
    if (memory == NULL)
        return err->status;
    enum mmul_status status = wrap_memory(memory, true, buffer, err);
    if (status != MMUL_OK)
        mmul_free(memory);
    return status;
}

enum mmul_status mmul_host_buffer_borrow(void *self, enum mmul_dtype dtype, void *memory,
                                         int64_t count, struct mmul_buffer **buffer,
                                         struct mmul_error *err) {
    (void)self;
    (void)dtype;
    (void)count;
    return wrap_memory(memory, false, buffer, err);
}

void mmul_host_buffer_destroy(void *self, struct mmul_buffer *buffer, bool lost) {
    (void)self;
    (void)lost;
    if (buffer == NULL)
        return;
    if (buffer->owned)
        mmul_free(buffer->memory);
    mmul_free(buffer);
}

static char *element_address(struct mmul_operand operand) {
    return (char *)operand.buffer->memory +
           operand.offset * (int64_t)mmul_dtype_bytes(operand.buffer->head.dtype);
}

enum mmul_status mmul_host_upload(void *self, const struct mmul_upload *u, struct mmul_error *err) {
    (void)self;
    (void)err;
    const char *row = u->host;
    if (u->dtype == u->to.buffer->head.dtype) {
        const int64_t each = (int64_t)mmul_dtype_bytes(u->dtype);
        mmul_copy_rows(row, u->host_ld * each, element_address(u->to), u->to.ld * each, u->rows,
                       u->cols * each);
        return MMUL_OK;
    }
    float *target = mmul_host_floats(u->to);
    if (u->host_ld == u->cols && u->to.ld == u->cols) {
        mmul_dtype_widen(u->dtype, row, u->rows * u->cols, target);
        return MMUL_OK;
    }
    for (int64_t r = 0; r < u->rows; r++) {
        mmul_dtype_widen(u->dtype, row, u->cols, target);
        row += (size_t)u->host_ld * mmul_dtype_bytes(u->dtype);
        target += u->to.ld;
    }
    return MMUL_OK;
}

enum mmul_status mmul_host_download(void *self, const struct mmul_download *d,
                                    struct mmul_error *err) {
    (void)self;
    (void)err;
    const int64_t each = (int64_t)mmul_dtype_bytes(d->dtype);
    mmul_copy_rows(element_address(d->from), d->from.ld * each, d->host, d->host_ld * each, d->rows,
                   d->cols * each);
    return MMUL_OK;
}
