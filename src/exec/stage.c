// SPDX-License-Identifier: MIT
// Sizes and opens what a stage has for itself. Nothing moves here, and nothing is computed.
#include "exec/stage.h"

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/blocks.h"
#include "exec/compute.h"
#include "exec/pipeline.h"
#include "exec/run.h"
#include "io/matrix_file.h"

enum mmul_status mmul_stage_create_verifier(struct mmul_stage *stage,
                                            const struct mmul_check_need *need, uint64_t seed,
                                            struct mmul_error *err) {
    const struct mmul_verifier_request request = {
        .axis = need->axis,
        .piece_units_max = need->piece_units,
        .panel_units_max = need->panel_units,
        .k_max = need->k,
        .piece_count = 1,
        .saved_count = need->saved,
        .seed = seed,
        .watch = {mmul_stage_look, stage},
        .parallel = {stage->run->context->fallback_threads, mmul_pipeline_share}};
    return mmul_verifier_init(&stage->verifier, &stage->run->verifier_room, &request, err);
}

// Has a value, which is -1 where a file is read, more products that read it?
static bool is_read_again(const struct mmul_stage *stage, int place) {
    return place >= 0 && mmul_program_is_read_again(stage->run->values->plan, place);
}

static enum mmul_status create_verifier(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_stage_places *places = &stage->is.places;
    const struct mmul_values *values = stage->run->values;
    const struct mmul_check_need need = mmul_plan_check_need(
        stage->plan, stage->run->context->comm->rank, is_read_again(stage, places->whole),
        is_read_again(stage, places->split), values != NULL ? values->plan->read_again_count : 0);
    return mmul_stage_create_verifier(stage, &need, stage->plan->verify_seed, err);
}

static void borrow_files(struct mmul_stage *stage) {
    const struct mmul_matmul *args = stage->args;
    bool rows = stage->plan->axis == MMUL_ROWS;
    stage->files = (struct mmul_files){.plan = stage->plan,
                                       .split = rows ? args->a : args->b,
                                       .whole = rows ? args->b : args->a,
                                       .c_in = args->c_in,
                                       .output = args->output,
                                       .values = stage->run->values,
                                       .spread = stage->is.places.spread,
                                       .progress = args->progress,
                                       .progress_context = args->progress_context};
    stage->files.result_bytes = stage->plan->total *
                                mmul_problem_result_each(&stage->plan->problem) *
                                mmul_problem_result_width(&stage->plan->problem, stage->plan->axis);
}

static enum mmul_status init_product(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_comm *comm = stage->run->context->comm;
    const struct mmul_plan *plan = stage->plan;
    stage->me = &mmul_plan_ranks(plan)[comm->rank];
    if (plan->problem.alpha != 0)
        stage->tile = stage->me->tile;
    borrow_files(stage);
    enum mmul_status status = mmul_layout_init(&stage->layout, plan, comm->node_index, err);
    stage->lines_most = mmul_plan_lines_most(plan, comm->rank);
    if (status != MMUL_OK || stage->run->args->no_verify || stage->lines_most == 0)
        return status;
    return create_verifier(stage, err);
}

// The stage that makes a place, or what it shows; -1: none, it was there before.
static int find_maker(const struct mmul_stage *stage, int place) {
    int base = mmul_program_base(stage->run->values->plan, place), maker = stage->index - 1;
    while (maker >= 0 && mmul_stage_result(&stage->run->stages[maker]) != base)
        maker--;
    return maker;
}

// Stages that all ranks of the node must have done before a place is read; 0: its part is the rank's own.
static int find_need(const struct mmul_stage *stage, int place) {
    if (place < 0) // a file: of `mul` there are no values
        return 0;
    const struct mmul_program_plan *plan = stage->run->values->plan;
    const int base = mmul_program_base(plan, place);
    const bool is_shared = plan->places[base].placement.kind == MMUL_PLACE_REPLICATE;
    return is_shared ? find_maker(stage, place) + 1 : 0;
}

// Ranks of a node make what is whole on it together, and a move reads what all of them have.
static int find_needs(const struct mmul_stage *stage) {
    const struct mmul_stage_places *at = &stage->is.places;
    const struct mmul_program_step *step = stage->is.step;
    const int product[MMUL_OPERANDS] = {at->split, at->whole, -1, -1},
              *read = step != NULL ? step->operands : product;
    const struct mmul_program_step *group = stage->is.group;
    int needs = stage->is.kind == MMUL_STAGE_MOVE ? stage->index : 0;
    for (int i = 0; i < MMUL_OPERANDS; i++)
        needs = mmul_larger(needs, find_need(stage, read[i]));
    for (int i = MMUL_OPERANDS; group != NULL && i < (1 + group->link_count) * MMUL_OPERANDS; i++)
        needs = mmul_larger(
            needs, find_need(stage, mmul_program_step_operand(stage->run->values->plan, group, i)));
    // What comes in panels was begun by all ranks of the node, with what they had.
    return stage->is.kind == MMUL_STAGE_BLOCKS && stage->is.panels > 0 ? stage->index : needs;
}

enum mmul_status mmul_stage_init(struct mmul_stage *stage, struct mmul_run *run, int index,
                                 const struct mmul_stage_request *request, struct mmul_error *err) {
    *stage = (struct mmul_stage){
        .run = run, .index = index, .is = *request, .plan = request->plan, .args = request->args};
    stage->node_needs = find_needs(stage);
    if (request->kind == MMUL_STAGE_PRODUCT && request->places.spread >= 0)
        stage->spread_needs = find_maker(stage, request->places.spread) + 1;
    if (request->step != NULL) {
        stage->sums = mmul_program_sums(run->values->plan, request->step);
        stage->layout.bytes = mmul_sums_bytes(&stage->sums, run->context->comm->node_size);
    }
    if (mmul_chain_init(stage, request->group, err) != MMUL_OK)
        return err->status;
    switch (request->kind) {
    case MMUL_STAGE_PRODUCT:
        return init_product(stage, err);
    case MMUL_STAGE_BLOCKS:
        return mmul_blocks_init(stage, err);
    default:
        return MMUL_OK;
    }
}

// Which matrices of the product are values, as enum mmul_maps.
static unsigned values_of(const struct mmul_stage *stage) {
    const struct mmul_stage_places *places = &stage->is.places;
    enum mmul_axis axis = stage->plan->axis;
    return (places->split >= 0 ? mmul_maps_split(axis) : 0) |
           (places->whole >= 0 ? mmul_maps_whole(axis) : 0) | (places->c >= 0 ? MMUL_MAPS_C : 0);
}

enum mmul_status mmul_stage_open_views(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_comm *comm = stage->run->context->comm;
    unsigned *maps = NULL;
    if (stage->is.kind != MMUL_STAGE_PRODUCT)
        return MMUL_OK;
    bool rows = stage->plan->axis == MMUL_ROWS;
    enum mmul_status status = MMUL_ALLOCATE(maps, stage->plan->node_count, "nodes", err);
    status = mmul_comm_agree(comm, status, err);
    for (int i = 0; status == MMUL_OK && i < stage->plan->node_count; i++)
        maps[i] = mmul_plan_nodes(stage->plan)[i].maps & ~values_of(stage);
    if (status == MMUL_OK)
        status = mmul_views_open(stage->run->context, stage->args, maps, &stage->views, err);
    mmul_free(maps);
    const struct mmul_views *v = &stage->views;
    stage->mapped = (struct mmul_mapped){.split = rows ? v->a.data : v->b.data,
                                         .whole = rows ? v->b.data : v->a.data,
                                         .c_in = v->c_in.data,
                                         .c = v->c.data};
    return status;
}

void mmul_stage_fini(struct mmul_stage *stage) {
    mmul_search_fini(&stage->search);
    mmul_works_fini(&stage->works);
    // A lost device's driver, or MPI, may still read them.
    if (stage->run != NULL && !stage->run->deadline.has_abandoned &&
        !mmul_comm_is_broken(stage->run->context->comm))
        mmul_views_close(&stage->views);
    mmul_layout_fini(&stage->layout);
}

// Values do not change; what comes in pieces, panels or slots makes room for others, and a result to which
// terms are added is not one yet.
static unsigned find_lasting(const struct mmul_stage *stage) {
    const struct mmul_stage_places *at = &stage->is.places;
    bool rows = stage->plan == NULL || stage->plan->axis == MMUL_ROWS;
    if (stage->is.kind == MMUL_STAGE_BLOCKS)
        return MMUL_LASTING_A | MMUL_LASTING_B | (stage->is.panels == 0 ? MMUL_LASTING_C : 0);
    return ((rows ? at->split : at->whole) >= 0 ? MMUL_LASTING_A : 0) |
           ((rows ? at->whole : at->split) >= 0 ? MMUL_LASTING_B : 0) |
           (at->c >= 0 ? MMUL_LASTING_C : 0);
}

struct mmul_worker_options mmul_stage_worker_options(const struct mmul_stage *stage) {
    struct mmul_worker_options options = {.tile = stage->tile,
                                          .kept_bytes = stage->kept_bytes,
                                          .lasting = find_lasting(stage),
                                          .no_fallback = stage->run->args->no_fallback,
                                          .trace = stage->run->trace};
    if (stage->plan != NULL) {
        options.a_dtype = stage->plan->problem.a_dtype;
        options.b_dtype = stage->plan->problem.b_dtype;
    } else if (stage->is.step != NULL) {
        const struct mmul_program_plan *plan = stage->run->values->plan;
        const int value = plan->places[stage->is.step->result].value;
        options.a_dtype = options.b_dtype = plan->program->values[value].dtype;
    }
    return options;
}

int mmul_stage_result(const struct mmul_stage *stage) {
    const struct mmul_program_step *step =
        stage->is.step != NULL ? stage->is.step : stage->is.group;
    return step != NULL ? step->result : stage->is.places.c;
}
