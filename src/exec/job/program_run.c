// SPDX-License-Identifier: MIT
// A program's steps as the stages of one run. What it writes gets its names in the end, by program_outputs.c.
#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/conduct/run.h"
#include "exec/conduct/run_trace.h"
#include "exec/job/program.h"
#include "exec/job/program_outputs.h"
#include "exec/memory/kept.h"
#include "exec/memory/program_record.h"
#include "exec/products/product.h"
#include "exec/steps/blocks.h"
#include "exec/traffic/move.h"
#include "io/output_file.h"

static enum mmul_status check_outputs(struct mmul_context *context,
                                      const struct mmul_program_plan *plan,
                                      struct mmul_error *err) {
    const struct mmul_program *program = plan->program;
    if (plan->costs.size != context->comm->size)
        return mmul_fail(err, MMUL_ERR_USAGE, "plan is for %d ranks, there are %d",
                         plan->costs.size, context->comm->size);
    for (int i = 0; context->comm->rank == 0 && i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        if (o->kind != MMUL_SAVE)
            continue;
        if (o->output == NULL)
            return mmul_fail(err, MMUL_ERR_USAGE, "the output of '%s' has been written",
                             program->values[o->operands[0]].name);
        if (o->output->took_over)
            mmul_context_warn(context,
                              "'%s' takes the place of what a run that was killed had left",
                              o->output->part);
    }
    return MMUL_OK;
}

// A file of root's has no place on the ranks.
static int place_of(const struct mmul_program_plan *plan, int place) {
    return plan->places[place].placement.kind == MMUL_PLACE_FILE ? -1 : place;
}

static struct mmul_stage_request stage_of(const struct mmul_program_plan *plan,
                                          const struct mmul_program_step *step) {
    const bool is_move = step->kind == MMUL_STEP_MOVE;
    struct mmul_stage_request stage = {.kind = is_move ? &mmul_move_kind : &mmul_blocks_kind,
                                       .step = step,
                                       .group = step->link_count > 0 ? step : NULL,
                                       .places = {-1, -1, -1, -1},
                                       .panels = is_move,
                                       .panels_of = -1,
                                       .after_all = is_move}; // it reads what all of them have
    if (step->product == NULL)
        return stage;
    int a = place_of(plan, step->operands[0]), b = place_of(plan, step->operands[1]);
    bool rows = step->product->axis == MMUL_ROWS;
    int whole = rows ? b : a;
    return (struct mmul_stage_request){.kind = &mmul_product_kind,
                                       .plan = step->product,
                                       .files = mmul_program_files(plan, step),
                                       .group = step->link_count > 0 ? step : NULL,
                                       .places = {.split = rows ? a : b,
                                                  .whole = step->spreads ? -1 : whole,
                                                  .c = place_of(plan, step->made),
                                                  .spread = step->spreads ? whole : -1},
                                       .panels_of = -1};
}

// A product, after those of its moves that are joined with it, as one stage. `count`: of stages so far; returns it.
static int add_stages(const struct mmul_program_plan *plan, int index,
                      struct mmul_stage_request *stages, int count) {
    const struct mmul_program_step *step = &plan->steps[index], *moves[MMUL_FACTORS] = {NULL};
    int joined = 0, panels = 0;
    if (step->joined)
        return count;
    // What moves may be on its way to where a stage writes, or from there.
    int after = count > 0 && stages[count - 1].kind == &mmul_move_kind ? count - 1 : -1;
    if (step->kind == MMUL_STEP_COMPUTE)
        joined = mmul_program_plan_joined(plan, index, moves);
    if (joined > 0) {
        panels = mmul_program_panels(
            plan->program->values[plan->places[step->operands[0]].value].shape.cols);
        stages[count] = stage_of(plan, moves[0]);
        stages[count].also = moves[1];
        stages[count].index = (int)(moves[0] - plan->steps);
        stages[count].after = after;
        stages[count++].panels = panels;
        after = -1;
    }
    stages[count] = stage_of(plan, step);
    if (joined > 0) {
        stages[count].panels = panels;
        stages[count].panels_of = count - 1;
        stages[count].after_all = true; // what comes in panels was begun by all ranks of the node
    }
    stages[count].after = after;
    stages[count].index = index;
    return count + 1;
}

// Collective. What all ranks did, of which *steps are the stages' steps.
static enum mmul_status keep_record(struct mmul_context *context, struct mmul_run *run,
                                    const struct mmul_run_request *request,
                                    struct mmul_values *values, struct mmul_error *err) {
    int *steps = NULL;
    enum mmul_status status = mmul_comm_agree(
        context->comm, MMUL_ALLOCATE(steps, request->stage_count, "a record", err), err);
    for (int i = 0; status == MMUL_OK && i < request->stage_count; i++)
        steps[i] = request->stages[i].index;
    const struct mmul_stage_times times = {.mine = request->records,
                                           .steps = steps,
                                           .stage_count = request->stage_count,
                                           .begin = run->site.begin};
    if (status == MMUL_OK)
        status = mmul_program_record_collect(context, &times, &values->record, err);
    struct mmul_traces *traces = NULL;
    if (status == MMUL_OK)
        status = mmul_run_gather_traces(&run->site, &traces, err);
    if (status == MMUL_OK && values->record != NULL)
        values->record->traces = traces;
    mmul_free(steps);
    return status;
}

// What a rank's checks have found in all stages.
struct findings {
    int64_t lines_checked, blocks_recomputed, fallback_products;
};

// Collective. all: room for those of all ranks.
static enum mmul_status add_findings(const struct mmul_run *run, struct findings *all,
                                     struct mmul_values_summary *sum, struct mmul_error *err) {
    const struct mmul_comm *comm = run->site.context->comm;
    struct findings mine = {.fallback_products = run->site.worker.fallback_products};
    for (int i = 0; i < run->stage_count; i++) {
        mine.lines_checked += run->stages[i].verifier.lines_checked;
        mine.blocks_recomputed += run->stages[i].verifier.blocks_recomputed;
    }
    enum mmul_status status = mmul_comm_share(comm, &mine, sizeof mine, all, err);
    for (int rank = 0; status == MMUL_OK && rank < comm->size; rank++) {
        sum->lines_checked += all[rank].lines_checked;
        sum->blocks_recomputed += all[rank].blocks_recomputed;
        sum->fallback_products += all[rank].fallback_products;
    }
    return status;
}

// findings: room for those of all ranks.
static enum mmul_status run_stages(struct mmul_context *context,
                                   const struct mmul_program_plan *plan, struct mmul_values *values,
                                   struct mmul_stage_request *stages, struct findings *findings,
                                   struct mmul_error *err) {
    struct mmul_run_request request = {
        .options = &plan->options, .calls = &plan->calls, .stages = stages, .values = values};
    struct mmul_run *run = NULL;
    for (int i = 0; i < plan->step_count; i++)
        request.stage_count = add_stages(plan, i, stages, request.stage_count);
    enum mmul_status status = MMUL_OK;
    if (plan->options.records && !plan->options.reports)
        status = mmul_comm_agree(
            context->comm, MMUL_ALLOCATE(request.records, request.stage_count, "a record", err),
            err);
    if (status == MMUL_OK)
        status = mmul_run_create(context, &request, &run, err);
    if (run != NULL)
        values->begin = run->site.begin;
    values->run_segment_bytes = run != NULL ? run->site.segment.bytes : 0;
    if (status == MMUL_OK)
        status = mmul_run_stages(run, err);
    if (run != NULL)
        values->run_waits = run->site.waits;
    if (status == MMUL_OK)
        status = add_findings(run, findings, &values->summary, err);
    if (status == MMUL_OK && plan->options.reports)
        status = mmul_run_report(run, &values->report, err);
    else if (status == MMUL_OK && plan->options.records)
        status = keep_record(context, run, &request, values, err);
    values->is_abandoned =
        mmul_comm_is_broken(context->comm) || (run != NULL && run->site.deadline.has_abandoned);
    mmul_run_destroy(run);
    mmul_free(request.records);
    return status;
}

enum mmul_status mmul_program_carry_out(struct mmul_context *context,
                                        struct mmul_program_plan *plan, struct mmul_values **values,
                                        struct mmul_error *err) {
    struct mmul_values *made = NULL;
    struct mmul_stage_request *stages = NULL;
    struct findings *findings = NULL;
    enum mmul_status status = check_outputs(context, plan, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(stages, plan->step_count, "stages", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(findings, context->comm->size, "stages", err);
    status = mmul_comm_agree(context->comm, status, err);
    if (status == MMUL_OK)
        status = mmul_values_create(context, plan, &made, err);
    if (status == MMUL_OK)
        made->begin = mmul_clock_now(); // a run's, where there is one
    if (status == MMUL_OK && plan->program->kept_count > 0)
        status = mmul_kept_open(context, made, err);
    if (status == MMUL_OK && plan->step_count > 0)
        status = run_stages(context, plan, made, stages, findings, err);
    if (status == MMUL_OK) {
        status = mmul_kept_check(made, err);
        if (status == MMUL_OK && plan->calls.accept != NULL)
            status = plan->calls.accept(plan->calls.accept_context, err);
        status = mmul_comm_agree(context->comm, status, err);
    }
    const double committing = mmul_clock_now();
    status = mmul_program_end_outputs(context, plan, made, status, err);
    mmul_stopwatch_enter(&context->watch, NULL);
    if (status == MMUL_OK) {
        made->summary.wall_seconds = mmul_clock_now() - made->begin;
        made->summary.startup_seconds = mmul_startup_seconds(&context->startup);
        made->summary.flops = mmul_program_calculated(plan->program);
        made->summary.ranks = context->comm->size;
        made->summary.step_count = plan->step_count;
        made->summary.verified = !plan->options.no_verify;
        context->startup = (struct mmul_startup){0};
    }
    if (status == MMUL_OK && made->report != NULL)
        mmul_run_end_report(made->begin, committing, made->report);
    mmul_free(findings);
    mmul_free(stages);
    if (status == MMUL_OK)
        *values = made;
    else
        mmul_values_destroy(made);
    return status;
}
