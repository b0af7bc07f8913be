// SPDX-License-Identifier: MIT
//
// The way from a device into C. A device writes into memory of the worker's only; what has arrived
// is copied into C. So a device that is lost, or hangs, with a download under way cannot write into
// C any more, which by then another device may have computed again: at worst it writes into memory
// that is given up.
#pragma once

#include "device/device.h"
#include "plan/parts/budget.h"

struct mmul_staging_buffer {
    void *memory[2];   // owned, of the two pieces that take turns; NULL until needed
    int64_t capacity;  // bytes of each
    bool is_under_way; // a download into them was begun and has not been seen to end
};

// Makes room for results of so many bytes; larger ones come in pieces.
enum mmul_status mmul_staging_buffer_reserve(struct mmul_staging_buffer *staging, int64_t bytes,
                                             struct mmul_error *err);

// Releases the memory; or gives it up, when the device may still write to it.
void mmul_staging_buffer_fini(struct mmul_staging_buffer *staging);

// What `d` describes; it has arrived when it returns. Other buffers' operations go on. On failure
// what is at its host memory is undefined.
enum mmul_status mmul_staging_buffer_bring(struct mmul_staging_buffer *staging,
                                           struct mmul_device *device,
                                           const struct mmul_download *d, struct mmul_error *err);
