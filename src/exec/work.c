// SPDX-License-Identifier: MIT
// Takes from the own block, claims from others', and counts how far it is. Computes nothing;
// how much is worth claiming is exec/claims' business.
#include "exec/work.h"

#include <math.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "exec/run.h"
#include "exec/write_back.h"

static const double NAP_SECONDS = 500e-6;

// What is lost when ranks end that far apart is not worth a call: so much of the time since the run
// began, and what a look around itself takes.
static const double WORTH_PART = 0.01, WORTH_SECONDS = 200e-6;

static struct mmul_stage_progress_rank *progress_of(const struct mmul_stage *stage, int node_rank) {
    return &stage->progress->ranks[node_rank];
}

static struct mmul_stage_progress_rank *own_progress(const struct mmul_stage *stage) {
    return progress_of(stage, stage->run->context->comm->node_rank);
}

static const struct mmul_tasks *own_tasks(const struct mmul_stage *stage) {
    return &stage->works.tasks[stage->run->context->comm->node_rank];
}

// Lines that it has kept are left, and slices of their terms.
static bool adds_slices(const struct mmul_stage *stage) {
    const struct mmul_works *works = &stage->works;
    return own_tasks(stage)->sums > 1 && works->kept > 0 && works->slice < own_tasks(stage)->sums;
}

static int64_t terms_of_slices(const struct mmul_tasks *tasks, int64_t count) {
    return count > 0 ? mmul_tasks_terms(tasks, count - 1) : 0;
}

// What lines are worth without the first `there` of their terms, in elements: the parts of a line add up.
static int64_t worth_of(const struct mmul_stage *stage, int64_t width, int64_t there) {
    int64_t k = mmul_larger(1, stage->plan->problem.k);
    return width - (int64_t)((double)width * ((double)there / (double)k));
}

// ----------------------------------------------------------------------------------- start, end

static double first_rate(const struct mmul_stage *stage) {
    const struct mmul_context *context = stage->run->context;
    return context->cluster->ranks[context->comm->rank].speed_flops /
           (2.0 * (double)stage->plan->problem.k);
}

enum mmul_status mmul_works_init(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_comm *comm = stage->run->context->comm;
    struct mmul_works *works = &stage->works;
    enum mmul_status status = MMUL_ALLOCATE(works->tasks, comm->node_size, "tasks", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(works->paces, comm->node_size, "tasks", err);
    if (status != MMUL_OK)
        return status;
    for (int rank = 0, i = 0; rank < comm->size; rank++)
        if (comm->rank_node[rank] == comm->node_index)
            works->tasks[i++] = mmul_tasks_of(stage->plan, rank, mmul_write_back_slice(stage),
                                              mmul_write_back_follows(stage));
    int64_t positions = works->tasks[comm->node_rank].positions;
    works->kept = positions;
    atomic_store(&own_progress(stage)->lines_left, positions);
    atomic_store(&own_progress(stage)->slices_left,
                 adds_slices(stage) ? own_tasks(stage)->sums : 0);
    if (positions == 0)
        atomic_store(&own_progress(stage)->steps_done, stage->layout.steps);
    return MMUL_OK;
}

void mmul_works_enter(struct mmul_stage *stage) {
    struct mmul_stage_progress_rank *progress = own_progress(stage);
    int64_t positions = own_tasks(stage)->positions;
    atomic_store(&progress->rate, (int64_t)first_rate(stage));
    if (stage->layout.node->claims)
        mmul_unbegun_set(&progress->unbegun,
                         (struct mmul_range){adds_slices(stage) ? positions : 0, positions});
}

void mmul_works_fini(struct mmul_works *works) {
    mmul_free(works->tasks);
    mmul_free(works->paces);
    *works = (struct mmul_works){0};
}

void mmul_works_needs(const struct mmul_stage *stage, struct mmul_step step,
                      struct mmul_need needs[static MMUL_NEEDS]) {
    const struct mmul_stage_progress *progress = stage->progress;
    int64_t slots = stage->layout.node->result_slots;
    needs[0] = (struct mmul_need){&progress->rounds_loaded, step.round + 1};
    needs[1] = (struct mmul_need){&progress->steps_loaded, step.index + 1};
    needs[MMUL_NEEDS_SLOT] =
        (struct mmul_need){&progress->results_stored, slots > 0 ? step.index - slots + 1 : 0};
}

static bool is_ready(const struct mmul_stage *stage, struct mmul_step step) {
    struct mmul_need needs[MMUL_NEEDS];
    bool ready = true;
    mmul_works_needs(stage, step, needs);
    for (int i = 0; i < MMUL_NEEDS; i++)
        ready = ready && atomic_load(needs[i].counter) >= needs[i].goal;
    return ready;
}

// ---------------------------------------------------------------------------------------- paces

// Elements of positions that nobody of a rank's block has begun.
static double left_of(const struct mmul_stage *stage, int rank, struct mmul_range left) {
    const struct mmul_tasks *tasks = &stage->works.tasks[rank];
    int64_t there = atomic_load(&progress_of(stage, rank)->terms_there);
    double whole = mmul_tasks_elements(tasks, left.begin, left.end);
    return there == 0 ? whole : whole * (1 - (double)there / (double)stage->plan->problem.k);
}

// How far everybody on the node is. Who takes longer than it should is as slow as that makes it; of
// whom nothing is known yet is as fast as this rank. False: nothing is known of this one either.
static bool look_around(struct mmul_stage *stage) {
    const struct mmul_comm *comm = stage->run->context->comm;
    double now = mmul_clock_now(), mine = (double)atomic_load(&own_progress(stage)->rate);
    for (int i = 0; mine > 0 && i < comm->node_size; i++) {
        const struct mmul_stage_progress_rank *progress = progress_of(stage, i);
        struct mmul_pace *pace = &stage->works.paces[i];
        struct mmul_range left = mmul_unbegun_get(&progress->unbegun);
        double begun = (double)atomic_load(&progress->begun) * 1e-9;
        double elements = (double)atomic_load(&progress->elements),
               rate = (double)atomic_load(&progress->rate);
        *pace = (struct mmul_pace){.left = left_of(stage, i, left), .rate = rate > 0 ? rate : mine};
        if (!(begun > 0))
            continue;
        double elapsed = now - begun;
        if (elapsed * pace->rate > elements)
            pace->rate = elements / elapsed;
        pace->until = elements / pace->rate - elapsed;
    }
    return mine > 0;
}

static double worth_seconds(const struct mmul_stage *stage) {
    return fmax(WORTH_SECONDS, WORTH_PART * (mmul_clock_now() - stage->run->begin));
}

// ------------------------------------------------------------------------------------ own tasks

static void raise_steps(struct mmul_stage_progress_rank *progress, int64_t steps) {
    int64_t done = atomic_load(&progress->steps_done);
    while (done < steps && !atomic_compare_exchange_weak(&progress->steps_done, &done, steps))
        ;
}

// Lets go, between two slices, of lines that others would do sooner: once those that it let go of before have
// been taken.
static void let_go(struct mmul_stage *stage, int64_t there) {
    struct mmul_works *works = &stage->works;
    struct mmul_stage_progress_rank *progress = own_progress(stage);
    struct mmul_range left = mmul_unbegun_get(&progress->unbegun);
    struct mmul_pace *mine = &works->paces[stage->run->context->comm->node_rank];
    const struct mmul_task task = mmul_tasks_at(own_tasks(stage), 0);
    const struct mmul_rest rest = {works->kept, own_tasks(stage)->positions,
                                   (double)worth_of(stage, task.end - task.begin, there)};
    if (left.begin < left.end || !look_around(stage))
        return;
    mine->left = (double)rest.lines * rest.width;
    double level = mmul_pace_level(works->paces, stage->run->context->comm->node_size);
    int64_t kept = mmul_pace_keep(level, worth_seconds(stage), mine->rate, rest);
    if (kept == works->kept)
        return;
    atomic_store(&progress->terms_there, there);
    mmul_unbegun_set(&progress->unbegun, (struct mmul_range){kept, works->kept});
    works->kept = kept;
}

// The next terms of all lines that it keeps.
static bool take_slice(struct mmul_stage *stage) {
    struct mmul_works *works = &stage->works;
    const struct mmul_tasks *tasks = own_tasks(stage);
    int64_t there = terms_of_slices(tasks, works->slice);
    if (adds_slices(stage) && there > 0)
        let_go(stage, there);
    bool any = adds_slices(stage);
    works->slice += any;
    atomic_store(&own_progress(stage)->slices_left,
                 adds_slices(stage) ? tasks->sums - works->slice : 0);
    if (!any)
        return false;
    works->at_hand = (struct mmul_work){.owner = stage->run->context->comm->node_rank,
                                        .task = mmul_tasks_at(tasks, 0),
                                        .line_end = works->kept,
                                        .begin = there,
                                        .end = terms_of_slices(tasks, works->slice)};
    return true;
}

static bool take_own(struct mmul_stage *stage) {
    struct mmul_works *works = &stage->works;
    int mine = stage->run->context->comm->node_rank;
    const struct mmul_tasks *tasks = &works->tasks[mine];
    struct mmul_stage_progress_rank *progress = own_progress(stage);
    bool claims = stage->layout.node->claims;
    struct mmul_range left = {works->front, tasks->positions}, taken;
    struct mmul_task_cursor *own = &works->own;
    if (claims)
        left = mmul_unbegun_get(&progress->unbegun);
    if (left.begin >= tasks->positions)
        return false;
    mmul_tasks_seek(tasks, left.begin, own);
    if (left.begin == own->position)
        raise_steps(progress, own->task.step.index); // all before is its own work, and done
    int64_t full = own->task.line_end - own->task.line_begin;
    int64_t count = own->position + full - left.begin;
    if (claims && look_around(stage)) {
        double level = mmul_pace_level(works->paces, stage->run->context->comm->node_size);
        const struct mmul_rest rest = {
            mmul_smaller(count, left.end - left.begin), full,
            (double)worth_of(stage, own->task.end - own->task.begin, progress->terms_there)};
        count = mmul_pace_take(level, worth_seconds(stage), works->paces[mine].rate, rest);
    }
    taken = (struct mmul_range){left.begin, left.begin + count};
    if (claims)
        taken = mmul_unbegun_take(&progress->unbegun, count);
    works->front = taken.end;
    int64_t first = own->task.line_begin - own->position;
    works->at_hand = (struct mmul_work){.owner = mine,
                                        .task = own->task,
                                        .line_begin = first + taken.begin,
                                        .line_end = first + taken.end,
                                        .begin = atomic_load(&progress->terms_there),
                                        .end = stage->plan->problem.k};
    return taken.begin < taken.end;
}

// --------------------------------------------------------------------------------------- claims

// Lines at the back of a rank's block. False: none, none that would be worth it, or somebody was faster.
static bool claim_of(struct mmul_stage *stage, int owner, double level) {
    const struct mmul_tasks *tasks = &stage->works.tasks[owner];
    mmul_unbegun *unbegun = &progress_of(stage, owner)->unbegun;
    struct mmul_range left = mmul_unbegun_get(unbegun);
    struct mmul_task_cursor last = {0};
    if (left.begin >= left.end)
        return false;
    mmul_tasks_seek(tasks, left.end - 1, &last);
    const struct mmul_task *task = &last.task;
    if (!is_ready(stage, task->step))
        return false;
    int64_t begin = mmul_larger(left.begin, last.position);
    double rate = stage->works.paces[stage->run->context->comm->node_rank].rate;
    int64_t there = atomic_load(&progress_of(stage, owner)->terms_there);
    const struct mmul_rest rest = {left.end - begin, task->line_end - task->line_begin,
                                   (double)worth_of(stage, task->end - task->begin, there)};
    int64_t count =
        mmul_pace_claim(level, worth_seconds(stage), rate, &stage->works.paces[owner], rest);
    count = mmul_smaller(count, stage->lines_most);
    if (count == 0 || !mmul_unbegun_claim(unbegun, left, count))
        return false;
    int64_t end = task->line_begin + left.end - last.position;
    stage->works.at_hand = (struct mmul_work){.owner = owner,
                                              .task = *task,
                                              .line_begin = end - count,
                                              .line_end = end,
                                              .begin = there,
                                              .end = stage->plan->problem.k};
    return true;
}

// Of whoever would end last. *left: somebody has something left to begin, or may let go of it yet.
static bool claim(struct mmul_stage *stage, bool *left) {
    struct mmul_works *works = &stage->works;
    int size = stage->run->context->comm->node_size, last = -1;
    double end = 0;
    *left = false;
    for (int i = 0; i < size; i++) // before the words: it lets go of lines before its last slice
        *left |= atomic_load(&progress_of(stage, i)->slices_left) > 0;
    if (!look_around(stage)) // all of its own was claimed before it began
        return false;
    for (int i = 0; i < size; i++) {
        const struct mmul_pace *pace = &works->paces[i];
        double own_end = pace->until + pace->left / pace->rate;
        if (!(pace->left > 0))
            continue;
        *left = true;
        if (own_end > end) {
            end = own_end;
            last = i;
        }
    }
    return last >= 0 && claim_of(stage, last, mmul_pace_level(works->paces, size));
}

bool mmul_works_next(struct mmul_stage *stage) {
    bool left = stage->layout.node->claims && stage->me->end > stage->me->begin;
    if (take_slice(stage) || take_own(stage))
        return true;
    mmul_stopwatch_enter(&stage->run->watch, NULL);
    while (left && atomic_load(&stage->run->progress->cancelled) == 0) {
        if (claim(stage, &left))
            return true;
        mmul_clock_nap(NAP_SECONDS);
    }
    return false;
}

// ----------------------------------------------------------------------------------- begin, end

// What is at hand, without the terms from `end` on.
static int64_t elements_at_hand(const struct mmul_stage *stage, int64_t end) {
    const struct mmul_work *work = &stage->works.at_hand;
    int64_t width = work->task.end - work->task.begin;
    return (work->line_end - work->line_begin) *
           (worth_of(stage, width, work->begin) - worth_of(stage, width, end));
}

void mmul_works_begin(struct mmul_stage *stage) {
    struct mmul_stage_progress_rank *progress = own_progress(stage);
    stage->works.begun = mmul_clock_now();
    atomic_store(&progress->elements, elements_at_hand(stage, stage->plan->problem.k));
    atomic_store(&progress->begun, (int64_t)(stage->works.begun * 1e9));
}

// What was done before counts half, so that one odd call does not decide.
static void tell_rate(struct mmul_works *works, struct mmul_stage_progress_rank *progress,
                      double elements) {
    works->elements = works->elements / 2 + elements;
    works->seconds = works->seconds / 2 + mmul_clock_now() - works->begun;
    if (works->seconds > 0)
        atomic_store(&progress->rate, (int64_t)(works->elements / works->seconds) + 1);
    atomic_store(&progress->begun, 0);
}

void mmul_works_end(struct mmul_stage *stage) {
    struct mmul_works *works = &stage->works;
    const struct mmul_work *work = &works->at_hand;
    int64_t lines = work->line_end - work->line_begin;
    int64_t elements = elements_at_hand(stage, work->end);
    struct mmul_stage_progress_rank *owner = progress_of(stage, work->owner),
                                    *own = own_progress(stage);
    tell_rate(works, own, (double)elements);
    atomic_fetch_add(&own->elements_done, elements);
    if (own == owner) {
        works->own_elements += elements;
    } else {
        works->claimed_elements += elements;
        works->claims++;
    }
    if (work->end == stage->plan->problem.k &&
        atomic_fetch_sub(&owner->lines_left, lines) == lines) { // the last of its block, whose ever
        mmul_write_back_end(stage, work->owner);
        raise_steps(owner, stage->layout.steps);
    }
}
