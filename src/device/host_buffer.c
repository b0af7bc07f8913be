// SPDX-License-Identifier: MIT
//
// Buffers in host memory, for the devices that compute there: creating is allocating, uploading is
// widening row by row, downloading is copying. Everything is done when a call returns.
// Does not check that a region overlaps another: the caller's regions are distinct by contract.
#include "device/host_buffer.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "model/dtype.h"

static enum mmul_status wrap(float *data, int64_t count, bool owned, struct mmul_buffer **buffer,
                             struct mmul_error *err) {
    struct mmul_buffer *made = mmul_allocate(1, sizeof *made, "a device buffer", err);
    if (made == NULL)
        return err->status;
    *made = (struct mmul_buffer){.data = data, .count = count, .owned = owned};
    *buffer = made;
    return MMUL_OK;
}

enum mmul_status mmul_host_buffer_create(void *self, int64_t count, struct mmul_buffer **buffer,
                                         struct mmul_error *err) {
    (void)self;
    float *data = mmul_allocate_raw(count, sizeof *data, "a device buffer", err);
    if (data == NULL)
        return err->status;
    enum mmul_status status = wrap(data, count, true, buffer, err);
    if (status != MMUL_OK)
        mmul_free(data);
    return status;
}

enum mmul_status mmul_host_buffer_borrow(void *self, float *memory, int64_t count,
                                         struct mmul_buffer **buffer, struct mmul_error *err) {
    (void)self;
    return wrap(memory, count, false, buffer, err);
}

void mmul_host_buffer_destroy(void *self, struct mmul_buffer *buffer, bool lost) {
    (void)self;
    (void)lost;
    if (buffer == NULL)
        return;
    if (buffer->owned)
        mmul_free(buffer->data);
    mmul_free(buffer);
}

static bool is_inside(struct mmul_operand operand, int64_t rows, int64_t cols) {
    return operand.offset >= 0 &&
           operand.offset + (rows - 1) * operand.ld + cols <= operand.buffer->count;
}

enum mmul_status mmul_host_upload(void *self, const struct mmul_upload *u, struct mmul_error *err) {
    (void)self;
    (void)err;
    assert(is_inside(u->to, u->rows, u->cols));
    const char *row = u->host;
    float *target = mmul_host_address(u->to);
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
    assert(is_inside(d->from, d->rows, d->cols));
    const float *source = mmul_host_address(d->from);
    for (int64_t r = 0; r < d->rows; r++)
        memcpy(d->host + r * d->host_ld, source + r * d->from.ld, (size_t)d->cols * sizeof(float));
    return MMUL_OK;
}
