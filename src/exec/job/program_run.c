// SPDX-License-Identifier: MIT
// A program's steps as the stages of one run. What it writes gets its names in the end, by program_outputs.c.
#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/conduct/run.h"
#include "exec/job/program.h"
#include "exec/job/program_outputs.h"
#include "exec/memory/kept.h"
#include "exec/tasks/computing.h"
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
    struct mmul_stage_request stage = {.kind = is_move ? &mmul_move_kind : &mmul_computing_kind,
                                       .step = step,
                                       .places = {-1, -1, -1, -1},
                                       .panels = is_move,
                                       .panels_of = -1,
                                       .after_all = is_move}; // it reads what all of them have
    if (step->schedule == NULL)
        return stage;
    int a = place_of(plan, step->operands[0]), b = place_of(plan, step->operands[1]);
    bool rows = step->schedule->axis == MMUL_ROWS;
    int whole = rows ? b : a;
    stage.schedule = step->schedule;
    stage.files = mmul_program_files(plan, step);
    stage.places = (struct mmul_stage_places){.split = rows ? a : b,
                                              .whole = step->spreads ? -1 : whole,
                                              .c = place_of(plan, step->made),
                                              .spread = step->spreads ? whole : -1};
    return stage;
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

static enum mmul_status run_stages(struct mmul_context *context,
                                   const struct mmul_program_plan *plan, struct mmul_values *values,
                                   struct mmul_stage_request *stages, struct mmul_error *err) {
    struct mmul_run_request request = {
        .options = &plan->options, .calls = &plan->calls, .stages = stages, .values = values};
    struct mmul_run *run = NULL;
    for (int i = 0; i < plan->step_count; i++)
        request.stage_count = add_stages(plan, i, stages, request.stage_count);
    enum mmul_status status = mmul_run_create(context, &request, &run, err);
    if (run != NULL)
        values->begin = run->site.begin;
    values->run_segment_bytes = run != NULL ? run->site.segment.bytes : 0;
    if (status == MMUL_OK)
        status = mmul_run_stages(run, err);
    if (run != NULL)
        values->run_waits = run->site.waits;
    if (status == MMUL_OK)
        status = mmul_run_report(run, values->report, err);
    values->is_abandoned =
        mmul_comm_is_broken(context->comm) || (run != NULL && run->site.watchdog.has_abandoned);
    mmul_run_destroy(run);
    return status;
}

enum mmul_status mmul_program_carry_out(struct mmul_context *context,
                                        struct mmul_program_plan *plan, struct mmul_values **values,
                                        struct mmul_error *err) {
    struct mmul_values *made = NULL;
    struct mmul_report *report = NULL;
    struct mmul_stage_request *stages = NULL;
    enum mmul_status status = check_outputs(context, plan, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(stages, plan->step_count, "stages", err);
    if (status == MMUL_OK)
        status = mmul_report_create(context, plan, &report, err);
    status = mmul_comm_agree(context->comm, status, err);
    if (status == MMUL_OK)
        status = mmul_values_create(context, plan, &made, err);
    if (status == MMUL_OK) {
        made->report = report;
        report = NULL;
        made->begin = mmul_clock_now(); // a run's, where there is one
    }
    if (status == MMUL_OK && plan->program->kept_count > 0)
        status = mmul_kept_open(context, made, err);
    if (status == MMUL_OK && plan->step_count > 0)
        status = run_stages(context, plan, made, stages, err);
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
        mmul_report_end(made->report, made->begin, committing);
        made->report->startup = context->startup;
        context->startup = (struct mmul_startup){0};
    }
    mmul_report_destroy(report);
    mmul_free(stages);
    if (status == MMUL_OK)
        *values = made;
    else
        mmul_values_destroy(made);
    return status;
}
