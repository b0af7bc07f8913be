// SPDX-License-Identifier: MIT
// Walks the rank's part, or a piece of it, in tiles of rows; each fused operation is one
// map, checked like any other. What a tile was before its fused operations stands until it has gone through all of
// them, so that a device may fail in the middle; where the device alone has that, all is made again. The last rows go
// first: those of a product that were made last, and what is left of it on a device is rows that follow each other, its
// first ones.
#include "exec/steps/epilogue.h"

#include "base/integer.h"
#include "base/memory.h"
#include "base/rows.h"
#include "base/status.h"
#include "exec/setup/pipeline.h"
#include "exec/steps/map_check.h"
#include "exec/steps/maps.h"
#include "exec/steps/site.h"
#include "model/dtype.h"
#include "model/matrix.h"
#include "plan/program/program_footprint.h"

static const struct mmul_program_plan *plan_of(const struct mmul_stage *stage) {
    return stage->site->values->plan;
}

static int rank_of(const struct mmul_stage *stage) {
    return stage->site->context->comm->rank;
}

static const struct mmul_program_fused *fused_of(const struct mmul_stage *stage, int i) {
    return &plan_of(stage)->fused[stage->epilogue.step->first_fused + i];
}

bool mmul_epilogue_is_all(const struct mmul_stage *stage) {
    return stage->epilogue.step != NULL && fused_of(stage, 0)->before < 0;
}

// Of all its values (plan/program/program_fuse.c).
static enum mmul_dtype dtype_of(const struct mmul_stage *stage) {
    const struct mmul_program_plan *plan = plan_of(stage);
    return plan->program->values[plan->places[stage->epilogue.step->result].value].dtype;
}

static struct mmul_block_walk walk_of(const struct mmul_stage *stage) {
    return mmul_step_blocks(plan_of(stage), &stage->epilogue.blocks, rank_of(stage));
}

// -------------------------------------------------------------------------------------------- tiles

// Rows [row, row + rows) of a block; of many matrices: as if they were one.
struct tile {
    int64_t matrix, row, rows, col, cols;
    void *at;
    enum mmul_dtype dtype;
    int64_t ld;
};

// Where a part of a value begins, whose rows are those of the tile.
static struct mmul_host_operand rows_of(const struct mmul_stage *stage, int place,
                                        const struct tile *tile, bool is_spread) {
    const struct mmul_program_plan *plan = plan_of(stage);
    const struct mmul_shape s = plan->program->values[plan->places[place].value].shape;
    const bool is_vector = mmul_shape_matrices(s) == 1 && s.rows == 1;
    const int64_t row = is_vector ? 0 : tile->row, col = is_spread && s.cols > 1 ? tile->col : 0;
    const struct mmul_view view =
        mmul_values_view(stage->site->values, place, rank_of(stage), row / s.rows);
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

// The part of an operand that a tile of one matrix depends on.
static struct mmul_host_operand part_of(const struct mmul_stage *stage, int place,
                                        const struct tile *tile, struct mmul_shape result,
                                        bool is_elements, bool is_first) {
    const struct mmul_program_plan *plan = plan_of(stage);
    const struct mmul_shape s = plan->program->values[plan->places[place].value].shape;
    const int64_t batch = s.batch == 1 ? 0 : tile->matrix / result.depth;
    const int64_t depth = s.depth == 1 ? 0 : tile->matrix % result.depth;
    const struct mmul_view view =
        mmul_values_view(stage->site->values, place, rank_of(stage), batch * s.depth + depth);
    return mmul_maps_part(&view, tile->row, is_elements || is_first ? tile->rows : 1,
                          is_elements ? tile->col : 0, is_elements ? tile->cols : s.cols);
}

// One operation on it, from `before`, to `to`.
struct making {
    const struct mmul_program_fused *fused;
    const void *before;
    void *to;
    int64_t before_ld, to_ld;
    bool may_leave; // the next one reads it alone
};

static enum mmul_status make_link(struct mmul_stage *stage, const struct tile *tile,
                                  const struct making *m, struct mmul_error *err) {
    const struct mmul_program *program = plan_of(stage)->program;
    const struct mmul_operation *o = &program->operations[m->fused->operation];
    const struct mmul_shape shape = program->values[o->result].shape;
    const bool by_rows = stage->epilogue.step->by_rows,
               is_elements = mmul_operation_row(o->kind)->class == MMUL_CLASS_ELEMENTS;
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
                .parallel = {stage->site->context->fallback_threads, mmul_pipeline_share}},
        .result = m->to,
        .dtype = tile->dtype,
        .ld = m->to_ld,
        .may_leave = m->may_leave};
    if (by_rows)
        host.map.shape =
            (struct mmul_shape){1, 1, mmul_shape_matrices(shape) * shape.rows, shape.cols};
    for (int i = 0; i < o->operand_count; i++) {
        const int place = m->fused->operands[i];
        if (i == m->fused->before)
            host.operands[i] = (struct mmul_host_operand){.at = m->before,
                                                          .dtype = tile->dtype,
                                                          .row_step = m->before_ld,
                                                          .col_step = 1,
                                                          .rows = tile->rows,
                                                          .cols = tile->cols};
        else if (place < 0)
            host.operands[i] =
                mmul_maps_number(&o->with.numbers[i], tile->dtype, tile->rows, tile->cols);
        else if (by_rows)
            host.operands[i] = rows_of(stage, place, tile, is_elements);
        else
            host.operands[i] = part_of(stage, place, tile, shape, is_elements, i == 0);
    }
    char place[192];
    snprintf(place, sizeof place, "rows %lld-%lld of matrix %lld of '%.90s'", (long long)tile->row,
             (long long)(tile->row + tile->rows), (long long)tile->matrix,
             program->values[o->result].name);
    return mmul_stage_map(stage, &host, place, err);
}

static void forget(struct mmul_stage *stage, const void *begin, size_t bytes) {
    mmul_worker_forget_memory(&stage->site->worker, begin, (const char *)begin + bytes);
}

// All fused operations. A single one that reads its own result has that put beside first.
static enum mmul_status make_tile(struct mmul_stage *stage, const struct tile *tile,
                                  struct mmul_error *err) {
    const struct mmul_epilogue_room *room = &stage->site->epilogue_room;
    const int count = stage->epilogue.step->fused_count;
    const bool is_all = mmul_epilogue_is_all(stage), is_apart = count == 1 && !is_all;
    const int64_t each = (int64_t)mmul_dtype_bytes(tile->dtype),
                  span = ((tile->rows - 1) * tile->ld + tile->cols) * each;
    const struct mmul_host_tile result = {tile->at, tile->rows, tile->cols, tile->ld, tile->dtype};
    // What is lost then is made again with the product, which is nowhere else.
    const bool is_absent = mmul_worker_is_absent(&stage->site->worker, &result);
    struct making m = {.before = is_all ? NULL : tile->at, .before_ld = tile->ld};
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < count; i++) {
        const bool is_last = i == count - 1 && !is_apart;
        m.fused = fused_of(stage, i);
        m.to = is_last ? tile->at : room->between[i % 2];
        m.to_ld = is_last ? tile->ld : tile->cols;
        m.may_leave = is_absent && i < count - 1;
        forget(stage, m.to, is_last ? (size_t)span : room->bytes); // what a device has of that
        status = make_link(stage, tile, &m, err);
        const struct mmul_host_tile before = {m.before, tile->rows, tile->cols, m.before_ld,
                                              tile->dtype};
        if (status == MMUL_OK && is_absent)
            mmul_worker_release(&stage->site->worker, &before);
        m.before = m.to;
        m.before_ld = m.to_ld;
    }
    if (status == MMUL_OK && is_apart) {
        forget(stage, tile->at, (size_t)span);
        mmul_copy_rows(m.before, tile->cols * each, tile->at, tile->ld * each, tile->rows,
                       tile->cols * each);
        const struct mmul_host_tile apart = {m.before, tile->rows, tile->cols, tile->cols,
                                             tile->dtype};
        mmul_tile_cache_move(&stage->site->worker.kept, &apart, &result);
    }
    for (int i = 0; i < 2; i++)
        forget(stage, room->between[i], room->bytes);
    return status;
}

// ------------------------------------------------------------------------------------------- blocks

// Tiles of a block, the last rows first, of which the first tile is the index-th of the rank's; *index goes on.
static enum mmul_status make_block(struct mmul_stage *stage, struct mmul_region block,
                                   int64_t *index, struct mmul_error *err) {
    struct mmul_epilogue *epilogue = &stage->epilogue;
    const int place = epilogue->step->result;
    const int64_t matrix_rows =
        plan_of(stage)->program->values[plan_of(stage)->places[place].value].shape.rows;
    const int64_t cols = block.col_end - block.col_begin, each = epilogue->elements / cols;
    enum mmul_status status = MMUL_OK;
    for (int64_t i = mmul_divide_up(block.row_end - block.row_begin, each) - 1;
         status == MMUL_OK && i >= 0; i--) {
        const int64_t row = block.row_begin + i * each;
        if ((*index)++ < epilogue->done)
            continue;
        if (mmul_failure_is_void(&stage->site->failure))
            return MMUL_OK; // another failure has ended the run
        const bool by_rows = epilogue->step->by_rows;
        const int64_t matrix = by_rows ? row / matrix_rows : block.matrix;
        struct mmul_view view =
            mmul_values_view(stage->site->values, place, rank_of(stage), matrix);
        const struct tile tile = {
            .matrix = block.matrix,
            .row = row,
            .rows = mmul_smaller(each, block.row_end - row),
            .col = block.col_begin,
            .cols = cols,
            .at = mmul_view_element(&view, by_rows ? row % matrix_rows : row, block.col_begin),
            .dtype = view.dtype,
            .ld = view.ld};
        status = make_tile(stage, &tile, err);
        epilogue->done += status == MMUL_OK;
    }
    return status;
}

// A hanging device has taken what was there before.
static enum mmul_status create_between(struct mmul_epilogue_room *room, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < 2; i++) {
        if (room->between[i] == NULL)
            room->between[i] = mmul_allocate_raw((int64_t)room->bytes, 1, "fused operations", err);
        status = room->between[i] == NULL ? err->status : MMUL_OK;
    }
    return status;
}

enum mmul_status mmul_epilogue_make(struct mmul_stage *stage, struct mmul_error *err) {
    struct mmul_region block;
    int64_t index = 0;
    if (stage->epilogue.step == NULL || stage->epilogue.elements == 0 || stage->epilogue.in_parts)
        return MMUL_OK;
    struct mmul_block_walk walk = walk_of(stage);
    enum mmul_status status = create_between(&stage->site->epilogue_room, err);
    while (status == MMUL_OK && mmul_program_next_fused(&walk, &block))
        if (mmul_region_count(block) > 0)
            status = make_block(stage, block, &index, err);
    return status;
}

// Tiles that a fused operation has on a device at most beside what it begins with: what was before it, what it reads of
// other values, what it makes.
static int64_t tiles_of_fused(const struct mmul_stage *stage) {
    const struct mmul_program *program = plan_of(stage)->program;
    int64_t most = 0;
    for (int i = 0; i < stage->epilogue.step->fused_count; i++) {
        const struct mmul_program_fused *fused = fused_of(stage, i);
        int64_t tiles = 1 + (i > 0);
        for (int j = 0; j < program->operations[fused->operation].operand_count; j++)
            tiles += j != fused->before && fused->operands[j] >= 0;
        most = mmul_larger(most, tiles);
    }
    return most;
}

int64_t mmul_epilogue_takes(const struct mmul_stage *stage, int64_t rows, int64_t cols) {
    const struct mmul_epilogue *epilogue = &stage->epilogue;
    const bool takes = epilogue->in_parts && rows * cols > MMUL_SAMPLE_WORK &&
                       epilogue->elements <= MMUL_ABSENT_SPAN;
    return takes ? tiles_of_fused(stage) * epilogue->elements * (int64_t)sizeof(float) : 0;
}

enum mmul_status mmul_epilogue_make_part(struct mmul_stage *stage, struct mmul_region part,
                                         struct mmul_error *err) {
    const struct mmul_epilogue *epilogue = &stage->epilogue;
    int64_t index = epilogue->done;
    if (!epilogue->in_parts || mmul_region_count(part) == 0)
        return MMUL_OK;
    if (epilogue->step->by_rows) {
        const struct mmul_program_plan *plan = plan_of(stage);
        const int value = plan->places[epilogue->step->made].value;
        const int64_t before = part.matrix * plan->program->values[value].shape.rows;
        part.row_begin += before;
        part.row_end += before;
        part.matrix = 0;
    }
    enum mmul_status status = create_between(&stage->site->epilogue_room, err);
    return status == MMUL_OK ? make_block(stage, part, &index, err) : status;
}

// --------------------------------------------------------------------------------------------- life

// Does a product that has no schedule make all of the rank's part at once?
static bool comes_at_once(const struct mmul_stage *stage) {
    const struct mmul_operation *o =
        &plan_of(stage)->program->operations[stage->epilogue.step->operation];
    struct mmul_block_walk walk = mmul_step_blocks(plan_of(stage), stage->is.step, rank_of(stage));
    struct mmul_block block;
    while (mmul_blocks_next(&walk, &block))
        if (mmul_region_count(block.at) > 0)
            return o->kind == MMUL_MATMUL && stage->sums.rounds == 0 && stage->is.panels == 0 &&
                   stage->is.step->claim_share == 0 &&
                   mmul_region_count(block.at) == stage->epilogue.all;
    return false;
}

// Of a product whose blocks this rank alone computes: are there fused operations that need more of a row than comes at
// once?
static bool goes_in_parts(const struct mmul_stage *stage) {
    const struct mmul_program_plan *plan = plan_of(stage);
    const struct mmul_schedule *product = stage->is.schedule;
    if (product == NULL)
        return comes_at_once(stage);
    if (mmul_schedule_nodes(product)[stage->site->context->comm->node_index].claims)
        return false;
    const enum mmul_placement_kind kind = plan->places[stage->epilogue.step->result].placement.kind;
    bool in_parts = kind == (product->axis == MMUL_ROWS ? MMUL_PLACE_ROWS : MMUL_PLACE_COLS);
    for (int i = 0; i < stage->epilogue.step->fused_count; i++) {
        const int operation = fused_of(stage, i)->operation;
        in_parts &= product->panel_units >= product->problem.c.cols ||
                    mmul_operation_row(plan->program->operations[operation].kind)->class ==
                        MMUL_CLASS_ELEMENTS;
    }
    return in_parts;
}

static enum mmul_status reserve(struct mmul_epilogue_room *room, size_t bytes,
                                struct mmul_error *err) {
    if (bytes > room->bytes) {
        mmul_epilogue_room_fini(room);
        room->bytes = bytes;
    }
    return create_between(room, err);
}

enum mmul_status mmul_epilogue_init(struct mmul_stage *stage, const struct mmul_program_step *step,
                                    struct mmul_error *err) {
    struct mmul_epilogue *epilogue = &stage->epilogue;
    if (step->fused_count == 0)
        return MMUL_OK;
    *epilogue = (struct mmul_epilogue){.step = step, .blocks = *step};
    epilogue->blocks.made = step->result;
    const struct mmul_epilogue_size size =
        mmul_program_epilogue_size(plan_of(stage), step, rank_of(stage));
    const int64_t each = (int64_t)mmul_dtype_bytes(dtype_of(stage));
    epilogue->all = size.all;
    epilogue->elements = size.tile;
    epilogue->in_parts = goes_in_parts(stage);
    return epilogue->elements > 0
               ? reserve(&stage->site->epilogue_room, (size_t)(epilogue->elements * each), err)
               : MMUL_OK;
}

void mmul_epilogue_room_fini(struct mmul_epilogue_room *room) {
    for (int i = 0; i < 2; i++)
        mmul_free(room->between[i]);
    *room = (struct mmul_epilogue_room){0};
}

void mmul_epilogue_abandon(struct mmul_epilogue_room *room) {
    room->between[0] = room->between[1] = NULL;
}
