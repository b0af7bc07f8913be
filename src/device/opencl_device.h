// SPDX-License-Identifier: MIT
// Types and functions that opencl_device.c, opencl_buffer.c, opencl_map.c and opencl_matrix_sums.c
// share: one open device and its buffers.
#pragma once

#include <CL/cl.h>

#include "device/device.h"
#include "device/opencl_queues.h"
#include "model/operation.h"

// Size of the staging buffer for widening, in 16-bit elements. A larger upload goes in pieces.
enum { MMUL_OPENCL_STAGING_COUNT = 1 << 23 };

// Our kernels for operations except products: one program per kernel file, and one per attention
// kernel. There is one kernel per operation, plus one for copies of adjacent columns and one for
// topk with many elements.
enum { MMUL_OPENCL_MAP_PROGRAMS = 9, MMUL_OPENCL_MAP_KERNELS = MMUL_OPERATION_KINDS + 2 };
struct mmul_opencl_map_kernels {
    cl_program programs[MMUL_OPENCL_MAP_PROGRAMS]; // NULL until one of its kernels is needed
    cl_kernel kernels[MMUL_OPENCL_MAP_KERNELS];    // likewise
    cl_mem carried;                      // checksums of what groups write; compute queue only
    int64_t carried_room, carried_count; // capacity, and number of the current call
};

// The check's sums (device/matrix_sums.h).
enum { MMUL_OPENCL_PROJECT_VECTORS = 7 };
struct mmul_opencl_sums_state {
    cl_program program; // NULL until it is needed, like its kernels
    cl_kernel project, add;
    bool pairs; // numbers are pairs of floats: the device has no double
    cl_mem vectors[MMUL_OPENCL_PROJECT_VECTORS]; // compute queue only; NULL until needed
    int64_t counts[MMUL_OPENCL_PROJECT_VECTORS]; // capacity in numbers
};

struct mmul_opencl {
    cl_device_id device; // borrowed from the driver
    cl_context context;
    struct mmul_opencl_queues order; // queues of the device
    cl_program program;              // NULL until the kernels are needed, like the five below
    cl_kernel widen_float16, widen_bfloat16;
    size_t widen_group; // work-items of a group
    cl_mem staging;     // MMUL_OPENCL_STAGING_COUNT elements of 16 bits; upload queue only
    cl_mem temporary;   // CLBlast's padded copies; compute queue only
    size_t temporary_bytes;
    struct mmul_opencl_map_kernels maps;
    struct mmul_opencl_sums_state projects;
    char label[160]; // "0:0 (Radeon VII)"
    struct mmul_device_info info;
};

struct mmul_buffer {
    struct mmul_buffer_head head;
    cl_mem memory;
    struct mmul_opencl_buffer_events use;
};

// Device-table entries in opencl_buffer.c.
enum mmul_status mmul_opencl_buffer_create(void *self, enum mmul_dtype dtype, int64_t count,
                                           struct mmul_buffer **buffer, struct mmul_error *err);
void mmul_opencl_buffer_destroy(void *self, struct mmul_buffer *buffer, bool lost);
enum mmul_status mmul_opencl_upload(void *self, const struct mmul_upload *u,
                                    struct mmul_error *err);
enum mmul_status mmul_opencl_download(void *self, const struct mmul_download *d,
                                      struct mmul_error *err);

// The table's entry in opencl_map.c, and the release of its programs and kernels.
enum mmul_status mmul_opencl_map(void *self, const struct mmul_map *map, struct mmul_error *err);
void mmul_opencl_map_kernels_fini(struct mmul_opencl_map_kernels *maps);

// Likewise in opencl_matrix_sums.c.
enum mmul_status mmul_opencl_sum_matrix(void *self, const struct mmul_matrix_sums *args,
                                        struct mmul_error *err);
void mmul_opencl_sums_state_fini(struct mmul_opencl_sums_state *projects);

// Allocates memory on the device; `what` names it in error texts. Rejects sizes beyond the device's
// limit or CLBlast's 32-bit indices. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_opencl_allocate(struct mmul_opencl *opencl, int64_t count, size_t bytes_each,
                                      const char *what, cl_mem *memory, struct mmul_error *err);

// The table's entry in opencl_probe.c.
enum mmul_status mmul_opencl_probe(const struct mmul_probe_options *options,
                                   struct mmul_probe *probe, struct mmul_error *err);

// The table's entry in opencl_tuning.c.
enum mmul_status mmul_opencl_tune(void *self, const struct mmul_tuned_kernel *kernel,
                                  struct mmul_error *err);
