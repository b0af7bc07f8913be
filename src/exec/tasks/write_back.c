// SPDX-License-Identifier: MIT
// Slice sizes, published progress, and the loop that hands finished rows to the disk. The loop
// polls counters with short sleeps.
#include "exec/tasks/write_back.h"

#include "base/clock.h"
#include "base/integer.h"
#include "exec/steps/product.h"
#include "exec/steps/rank_resources.h"
#include "exec/tasks/work.h"
#include "io/output_file.h"

// Slices of 400 MB end 20 % sooner than one block, slices of 80 MB no sooner, because each is a
// product with packing of its own (measured: src/NOTES.md, "Files and disks").
static const int64_t SLICE_BYTES = 256 << 20;

// Bytes of one call: the disk's queue may be full, and a cancelled run should end soon.
static const int64_t CALL_BYTES = 16 << 20;

static const double NAP_SECONDS = 2e-3;

static bool can_write_back(const struct mmul_stage *stage) {
    return stage->writes_back;
}

int64_t mmul_write_back_slice_rows(const struct mmul_stage *stage) {
    if (!can_write_back(stage))
        return 0;
    const struct mmul_problem *p = &stage->schedule->problem;
    int64_t units = SLICE_BYTES / (p->n * mmul_problem_result_each(p));
    // Each slice packs the whole operand again, which pays only if C is larger by far.
    return units >= p->k ? units : 0;
}

int64_t mmul_journal_task_lines(const struct mmul_stage *stage) {
    // Each task packs the whole operand again: about 2 % with 1024 lines.
    static const int64_t least = 1024;
    const double interval = stage->rank_resources->options->journal_seconds;
    const struct mmul_schedule_rank *ranks = mmul_schedule_ranks(stage->schedule);
    int64_t lines = least;
    // Results that are not computed in place leave in rounds (plan/product/schedule_choose.c).
    if (!(interval > 0) || !stage->has_mapped_result)
        return 0;
    for (int i = 0; i < stage->schedule->size; i++)
        if (ranks[i].compute_seconds > 0)
            lines = mmul_max(lines, (int64_t)((double)(ranks[i].end - ranks[i].begin) * interval /
                                              ranks[i].compute_seconds));
    return lines;
}

void mmul_write_back_publish_rows(struct mmul_stage *stage, const struct mmul_task *task,
                                  struct mmul_region block) {
    struct mmul_stage_progress_rank *progress = &stage->progress->ranks[stage->comm->node_rank];
    if (can_write_back(stage) && task->end - task->begin == stage->schedule->problem.n)
        atomic_store(&progress->rows_complete,
                     block.matrix * mmul_problem_units(&stage->schedule->problem, MMUL_ROWS) +
                         block.row_end - stage->product->me->begin);
}

void mmul_write_back_publish_all(struct mmul_stage *stage, int node_rank) {
    if (!can_write_back(stage))
        return;
    const struct mmul_schedule_rank *rank =
        &mmul_schedule_ranks(stage->schedule)[stage->works->tasks[node_rank].rank];
    atomic_store(&stage->progress->ranks[node_rank].rows_complete, rank->end - rank->begin);
}

bool mmul_write_back_is_enabled(const struct mmul_stage *stage) {
    if (!can_write_back(stage))
        return false;
    const struct mmul_schedule *schedule = stage->schedule;
    const double each = (double)mmul_problem_result_each(&schedule->problem);
    return (double)schedule->problem.n * (double)schedule->total * each >= (double)SLICE_BYTES;
}

bool mmul_write_back_runs_here(const struct mmul_stage *stage) {
    return stage->comm->rank == 0 && mmul_write_back_is_enabled(stage);
}

// Starts the write of a rank's next rows. Returns true if there were any.
static bool write_next_rows(struct mmul_stage *stage, int rank,
                            struct mmul_stage_progress_rank *progress) {
    int64_t width = stage->schedule->problem.n;
    int64_t row_bytes = width * mmul_problem_result_each(&stage->schedule->problem);
    int64_t begin = atomic_load(&progress->rows_flushed);
    int64_t rows = mmul_max(1, CALL_BYTES / row_bytes);
    int64_t end = mmul_min(begin + rows, atomic_load(&progress->rows_complete));
    if (begin >= end)
        return false;
    int64_t first = mmul_schedule_ranks(stage->schedule)[rank].begin;
    double began = mmul_trace_now(stage->rank_resources->trace);
    mmul_output_start_write_back(stage->files.output, (first + begin) * width,
                                 (first + end) * width);
    mmul_trace_add(stage->rank_resources->trace, MMUL_TRACE_WRITE_BACK, began, end - begin,
                   (end - begin) * row_bytes);
    atomic_store(&progress->rows_flushed, end);
    return true;
}

void mmul_write_back_run(struct mmul_stage *stage) {
    const struct mmul_comm *comm = stage->comm;
    bool computing = true;
    while (computing && atomic_load(&stage->rank_resources->progress->cancelled) == 0) {
        struct mmul_stage_progress_rank *progress =
            stage->progress->ranks; // in the order of the node's ranks
        bool any = false;
        computing = false;
        for (int rank = 0; rank < comm->size; rank++) {
            if (comm->rank_node[rank] != comm->node_index)
                continue;
            computing |= atomic_load(&progress->passes_done) < stage->passes;
            any |= write_next_rows(stage, rank, progress++);
        }
        if (!any)
            mmul_clock_sleep(NAP_SECONDS);
    }
}
