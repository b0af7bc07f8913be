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

enum mmul_status mmul_host_upload(void *self, struct mmul_operand to, int64_t rows, int64_t cols,
                                  const void *host, int64_t host_ld, enum mmul_dtype dtype,
                                  struct mmul_error *err) {
    (void)self;
    (void)err;
    assert(is_inside(to, rows, cols));
    const char *row = host;
    float *target = mmul_host_address(to);
    if (host_ld == cols && to.ld == cols) {
        mmul_dtype_widen(dtype, row, rows * cols, target);
        return MMUL_OK;
    }
    for (int64_t r = 0; r < rows; r++) {
        mmul_dtype_widen(dtype, row, cols, target);
        row += (size_t)host_ld * mmul_dtype_bytes(dtype);
        target += to.ld;
    }
    return MMUL_OK;
}

enum mmul_status mmul_host_download(void *self, struct mmul_operand from, int64_t rows,
                                    int64_t cols, float *host, int64_t host_ld,
                                    struct mmul_error *err) {
    (void)self;
    (void)err;
    assert(is_inside(from, rows, cols));
    const float *source = mmul_host_address(from);
    for (int64_t r = 0; r < rows; r++)
        memcpy(host + r * host_ld, source + r * from.ld, (size_t)cols * sizeof(float));
    return MMUL_OK;
}
