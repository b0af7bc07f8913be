// SPDX-License-Identifier: MIT
//
// Operations other than products, on a block of the result, on the rank's device. A block is like
// struct mmul_map (device/map.h), with all operands in host memory.
#pragma once

#include "device/map.h"
#include "exec/worker/worker.h"

// Element (i, j) is at `at` + i * row_step + j * col_step elements. at NULL: all elements are
// `number`, of float32.
struct mmul_host_operand {
    const void *at;
    enum mmul_dtype dtype; // float32, float64
    float number;
    int64_t row_step, col_step;
    int64_t rows, cols;
    struct mmul_stack stack;
};

struct mmul_host_map {
    struct mmul_map map; // the worker sets buffers and offsets
    struct mmul_host_operand operands[MMUL_OPERANDS];
    void *result;          // address of its first matrix
    enum mmul_dtype dtype; // type of the result
    int64_t ld;
    // Worker that may have the only copy of absent data (worker.h); NULL: none.
    struct mmul_worker *maker;
    // the result may stay on the device, if it is of float32 and made in one chunk
    bool may_stay_on_device;
};

// Computes a block. On return the result is in host memory, or absent (may_stay_on_device). With
// map.carried, worker->download_errors is increased for each chunk that differs from what the
// device has written; map.carried itself is not changed. A device with memory of its own caches
// operands and results in the worker's `kept`.
// A block that does not fit, or is not one tile in host memory, is made matrix by matrix and in
// chunks of rows. The CPU makes the remaining cases, and those that a device would only copy.
// If a device fails, it is replaced and the block is made again, unless that device had the only
// copy of an operand (mmul_worker_download_absent). Fails as mmul_worker_multiply, and with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_worker_map(struct mmul_worker *worker, const struct mmul_host_map *host,
                                 struct mmul_error *err);

// Returns rows [row, row + rows) and columns [col, col + cols) of a block. Operations on rows, and
// sums along them, require all columns.
struct mmul_host_map mmul_host_map_part(const struct mmul_host_map *host, int64_t row, int64_t rows,
                                        int64_t col, int64_t cols);

// Returns the t-th matrix of a block.
struct mmul_host_map mmul_host_map_matrix(const struct mmul_host_map *host, int64_t t);

// Returns a block of many matrices as one with a single matrix, if operation and memory allow that;
// else the block unchanged.
struct mmul_host_map mmul_host_map_flatten(const struct mmul_host_map *host);

// Returns the number of elements read and written, each counted as often as it is accessed.
double mmul_host_map_work(const struct mmul_host_map *host);

// Makes a block on a device that works in host memory.
enum mmul_status mmul_host_map_make(const struct mmul_host_map *host, struct mmul_device *device,
                                    struct mmul_error *err);

// Makes several blocks at once, as such a device supports it (device/device.h).
enum mmul_status mmul_host_map_make_together(const struct mmul_host_map *hosts, int count,
                                             struct mmul_device *device, struct mmul_error *err);
