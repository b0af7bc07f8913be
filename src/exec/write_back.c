// SPDX-License-Identifier: MIT
// Slices of C, and the loop that follows them. Waits in naps for counters, as the others do.
#include "exec/write_back.h"

#include "base/clock.h"
#include "base/integer.h"
#include "io/output_file.h"

// Measured with 1.6 GB on a disk of 2 GB/s: slices of 400 MB end 20 % sooner than one block, those of
// 80 MB as soon or later, for each is a product with packing of its own.
static const int64_t SLICE_BYTES = 256 << 20;

// What one call hands over: the disk's queue may be full, and a cancelled run should end.
static const int64_t CALL_BYTES = 16 << 20;

static const double NAP_SECONDS = 2e-3;

static bool applies(const struct mmul_run *run) {
    return run->views.writes_back && run->plan->axis == MMUL_ROWS;
}

int64_t mmul_write_back_slice(const struct mmul_run *run) {
    const struct mmul_problem *p = &run->plan->problem;
    int64_t units = SLICE_BYTES / (p->n * (int64_t)sizeof(float));
    // Each slice meets the whole operand anew: worth it where C is larger by far.
    return applies(run) && units >= p->k ? units : 0;
}

// Of the rows of all matrices.
static int64_t row_of(const struct mmul_run *run, int64_t matrix, int64_t row) {
    return matrix * mmul_problem_units(&run->plan->problem, run->plan->axis) + row;
}

void mmul_write_back_tell(struct mmul_run *run, const struct mmul_task *task,
                          struct mmul_segment segment) {
    struct mmul_run_progress_rank *progress = &run->progress->ranks[run->context->comm->node_rank];
    bool whole = task->end - task->begin == run->plan->problem.n;
    if (applies(run) && whole)
        atomic_store(&progress->rows_complete,
                     row_of(run, segment.matrix, segment.end) - run->me->begin);
}

void mmul_write_back_end(struct mmul_run *run, int node_rank) {
    const struct mmul_plan_rank *rank =
        &mmul_plan_ranks(run->plan)[run->works.tasks[node_rank].rank];
    if (applies(run))
        atomic_store(&run->progress->ranks[node_rank].rows_complete, rank->end - rank->begin);
}

bool mmul_write_back_is_here(const struct mmul_run *run) {
    const struct mmul_problem *p = &run->plan->problem;
    double bytes = (double)p->n * (double)run->plan->total * sizeof(float);
    return run->context->comm->rank == 0 && run->progress != NULL && run->views.writes_back &&
           run->plan->axis == MMUL_ROWS && bytes >= (double)SLICE_BYTES;
}

// A rank's next stretch; true when there was one.
static bool hand_over(struct mmul_run *run, int rank, struct mmul_run_progress_rank *progress) {
    int64_t width = run->plan->problem.n;
    int64_t begin = atomic_load(&progress->rows_handed_over);
    int64_t rows = mmul_larger(1, CALL_BYTES / (width * (int64_t)sizeof(float)));
    int64_t end = mmul_smaller(begin + rows, atomic_load(&progress->rows_complete));
    if (begin >= end)
        return false;
    int64_t first = mmul_plan_ranks(run->plan)[rank].begin;
    double began = mmul_trace_now(run->trace);
    mmul_output_write_back(run->args->output, (first + begin) * width, (first + end) * width);
    mmul_trace_add(run->trace, MMUL_TRACE_WRITE_BACK, began, end - begin,
                   (end - begin) * width * (int64_t)sizeof(float));
    atomic_store(&progress->rows_handed_over, end);
    return true;
}

void mmul_write_back(struct mmul_run *run) {
    const struct mmul_comm *comm = run->context->comm;
    bool computing = true;
    while (computing && atomic_load(&run->progress->cancelled) == 0) {
        struct mmul_run_progress_rank *progress =
            run->progress->ranks; // in the order of the node's ranks
        bool any = false;
        computing = false;
        for (int rank = 0; rank < comm->size; rank++) {
            if (comm->rank_node[rank] != comm->node_index)
                continue;
            computing |= atomic_load(&progress->steps_done) < run->layout.steps;
            any |= hand_over(run, rank, progress++);
        }
        if (!any)
            mmul_clock_nap(NAP_SECONDS);
    }
}
