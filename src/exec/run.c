// SPDX-License-Identifier: MIT
// One job from the plan to the gathered result: scatter, multiply, check, gather, one after the
// other. Every step that a rank can fail alone ends in an agreement over world. Commits no file:
// that is the caller's last step.
#include "exec/run.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"

enum { PAGE = 4096 };

static int64_t next_page(int64_t at) {
    return (at + PAGE - 1) / PAGE * PAGE;
}

// -------------------------------------------------------------------------------------- creating

// Whole operand, pieces, C_in, result; the parts of a node's ranks follow one another in each.
static struct mmul_run_layout lay_out(const struct mmul_plan *plan, int rank) {
    const struct mmul_plan_rank *ranks = mmul_plan_ranks(plan);
    const struct mmul_plan_node *node = &mmul_plan_nodes(plan)[ranks[rank].node];
    struct mmul_run_layout layout = {0};
    int64_t units = 0, all_units = 0;
    for (int i = 0; i < plan->size; i++) {
        if (ranks[i].node != ranks[rank].node)
            continue;
        units += i < rank ? ranks[i].end - ranks[i].begin : 0;
        all_units += ranks[i].end - ranks[i].begin;
    }
    layout.pieces = next_page(layout.whole + node->whole_bytes);
    layout.c_in = next_page(layout.pieces + node->piece_bytes);
    layout.result = next_page(layout.c_in + node->c_in_bytes);
    layout.bytes = all_units > 0 ? next_page(layout.result + node->result_bytes) : 0;
    if (all_units > 0) {
        layout.piece_at = layout.pieces + node->piece_bytes / all_units * units;
        layout.c_in_at = layout.c_in + node->c_in_bytes / all_units * units;
        layout.result_at = layout.result + node->result_bytes / all_units * units;
    }
    return layout;
}

static enum mmul_status create_team(struct mmul_run *run, struct mmul_error *err) {
    bool *works = NULL;
    enum mmul_status status =
        mmul_allocate(run->plan->node_count, sizeof *works, "nodes", (void **)&works, err);
    status = mmul_comm_agree(run->context->comm, status, err);
    for (int i = 0; status == MMUL_OK && i < run->plan->node_count; i++)
        works[i] = mmul_plan_nodes(run->plan)[i].result_bytes > 0;
    if (status == MMUL_OK)
        status = mmul_team_create(run->context->comm, works, &run->team, err);
    mmul_free(works);
    return status;
}

// Work space of this rank; local.
static enum mmul_status create_work_space(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_problem *p = &run->plan->problem;
    enum mmul_status status = mmul_allocate(run->plan->node_count, sizeof *run->sizes, "sizes",
                                            (void **)&run->sizes, err);
    if (status == MMUL_OK && run->context->comm->rank == 0)
        status = mmul_allocate_raw(run->plan->round_bytes, 1, "a round", &run->round, err);
    if (status != MMUL_OK || run->args->no_verify || run->me->end == run->me->begin)
        return status;
    return mmul_verifier_init(&run->verifier, p->m, p->n, p->k, run->plan->verify_seed, err);
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

static enum mmul_status create_worker(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_problem *p = &run->plan->problem;
    struct mmul_tile none = {0};
    return mmul_worker_init(&run->worker, run->context, p->alpha != 0 ? run->me->tile : none,
                            p->a_dtype, p->b_dtype, run->args->no_fallback, err);
}

static void borrow_files(struct mmul_run *run) {
    const struct mmul_matmul *args = run->args;
    bool rows = run->plan->axis == MMUL_ROWS;
    run->streams = (struct mmul_streams){.plan = run->plan,
                                         .split = rows ? args->a : args->b,
                                         .whole = rows ? args->b : args->a,
                                         .c_in = args->c_in,
                                         .output = args->output,
                                         .progress = args->progress,
                                         .progress_context = args->progress_context};
}

enum mmul_status mmul_run_create(struct mmul_context *context, const struct mmul_matmul *args,
                                 const struct mmul_plan *plan, struct mmul_run **run,
                                 struct mmul_error *err) {
    struct mmul_run *made = NULL;
    enum mmul_status status = mmul_allocate(1, sizeof *made, "a run", (void **)&made, err);
    status = mmul_comm_agree(context->comm, status, err);
    if (status != MMUL_OK) {
        mmul_free(made); // nothing in it yet
        return status;
    }
    made->context = context;
    made->plan = plan;
    made->args = args;
    made->me = &mmul_plan_ranks(plan)[context->comm->rank];
    made->team.mpi = MPI_COMM_NULL;
    made->replacements_before = context->replacements;
    made->layout = lay_out(plan, context->comm->rank);
    borrow_files(made);
    status = mmul_comm_agree(context->comm, create_team(made, err), err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(context->comm, create_work_space(made, err), err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(context->comm, warm_up(made, err), err);
    made->begin = mmul_clock_now(); // the device is warm: the clock starts
    if (status == MMUL_OK)
        status = mmul_comm_agree(
            context->comm,
            mmul_shared_create(context->comm, made->layout.bytes, &made->segment, err), err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(context->comm, create_worker(made, err), err);
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
    mmul_team_destroy(&run->team);
    mmul_shared_destroy(&run->segment);
    mmul_free(run->round);
    mmul_free(run->sizes);
    mmul_free(run);
}

// ---------------------------------------------------------------------------------- moving bytes

// The arguments of one stream; `offset` is where it begins in the segment.
static struct mmul_stream_args stream_args(struct mmul_run *run, enum mmul_stream stream,
                                           int64_t offset, struct mmul_stream_end *end) {
    int64_t total = 0;
    mmul_stream_sizes(run->plan, stream, run->sizes);
    for (int node = 0; node < (stream == MMUL_STREAM_WHOLE ? 1 : run->plan->node_count); node++)
        total += run->sizes[node];
    *end = mmul_streams_begin(&run->streams, stream, total);
    return (struct mmul_stream_args){
        .team = &run->team,
        .bytes = run->sizes,
        .mine = run->segment.data ? run->segment.data + offset : NULL,
        .end = end,
        .round = run->round,
        .round_bytes = run->plan->round_bytes > 0 ? run->plan->round_bytes : MMUL_ROUND_BYTES};
}

// Leaders receive their nodes' parts. A failure is kept while the later streams run.
static enum mmul_status load_operands(struct mmul_run *run, struct mmul_error *err) {
    struct mmul_stream_end end;
    struct mmul_error later;
    struct mmul_stream_args args = stream_args(run, MMUL_STREAM_PIECES, run->layout.pieces, &end);
    enum mmul_status status = mmul_panels_scatter(&args, err), next;
    args = stream_args(run, MMUL_STREAM_C_IN, run->layout.c_in, &end);
    next = mmul_panels_scatter(&args, status == MMUL_OK ? err : &later);
    status = status == MMUL_OK ? next : status;
    args = stream_args(run, MMUL_STREAM_WHOLE, run->layout.whole, &end);
    next = mmul_panels_broadcast(&args, status == MMUL_OK ? err : &later);
    return status == MMUL_OK ? next : status;
}

static enum mmul_status store_result(struct mmul_run *run, struct mmul_error *err) {
    struct mmul_stream_end end;
    struct mmul_stream_args args = stream_args(run, MMUL_STREAM_RESULT, run->layout.result, &end);
    return mmul_panels_gather(&args, err);
}

// ------------------------------------------------------------------------------------- computing

// The index-th segment of this rank as a product in the node's shared memory.
static struct mmul_product segment_product(const struct mmul_run *run, struct mmul_segment s) {
    const struct mmul_plan *plan = run->plan;
    const struct mmul_problem *p = &plan->problem;
    bool rows = plan->axis == MMUL_ROWS;
    int64_t units = s.end - s.begin, width = mmul_problem_result_width(p, plan->axis);
    struct mmul_shape stored = mmul_problem_whole_shape(p, plan->axis);
    const char *data = run->segment.data;
    const void *piece =
        data + run->layout.piece_at +
        s.part_offset * p->k * (int64_t)mmul_dtype_bytes(mmul_problem_split_dtype(p, plan->axis));
    const void *whole = data + run->layout.whole +
                        mmul_problem_whole_matrix(p, plan->axis, s.matrix) * stored.rows *
                            stored.cols *
                            (int64_t)mmul_dtype_bytes(mmul_problem_whole_dtype(p, plan->axis));
    struct mmul_product product = {
        .transpose_a = p->transpose_a,
        .transpose_b = p->transpose_b,
        .m = rows ? units : p->m,
        .n = rows ? p->n : units,
        .k = p->k,
        .alpha = p->alpha,
        .beta = p->beta,
        .a_dtype = p->a_dtype,
        .b_dtype = p->b_dtype,
        .c_in = (const float *)(const void *)(data + run->layout.c_in_at) + s.part_offset * width,
        .c = (float *)(void *)(run->segment.data + run->layout.result_at) + s.part_offset * width,
    };
    if (p->alpha != 0) {
        product.a = rows ? piece : whole;
        product.b = rows ? whole : piece;
    }
    product.lda = p->transpose_a ? product.m : p->k; // pieces are packed, wholes are as stored,
    product.ldb = p->transpose_b ? p->k : product.n; // and a whole operand's side is m or n itself
    product.ldc = product.ldc_in = product.n;
    return product;
}

static enum mmul_status multiply_and_check(struct mmul_run *run, struct mmul_segment s,
                                           struct mmul_error *err) {
    const struct mmul_product product = segment_product(run, s);
    char place[96];
    double begin = mmul_clock_now();
    enum mmul_status status = mmul_worker_multiply(&run->worker, &product, err);
    double computed = mmul_clock_now();
    run->mine.compute_seconds += computed - begin;
    if (status != MMUL_OK || run->args->no_verify)
        return status;
    snprintf(place, sizeof place, "%s %lld-%lld of matrix %lld",
             run->plan->axis == MMUL_ROWS ? "rows" : "columns", (long long)s.begin,
             (long long)s.end, (long long)s.matrix);
    status = mmul_verifier_check(&run->verifier, &run->worker, &product, place, err);
    run->mine.verify_seconds += mmul_clock_now() - computed;
    return status;
}

static enum mmul_status multiply_part(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_problem *p = &run->plan->problem;
    int64_t begin = run->me->begin, end = run->me->end;
    int64_t count = mmul_segment_count(p, run->plan->axis, begin, end);
    enum mmul_status status = MMUL_OK;
    for (int64_t i = 0; status == MMUL_OK && i < count; i++)
        status = multiply_and_check(run, mmul_segment_at(p, run->plan->axis, begin, end, i), err);
    return status;
}

enum mmul_status mmul_run_steps(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_comm *comm = run->context->comm;
    double begin = mmul_clock_now();
    enum mmul_status status = mmul_comm_agree(comm, load_operands(run, err), err);
    run->mine.scatter_seconds = mmul_clock_now() - begin;
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, multiply_part(run, err), err);
    begin = mmul_clock_now();
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, store_result(run, err), err);
    run->mine.gather_seconds = mmul_clock_now() - begin;
    return status;
}
