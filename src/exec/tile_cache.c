// SPDX-License-Identifier: MIT
// Buffers on a device and the tiles they hold. Waits for nothing: the device keeps the order of
// operations on one buffer, so an entry may be filled again while a product still reads it.
#include "exec/tile_cache.h"

#include "base/integer.h"

static void entry_drop(struct mmul_cached_tile *entry, struct mmul_device *device) {
    mmul_device_buffer_destroy(device, entry->buffer);
    *entry = (struct mmul_cached_tile){0};
}

static enum mmul_status entry_reserve(struct mmul_cached_tile *entry, struct mmul_device *device,
                                      int64_t capacity, struct mmul_error *err) {
    if (entry->capacity >= capacity)
        return MMUL_OK;
    entry_drop(entry, device);
    enum mmul_status status =
        mmul_device_buffer_create(device, MMUL_F32, capacity, &entry->buffer, err);
    if (status == MMUL_OK)
        entry->capacity = capacity;
    return status;
}

enum mmul_status mmul_tile_cache_reserve(struct mmul_tile_cache *cache, struct mmul_device *device,
                                         int count, int64_t capacity, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    cache->count = count < MMUL_TILE_LANES ? count : MMUL_TILE_LANES;
    for (int i = 0; status == MMUL_OK && i < cache->count; i++)
        status = entry_reserve(&cache->entries[i], device, capacity, err);
    return status;
}

void mmul_tile_cache_drop(struct mmul_tile_cache *cache, struct mmul_device *device) {
    for (int i = 0; i < MMUL_TILE_LANES; i++)
        entry_drop(&cache->entries[i], device);
    *cache = (struct mmul_tile_cache){0};
}

void mmul_tile_cache_forget(struct mmul_tile_cache *cache) {
    for (int i = 0; i < MMUL_TILE_LANES; i++)
        cache->entries[i].holds.at = NULL;
}

static bool is_same(const struct mmul_host_tile *a, const struct mmul_host_tile *b) {
    return a->at == b->at && a->rows == b->rows && a->cols == b->cols && a->ld == b->ld &&
           a->dtype == b->dtype;
}

// The entry that holds the tile, or the one that was not used for longest.
static struct mmul_cached_tile *find_entry(struct mmul_tile_cache *cache,
                                           const struct mmul_host_tile *tile) {
    struct mmul_cached_tile *oldest = &cache->entries[0];
    for (int i = 0; i < cache->count; i++) {
        struct mmul_cached_tile *entry = &cache->entries[i];
        if (is_same(&entry->holds, tile))
            return entry;
        if (entry->used < oldest->used)
            oldest = entry;
    }
    return oldest;
}

enum mmul_status mmul_tile_cache_load(struct mmul_tile_cache *cache, struct mmul_device *device,
                                      const struct mmul_host_tile *tile,
                                      struct mmul_operand *operand, struct mmul_error *err) {
    struct mmul_cached_tile *entry = find_entry(cache, tile);
    enum mmul_status status = entry_reserve(entry, device, tile->rows * tile->cols, err);
    if (status != MMUL_OK)
        return status;
    entry->used = ++cache->requests;
    *operand = (struct mmul_operand){.buffer = entry->buffer, .ld = tile->cols};
    if (is_same(&entry->holds, tile))
        return MMUL_OK;
    entry->holds.at = NULL;
    cache->uploads++;
    status = mmul_device_upload(
        device,
        &(struct mmul_upload){*operand, tile->rows, tile->cols, tile->at, tile->ld, tile->dtype},
        err);
    if (status == MMUL_OK)
        entry->holds = *tile;
    return status;
}

enum mmul_status mmul_tile_cache_take(struct mmul_tile_cache *cache, struct mmul_device *device,
                                      int index, int64_t count, struct mmul_buffer **buffer,
                                      struct mmul_error *err) {
    enum mmul_status status = entry_reserve(&cache->entries[index], device, count, err);
    *buffer = cache->entries[index].buffer;
    return status;
}
