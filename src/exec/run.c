// SPDX-License-Identifier: MIT
// One job from the plan to the stored result. Creates the transport, the segment, the worker; then two
// threads carry the schedule out, and an agreement over world ends it. Commits no file: that is the
// caller's last step.
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
#include "plan/panels.h"

// -------------------------------------------------------------------------------------- creating

static enum mmul_status create_transport(struct mmul_run *run, struct mmul_error *err) {
    bool *works = NULL;
    enum mmul_status status = MMUL_ALLOCATE(works, run->plan->node_count, "nodes", err);
    status = mmul_comm_agree(run->context->comm, status, err);
    for (int i = 0; status == MMUL_OK && i < run->plan->node_count; i++)
        works[i] = mmul_plan_nodes(run->plan)[i].result_bytes > 0;
    if (status == MMUL_OK)
        status =
            mmul_transport_init(run->context->comm, works, &run->failure, &run->transport, err);
    mmul_free(works);
    return status;
}

static enum mmul_axis other_axis(enum mmul_axis axis) {
    return axis == MMUL_ROWS ? MMUL_COLS : MMUL_ROWS;
}

// The rank's own, also where another device computes: those it would use itself.
static struct mmul_parallel threads_of(const struct mmul_run *run) {
    return (struct mmul_parallel){run->context->fallback_threads, mmul_pipeline_share};
}

// For the lines of its largest task, and so for what it may claim at once.
static enum mmul_status create_verifier(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_plan *plan = run->plan;
    const struct mmul_problem *p = &plan->problem;
    int64_t panel = mmul_panels_at_once(p, plan->axis, plan->panel_units, run->layout.node->maps);
    bool whole = run->layout.node->checks_whole;
    return mmul_verifier_init(
        &run->verifier,
        &(struct mmul_verifier_request){.axis = whole ? other_axis(plan->axis) : plan->axis,
                                        .piece_units_max = whole ? panel : run->lines_most,
                                        .panel_units_max = whole ? run->lines_most : panel,
                                        .k_max = p->k,
                                        .piece_count = 1,
                                        .seed = plan->verify_seed,
                                        .watch = {mmul_run_look, run},
                                        .parallel = threads_of(run)},
        err);
}

// Work space of this rank; local.
static enum mmul_status create_work_space(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_comm *comm = run->context->comm;
    enum mmul_status status = mmul_layout_init(&run->layout, run->plan, comm->node_index,
                                               mmul_run_progress_bytes(comm->node_size), err);
    run->lines_most =
        mmul_smaller((run->me->end - run->me->begin + run->plan->rounds - 1) / run->plan->rounds,
                     mmul_problem_units(&run->plan->problem, run->plan->axis));
    if (status != MMUL_OK || run->args->no_verify || run->lines_most == 0)
        return status;
    return create_verifier(run, err);
}

// A device whose kernels do not build is replaced like one that fails later.
static enum mmul_status warm_up(struct mmul_run *run, struct mmul_error *err) {
    if (run->plan->problem.alpha == 0 || run->me->end == run->me->begin)
        return MMUL_OK;
    enum mmul_status status = mmul_context_warm_up(run->context, err);
    if (status != MMUL_OK)
        status = mmul_context_fall_back(run->context, run->args->no_fallback, err);
    return status;
}

static enum mmul_status create_segment(struct mmul_run *run, struct mmul_error *err) {
    enum mmul_status status =
        mmul_shared_create(run->context->comm, run->layout.bytes, &run->segment, err);
    if (status == MMUL_OK && run->segment.data != NULL) {
        run->progress =
            (struct mmul_run_progress *)(void *)run->segment.data; // zeroed: nothing done yet
        run->failure.shared = &run->progress->cancelled;
    }
    return status;
}

// What the plan wants to be used where it lies.
static enum mmul_status open_views(struct mmul_run *run, struct mmul_error *err) {
    bool rows = run->plan->axis == MMUL_ROWS;
    unsigned *maps = NULL;
    enum mmul_status status = MMUL_ALLOCATE(maps, run->plan->node_count, "nodes", err);
    status = mmul_comm_agree(run->context->comm, status, err);
    for (int i = 0; status == MMUL_OK && i < run->plan->node_count; i++)
        maps[i] = mmul_plan_nodes(run->plan)[i].maps;
    if (status == MMUL_OK)
        status = mmul_views_open(run->context, run->args, maps, &run->views, err);
    mmul_free(maps);
    const struct mmul_views *v = &run->views;
    run->mapped = (struct mmul_mapped){.split = rows ? v->a.data : v->b.data,
                                       .whole = rows ? v->b.data : v->a.data,
                                       .c_in = v->c_in.data,
                                       .c = v->c.data};
    return status;
}

static enum mmul_status create_worker(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_problem *p = &run->plan->problem;
    struct mmul_worker_options options = {.a_dtype = p->a_dtype,
                                          .b_dtype = p->b_dtype,
                                          .no_fallback = run->args->no_fallback,
                                          .trace = run->trace};
    if (p->alpha != 0)
        options.tile = run->me->tile;
    return mmul_worker_init(&run->worker, run->context, &options, err);
}

static void borrow_files(struct mmul_run *run) {
    const struct mmul_matmul *args = run->args;
    bool rows = run->plan->axis == MMUL_ROWS;
    run->files = (struct mmul_files){.plan = run->plan,
                                     .split = rows ? args->a : args->b,
                                     .whole = rows ? args->b : args->a,
                                     .c_in = args->c_in,
                                     .output = args->output,
                                     .progress = args->progress,
                                     .progress_context = args->progress_context};
    run->files.result_bytes = run->plan->total * (int64_t)sizeof(float) *
                              mmul_problem_result_width(&run->plan->problem, run->plan->axis);
}

enum mmul_status mmul_run_create(struct mmul_context *context, const struct mmul_matmul *args,
                                 const struct mmul_plan *plan, struct mmul_run **run,
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
    made->plan = plan;
    made->args = args;
    made->me = &mmul_plan_ranks(plan)[comm->rank];
    made->transport = MMUL_TRANSPORT_NONE;
    mmul_deadline_init(&made->deadline, context, args->device_timeout_seconds, args->no_fallback);
    borrow_files(made);
    status = mmul_comm_agree(comm, create_transport(made, err), err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, create_work_space(made, err), err);
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
        status = mmul_comm_agree(comm, create_worker(made, err), err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, mmul_works_init(made, err), err);
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
    mmul_verifier_fini(&run->verifier);
    mmul_works_fini(&run->works);
    mmul_transport_fini(&run->transport);
    if (!run->deadline.has_abandoned) { // its driver may still read what it was given
        mmul_views_close(&run->views);
        mmul_shared_destroy(&run->segment);
    }
    mmul_layout_fini(&run->layout);
    mmul_trace_destroy(run->trace);
    mmul_free(run);
}

// --------------------------------------------------------------------------------------- running

// The threads of a rank.
struct threads {
    struct mmul_run *run;
    struct mmul_pulse pulse;
    struct mmul_mover mover;
};

static void compute(void *context) {
    struct mmul_run *run = ((struct threads *)context)->run;
    mmul_stopwatch_enter(&run->watch, &run->mine.compute_seconds);
    if (run->progress != NULL)
        mmul_run_compute(run);
    run->computed = mmul_clock_now();
    mmul_stopwatch_enter_at(&run->watch, NULL, run->computed);
    atomic_store(&run->has_computed, true);
}

static void store(void *context) {
    mmul_write_back(((struct threads *)context)->run);
}

static void cancel(void *context) {
    struct threads *threads = context;
    mmul_run_cancel(threads->run);
    atomic_store(&threads->run->has_computed, true);
}

// Root, whose node computes into the mapped file.
static void count_mapped(struct mmul_run *run) {
    int64_t bytes = 0;
    for (int i = 0; i < run->context->comm->node_size; i++)
        bytes += (int64_t)sizeof(float) * atomic_load(&run->progress->ranks[i].elements_done);
    if (bytes > run->mapped_bytes)
        mmul_files_count(&run->files, bytes - run->mapped_bytes);
    run->mapped_bytes = bytes;
}

// What is counted of this rank's node, whose leader moves the blocks of C.
static void note_progress(struct mmul_run *run) {
    bool computed = true;
    if (run->progress != NULL && run->mapped.c != NULL && run->context->comm->rank == 0)
        count_mapped(run);
    for (int i = 0; run->progress != NULL && i < run->context->comm->node_size; i++)
        computed &= atomic_load(&run->progress->ranks[i].steps_done) >= run->layout.steps;
    bool stored =
        run->progress == NULL || atomic_load(&run->progress->results_stored) >= run->layout.steps;
    double now = mmul_clock_now();
    if (computed && run->node_computed == 0)
        run->node_computed = now;
    if (stored && run->stored == 0)
        run->stored = now;
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
    if (traffic != MMUL_ATTEND_FINISHED)
        return traffic;
    return atomic_load(&threads->run->has_computed) ? MMUL_ATTEND_FINISHED : MMUL_ATTEND_NOTHING;
}

// Root. All blocks were right, each for the numbers it was made from: whether those were the same for
// all, nobody can tell.
static void warn_of_writers(struct mmul_run *run) {
    const struct mmul_matmul *args = run->args;
    const struct mmul_matrix *inputs[] = {args->a, args->b, args->beta != 0 ? args->c_in : NULL};
    for (int i = 0; i < 3; i++)
        if (inputs[i] != NULL && mmul_matrix_was_written(inputs[i]))
            mmul_context_warn(run->context,
                              "'%s' was written to while it was used: the result may be partly "
                              "of its old and partly of its new numbers",
                              mmul_matrix_name(inputs[i]));
}

enum mmul_status mmul_run_steps(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_comm *comm = run->context->comm;
    struct threads threads = {.run = run};
    const struct mmul_pipeline pipeline = {.cancel = cancel,
                                           .compute = compute,
                                           .attend = attend,
                                           .store = mmul_write_back_is_here(run) ? store : NULL,
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
    if (status == MMUL_OK && run->failure.err.status != MMUL_OK)
        status = (*err = run->failure.err).status;
    if (status == MMUL_OK)
        status = mmul_views_check(&run->views, err);
    mmul_mover_fini(&threads.mover);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK && comm->rank == 0)
        warn_of_writers(run);
    return status;
}
