// SPDX-License-Identifier: MIT
//
// Tiles of matrices in buffers of a device. What a buffer holds is remembered by where that lies in host
// memory, so that a tile that is needed again, or a part of one, is not sent again: for as long as what
// lies there stays what it is, which the caller knows.
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
    struct mmul_buffer *buffer;  // owned; NULL: none yet
    enum mmul_dtype dtype;       // of the buffer
    int64_t capacity;            // elements
    struct mmul_host_tile holds; // `at` NULL: nothing that is remembered
    int64_t used;                // by the used-th request; the entry with the least is taken next
    bool is_taken;               // by a result that is being made
    // Is what the device has known to be what lies in host memory? How often the check has asked for it.
    bool is_sound;
    int64_t asked;
    uint32_t bits; // when it is: their sum (device/project.h)
};

struct mmul_tile_cache {
    struct mmul_cached_tile entries[MMUL_CACHED_TILES];
    int most;           // entries: at most MMUL_CACHED_TILES
    int64_t bytes_most; // of all of them together
    int64_t requests;
    int64_t pinned; // what this request and those after it got stays; 0: none does
    int64_t uploads;
};

// Makes `count` entries of `capacity` elements of `dtype` each, which are all that it will have. On failure some may
// have been made.
enum mmul_status mmul_tile_cache_reserve(struct mmul_tile_cache *cache, struct mmul_device *device,
                                         enum mmul_dtype dtype, int count, int64_t capacity,
                                         struct mmul_error *err);

// Entries are made as they are needed, of so many bytes together; makes room where they have more, and
// where one has more than `largest`. Fails with the device.
enum mmul_status mmul_tile_cache_limit(struct mmul_tile_cache *cache, struct mmul_device *device,
                                       int64_t bytes, int64_t largest, struct mmul_error *err);

// Releases all entries. The device may be lost.
void mmul_tile_cache_drop(struct mmul_tile_cache *cache, struct mmul_device *device);

// What lies in [begin, end) of host memory has changed, or will: it is sent again. NULL, NULL: all.
void mmul_tile_cache_forget(struct mmul_tile_cache *cache, const void *begin, const void *end);

// What is loaded from now on stays at least until this is called again.
void mmul_tile_cache_pin(struct mmul_tile_cache *cache);

// Where an entry holds all of the tile; false: none does.
bool mmul_tile_cache_find(struct mmul_tile_cache *cache, const struct mmul_host_tile *tile,
                          struct mmul_operand *operand);

// The entry that holds all of the tile, and where in it that begins; NULL: none does.
struct mmul_cached_tile *mmul_tile_cache_entry(struct mmul_tile_cache *cache,
                                               const struct mmul_host_tile *tile, int64_t *offset);

// The tile as an operand, float64 where it is, else float32: where an entry holds it, else begun to be
// uploaded, packed, into the entry that was not used for longest. An entry that is too small, or of the
// other type, is made anew.
enum mmul_status mmul_tile_cache_load(struct mmul_tile_cache *cache, struct mmul_device *device,
                                      const struct mmul_host_tile *tile,
                                      struct mmul_operand *operand, struct mmul_error *err);

// An entry for `count` elements of `dtype` of a result, contents undefined; the caller's until it is given back:
// with what it holds then, or NULL.
enum mmul_status mmul_tile_cache_take(struct mmul_tile_cache *cache, struct mmul_device *device,
                                      enum mmul_dtype dtype, int64_t count,
                                      struct mmul_cached_tile **entry, struct mmul_error *err);
void mmul_tile_cache_give(struct mmul_cached_tile *entry, const struct mmul_host_tile *holds);

// What an entry holds of `from`, it holds of `to` from now on, which has the same numbers. Nothing where
// no entry holds just that.
void mmul_tile_cache_move(struct mmul_tile_cache *cache, const struct mmul_host_tile *from,
                          const struct mmul_host_tile *to);

// Going from `from` to `to`, which are rows (or columns) of `whole`: the first place between them where a
// tile that an entry holds begins or ends; `to`: there is none.
int64_t mmul_tile_cache_cut(const struct mmul_tile_cache *cache, const struct mmul_host_tile *whole,
                            bool rows, int64_t from, int64_t to);
