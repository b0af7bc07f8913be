// SPDX-License-Identifier: MIT
// One task after the other, its own and claimed ones (exec/work). Waits in naps for counters: what it waits
// for takes milliseconds. Moves no bytes.
#include "exec/compute.h"

#include <string.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/status.h"
#include "exec/write_back.h"

static const double NAP_LEAST_SECONDS = 20e-6, NAP_MOST_SECONDS = 200e-6;

static bool is_cancelled(const struct mmul_run *run) {
    return atomic_load(&run->progress->cancelled) != 0;
}

// Until *counter >= goal, for `step`, in the phase `waiting`; false when the run was cancelled.
static bool wait_until(struct mmul_run *run, const _Atomic int64_t *counter, int64_t goal,
                       double *waiting, struct mmul_step step) {
    double nap = NAP_LEAST_SECONDS;
    if (atomic_load(counter) >= goal)
        return !is_cancelled(run);
    mmul_stopwatch_enter(&run->watch, waiting);
    double begin = mmul_trace_now(run->trace);
    while (atomic_load(counter) < goal && !is_cancelled(run)) {
        mmul_clock_nap(nap);
        nap = nap * 1.5 < NAP_MOST_SECONDS ? nap * 1.5 : NAP_MOST_SECONDS;
    }
    mmul_trace_add(run->trace,
                   waiting == &run->mine.gather_seconds ? MMUL_TRACE_WAIT_RESULTS
                                                        : MMUL_TRACE_WAIT_OPERANDS,
                   begin, step.index, 0);
    mmul_stopwatch_enter(&run->watch, &run->mine.compute_seconds);
    return !is_cancelled(run);
}

// Pieces and panel are there, and the slot for C is free.
static bool wait_for_step(struct mmul_run *run, struct mmul_step step) {
    struct mmul_need needs[MMUL_NEEDS];
    bool ready = true;
    mmul_works_needs(run, step, needs);
    for (int i = 0; ready && i < MMUL_NEEDS; i++)
        ready = wait_until(
            run, needs[i].counter, needs[i].goal,
            i == MMUL_NEEDS_SLOT ? &run->mine.gather_seconds : &run->mine.scatter_seconds, step);
    return ready;
}

// Plain loops took over from a device.
static bool works_plainly(const struct mmul_run *run) {
    return run->context->replacements > run->deadline.replacements_before &&
           strcmp(run->context->device_name, "reference") == 0;
}

// `done` of `lines` lines are there, all of which are so much work.
static void note_plain_work(struct mmul_run *run, int64_t done, int64_t lines, double flops) {
    bool is_over = done == lines || !works_plainly(run);
    atomic_store(&run->plain_done, done);
    atomic_store(&run->plain_lines, lines);
    atomic_store(&run->plain_flops, is_over ? 0 : (int64_t)flops);
}

enum mmul_status mmul_run_look(void *context, int64_t done, int64_t total, struct mmul_error *err) {
    struct mmul_run *run = context;
    if (done == 0 && !run->was_wrong && 2 * total >= run->check_lines)
        atomic_fetch_add(&run->blocks_garbled, 1);
    run->was_wrong = true;
    if (done > 0)
        note_plain_work(run, done, total,
                        (double)atomic_load(&run->deadline.flops) * (double)total /
                            (double)run->check_lines);
    if (is_cancelled(run))
        return mmul_fail(err, MMUL_ERR_STOPPED, "another failure has ended the run");
    return mmul_views_check_same(&run->views, err);
}

// Whole on a device; by plain loops, where these have taken over, in parts of about a second, for a
// run that is cancelled.
static enum mmul_status multiply(struct mmul_run *run, const struct mmul_product *product,
                                 struct mmul_error *err) {
    static const double part_flops = 4e8;
    const double flops = 2.0 * (double)product->m * (double)product->n * (double)product->k;
    enum mmul_status status = MMUL_OK;
    if (!works_plainly(run) || flops <= part_flops)
        return mmul_worker_multiply(&run->worker, product, err);
    int64_t rows = (int64_t)((double)product->m * part_flops / flops) + 1;
    for (int64_t begin = 0; status == MMUL_OK && begin < product->m; begin += rows) {
        int64_t end = mmul_smaller(begin + rows, product->m);
        const struct mmul_product part = mmul_product_rows(product, begin, end);
        status = mmul_worker_multiply(&run->worker, &part, err);
        note_plain_work(run, end, product->m, flops);
        if (status == MMUL_OK && is_cancelled(run))
            status = mmul_fail(err, MMUL_ERR_STOPPED, "another failure has ended the run");
    }
    return status;
}

static enum mmul_status multiply_and_check(struct mmul_run *run, const struct mmul_product *product,
                                           const char *place, struct mmul_error *err) {
    struct mmul_verifier *verifier = &run->verifier;
    mmul_deadline_begin(&run->deadline,
                        2.0 * (double)product->m * (double)product->n * (double)product->k);
    double begin = mmul_trace_now(run->trace);
    enum mmul_status status = multiply(run, product, err);
    mmul_trace_add(run->trace, MMUL_TRACE_MULTIPLY, begin, product->m, product->n);
    if (status == MMUL_OK && !run->args->no_verify) {
        mmul_stopwatch_enter(&run->watch, &run->mine.verify_seconds);
        run->check_lines = verifier->axis == MMUL_ROWS ? product->n : product->m;
        run->was_wrong = false;
        begin = mmul_trace_now(run->trace);
        status = mmul_verifier_check(verifier, &run->worker, product, place, err);
        mmul_trace_add(run->trace, MMUL_TRACE_CHECK, begin, product->m, product->n);
        atomic_fetch_add(&run->blocks_right, !run->was_wrong);
        mmul_stopwatch_enter(&run->watch, &run->mine.compute_seconds);
    }
    mmul_deadline_end(&run->deadline);
    return status;
}

// Lines [begin, end) of a segment's product, and the task's stretch of its width.
static struct mmul_product block_of(const struct mmul_run *run, const struct mmul_product *product,
                                    const struct mmul_task *task, int64_t begin, int64_t end) {
    const struct mmul_range stretch = {task->begin - task->step.begin,
                                       task->end - task->step.begin};
    const struct mmul_range lines = {begin, end};
    bool rows = run->plan->axis == MMUL_ROWS;
    const struct mmul_range m = rows ? lines : stretch, n = rows ? stretch : lines;
    struct mmul_product block = mmul_product_rows(product, m.begin, m.end);
    block = mmul_product_transpose(&block);
    block = mmul_product_rows(&block, n.begin, n.end);
    return mmul_product_transpose(&block);
}

// What is at hand of a segment, [begin, end) of whose lines, in slices where these go to the disk.
static enum mmul_status compute_segment(struct mmul_run *run, const struct mmul_product *product,
                                        struct mmul_segment segment, int64_t begin, int64_t end,
                                        struct mmul_error *err) {
    const struct mmul_work *work = &run->works.at_hand;
    int64_t slice = mmul_write_back_slice(run);
    char place[96];
    enum mmul_status status = MMUL_OK;
    if (slice == 0 || end - begin < 2 * slice)
        slice = end - begin;
    for (int64_t next; status == MMUL_OK && begin < end; begin = next) {
        next = mmul_smaller(begin + slice, end);
        struct mmul_segment s = {segment.matrix, segment.begin + begin, segment.begin + next, 0};
        const struct mmul_product block = block_of(run, product, &work->task, begin, next);
        snprintf(place, sizeof place, "%s %lld-%lld of matrix %lld",
                 run->plan->axis == MMUL_ROWS ? "rows" : "columns", (long long)s.begin,
                 (long long)s.end, (long long)s.matrix);
        status = multiply_and_check(run, &block, place, err);
        if (status == MMUL_OK && work->owner == run->context->comm->node_rank)
            mmul_write_back_tell(run, &work->task, s);
    }
    return status;
}

// Buffers of the segment may hold other numbers than when they were last looked at.
static void forget_buffers(struct mmul_run *run, struct mmul_step step) {
    const struct mmul_plan_node *node = run->layout.node;
    bool new_pieces = step.round != run->pieces_round;
    bool new_panel = node->whole_slots > 0 && !node->whole_stays;
    run->pieces_round = step.round;
    if (new_pieces || new_panel)
        mmul_worker_forget(&run->worker);
    if (node->checks_whole ? new_panel : new_pieces)
        mmul_verifier_forget(&run->verifier);
}

static enum mmul_status compute_at_hand(struct mmul_run *run, struct mmul_error *err) {
    const struct mmul_work *work = &run->works.at_hand;
    const struct mmul_step step = work->task.step;
    const struct mmul_part part = mmul_run_part(run, run->works.tasks[work->owner].rank, step);
    struct mmul_walk walk = mmul_schedule_walk(run->plan, part.range, step);
    struct mmul_segment s;
    int64_t offset = 0; // lines of the step before the segment
    enum mmul_status status = MMUL_OK;
    forget_buffers(run, step);
    while (status == MMUL_OK && mmul_schedule_next(&walk, &s)) {
        int64_t lines = s.end - s.begin;
        int64_t begin = mmul_larger(0, work->line_begin - offset);
        int64_t end = mmul_smaller(lines, work->line_end - offset);
        const struct mmul_product product = mmul_part_product(run, &part, step, s, offset);
        if (begin < end)
            status = compute_segment(run, &product, s, begin, end, err);
        offset += lines;
    }
    return status;
}

void mmul_run_compute(struct mmul_run *run) {
    struct mmul_works *works = &run->works;
    int mine = run->context->comm->node_rank;
    // What was at hand when a device was given up is begun again.
    while (works->is_under_way || (works->is_under_way = mmul_works_next(run))) {
        mmul_stopwatch_enter(&run->watch, &run->mine.compute_seconds);
        if (is_cancelled(run) ||
            (works->at_hand.owner == mine && !wait_for_step(run, works->at_hand.task.step)))
            break;
        struct mmul_error err; // a device that was replaced leaves its words in it
        mmul_works_begin(run);
        if (compute_at_hand(run, &err) != MMUL_OK) {
            mmul_failure_keep(&run->failure, &err);
            break;
        }
        mmul_works_end(run);
        works->is_under_way = false;
    }
}

bool mmul_run_give_up_device(struct mmul_run *run) {
    struct mmul_error err;
    enum mmul_status status;
    if (!mmul_deadline_give_up(&run->deadline, &status, &err))
        return false;
    mmul_verifier_forget(&run->verifier);
    mmul_worker_abandon(&run->worker);
    if (status != MMUL_OK) {
        mmul_failure_keep(&run->failure, &err);
        mmul_run_cancel(run);
    }
    return true;
}

void mmul_run_cancel(struct mmul_run *run) {
    if (run->progress != NULL)
        atomic_store(&run->progress->cancelled, 1);
}
