// SPDX-License-Identifier: MIT
//
// A cache of matrix tiles in buffers of a device. The key of a tile is its address in host memory.
// A tile that is needed again, or a part of it, is not uploaded again. The caller must report
// changes of host memory (mmul_tile_cache_invalidate).
#pragma once

#include "device/device.h"
#include "plan/parts/budget.h"

enum { MMUL_CACHED_TILES = 64 };

// A tile in host memory: rows x cols elements, row-major, ld elements between rows.
struct mmul_host_tile {
    const void *at;
    int64_t rows, cols, ld;
    enum mmul_dtype dtype;
};

struct mmul_cached_tile {
    struct mmul_buffer *buffer;  // owned; NULL: not created
    enum mmul_dtype dtype;       // element type of the buffer
    int64_t capacity;            // elements
    struct mmul_host_tile holds; // cached tile; `at` NULL: none
    // Sequence number of the last request; the entry with the least is evicted first.
    int64_t used;
    bool is_taken; // in use by a result that is being made
    // is_sound: the tile on the device is known to equal host memory. asked: number of requests by
    // the check.
    bool is_sound;
    int64_t asked;
    int64_t summed; // elements of an absent product for which the check has sums
    uint32_t bits;  // if is_sound: sum of the tile's bits (device/matrix_sums.h)
};

struct mmul_tile_cache {
    struct mmul_cached_tile entries[MMUL_CACHED_TILES];
    int most;          // number of entries, at most MMUL_CACHED_TILES
    int end;           // entries from here on have had no buffer yet
    int64_t max_bytes; // capacity of all entries together
    int64_t requests;
    // Entries requested since this request number are not evicted; 0: none is pinned.
    int64_t pinned;
    int64_t uploads;
};

// Creates `count` entries of `capacity` elements of `dtype` each; the cache creates no others. On
// failure some may exist.
enum mmul_status mmul_tile_cache_reserve(struct mmul_tile_cache *cache, struct mmul_device *device,
                                         enum mmul_dtype dtype, int count, int64_t capacity,
                                         struct mmul_error *err);

// Creates entries on demand, up to this many bytes in all. Evicts entries until the limit holds,
// and every entry larger than `largest`. Fails if the device does.
enum mmul_status mmul_tile_cache_set_limit(struct mmul_tile_cache *cache,
                                           struct mmul_device *device, int64_t bytes,
                                           int64_t largest, struct mmul_error *err);

// Releases all entries. The device may be lost.
void mmul_tile_cache_clear(struct mmul_tile_cache *cache, struct mmul_device *device);

// Invalidates tiles in [begin, end) of host memory, because its content has changed or will change.
// NULL, NULL: all tiles.
void mmul_tile_cache_invalidate(struct mmul_tile_cache *cache, const void *begin, const void *end);

// Pins all tiles that are loaded from now on, until the next call.
void mmul_tile_cache_pin(struct mmul_tile_cache *cache);

// Returns true if an entry holds the whole tile, and sets *operand to it.
bool mmul_tile_cache_find(struct mmul_tile_cache *cache, const struct mmul_host_tile *tile,
                          struct mmul_operand *operand);

// Returns the entry that holds the whole tile, or NULL. *offset: start of the tile in the entry.
struct mmul_cached_tile *mmul_tile_cache_find_entry(struct mmul_tile_cache *cache,
                                                    const struct mmul_host_tile *tile,
                                                    int64_t *offset);

// Returns the tile as an operand, of float64 if it has that type, else of float32. Without a cached
// copy it begins an upload, packed, into the least recently used entry. An entry that is too small
// or has another type is created anew.
enum mmul_status mmul_tile_cache_load(struct mmul_tile_cache *cache, struct mmul_device *device,
                                      const struct mmul_host_tile *tile,
                                      struct mmul_operand *operand, struct mmul_error *err);

// take: reserves an entry for a result of `count` elements of `dtype`, contents undefined. The
// entry is the caller's until mmul_tile_cache_return_result, which records the tile that it holds
// now, or NULL.
enum mmul_status mmul_tile_cache_reserve_result(struct mmul_tile_cache *cache,
                                                struct mmul_device *device, enum mmul_dtype dtype,
                                                int64_t count, struct mmul_cached_tile **entry,
                                                struct mmul_error *err);
void mmul_tile_cache_return_result(struct mmul_cached_tile *entry,
                                   const struct mmul_host_tile *holds);

// Changes the key of the entry that holds exactly `from` to `to`, a tile with the same numbers.
// Does nothing if there is no such entry.
void mmul_tile_cache_rekey(struct mmul_tile_cache *cache, const struct mmul_host_tile *from,
                           const struct mmul_host_tile *to);

// Returns the first position between `from` and `to` (rows or columns of `whole`) at which a cached
// tile begins or ends. Returns `to` if there is none.
int64_t mmul_tile_cache_find_boundary(const struct mmul_tile_cache *cache,
                                      const struct mmul_host_tile *whole, bool rows, int64_t from,
                                      int64_t to);
