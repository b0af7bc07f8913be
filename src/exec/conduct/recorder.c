// SPDX-License-Identifier: MIT
// Collects finished regions until the interval is over, joins neighbours, and records them.
#include "exec/conduct/recorder.h"

#include "base/clock.h"
#include "base/ending.h"
#include "base/memory.h"
#include "exec/memory/completed.h"
#include "exec/steps/product.h"
#include "io/coverage.h"
#include "io/output_journal.h"

enum { PENDING_MOST = 1024 };

// Time between two looks at the queues.
static const double LOOK_SECONDS = 0.01;

static void add_pending(struct mmul_recorder *recorder, const struct mmul_region *region) {
    for (int64_t i = 0; i < recorder->pending_count; i++)
        if (mmul_region_join(&recorder->pending[i], region))
            return;
    recorder->pending[recorder->pending_count++] = *region;
}

static int queue_count(const struct mmul_recorder *recorder) {
    return recorder->run->rank_resources.context->comm->node_size + 1;
}

static int64_t count_withdrawals(const struct mmul_recorder *recorder) {
    int64_t count = 0;
    for (int i = 0; i < queue_count(recorder); i++)
        count += atomic_load(&recorder->run->rank_resources.completed[i].withdrawn);
    return count;
}

// Takes regions until there is no more room for them. After a withdrawal all regions so far are
// dropped, also those of other ranks: it is rare.
static void collect(struct mmul_recorder *recorder) {
    struct mmul_completed *queues = recorder->run->rank_resources.completed;
    const int64_t withdrawn = count_withdrawals(recorder);
    const bool drops = withdrawn != recorder->pending_withdrawn;
    struct mmul_region region;
    if (drops)
        recorder->pending_count = 0;
    recorder->pending_withdrawn = withdrawn;
    for (int i = 0; i < queue_count(recorder); i++)
        while (recorder->pending_count < PENDING_MOST && mmul_completed_take(&queues[i], &region))
            if (!drops)
                add_pending(recorder, &region);
}

// Returns true if no region of the batch was withdrawn before this call.
static bool is_batch_final(void *context) {
    const struct mmul_recorder *recorder = context;
    return count_withdrawals(recorder) == recorder->batch_withdrawn;
}

// Writes an entry for each pending region. A journal that cannot be written loses entries only.
static void record_pending(struct mmul_recorder *recorder) {
    struct mmul_error ignored;
    struct mmul_region *batch = recorder->pending;
    recorder->pending = recorder->batch;
    recorder->batch = batch;
    recorder->batch_count = recorder->pending_count;
    recorder->batch_withdrawn = recorder->pending_withdrawn;
    recorder->pending_count = 0;
    for (int64_t i = 0; i < recorder->batch_count; i++) {
        (void)mmul_output_record(recorder->output, batch[i], is_batch_final, recorder, &ignored);
        collect(recorder);
    }
}

static void *run_recorder(void *context) {
    struct mmul_recorder *recorder = context;
    const double interval = recorder->run->rank_resources.options->journal_seconds;
    double last = mmul_clock_now();
    while (!atomic_load(&recorder->has_ended)) {
        const enum mmul_ending_wish wish = mmul_ending_wish();
        if (wish == MMUL_ENDING_FINISH && !atomic_exchange(&recorder->was_stopped, true))
            mmul_failure_void_traffic(&recorder->run->rank_resources.failure);
        collect(recorder);
        if (mmul_clock_now() - last >= interval || recorder->pending_count == PENDING_MOST ||
            wish != MMUL_ENDING_NONE) {
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
        if (run->stages[i].files.output != NULL && run->stages[i].files.output->journal != NULL)
            recorder->output = run->stages[i].files.output;
    if (recorder->output == NULL)
        return;
    recorder->run = run;
    if (MMUL_ALLOCATE_ALL("a journal", &ignored, MMUL_ARRAY(recorder->pending, PENDING_MOST),
                          MMUL_ARRAY(recorder->batch, PENDING_MOST)) == MMUL_OK &&
        pthread_create(&recorder->thread, NULL, run_recorder, recorder) == 0) {
        char text[256];
        snprintf(text, sizeof text, "the same command continues '%.200s'", recorder->output->name);
        mmul_ending_keep(text);
        mmul_ending_set_recorded(true);
        return;
    }
    MMUL_FREE_ALL(recorder->pending, recorder->batch);
    recorder->run = NULL;
}

void mmul_recorder_end(struct mmul_recorder *recorder, bool has_failed) {
    if (recorder->run == NULL)
        return;
    mmul_ending_set_recorded(false);
    mmul_ending_keep("");
    atomic_store(&recorder->has_ended, true);
    pthread_join(recorder->thread, NULL);
    if (has_failed)
        collect(recorder);
    while (has_failed && recorder->pending_count > 0)
        record_pending(recorder);
    MMUL_FREE_ALL(recorder->pending, recorder->batch);
}
