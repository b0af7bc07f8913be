// SPDX-License-Identifier: MIT
// Memory budgets fixed before the run: the memory of a node and of a device that a job may use, and
// the largest tile that one device computes in one pass. Pure.
#pragma once

#include "model/cluster.h"

// Share of a device's memory that a job uses. Drivers and other processes need the rest.
#define MMUL_DEVICE_MEMORY_SHARE 0.8

// Returns the bytes that are left of `limit` on a node. The limit counts all ranks of the node:
// memory that they hold already (elements of the inputs included) and memory that libraries still
// take while they work (buffers of the BLAS, queues of MPI). A negative result means that the node
// exceeds its limit already.
int64_t mmul_node_memory_left(const struct mmul_cluster *cluster, int node, int64_t limit);

// Returns the bytes of its device that a rank may use: `limit` (0: none) or most of the device's
// memory, divided among the ranks of the node that share the device.
int64_t mmul_rank_device_bytes(const struct mmul_cluster *cluster, int rank, int64_t limit);

enum { MMUL_TILE_LANES = 4 };

// Sides of the largest gemm that a device gets at once, and its memory on the device. A lane holds
// one tile of its operand. With two lanes the next tile is uploaded, and the last one downloaded,
// while one is multiplied. An operand of one tile has one lane. If memory allows, every tile of A
// or B has a lane, so that the next product does not upload a shared operand again.
struct mmul_tile {
    int64_t m, n, k;
    int a_lanes, b_lanes; // 1 to MMUL_TILE_LANES
    int c_lanes;          // 1 or 2
    int64_t device_bytes; // lanes, temporaries and 16-bit staging; 0: works in host memory
    int64_t free_bytes;   // memory left beside device_bytes
};

struct mmul_tile_request {
    int64_t m, n, k;     // sizes of the rank's largest product, all >= 1
    size_t a_bytes_each; // 4; 2 if operands travel as 16 bits; 8 in both fields: float64
    size_t b_bytes_each;
    bool host_memory;     // operands are used in place, except 16-bit ones
    int64_t memory_bytes; // the device's memory, or the user's limit
    int64_t max_allocation_bytes;
};

// Chooses the tile of a product. On a device with its own memory the longer side of C is cut into
// MMUL_TILE_PARTS parts, or into fewer if they would be shorter than MMUL_TILE_SIDE, so that
// transfers overlap computation. Then the longest side is halved until three conditions hold:
//   - lanes (float32, or float64 for float64 operands), padded temporaries of a tuned gemm (one
//     tile of each operand, in one allocation) and staging fit the memory
//   - every single allocation fits max_allocation_bytes
//   - every single allocation stays below 2^31 elements (kernels use 32-bit indices)
// A device that works in host memory holds only widened copies of 16-bit operands, at most
// MMUL_HOST_STAGING_BYTES of them, in one lane. Fails with MMUL_ERR_SYSTEM if not even a small tile
// fits.
enum { MMUL_TILE_PARTS = 4, MMUL_TILE_SIDE = 1024 };
enum { MMUL_HOST_STAGING_BYTES = 256 << 20 };

// A device with its own memory downloads results in pieces of at most this size, through two such
// buffers.
enum { MMUL_STAGING_BUFFER_BYTES = 8 << 20 };

enum mmul_status mmul_tile_choose(const struct mmul_tile_request *request, struct mmul_tile *tile,
                                  struct mmul_error *err);
