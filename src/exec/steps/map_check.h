// SPDX-License-Identifier: MIT
//
// Runs and checks one operation other than a product. Plain loops repeat a sample of the results of
// any device but the CPU: all of a small block, whole rows or pieces of rows of a large one, from
// its first to its last. This finds a fault of a device or kernel that spoils many elements. The
// sum of bits that kernels carry along (device/map.h) finds a single element that changes after the
// kernel or during the download. The device adds up the bits of large reductions before their
// download.
#pragma once

#include "exec/steps/stage.h"
#include "exec/worker/host_map.h"

extern const struct mmul_check_method mmul_map_check;

// Runs `host`, a part of the operation, on the compute thread and its helpers. Checks it, also for
// NaN as below. `place` names the block in errors. Detects a hanging device. The successor repeats
// wrong results, and they are counted like those of products. Fails as mmul_worker_map, and with
// MMUL_ERR_WRONG if the block stays wrong.
enum mmul_status mmul_stage_run_map(struct mmul_stage *stage,
                                    const struct mmul_operation *operation,
                                    const struct mmul_host_map *host, const char *place,
                                    struct mmul_error *err);

// Sets stage->nan_operation if argmax, argmin or topk met a row that holds NaN, since they return
// the place of the NaN. Reads an element of each row, if the device's result is in host memory. Any
// thread may call it.
void mmul_stage_find_nan(struct mmul_stage *stage, const struct mmul_operation *operation,
                         const struct mmul_host_map *host);

// Counts the wrong rows of the sample, and its rows in *looked_at. `judge` works in host memory.
// Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_map_check_sample(const struct mmul_host_map *host, struct mmul_device *judge,
                                       uint64_t seed, int64_t *wrong, int64_t *looked_at,
                                       struct mmul_error *err);
