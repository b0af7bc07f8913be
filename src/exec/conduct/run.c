// SPDX-License-Identifier: MIT
// One job from its plans to the stored results. Creates the stages, the transport, the segment, the
// worker; then two threads carry the stages out, and an agreement over world ends it. Commits no file:
// that is the caller's last step.
#include "exec/conduct/run.h"

#include <math.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/conduct/compute.h"
#include "exec/conduct/heartbeat.h"
#include "exec/conduct/outlook.h"
#include "exec/conduct/run_trace.h"
#include "exec/setup/fallback.h"
#include "exec/setup/pipeline.h"
#include "exec/tasks/work.h"
#include "exec/tasks/write_back.h"
#include "exec/traffic/mover.h"
#include "io/matrix_file.h"
#include "model/dtype.h"

// -------------------------------------------------------------------------------------- creating

// Nodes that take part in any of the products.
static enum mmul_status create_transport(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_comm *comm = run->site.context->comm;
    bool *works = NULL;
    enum mmul_status status = MMUL_ALLOCATE(works, comm->node_count, "nodes", err);
    status = mmul_comm_agree(comm, status, err);
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
    enum mmul_status status = MMUL_ALLOCATE(run->stages, request->stage_count, "stages", err);
    if (status == MMUL_OK)
        status =
            MMUL_ALLOCATE(run->site.makers, run->site.values->plan->place_count, "stages", err);
    if (status == MMUL_OK && request->options->records)
        status = MMUL_ALLOCATE(run->parts, request->stage_count, "a record", err);
    for (int i = 0; status == MMUL_OK && i < request->stage_count; i++) {
        run->stage_count = i + 1;
        status = mmul_stage_init(&run->stages[i], &run->site, i, &request->stages[i], err);
        if (request->stages[i].panels_of >= 0)
            run->stages[i].panels_from = &run->stages[request->stages[i].panels_of];
    }
    // Of programs nothing is lent (exec/tasks/lending.h).
    const struct mmul_stage_request *first = request->stages;
    if (status == MMUL_OK && run->stage_count == 1 && first->schedule != NULL &&
        first->step->fused_count == 0 && first->schedule->claim_share > 0)
        run->site.lent = &run->stages[0];
    return status;
}

// A device whose kernels do not build is replaced like one that fails later.
static enum mmul_status warm_up(struct mmul_run *run, struct mmul_error *err) {
    double most[MMUL_DTYPES] = {0}; // of a type: m n k of the largest product
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

static void share_memory(struct mmul_run *run, struct mmul_segment_size *size) {
    int ends[MMUL_SEGMENT_PARTS] = {0};
    for (int i = 0; i < run->stage_count; i++) {
        struct mmul_stage *stage = &run->stages[i];
        const int part = mmul_segment_size_add(size, stage->is.schedule != NULL, stage->bytes);
        stage->memory_part = part;
        stage->memory_needs = ends[part];
        ends[part] = i + 1;
    }
}

static void rouse(void *context) {
    mmul_progress_rouse(context);
}

// Counters first; then memory of the stages.
static enum mmul_status create_segment(struct mmul_run *run, struct mmul_error *err) {
    struct mmul_segment_size size = {.stages = 0};
    const int ranks = run->site.context->comm->node_size;
    int64_t begins[MMUL_SEGMENT_PARTS];
    int64_t at = MMUL_RUN_COUNTERS + (int64_t)ranks * MMUL_RUN_COUNTERS_EACH;
    share_memory(run, &size);
    enum mmul_status status =
        mmul_shared_create(run->site.context->comm, mmul_segment_size_bytes(&size, ranks, begins),
                           &run->site.segment, err);
    if (status != MMUL_OK)
        return status;
    run->site.progress =
        (struct mmul_run_progress *)(void *)run->site.segment.data; // zeroed: nothing is done
    run->site.progress->rank_count = ranks;
    run->site.failure.shared = &run->site.progress->cancelled;
    run->site.failure.rouse = rouse;
    run->site.failure.context = run->site.progress;
    for (int i = 0; i < run->stage_count; i++, at += mmul_stage_progress_bytes(ranks)) {
        struct mmul_stage *stage = &run->stages[i];
        stage->progress = (struct mmul_stage_progress *)(void *)(run->site.segment.data + at);
        stage->memory = run->site.segment.data + begins[stage->memory_part];
    }
    return MMUL_OK;
}

static enum mmul_status open_views(struct mmul_run *run, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < run->stage_count; i++)
        if (run->stages[i].is.kind->open != NULL)
            status = run->stages[i].is.kind->open(&run->stages[i], err);
    return status;
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
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "a run", err);
    status = mmul_comm_agree(comm, status, err);
    if (status != MMUL_OK) {
        mmul_free(made); // nothing in it yet
        return status;
    }
    made->site.context = context;
    made->site.options = request->options;
    made->calls = request->calls;
    made->site.values = request->values;
    made->site.transport = MMUL_TRANSPORT_NONE;
    mmul_watchdog_init(&made->site.watchdog, context, made->site.options->device_timeout_seconds,
                       made->site.options->no_fallback);
    status = mmul_comm_agree(comm, create_stages(made, request, err), err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, create_transport(made, err), err);
    mmul_stopwatch_enter(&context->watch, &context->startup.warm_up_seconds);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, warm_up(made, err), err);
    made->site.begin = mmul_clock_now(); // the device is warm: the clock starts
    mmul_stopwatch_enter_at(&context->watch, NULL, made->site.begin);
    mmul_stopwatch_enter_at(&made->site.watch, &made->site.mine.setup_seconds, made->site.begin);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, create_segment(made, err), err);
    if (status == MMUL_OK)
        status = mmul_run_create_trace(&made->site, err);
    if (status == MMUL_OK)
        status = open_views(made, err);
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
    // A lost device's driver, or MPI, may still read and write what it was given.
    if (!run->site.watchdog.has_abandoned && !mmul_comm_is_broken(run->site.context->comm))
        mmul_shared_destroy(&run->site.segment);
    mmul_trace_destroy(run->site.trace);
    mmul_free(run->site.makers);
    mmul_free(run->parts);
    mmul_free(run->stages);
    mmul_free(run);
}

// --------------------------------------------------------------------------------------- running

// The threads of a rank.
struct threads {
    struct mmul_run *run;
    struct mmul_heartbeat heartbeat;
    struct mmul_mover mover;
    struct mmul_outlook outlook; // root's
    int arrived;                 // root: stages whose outputs are told of
    int computed, stored;        // so many stages are, on this node
};

static void compute(void *context) {
    struct mmul_run *run = ((struct threads *)context)->run;
    mmul_stopwatch_enter(&run->site.watch, &run->site.mine.compute_seconds);
    mmul_run_compute(run);
    run->computed = mmul_clock_now();
    mmul_stopwatch_enter_at(&run->site.watch, NULL, run->computed);
    atomic_store(&run->has_computed, true);
}

static void store(void *context) {
    struct mmul_run *run = ((struct threads *)context)->run;
    for (int i = 0; i < run->stage_count; i++)
        if (mmul_write_back_is_here(&run->stages[i]))
            mmul_write_back(&run->stages[i]);
}

static void cancel(void *context) {
    struct threads *threads = context;
    mmul_run_cancel(threads->run);
    atomic_store(&threads->run->has_computed, true);
}

// False: there is more to be computed of it, and to leave.
static bool is_computed(struct mmul_stage *stage) {
    return stage->is.kind->note_computed == NULL || stage->is.kind->note_computed(stage);
}

static bool has_left(const struct mmul_stage *stage) {
    return stage->is.kind->has_left == NULL || stage->is.kind->has_left(stage);
}

// What is counted of this rank's node, whose leader moves the blocks of C: from the first stage on of which not all was
// when it was looked at before.
static void note_progress(struct threads *threads) {
    struct mmul_run *run = threads->run;
    const int count = run->stage_count;
    while (threads->computed < count && is_computed(&run->stages[threads->computed]))
        threads->computed++;
    while (threads->stored < count && has_left(&run->stages[threads->stored]))
        threads->stored++;
    double now = mmul_clock_now();
    if (threads->computed == count && run->node_computed == 0)
        run->node_computed = now;
    if (threads->stored == count && run->stored == 0)
        run->stored = now;
}

static void tell_of_output(const struct mmul_run *run, int place) {
    const struct mmul_program_plan *plan = run->site.values->plan;
    const struct mmul_program_place *p = &plan->places[place];
    const struct mmul_operation *o = &plan->program->operations[p->operation];
    if (p->placement.kind == MMUL_PLACE_FILE && o->kind == MMUL_SAVE)
        run->calls->arrived(run->calls->arrived_context, o->output);
}

// Root: what its stages that are over have brought to outputs.
static void tell_arrivals(struct threads *threads) {
    const struct mmul_run *run = threads->run;
    const struct mmul_program_plan *plan = run->site.values->plan;
    if (run->calls->arrived == NULL || mmul_failure_is_void(&run->site.failure))
        return;
    for (; threads->arrived < threads->mover.over; threads->arrived++) {
        const struct mmul_stage *stage = &run->stages[threads->arrived];
        tell_of_output(run, plan->steps[stage->is.index].result);
        if (stage->is.also != NULL)
            tell_of_output(run, stage->is.also->result);
    }
}

static enum mmul_attention attend(void *context) {
    struct threads *threads = context;
    enum mmul_attention traffic = MMUL_ATTEND_FINISHED;
    mmul_heartbeat_attend(&threads->heartbeat);
    if (mmul_run_give_up_device(threads->run))
        return MMUL_ATTEND_ABANDONED;
    if (threads->run->site.context->comm->node_rank == 0)
        traffic = mmul_mover_attend(&threads->mover);
    note_progress(threads);
    if (threads->run->site.context->comm->rank == 0) {
        tell_arrivals(threads);
        mmul_outlook_tell(&threads->outlook, threads->run, threads->mover.over);
    }
    if (traffic != MMUL_ATTEND_FINISHED)
        return traffic;
    return atomic_load(&threads->run->has_computed) ? MMUL_ATTEND_FINISHED : MMUL_ATTEND_NOTHING;
}

// What this rank has met.
static enum mmul_status find_failure(const struct mmul_run *run, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (run->site.failure.err.status != MMUL_OK)
        status = (*err = run->site.failure.err).status;
    for (int i = 0; status == MMUL_OK && i < run->stage_count; i++)
        if (run->stages[i].is.kind->check != NULL)
            status = run->stages[i].is.kind->check(&run->stages[i], err);
    return status;
}

static bool writes_back(const struct mmul_run *run) {
    bool any = false;
    for (int i = 0; i < run->stage_count; i++)
        any |= mmul_write_back_is_here(&run->stages[i]);
    return any;
}

enum mmul_status mmul_run_stages(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_comm *comm = run->site.context->comm;
    struct threads threads = {.run = run};
    const struct mmul_pipeline pipeline = {
        .cancel = cancel,
        .compute = compute,
        .attend = attend,
        .store = writes_back(run) ? store : NULL,
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
        if (comm->rank == 0)
            mmul_outlook_init(&threads.outlook, run);
        status = mmul_pipeline_run(&pipeline, err);
        mmul_heartbeat_end(&threads.heartbeat);
    }
    mmul_heartbeat_fini(&threads.heartbeat);
    // Until the node's last rank has computed it is that rank that is waited for, not the blocks.
    double moving = run->stored - fmax(run->computed, run->node_computed);
    run->site.mine.gather_seconds += fmax(moving, 0);
    if (status == MMUL_OK)
        status = find_failure(run, err);
    mmul_mover_fini(&threads.mover);
    status = mmul_comm_agree(comm, status, err);
    for (int i = 0; status == MMUL_OK && comm->rank == 0 && i < run->stage_count; i++)
        if (run->stages[i].is.kind->end != NULL)
            run->stages[i].is.kind->end(&run->stages[i]);
    return status;
}
