// SPDX-License-Identifier: MIT
// How fast is one device? Products of squares that are on it already, and its transfers.
// Local; knows nothing of ranks and profiles.
#pragma once

#include "base/parallel.h"
#include "device/device.h"
#include "model/cluster.h"

struct mmul_measure_request {
    enum mmul_dtype dtype; // of the products: float32, float64
    bool thorough;         // every size, timed 3 times; else 3 times, and no further than needed
    bool is_long;          // not thorough: somewhat further, for what is about to take long
    int64_t memory_bytes; // most host memory that may be used; the smallest size is measured anyhow
    double period_seconds;         // of a quota of processor time; 0: there is none
    bool keeps_transfers;          // they are known, from another type
    double job_flops;              // what the device is about to do; 0: not known
    struct mmul_parallel parallel; // the rank's threads
};

// Fills the rates of that type and transfers of `speed`; the rest of it stays. The device has been warmed up. Each
// size is multiplied once before it is timed, on buffers that were written to; then means over 10 ms,
// thoroughly 50 ms, are taken until the two shortest agree within a tenth, or there are twice as many
// or half a second (thoroughly 5 s) is over: briefly the mean of these two counts, else and thoroughly the
// median, and `unstable` says so, as it
// does of a size that stays slower than a smaller one when it is timed again. With a quota the last
// size is timed once more, over three of its periods where that is longer, and no size gets a higher
// rate.
// Briefly: sizes grow until a product takes 20 ms (2 ms in host memory, but 20 where it is_long), or the next one would
// take more than 100 ms (300); and what it is measured
// for is not kept waiting: a mean is taken over no more than a 400th of the job, as long as that is 1 ms.
// Thoroughly: while the next product is expected to take no more than 1 s, or 0.1 s in float64. Sizes beyond, or too
// large for the memory, get the last rate.
// Packing (of float32; 0 briefly, and for a device with memory of its own): by products of few rows or columns.
// In float64 it stays what it was.
// Transfers (0 for a device that works in host memory): blocks of growing size, up to 64 MiB.
enum mmul_status mmul_measure_device(struct mmul_device *device,
                                     const struct mmul_measure_request *request,
                                     struct mmul_speed *speed, struct mmul_error *err);

// Seconds of one product of squares of side n, as above; 0 where they do not fit. unstable: times
// did not agree.
enum mmul_status mmul_measure_square(struct mmul_device *device, int64_t n, int64_t memory_bytes,
                                     double *seconds, bool *unstable, struct mmul_error *err);

// Multiplies squares of side n, one after the other; after each `again` gets its seconds and says
// whether there is one more.
enum mmul_status mmul_measure_on(struct mmul_device *device, int64_t n,
                                 bool (*again)(void *argument, double seconds), void *argument,
                                 struct mmul_error *err);

// Bytes per second, thoroughly, of a device with memory of its own.
enum mmul_status mmul_measure_transfers(struct mmul_device *device, int64_t memory_bytes,
                                        struct mmul_speed *speed, struct mmul_error *err);
