// SPDX-License-Identifier: MIT
// Carries out one job, from its plans to the stored results. Creates the stages, the transport, the
// segment and the worker. Then two threads carry out the stages, and an agreement over world ends
// the run. The compute thread takes one stage after the other, each by the functions of its kind,
// and waits for the counters that a stage needs (exec/memory/progress.h). It makes no MPI call.
// Commits no file: that is the caller's last step.
#include "exec/conduct/run.h"

#include <math.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/conduct/forecast.h"
#include "exec/conduct/heartbeat.h"
#include "exec/conduct/recorder.h"
#include "exec/memory/segment_cache.h"
#include "exec/setup/fallback.h"
#include "exec/status/device_usage.h"
#include "exec/status/job_status.h"
#include "exec/steps/stage_work.h"
#include "exec/tasks/steals.h"
#include "exec/tasks/work.h"
#include "exec/tasks/write_back.h"
#include "exec/threads/compute_thread.h"
#include "exec/traffic/mover.h"
#include "io/matrix_file.h"
#include "model/dtype.h"

// ---------------------------------------------------------------------------------------- creating

// Creates the transport for the nodes that take part in any product with a schedule.
static enum mmul_status create_transport(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_comm *comm = run->rank_resources.context->comm;
    const struct mmul_program_plan *plan = run->rank_resources.values->plan;
    bool *works = NULL;
    enum mmul_status status =
        mmul_comm_agree(comm, MMUL_ALLOCATE(works, comm->node_count, "nodes", err), err);
    for (int i = 0; status == MMUL_OK && i < plan->product_count; i++)
        for (int node = 0; node < comm->node_count; node++)
            works[node] |=
                mmul_schedule_nodes(plan->steps[plan->products[i]].schedule)[node].participates;
    if (status == MMUL_OK)
        status = mmul_transport_init(comm, works, &run->rank_resources.failure,
                                     &run->rank_resources.transport, err);
    mmul_free(works);
    return status;
}

static enum mmul_status create_stages(struct mmul_run *run, const struct mmul_run_request *request,
                                      struct mmul_error *err) {
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("stages", err, MMUL_ARRAY(run->stages, request->stage_count),
                          MMUL_ARRAY(run->rank_resources.producing_stages,
                                     run->rank_resources.values->plan->place_count));
    if (status == MMUL_OK && request->options->records)
        status = MMUL_ALLOCATE(run->parts, request->stage_count, "a record", err);
    for (int i = 0; status == MMUL_OK && i < request->stage_count; i++) {
        run->stage_count = i + 1;
        status =
            mmul_stage_init(&run->stages[i], &run->rank_resources, i, &request->stages[i], err);
        if (request->stages[i].panels_stage >= 0)
            run->stages[i].panels_from = &run->stages[request->stages[i].panels_stage];
    }
    for (int i = run->stage_count - 1; status == MMUL_OK && i >= 0; i--) {
        struct mmul_stage *stage = &run->stages[i], *last = &run->stages[stage->is.due - 1];
        if (!stage->is.is_early)
            continue;
        stage->next_early = last->first_early;
        last->first_early = i;
    }
    return status;
}

static enum mmul_status create_loans(struct mmul_run *run, struct mmul_error *err) {
    int64_t bytes = 0;
    for (int i = 0; i < run->stage_count; i++) {
        const struct mmul_stage *stage = &run->stages[i];
        if (stage->steal_scope == MMUL_STEAL_VALUES)
            bytes = mmul_max(bytes,
                             mmul_schedule_stolen_bytes_most(stage->schedule, stage->comm->rank));
        if (stage->steal_scope != MMUL_STEAL_NOTHING)
            run->rank_resources.steal_scope = stage->steal_scope;
    }
    return mmul_steals_create(&run->rank_resources, bytes, err);
}

// Warms up the device. If its kernels do not build, the device is replaced like one that fails
// later.
static enum mmul_status warm_up(struct mmul_run *run, struct mmul_error *err) {
    double most[MMUL_DTYPES] = {0}; // by type: m n k of the largest product
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < run->stage_count; i++) {
        const struct mmul_worker_options options = mmul_stage_worker_options(&run->stages[i]);
        const struct mmul_tile tile = options.tile;
        double *largest = &most[mmul_dtype_of_product(options.a_dtype, options.b_dtype)];
        *largest = fmax(*largest, (double)tile.m * (double)tile.n * (double)tile.k);
    }
    for (int i = 0; status == MMUL_OK && i < MMUL_DTYPES; i++)
        if (most[i] > 0)
            status =
                mmul_context_warm_up(run->rank_resources.context, (enum mmul_dtype)i, most[i], err);
    if (status != MMUL_OK)
        status = mmul_context_fall_back(run->rank_resources.context,
                                        run->rank_resources.options->no_fallback, err);
    return status;
}

static void wake_sleepers(void *context) {
    mmul_progress_wake_all(context);
}

// Provides the node's segment. A small segment is kept for the next run if every node has one:
// creating it takes longer than many a loop iteration.
static enum mmul_status take_segment(struct mmul_run *run, int64_t bytes, struct mmul_error *err) {
    enum { SMALL = 1 << 18 };
    bool is_new;
    if (!run->rank_resources.values->plan->is_repeated)
        return mmul_shared_create(run->rank_resources.context->comm, bytes,
                                  &run->rank_resources.segment, err);
    run->caches_segment = bytes <= SMALL;
    return mmul_segment_cache_take(run->rank_resources.context, MMUL_SEGMENT_CACHE_RUN, bytes,
                                   &run->rank_resources.segment, &is_new, err);
}

// Creates the queues of finished regions if outputs have journals. Collective over world then.
static enum mmul_status create_completed(struct mmul_rank_resources *resources,
                                         struct mmul_error *err) {
    const struct mmul_comm *comm = resources->context->comm;
    if (!(resources->options->journal_seconds > 0))
        return MMUL_OK;
    const int64_t bytes = (comm->node_size + 1) * (int64_t)sizeof *resources->completed;
    const enum mmul_status status = mmul_comm_agree(
        comm, mmul_shared_create(comm, bytes, &resources->completed_segment, err), err);
    if (status == MMUL_OK)
        resources->completed = (struct mmul_completed *)(void *)resources->completed_segment.data;
    return status;
}

// Creates the segment and lays it out: counters first, then the memory of the stages.
static enum mmul_status create_segment(struct mmul_run *run, struct mmul_error *err) {
    struct mmul_segment_size size = {.stages = 0};
    const int ranks = run->rank_resources.context->comm->node_size;
    int64_t begins[MMUL_SEGMENT_PARTS];
    int64_t at = MMUL_RUN_COUNTERS + (int64_t)ranks * MMUL_RUN_COUNTERS_EACH;
    int ends[MMUL_SEGMENT_PARTS] = {0};
    for (int i = 0; i < run->stage_count; i++) {
        struct mmul_stage *stage = &run->stages[i];
        const int part = mmul_segment_size_add(
            &size, mmul_program_segment_user(stage->plan, stage->is.step), stage->bytes);
        stage->memory_part = part;
        // A move needs no such memory, but only two stages are under way.
        stage->memory_wait_count = stage->is.kind->copies ? (int)mmul_max(0, i - 1) : ends[part];
        ends[part] = i + 1;
    }
    enum mmul_status status = take_segment(run, mmul_segment_size_bytes(&size, ranks, begins), err);
    if (status != MMUL_OK)
        return status;
    // Zeroed memory: nothing is done yet.
    run->rank_resources.progress =
        (struct mmul_run_progress *)(void *)run->rank_resources.segment.data;
    run->rank_resources.progress->rank_count = ranks;
    run->rank_resources.failure.shared = &run->rank_resources.progress->cancelled;
    run->rank_resources.failure.wake_waiting_threads = wake_sleepers;
    run->rank_resources.failure.context = run->rank_resources.progress;
    for (int i = 0; i < run->stage_count; i++, at += mmul_stage_progress_bytes(ranks)) {
        struct mmul_stage *stage = &run->stages[i];
        stage->progress =
            (struct mmul_stage_progress *)(void *)(run->rank_resources.segment.data + at);
        stage->memory = run->rank_resources.segment.data + begins[stage->memory_part];
    }
    return MMUL_OK;
}

static enum mmul_status create_works(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_worker_options options = mmul_stage_worker_options(&run->stages[0]);
    enum mmul_status status =
        mmul_worker_init(&run->rank_resources.worker, run->rank_resources.context, &options, err);
    if (status == MMUL_OK)
        status = mmul_works_create_private(&run->rank_resources, err);
    for (int i = 0; status == MMUL_OK && i < run->stage_count; i++)
        if (run->stages[i].is.kind->prepare != NULL)
            status = run->stages[i].is.kind->prepare(&run->stages[i], err);
    return status;
}

enum mmul_status mmul_run_create(struct mmul_context *context,
                                 const struct mmul_run_request *request, struct mmul_run **run,
                                 struct mmul_error *err) {
    struct mmul_run *made = NULL;
    const struct mmul_comm *comm = context->comm;
    enum mmul_status status = mmul_comm_agree(comm, MMUL_ALLOCATE(made, 1, "a run", err), err);
    if (status != MMUL_OK) {
        mmul_free(made); // still empty
        return status;
    }
    made->rank_resources.context = context;
    made->rank_resources.options = request->options;
    made->calls = request->calls;
    made->rank_resources.values = request->values;
    made->rank_resources.transport = MMUL_TRANSPORT_NONE;
    mmul_watchdog_init(&made->rank_resources.watchdog, context,
                       made->rank_resources.options->device_timeout_seconds,
                       made->rank_resources.options->no_fallback);
    status = create_stages(made, request, err);
    if (status == MMUL_OK)
        status = create_loans(made, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, create_transport(made, err), err);
    mmul_job_status_set_phase(context, "warm up");
    mmul_stopwatch_enter(&context->watch, &context->startup.warm_up_seconds);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, warm_up(made, err), err);
    mmul_device_usage_begin_run(context, request->values->plan->seconds);
    made->rank_resources.begin = mmul_clock_now(); // the device is warm: the clock starts
    mmul_stopwatch_enter_at(&context->watch, NULL, made->rank_resources.begin);
    mmul_stopwatch_enter_at(&made->rank_resources.watch, &made->rank_resources.mine.setup_seconds,
                            made->rank_resources.begin);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, create_segment(made, err), err);
    if (status == MMUL_OK)
        status = create_completed(&made->rank_resources, err);
    if (status == MMUL_OK)
        status = mmul_run_create_trace(&made->rank_resources, err);
    for (int i = 0; status == MMUL_OK && i < made->stage_count; i++)
        if (made->stages[i].is.kind->open != NULL)
            status = made->stages[i].is.kind->open(&made->stages[i], err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, create_works(made, err), err);
    if (status == MMUL_OK)
        *run = made;
    else
        mmul_run_destroy(made);
    return status;
}

void mmul_run_destroy(struct mmul_run *run) {
    if (run == NULL)
        return;
    mmul_worker_fini(&run->rank_resources.worker);
    mmul_epilogue_buffers_fini(&run->rank_resources.epilogue_buffers);
    mmul_verifier_room_fini(&run->rank_resources.verifier_room);
    mmul_check_destroy(run->rank_resources.grid_check_buffers.check);
    for (int i = 0; i < run->stage_count; i++)
        mmul_stage_fini(&run->stages[i]);
    mmul_works_destroy_private(&run->rank_resources);
    mmul_transport_fini(&run->rank_resources.transport);
    // The driver of a lost device, or MPI, may still access the memory it was given.
    const bool keeps = run->rank_resources.watchdog.has_abandoned ||
                       mmul_comm_is_broken(run->rank_resources.context->comm);
    mmul_steals_destroy(&run->rank_resources, keeps);
    if (!keeps && run->caches_segment)
        mmul_segment_cache_put(run->rank_resources.context, MMUL_SEGMENT_CACHE_RUN,
                               &run->rank_resources.segment);
    else if (!keeps)
        mmul_shared_destroy(&run->rank_resources.segment);
    if (!keeps)
        mmul_shared_destroy(&run->rank_resources.completed_segment);
    mmul_trace_destroy(run->rank_resources.trace);
    MMUL_FREE_ALL(run->rank_resources.producing_stages, run->parts, run->stages, run);
}

// --------------------------------------------------------------------------------------- computing

// Passed to is_over and has_come of a stage kind: waits for a counter on behalf of the current
// stage.
static bool wait_for_counter(void *context, int rank, const _Atomic int64_t *counter,
                             int64_t goal) {
    struct mmul_stage *stage = context;
    return mmul_stage_wait(stage, rank, counter, goal, &stage->rank_resources->mine.scatter_seconds,
                           -1);
}

// Waits until all ranks of the node have done their part of the first `stages` stages.
static bool wait_for_node(struct mmul_stage *stage, int stages) {
    struct mmul_rank_resources *rank_resources = stage->rank_resources;
    bool done = true;
    for (int i = 0; done && i < rank_resources->context->comm->node_size; i++)
        done = mmul_stage_wait(stage, i, &rank_resources->progress->ranks[i].stages_done, stages,
                               &rank_resources->mine.scatter_seconds, -1);
    return done;
}

// Drops cached data about the memory of a step's results: a device or the check may still hold
// copies of an earlier value there.
static void forget_memory(struct mmul_stage *stage, const struct mmul_program_step *step) {
    for (int i = 0; i < mmul_program_result_count(step); i++) {
        const int place = mmul_program_step_result(stage->plan, step, i);
        if (place < 0)
            continue;
        const struct mmul_memory memory = mmul_values_memory(stage->rank_resources->values, place);
        if (memory.begin == NULL)
            continue;
        mmul_worker_invalidate_memory(&stage->rank_resources->worker, memory.begin, memory.end);
        mmul_verifier_invalidate_memory(&stage->rank_resources->verifier_room, memory.begin,
                                        memory.end);
    }
}

// Keeps the first failure. An error in the data of an operation is prefixed with the place in the
// program text.
static void keep_failure(struct mmul_stage *stage, const struct mmul_error *failed) {
    const struct mmul_program_step *step = stage->is.step;
    const char *origin = "";
    struct mmul_error err = *failed;
    if (err.status == MMUL_ERR_DATA)
        origin = mmul_step_operation(stage->rank_resources->values->plan, step)->origin;
    if (origin[0] != '\0')
        mmul_fail(&err, failed->status, "%s: %s", origin, failed->text);
    mmul_failure_keep(&stage->rank_resources->failure, &err);
}

// Computes late parts of other ranks in the stages before `stages`, instead of waiting for these
// ranks.
static void help_other_ranks(struct mmul_run *run, int stages) {
    struct mmul_error err; // a replaced device leaves its message in it
    for (int i = run->stages_over; i < stages; i++) {
        struct mmul_stage *stage = run->helped_stage = &run->stages[i];
        if (stage->is.kind->help != NULL && stage->is.kind->help(stage, &err) != MMUL_OK)
            keep_failure(stage, &err);
    }
    run->helped_stage = NULL;
}

// Waits for a move to arrive and checks it. Its computing seconds count as copying. False: the run
// was cancelled.
static bool receive_move(struct mmul_run *run, struct mmul_stage *move) {
    struct mmul_report_rank *mine = &run->rank_resources.mine;
    struct mmul_error err;
    mmul_stopwatch_enter(&run->rank_resources.watch, &mine->compute_seconds);
    const double computing_before = mine->compute_seconds;
    if (!move->is.kind->has_come(move, wait_for_counter, move))
        return false;
    if (move->is.kind->receive(move, &err) != MMUL_OK)
        keep_failure(move, &err);
    mmul_stopwatch_enter(&run->rank_resources.watch, &mine->compute_seconds);
    mine->copy_seconds += mine->compute_seconds - computing_before;
    mine->compute_seconds = computing_before;
    return !mmul_stage_is_cancelled(move);
}

// Receives the moves that are due once `count` stages have begun: the last stage, if it is a move
// and its panels are not taken one by one, and early moves. False: the run was cancelled.
static bool receive_due_moves(struct mmul_run *run, int count) {
    const struct mmul_stage *next = count < run->stage_count ? &run->stages[count] : NULL;
    struct mmul_stage *last = &run->stages[count - 1];
    bool is_going_on = true;
    if (last->is.kind->receive != NULL && !last->is.is_early &&
        (next == NULL || next->panels_from != last))
        is_going_on = receive_move(run, last);
    for (int i = last->first_early; is_going_on && i >= 0; i = run->stages[i].next_early)
        is_going_on = receive_move(run, &run->stages[i]);
    return is_going_on;
}

// Waits until the memory of a stage is free and the values that it reads are complete. False: the
// run was cancelled.
static bool begin_stage(struct mmul_run *run, struct mmul_stage *stage) {
    struct mmul_error err;
    help_other_ranks(run, (int)mmul_max(stage->index - 1, stage->node_wait_count));
    for (; run->stages_over < stage->index - 1; run->stages_over++)
        if (!mmul_stage_has_ended(run->stages, run->stages_over, wait_for_counter, stage))
            return false;
    if (!wait_for_node(stage, stage->node_wait_count))
        return false;
    if (stage->index > 0 && !receive_due_moves(run, stage->index))
        return false;
    if (stage->is.kind->begin != NULL)
        stage->is.kind->begin(stage);
    forget_memory(stage, stage->is.step);
    if (stage->is.also != NULL)
        forget_memory(stage, stage->is.also);
    const struct mmul_worker_options options = mmul_stage_worker_options(stage);
    if (mmul_worker_reconfigure(&run->rank_resources.worker, &options, &err) == MMUL_OK)
        return true;
    mmul_failure_keep(&run->rank_resources.failure, &err);
    return false;
}

// Waits for what each stage and task needs, multiplies, checks, and counts finished work. A failure
// goes to run->rank_resources.failure and cancels the node's other work. May be called again, and
// then continues with the current stage.
static void compute_stages(struct mmul_run *run) {
    const int rank = run->rank_resources.context->comm->node_rank;
    struct mmul_report_rank *mine = &run->rank_resources.mine;
    struct mmul_report_part part = {0};
    if (run->parts != NULL) {
        mmul_stopwatch_enter(&run->rank_resources.watch, &mine->compute_seconds);
        part = mmul_run_begin_record(run);
    }
    for (; run->current_stage < run->stage_count; run->current_stage++) {
        struct mmul_stage *stage = &run->stages[run->current_stage];
        struct mmul_error err; // a replaced device leaves its message in it
        if (run->rank_resources.trace != NULL)
            atomic_store(&run->rank_resources.trace->stage, run->current_stage);
        if (stage->is.kind->copies) // adds the running interval to the sum
            mmul_stopwatch_enter(&run->rank_resources.watch, &mine->compute_seconds);
        const double computing_before = mine->compute_seconds;
        if (!stage->is_begun && !begin_stage(run, stage))
            return;
        stage->is_begun = true;
        if (stage->is.kind->compute(stage, &err) != MMUL_OK)
            keep_failure(stage, &err);
        if (mmul_stage_is_cancelled(stage))
            return;
        if (run->parts != NULL || stage->is.kind->copies)
            mmul_stopwatch_enter(&run->rank_resources.watch, &mine->compute_seconds);
        // Before the counter rises: another rank may be through with the next stage at once.
        if (run->parts != NULL)
            mmul_run_end_record(run, stage->index, &part);
        if (stage->is.kind->copies) { // the time counted as computing since then
            mine->copy_seconds += mine->compute_seconds - computing_before;
            mine->compute_seconds = computing_before;
        }
        mmul_progress_raise(run->rank_resources.progress, rank,
                            &run->rank_resources.progress->ranks[rank].stages_done,
                            stage->index + 1, stage->index + 1);
    }
    help_other_ranks(run, run->stage_count); // the last stages
    (void)receive_due_moves(run, run->stage_count);
}

// Main thread: abandons and replaces a device that has not finished its product in time. True:
// compute_stages must be called again on another thread, and continues with the current stage.
static bool replace_hung_device(struct mmul_run *run) {
    struct mmul_error err;
    enum mmul_status status;
    if (!mmul_watchdog_poll(&run->rank_resources.watchdog, &status, &err))
        return false;
    struct mmul_stage *stage =
        run->helped_stage != NULL ? run->helped_stage : &run->stages[run->current_stage];
    mmul_verifier_invalidate(&stage->verifier);
    mmul_epilogue_buffers_abandon(&run->rank_resources.epilogue_buffers);
    if (stage->is.kind->abandon != NULL)
        stage->is.kind->abandon(stage);
    mmul_worker_abandon(&run->rank_resources.worker);
    if (status != MMUL_OK) {
        mmul_failure_keep(&run->rank_resources.failure, &err);
        mmul_failure_void_traffic(&run->rank_resources.failure);
    }
    return true;
}

// ----------------------------------------------------------------------------------------- running

// State of the threads of a rank.
struct threads {
    struct mmul_run *run;
    struct mmul_heartbeat heartbeat;
    struct mmul_mover mover;
    struct mmul_forecast outlook; // root only
    int arrived;                  // root: number of stages that have reported their outputs
    int computed, stored;         // number of stages computed and stored on this node
};

static void compute_on_thread(void *context) {
    struct mmul_run *run = ((struct threads *)context)->run;
    mmul_stopwatch_enter(&run->rank_resources.watch, &run->rank_resources.mine.compute_seconds);
    compute_stages(run);
    run->computed = mmul_clock_now();
    mmul_stopwatch_enter_at(&run->rank_resources.watch, NULL, run->computed);
    atomic_store(&run->compute_thread_has_ended, true);
}

static void store_on_thread(void *context) {
    struct mmul_run *run = ((struct threads *)context)->run;
    for (int i = 0; i < run->stage_count; i++)
        if (mmul_write_back_runs_here(&run->stages[i]))
            mmul_write_back_run(&run->stages[i]);
}

static void cancel_computing(void *context) {
    struct threads *threads = context;
    mmul_failure_void_traffic(
        &threads->run->rank_resources.failure); // the other ranks need not wait for this one
    atomic_store(&threads->run->compute_thread_has_ended, true);
}

// Returns false if more of the stage has to be computed and sent.
static bool is_stage_computed(struct mmul_stage *stage) {
    return stage->is.kind->note_computed == NULL || stage->is.kind->note_computed(stage);
}

static bool has_stage_left(const struct mmul_stage *stage) {
    return stage->is.kind->has_left == NULL || stage->is.kind->has_left(stage);
}

// Notes when this rank's node has computed and stored everything; its leader moves the blocks of C.
// Continues at the first stage that was unfinished in the previous call.
static void note_progress(struct threads *threads) {
    struct mmul_run *run = threads->run;
    const int count = run->stage_count;
    while (threads->computed < count && is_stage_computed(&run->stages[threads->computed]))
        threads->computed++;
    while (threads->stored < count && has_stage_left(&run->stages[threads->stored]))
        threads->stored++;
    double now = mmul_clock_now();
    if (threads->computed == count && run->node_computed == 0)
        run->node_computed = now;
    if (threads->stored == count && run->stored == 0)
        run->stored = now;
}

static void report_output(const struct mmul_run *run, int place) {
    const struct mmul_program_plan *plan = run->rank_resources.values->plan;
    const struct mmul_program_place *p = &plan->places[place];
    const struct mmul_operation *o = &plan->program->operations[p->operation];
    if (p->placement.kind == MMUL_PLACE_FILE && o->kind == MMUL_SAVE)
        run->calls->arrived(run->calls->arrived_context, o->output);
}

// Root: reports the outputs that finished stages have written.
static void report_outputs(struct threads *threads) {
    const struct mmul_run *run = threads->run;
    const struct mmul_program_plan *plan = run->rank_resources.values->plan;
    if (run->calls->arrived == NULL || mmul_failure_is_void(&run->rank_resources.failure))
        return;
    for (; threads->arrived < threads->mover.over; threads->arrived++) {
        const struct mmul_stage *stage = &run->stages[threads->arrived];
        report_output(run, plan->steps[stage->is.index].result);
        if (stage->is.also != NULL)
            report_output(run, stage->is.also->result);
    }
}

static enum mmul_poll_result attend_main_thread(void *context) {
    struct threads *threads = context;
    enum mmul_poll_result traffic = MMUL_POLL_FINISHED;
    mmul_heartbeat_poll(&threads->heartbeat);
    if (replace_hung_device(threads->run))
        return MMUL_POLL_ABANDONED;
    if (threads->run->rank_resources.context->comm->node_rank == 0)
        traffic = mmul_mover_poll(&threads->mover);
    note_progress(threads);
    mmul_device_usage_poll(threads->run->rank_resources.context, mmul_clock_now());
    if (threads->run->rank_resources.context->comm->rank == 0) {
        report_outputs(threads);
        mmul_forecast_report(&threads->outlook, threads->mover.over);
    }
    if (traffic == MMUL_POLL_IN_FLIGHT &&
        (atomic_load(&threads->run->compute_thread_has_ended) ||
         atomic_load(&threads->run->rank_resources.waits.is_waiting_for_traffic)))
        return MMUL_POLL_AWAITED;
    if (traffic != MMUL_POLL_FINISHED)
        return traffic;
    return atomic_load(&threads->run->compute_thread_has_ended) &&
                   mmul_steals_are_over(&threads->run->rank_resources)
               ? MMUL_POLL_FINISHED
               : MMUL_POLL_IDLE;
}

// Returns the first failure of this rank.
static enum mmul_status find_failure(const struct mmul_run *run, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (run->rank_resources.failure.err.status != MMUL_OK)
        status = (*err = run->rank_resources.failure.err).status;
    for (int i = 0; status == MMUL_OK && i < run->stage_count; i++)
        if (run->stages[i].is.kind->check != NULL)
            status = run->stages[i].is.kind->check(&run->stages[i], err);
    return status;
}

// Below this predicted time a run ends before a helper thread for one of its steps has even
// started.
static const double ALONE_SECONDS = 1e-3;

// Moves traffic where a thread waits that both computes and moves.
static bool attend_in_waits(void *context) {
    return attend_main_thread(context) == MMUL_POLL_PROGRESSED;
}

// Returns true if a CPU of a single rank computes everything, and so quickly that a second thread
// costs more than it gains.
static bool is_over_at_once(const struct mmul_run *run, bool writes_back) {
    static const double SECONDS = 3e-3;
    const struct mmul_context *context = run->rank_resources.context;
    return context->comm->size == 1 && mmul_device_is_trusted(context->device) &&
           mmul_device_can_borrow(context->device) && !writes_back &&
           run->rank_resources.values->plan->seconds < SECONDS;
}

enum mmul_status mmul_run_execute(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_comm *comm = run->rank_resources.context->comm;
    struct threads threads = {.run = run};
    struct mmul_recorder recorder = {.run = NULL};
    bool writes_back = false;
    for (int i = 0; i < run->stage_count; i++)
        writes_back |= mmul_write_back_runs_here(&run->stages[i]);
    const bool at_once = is_over_at_once(run, writes_back);
    const struct mmul_compute_thread pipeline = {
        .cancel = cancel_computing,
        .compute = compute_on_thread,
        .attend = attend_main_thread,
        .store = writes_back ? store_on_thread : NULL,
        .at_once = at_once,
        .is_alone = at_once && run->rank_resources.values->plan->seconds < ALONE_SECONDS,
        .eventcount = &run->rank_resources.progress->ranks[comm->node_rank].main_thread_eventcount,
        .context = &threads};
    enum mmul_status status = MMUL_OK;
    if (comm->node_rank == 0)
        status = mmul_mover_init(&threads.mover, &run->rank_resources, run->stages,
                                 run->stage_count, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, mmul_heartbeat_init(&threads.heartbeat, run, err), err);
    if (status == MMUL_OK) {
        mmul_trace_add(run->rank_resources.trace, MMUL_TRACE_SET_UP, run->rank_resources.begin, 0,
                       0);
        mmul_heartbeat_begin(&threads.heartbeat);
        run->rank_resources.waits.poll_traffic = at_once ? attend_in_waits : NULL;
        run->rank_resources.waits.context = &threads;
        if (comm->rank == 0)
            mmul_forecast_init(&threads.outlook, run, &threads.heartbeat);
        mmul_recorder_begin(&recorder, run);
        status = mmul_compute_thread_run(&pipeline, err);
        mmul_recorder_end(&recorder,
                          status != MMUL_OK || mmul_failure_is_void(&run->rank_resources.failure));
        run->rank_resources.waits.poll_traffic = NULL;
        mmul_heartbeat_end(&threads.heartbeat);
        mmul_device_usage_end_run(run->rank_resources.context,
                                  (double)atomic_load(&run->rank_resources.computed_flops));
        if (comm->rank == 0)
            mmul_forecast_end(&threads.outlook);
    }
    mmul_heartbeat_fini(&threads.heartbeat);
    // Until the node's last rank has computed, the wait is for that rank and not for the blocks.
    double moving = run->stored - fmax(run->computed, run->node_computed);
    run->rank_resources.mine.gather_seconds += fmax(moving, 0);
    if (status == MMUL_OK)
        status = find_failure(run, err);
    if (status == MMUL_OK && atomic_load(&recorder.was_stopped))
        status = mmul_fail(err, MMUL_ERR_STOPPED, "stopped by SIGINT: no result was written");
    mmul_mover_fini(&threads.mover);
    return mmul_comm_agree(comm, status, err);
}
