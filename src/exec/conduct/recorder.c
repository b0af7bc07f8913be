// SPDX-License-Identifier: MIT
// Collects finished regions until the interval is over, joins neighbours, and records them.
#include "exec/conduct/recorder.h"

#include "base/clock.h"
#include "base/memory.h"
#include "exec/memory/completed.h"
#include "exec/steps/product.h"
#include "io/output_journal.h"

enum { PENDING_MOST = 1024 };

// Time between two looks. The queues hold 64 regions each.
static const double LOOK_SECONDS = 0.01;

// Joins two regions that are neighbours along one axis. Returns false if they are not.
static bool join_regions(struct mmul_region *x, const struct mmul_region *y) {
    const bool same_rows = x->row_begin == y->row_begin && x->row_end == y->row_end;
    const bool same_cols = x->col_begin == y->col_begin && x->col_end == y->col_end;
    if (x->matrix != y->matrix)
        return false;
    if (same_cols && x->row_end == y->row_begin)
        x->row_end = y->row_end;
    else if (same_rows && x->col_end == y->col_begin)
        x->col_end = y->col_end;
    else
        return false;
    return true;
}

static void add_pending(struct mmul_recorder *recorder, const struct mmul_region *region) {
    for (int64_t i = 0; i < recorder->pending_count; i++)
        if (join_regions(&recorder->pending[i], region))
            return;
    if (recorder->pending_count < PENDING_MOST)
        recorder->pending[recorder->pending_count++] = *region;
}

static void collect(struct mmul_recorder *recorder) {
    const struct mmul_rank_resources *resources = &recorder->run->rank_resources;
    struct mmul_region region;
    for (int i = 0; i <= resources->context->comm->node_size; i++)
        while (mmul_completed_take(&resources->completed[i], &region))
            add_pending(recorder, &region);
}

// Writes an entry for each pending region. A journal that cannot be written loses entries only.
static void record_pending(struct mmul_recorder *recorder) {
    struct mmul_error ignored;
    for (int64_t i = 0; i < recorder->pending_count; i++)
        (void)mmul_output_record(recorder->output, recorder->pending[i], &ignored);
    recorder->pending_count = 0;
}

static void *run_recorder(void *context) {
    struct mmul_recorder *recorder = context;
    const double interval = recorder->run->rank_resources.options->journal_seconds;
    double last = mmul_clock_now();
    while (!atomic_load(&recorder->has_ended)) {
        collect(recorder);
        if (mmul_clock_now() - last >= interval) {
            record_pending(recorder);
            last = mmul_clock_now();
        }
        mmul_clock_sleep(LOOK_SECONDS);
    }
    return NULL;
}

void mmul_recorder_begin(struct mmul_recorder *recorder, struct mmul_run *run) {
    struct mmul_error ignored;
    *recorder = (struct mmul_recorder){.run = NULL};
    if (run->rank_resources.context->comm->rank != 0 || run->rank_resources.completed == NULL)
        return;
    for (int i = 0; i < run->stage_count; i++)
        if (run->stages[i].product != NULL && run->stages[i].is.files.output != NULL &&
            run->stages[i].is.files.output->journal != NULL)
            recorder->output = run->stages[i].is.files.output;
    if (recorder->output == NULL ||
        MMUL_ALLOCATE(recorder->pending, PENDING_MOST, "a journal", &ignored) != MMUL_OK)
        return;
    recorder->run = run;
    if (pthread_create(&recorder->thread, NULL, run_recorder, recorder) == 0)
        return;
    mmul_free(recorder->pending);
    recorder->run = NULL;
}

void mmul_recorder_end(struct mmul_recorder *recorder, bool has_failed) {
    if (recorder->run == NULL)
        return;
    atomic_store(&recorder->has_ended, true);
    pthread_join(recorder->thread, NULL);
    if (has_failed) {
        collect(recorder);
        record_pending(recorder);
    }
    mmul_free(recorder->pending);
}
