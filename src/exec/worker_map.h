// SPDX-License-Identifier: MIT
//
// One operation of a program, but a product, on a block of its result, on the rank's device: as struct
// mmul_map (device/map.h), of which all is in host memory.
#pragma once

#include "device/map.h"
#include "exec/worker.h"

// Element (i, j) is at[i * row_step + j * col_step]; NULL: `number` everywhere.
struct mmul_host_operand {
    const float *at;
    float number;
    int64_t row_step, col_step;
    int64_t rows, cols;
};

struct mmul_host_map {
    struct mmul_map map; // buffers and their places are filled in by the worker
    struct mmul_host_operand operands[MMUL_OPERANDS];
    float *result;
    int64_t ld;
};

// The result is complete when it returns. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_worker_map(struct mmul_worker *worker, const struct mmul_host_map *host,
                                 struct mmul_error *err);
