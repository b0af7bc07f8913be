// SPDX-License-Identifier: MIT
// One stage after the other, each by the functions of its kind. Waits for counters (exec/memory/progress.h) of what a
// stage needs. Moves no bytes between nodes.
#include "exec/conduct/compute.h"

#include "base/clock.h"
#include "base/integer.h"
#include "base/status.h"
#include "exec/conduct/run.h"
#include "exec/steps/stage_work.h"

// For what is_over and has_come of a kind ask for, in the stage at hand.
static bool reach(void *context, int rank, const _Atomic int64_t *counter, int64_t goal) {
    struct mmul_stage *stage = context;
    return mmul_stage_wait(stage, rank, counter, goal, &stage->site->mine.scatter_seconds, -1);
}

// Until all ranks of the node have done their part of so many stages.
static bool wait_for_node(struct mmul_stage *stage, int stages) {
    struct mmul_site *site = stage->site;
    bool done = true;
    for (int i = 0; done && i < site->context->comm->node_size; i++)
        done = mmul_stage_wait(stage, i, &site->progress->ranks[i].stages_done, stages,
                               &site->mine.scatter_seconds, -1);
    return done;
}

// Where a device, or the check, may have something of a value that was there before.
static void forget_memory(struct mmul_stage *stage, int place) {
    const struct mmul_memory memory = mmul_values_memory(stage->site->values, place);
    if (memory.begin == NULL)
        return;
    mmul_worker_forget_memory(&stage->site->worker, memory.begin, memory.end);
    mmul_verifier_forget_memory(&stage->site->verifier_room, memory.begin, memory.end);
}

// What is wrong with the data of an operation stands where that was asked for.
static void keep_failure(struct mmul_stage *stage, const struct mmul_error *failed) {
    const struct mmul_program_step *step = stage->is.step;
    const char *origin = "";
    struct mmul_error err = *failed;
    if (err.status == MMUL_ERR_DATA)
        origin = stage->site->values->plan->program->operations[step->operation].origin;
    if (origin[0] != '\0')
        mmul_fail(&err, failed->status, "%s: %s", origin, failed->text);
    mmul_failure_keep(&stage->site->failure, &err);
}

// Others' part of the stages before one, where they are late and this rank would wait for them.
static void help(struct mmul_run *run, int stages) {
    struct mmul_error err; // a device that was replaced leaves its words in it
    for (int i = run->stages_over; i < stages; i++) {
        struct mmul_stage *stage = run->helped = &run->stages[i];
        if (stage->is.kind->help != NULL && stage->is.kind->help(stage, &err) != MMUL_OK)
            keep_failure(stage, &err);
    }
    run->helped = NULL;
}

// Its memory is free, and the values that it reads are complete. False: the run was cancelled.
static bool begin_stage(struct mmul_run *run, struct mmul_stage *stage) {
    const struct mmul_stage *after = stage->is.after >= 0 ? &run->stages[stage->is.after] : NULL;
    struct mmul_error err;
    help(run, (int)mmul_larger(stage->index - 1, stage->node_needs));
    for (; run->stages_over < stage->index - 1; run->stages_over++)
        if (!run->stages[run->stages_over].is.kind->is_over(&run->stages[run->stages_over], reach,
                                                            stage))
            return false;
    if (!wait_for_node(stage, stage->node_needs))
        return false;
    if (after != NULL && !after->is.kind->has_come(after, reach, stage))
        return false;
    if (stage->is.kind->begin != NULL)
        stage->is.kind->begin(stage);
    forget_memory(stage, stage->is.step->result);
    if (stage->is.also != NULL)
        forget_memory(stage, stage->is.also->result);
    const struct mmul_worker_options options = mmul_stage_worker_options(stage);
    if (mmul_worker_turn(&run->site.worker, &options, &err) == MMUL_OK)
        return true;
    mmul_failure_keep(&run->site.failure, &err);
    return false;
}

static bool carry_out(struct mmul_stage *stage) {
    struct mmul_error err; // a device that was replaced leaves its words in it
    if (stage->is.kind->compute(stage, &err) != MMUL_OK)
        keep_failure(stage, &err);
    return !mmul_stage_is_cancelled(stage);
}

// What has been counted as computing since then was copying.
static void count_as_copying(struct mmul_report_rank *mine, double computing_before) {
    mine->copy_seconds += mine->compute_seconds - computing_before;
    mine->compute_seconds = computing_before;
}

void mmul_run_compute(struct mmul_run *run) {
    const int rank = run->site.context->comm->node_rank;
    struct mmul_report_rank *mine = &run->site.mine;
    for (; run->stage_at_hand < run->stage_count; run->stage_at_hand++) {
        struct mmul_stage *stage = &run->stages[run->stage_at_hand];
        const bool is_looked_at = run->parts != NULL || stage->is.kind->copies;
        struct mmul_report_part part = {0};
        if (run->site.trace != NULL)
            atomic_store(&run->site.trace->stage, run->stage_at_hand);
        if (is_looked_at) // entered again, the watch adds up what goes on
            mmul_stopwatch_enter(&run->site.watch, &mine->compute_seconds);
        const double computing_before = mine->compute_seconds;
        if (run->parts != NULL)
            part = mmul_run_begin_part(run);
        if (!stage->is_begun && !begin_stage(run, stage))
            return;
        stage->is_begun = true;
        if (!carry_out(stage))
            return;
        if (is_looked_at)
            mmul_stopwatch_enter(&run->site.watch, &mine->compute_seconds);
        if (run->parts != NULL)
            mmul_run_end_part(run, stage->index, &part);
        if (stage->is.kind->copies)
            count_as_copying(mine, computing_before);
        mmul_progress_raise(run->site.progress, rank, &run->site.progress->ranks[rank].stages_done,
                            stage->index + 1, stage->index + 1);
    }
    help(run, run->stage_count); // the last ones
}

bool mmul_run_give_up_device(struct mmul_run *run) {
    struct mmul_error err;
    enum mmul_status status;
    if (!mmul_watchdog_give_up(&run->site.watchdog, &status, &err))
        return false;
    struct mmul_stage *stage = run->helped != NULL ? run->helped : &run->stages[run->stage_at_hand];
    mmul_verifier_forget(&stage->verifier);
    mmul_epilogue_abandon(&run->site.epilogue_room);
    if (stage->is.kind->abandon != NULL)
        stage->is.kind->abandon(stage);
    mmul_worker_abandon(&run->site.worker);
    if (status != MMUL_OK) {
        mmul_failure_keep(&run->site.failure, &err);
        mmul_run_cancel(run);
    }
    return true;
}

void mmul_run_cancel(struct mmul_run *run) {
    mmul_failure_void(&run->site.failure);
}
