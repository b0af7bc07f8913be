// SPDX-License-Identifier: MIT
// Lanes on a device and what they hold. Waits for nothing: the device keeps the order of operations
// on one buffer, so a lane may be filled again while a product still reads it.
#include "exec/stage.h"

#include "base/integer.h"

static void lane_drop(struct mmul_lane *lane, struct mmul_device *device) {
    mmul_device_buffer_destroy(device, lane->buffer);
    *lane = (struct mmul_lane){0};
}

static enum mmul_status lane_reserve(struct mmul_lane *lane, struct mmul_device *device,
                                     int64_t capacity, struct mmul_error *err) {
    if (lane->capacity >= capacity)
        return MMUL_OK;
    lane_drop(lane, device);
    enum mmul_status status = mmul_device_buffer_create(device, capacity, &lane->buffer, err);
    if (status == MMUL_OK)
        lane->capacity = capacity;
    return status;
}

enum mmul_status mmul_stage_reserve(struct mmul_stage *stage, struct mmul_device *device, int count,
                                    int64_t capacity, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    stage->count = count < MMUL_TILE_LANES ? count : MMUL_TILE_LANES;
    for (int i = 0; status == MMUL_OK && i < stage->count; i++)
        status = lane_reserve(&stage->lanes[i], device, capacity, err);
    return status;
}

void mmul_stage_drop(struct mmul_stage *stage, struct mmul_device *device) {
    for (int i = 0; i < MMUL_TILE_LANES; i++)
        lane_drop(&stage->lanes[i], device);
    *stage = (struct mmul_stage){0};
}

void mmul_stage_forget(struct mmul_stage *stage) {
    for (int i = 0; i < MMUL_TILE_LANES; i++)
        stage->lanes[i].holds.at = NULL;
}

static bool is_same(const struct mmul_host_tile *a, const struct mmul_host_tile *b) {
    return a->at == b->at && a->rows == b->rows && a->cols == b->cols && a->ld == b->ld &&
           a->dtype == b->dtype;
}

// The lane that holds the tile, or the one that was not used for longest.
static struct mmul_lane *find_lane(struct mmul_stage *stage, const struct mmul_host_tile *tile) {
    struct mmul_lane *oldest = &stage->lanes[0];
    for (int i = 0; i < stage->count; i++) {
        struct mmul_lane *lane = &stage->lanes[i];
        if (is_same(&lane->holds, tile))
            return lane;
        if (lane->used < oldest->used)
            oldest = lane;
    }
    return oldest;
}

enum mmul_status mmul_stage_load(struct mmul_stage *stage, struct mmul_device *device,
                                 const struct mmul_host_tile *tile, struct mmul_operand *operand,
                                 struct mmul_error *err) {
    struct mmul_lane *lane = find_lane(stage, tile);
    enum mmul_status status = lane_reserve(lane, device, tile->rows * tile->cols, err);
    if (status != MMUL_OK)
        return status;
    lane->used = ++stage->requests;
    *operand = (struct mmul_operand){.buffer = lane->buffer, .ld = tile->cols};
    if (is_same(&lane->holds, tile))
        return MMUL_OK;
    lane->holds.at = NULL;
    status = mmul_device_upload(
        device,
        &(struct mmul_upload){*operand, tile->rows, tile->cols, tile->at, tile->ld, tile->dtype},
        err);
    if (status == MMUL_OK)
        lane->holds = *tile;
    return status;
}

enum mmul_status mmul_stage_take(struct mmul_stage *stage, struct mmul_device *device, int index,
                                 int64_t count, struct mmul_buffer **buffer,
                                 struct mmul_error *err) {
    enum mmul_status status = lane_reserve(&stage->lanes[index], device, count, err);
    *buffer = stage->lanes[index].buffer;
    return status;
}
