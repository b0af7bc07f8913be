// SPDX-License-Identifier: MIT
// One stage after the other; of a product one task after the other, its own and claimed ones (exec/work).
// Waits in naps for counters: what it waits for takes milliseconds. Moves no bytes between nodes.
#include "exec/compute.h"

#include <string.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/status.h"
#include "exec/blocks.h"
#include "exec/carried_sums.h"
#include "exec/move.h"
#include "exec/program_record.h"
#include "exec/run.h"
#include "exec/sums.h"
#include "exec/write_back.h"

static const double NAP_LEAST_SECONDS = 20e-6, NAP_MOST_SECONDS = 200e-6;

static bool is_cancelled(const struct mmul_stage *stage) {
    return atomic_load(&stage->run->progress->cancelled) != 0;
}

// Until *counter >= goal, for a stage (what: step -1) or a step of it, in the phase `waiting`; false
// when the run was cancelled.
static bool wait_until(struct mmul_stage *stage, const _Atomic int64_t *counter, int64_t goal,
                       double *waiting, int64_t step) {
    struct mmul_run *run = stage->run;
    double nap = NAP_LEAST_SECONDS;
    if (atomic_load(counter) >= goal)
        return !is_cancelled(stage);
    mmul_stopwatch_enter(&run->watch, waiting);
    double begin = mmul_trace_now(run->trace);
    while (atomic_load(counter) < goal && !is_cancelled(stage)) {
        mmul_clock_nap(nap);
        nap = nap * 1.5 < NAP_MOST_SECONDS ? nap * 1.5 : NAP_MOST_SECONDS;
    }
    mmul_trace_add(run->trace,
                   waiting == &run->mine.gather_seconds ? MMUL_TRACE_WAIT_RESULTS
                                                        : MMUL_TRACE_WAIT_OPERANDS,
                   begin, step, 0);
    mmul_stopwatch_enter(&run->watch, &run->mine.compute_seconds);
    return !is_cancelled(stage);
}

// Pieces and panel are there, and the slot for C is free.
static bool wait_for_step(struct mmul_stage *stage, struct mmul_step step) {
    struct mmul_report_rank *mine = &stage->run->mine;
    struct mmul_need needs[MMUL_NEEDS];
    bool ready = true;
    mmul_works_needs(stage, step, needs);
    for (int i = 0; ready && i < MMUL_NEEDS; i++)
        ready = wait_until(stage, needs[i].counter, needs[i].goal,
                           i == MMUL_NEEDS_SLOT ? &mine->gather_seconds : &mine->scatter_seconds,
                           step.index);
    return ready;
}

// Plain loops took over from a device.
static bool works_plainly(const struct mmul_stage *stage) {
    return stage->run->context->replacements > stage->run->deadline.replacements_before &&
           strcmp(stage->run->context->device_name, "reference") == 0;
}

// `done` of `lines` lines are there, all of which are so much work.
static void note_plain_work(struct mmul_stage *stage, int64_t done, int64_t lines, double flops) {
    bool is_over = done == lines || !works_plainly(stage);
    atomic_store(&stage->run->findings.plain_done, done);
    atomic_store(&stage->run->findings.plain_lines, lines);
    atomic_store(&stage->run->findings.plain_flops, is_over ? 0 : (int64_t)flops);
}

enum mmul_status mmul_stage_look(void *context, int64_t done, int64_t total,
                                 struct mmul_error *err) {
    struct mmul_stage *stage = context;
    if (done == 0 && !stage->run->findings.was_wrong &&
        2 * total >= stage->run->findings.check_lines)
        atomic_fetch_add(&stage->run->findings.blocks_garbled, 1);
    stage->run->findings.was_wrong = true;
    if (done > 0)
        note_plain_work(stage, done, total,
                        (double)atomic_load(&stage->run->deadline.flops) * (double)total /
                            (double)stage->run->findings.check_lines);
    if (is_cancelled(stage))
        return mmul_fail(err, MMUL_ERR_STOPPED, "another failure has ended the run");
    return mmul_views_check_same(&stage->views, err);
}

static double flops_of(const struct mmul_product *product) {
    return 2.0 * (double)product->m * (double)product->n * (double)product->k;
}

// Whole on a device; by plain loops, where these have taken over, in parts of about a second, for a
// run that is cancelled.
static enum mmul_status multiply(struct mmul_stage *stage, const struct mmul_product *product,
                                 struct mmul_error *err) {
    static const double part_flops = 4e8;
    const double flops = flops_of(product);
    enum mmul_status status = MMUL_OK;
    if (!works_plainly(stage) || flops <= part_flops)
        return mmul_worker_multiply(&stage->run->worker, product, err);
    int64_t rows = (int64_t)((double)product->m * part_flops / flops) + 1;
    for (int64_t begin = 0; status == MMUL_OK && begin < product->m; begin += rows) {
        int64_t end = mmul_smaller(begin + rows, product->m);
        const struct mmul_product part = mmul_product_rows(product, begin, end);
        status = mmul_worker_multiply(&stage->run->worker, &part, err);
        note_plain_work(stage, end, product->m, flops);
        if (status == MMUL_OK && is_cancelled(stage))
            status = mmul_fail(err, MMUL_ERR_STOPPED, "another failure has ended the run");
    }
    return status;
}

enum mmul_status mmul_stage_multiply(struct mmul_stage *stage, const struct mmul_product *product,
                                     struct mmul_error *err) {
    mmul_deadline_begin(&stage->run->deadline, flops_of(product));
    double begin = mmul_trace_now(stage->run->trace);
    enum mmul_status status = multiply(stage, product, err);
    mmul_trace_add(stage->run->trace, MMUL_TRACE_MULTIPLY, begin, product->m, product->n);
    mmul_deadline_end(&stage->run->deadline);
    return status;
}

enum mmul_status mmul_stage_check(struct mmul_stage *stage, const struct mmul_product *product,
                                  const char *place, struct mmul_error *err) {
    struct mmul_verifier *verifier = &stage->verifier;
    mmul_deadline_begin(&stage->run->deadline, flops_of(product));
    mmul_stopwatch_enter(&stage->run->watch, &stage->run->mine.verify_seconds);
    stage->run->findings.check_lines = verifier->axis == MMUL_ROWS ? product->n : product->m;
    stage->run->findings.was_wrong = false;
    double begin = mmul_trace_now(stage->run->trace);
    enum mmul_status status =
        mmul_verifier_check(verifier, &stage->run->worker, product, place, err);
    mmul_trace_add(stage->run->trace, MMUL_TRACE_CHECK, begin, product->m, product->n);
    atomic_fetch_add(&stage->run->findings.blocks_right, !stage->run->findings.was_wrong);
    mmul_stopwatch_enter(&stage->run->watch, &stage->run->mine.compute_seconds);
    mmul_deadline_end(&stage->run->deadline);
    return status;
}

int mmul_stage_wait_for_panel(struct mmul_stage *stage, int done) {
    const _Atomic int64_t *arrived = &(stage - 1)->progress->has_arrived;
    if (!wait_until(stage, arrived, done + 1, &stage->run->mine.scatter_seconds, done))
        return -1;
    return (int)atomic_load(arrived);
}

bool mmul_stage_wait_for_sums(struct mmul_stage *stage, int round) {
    return wait_until(stage, &stage->progress->sums_made, round + 1,
                      &stage->run->mine.scatter_seconds, -1);
}

// Lines [begin, end) of a stretch's product, and the task's range of its width.
static struct mmul_product block_of(const struct mmul_stage *stage,
                                    const struct mmul_product *product,
                                    const struct mmul_task *task, int64_t begin, int64_t end) {
    const struct mmul_range wide = {task->begin - task->step.begin, task->end - task->step.begin};
    const struct mmul_range lines = {begin, end};
    bool rows = stage->plan->axis == MMUL_ROWS;
    const struct mmul_range m = rows ? lines : wide, n = rows ? wide : lines;
    struct mmul_product block = mmul_product_rows(product, m.begin, m.end);
    block = mmul_product_transpose(&block);
    block = mmul_product_rows(&block, n.begin, n.end);
    return mmul_product_transpose(&block);
}

// Terms that another rank's device has added may be wrong: this one's is not to blame.
static enum mmul_status check_block(struct mmul_stage *stage, const struct mmul_product *block,
                                    const char *place, struct mmul_error *err) {
    const struct mmul_work *work = &stage->works.at_hand;
    const int64_t recomputed = stage->verifier.blocks_recomputed;
    bool excused = work->begin > 0 && work->owner != stage->run->context->comm->node_rank;
    stage->verifier.is_excused = excused;
    enum mmul_status status = mmul_stage_check(stage, block, place, err);
    if (excused && stage->verifier.blocks_recomputed > recomputed)
        mmul_context_warn(stage->run->context,
                          "%s were wrong as rank %d had begun them: computed again", place,
                          work->rank);
    return status;
}

// What is at hand of it: terms that are added to those before, or all of them; after the last it is checked. A
// device that was replaced, or given up, may have left a part of some in C.
static enum mmul_status compute_block(struct mmul_stage *stage, const struct mmul_product *block,
                                      const char *place, struct mmul_error *err) {
    const struct mmul_work *work = &stage->works.at_hand;
    const int64_t replaced = stage->run->worker.fallback_products;
    int64_t begin = stage->works.is_again ? 0 : work->begin;
    struct mmul_product terms = mmul_product_terms(block, begin, work->end);
    const bool is_mine = work->owner == stage->run->context->comm->node_rank;
    stage->run->worker.beside_bytes =
        is_mine && terms.k == block->k ? mmul_chain_takes(stage, block->m, block->n) : 0;
    enum mmul_status status = mmul_stage_multiply(stage, &terms, err);
    stage->run->worker.beside_bytes = 0;
    if (status == MMUL_OK && begin > 0 && stage->run->worker.fallback_products != replaced) {
        terms = mmul_product_terms(block, 0, work->end);
        status = mmul_stage_multiply(stage, &terms, err);
    }
    if (status != MMUL_OK || work->end < block->k || stage->run->args->no_verify)
        return status;
    return check_block(stage, block, place, err);
}

// What is at hand of a stretch, [begin, end) of whose lines, in slices where these go to the disk.
static enum mmul_status compute_stretch(struct mmul_stage *stage,
                                        const struct mmul_product *product,
                                        struct mmul_stretch stretch, int64_t begin, int64_t end,
                                        struct mmul_error *err) {
    const struct mmul_work *work = &stage->works.at_hand;
    int64_t slice = mmul_write_back_slice(stage);
    char place[96];
    enum mmul_status status = MMUL_OK;
    if (slice == 0 || end - begin < 2 * slice)
        slice = end - begin;
    for (int64_t next; status == MMUL_OK && begin < end; begin = next) {
        next = mmul_smaller(begin + slice, end);
        struct mmul_stretch s = {stretch.matrix, stretch.begin + begin, stretch.begin + next};
        const struct mmul_product block = block_of(stage, product, &work->task, begin, next);
        snprintf(place, sizeof place, "%s %lld-%lld of matrix %lld",
                 stage->plan->axis == MMUL_ROWS ? "rows" : "columns", (long long)s.begin,
                 (long long)s.end, (long long)s.matrix);
        struct mmul_step step = work->task.step;
        step.begin = work->task.begin;
        step.end = work->task.end;
        do {
            stage->run->worker.is_to_repeat = false;
            status = compute_block(stage, &block, place, err);
            if (status != MMUL_OK || work->end < block.k ||
                work->owner != stage->run->context->comm->node_rank)
                continue;
            mmul_write_back_tell(stage, &work->task, s);
            status = mmul_chain_make_part(stage, mmul_step_result(stage->plan, step, s), err);
        } while (status == MMUL_ERR_STOPPED && stage->run->worker.is_to_repeat);
        mmul_worker_release(&stage->run->worker, NULL);
    }
    return status;
}

// Buffers of the stage may hold other numbers than when they were last looked at.
static void forget_buffers(struct mmul_stage *stage, struct mmul_step step) {
    const struct mmul_plan_node *node = stage->layout.node;
    bool new_pieces = step.round != stage->pieces_round;
    bool new_panel = node->whole_slots > 0 && !node->whole_stays;
    stage->pieces_round = step.round;
    if (new_pieces || new_panel)
        mmul_worker_forget(&stage->run->worker);
    if (node->checks_whole ? new_panel : new_pieces)
        mmul_verifier_forget(&stage->verifier);
}

static enum mmul_status compute_at_hand(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_work *work = &stage->works.at_hand;
    const struct mmul_step step = work->task.step;
    const struct mmul_part part = mmul_stage_part(stage, work->rank, step);
    struct mmul_walk walk = mmul_schedule_walk(stage->plan, part.range, step);
    struct mmul_stretch s;
    int64_t offset = 0; // lines of the step before the stretch
    enum mmul_status status = MMUL_OK;
    forget_buffers(stage, step);
    while (status == MMUL_OK && mmul_schedule_next(&walk, &s)) {
        int64_t lines = s.end - s.begin;
        int64_t begin = mmul_larger(0, work->line_begin - offset);
        int64_t end = mmul_smaller(lines, work->line_end - offset);
        const struct mmul_product product = mmul_part_product(stage, &part, step, s, offset);
        if (begin < end)
            status = compute_stretch(stage, &product, s, begin, end, err);
        offset += lines;
    }
    return status;
}

// Its own tasks, then what it can claim; what was at hand when a device was given up is begun again.
static void compute_product(struct mmul_stage *stage) {
    struct mmul_works *works = &stage->works;
    int mine = stage->run->context->comm->node_rank;
    works->is_again = works->is_under_way;
    while (works->is_under_way || (works->is_under_way = mmul_works_next(stage))) {
        mmul_stopwatch_enter(&stage->run->watch, &stage->run->mine.compute_seconds);
        if (is_cancelled(stage) ||
            (works->at_hand.owner == mine && !wait_for_step(stage, works->at_hand.task.step)))
            break;
        struct mmul_error err; // a device that was replaced leaves its words in it
        mmul_works_begin(stage);
        if (compute_at_hand(stage, &err) != MMUL_OK) {
            mmul_failure_keep(&stage->run->failure, &err);
            break;
        }
        mmul_works_end(stage);
        works->is_under_way = works->is_again = false;
    }
}

// ----------------------------------------------------------------------------------------- stages

// Until all ranks of the node have done their part of so many stages.
static bool wait_for_node(struct mmul_stage *stage, int stages) {
    struct mmul_run *run = stage->run;
    bool done = true;
    for (int i = 0; done && i < run->context->comm->node_size; i++)
        done = wait_until(stage, &run->progress->ranks[i].stages_done, stages,
                          &run->mine.scatter_seconds, -1);
    return done;
}

// Where a device, or the check, may have something of a value that was there before.
static void forget_memory(struct mmul_stage *stage, int place) {
    const struct mmul_memory memory = mmul_values_memory(stage->run->values, place);
    if (memory.begin == NULL)
        return;
    mmul_worker_forget_memory(&stage->run->worker, memory.begin, memory.end);
    mmul_verifier_forget_memory(&stage->run->verifier_room, memory.begin, memory.end);
}

// Its memory is free, and the values that it reads are complete. False: the run was cancelled.
static bool begin_stage(struct mmul_stage *stage) {
    struct mmul_run *run = stage->run;
    double *waiting = &run->mine.scatter_seconds;
    const struct mmul_stage *before = stage->index > 0 ? stage - 1 : NULL;
    bool in_panels = stage->is.kind == MMUL_STAGE_BLOCKS && stage->is.panels > 0;
    struct mmul_error err;
    if (!wait_until(stage, &stage->progress->is_open, 1, waiting, -1) ||
        !wait_for_node(stage, stage->node_needs))
        return false;
    if (before != NULL && before->is.kind == MMUL_STAGE_MOVE && !in_panels &&
        !wait_until(stage, &before->progress->has_arrived, before->is.panels, waiting, -1))
        return false;
    if (stage->plan != NULL)
        mmul_works_enter(stage);
    if (mmul_stage_result(stage) >= 0)
        forget_memory(stage, mmul_stage_result(stage));
    if (stage->is.also != NULL)
        forget_memory(stage, stage->is.also->result);
    const struct mmul_worker_options options = mmul_stage_worker_options(stage);
    if (mmul_worker_turn(&run->worker, &options, &err) == MMUL_OK)
        return true;
    mmul_failure_keep(&run->failure, &err);
    return false;
}

// The other nodes' summands travel meanwhile.
static enum mmul_status check_sum(struct mmul_stage *stage, struct mmul_error *err) {
    mmul_carried_sums_give(stage);
    const double *sums = mmul_sums_exchange(stage, 0);
    if (sums == NULL || !wait_until(stage, &stage->progress->has_arrived, stage->is.panels,
                                    &stage->run->mine.scatter_seconds, -1))
        return MMUL_OK; // another failure has ended the run
    return mmul_carried_sums_judge(stage, sums, err);
}

// What is wrong with the data of an operation stands where that was asked for.
static void keep_failure(struct mmul_stage *stage, const struct mmul_error *failed) {
    const struct mmul_program_step *step = stage->is.step;
    const char *origin = "";
    struct mmul_error err = *failed;
    if (step != NULL && err.status == MMUL_ERR_DATA)
        origin = stage->run->values->plan->program->operations[step->operation].origin;
    if (origin[0] != '\0')
        mmul_fail(&err, failed->status, "%s: %s", origin, failed->text);
    mmul_failure_keep(&stage->run->failure, &err);
}

// This rank's part of it, and whatever others have claimed of that.
static bool carry_out(struct mmul_stage *stage) {
    struct mmul_run *run = stage->run;
    struct mmul_error err;
    enum mmul_status status;
    if (stage->is.kind == MMUL_STAGE_PRODUCT) {
        int rank = run->context->comm->node_rank;
        compute_product(stage);
        if (!wait_until(stage, &stage->progress->ranks[rank].steps_done, stage->layout.steps, NULL,
                        -1))
            return false;
        status = mmul_chain_make(stage, &err);
    } else {
        status = stage->is.kind == MMUL_STAGE_MOVE ? mmul_move_here(stage, &err)
                                                   : mmul_blocks_make(stage, &err);
    }
    if (status == MMUL_OK && stage->is.kind == MMUL_STAGE_MOVE && stage->sums.rounds > 0)
        status = check_sum(stage, &err);
    if (status != MMUL_OK)
        keep_failure(stage, &err);
    return !is_cancelled(stage);
}

void mmul_run_compute(struct mmul_run *run) {
    int rank = run->context->comm->node_rank;
    for (; run->stage_at_hand < run->stage_count; run->stage_at_hand++) {
        struct mmul_stage *stage = &run->stages[run->stage_at_hand];
        if (run->trace != NULL)
            atomic_store(&run->trace->stage, run->stage_at_hand);
        struct mmul_stage_record record =
            mmul_stage_record_begin(&run->mine, mmul_worker_traffic(&run->worker));
        if (!stage->is_begun && !begin_stage(stage))
            return;
        stage->is_begun = true;
        if (!carry_out(stage))
            return;
        if (run->records != NULL) {
            mmul_stopwatch_enter(&run->watch, &run->mine.compute_seconds); // adds up what goes on
            mmul_stage_record_end(&record, &run->mine, mmul_worker_traffic(&run->worker));
            run->records[stage->index] = record;
        }
        atomic_store(&run->progress->ranks[rank].stages_done, stage->index + 1);
    }
}

bool mmul_run_give_up_device(struct mmul_run *run) {
    struct mmul_error err;
    enum mmul_status status;
    if (!mmul_deadline_give_up(&run->deadline, &status, &err))
        return false;
    mmul_verifier_forget(&run->stages[run->stage_at_hand].verifier);
    mmul_chain_abandon(&run->chain_room);
    mmul_search_abandon(&run->stages[run->stage_at_hand].search);
    mmul_worker_abandon(&run->worker);
    if (status != MMUL_OK) {
        mmul_failure_keep(&run->failure, &err);
        mmul_run_cancel(run);
    }
    return true;
}

void mmul_run_cancel(struct mmul_run *run) {
    atomic_store(&run->progress->cancelled, 1);
}
