// SPDX-License-Identifier: MIT
// Device buffers, the tiles in them, and their replacement. Waits only before it frees memory: the
// device keeps the order of operations on one buffer, so an entry may be filled again while a
// product still reads it.
#include "exec/worker/tile_cache.h"

#include "base/integer.h"
#include "model/dtype.h"

static void entry_drop(struct mmul_cached_tile *entry, struct mmul_device *device) {
    mmul_device_buffer_destroy(device, entry->buffer);
    *entry = (struct mmul_cached_tile){0};
}

static enum mmul_status entry_make(struct mmul_tile_cache *cache, struct mmul_cached_tile *entry,
                                   struct mmul_device *device, enum mmul_dtype dtype,
                                   int64_t capacity, struct mmul_error *err) {
    enum mmul_status status =
        mmul_device_buffer_create(device, dtype, capacity, &entry->buffer, err);
    if (status == MMUL_OK) {
        entry->capacity = capacity;
        entry->dtype = dtype;
        cache->end = (int)mmul_max(cache->end, entry - cache->entries + 1);
    }
    return status;
}

// Frees an entry. Its bytes count as free only after the device has finished with them.
static enum mmul_status evict(struct mmul_cached_tile *entry, struct mmul_device *device,
                              struct mmul_error *err) {
    enum mmul_status status = mmul_device_wait_buffer(device, entry->buffer, err);
    if (status == MMUL_OK)
        entry_drop(entry, device);
    return status;
}

// --------------------------------------------------------------------------------------- entries

// Summary of the entries: one that is not created, the next victim, and the bytes of all.
struct survey {
    struct mmul_cached_tile *unmade, *oldest;
    int64_t bytes;
};

static int64_t bytes_of(enum mmul_dtype dtype, int64_t count) {
    return count * (int64_t)mmul_dtype_bytes(dtype);
}

static struct survey survey_entries(struct mmul_tile_cache *cache) {
    struct survey s = {0};
    for (int i = 0; i < mmul_max(cache->most, 1); i++) {
        struct mmul_cached_tile *e = &cache->entries[i];
        bool is_free = !e->is_taken && (cache->pinned == 0 || e->used < cache->pinned);
        s.bytes += bytes_of(e->dtype, e->capacity);
        if (e->buffer == NULL)
            s.unmade = s.unmade == NULL ? e : s.unmade;
        else if (is_free && (s.oldest == NULL || e->used < s.oldest->used))
            s.oldest = e;
    }
    return s;
}

// Returns an entry of this type with at least this many elements, whatever it held.
static enum mmul_status acquire_entry(struct mmul_tile_cache *cache, struct mmul_device *device,
                                      enum mmul_dtype dtype, int64_t count,
                                      struct mmul_cached_tile **entry, struct mmul_error *err) {
    const int64_t bytes = bytes_of(dtype, count);
    for (;;) {
        const struct survey s = survey_entries(cache);
        if (s.unmade != NULL && (s.oldest == NULL || s.bytes + bytes <= cache->max_bytes)) {
            *entry = s.unmade;
            return entry_make(cache, s.unmade, device, dtype, count, err);
        }
        *entry = s.oldest;
        if (s.oldest->dtype == dtype && s.oldest->capacity >= count)
            return MMUL_OK;
        enum mmul_status status = evict(s.oldest, device, err);
        if (status != MMUL_OK)
            return status;
    }
}

enum mmul_status mmul_tile_cache_reserve(struct mmul_tile_cache *cache, struct mmul_device *device,
                                         enum mmul_dtype dtype, int count, int64_t capacity,
                                         struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    cache->most = count;
    cache->max_bytes = INT64_MAX / 2; // limited by the count only
    for (int i = 0; status == MMUL_OK && i < count; i++)
        status = entry_make(cache, &cache->entries[i], device, dtype, capacity, err);
    return status;
}

enum mmul_status mmul_tile_cache_set_limit(struct mmul_tile_cache *cache,
                                           struct mmul_device *device, int64_t bytes,
                                           int64_t largest, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    cache->most = MMUL_CACHED_TILES;
    cache->max_bytes = bytes;
    mmul_tile_cache_pin(cache);
    for (int i = 0; status == MMUL_OK && i < cache->end; i++)
        if (bytes_of(cache->entries[i].dtype, cache->entries[i].capacity) > largest)
            status = evict(&cache->entries[i], device, err);
    for (struct survey s = survey_entries(cache);
         status == MMUL_OK && s.bytes > bytes && s.oldest != NULL; s = survey_entries(cache))
        status = evict(s.oldest, device, err);
    return status;
}

void mmul_tile_cache_clear(struct mmul_tile_cache *cache, struct mmul_device *device) {
    for (int i = 0; i < cache->end; i++)
        entry_drop(&cache->entries[i], device);
    // The other entries are zero, and most caches of a small program have no entry at all.
    cache->most = cache->end = 0;
    cache->max_bytes = cache->requests = cache->pinned = cache->uploads = 0;
}

void mmul_tile_cache_pin(struct mmul_tile_cache *cache) {
    cache->pinned = cache->requests + 1;
}

// ----------------------------------------------------------------------------- contents of entries

static const char *tile_end(const struct mmul_host_tile *t) {
    return (const char *)t->at +
           ((t->rows - 1) * t->ld + t->cols) * (int64_t)mmul_dtype_bytes(t->dtype);
}

void mmul_tile_cache_invalidate(struct mmul_tile_cache *cache, const void *begin, const void *end) {
    for (int i = 0; i < cache->end; i++) {
        struct mmul_host_tile *t = &cache->entries[i].holds;
        bool is_outside =
            end != NULL && t->at != NULL &&
            ((const char *)t->at >= (const char *)end || tile_end(t) <= (const char *)begin);
        if (!is_outside)
            t->at = NULL;
    }
}

// Computes the position of a tile relative to `whole`; it may be negative. Returns false if the two
// differ in type or leading dimension.
static bool locate_tile(const struct mmul_host_tile *whole, const struct mmul_host_tile *tile,
                        int64_t *row, int64_t *col) {
    if (tile->at == NULL || tile->ld != whole->ld || tile->dtype != whole->dtype)
        return false;
    int64_t bytes = (int64_t)((uintptr_t)tile->at - (uintptr_t)whole->at);
    int64_t distance = bytes / (int64_t)mmul_dtype_bytes(whole->dtype);
    *row = distance / whole->ld;
    *col = distance % whole->ld;
    if (*col < 0) {
        *col += whole->ld;
        *row -= 1;
    }
    // Wraps past the end of the row: the tile begins left of `whole`.
    if (*col + tile->cols > whole->ld) {
        *col -= whole->ld;
        *row += 1;
    }
    return true;
}

struct mmul_cached_tile *mmul_tile_cache_find_entry(struct mmul_tile_cache *cache,
                                                    const struct mmul_host_tile *tile,
                                                    int64_t *offset) {
    for (int i = 0; i < cache->end; i++) {
        struct mmul_cached_tile *e = &cache->entries[i];
        int64_t row, col;
        if (e->holds.at == NULL || !locate_tile(&e->holds, tile, &row, &col) || row < 0 ||
            col < 0 || row + tile->rows > e->holds.rows || col + tile->cols > e->holds.cols)
            continue;
        *offset = row * e->holds.cols + col;
        return e;
    }
    return NULL;
}

bool mmul_tile_cache_find(struct mmul_tile_cache *cache, const struct mmul_host_tile *tile,
                          struct mmul_operand *operand) {
    int64_t offset = 0;
    struct mmul_cached_tile *entry = mmul_tile_cache_find_entry(cache, tile, &offset);
    if (entry == NULL)
        return false;
    entry->used = ++cache->requests;
    *operand = (struct mmul_operand){entry->buffer, offset, entry->holds.cols};
    return true;
}

enum mmul_status mmul_tile_cache_load(struct mmul_tile_cache *cache, struct mmul_device *device,
                                      const struct mmul_host_tile *tile,
                                      struct mmul_operand *operand, struct mmul_error *err) {
    struct mmul_cached_tile *entry = NULL;
    if (mmul_tile_cache_find(cache, tile, operand))
        return MMUL_OK;
    enum mmul_status status = mmul_tile_cache_reserve_result(
        cache, device, mmul_dtype_of_product(tile->dtype, tile->dtype), tile->rows * tile->cols,
        &entry, err);
    if (status != MMUL_OK)
        return status;
    entry->is_taken = false;
    cache->uploads++;
    *operand = (struct mmul_operand){.buffer = entry->buffer, .ld = tile->cols};
    status = mmul_device_upload(
        device,
        &(struct mmul_upload){*operand, tile->rows, tile->cols, tile->at, tile->ld, tile->dtype},
        err);
    if (status == MMUL_OK)
        entry->holds = *tile;
    return status;
}

enum mmul_status mmul_tile_cache_reserve_result(struct mmul_tile_cache *cache,
                                                struct mmul_device *device, enum mmul_dtype dtype,
                                                int64_t count, struct mmul_cached_tile **entry,
                                                struct mmul_error *err) {
    enum mmul_status status = acquire_entry(cache, device, dtype, count, entry, err);
    if (status != MMUL_OK)
        return status;
    (*entry)->used = ++cache->requests;
    (*entry)->holds.at = NULL;
    (*entry)->is_taken = true;
    (*entry)->is_sound = false;
    (*entry)->asked = 0;
    return MMUL_OK;
}

void mmul_tile_cache_return_result(struct mmul_cached_tile *entry,
                                   const struct mmul_host_tile *holds) {
    entry->is_taken = false;
    if (holds != NULL)
        entry->holds = *holds;
}

void mmul_tile_cache_rekey(struct mmul_tile_cache *cache, const struct mmul_host_tile *from,
                           const struct mmul_host_tile *to) {
    int64_t offset = 0;
    struct mmul_cached_tile *entry = mmul_tile_cache_find_entry(cache, from, &offset);
    if (entry != NULL && entry->holds.rows == from->rows && entry->holds.cols == from->cols)
        entry->holds = *to;
}

int64_t mmul_tile_cache_find_boundary(const struct mmul_tile_cache *cache,
                                      const struct mmul_host_tile *whole, bool rows, int64_t from,
                                      int64_t to) {
    for (int i = 0; i < cache->end; i++) {
        const struct mmul_host_tile *t = &cache->entries[i].holds;
        int64_t row, col;
        if (!locate_tile(whole, t, &row, &col) || row >= whole->rows || row + t->rows <= 0 ||
            col >= whole->cols || col + t->cols <= 0)
            continue;
        const int64_t ends[] = {rows ? row : col, rows ? row + t->rows : col + t->cols};
        for (int j = 0; j < 2; j++)
            if ((from < ends[j] && ends[j] < to) || (to < ends[j] && ends[j] < from))
                to = ends[j];
    }
    return to;
}
