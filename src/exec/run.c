// SPDX-License-Identifier: MIT
// One job from its plans to the stored results. Creates the stages, the transport, the segment, the
// worker; then two threads carry the stages out, and an agreement over world ends it. Commits no file:
// that is the caller's last step.
#include "exec/run.h"

#include <math.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/compute.h"
#include "exec/fallback.h"
#include "exec/mover.h"
#include "exec/pipeline.h"
#include "exec/pulse.h"
#include "exec/run_trace.h"
#include "exec/write_back.h"
#include "io/matrix_file.h"
#include "model/dtype.h"

// -------------------------------------------------------------------------------------- creating

static bool is_product(const struct mmul_stage *stage) {
    return stage->is.kind == MMUL_STAGE_PRODUCT;
}

// Nodes that take part in any of the products.
static enum mmul_status create_transport(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_comm *comm = run->context->comm;
    bool *works = NULL;
    enum mmul_status status = MMUL_ALLOCATE(works, comm->node_count, "nodes", err);
    status = mmul_comm_agree(comm, status, err);
    for (int i = 0; status == MMUL_OK && i < run->stage_count; i++)
        for (int node = 0; is_product(&run->stages[i]) && node < comm->node_count; node++)
            works[node] |= mmul_plan_nodes(run->stages[i].plan)[node].takes_part;
    if (status == MMUL_OK)
        status = mmul_transport_init(comm, works, &run->failure, &run->transport, err);
    mmul_free(works);
    return status;
}

static enum mmul_status create_stages(struct mmul_run *run, const struct mmul_run_request *request,
                                      struct mmul_error *err) {
    enum mmul_status status = MMUL_ALLOCATE(run->stages, request->stage_count, "stages", err);
    for (int i = 0; status == MMUL_OK && i < request->stage_count; i++) {
        run->stage_count = i + 1;
        status = mmul_stage_init(&run->stages[i], run, i, &request->stages[i], err);
    }
    return status;
}

// A device whose kernels do not build is replaced like one that fails later.
static enum mmul_status warm_up(struct mmul_run *run, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < run->stage_count; i++) {
        const struct mmul_worker_options options = mmul_stage_worker_options(&run->stages[i]);
        if (run->stages[i].tile.m > 0)
            status = mmul_context_warm_up(
                run->context, mmul_dtype_computed(options.a_dtype, options.b_dtype), err);
    }
    if (status != MMUL_OK)
        status = mmul_context_fall_back(run->context, run->args->no_fallback, err);
    return status;
}

static void share_memory(struct mmul_run *run, struct mmul_segment_size *size) {
    int ends[MMUL_SEGMENT_PARTS] = {0};
    for (int i = 0; i < run->stage_count; i++) {
        struct mmul_stage *stage = &run->stages[i];
        const int part = mmul_segment_size_add(size, is_product(stage), stage->layout.bytes);
        stage->memory_part = part;
        stage->memory_needs = ends[part];
        ends[part] = i + 1;
    }
}

// Counters first; then memory of the stages.
static enum mmul_status create_segment(struct mmul_run *run, struct mmul_error *err) {
    struct mmul_segment_size size = {.stages = 0};
    const int ranks = run->context->comm->node_size;
    int64_t begins[MMUL_SEGMENT_PARTS];
    int64_t at = MMUL_RUN_COUNTERS + (int64_t)ranks * MMUL_RUN_COUNTERS_EACH;
    share_memory(run, &size);
    enum mmul_status status = mmul_shared_create(
        run->context->comm, mmul_segment_size_bytes(&size, ranks, begins), &run->segment, err);
    if (status != MMUL_OK)
        return status;
    run->progress =
        (struct mmul_run_progress *)(void *)run->segment.data; // zeroed: nothing is done
    run->failure.shared = &run->progress->cancelled;
    for (int i = 0; i < run->stage_count; i++, at += mmul_stage_progress_bytes(ranks)) {
        struct mmul_stage *stage = &run->stages[i];
        stage->progress = (struct mmul_stage_progress *)(void *)(run->segment.data + at);
        stage->memory = run->segment.data + begins[stage->memory_part];
    }
    return MMUL_OK;
}

static enum mmul_status open_views(struct mmul_run *run, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < run->stage_count; i++)
        status = mmul_stage_open_views(&run->stages[i], err);
    return status;
}

static enum mmul_status create_works(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_worker_options options = mmul_stage_worker_options(&run->stages[0]);
    enum mmul_status status = mmul_worker_init(&run->worker, run->context, &options, err);
    for (int i = 0; status == MMUL_OK && i < run->stage_count; i++)
        if (is_product(&run->stages[i]))
            status = mmul_works_init(&run->stages[i], err);
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
    made->context = context;
    made->args = request->args;
    made->values = request->values;
    made->records = request->records;
    made->transport = MMUL_TRANSPORT_NONE;
    mmul_deadline_init(&made->deadline, context, made->args->device_timeout_seconds,
                       made->args->no_fallback);
    status = mmul_comm_agree(comm, create_stages(made, request, err), err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, create_transport(made, err), err);
    mmul_stopwatch_enter(&context->watch, &context->startup.warm_up_seconds);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, warm_up(made, err), err);
    made->begin = mmul_clock_now(); // the device is warm: the clock starts
    mmul_stopwatch_enter_at(&context->watch, NULL, made->begin);
    mmul_stopwatch_enter_at(&made->watch, &made->mine.setup_seconds, made->begin);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, create_segment(made, err), err);
    if (status == MMUL_OK)
        status = mmul_run_create_trace(made, err);
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
    mmul_worker_fini(&run->worker);
    mmul_chain_room_fini(&run->chain_room);
    mmul_verifier_room_fini(&run->verifier_room);
    mmul_check_destroy(run->grid_room.check);
    for (int i = 0; i < run->stage_count; i++)
        mmul_stage_fini(&run->stages[i]);
    mmul_transport_fini(&run->transport);
    // A lost device's driver, or MPI, may still read and write what it was given.
    if (!run->deadline.has_abandoned && !mmul_comm_is_broken(run->context->comm))
        mmul_shared_destroy(&run->segment);
    mmul_trace_destroy(run->trace);
    mmul_free(run->stages);
    mmul_free(run);
}

bool mmul_run_has_work(const struct mmul_run *run, int rank) {
    bool any = false;
    for (int i = 0; i < run->stage_count; i++) {
        const struct mmul_stage *stage = &run->stages[i];
        const struct mmul_plan_rank *part =
            is_product(stage) ? &mmul_plan_ranks(stage->plan)[rank] : NULL;
        any |= part != NULL ? part->end > part->begin : stage->tile.m > 0;
    }
    return any;
}

// --------------------------------------------------------------------------------------- running

// The threads of a rank.
struct threads {
    struct mmul_run *run;
    struct mmul_pulse pulse;
    struct mmul_mover mover;
    double told; // root: clock when its user was told how far it is
};

static void compute(void *context) {
    struct mmul_run *run = ((struct threads *)context)->run;
    mmul_stopwatch_enter(&run->watch, &run->mine.compute_seconds);
    mmul_run_compute(run);
    run->computed = mmul_clock_now();
    mmul_stopwatch_enter_at(&run->watch, NULL, run->computed);
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

// Root, whose node computes into the mapped file.
static void count_mapped(struct mmul_stage *stage) {
    int64_t bytes = 0, each = mmul_problem_result_each(&stage->plan->problem);
    for (int i = 0; i < stage->run->context->comm->node_size; i++)
        bytes += each * atomic_load(&stage->progress->ranks[i].elements_done);
    if (bytes > stage->mapped_bytes)
        mmul_files_count(&stage->files, bytes - stage->mapped_bytes);
    stage->mapped_bytes = bytes;
}

// Have all ranks of the node computed all of it, has all of it left?
static bool is_computed(const struct mmul_stage *stage) {
    bool computed = true;
    for (int i = 0; i < stage->run->context->comm->node_size; i++)
        computed &= atomic_load(&stage->progress->ranks[i].steps_done) >= stage->layout.steps;
    return computed;
}

static bool is_stored(const struct mmul_stage *stage) {
    return stage->layout.node->result_bytes == 0 || stage->is.places.c >= 0 ||
           atomic_load(&stage->progress->results_stored) >= stage->layout.steps;
}

// What is counted of this rank's node, whose leader moves the blocks of C.
static void note_progress(struct mmul_run *run) {
    bool computed = true, stored = true;
    for (int i = 0; i < run->stage_count; i++) {
        struct mmul_stage *stage = &run->stages[i];
        if (!is_product(stage))
            continue;
        if (stage->mapped.c != NULL && run->context->comm->rank == 0)
            count_mapped(stage);
        computed &= is_computed(stage);
        stored &= is_stored(stage);
    }
    double now = mmul_clock_now();
    if (computed && run->node_computed == 0)
        run->node_computed = now;
    if (stored && run->stored == 0)
        run->stored = now;
}

// Of a value, all of it.
static double result_bytes(const struct mmul_stage *stage) {
    const struct mmul_program_plan *plan = stage->run->values->plan;
    const struct mmul_value *value =
        &plan->program->values[plan->places[plan->steps[stage->is.index].result].value];
    return (double)mmul_shape_matrices(value->shape) * (double)value->shape.rows *
           (double)value->shape.cols * (double)mmul_dtype_bytes(value->dtype);
}

// Root, of a program: stages that are over, and what the ranks here have computed of the next one.
static void tell_progress(struct threads *threads) {
    const struct mmul_run *run = threads->run;
    const int ranks = run->context->comm->node_size;
    double done = 0, total = 0, now = mmul_clock_now();
    if (run->args->progress == NULL || run->values == NULL || now - threads->told < 0.1)
        return;
    threads->told = now;
    for (int i = 0; i < run->stage_count; i++) {
        const struct mmul_stage *stage = &run->stages[i];
        double bytes = result_bytes(stage);
        int64_t steps = 0,
                all = i == threads->mover.over && is_product(stage) ? stage->layout.steps : 0;
        for (int rank = 0; all > 0 && rank < ranks; rank++)
            steps += atomic_load(&stage->progress->ranks[rank].steps_done);
        done += i < threads->mover.over ? bytes
                : all > 0               ? bytes * (double)steps / (double)(all * ranks)
                                        : 0;
        total += bytes;
    }
    run->args->progress(run->args->progress_context, "run", (int64_t)done, (int64_t)total);
}

static enum mmul_attention attend(void *context) {
    struct threads *threads = context;
    enum mmul_attention traffic = MMUL_ATTEND_FINISHED;
    mmul_pulse_attend(&threads->pulse);
    if (mmul_run_give_up_device(threads->run))
        return MMUL_ATTEND_ABANDONED;
    if (threads->run->context->comm->node_rank == 0)
        traffic = mmul_mover_attend(&threads->mover);
    note_progress(threads->run);
    if (threads->run->context->comm->rank == 0)
        tell_progress(threads);
    if (traffic != MMUL_ATTEND_FINISHED)
        return traffic;
    return atomic_load(&threads->run->has_computed) ? MMUL_ATTEND_FINISHED : MMUL_ATTEND_NOTHING;
}

// Root. All blocks were right, each for the numbers it was made from: whether those were the same for
// all, nobody can tell.
static void warn_of_writers(const struct mmul_stage *stage) {
    const struct mmul_matmul *args = stage->args;
    const struct mmul_matrix *inputs[] = {args->a, args->b, args->beta != 0 ? args->c_in : NULL};
    for (int i = 0; i < 3; i++)
        if (inputs[i] != NULL && mmul_matrix_was_written(inputs[i]))
            mmul_context_warn(stage->run->context,
                              "'%s' was written to while it was used: the result may be partly "
                              "of its old and partly of its new numbers",
                              mmul_matrix_name(inputs[i]));
}

// What this rank has met.
static enum mmul_status find_failure(const struct mmul_run *run, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (run->failure.err.status != MMUL_OK)
        status = (*err = run->failure.err).status;
    for (int i = 0; status == MMUL_OK && i < run->stage_count; i++)
        status = mmul_views_check(&run->stages[i].views, err);
    return status;
}

static bool writes_back(const struct mmul_run *run) {
    bool any = false;
    for (int i = 0; i < run->stage_count; i++)
        any |= mmul_write_back_is_here(&run->stages[i]);
    return any;
}

enum mmul_status mmul_run_stages(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_comm *comm = run->context->comm;
    struct threads threads = {.run = run};
    const struct mmul_pipeline pipeline = {.cancel = cancel,
                                           .compute = compute,
                                           .attend = attend,
                                           .store = writes_back(run) ? store : NULL,
                                           .context = &threads};
    enum mmul_status status = MMUL_OK;
    if (comm->node_rank == 0)
        status = mmul_mover_init(&threads.mover, run, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, mmul_pulse_init(&threads.pulse, run, err), err);
    if (status == MMUL_OK) {
        mmul_trace_add(run->trace, MMUL_TRACE_SET_UP, run->begin, 0, 0);
        mmul_pulse_begin(&threads.pulse);
        status = mmul_pipeline_run(&pipeline, err);
        mmul_pulse_end(&threads.pulse);
    }
    mmul_pulse_fini(&threads.pulse);
    // Until the node's last rank has computed it is that rank that is waited for, not the blocks.
    double moving = run->stored - fmax(run->computed, run->node_computed);
    run->mine.gather_seconds += fmax(moving, 0);
    if (status == MMUL_OK)
        status = find_failure(run, err);
    mmul_mover_fini(&threads.mover);
    status = mmul_comm_agree(comm, status, err);
    for (int i = 0; status == MMUL_OK && comm->rank == 0 && i < run->stage_count; i++)
        if (is_product(&run->stages[i]))
            warn_of_writers(&run->stages[i]);
    return status;
}
