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
#include "exec/conduct/heartbeat.h"
#include "exec/conduct/outlook.h"
#include "exec/memory/spare.h"
#include "exec/setup/board.h"
#include "exec/setup/effort.h"
#include "exec/setup/fallback.h"
#include "exec/setup/pipeline.h"
#include "exec/steps/stage_work.h"
#include "exec/tasks/loans.h"
#include "exec/tasks/work.h"
#include "exec/tasks/write_back.h"
#include "exec/traffic/mover.h"
#include "io/matrix_file.h"
#include "model/dtype.h"

// ---------------------------------------------------------------------------------------- creating

// Creates the transport for the nodes that take part in any product with a schedule.
static enum mmul_status create_transport(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_comm *comm = run->site.context->comm;
    bool *works = NULL;
    enum mmul_status status =
        mmul_comm_agree(comm, MMUL_ALLOCATE(works, comm->node_count, "nodes", err), err);
    for (int i = 0; status == MMUL_OK && i < run->stage_count; i++)
        for (int node = 0; run->stages[i].is.schedule != NULL && node < comm->node_count; node++)
            works[node] |= mmul_schedule_nodes(run->stages[i].is.schedule)[node].takes_part;
    if (status == MMUL_OK)
        status = mmul_transport_init(comm, works, &run->site.failure, &run->site.transport, err);
    mmul_free(works);
    return status;
}

static enum mmul_status create_stages(struct mmul_run *run, const struct mmul_run_request *request,
                                      struct mmul_error *err) {
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("stages", err, MMUL_WANT(run->stages, request->stage_count),
                          MMUL_WANT(run->site.makers, run->site.values->plan->place_count));
    if (status == MMUL_OK && request->options->records)
        status = MMUL_ALLOCATE(run->parts, request->stage_count, "a record", err);
    for (int i = 0; status == MMUL_OK && i < request->stage_count; i++) {
        run->stage_count = i + 1;
        status = mmul_stage_init(&run->stages[i], &run->site, i, &request->stages[i], err);
        if (request->stages[i].panels_of >= 0)
            run->stages[i].panels_from = &run->stages[request->stages[i].panels_of];
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

// Returns what other nodes may compute of a stage (exec/tasks/lending.h).
static enum mmul_lends find_lends(const struct mmul_run *run, const struct mmul_stage *stage) {
    const struct mmul_schedule *schedule = stage->is.schedule;
    if (schedule == NULL || schedule->claim_share == 0 || stage->comm->node_count == 1)
        return MMUL_LENDS_NOTHING;
    if (schedule->lends)
        return stage->plan->lends_nothing ? MMUL_LENDS_NOTHING : MMUL_LENDS_VALUES;
    return run->stage_count == 1 && stage->is.step->fused_count == 0 ? MMUL_LENDS_MAPPED
                                                                     : MMUL_LENDS_NOTHING;
}

static enum mmul_status create_loans(struct mmul_run *run, struct mmul_error *err) {
    int64_t bytes = 0;
    for (int i = 0; i < run->stage_count; i++) {
        struct mmul_stage *stage = &run->stages[i];
        stage->lends = find_lends(run, stage);
        if (stage->lends == MMUL_LENDS_VALUES)
            bytes =
                mmul_larger(bytes, mmul_schedule_loan_bytes(stage->is.schedule, stage->comm->rank));
        if (stage->lends != MMUL_LENDS_NOTHING)
            run->site.lends = stage->lends;
    }
    return mmul_loans_create(&run->site, bytes, err);
}

// Warms up the device. If its kernels do not build, the device is replaced like one that fails
// later.
static enum mmul_status warm_up(struct mmul_run *run, struct mmul_error *err) {
    double most[MMUL_DTYPES] = {0}; // by type: m n k of the largest product
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < run->stage_count; i++) {
        const struct mmul_worker_options options = mmul_stage_worker_options(&run->stages[i]);
        const struct mmul_tile tile = options.tile;
        double *largest = &most[mmul_dtype_computed(options.a_dtype, options.b_dtype)];
        *largest = fmax(*largest, (double)tile.m * (double)tile.n * (double)tile.k);
    }
    for (int i = 0; status == MMUL_OK && i < MMUL_DTYPES; i++)
        if (most[i] > 0)
            status = mmul_context_warm_up(run->site.context, (enum mmul_dtype)i, most[i], err);
    if (status != MMUL_OK)
        status = mmul_context_fall_back(run->site.context, run->site.options->no_fallback, err);
    return status;
}

static void wake_sleepers(void *context) {
    mmul_progress_rouse(context);
}

// Provides the node's segment. A small segment is kept for the next run if every node has one:
// creating it takes longer than many a loop iteration.
static enum mmul_status take_segment(struct mmul_run *run, int64_t bytes, struct mmul_error *err) {
    enum { SMALL = 1 << 18 };
    bool is_new;
    if (!run->site.values->plan->is_repeated)
        return mmul_shared_create(run->site.context->comm, bytes, &run->site.segment, err);
    run->leaves_segment = bytes <= SMALL;
    return mmul_spare_take(run->site.context, MMUL_SPARE_RUN, bytes, &run->site.segment, &is_new,
                           err);
}

// Creates the segment and lays it out: counters first, then the memory of the stages.
static enum mmul_status create_segment(struct mmul_run *run, struct mmul_error *err) {
    struct mmul_segment_size size = {.stages = 0};
    const int ranks = run->site.context->comm->node_size;
    int64_t begins[MMUL_SEGMENT_PARTS];
    int64_t at = MMUL_RUN_COUNTERS + (int64_t)ranks * MMUL_RUN_COUNTERS_EACH;
    int ends[MMUL_SEGMENT_PARTS] = {0};
    for (int i = 0; i < run->stage_count; i++) {
        struct mmul_stage *stage = &run->stages[i];
        const int part = mmul_segment_size_add(
            &size, mmul_program_segment_user(stage->plan, stage->is.step), stage->bytes);
        stage->memory_part = part;
        stage->memory_needs = ends[part];
        ends[part] = i + 1;
    }
    enum mmul_status status = take_segment(run, mmul_segment_size_bytes(&size, ranks, begins), err);
    if (status != MMUL_OK)
        return status;
    // Zeroed memory: nothing is done yet.
    run->site.progress = (struct mmul_run_progress *)(void *)run->site.segment.data;
    run->site.progress->rank_count = ranks;
    run->site.failure.shared = &run->site.progress->cancelled;
    run->site.failure.rouse = wake_sleepers;
    run->site.failure.context = run->site.progress;
    for (int i = 0; i < run->stage_count; i++, at += mmul_stage_progress_bytes(ranks)) {
        struct mmul_stage *stage = &run->stages[i];
        stage->progress = (struct mmul_stage_progress *)(void *)(run->site.segment.data + at);
        stage->memory = run->site.segment.data + begins[stage->memory_part];
    }
    return MMUL_OK;
}

static enum mmul_status create_works(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_worker_options options = mmul_stage_worker_options(&run->stages[0]);
    enum mmul_status status = mmul_worker_init(&run->site.worker, run->site.context, &options, err);
    if (status == MMUL_OK)
        status = mmul_works_create_turns(&run->site, err);
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
    made->site.context = context;
    made->site.options = request->options;
    made->calls = request->calls;
    made->site.values = request->values;
    made->site.transport = MMUL_TRANSPORT_NONE;
    mmul_watchdog_init(&made->site.watchdog, context, made->site.options->device_timeout_seconds,
                       made->site.options->no_fallback);
    status = create_stages(made, request, err);
    if (status == MMUL_OK)
        status = create_loans(made, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, create_transport(made, err), err);
    mmul_board_enter(context, "warm up");
    mmul_stopwatch_enter(&context->watch, &context->startup.warm_up_seconds);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, warm_up(made, err), err);
    mmul_effort_begin_run(context, request->values->plan->seconds);
    made->site.begin = mmul_clock_now(); // the device is warm: the clock starts
    mmul_stopwatch_enter_at(&context->watch, NULL, made->site.begin);
    mmul_stopwatch_enter_at(&made->site.watch, &made->site.mine.setup_seconds, made->site.begin);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, create_segment(made, err), err);
    if (status == MMUL_OK)
        status = mmul_run_create_trace(&made->site, err);
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
    mmul_worker_fini(&run->site.worker);
    mmul_epilogue_room_fini(&run->site.epilogue_room);
    mmul_verifier_room_fini(&run->site.verifier_room);
    mmul_check_destroy(run->site.grid_room.check);
    for (int i = 0; i < run->stage_count; i++)
        mmul_stage_fini(&run->stages[i]);
    mmul_works_destroy_turns(&run->site);
    mmul_transport_fini(&run->site.transport);
    // The driver of a lost device, or MPI, may still access the memory it was given.
    const bool keeps =
        run->site.watchdog.has_abandoned || mmul_comm_is_broken(run->site.context->comm);
    mmul_loans_destroy(&run->site, keeps);
    if (!keeps && run->leaves_segment)
        mmul_spare_put(run->site.context, MMUL_SPARE_RUN, &run->site.segment);
    else if (!keeps)
        mmul_shared_destroy(&run->site.segment);
    mmul_trace_destroy(run->site.trace);
    mmul_free(run->site.makers);
    mmul_free(run->parts);
    mmul_free(run->stages);
    mmul_free(run);
}

// --------------------------------------------------------------------------------------- computing

// Passed to is_over and has_come of a stage kind: waits for a counter on behalf of the current
// stage.
static bool wait_for_counter(void *context, int rank, const _Atomic int64_t *counter,
                             int64_t goal) {
    struct mmul_stage *stage = context;
    return mmul_stage_wait(stage, rank, counter, goal, &stage->site->mine.scatter_seconds, -1);
}

// Waits until all ranks of the node have done their part of the first `stages` stages.
static bool wait_for_node(struct mmul_stage *stage, int stages) {
    struct mmul_site *site = stage->site;
    bool done = true;
    for (int i = 0; done && i < site->context->comm->node_size; i++)
        done = mmul_stage_wait(stage, i, &site->progress->ranks[i].stages_done, stages,
                               &site->mine.scatter_seconds, -1);
    return done;
}

// Drops cached data about the memory of a step's results: a device or the check may still hold
// copies of an earlier value there.
static void forget_memory(struct mmul_stage *stage, const struct mmul_program_step *step) {
    for (int i = 0; i < mmul_program_result_count(step); i++) {
        const int place = mmul_program_step_result(stage->plan, step, i);
        if (place < 0)
            continue;
        const struct mmul_memory memory = mmul_values_memory(stage->site->values, place);
        if (memory.begin == NULL)
            continue;
        mmul_worker_forget_memory(&stage->site->worker, memory.begin, memory.end);
        mmul_verifier_forget_memory(&stage->site->verifier_room, memory.begin, memory.end);
    }
}

// Keeps the first failure. An error in the data of an operation is prefixed with the place in the
// program text.
static void keep_failure(struct mmul_stage *stage, const struct mmul_error *failed) {
    const struct mmul_program_step *step = stage->is.step;
    const char *origin = "";
    struct mmul_error err = *failed;
    if (err.status == MMUL_ERR_DATA)
        origin = mmul_step_operation(stage->site->values->plan, step)->origin;
    if (origin[0] != '\0')
        mmul_fail(&err, failed->status, "%s: %s", origin, failed->text);
    mmul_failure_keep(&stage->site->failure, &err);
}

// Computes late parts of other ranks in the stages before `stages`, instead of waiting for these
// ranks.
static void help_other_ranks(struct mmul_run *run, int stages) {
    struct mmul_error err; // a replaced device leaves its message in it
    for (int i = run->stages_over; i < stages; i++) {
        struct mmul_stage *stage = run->helped = &run->stages[i];
        if (stage->is.kind->help != NULL && stage->is.kind->help(stage, &err) != MMUL_OK)
            keep_failure(stage, &err);
    }
    run->helped = NULL;
}

// Waits for a move to arrive and checks it. Its computing seconds count as copying. False: the run
// was cancelled.
static bool receive_move(struct mmul_run *run, struct mmul_stage *move) {
    struct mmul_report_rank *mine = &run->site.mine;
    struct mmul_error err;
    mmul_stopwatch_enter(&run->site.watch, &mine->compute_seconds);
    const double computing_before = mine->compute_seconds;
    if (!move->is.kind->has_come(move, wait_for_counter, move))
        return false;
    if (move->is.kind->receive(move, &err) != MMUL_OK)
        keep_failure(move, &err);
    mmul_stopwatch_enter(&run->site.watch, &mine->compute_seconds);
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
    help_other_ranks(run, (int)mmul_larger(stage->index - 1, stage->node_needs));
    for (; run->stages_over < stage->index - 1; run->stages_over++)
        if (!mmul_stage_is_behind(run->stages, run->stages_over, wait_for_counter, stage))
            return false;
    if (!wait_for_node(stage, stage->node_needs))
        return false;
    if (stage->index > 0 && !receive_due_moves(run, stage->index))
        return false;
    if (stage->is.kind->begin != NULL)
        stage->is.kind->begin(stage);
    forget_memory(stage, stage->is.step);
    if (stage->is.also != NULL)
        forget_memory(stage, stage->is.also);
    const struct mmul_worker_options options = mmul_stage_worker_options(stage);
    if (mmul_worker_turn(&run->site.worker, &options, &err) == MMUL_OK)
        return true;
    mmul_failure_keep(&run->site.failure, &err);
    return false;
}

// Waits for what each stage and task needs, multiplies, checks, and counts finished work. A failure
// goes to run->site.failure and cancels the node's other work. May be called again, and then
// continues with the current stage.
static void compute_stages(struct mmul_run *run) {
    const int rank = run->site.context->comm->node_rank;
    struct mmul_report_rank *mine = &run->site.mine;
    struct mmul_report_part part = {0};
    if (run->parts != NULL) {
        mmul_stopwatch_enter(&run->site.watch, &mine->compute_seconds);
        part = mmul_run_begin_part(run);
    }
    for (; run->stage_at_hand < run->stage_count; run->stage_at_hand++) {
        struct mmul_stage *stage = &run->stages[run->stage_at_hand];
        struct mmul_error err; // a replaced device leaves its message in it
        if (run->site.trace != NULL)
            atomic_store(&run->site.trace->stage, run->stage_at_hand);
        if (stage->is.kind->copies) // adds the running interval to the sum
            mmul_stopwatch_enter(&run->site.watch, &mine->compute_seconds);
        const double computing_before = mine->compute_seconds;
        if (!stage->is_begun && !begin_stage(run, stage))
            return;
        stage->is_begun = true;
        if (stage->is.kind->compute(stage, &err) != MMUL_OK)
            keep_failure(stage, &err);
        if (mmul_stage_is_cancelled(stage))
            return;
        if (run->parts != NULL || stage->is.kind->copies)
            mmul_stopwatch_enter(&run->site.watch, &mine->compute_seconds);
        // Before the counter rises: another rank may be through with the next stage at once.
        if (run->parts != NULL)
            mmul_run_end_part(run, stage->index, &part);
        if (stage->is.kind->copies) { // the time counted as computing since then
            mine->copy_seconds += mine->compute_seconds - computing_before;
            mine->compute_seconds = computing_before;
        }
        mmul_progress_raise(run->site.progress, rank, &run->site.progress->ranks[rank].stages_done,
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
        mmul_failure_void(&run->site.failure);
    }
    return true;
}

// ----------------------------------------------------------------------------------------- running

// State of the threads of a rank.
struct threads {
    struct mmul_run *run;
    struct mmul_heartbeat heartbeat;
    struct mmul_mover mover;
    struct mmul_outlook outlook; // root only
    int arrived;                 // root: number of stages that have reported their outputs
    int computed, stored;        // number of stages computed and stored on this node
};

static void compute_on_thread(void *context) {
    struct mmul_run *run = ((struct threads *)context)->run;
    mmul_stopwatch_enter(&run->site.watch, &run->site.mine.compute_seconds);
    compute_stages(run);
    run->computed = mmul_clock_now();
    mmul_stopwatch_enter_at(&run->site.watch, NULL, run->computed);
    atomic_store(&run->has_computed, true);
}

static void store_on_thread(void *context) {
    struct mmul_run *run = ((struct threads *)context)->run;
    for (int i = 0; i < run->stage_count; i++)
        if (mmul_write_back_is_here(&run->stages[i]))
            mmul_write_back(&run->stages[i]);
}

static void cancel_computing(void *context) {
    struct threads *threads = context;
    mmul_failure_void(&threads->run->site.failure); // the other ranks need not wait for this one
    atomic_store(&threads->run->has_computed, true);
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
    const struct mmul_program_plan *plan = run->site.values->plan;
    const struct mmul_program_place *p = &plan->places[place];
    const struct mmul_operation *o = &plan->program->operations[p->operation];
    if (p->placement.kind == MMUL_PLACE_FILE && o->kind == MMUL_SAVE)
        run->calls->arrived(run->calls->arrived_context, o->output);
}

// Root: reports the outputs that finished stages have written.
static void report_outputs(struct threads *threads) {
    const struct mmul_run *run = threads->run;
    const struct mmul_program_plan *plan = run->site.values->plan;
    if (run->calls->arrived == NULL || mmul_failure_is_void(&run->site.failure))
        return;
    for (; threads->arrived < threads->mover.over; threads->arrived++) {
        const struct mmul_stage *stage = &run->stages[threads->arrived];
        report_output(run, plan->steps[stage->is.index].result);
        if (stage->is.also != NULL)
            report_output(run, stage->is.also->result);
    }
}

static enum mmul_attention attend_main_thread(void *context) {
    struct threads *threads = context;
    enum mmul_attention traffic = MMUL_ATTEND_FINISHED;
    mmul_heartbeat_attend(&threads->heartbeat);
    if (replace_hung_device(threads->run))
        return MMUL_ATTEND_ABANDONED;
    if (threads->run->site.context->comm->node_rank == 0)
        traffic = mmul_mover_attend(&threads->mover);
    note_progress(threads);
    mmul_effort_attend(threads->run->site.context, mmul_clock_now());
    if (threads->run->site.context->comm->rank == 0) {
        report_outputs(threads);
        mmul_outlook_tell(&threads->outlook, threads->mover.over);
    }
    if (traffic == MMUL_ATTEND_UNDER_WAY && (atomic_load(&threads->run->has_computed) ||
                                             atomic_load(&threads->run->site.waits.for_traffic)))
        return MMUL_ATTEND_AWAITED;
    if (traffic != MMUL_ATTEND_FINISHED)
        return traffic;
    return atomic_load(&threads->run->has_computed) && mmul_loans_are_over(&threads->run->site)
               ? MMUL_ATTEND_FINISHED
               : MMUL_ATTEND_NOTHING;
}

// Returns the first failure of this rank.
static enum mmul_status find_failure(const struct mmul_run *run, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (run->site.failure.err.status != MMUL_OK)
        status = (*err = run->site.failure.err).status;
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
    return attend_main_thread(context) == MMUL_ATTEND_MOVED;
}

// Returns true if a CPU of a single rank computes everything, and so quickly that a second thread
// costs more than it gains.
static bool is_over_at_once(const struct mmul_run *run, bool writes_back) {
    static const double SECONDS = 3e-3;
    const struct mmul_context *context = run->site.context;
    return context->comm->size == 1 && mmul_device_is_trusted(context->device) &&
           mmul_device_can_borrow(context->device) && !writes_back &&
           run->site.values->plan->seconds < SECONDS;
}

enum mmul_status mmul_run_stages(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_comm *comm = run->site.context->comm;
    struct threads threads = {.run = run};
    bool writes_back = false;
    for (int i = 0; i < run->stage_count; i++)
        writes_back |= mmul_write_back_is_here(&run->stages[i]);
    const bool at_once = is_over_at_once(run, writes_back);
    const struct mmul_pipeline pipeline = {
        .cancel = cancel_computing,
        .compute = compute_on_thread,
        .attend = attend_main_thread,
        .store = writes_back ? store_on_thread : NULL,
        .at_once = at_once,
        .is_alone = at_once && run->site.values->plan->seconds < ALONE_SECONDS,
        .bell = &run->site.progress->ranks[comm->node_rank].attending,
        .context = &threads};
    enum mmul_status status = MMUL_OK;
    if (comm->node_rank == 0)
        status = mmul_mover_init(&threads.mover, &run->site, run->stages, run->stage_count, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, mmul_heartbeat_init(&threads.heartbeat, run, err), err);
    if (status == MMUL_OK) {
        mmul_trace_add(run->site.trace, MMUL_TRACE_SET_UP, run->site.begin, 0, 0);
        mmul_heartbeat_begin(&threads.heartbeat);
        run->site.waits.meanwhile = at_once ? attend_in_waits : NULL;
        run->site.waits.context = &threads;
        if (comm->rank == 0)
            mmul_outlook_init(&threads.outlook, run, &threads.heartbeat);
        status = mmul_pipeline_run(&pipeline, err);
        run->site.waits.meanwhile = NULL;
        mmul_heartbeat_end(&threads.heartbeat);
        mmul_effort_end_run(run->site.context, (double)atomic_load(&run->site.computed_flops));
        if (comm->rank == 0)
            mmul_outlook_end(&threads.outlook);
    }
    mmul_heartbeat_fini(&threads.heartbeat);
    // Until the node's last rank has computed, the wait is for that rank and not for the blocks.
    double moving = run->stored - fmax(run->computed, run->node_computed);
    run->site.mine.gather_seconds += fmax(moving, 0);
    if (status == MMUL_OK)
        status = find_failure(run, err);
    mmul_mover_fini(&threads.mover);
    return mmul_comm_agree(comm, status, err);
}
