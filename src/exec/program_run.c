// SPDX-License-Identifier: MIT
// A program's steps as the stages of one run. What it writes gets its names in the end, by program_outputs.c.
#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/kept.h"
#include "exec/program.h"
#include "exec/program_outputs.h"
#include "exec/program_record.h"
#include "exec/run.h"
#include "exec/run_trace.h"

static enum mmul_status check_outputs(const struct mmul_context *context,
                                      const struct mmul_program_plan *plan,
                                      struct mmul_error *err) {
    const struct mmul_program *program = plan->program;
    if (plan->costs.size != context->comm->size)
        return mmul_fail(err, MMUL_ERR_USAGE, "plan is for %d ranks, there are %d",
                         plan->costs.size, context->comm->size);
    for (int i = 0; context->comm->rank == 0 && i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        if (o->kind == MMUL_SAVE && o->output == NULL)
            return mmul_fail(err, MMUL_ERR_USAGE, "the output of '%s' has been written",
                             program->values[o->operands[0]].name);
    }
    return MMUL_OK;
}

// A file of root's has no place on the ranks.
static int place_of(const struct mmul_program_plan *plan, int place) {
    return plan->places[place].placement.kind == MMUL_PLACE_FILE ? -1 : place;
}

static struct mmul_stage_request stage_of(const struct mmul_program_plan *plan,
                                          const struct mmul_program_step *step) {
    struct mmul_stage_request stage = {.kind = step->kind == MMUL_STEP_MOVE ? MMUL_STAGE_MOVE
                                                                            : MMUL_STAGE_BLOCKS,
                                       .step = step,
                                       .group = step->link_count > 0 ? step : NULL,
                                       .places = {-1, -1, -1, -1},
                                       .panels = step->kind == MMUL_STEP_MOVE};
    if (step->product == NULL)
        return stage;
    int a = place_of(plan, step->operands[0]), b = place_of(plan, step->operands[1]);
    bool rows = step->product->axis == MMUL_ROWS;
    int whole = rows ? b : a;
    return (struct mmul_stage_request){.kind = MMUL_STAGE_PRODUCT,
                                       .plan = step->product,
                                       .args = &step->files,
                                       .group = step->link_count > 0 ? step : NULL,
                                       .places = {.split = rows ? a : b,
                                                  .whole = step->spreads ? -1 : whole,
                                                  .c = place_of(plan, step->made),
                                                  .spread = step->spreads ? whole : -1}};
}

// A product, after those of its moves that are joined with it, as one stage.
static int add_stages(const struct mmul_program_plan *plan, int index,
                      struct mmul_stage_request *stages) {
    const struct mmul_program_step *step = &plan->steps[index], *moves[MMUL_FACTORS] = {NULL};
    int count = 0, joined = 0;
    if (step->joined)
        return 0;
    int panels = 0;
    if (step->kind == MMUL_STEP_COMPUTE)
        joined = mmul_program_plan_joined(plan, index, moves);
    if (joined > 0) {
        panels = mmul_program_panels(
            plan->program->values[plan->places[step->operands[0]].value].shape.cols);
        stages[count] = stage_of(plan, moves[0]);
        stages[count].also = moves[1];
        stages[count].index = (int)(moves[0] - plan->steps);
        stages[count++].panels = panels;
    }
    stages[count] = stage_of(plan, step);
    if (joined > 0)
        stages[count].panels = panels;
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
                                           .begin = run->begin};
    if (status == MMUL_OK)
        status = mmul_program_record_collect(context, &times, &values->record, err);
    struct mmul_traces *traces = NULL;
    if (status == MMUL_OK)
        status = mmul_run_gather_traces(run, &traces, err);
    if (status == MMUL_OK && values->record != NULL)
        values->record->traces = traces;
    mmul_free(steps);
    return status;
}

static enum mmul_status run_stages(struct mmul_context *context,
                                   const struct mmul_program_plan *plan, struct mmul_values *values,
                                   struct mmul_stage_request *stages, struct mmul_error *err) {
    const struct mmul_matmul how = {.no_verify = plan->no_verify,
                                    .no_fallback = plan->no_fallback,
                                    .trace = plan->records,
                                    .device_timeout_seconds = plan->device_timeout_seconds,
                                    .notice = plan->notice,
                                    .progress = plan->progress,
                                    .progress_context = plan->notice_context};
    struct mmul_run_request request = {.args = &how, .stages = stages, .values = values};
    struct mmul_run *run = NULL;
    for (int i = 0; i < plan->step_count; i++)
        request.stage_count += add_stages(plan, i, stages + request.stage_count);
    enum mmul_status status = MMUL_OK;
    if (plan->records)
        status = mmul_comm_agree(
            context->comm, MMUL_ALLOCATE(request.records, request.stage_count, "a record", err),
            err);
    if (status == MMUL_OK)
        status = mmul_run_create(context, &request, &run, err);
    values->run_segment_bytes = run != NULL ? run->segment.bytes : 0;
    if (status == MMUL_OK)
        status = mmul_run_stages(run, err);
    if (status == MMUL_OK && plan->records)
        status = keep_record(context, run, &request, values, err);
    values->is_abandoned =
        mmul_comm_is_broken(context->comm) || (run != NULL && run->deadline.has_abandoned);
    mmul_run_destroy(run);
    mmul_free(request.records);
    return status;
}

enum mmul_status mmul_program_carry_out(struct mmul_context *context,
                                        struct mmul_program_plan *plan, struct mmul_values **values,
                                        struct mmul_error *err) {
    struct mmul_values *made = NULL;
    struct mmul_stage_request *stages = NULL;
    enum mmul_status status =
        mmul_comm_agree(context->comm, check_outputs(context, plan, err), err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(context->comm,
                                 MMUL_ALLOCATE(stages, plan->step_count, "stages", err), err);
    if (status == MMUL_OK)
        status = mmul_values_create(context, plan, &made, err);
    if (status == MMUL_OK && plan->program->kept_count > 0)
        status = mmul_kept_open(context, made, err);
    if (status == MMUL_OK && plan->step_count > 0)
        status = run_stages(context, plan, made, stages, err);
    if (status == MMUL_OK) {
        status = mmul_kept_check(made, err);
        if (status == MMUL_OK && plan->accept != NULL)
            status = plan->accept(plan->accept_context, err);
        status = mmul_comm_agree(context->comm, status, err);
    }
    status = mmul_program_end_outputs(context, plan, made, status, err);
    if (status == MMUL_OK && made->record != NULL)
        made->record->wall_seconds = mmul_clock_now() - made->record->begin;
    mmul_free(stages);
    if (status == MMUL_OK)
        *values = made;
    else
        mmul_values_destroy(made);
    return status;
}
