// SPDX-License-Identifier: MIT
//
// Tiles of an operand on a device. Each has an entry, a buffer of a tile's size; what it holds is
// remembered, so that a tile that is needed again is not sent again.
#pragma once

#include "device/device.h"
#include "plan/budget.h"

// A tile in host memory: rows x cols elements, row-major, ld elements between rows.
struct mmul_host_tile {
    const void *at;
    int64_t rows, cols, ld;
    enum mmul_dtype dtype;
};

struct mmul_cached_tile {
    struct mmul_buffer *buffer;  // owned; NULL: none yet
    int64_t capacity;            // elements
    struct mmul_host_tile holds; // `at` NULL: nothing that is remembered
    int64_t used;                // by the used-th request; the entry with the least is taken next
};

struct mmul_tile_cache {
    struct mmul_cached_tile entries[MMUL_TILE_LANES];
    int count; // of entries
    int64_t requests, uploads;
};

// Makes `count` entries of `capacity` elements each. On failure some may have been made.
enum mmul_status mmul_tile_cache_reserve(struct mmul_tile_cache *cache, struct mmul_device *device,
                                         int count, int64_t capacity, struct mmul_error *err);

// Releases all entries. The device may be lost.
void mmul_tile_cache_drop(struct mmul_tile_cache *cache, struct mmul_device *device);

// What entries hold has changed in host memory: everything is sent again.
void mmul_tile_cache_forget(struct mmul_tile_cache *cache);

// The tile as an operand, float32, packed: from the entry that holds it, else begun to be uploaded
// into the entry that was not used for longest. An entry that is too small is made anew.
enum mmul_status mmul_tile_cache_load(struct mmul_tile_cache *cache, struct mmul_device *device,
                                      const struct mmul_host_tile *tile,
                                      struct mmul_operand *operand, struct mmul_error *err);

// The buffer of entry `index`, for `count` elements that are not an operand's; borrowed, contents
// undefined.
enum mmul_status mmul_tile_cache_take(struct mmul_tile_cache *cache, struct mmul_device *device,
                                      int index, int64_t count, struct mmul_buffer **buffer,
                                      struct mmul_error *err);
