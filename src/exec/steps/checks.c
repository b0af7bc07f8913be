// SPDX-License-Identifier: MIT
// The table of checks. All checks of a stage pass through mmul_stage_check, which also measures
// their time.
#include "exec/steps/checks.h"

#include "base/clock.h"
#include "exec/steps/grid_check.h"
#include "exec/steps/map_check.h"
#include "exec/steps/rank_resources.h"
#include "exec/steps/stage_work.h"
#include "exec/steps/sums.h"
#include "exec/threads/compute_thread.h"

static const struct mmul_check_method *const methods[] = {
    // A block of a product, all terms. Freivalds' test: the host projects operands and block, or
    // the device that has them does. Tolerance: model/check.c. If lines are wrong, a CPU
    // multiplies again with other cuts. Any other device is replaced.
    [MMUL_CHECK_PRODUCT] = &mmul_product_check,
    // A block of any other operation, in host memory or on the device. Plain loops repeat a sample,
    // and the sum of bits that a kernel carries must arrive. Tolerance: `accuracy` in
    // model/operation.c. Wrong lines: the device is replaced; a CPU is not checked.
    [MMUL_CHECK_MAP] = &mmul_map_check,
    // All blocks of a product on a mesh. The ranks add up parts of Freivalds' test. Tolerance: half
    // of a product's. Wrong rows: their block is checked as a block of a product.
    [MMUL_CHECK_GRID] = &mmul_grid_check,
    // Summands that a move has added up. The lines of the sum against carried sums. Tolerance:
    // mmul_move_sum_is_right. Wrong lines: the run fails, because the summands may be overwritten.
    [MMUL_CHECK_SUMMANDS] = &mmul_summand_check,
};

enum mmul_status mmul_stage_create_verifier(struct mmul_stage *stage,
                                            const struct mmul_check_need *need,
                                            struct mmul_error *err) {
    const struct mmul_verifier_request request = {
        .axis = need->axis,
        .piece_units_max = need->piece_units,
        .panel_units_max = need->panel_units,
        .k_max = need->k,
        .piece_count = 1,
        .cached_count = need->saved,
        .seed = stage->rank_resources->options->verify_seed,
        .watch = {mmul_stage_may_recompute, stage},
        .parallel = {stage->rank_resources->context->fallback_threads, mmul_helper_threads_run}};
    return mmul_verifier_init(&stage->verifier, &stage->rank_resources->verifier_room, &request,
                              err);
}

enum mmul_status mmul_stage_check(struct mmul_stage *stage, enum mmul_check_kind kind,
                                  struct mmul_verification *v, double flops,
                                  struct mmul_error *err) {
    struct mmul_rank_resources *resources = stage->rank_resources;
    struct mmul_check_findings *findings = &resources->findings;
    v->method = methods[kind];
    v->verifier = &stage->verifier;
    v->worker = &resources->worker;
    if (resources->options->no_verify || !mmul_verification_is_needed(v))
        return MMUL_OK;
    if (flops > 0)
        mmul_watchdog_begin(&resources->watchdog, flops);
    mmul_stopwatch_enter(&resources->watch, &resources->mine.verify_seconds);
    findings->was_wrong = false;
    const double begin = mmul_trace_now(resources->trace);
    enum mmul_status status = mmul_verification_run(v, err);
    mmul_trace_add(resources->trace, MMUL_TRACE_CHECK, begin, v->rows, v->cols);
    atomic_fetch_add(&findings->blocks_right, findings->check_lines > 0 && !findings->was_wrong);
    mmul_stopwatch_enter(&resources->watch, &resources->mine.compute_seconds);
    mmul_watchdog_end(&resources->watchdog);
    return status;
}

enum mmul_status mmul_stage_check_product(struct mmul_stage *stage,
                                          const struct mmul_verifier_block *block, bool is_foreign,
                                          struct mmul_error *err) {
    const struct mmul_product *p = block->product;
    struct mmul_check_findings *findings = &stage->rank_resources->findings;
    struct mmul_verification v = {.block = block,
                                  .place = block->place,
                                  .is_foreign = is_foreign,
                                  .rows = p->m,
                                  .cols = p->n};
    findings->check_lines = stage->verifier.axis == MMUL_ROWS ? p->n : p->m;
    const enum mmul_status status =
        mmul_stage_check(stage, MMUL_CHECK_PRODUCT, &v, mmul_product_flops(p), err);
    findings->check_lines = 0;
    return status;
}
