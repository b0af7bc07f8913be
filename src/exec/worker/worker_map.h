// SPDX-License-Identifier: MIT
//
// One operation of a program, but a product, on a block of its result, on the rank's device: as struct
// mmul_map (device/map.h), of which all is in host memory.
#pragma once

#include "device/map.h"
#include "exec/worker/worker.h"

// Element (i, j) is i * row_step + j * col_step elements behind `at`; NULL: `number` everywhere, of float32.
struct mmul_host_operand {
    const void *at;
    enum mmul_dtype dtype; // float32, float64
    float number;
    int64_t row_step, col_step;
    int64_t rows, cols;
    struct mmul_stack stack;
};

struct mmul_host_map {
    struct mmul_map map; // buffers and their places are filled in by the worker
    struct mmul_host_operand operands[MMUL_OPERANDS];
    void *result;          // of the first matrix
    enum mmul_dtype dtype; // of the result
    int64_t ld;
    struct mmul_worker *maker; // may alone have what of all this is absent (worker.h); NULL: no
    bool may_leave;            // the result, if it is one of float32 that the device makes at once
};

// The result is there, in host memory, when it returns, or absent (may_leave), and worker->carried_wrong is higher by
// the times, with map.carried, that it is not what the device has written (map.carried is not touched); what a device
// with memory of its own has of operands and results stays there, in the worker's `kept`. What does not fit there, or
// does not lie there as one tile, goes matrix by matrix, and in chunks of rows; what that cannot help, or what the
// device would only copy, the CPU does. A device that fails is replaced, and the block is made again, unless the device
// alone had what it is made from (mmul_worker_bring_home). Fails as mmul_worker_multiply, and with MMUL_ERR_SYSTEM
// (memory).
enum mmul_status mmul_worker_map(struct mmul_worker *worker, const struct mmul_host_map *host,
                                 struct mmul_error *err);

// Rows [row, row + rows) and columns [col, col + cols) of a block, which must be all columns of rows and of sums
// along them.
struct mmul_host_map mmul_host_map_part(const struct mmul_host_map *host, int64_t row, int64_t rows,
                                        int64_t col, int64_t cols);

// The t-th matrix of a block alone.
struct mmul_host_map mmul_host_map_matrix(const struct mmul_host_map *host, int64_t t);

// A block of all matrices' rows as one of a single matrix, where operation and memory allow that; else as it is.
struct mmul_host_map mmul_host_map_flatten(const struct mmul_host_map *host);

// Elements that are read and written for it, each as often as it is.
double mmul_host_map_work(const struct mmul_host_map *host);

// On a device that works in host memory.
enum mmul_status mmul_host_map_make(const struct mmul_host_map *host, struct mmul_device *device,
                                    struct mmul_error *err);

// Several, as a device has them together (device/device.h).
enum mmul_status mmul_host_map_make_together(const struct mmul_host_map *hosts, int count,
                                             struct mmul_device *device, struct mmul_error *err);
