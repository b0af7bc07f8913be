// SPDX-License-Identifier: MIT
//
// One operation but a product as the stages of a run have it: in time, and right. What a device that is not
// the CPU makes is looked at by a sample that plain loops make again: all of a small block, of a large one whole
// rows, or pieces of rows, from its first to its last. A fault of a device or of a kernel that spoils many
// elements is found so; one element of a large block that is changed behind the kernel, or on its way home, by the
// sum of bits that kernels carry along (device/map.h).
#pragma once

#include "exec/steps/stage.h"
#include "exec/worker/worker_map.h"

// The compute thread's. `place` names the block in errors. A device that hangs is noticed; wrong results are made
// again by its successor and counted like those of products. Fails as mmul_worker_map, and with MMUL_ERR_WRONG when
// the block stays wrong.
enum mmul_status mmul_stage_map(struct mmul_stage *stage, const struct mmul_host_map *host,
                                const char *place, struct mmul_error *err);

// Notes in stage->nan_in whether argmax, argmin or topk had a row that holds NaN: that is the place that they give.
// Reads an element of each row, where host memory has what the device makes. By any thread.
void mmul_stage_look_for_nan(struct mmul_stage *stage, const struct mmul_operation *operation,
                             const struct mmul_host_map *host);

// Rows of the sample that are wrong, of *looked_at. `judge` works in host memory. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_host_map_check(const struct mmul_host_map *host, struct mmul_device *judge,
                                     uint64_t seed, int64_t *wrong, int64_t *looked_at,
                                     struct mmul_error *err);
