// SPDX-License-Identifier: MIT
// Speed of one device: products of squares that are already on it, and its transfers. Local.
// Independent of ranks and profiles.
#pragma once

#include "base/parallel.h"
#include "device/device.h"
#include "model/cluster.h"

struct mmul_measure_request {
    enum mmul_dtype dtype; // type of the products: float32, float64
    bool thorough;         // measure every size; else stop early
    bool is_long;          // not thorough, but some larger sizes: for a long job
    int64_t memory_bytes;  // limit of host memory; the smallest size is measured in any case
    double period_seconds; // period of a CPU quota; 0: there is none
    bool has_transfers;    // transfers are known, from another type
    double job_flops;      // work of the device in the coming job; 0: not known
    struct mmul_parallel parallel; // the rank's threads
};

// Sets the rates of the requested type and the transfers in `speed`. The rest of it stays. The
// device has been warmed up.
// Each size is multiplied once before it is timed, on buffers that were written to. Then at least 3
// means over 10 ms (thorough: 50 ms) are taken, until the two shortest agree within a tenth. The
// limit is 6 means (thorough: 10), or half a second (thorough: 5 s). A brief measurement uses the
// mean of the two shortest. If they do not agree, or in a thorough one, the median counts.
// `unstable` marks sizes with times that did not agree, and sizes that stay slower than a smaller
// one when they are timed again.
// With a quota the last size is timed once more, over three of its periods if that is longer. No
// size then gets a higher rate.
// In a brief measurement sizes grow until a product takes 20 ms (in host memory 2 ms, 20 ms with
// is_long), or the next one would take more than 100 ms (300 ms with is_long). A mean takes at most
// a 400th of the job, but at least 1 ms, so that a short job is not delayed. In a thorough
// measurement sizes grow while the next product is expected to take at most 1 s, or 0.1 s in
// float64. Larger sizes, and sizes too large for the memory, get the last rate.
// Packing is measured in float32 by products of few rows or columns. It is 0 after a brief
// measurement, and for a device with memory of its own. In float64 it stays unchanged.
// Transfers (0 for a device that works in host memory) use blocks of growing size, up to 64 MiB.
enum mmul_status mmul_measure_device(struct mmul_device *device,
                                     const struct mmul_measure_request *request,
                                     struct mmul_speed *speed, struct mmul_error *err);

// Times one product of squares of side n as in a thorough measurement. Sets 0 seconds if they do
// not fit. unstable: the times did not agree.
enum mmul_status mmul_measure_square(struct mmul_device *device, int64_t n, int64_t memory_bytes,
                                     double *seconds, bool *unstable, struct mmul_error *err);

// Multiplies squares of side n, one after the other. After each, `again` gets its seconds and
// returns true for one more.
enum mmul_status mmul_measure_repeatedly(struct mmul_device *device, int64_t n,
                                         bool (*again)(void *argument, double seconds),
                                         void *argument, struct mmul_error *err);

// Measures the transfers of a device with memory of its own, in bytes per second, as in a thorough
// measurement.
enum mmul_status mmul_measure_transfers(struct mmul_device *device, int64_t memory_bytes,
                                        struct mmul_speed *speed, struct mmul_error *err);
