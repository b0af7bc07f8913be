// SPDX-License-Identifier: MIT
//
// The path from a device into C. A device writes only into memory that the worker owns; the worker
// copies arrived data into C.
// A device that is lost or hangs during a download therefore cannot write into C, which another
// device may have computed again by then. At worst it writes into abandoned memory.
#pragma once

#include "device/device.h"
#include "plan/parts/budget.h"

struct mmul_staging_buffer {
    void *memory[2];   // owned: two buffers, used in turn; NULL until needed
    int64_t capacity;  // bytes of each
    bool is_under_way; // a download into `memory` was begun, and its end is not confirmed
};

// Grows the buffers for results of this size, up to MMUL_STAGING_BUFFER_BYTES. Larger results are
// downloaded in pieces.
enum mmul_status mmul_staging_buffer_reserve(struct mmul_staging_buffer *staging, int64_t bytes,
                                             struct mmul_error *err);

// Frees the memory, or abandons it if the device may still write to it.
void mmul_staging_buffer_fini(struct mmul_staging_buffer *staging);

// Downloads what `d` describes, and returns when it has arrived. Operations on other buffers
// continue. On failure the destination in host memory is undefined.
enum mmul_status mmul_staging_buffer_download(struct mmul_staging_buffer *staging,
                                              struct mmul_device *device,
                                              const struct mmul_download *d,
                                              struct mmul_error *err);
