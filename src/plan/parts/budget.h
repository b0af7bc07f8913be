// SPDX-License-Identifier: MIT
// Memory decided before the run: what a node and a device have for it, how large a tile one device computes in one
// pass. Pure.
#pragma once

#include "model/cluster.h"

// Of a device's memory, that a job uses: drivers, and others, need some.
#define MMUL_DEVICE_MEMORY_SHARE 0.8

// Of a limit of a node's memory, which counts all of its ranks: what is left beside what they have already, elements of
// the inputs among it, and what libraries still take as they work (buffers of the BLAS, MPI's queues); negative: that
// is too much already.
int64_t mmul_schedule_memory_left(const struct mmul_cluster *cluster, int node, int64_t limit);

// What a rank may use of its device: a limit for the device (0: none) or most of its memory, divided among the ranks of
// the node that share it.
int64_t mmul_schedule_device_bytes(const struct mmul_cluster *cluster, int rank, int64_t limit);

enum { MMUL_TILE_LANES = 4 };

// Sides of the largest gemm a device is given at once, and what that costs on the device. A lane
// holds one tile of its operand: with two of them the next tile goes up, and the last one down,
// while one is multiplied. An operand that is one tile has one lane; all tiles of A or B have one
// each where they fit, so that what the next product shares with this one is not sent again.
struct mmul_tile {
    int64_t m, n, k;
    int a_lanes, b_lanes; // 1 to MMUL_TILE_LANES
    int c_lanes;          // 1 or 2
    int64_t device_bytes; // lanes, temporaries and 16-bit staging; 0: works in host memory
    int64_t spare_bytes;  // what is left of the memory then
};

struct mmul_tile_request {
    int64_t m, n, k;     // of the rank's largest product, all >= 1
    size_t a_bytes_each; // 4, or 2 for operands that travel as 16 bits; 8 in both: float64
    size_t b_bytes_each;
    bool host_memory;     // operands but 16-bit ones are used where they lie
    int64_t memory_bytes; // the device's, or the user's cap
    int64_t max_allocation_bytes;
};

// The tile of a product. A device with memory of its own gets the longer side of C in
// MMUL_TILE_PARTS parts, or in fewer when they would be shorter than MMUL_TILE_SIDE, so that its
// transfers overlap its work. Then the longest side is halved until all lanes (float32, or float64
// where the operands are), padded temporaries of a tuned gemm (a tile of each operand, in one
// allocation) and staging fit the memory and every single allocation fits max_allocation_bytes and
// stays below 2^31 elements (32-bit indices in kernels). Devices in host memory only hold widened
// copies of 16-bit operands, at most MMUL_HOST_STAGING_BYTES of them, in one lane. Fails with
// MMUL_ERR_SYSTEM when not even a small tile fits.
enum { MMUL_TILE_PARTS = 4, MMUL_TILE_SIDE = 1024 };
enum { MMUL_HOST_STAGING_BYTES = 256 << 20 };

// Results come down from a device with memory of its own in pieces, one of two such buffers each, at most.
enum { MMUL_STAGING_BUFFER_BYTES = 8 << 20 };

enum mmul_status mmul_tile_choose(const struct mmul_tile_request *request, struct mmul_tile *tile,
                                  struct mmul_error *err);
