// SPDX-License-Identifier: MIT
// Pieces of values: their source, their destination, and the part of a move that stays on the node.
#include "exec/traffic/move.h"

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/steps/map_blocks.h"
#include "exec/steps/rank_resources.h"
#include "exec/steps/sums.h"
#include "model/dtype.h"
#include "model/matrix.h"

struct mmul_move_set mmul_stage_moving(const struct mmul_stage *stage) {
    if (stage->is.kind != &mmul_move_kind)
        return (struct mmul_move_set){.count = 0};
    return (struct mmul_move_set){.plan = stage->plan,
                                  .steps = {stage->is.step, stage->is.also},
                                  .count = stage->is.also != NULL ? 2 : 1,
                                  .panels = stage->is.panels};
}

static struct mmul_move move_of(const struct mmul_stage *stage, int index) {
    const struct mmul_move_set moving = mmul_stage_moving(stage);
    return mmul_program_step_move(moving.plan, moving.steps[index]);
}

static bool is_of_file(const struct mmul_move *move) {
    return move->from.kind == MMUL_PLACE_FILE || move->to.kind == MMUL_PLACE_FILE;
}

bool mmul_move_is_load(const struct mmul_stage *stage) {
    return move_of(stage, 0).from.kind == MMUL_PLACE_FILE &&
           (stage->is.also == NULL || move_of(stage, 1).from.kind == MMUL_PLACE_FILE);
}

// ------------------------------------------------------------------------------------------ files

// Reads a region of a value from files on root, in C order, in the value's type. For slices of a
// file and rows that are looked up, it reads only the elements that are needed. Fails as
// mmul_matrix_read_float, and with MMUL_ERR_DATA (an index that is not in its table).
static enum mmul_status read_region(const struct mmul_program *program, int value,
                                    struct mmul_region region, void *to, struct mmul_error *err);

static enum mmul_status read_slice(const struct mmul_program *program,
                                   const struct mmul_operation *slice, struct mmul_region region,
                                   void *to, struct mmul_error *err) {
    const struct mmul_shape have = program->values[slice->operands[0]].shape,
                            made = program->values[slice->result].shape;
    const int64_t *begin = slice->with.begin;
    const int64_t batch = region.matrix / made.depth + begin[0],
                  depth = region.matrix % made.depth + begin[1];
    const struct mmul_region from = {batch * have.depth + depth, region.row_begin + begin[2],
                                     region.row_end + begin[2], region.col_begin + begin[3],
                                     region.col_end + begin[3]};
    return read_region(program, slice->operands[0], from, to, err);
}

// Looks up rows of one matrix of the result, by the elements of one row of indices. Consecutive
// rows of the table are read at once.
static enum mmul_status read_looked_up_rows(const struct mmul_program *program,
                                            const struct mmul_operation *take,
                                            struct mmul_region region, void *to,
                                            struct mmul_error *err) {
    enum { MOST = 256 };
    const struct mmul_value *table = &program->values[take->operands[0]];
    const struct mmul_shape ids = program->values[take->operands[1]].shape;
    const int64_t cols = region.col_end - region.col_begin, row = region.matrix % ids.rows;
    const int64_t row_bytes = cols * (int64_t)mmul_dtype_bytes(table->dtype);
    double at[MOST]; // room for either type
    const enum mmul_dtype ids_dtype = program->values[take->operands[1]].dtype;
    char *next = to;
    enum mmul_status status = MMUL_OK;
    for (int64_t i = region.row_begin, end; status == MMUL_OK && i < region.row_end; i = end) {
        end = mmul_min(i + MOST, region.row_end);
        const struct mmul_region wanted = {region.matrix / ids.rows, row, row + 1, i, end};
        status = read_region(program, take->operands[1], wanted, at, err);
        if (status == MMUL_OK)
            status = mmul_map_check_row_indices(at, ids_dtype, 1, end - i, table, err);
        for (int64_t j = 0, n = 1; status == MMUL_OK && j < end - i; j += n) {
            const int64_t first = (int64_t)mmul_dtype_get_real(ids_dtype, at, j);
            for (n = 1; j + n < end - i &&
                        mmul_dtype_get_real(ids_dtype, at, j + n) == (double)(first + n);)
                n++;
            const struct mmul_region rows = {0, first, first + n, region.col_begin, region.col_end};
            status = read_region(program, take->operands[0], rows, next, err);
            next += n * row_bytes;
        }
    }
    return status;
}

static enum mmul_status read_region(const struct mmul_program *program, int value,
                                    struct mmul_region region, void *to, struct mmul_error *err) {
    const struct mmul_operation *maker = program->operations;
    while (maker->result != value)
        maker++;
    switch (maker->kind) {
    case MMUL_SLICE:
        return read_slice(program, maker, region, to, err);
    case MMUL_TAKE:
        return read_looked_up_rows(program, maker, region, to, err);
    default:
        return program->values[value].dtype == MMUL_F64
                   ? mmul_matrix_read_double(maker->matrix, region, 0, mmul_region_count(region),
                                             to, err)
                   : mmul_matrix_read_float(maker->matrix, region, 0, mmul_region_count(region), to,
                                            err);
    }
}

// ----------------------------------------------------------------------------------------- pieces

static const struct mmul_program_step *step_of(const struct mmul_stage *stage,
                                               const struct mmul_transfer *transfer) {
    return transfer->move == 0 ? stage->is.step : stage->is.also;
}

// Returns the region of a piece in the columns of the holder's view.
static struct mmul_region stored_region(const struct mmul_program_plan *plan, int place, int rank,
                                        struct mmul_region region) {
    return mmul_placement_stored(&plan->places[place].placement, rank, region);
}

enum mmul_status mmul_piece_read(struct mmul_stage *stage, const struct mmul_transfer *transfer,
                                 void *to, struct mmul_error *err) {
    const struct mmul_values *v = stage->rank_resources->values;
    const struct mmul_program_costs *costs = &v->plan->costs;
    const struct mmul_move_piece *piece = &transfer->piece;
    const int place = step_of(stage, transfer)->operands[0];
    bool found = false;
    if (mmul_place_is_file(stage->plan, place))
        return read_region(v->plan->program, v->plan->places[place].value, piece->region, to, err);
    for (int rank = 0; rank < costs->size && (!found || piece->is_sum); rank++) {
        bool is_holder = piece->from_rank < 0 || piece->from_rank == rank;
        if (costs->rank_node[rank] != v->node || !is_holder)
            continue;
        struct mmul_view view = mmul_values_view(v, place, rank, piece->region.matrix);
        if (view.at == NULL) // this rank has no summand
            continue;
        mmul_view_read(&view, stored_region(stage->plan, place, rank, piece->region), found, to);
        found = true;
    }
    return MMUL_OK;
}

enum mmul_status mmul_piece_write(struct mmul_stage *stage, const struct mmul_transfer *transfer,
                                  bool add, const void *from, struct mmul_error *err) {
    const struct mmul_values *v = stage->rank_resources->values;
    const struct mmul_program_step *step = step_of(stage, transfer);
    const struct mmul_move_piece *piece = &transfer->piece;
    const int rank = piece->to_rank < 0 ? v->rank : piece->to_rank;
    if (mmul_place_is_file(stage->plan, step->result)) {
        const int maker = v->plan->places[step->result].operation;
        struct mmul_output *output = v->plan->program->operations[maker].output;
        const int64_t count = mmul_region_count(piece->region);
        return mmul_place_value(stage->plan, step->operands[0])->dtype == MMUL_F64
                   ? mmul_output_write_double(output, piece->region, 0, count, from, err)
                   : mmul_output_write_float(output, piece->region, 0, count, from, err);
    }
    struct mmul_view view = mmul_values_view(v, step->result, rank, piece->region.matrix);
    mmul_view_write(&view, stored_region(stage->plan, step->result, rank, piece->region), add,
                    from);
    return MMUL_OK;
}

void *mmul_piece_contiguous(const struct mmul_stage *stage, const struct mmul_transfer *transfer) {
    const struct mmul_values *v = stage->rank_resources->values;
    const struct mmul_program_step *step = step_of(stage, transfer);
    const struct mmul_move_piece *piece = &transfer->piece;
    const bool receives = transfer->route == MMUL_ROUTE_RECEIVE;
    const int place = receives ? step->result : step->operands[0],
              rank = receives ? piece->to_rank : piece->from_rank;
    if (transfer->route == MMUL_ROUTE_COPY || piece->is_sum ||
        mmul_place_is_file(stage->plan, place))
        return NULL;
    struct mmul_view view =
        mmul_values_view(v, place, rank < 0 ? v->rank : rank, piece->region.matrix);
    return mmul_view_contiguous(&view, stored_region(stage->plan, place, rank, piece->region));
}

// ------------------------------------------------------------------------------- within the node

// Returns true if this rank copies the piece: its source or its destination, else the leader.
static bool is_copied_here(const struct mmul_values *v, const struct mmul_move_piece *piece) {
    int rank = piece->from_rank >= 0 ? piece->from_rank : piece->to_rank;
    return rank >= 0 ? rank == v->rank : v->node_rank == 0;
}

static enum mmul_status copy_within_node(struct mmul_stage *stage, int index, char *staging,
                                         struct mmul_error *err) {
    const struct mmul_values *v = stage->rank_resources->values;
    const struct mmul_move move = move_of(stage, index);
    struct mmul_transfer piece = {.route = MMUL_ROUTE_COPY, .move = index};
    const enum mmul_dtype dtype =
        mmul_place_value(stage->plan, step_of(stage, &piece)->operands[0])->dtype;
    struct mmul_move_walk walk =
        mmul_move_walk(&move, v->node, v->node, MMUL_PART_BYTES / (int64_t)mmul_dtype_bytes(dtype));
    enum mmul_status status = MMUL_OK;
    while (status == MMUL_OK && !is_of_file(&move) && mmul_move_next(&walk, &piece.piece)) {
        if (!is_copied_here(v, &piece.piece) ||
            mmul_failure_is_void(&stage->rank_resources->failure))
            continue;
        status = mmul_piece_read(stage, &piece, staging, err);
        // The node's own summand is stored first; the others are added after all ranks have done
        // this.
        if (status == MMUL_OK)
            status = mmul_piece_write(stage, &piece, false, staging, err);
    }
    return status;
}

// ------------------------------------------------------------------------------------ the stage

static enum mmul_status init(struct mmul_stage *stage, struct mmul_error *err) {
    (void)err;
    bool is_all_here = stage->plan->costs.node_count == 1;
    for (int i = 0; i < mmul_stage_moving(stage).count; i++) {
        const struct mmul_move move = move_of(stage, i);
        is_all_here = is_all_here && !is_of_file(&move);
    }
    stage->is_carried = !is_all_here;
    return MMUL_OK;
}

int64_t mmul_move_buffer_bytes(const struct mmul_stage *stage) {
    int64_t most = 1;
    for (int i = 0; i < mmul_stage_moving(stage).count; i++) {
        const struct mmul_transfer piece = {.move = i};
        int64_t count = 0;
        mmul_shape_count(mmul_place_value(stage->plan, step_of(stage, &piece)->operands[0])->shape,
                         &count);
        most = mmul_max(most, count * (int64_t)mmul_dtype_bytes(MMUL_F64));
    }
    return mmul_min(most, MMUL_PART_BYTES);
}

static struct mmul_transfers list_transfers(const struct mmul_stage *stage, int node,
                                            enum mmul_route route) {
    const struct mmul_move_set moving = mmul_stage_moving(stage);
    return mmul_transfers_of_moves(&moving, node, route);
}

// Pieces of values leave when all ranks here have done their part.
static int source_wait_count(const struct mmul_stage *stage, const struct mmul_transfer *transfer) {
    (void)transfer;
    return mmul_move_is_load(stage) ? 0 : stage->index + 1;
}

// Copies the pieces of this rank that stay on the node, after all ranks of the node have made them.
// Summands from other nodes travel once this node's are summed for the check.
static enum mmul_status compute(struct mmul_stage *stage, struct mmul_error *err) {
    char *staging = NULL;
    enum mmul_status status =
        MMUL_ALLOCATE_RAW(staging, mmul_move_buffer_bytes(stage), "moves", err);
    for (int i = 0; status == MMUL_OK && i < mmul_stage_moving(stage).count; i++)
        status = copy_within_node(stage, i, staging, err);
    mmul_free(staging);
    if (status == MMUL_OK && stage->sums.rounds > 0)
        mmul_move_sums_contribute(stage);
    return status;
}

static enum mmul_status receive(struct mmul_stage *stage, struct mmul_error *err) {
    return stage->sums.rounds > 0 ? mmul_move_sums_check(stage, err) : MMUL_OK;
}

static bool has_come(const struct mmul_stage *stage, mmul_reach *reach, void *context) {
    return stage->is_carried
               ? reach(context, MMUL_TRAFFIC, &stage->progress->has_arrived, stage->is.panels)
               : mmul_stage_is_done(stage, reach, context);
}

static bool is_over(const struct mmul_stage *stage, mmul_reach *reach, void *context) {
    return has_come(stage, reach, context) &&
           reach(context, MMUL_TRAFFIC, &stage->progress->sums_finished, stage->sums.rounds) &&
           (stage->sums.rounds == 0 || mmul_move_sums_are_checked(stage, reach, context));
}

const struct mmul_stage_kind mmul_move_kind = {.copies = true,
                                               .init = init,
                                               .list_transfers = list_transfers,
                                               .source_wait_count = source_wait_count,
                                               .locate = mmul_piece_contiguous,
                                               .compute = compute,
                                               .is_over = is_over,
                                               .has_come = has_come,
                                               .receive = receive};
