// SPDX-License-Identifier: MIT
// Functions for stages of all kinds. They neither move nor compute data.
#include "exec/steps/stage.h"

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/steps/rank_resources.h"

int mmul_stage_producer(const struct mmul_stage *stage, int place) {
    return stage->rank_resources->producing_stages[mmul_program_base_place(stage->plan, place)];
}

// Returns the number of stages that all ranks of the node must finish first. These make the
// operands that are replicated on the node, because its ranks make them together. Of other
// placements a rank reads only its own part. An early move waits only for the stage that makes its
// operand.
static int count_needed_stages(const struct mmul_stage *stage) {
    const struct mmul_program_step *step = stage->is.step;
    int needs = stage->is.waits_for_all ? stage->index : 0;
    if (stage->is.is_early)
        return mmul_stage_producer(stage, step->operands[0]);
    for (int i = 0; i < mmul_program_operand_count(step); i++) {
        const int place = mmul_program_step_operand(stage->plan, step, i);
        if (place >= 0 &&
            stage->plan->places[mmul_program_base_place(stage->plan, place)].placement.kind ==
                MMUL_PLACE_REPLICATE)
            needs = mmul_max(needs, mmul_stage_producer(stage, place));
    }
    return needs;
}

enum mmul_status mmul_stage_init(struct mmul_stage *stage,
                                 struct mmul_rank_resources *rank_resources, int index,
                                 const struct mmul_stage_request *request, struct mmul_error *err) {
    const struct mmul_program_plan *plan = rank_resources->values->plan;
    const int operation = request->step->operation;
    *stage = (struct mmul_stage){.rank_resources = rank_resources,
                                 .comm = rank_resources->context->comm,
                                 .plan = plan,
                                 .operation =
                                     operation >= 0 ? &plan->program->operations[operation] : NULL,
                                 .index = index,
                                 .places = {-1, -1, -1, -1},
                                 .first_early = -1,
                                 .next_early = -1,
                                 .is = *request};
    stage->node_wait_count = count_needed_stages(stage);
    stage->sums = mmul_program_sums(plan, request->step);
    stage->bytes = mmul_sums_bytes(&stage->sums, rank_resources->context->comm->node_size);
    stage->work.a_dtype = stage->work.b_dtype =
        mmul_place_value(plan, request->step->result)->dtype;
    enum mmul_status status = mmul_epilogue_init(stage, request->step, err);
    if (status == MMUL_OK)
        status = request->kind->init(stage, err);
    for (int i = 0; i < mmul_program_result_count(request->step); i++) {
        const int place = mmul_program_step_result(plan, request->step, i);
        if (place >= 0)
            rank_resources->producing_stages[place] = index + 1;
    }
    return status;
}

void mmul_stage_fini(struct mmul_stage *stage) {
    if (stage->is.kind != NULL && stage->is.kind->fini != NULL)
        stage->is.kind->fini(stage);
}

bool mmul_stage_is_done(const struct mmul_stage *stage, mmul_reach *reach, void *context) {
    const struct mmul_run_progress *progress = stage->rank_resources->progress;
    bool done = true;
    for (int i = 0; done && i < stage->comm->node_size; i++)
        done = reach(context, i, &progress->ranks[i].stages_done, stage->index + 1);
    return done;
}

bool mmul_stage_has_ended(const struct mmul_stage *stages, int index, mmul_reach *reach,
                          void *context) {
    const struct mmul_stage *stage = &stages[index];
    bool behind = stage->is.is_early ? mmul_stage_is_done(stage, reach, context)
                                     : stage->is.kind->is_over(stage, reach, context);
    for (int i = stage->first_early; behind && i >= 0; i = stages[i].next_early)
        behind = stages[i].is.kind->is_over(&stages[i], reach, context);
    return behind;
}

struct mmul_worker_options mmul_stage_worker_options(const struct mmul_stage *stage) {
    struct mmul_worker_options options = stage->work;
    options.no_fallback = stage->rank_resources->options->no_fallback;
    options.trace = stage->rank_resources->trace;
    return options;
}

bool mmul_stage_has_work(const struct mmul_stage *stage, int rank) {
    return stage->is.kind->has_work != NULL && stage->is.kind->has_work(stage, rank);
}
