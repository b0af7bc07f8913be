// SPDX-License-Identifier: MIT
// Sizes of a product, files that are mapped, and the tracking of both during a run.
#include "exec/steps/product.h"

#include "base/memory.h"
#include "base/status.h"
#include "exec/steps/rank_resources.h"
#include "io/matrix_file.h"
#include "model/dtype.h"
#include "model/matrix.h"

static const struct mmul_operation *file_of(const struct mmul_program_plan *plan, int place) {
    return &plan->program->operations[plan->places[place].operation];
}

struct mmul_product_files mmul_program_step_files(const struct mmul_program_plan *plan,
                                                  const struct mmul_program_step *step) {
    enum { C_IN = MMUL_FACTORS };
    const struct mmul_operation *o = mmul_step_operation(plan, step);
    const bool reads_factors = !o->scale.is_given || o->scale.alpha != 0;
    struct mmul_product_files files = {.dtype = plan->program->values[o->result].dtype};
    if (reads_factors && mmul_place_is_file(plan, step->operands[0]))
        files.a = file_of(plan, step->operands[0])->matrix;
    if (reads_factors && mmul_place_is_file(plan, step->operands[1]))
        files.b = file_of(plan, step->operands[1])->matrix;
    if (mmul_place_is_file(plan, step->operands[C_IN])) {
        files.c_in = file_of(plan, step->operands[C_IN])->matrix;
        files.c_in_is_broadcast =
            !mmul_shape_equal(mmul_place_value(plan, step->operands[C_IN])->shape,
                              mmul_place_value(plan, step->result)->shape);
    }
    if (mmul_place_is_file(plan, step->result))
        files.output = file_of(plan, step->result)->output;
    return files;
}

// Returns the place, or -1 for a file of root's, which has no place on the ranks.
static int place_of(const struct mmul_program_plan *plan, int place) {
    return mmul_place_is_file(plan, place) ? -1 : place;
}

static struct mmul_stage_places find_places(const struct mmul_stage *stage) {
    const struct mmul_program_step *step = stage->is.step;
    const bool rows = step->schedule->axis == MMUL_ROWS;
    const int whole = place_of(stage->plan, step->operands[rows ? 1 : 0]);
    return (struct mmul_stage_places){.split = place_of(stage->plan, step->operands[rows ? 0 : 1]),
                                      .whole = step->relays_whole ? -1 : whole,
                                      .c = place_of(stage->plan, step->made),
                                      .spread = step->relays_whole ? whole : -1};
}

// Returns the parts that other nodes may compute (exec/tasks/node_steal.h).
static enum mmul_steal_scope find_steal_scope(const struct mmul_stage *stage) {
    if (!stage->may_steal || stage->comm->node_count == 1)
        return MMUL_STEAL_NOTHING;
    if (stage->schedule->may_steal)
        return stage->plan->steals_nothing ? MMUL_STEAL_NOTHING : MMUL_STEAL_VALUES;
    return stage->plan->step_count == 1 && stage->is.step->fused_count == 0 ? MMUL_STEAL_MAPPED
                                                                            : MMUL_STEAL_NOTHING;
}

// Returns true if each block goes through the fused operations as soon as it is checked. For this
// no other rank may claim the blocks, and no fused operation may need more of a row than one block
// has.
static bool fuses_by_block(const struct mmul_stage *stage) {
    const struct mmul_program_plan *plan = stage->plan;
    const struct mmul_program_step *step = stage->is.step;
    const struct mmul_schedule *schedule = stage->schedule;
    const enum mmul_placement_kind kind = plan->places[step->result].placement.kind;
    bool by_block = step->fused_count > 0 && !stage->claims &&
                    kind == (schedule->axis == MMUL_ROWS ? MMUL_PLACE_ROWS : MMUL_PLACE_COLS);
    for (int i = 0; i < step->fused_count; i++)
        by_block &= schedule->panel_units >= schedule->problem.c.cols ||
                    mmul_operation_row(mmul_step_fused_operation(plan, step, i)->kind)->class ==
                        MMUL_CLASS_ELEMENTS;
    return by_block;
}

enum mmul_status mmul_product_init(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_comm *comm = stage->comm;
    const struct mmul_schedule *schedule = stage->is.step->schedule;
    const struct mmul_stage_places *at = &stage->places;
    const bool rows = schedule->axis == MMUL_ROWS;
    enum mmul_status status = MMUL_ALLOCATE(stage->product, 1, "a product", err);
    if (status != MMUL_OK)
        return status;
    stage->schedule = schedule;
    stage->files = mmul_program_step_files(stage->plan, stage->is.step);
    stage->places = find_places(stage);
    *stage->product = (struct mmul_product_stage){
        .me = &mmul_schedule_ranks(schedule)[comm->rank],
        .result_bytes = schedule->total * mmul_problem_result_each(&schedule->problem) *
                        mmul_problem_result_width(&schedule->problem, schedule->axis),
        .spread_wait_count = at->spread >= 0 ? mmul_stage_producer(stage, at->spread) : 0};
    // Values do not change, but pieces, panels and slots are reused.
    stage->work.lasting = ((rows ? at->split : at->whole) >= 0 ? MMUL_LASTING_A : 0) |
                          ((rows ? at->whole : at->split) >= 0 ? MMUL_LASTING_B : 0) |
                          (at->c >= 0 ? MMUL_LASTING_C : 0);
    stage->work.a_dtype = schedule->problem.a_dtype;
    stage->work.b_dtype = schedule->problem.b_dtype;
    if (schedule->problem.alpha != 0)
        stage->work.tile = stage->product->me->tile;
    status = mmul_layout_init(&stage->product->layout, schedule, comm->node_index, err);
    stage->bytes = stage->product->layout.bytes;
    stage->axis = schedule->axis;
    stage->passes = stage->product->layout.passes;
    stage->lines_most = mmul_schedule_lines_most(schedule, comm->rank);
    stage->may_steal = schedule->claim_share > 0;
    stage->claims = mmul_schedule_nodes(schedule)[comm->node_index].claims;
    stage->steal_scope = find_steal_scope(stage);
    stage->has_unknown_speed = schedule->predicted_seconds <= 0 && schedule->problem.alpha != 0;
    stage->epilogue.in_parts = fuses_by_block(stage);
    return status;
}

// Returns the matrices of the product that are values, as enum mmul_maps.
static unsigned find_value_operands(const struct mmul_stage *stage) {
    const struct mmul_stage_places *places = &stage->places;
    enum mmul_axis axis = stage->schedule->axis;
    return (places->split >= 0 ? mmul_maps_split_operand(axis) : 0) |
           (places->whole >= 0 ? mmul_maps_whole_operand(axis) : 0) |
           (places->c >= 0 ? MMUL_MAPS_C : 0);
}

enum mmul_status mmul_product_map_files(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_comm *comm = stage->comm;
    unsigned *maps = NULL;
    bool rows = stage->schedule->axis == MMUL_ROWS;
    enum mmul_status status = MMUL_ALLOCATE(maps, stage->schedule->node_count, "nodes", err);
    status = mmul_comm_agree(comm, status, err);
    for (int i = 0; status == MMUL_OK && i < stage->schedule->node_count; i++)
        maps[i] = mmul_schedule_nodes(stage->schedule)[i].maps & ~find_value_operands(stage);
    if (status == MMUL_OK)
        status = mmul_mappings_open(stage->rank_resources->context, &stage->files, maps,
                                    &stage->product->views, err);
    mmul_free(maps);
    const struct mmul_mappings *v = &stage->product->views;
    stage->product->mapped = (struct mmul_mapped_matrices){.split = rows ? v->a.data : v->b.data,
                                                           .whole = rows ? v->b.data : v->a.data,
                                                           .c_in = v->c_in.data,
                                                           .c = v->c.data};
    stage->writes_back = v->writes_back && rows;
    stage->has_mapped_result = v->c.data != NULL;
    if (comm->node_rank == 0)
        stage->rank_resources->mine.mapped_bytes +=
            v->a.bytes + v->b.bytes + v->c_in.bytes + v->c.bytes;
    return status;
}

enum mmul_status mmul_product_check_files(const struct mmul_stage *stage, struct mmul_error *err) {
    return mmul_mappings_check(&stage->product->views, err);
}

enum mmul_status mmul_product_check_inputs(const struct mmul_stage *stage, struct mmul_error *err) {
    return mmul_mappings_check_unmodified(&stage->product->views, err);
}

void mmul_product_fini(struct mmul_stage *stage) {
    if (stage->product == NULL)
        return;
    // the driver of a lost device, or MPI, may still read them
    if (!stage->rank_resources->watchdog.has_abandoned && !mmul_comm_is_broken(stage->comm))
        mmul_mappings_close(&stage->product->views);
    mmul_layout_fini(&stage->product->layout);
    mmul_free(stage->product);
}

bool mmul_product_has_work(const struct mmul_stage *stage, int rank) {
    const struct mmul_schedule_rank *part = &mmul_schedule_ranks(stage->schedule)[rank];
    return part->end > part->begin;
}

// -------------------------------------------------------------------------------------- traffic

int mmul_product_list_needs(const struct mmul_stage *stage, struct mmul_pass pass,
                            struct mmul_need needs[static MMUL_NEEDS]) {
    const struct mmul_stage_progress *progress = stage->progress;
    const int64_t slots = stage->product->layout.node->result_slots;
    needs[0] = (struct mmul_need){&progress->rounds_loaded, pass.round + 1};
    needs[1] = (struct mmul_need){&progress->passes_loaded, pass.index + 1};
    needs[MMUL_NEEDS_SLOT] =
        (struct mmul_need){&progress->results_stored, slots > 0 ? pass.index - slots + 1 : 0};
    return MMUL_NEEDS;
}

struct mmul_transfers mmul_product_list_transfers(const struct mmul_stage *stage, int node,
                                                  enum mmul_route route) {
    return mmul_transfers_make(stage->schedule, node, route);
}

int mmul_product_source_wait_count(const struct mmul_stage *stage,
                                   const struct mmul_transfer *transfer) {
    return transfer->content == MMUL_CONTENT_PANEL ? stage->product->spread_wait_count : 0;
}

void *mmul_product_locate(const struct mmul_stage *stage, const struct mmul_transfer *transfer) {
    const struct mmul_layout *l = &stage->product->layout;
    if (transfer->slot < 0 || transfer->in_place)
        return NULL;
    switch (transfer->content) {
    case MMUL_CONTENT_PIECES:
        return stage->memory + mmul_layout_pieces(l, transfer->pass.round);
    case MMUL_CONTENT_C_IN:
        return stage->memory + mmul_layout_c_in(l, transfer->pass.round);
    case MMUL_CONTENT_PANEL:
        return stage->memory + mmul_layout_panel(l, transfer->pass.index) + transfer->offset;
    default:
        return stage->memory + mmul_layout_result(l, transfer->pass.index);
    }
}

void mmul_product_publish(const struct mmul_stage *stage, const int64_t *counters) {
    const struct mmul_product_arrivals here =
        mmul_product_arrivals(stage->schedule, stage->comm->node_index, counters);
    struct mmul_run_progress *run = stage->rank_resources->progress;
    struct mmul_stage_progress *progress = stage->progress;
    mmul_progress_raise(run, MMUL_TRAFFIC, &progress->rounds_loaded, here.rounds_loaded, 0);
    mmul_progress_raise(run, MMUL_TRAFFIC, &progress->passes_loaded, here.passes_loaded, 0);
    mmul_progress_raise(run, MMUL_TRAFFIC, &progress->results_stored, here.results_stored, 0);
}

// ------------------------------------------------------------------------------- cached buffers

void mmul_product_forget_buffers(struct mmul_stage *stage, struct mmul_pass pass) {
    const struct mmul_schedule_node *node = stage->product->layout.node;
    bool new_pieces = pass.round != stage->product->pieces_round;
    bool new_panel = node->whole_slots > 0 && !node->whole_stays;
    stage->product->pieces_round = pass.round;
    if (new_pieces || new_panel)
        mmul_worker_invalidate_operands(&stage->rank_resources->worker);
    if (node->checks_whole ? new_panel : new_pieces)
        mmul_verifier_invalidate(&stage->verifier);
}

void mmul_product_count_mapped_bytes(struct mmul_stage *stage) {
    if (!stage->has_mapped_result)
        return;
    int64_t bytes = 0, each = mmul_problem_result_each(&stage->schedule->problem);
    for (int i = 0; i < stage->comm->node_size; i++)
        bytes += each * atomic_load(&stage->progress->ranks[i].elements_done);
    if (bytes > stage->product->mapped_bytes)
        stage->product->done_bytes += bytes - stage->product->mapped_bytes;
    stage->product->mapped_bytes = bytes;
}
