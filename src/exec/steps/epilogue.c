// SPDX-License-Identifier: MIT
// Walks the rank's part, or a region of it, in tiles of rows. Each fused operation is one map,
// checked like any other. The step's own result of a tile stays until the tile has passed all fused
// operations, so a device may fail in between. If only the device has that result, the product is
// made again too. The last rows of a product were made last, so they go first: the rest on a device
// is then a contiguous range of first rows. On the CPU each thread takes a tile, and no thread
// waits for another until the block is complete.
#include "exec/steps/epilogue.h"

#include <stdatomic.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/rows.h"
#include "base/status.h"
#include "exec/steps/map_blocks.h"
#include "exec/steps/map_check.h"
#include "exec/steps/rank_resources.h"
#include "exec/threads/compute_thread.h"
#include "model/dtype.h"
#include "model/matrix.h"
#include "plan/program/program_footprint.h"

static const struct mmul_program_fused *get_fused(const struct mmul_stage *stage, int i) {
    return &stage->plan->fused[stage->epilogue.step->first_fused + i];
}

bool mmul_epilogue_is_whole_stage(const struct mmul_stage *stage) {
    return stage->epilogue.step != NULL &&
           mmul_program_head_is_fused(stage->plan, stage->epilogue.step);
}

// ------------------------------------------------------------------------------------------- tiles

// Rows [row, row + rows) of a block. With by_rows many matrices count as one.
struct tile {
    int64_t matrix, row, rows, col, cols;
    void *at;
    enum mmul_dtype dtype;
    int64_t ld;
    int part; // index of the thread, which selects its tiles of the room
};

// Returns the part of a value with the tile's rows, for a step with by_rows.
static struct mmul_host_operand find_rows_of_value(const struct mmul_stage *stage, int place,
                                                   const struct tile *tile, bool is_spread) {
    const struct mmul_program_plan *plan = stage->plan;
    const struct mmul_shape s = mmul_place_value(plan, place)->shape;
    const bool is_vector = mmul_shape_matrices(s) == 1 && s.rows == 1;
    const int64_t row = is_vector ? 0 : tile->row, col = is_spread && s.cols > 1 ? tile->col : 0;
    const struct mmul_view view =
        mmul_values_view(stage->rank_resources->values, place, stage->comm->rank, row / s.rows);
    return (struct mmul_host_operand){.at = mmul_view_element(&view, row % s.rows, col),
                                      .dtype = view.dtype,
                                      .row_step = is_vector         ? 0
                                                  : view.transposed ? 1
                                                                    : view.ld,
                                      .col_step = s.cols == 1       ? 0
                                                  : view.transposed ? view.ld
                                                                    : 1,
                                      .rows = is_vector && !is_spread ? 1 : tile->rows,
                                      .cols = is_spread ? tile->cols : s.cols};
}

// Returns the part of an operand that a tile of one matrix depends on.
static struct mmul_host_operand find_part_of_operand(const struct mmul_stage *stage, int place,
                                                     const struct tile *tile,
                                                     struct mmul_shape result, bool is_elements,
                                                     bool is_by_row) {
    const struct mmul_program_plan *plan = stage->plan;
    const struct mmul_shape s = mmul_place_value(plan, place)->shape;
    const int64_t batch = s.batch == 1 ? 0 : tile->matrix / result.depth;
    const int64_t depth = s.depth == 1 ? 0 : tile->matrix % result.depth;
    const struct mmul_view view = mmul_values_view(stage->rank_resources->values, place,
                                                   stage->comm->rank, batch * s.depth + depth);
    return mmul_map_operand_from_view(&view, tile->row, is_elements || is_by_row ? tile->rows : 1,
                                      is_elements ? tile->col : 0,
                                      is_elements ? tile->cols : s.cols);
}

// Returns tile `index` of the thread's room. Its rows are contiguous.
static struct mmul_host_tile get_room_tile(const struct mmul_stage *stage, const struct tile *tile,
                                           int index) {
    const struct mmul_epilogue *epilogue = &stage->epilogue;
    const char *tiles = stage->rank_resources->epilogue_buffers.tiles;
    const int64_t at = (int64_t)tile->part * epilogue->tiles + index;
    return (struct mmul_host_tile){tiles + at * epilogue->tile_bytes, tile->rows, tile->cols,
                                   tile->cols, tile->dtype};
}

static void drop_from_device(struct mmul_stage *stage, const struct mmul_host_tile *tile) {
    const char *begin = tile->at;
    const int64_t elements = (tile->rows - 1) * tile->ld + tile->cols;
    mmul_worker_invalidate_memory(&stage->rank_resources->worker, begin,
                                  begin + elements * (int64_t)mmul_dtype_bytes(tile->dtype));
}

// Returns the destination of a fused operation: a tile of the room, or the value's place in memory.
static struct mmul_host_tile find_result(const struct mmul_stage *stage, const struct tile *tile,
                                         int place) {
    const struct mmul_program_plan *plan = stage->plan;
    const struct mmul_shape s = mmul_place_value(plan, place)->shape;
    const int number = plan->places[place].tile;
    if (number > 0)
        return get_room_tile(stage, tile, number - 1);
    const bool by_rows = stage->epilogue.step->by_rows;
    const int64_t row = by_rows ? tile->row % s.rows : tile->row;
    const struct mmul_view view =
        mmul_values_view(stage->rank_resources->values, place, stage->comm->rank,
                         by_rows ? tile->row / s.rows : tile->matrix);
    return (struct mmul_host_tile){mmul_view_element(&view, row, tile->col), tile->rows, tile->cols,
                                   view.ld, tile->dtype};
}

static struct mmul_host_operand find_operand(const struct mmul_stage *stage,
                                             const struct tile *tile,
                                             const struct mmul_program_fused *fused, int index) {
    const struct mmul_program_plan *plan = stage->plan;
    const struct mmul_operation *o = &plan->program->operations[fused->operation];
    const struct mmul_operation_row *row = mmul_operation_row(o->kind);
    const bool is_elements = row->class == MMUL_CLASS_ELEMENTS;
    const int place = fused->operands[index];
    if (place < 0)
        return mmul_map_operand_constant(&o->with.numbers[index], tile->dtype, tile->rows,
                                         tile->cols);
    const int number = plan->places[mmul_program_base_place(plan, place)].tile;
    if (number > 0) {
        const struct mmul_host_tile at = get_room_tile(stage, tile, number - 1);
        return (struct mmul_host_operand){.at = at.at,
                                          .dtype = at.dtype,
                                          .row_step = at.ld,
                                          .col_step = 1,
                                          .rows = at.rows,
                                          .cols = at.cols};
    }
    return stage->epilogue.step->by_rows
               ? find_rows_of_value(stage, place, tile, is_elements)
               : find_part_of_operand(stage, place, tile, plan->program->values[o->result].shape,
                                      is_elements, index < row->by_row);
}

// Describes one operation on the tile, by one thread.
static struct mmul_host_map find_map(const struct mmul_stage *stage, const struct tile *tile,
                                     const struct mmul_program_fused *fused,
                                     const struct mmul_host_tile *to) {
    const struct mmul_program *program = stage->plan->program;
    const struct mmul_operation *o = &program->operations[fused->operation];
    const struct mmul_shape shape = program->values[o->result].shape;
    const struct mmul_context *context = stage->rank_resources->context;
    struct mmul_host_map host = {
        .map = {.kind = o->kind,
                .with = &o->with,
                .rows = tile->rows,
                .cols = tile->cols,
                .row = tile->row,
                .col = tile->col,
                .shape = shape,
                .matrix = tile->matrix,
                .matrices = 1,
                .operand_count = o->operand_count,
                .parallel = {1, NULL},
                .cache_bytes = context->cluster->ranks[context->comm->rank].all_cache_bytes},
        .result = (void *)(uintptr_t)to->at,
        .dtype = tile->dtype,
        .ld = to->ld};
    if (stage->epilogue.step->by_rows)
        host.map.shape =
            (struct mmul_shape){1, 1, mmul_shape_matrices(shape) * shape.rows, shape.cols};
    for (int i = 0; i < o->operand_count; i++)
        host.operands[i] = find_operand(stage, tile, fused, i);
    return host;
}

static enum mmul_status make_fused(struct mmul_stage *stage, const struct tile *tile,
                                   const struct mmul_program_fused *fused,
                                   const struct mmul_host_tile *to, bool may_stay_on_device,
                                   struct mmul_error *err) {
    const struct mmul_program *program = stage->plan->program;
    struct mmul_host_map host = find_map(stage, tile, fused, to);
    char place[192];
    host.may_stay_on_device = may_stay_on_device;
    snprintf(place, sizeof place, "rows %lld-%lld of matrix %lld of '%.90s'", (long long)tile->row,
             (long long)(tile->row + tile->rows), (long long)tile->matrix,
             program->values[program->operations[fused->operation].result].name);
    return mmul_stage_run_map(stage, &program->operations[fused->operation], &host, place, err);
}

// Returns true if a fused operation from the first-th on reads the step's value at `place`.
static bool is_read_from(const struct mmul_stage *stage, int first, int place) {
    const int base = mmul_program_base_place(stage->plan, place);
    bool reads = false;
    for (int i = first; i < stage->epilogue.step->fused_count; i++)
        for (int j = 0; j < MMUL_OPERANDS; j++)
            reads |= get_fused(stage, i)->within[j] &&
                     mmul_program_base_place(stage->plan, get_fused(stage, i)->operands[j]) == base;
    return reads;
}

// Releases tiles that only the device has after their last reader.
static void release_read(struct mmul_stage *stage, const struct tile *tile, int index) {
    const struct mmul_program_fused *fused = get_fused(stage, index);
    struct mmul_worker *worker = &stage->rank_resources->worker;
    for (int j = 0; j < MMUL_OPERANDS; j++) {
        if (!fused->within[j] || is_read_from(stage, index + 1, fused->operands[j]))
            continue;
        const struct mmul_host_tile read =
            find_result(stage, tile, mmul_program_base_place(stage->plan, fused->operands[j]));
        if (mmul_worker_is_absent(worker, &read))
            mmul_worker_release_absent(worker, &read);
    }
}

// Returns true if the last fused operation reads the memory that its result will occupy.
static bool overwrites_operand(const struct mmul_stage *stage, int index) {
    const struct mmul_program_step *step = stage->epilogue.step;
    return index == step->fused_count - 1 && mmul_program_needs_result_tile(stage->plan, step);
}

static void copy_result(const struct mmul_host_tile *from, const struct tile *tile) {
    const int64_t each = (int64_t)mmul_dtype_bytes(tile->dtype);
    mmul_copy_rows(from->at, from->ld * each, tile->at, tile->ld * each, tile->rows,
                   tile->cols * each);
}

// Applies all fused operations to a tile. If the last one would overwrite its own operand, its
// result goes to a spare tile first.
static enum mmul_status make_tile(struct mmul_stage *stage, const struct tile *tile,
                                  struct mmul_error *err) {
    const int count = stage->epilogue.step->fused_count;
    const struct mmul_host_tile result = {tile->at, tile->rows, tile->cols, tile->ld, tile->dtype};
    // An absent tile exists only on the device. If the device is lost, it is made again with the
    // product.
    const bool is_absent = mmul_worker_is_absent(&stage->rank_resources->worker, &result);
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < count; i++) {
        const struct mmul_program_fused *fused = get_fused(stage, i);
        const bool is_apart = overwrites_operand(stage, i);
        const struct mmul_host_tile to =
            is_apart ? get_room_tile(stage, tile, stage->epilogue.step->tile_count)
                     : find_result(stage, tile, fused->result);
        const bool may_stay_on_device = is_absent && i < count - 1 &&
                                        stage->plan->places[fused->result].tile > 0 &&
                                        !is_read_from(stage, i + 2, fused->result);
        drop_from_device(stage, &to); // drop the device's copies of the destination
        status = make_fused(stage, tile, fused, &to, may_stay_on_device, err);
        if (status == MMUL_OK && is_absent)
            release_read(stage, tile, i);
        if (status != MMUL_OK || !is_apart)
            continue;
        drop_from_device(stage, &result);
        copy_result(&to, tile);
        mmul_tile_cache_rekey(&stage->rank_resources->worker.kept, &to, &result);
    }
    const struct mmul_epilogue_buffers *room = &stage->rank_resources->epilogue_buffers;
    mmul_worker_invalidate_memory(&stage->rank_resources->worker, room->tiles,
                                  (const char *)room->tiles + room->bytes);
    return status;
}

// Counts the consecutive operations on elements from the first-th on.
static int count_element_operations(const struct mmul_stage *stage, int first) {
    const struct mmul_program *program = stage->plan->program;
    const int most = (int)mmul_min(stage->epilogue.step->fused_count - first, MMUL_FUSED_MAPS_MAX);
    int count = 0;
    while (count < most &&
           mmul_operation_row(program->operations[get_fused(stage, first + count)->operation].kind)
                   ->class
               == MMUL_CLASS_ELEMENTS)
        count++;
    return count;
}

// Applies all fused operations to a tile by one of several threads. The device is the CPU, which is
// trusted, and all data is in host memory. If all operations run together, a value in a tile of the
// room has no other reader.
static enum mmul_status make_tile_on_thread(struct mmul_stage *stage, const struct tile *tile,
                                            struct mmul_error *err) {
    const int all = stage->epilogue.step->fused_count;
    const bool is_all = count_element_operations(stage, 0) == all;
    enum mmul_status status = MMUL_OK;
    for (int i = 0, count; status == MMUL_OK && i < all; i += count) {
        struct mmul_host_map maps[MMUL_FUSED_MAPS_MAX];
        struct mmul_host_tile to;
        count = (int)mmul_max(1, count_element_operations(stage, i));
        for (int k = 0; k < count; k++) {
            const struct mmul_program_fused *fused = get_fused(stage, i + k);
            const bool is_apart = overwrites_operand(stage, i + k);
            to = is_apart ? get_room_tile(stage, tile, stage->epilogue.step->tile_count)
                          : find_result(stage, tile, fused->result);
            maps[k] = find_map(stage, tile, fused, &to);
            maps[k].map.is_intermediate =
                is_all && !is_apart && stage->plan->places[fused->result].tile > 0;
        }
        status = count > 1
                     ? mmul_host_map_make_together(maps, count,
                                                   stage->rank_resources->context->device, err)
                     : mmul_host_map_make(&maps[0], stage->rank_resources->context->device, err);
        const int last = get_fused(stage, i + count - 1)->operation;
        if (status == MMUL_OK)
            mmul_stage_find_nan(stage, &stage->plan->program->operations[last], &maps[count - 1]);
        if (status == MMUL_OK && overwrites_operand(stage, i + count - 1))
            copy_result(&to, tile);
    }
    return status;
}

// ------------------------------------------------------------------------------------------ blocks

// Returns the number of rows in each tile of a block.
static int64_t tile_rows(const struct mmul_stage *stage, struct mmul_region block) {
    return stage->epilogue.elements / (block.col_end - block.col_begin);
}

static struct tile find_tile(const struct mmul_stage *stage, struct mmul_region block,
                             int64_t index) {
    const struct mmul_program_plan *plan = stage->plan;
    const int place = stage->epilogue.step->result;
    const int64_t each = tile_rows(stage, block), row = block.row_begin + index * each;
    struct tile tile = {.matrix = block.matrix,
                        .row = row,
                        .rows = mmul_min(each, block.row_end - row),
                        .col = block.col_begin,
                        .cols = block.col_end - block.col_begin,
                        .dtype = mmul_place_value(plan, place)->dtype};
    const struct mmul_host_tile result = find_result(stage, &tile, place);
    tile.at = (void *)(uintptr_t)result.at;
    tile.ld = result.ld;
    return tile;
}

// Tiles of a block that threads claim.
struct claims {
    struct mmul_stage *stage;
    struct mmul_region block;
    int64_t count;
    _Atomic int64_t next;
    _Atomic bool has_failed;
    struct mmul_error err; // error of the first failure
};

static void claim_tiles(void *context, int part) {
    struct claims *claims = context;
    struct mmul_stage *stage = claims->stage;
    int64_t index;
    while ((index = atomic_fetch_add(&claims->next, 1)) < claims->count &&
           !mmul_failure_is_void(&stage->rank_resources->failure)) {
        struct mmul_error err;
        struct tile tile = find_tile(stage, claims->block, index);
        tile.part = part;
        if (make_tile_on_thread(stage, &tile, &err) == MMUL_OK)
            continue;
        atomic_store(&claims->next, claims->count);
        if (!atomic_exchange(&claims->has_failed, true))
            claims->err = err;
    }
}

// Elements of a tile for which one thread is enough. No operation on so few is worth a second one
// (device/cpu_map_threads.c).
enum { ONE_THREAD_MOST = 1 << 14 };

// Returns true if each thread takes tiles of its own through all fused operations.
static bool uses_threads(const struct mmul_stage *stage, int64_t tiles) {
    const struct mmul_context *context = stage->rank_resources->context;
    const bool is_enough = tiles > 1 || stage->plan->ranks[stage->comm->rank].tile_threads == 1 ||
                           stage->epilogue.elements <= ONE_THREAD_MOST;
    return is_enough && mmul_device_is_trusted(context->device) &&
           mmul_device_can_borrow(context->device);
}

// Makes the tiles of a block, the last rows first. The first of them is tile *index of the rank,
// and *index advances.
static enum mmul_status make_block(struct mmul_stage *stage, struct mmul_region block,
                                   int64_t *index, struct mmul_error *err) {
    struct mmul_epilogue *epilogue = &stage->epilogue;
    const int64_t count = mmul_divide_up(block.row_end - block.row_begin, tile_rows(stage, block));
    enum mmul_status status = MMUL_OK;
    if (uses_threads(stage, count) && *index >= epilogue->done) {
        struct claims claims = {.stage = stage, .block = block, .count = count};
        const int threads = stage->plan->ranks[stage->comm->rank].tile_threads;
        mmul_helper_threads_run((int)mmul_min(threads, count), claim_tiles, &claims);
        *index += count;
        epilogue->done += atomic_load(&claims.has_failed) ? 0 : count;
        if (atomic_load(&claims.has_failed))
            *err = claims.err;
        return atomic_load(&claims.has_failed) ? err->status : MMUL_OK;
    }
    for (int64_t i = count - 1; status == MMUL_OK && i >= 0; i--) {
        if ((*index)++ < epilogue->done)
            continue;
        if (mmul_failure_is_void(&stage->rank_resources->failure))
            return MMUL_OK; // another failure has ended the run
        const struct tile tile = find_tile(stage, block, i);
        status = make_tile(stage, &tile, err);
        epilogue->done += status == MMUL_OK;
    }
    return status;
}

// Allocates the room's tiles, also after a hanging device has kept the earlier ones.
static enum mmul_status create_tiles(struct mmul_epilogue_buffers *room, struct mmul_error *err) {
    if (room->tiles == NULL && room->bytes > 0)
        room->tiles = mmul_allocate_raw((int64_t)room->bytes, 1, "fused operations", err);
    return room->tiles == NULL && room->bytes > 0 ? err->status : MMUL_OK;
}

enum mmul_status mmul_epilogue_apply(struct mmul_stage *stage, struct mmul_error *err) {
    struct mmul_region block;
    int64_t index = 0;
    if (stage->epilogue.step == NULL || stage->epilogue.elements == 0 || stage->epilogue.in_parts)
        return MMUL_OK;
    struct mmul_block_walk walk =
        mmul_step_blocks(stage->plan, &stage->epilogue.blocks, stage->comm->rank);
    enum mmul_status status = create_tiles(&stage->rank_resources->epilogue_buffers, err);
    while (status == MMUL_OK && mmul_program_next_fused_part(&walk, &block))
        if (mmul_region_count(block) > 0)
            status = make_block(stage, block, &index, err);
    return status;
}

// Returns the most tiles that one fused operation needs on a device besides the step's own result:
// the previous operation's result, its operands from other values, and its result.
static int64_t tiles_of_fused(const struct mmul_stage *stage) {
    const struct mmul_program *program = stage->plan->program;
    const struct mmul_program_step *step = stage->epilogue.step;
    int64_t most = 0;
    for (int i = 0; i < step->fused_count; i++) {
        const struct mmul_program_fused *fused = get_fused(stage, i);
        int64_t tiles = 1;
        for (int j = 0; j < program->operations[fused->operation].operand_count; j++)
            tiles += fused->operands[j] >= 0 &&
                     mmul_program_base_place(stage->plan, fused->operands[j]) != step->result;
        most = mmul_max(most, tiles);
    }
    return most;
}

int64_t mmul_epilogue_bytes_on_device(const struct mmul_stage *stage, int64_t rows, int64_t cols) {
    const struct mmul_epilogue *epilogue = &stage->epilogue;
    // A value with other readers is downloaded anyway.
    const bool is_alone = epilogue->step != NULL &&
                          epilogue->step->made != epilogue->step->result &&
                          stage->plan->places[epilogue->step->made].view_of >= 0;
    const bool takes = epilogue->in_parts && is_alone && rows * cols > MMUL_SAMPLE_WORK &&
                       epilogue->elements <= MMUL_SAMPLE_SPAN;
    return takes ? tiles_of_fused(stage) * epilogue->elements * (int64_t)sizeof(float) : 0;
}

enum mmul_status mmul_epilogue_apply_part(struct mmul_stage *stage, struct mmul_region part,
                                          struct mmul_error *err) {
    const struct mmul_epilogue *epilogue = &stage->epilogue;
    int64_t index = epilogue->done;
    if (!epilogue->in_parts || mmul_region_count(part) == 0)
        return MMUL_OK;
    if (epilogue->step->by_rows) {
        const int64_t before =
            part.matrix * mmul_place_value(stage->plan, epilogue->step->made)->shape.rows;
        part.row_begin += before;
        part.row_end += before;
        part.matrix = 0;
    }
    enum mmul_status status = create_tiles(&stage->rank_resources->epilogue_buffers, err);
    return status == MMUL_OK ? make_block(stage, part, &index, err) : status;
}

// -------------------------------------------------------------------------------------------- life

enum mmul_status mmul_epilogue_init(struct mmul_stage *stage, const struct mmul_program_step *step,
                                    struct mmul_error *err) {
    struct mmul_epilogue *epilogue = &stage->epilogue;
    if (step->fused_count == 0)
        return MMUL_OK;
    *epilogue = (struct mmul_epilogue){.step = step, .blocks = *step};
    epilogue->blocks.made = step->result;
    const struct mmul_fusion_size size =
        mmul_program_fusion_size(stage->plan, step, stage->comm->rank);
    // All values of an epilogue have this type (plan/program/program_fuse_operations.c).
    const enum mmul_dtype dtype = mmul_place_value(stage->plan, step->result)->dtype;
    epilogue->tile_bytes = MMUL_PLACE_ALIGN(size.tile * (int64_t)mmul_dtype_bytes(dtype));
    const int threads = stage->plan->ranks[stage->comm->rank].tile_threads;
    const size_t bytes = (size_t)(threads * size.tiles * epilogue->tile_bytes);
    struct mmul_epilogue_buffers *room = &stage->rank_resources->epilogue_buffers;
    epilogue->all = size.all;
    epilogue->elements = size.tile;
    epilogue->tiles = size.tiles;
    if (bytes > room->bytes) {
        mmul_epilogue_buffers_fini(room);
        room->bytes = bytes;
    }
    return size.tile > 0 ? create_tiles(room, err) : MMUL_OK;
}

void mmul_epilogue_buffers_fini(struct mmul_epilogue_buffers *room) {
    mmul_free(room->tiles);
    *room = (struct mmul_epilogue_buffers){0};
}

void mmul_epilogue_buffers_abandon(struct mmul_epilogue_buffers *room) {
    room->tiles = NULL;
}
