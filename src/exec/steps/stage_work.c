// SPDX-License-Identifier: MIT
// Multiplies one product on the rank's device under a deadline, and waits for counters.
#include "exec/steps/stage_work.h"

#include "base/clock.h"
#include "base/integer.h"
#include "base/status.h"
#include "exec/steps/rank_resources.h"

bool mmul_stage_is_cancelled(const struct mmul_stage *stage) {
    return atomic_load(&stage->rank_resources->progress->cancelled) != 0;
}

bool mmul_stage_wait(struct mmul_stage *stage, int rank, const _Atomic int64_t *counter,
                     int64_t goal, double *waiting, int64_t pass) {
    struct mmul_rank_resources *rank_resources = stage->rank_resources;
    if (atomic_load(counter) >= goal)
        return !mmul_stage_is_cancelled(stage);
    mmul_stopwatch_enter(&rank_resources->watch, waiting);
    double begin = mmul_trace_now(rank_resources->trace);
    bool is_there =
        mmul_progress_wait(rank_resources->progress, rank, counter, goal, &rank_resources->waits);
    mmul_trace_add(rank_resources->trace,
                   waiting == &rank_resources->mine.gather_seconds ? MMUL_TRACE_WAIT_RESULTS
                                                                   : MMUL_TRACE_WAIT_OPERANDS,
                   begin, pass, 0);
    mmul_stopwatch_enter(&rank_resources->watch, &rank_resources->mine.compute_seconds);
    return is_there;
}

// Returns true if plain loops have replaced a device.
static bool uses_plain_loops(const struct mmul_stage *stage) {
    return stage->rank_resources->context->replacements >
               stage->rank_resources->watchdog.replacements_before &&
           mmul_device_is_plain(stage->rank_resources->context->device);
}

// Records that `done` of `lines` lines are complete. All lines together take `flops`.
static void note_plain_work(struct mmul_stage *stage, int64_t done, int64_t lines, double flops) {
    struct mmul_check_findings *findings = &stage->rank_resources->findings;
    bool is_over = done == lines || !uses_plain_loops(stage);
    atomic_store(&findings->plain_done, done);
    atomic_store(&findings->plain_lines, lines);
    atomic_store(&findings->plain_flops, is_over ? 0 : (int64_t)flops);
}

enum mmul_status mmul_stage_may_recompute(void *context, int64_t done, int64_t total,
                                          struct mmul_error *err) {
    struct mmul_stage *stage = context;
    struct mmul_check_findings *findings = &stage->rank_resources->findings;
    const int64_t lines = findings->check_lines;
    if (done == 0 && lines > 0 && !findings->was_wrong && 2 * total >= lines)
        atomic_fetch_add(&findings->blocks_garbled, 1);
    findings->was_wrong = true;
    if (done > 0)
        note_plain_work(stage, done, total,
                        (double)atomic_load(&stage->rank_resources->watchdog.flops) *
                            (double)total / (double)lines);
    if (mmul_stage_is_cancelled(stage))
        return mmul_fail(err, MMUL_ERR_STOPPED, "another failure has ended the run");
    return stage->is.kind->look != NULL ? stage->is.kind->look(stage, err) : MMUL_OK;
}

// Multiplies whole on a device. Plain loops multiply in parts of about a second, so that a
// cancelled run can stop.
static enum mmul_status multiply_in_parts(struct mmul_stage *stage,
                                          const struct mmul_product *product,
                                          int64_t extra_device_bytes, struct mmul_error *err) {
    static const double part_flops = 4e8;
    const double flops = mmul_product_flops(product);
    enum mmul_status status = MMUL_OK;
    if (!uses_plain_loops(stage) || flops <= part_flops)
        return mmul_worker_multiply_absent(&stage->rank_resources->worker, product,
                                           extra_device_bytes, err);
    int64_t rows = (int64_t)((double)product->m * part_flops / flops) + 1;
    for (int64_t begin = 0; status == MMUL_OK && begin < product->m; begin += rows) {
        int64_t end = mmul_min(begin + rows, product->m);
        const struct mmul_product part = mmul_product_rows(product, begin, end);
        status = mmul_worker_multiply(&stage->rank_resources->worker, &part, err);
        note_plain_work(stage, end, product->m, flops);
        if (status == MMUL_OK && mmul_stage_is_cancelled(stage))
            status = mmul_fail(err, MMUL_ERR_STOPPED, "another failure has ended the run");
    }
    return status;
}

enum mmul_status mmul_stage_multiply(struct mmul_stage *stage, const struct mmul_product *product,
                                     int64_t extra_device_bytes, struct mmul_error *err) {
    mmul_watchdog_begin(&stage->rank_resources->watchdog, mmul_product_flops(product));
    double begin = mmul_trace_now(stage->rank_resources->trace);
    enum mmul_status status = multiply_in_parts(stage, product, extra_device_bytes, err);
    mmul_trace_add(stage->rank_resources->trace, MMUL_TRACE_MULTIPLY, begin, product->m,
                   product->n);
    mmul_watchdog_end(&stage->rank_resources->watchdog);
    return status;
}

int mmul_stage_wait_for_panel(struct mmul_stage *stage, int done) {
    const _Atomic int64_t *arrived = &stage->panels_from->progress->has_arrived;
    if (!mmul_stage_wait(stage, MMUL_TRAFFIC, arrived, done + 1,
                         &stage->rank_resources->mine.scatter_seconds, done))
        return -1;
    return (int)atomic_load(arrived);
}
