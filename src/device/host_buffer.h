// SPDX-License-Identifier: MIT
// Buffers in host memory: device-table entries shared by `reference` and `cpu`. The signatures are
// those of struct mmul_device_table; `self` is not used.
#pragma once

#include "device/device.h"

struct mmul_buffer {
    struct mmul_buffer_head head;
    union { // owned or borrowed; by head.dtype
        void *memory;
        float *data;
        double *doubles;
    };
    bool owned;
};

// Returns true if the device supports buffers of this element type.
bool mmul_host_has_dtype(const void *self, enum mmul_dtype dtype);

// Return the address of element (0, 0) of an operand in a host buffer, for float32 and float64.
static inline float *mmul_host_floats(struct mmul_operand operand) {
    return operand.buffer->data + operand.offset;
}
static inline double *mmul_host_doubles(struct mmul_operand operand) {
    return operand.buffer->doubles + operand.offset;
}

enum mmul_status mmul_host_buffer_create(void *self, enum mmul_dtype dtype, int64_t count,
                                         struct mmul_buffer **buffer, struct mmul_error *err);
enum mmul_status mmul_host_buffer_borrow(void *self, enum mmul_dtype dtype, void *memory,
                                         int64_t count, struct mmul_buffer **buffer,
                                         struct mmul_error *err);
void mmul_host_buffer_destroy(void *self, struct mmul_buffer *buffer, bool lost);
enum mmul_status mmul_host_upload(void *self, const struct mmul_upload *u, struct mmul_error *err);
enum mmul_status mmul_host_download(void *self, const struct mmul_download *d,
                                    struct mmul_error *err);
