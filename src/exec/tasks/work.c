// SPDX-License-Identifier: MIT
// Selects the next work from the own block and from other ranks, and publishes progress. Computes
// nothing. exec/memory/stealing.c decides how many lines are worth stealing.
#include "exec/tasks/work.h"

#include <math.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "exec/steps/product.h"
#include "exec/steps/rank_resources.h"
#include "exec/tasks/steals.h"
#include "exec/tasks/write_back.h"
#include "model/matrix.h"

// Sleep between two looks for lines to steal (src/NOTES.md, "Waiting, waking and threads").
static const double NAP_SECONDS = 100e-6;

// Do not steal if the expected gain is below 1 % of the time since the run began, or below 200 us,
// about the time of one scan over the other ranks.
static const double WORTH_PART = 0.01, WORTH_SECONDS = 200e-6;

static struct mmul_stage_progress_rank *progress_of(const struct mmul_stage *stage, int node_rank) {
    return &stage->progress->ranks[node_rank];
}

static struct mmul_stage_progress_rank *own_progress(const struct mmul_stage *stage) {
    return progress_of(stage, stage->comm->node_rank);
}

static const struct mmul_tasks *own_tasks(const struct mmul_stage *stage) {
    return &stage->works->tasks[stage->comm->node_rank];
}

// Returns true if this rank still has lines of its own, and slices of their terms to add.
static bool adds_slices(const struct mmul_stage *stage) {
    const struct mmul_works *works = stage->works;
    return own_tasks(stage)->sums > 1 && works->kept > 0 && works->slice < own_tasks(stage)->sums;
}

static int64_t slice_terms(const struct mmul_tasks *tasks, int64_t count) {
    return count > 0 ? mmul_tasks_terms_end(tasks, count - 1) : 0;
}

// Returns the weight, in elements, of a line without its first `there` terms. The weights of the
// parts of a line add up to its width.
static int64_t line_weight(const struct mmul_stage *stage, int64_t width, int64_t there) {
    int64_t k = mmul_max(1, own_tasks(stage)->terms);
    return width - (int64_t)((double)width * ((double)there / (double)k));
}

// Describes lines of a task with `full` lines. The first `there` terms of these lines are in C
// already.
static struct mmul_remaining_lines remaining_lines(const struct mmul_stage *stage,
                                                   const struct mmul_task *task, int64_t lines,
                                                   int64_t full, int64_t there) {
    return (struct mmul_remaining_lines){
        lines, full, (double)line_weight(stage, task->end - task->begin, there)};
}

// Returns the work for `count` positions from `position` on, with the terms from `there` on.
static struct mmul_work make_work(const struct mmul_stage *stage, int owner,
                                  const struct mmul_task_cursor *at, int64_t position,
                                  int64_t count, int64_t there) {
    int64_t first = at->task.line_begin - at->position + position;
    return (struct mmul_work){.owner = owner,
                              .rank = stage->works->tasks[owner].rank,
                              .task = at->task,
                              .index = at->index,
                              .line_begin = first,
                              .line_end = first + count,
                              .begin = there,
                              .end = own_tasks(stage)->terms};
}

// ----------------------------------------------------------------------------------- start, end

// Returns the rate of a product before anything is measured: from the device's flops.
static double predict_rate(const struct mmul_stage *stage) {
    const struct mmul_context *context = stage->rank_resources->context;
    const struct mmul_program_plan *plan = stage->plan;
    const enum mmul_dtype dtype = mmul_place_value(plan, stage->is.step->made)->dtype;
    return mmul_rank_flops(&context->cluster->ranks[context->comm->rank], dtype) /
           (2.0 * (double)mmul_max(1, own_tasks(stage)->terms));
}

// Allocates the lists of all ranks of the node.
static enum mmul_status allocate_works(const struct mmul_comm *comm, struct mmul_works **works,
                                       struct mmul_error *err) {
    enum mmul_status status = MMUL_ALLOCATE(*works, 1, "tasks", err);
    return status != MMUL_OK
               ? status
               : MMUL_ALLOCATE_ALL("tasks", err, MMUL_ARRAY((*works)->tasks, comm->node_size),
                                   MMUL_ARRAY((*works)->paces, comm->node_size + 1));
}

static void free_works(struct mmul_works *works) {
    if (works == NULL)
        return;
    MMUL_FREE_ALL(works->tasks, works->paces, works->lender, works);
}

enum mmul_status mmul_works_create_private(struct mmul_rank_resources *rank_resources,
                                           struct mmul_error *err) {
    return allocate_works(rank_resources->context->comm, &rank_resources->works, err);
}

void mmul_works_destroy_private(struct mmul_rank_resources *rank_resources) {
    free_works(rank_resources->works);
    rank_resources->works = NULL;
}

// Resets the progress of the stage. The own list is set already.
static void begin_list(struct mmul_stage *stage) {
    struct mmul_works *works = stage->works;
    const int64_t positions = own_tasks(stage)->positions;
    works->kept = positions;
    atomic_store(&own_progress(stage)->lines_unfinished, positions);
    atomic_store(&own_progress(stage)->elements_planned,
                 (int64_t)mmul_tasks_elements(own_tasks(stage), 0, positions));
    atomic_store(&own_progress(stage)->slices_unstarted,
                 adds_slices(stage) ? own_tasks(stage)->sums : 0);
    if (positions == 0)
        atomic_store(&own_progress(stage)->passes_done, stage->passes);
}

enum mmul_status mmul_works_init(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_comm *comm = stage->comm;
    if (!stage->is.kind->publishes_tasks && !stage->may_steal)
        return MMUL_OK;
    enum mmul_status status = allocate_works(comm, &stage->works, err);
    if (status == MMUL_OK && stage->steal_scope != MMUL_STEAL_NOTHING)
        status = MMUL_ALLOCATE(stage->works->lender, comm->node_size + 1, "tasks", err);
    if (status != MMUL_OK)
        return status;
    for (int rank = 0, i = 0; rank < comm->size; rank++)
        if (comm->rank_node[rank] == comm->node_index)
            stage->works->tasks[i++] = stage->is.kind->list_tasks(stage, rank);
    stage->works->is_shared = stage->claims;
    begin_list(stage);
    return MMUL_OK;
}

// Returns the number of lines that were lent in the last such stage, scaled to this one. A rank
// that was late then will be late again, so it releases them at the start.
static int64_t lines_lent_before(struct mmul_stage *stage) {
    const struct mmul_stage *last = stage->rank_resources->last_stolen_stage;
    if (stage->steal_scope == MMUL_STEAL_VALUES)
        stage->rank_resources->last_stolen_stage = stage;
    if (stage->steal_scope != MMUL_STEAL_VALUES || last == NULL || own_tasks(last)->positions == 0)
        return 0;
    return atomic_load(&own_progress(last)->lines_lent) * own_tasks(stage)->positions /
           own_tasks(last)->positions;
}

void mmul_works_start_stage(struct mmul_stage *stage) {
    struct mmul_stage_progress_rank *progress = own_progress(stage);
    if (stage->works == NULL) {
        // A list that no other rank reads describes the current stage only.
        struct mmul_works *works = stage->works = stage->rank_resources->works;
        *works = (struct mmul_works){.tasks = works->tasks, .paces = works->paces};
        works->tasks[stage->comm->node_rank] = stage->is.kind->list_tasks(stage, stage->comm->rank);
        begin_list(stage);
        return;
    }
    int64_t positions = own_tasks(stage)->positions;
    atomic_store(&progress->rate,
                 stage->operation->kind == MMUL_MATMUL ? (int64_t)predict_rate(stage) : 0);
    if (!stage->may_steal)
        return;
    stage->works->kept = positions - lines_lent_before(stage);
    mmul_unstarted_set(&progress->unstarted,
                       (struct mmul_range){adds_slices(stage) ? stage->works->kept : 0, positions});
}

void mmul_works_fini(struct mmul_stage *stage) {
    if (stage->works != stage->rank_resources->works)
        free_works(stage->works);
    stage->works = NULL;
}

int mmul_works_list_needs(const struct mmul_stage *stage, struct mmul_pass pass,
                          struct mmul_need needs[static MMUL_NEEDS]) {
    return stage->is.kind->list_needs != NULL ? stage->is.kind->list_needs(stage, pass, needs) : 0;
}

static bool is_ready(const struct mmul_stage *stage, struct mmul_pass pass) {
    struct mmul_need needs[MMUL_NEEDS];
    bool ready = true;
    const int count = mmul_works_list_needs(stage, pass, needs);
    for (int i = 0; i < count; i++)
        ready = ready && atomic_load(needs[i].counter) >= needs[i].goal;
    return ready;
}

// ---------------------------------------------------------------------------------------- paces

// Returns the elements in positions of a rank's block that no rank has begun.
static double unstarted_elements(const struct mmul_stage *stage, int rank, struct mmul_range left) {
    const struct mmul_tasks *tasks = &stage->works->tasks[rank];
    int64_t there = atomic_load(&progress_of(stage, rank)->terms_added);
    double whole = mmul_tasks_elements(tasks, left.begin, left.end);
    return there == 0 ? whole : whole * (1 - (double)there / (double)tasks->terms);
}

// Estimates the pace of every rank of the node. A rank that is late gets the pace implied by its
// delay; a rank without data gets this rank's pace. Returns false if there is no data on this rank
// either.
static bool estimate_paces(const struct mmul_stage *stage, struct mmul_pace *paces) {
    const struct mmul_comm *comm = stage->comm;
    double now = mmul_clock_now(), mine = (double)atomic_load(&own_progress(stage)->rate);
    for (int i = 0; mine > 0 && i < comm->node_size; i++) {
        const struct mmul_stage_progress_rank *progress = progress_of(stage, i);
        struct mmul_pace *pace = &paces[i];
        struct mmul_range left = mmul_unstarted_get(&progress->unstarted);
        double begun = (double)atomic_load(&progress->begun) * 1e-9;
        double elements = (double)atomic_load(&progress->elements),
               rate = (double)atomic_load(&progress->rate);
        *pace = (struct mmul_pace){.left = unstarted_elements(stage, i, left),
                                   .rate = rate > 0 ? rate : mine};
        if (!(begun > 0))
            continue;
        double elapsed = now - begun;
        if (elapsed * pace->rate > elements)
            pace->rate = elements / elapsed;
        pace->until = elements / pace->rate - elapsed;
    }
    return mine > 0;
}

// Returns the seconds until all ranks of the node, and the borrowers from it, would end together,
// from the last estimate_paces.
static double common_end_seconds(struct mmul_stage *stage) {
    const struct mmul_stage_progress *progress = stage->progress;
    struct mmul_pace *paces = stage->works->paces;
    int size = stage->comm->node_size;
    double until = (double)atomic_load(&progress->borrowed_until) * 1e-9 - mmul_clock_now();
    paces[size] = (struct mmul_pace){.until = fmax(0, until),
                                     .rate = (double)atomic_load(&progress->borrower_rate)};
    return mmul_pace_common_finish(paces, size + (paces[size].rate > 0));
}

static double least_gain_seconds(const struct mmul_stage *stage) {
    return fmax(WORTH_SECONDS, WORTH_PART * (mmul_clock_now() - stage->rank_resources->begin));
}

// ------------------------------------------------------------------------------------ own tasks

static void publish_passes(const struct mmul_stage *stage, int owner, int64_t passes) {
    mmul_progress_raise(stage->rank_resources->progress, owner,
                        &progress_of(stage, owner)->passes_done, passes, stage->index + 1);
}

// Releases lines, between two slices, that other ranks would finish sooner. Waits with that until
// all lines released before have been taken.
static void release_lines(struct mmul_stage *stage, int64_t there) {
    struct mmul_works *works = stage->works;
    struct mmul_stage_progress_rank *progress = own_progress(stage);
    struct mmul_range left = mmul_unstarted_get(&progress->unstarted);
    struct mmul_pace *mine = &works->paces[stage->comm->node_rank];
    const struct mmul_task task = mmul_tasks_at(own_tasks(stage), 0);
    const struct mmul_remaining_lines rest =
        remaining_lines(stage, &task, works->kept, own_tasks(stage)->positions, there);
    if (left.begin < left.end || !estimate_paces(stage, works->paces))
        return;
    mine->left = (double)rest.lines * rest.width;
    int64_t kept = mmul_pace_lines_to_keep(common_end_seconds(stage), least_gain_seconds(stage),
                                           mine->rate, rest);
    if (kept == works->kept)
        return;
    atomic_store(&progress->terms_added, there);
    mmul_unstarted_set(&progress->unstarted, (struct mmul_range){kept, works->kept});
    works->kept = kept;
}

// Sets current_work to the next slice of terms, for all lines that are not released.
static bool take_next_slice(struct mmul_stage *stage) {
    struct mmul_works *works = stage->works;
    const struct mmul_tasks *tasks = own_tasks(stage);
    int64_t there = slice_terms(tasks, works->slice);
    if (adds_slices(stage) && there > 0)
        release_lines(stage, there);
    bool any = adds_slices(stage);
    works->slice += any;
    atomic_store(&own_progress(stage)->slices_unstarted,
                 adds_slices(stage) ? tasks->sums - works->slice : 0);
    if (!any)
        return false;
    works->current_work = (struct mmul_work){.owner = stage->comm->node_rank,
                                             .rank = tasks->rank,
                                             .task = mmul_tasks_at(tasks, 0),
                                             .line_end = works->kept,
                                             .begin = there,
                                             .end = slice_terms(tasks, works->slice)};
    return true;
}

// Returns the number of remaining own positions to begin at once. 0: other ranks have taken all of
// them.
static int64_t count_own_lines(struct mmul_stage *stage, struct mmul_range left) {
    struct mmul_works *works = stage->works;
    const struct mmul_task_cursor *own = &works->own;
    int64_t full = own->task.line_end - own->task.line_begin;
    int64_t count = mmul_min(own->position + full, left.end) - left.begin;
    if (!stage->may_steal || count == 0 || !estimate_paces(stage, works->paces))
        return count;
    return mmul_pace_lines_to_begin(
        common_end_seconds(stage), least_gain_seconds(stage),
        works->paces[stage->comm->node_rank].rate,
        remaining_lines(stage, &own->task, count, full,
                        atomic_load(&own_progress(stage)->terms_added)));
}

static bool take_own(struct mmul_stage *stage) {
    struct mmul_works *works = stage->works;
    const struct mmul_tasks *tasks = own_tasks(stage);
    struct mmul_stage_progress_rank *progress = own_progress(stage);
    bool claims = stage->may_steal;
    struct mmul_range left = {works->front, tasks->positions};
    struct mmul_task_cursor *own = &works->own;
    const int mine = stage->comm->node_rank;
    int64_t count;
    do {
        if (claims)
            left = mmul_unstarted_get(&progress->unstarted);
        if (left.begin >= tasks->positions)
            return false;
        mmul_tasks_seek(tasks, left.begin, own);
        // Earlier positions are finished here, or belong to another node now.
        publish_passes(stage, mine, own->task.pass.index);
        count = count_own_lines(stage, left);
        if (count == 0)
            return false;
    } while (claims && !mmul_unstarted_take_front(&progress->unstarted, left, count));
    works->front = left.begin + count;
    works->current_work = make_work(stage, stage->comm->node_rank, own, left.begin, count,
                                    atomic_load(&progress->terms_added));
    return true;
}

// ---------------------------------------------------------------------------------------- stealing

// Returns the rank that would end last among those with work left to begin, or -1. *end: seconds
// until then.
static int choose_victim(const struct mmul_pace *paces, int count, double *end) {
    int last = -1;
    *end = 0;
    for (int i = 0; i < count; i++) {
        double own_end = paces[i].until + paces[i].left / paces[i].rate;
        if (!(paces[i].left > 0) || own_end <= *end)
            continue;
        *end = own_end;
        last = i;
    }
    return last;
}

// A rank that steals: its rate, and the lines it has room for. level: seconds until all ranks would
// end together. worth: seconds that a steal must save.
struct thief {
    double rate, level, worth;
    int64_t max_lines;
    bool is_here; // on this node: inputs must have arrived, and partial sums can be continued
};

// Returns true if lines leave at the front of the owner's block. A block of C that another node
// computes is still sent from here in its turn. The front is better if the owner has the next panel
// already, because its last blocks leave last.
static bool is_from_front(const struct mmul_stage *stage, int owner, const struct thief *who,
                          struct mmul_range left) {
    struct mmul_task_cursor first = {0};
    mmul_tasks_seek(&stage->works->tasks[owner], left.begin, &first);
    return !who->is_here &&
           atomic_load(&stage->progress->passes_loaded) > first.task.pass.index + 1;
}

// Takes lines of a rank's block. Returns false if there are none, none worth their cost, or another
// rank was faster.
static bool take_lines(const struct mmul_stage *stage, int owner, const struct thief *who,
                       const struct mmul_pace *paces, struct mmul_work *work) {
    mmul_unstarted *unstarted = &progress_of(stage, owner)->unstarted;
    struct mmul_range left = mmul_unstarted_get(unstarted);
    struct mmul_task_cursor at = {0};
    if (left.begin >= left.end)
        return false;
    bool front = is_from_front(stage, owner, who, left);
    mmul_tasks_seek(&stage->works->tasks[owner], front ? left.begin : left.end - 1, &at);
    const struct mmul_task *task = &at.task;
    if (who->is_here && !is_ready(stage, task->pass))
        return false;
    int64_t full = task->line_end - task->line_begin;
    int64_t begin = mmul_max(left.begin, at.position);
    int64_t end = mmul_min(left.end, at.position + full);
    int64_t there = who->is_here ? atomic_load(&progress_of(stage, owner)->terms_added) : 0;
    int64_t count =
        mmul_pace_lines_to_steal(who->level, who->worth, who->rate, &paces[owner],
                                 remaining_lines(stage, task, end - begin, full, there));
    count = mmul_min(count, who->max_lines);
    if (count == 0 ||
        !(front ? mmul_unstarted_take_front : mmul_unstarted_steal_back)(unstarted, left, count))
        return false;
    *work = make_work(stage, owner, &at, front ? begin : end - count, count, there);
    return true;
}

// Steals from the rank that would end last. *left: a rank has work left to begin, or may still
// release some.
static bool steal_lines(struct mmul_stage *stage, bool *left) {
    struct mmul_works *works = stage->works;
    const struct mmul_pace *paces = works->paces;
    int size = stage->comm->node_size;
    double end;
    *left = false;
    // Read before `unstarted`: a rank releases lines before its last slice.
    for (int i = 0; i < size; i++)
        *left |= atomic_load(&progress_of(stage, i)->slices_unstarted) > 0;
    if (!estimate_paces(stage, works->paces)) // all own work was taken before this rank began any
        return false;
    int last = choose_victim(paces, size, &end);
    *left |= last >= 0;
    const struct thief self = {paces[stage->comm->node_rank].rate,
                               mmul_pace_common_finish(paces, size), least_gain_seconds(stage),
                               stage->lines_most, true};
    return last >= 0 && take_lines(stage, last, &self, paces, &works->current_work);
}

// Returns true if a rank that has work in this stage has not entered it yet.
static bool has_late_rank(const struct mmul_stage *stage) {
    bool late = false;
    for (int i = 0; i < stage->comm->node_size; i++) {
        const struct mmul_stage_progress_rank *progress = progress_of(stage, i);
        const int64_t all = stage->works->tasks[i].positions;
        late |= all > 0 && atomic_load(&progress->lines_unfinished) == all &&
                atomic_load(&progress->begun) == 0;
    }
    return late;
}

// Steals lines that no rank has begun. Waits while other ranks have such lines, in case they fall
// behind. late: also waits for ranks that have not entered this stage. Returns false if none are
// left.
static bool steal_or_wait(struct mmul_stage *stage, bool late) {
    bool left = stage->works->is_shared && own_tasks(stage)->positions > 0;
    if (left)
        mmul_stopwatch_enter(&stage->rank_resources->watch, NULL);
    while (left && atomic_load(&stage->rank_resources->progress->cancelled) == 0) {
        const bool may_come = late && has_late_rank(stage); // read before `unstarted`
        if (steal_lines(stage, &left))
            return true;
        left |= may_come;
        mmul_clock_sleep(NAP_SECONDS);
    }
    return false;
}

bool mmul_works_select_next(struct mmul_stage *stage) {
    return take_next_slice(stage) || take_own(stage) || steal_or_wait(stage, false) ||
           mmul_steals_take_lines(stage);
}

bool mmul_works_steal(struct mmul_stage *stage) {
    return steal_or_wait(stage, true);
}

// ----------------------------------------------------------------------------------- begin, end

// Returns the elements of the current work, up to term `end`.
static int64_t elements_at_hand(const struct mmul_stage *stage, int64_t end) {
    const struct mmul_work *work = &stage->works->current_work;
    int64_t width = work->task.end - work->task.begin;
    return (work->line_end - work->line_begin) *
           (line_weight(stage, width, work->begin) - line_weight(stage, width, end));
}

// Returns true if the progress is published. Progress of rank-private work is not.
static bool is_progress_published(const struct mmul_stage *stage) {
    return stage->works != stage->rank_resources->works;
}

// Requests lines in advance when a rank that is alone on its node begins the last of its own work.
static void request_ahead(struct mmul_stage *stage) {
    const struct mmul_stage_progress_rank *progress = own_progress(stage);
    const struct mmul_range left = mmul_unstarted_get(&progress->unstarted);
    const double rate = (double)atomic_load(&progress->rate);
    if (stage->comm->node_size == 1 && stage->works->current_work.owner == 0 && stage->may_steal &&
        left.begin == left.end && atomic_load(&progress->slices_unstarted) == 0 && rate > 0)
        mmul_steals_request_ahead(stage, (double)atomic_load(&progress->elements) / rate);
}

void mmul_works_begin_current(struct mmul_stage *stage) {
    struct mmul_stage_progress_rank *progress = own_progress(stage);
    if (!is_progress_published(stage))
        return;
    stage->works->begun = mmul_clock_now();
    atomic_store(&progress->elements, elements_at_hand(stage, own_tasks(stage)->terms));
    atomic_store(&progress->begun, (int64_t)(stage->works->begun * 1e9));
    request_ahead(stage);
}

void mmul_works_count_finished(struct mmul_stage *stage, int owner, int64_t lines) {
    struct mmul_stage_progress_rank *progress = progress_of(stage, owner);
    if (atomic_fetch_sub(&progress->lines_unfinished, lines) != lines)
        return;
    mmul_write_back_publish_all(stage, owner); // the last lines of its block
    publish_passes(stage, owner, stage->passes);
}

// Returns the flops per element of the result, fused operations included.
static double flops_each(const struct mmul_stage *stage) {
    const struct mmul_program_plan *plan = stage->plan;
    const struct mmul_program_step *step = stage->is.step;
    const double elements = mmul_shape_elements(mmul_place_value(plan, step->made)->shape);
    double fused = 0;
    for (int i = 0; i < step->fused_count; i++)
        fused += mmul_program_flops(plan->program, mmul_step_fused_operation(plan, step, i));
    return fused / elements +
           (stage->operation->kind == MMUL_MATMUL
                ? 2.0 * (double)own_tasks(stage)->terms
                : mmul_program_flops(plan->program, stage->operation) / elements);
}

void mmul_works_end_current(struct mmul_stage *stage) {
    struct mmul_works *works = stage->works;
    const struct mmul_work *work = &works->current_work;
    int64_t lines = work->line_end - work->line_begin;
    int64_t elements = elements_at_hand(stage, work->end);
    struct mmul_stage_progress_rank *own = own_progress(stage);
    if (is_progress_published(
            stage)) { // earlier work counts half: a single outlier does not decide
        works->elements = works->elements / 2 + (double)elements;
        works->seconds = works->seconds / 2 + mmul_clock_now() - works->begun;
        if (works->seconds > 0)
            atomic_store(&own->rate, (int64_t)(works->elements / works->seconds) + 1);
        atomic_store(&own->begun, 0);
    }
    atomic_fetch_add(&own->elements_done, elements);
    atomic_fetch_add(&stage->rank_resources->computed_flops,
                     (int64_t)((double)elements * flops_each(stage)));
    if (work->owner == stage->comm->node_rank) {
        works->own_elements += elements;
    } else {
        works->elements_stolen += elements;
        works->claims++;
    }
    if (work->owner >= 0 && work->end == own_tasks(stage)->terms)
        mmul_works_count_finished(stage, work->owner, lines);
    if (work->owner < 0)
        mmul_steals_end_lines(stage);
}

// ---------------------------------------------------------------------------------------- lending

// Returns the seconds until a rank finishes the lines that it has not released, with so many slices
// left.
static double estimate_end(const struct mmul_stage *stage, int rank, const struct mmul_pace *pace,
                           int64_t slices) {
    const struct mmul_tasks *tasks = &stage->works->tasks[rank];
    const double lines = (double)atomic_load(&progress_of(stage, rank)->lines_unfinished);
    const double elements = mmul_tasks_elements(tasks, 0, tasks->positions);
    return pace->until + elements * lines / (double)tasks->positions * (double)slices /
                             (double)tasks->sums / pace->rate;
}

// Returns true if a rank has not started, or is busy long enough to release more lines. The amount
// is not known yet.
static bool may_have_more(const struct mmul_stage *stage, double worth) {
    struct mmul_pace *paces = stage->works->lender;
    const bool is_known = estimate_paces(stage, paces);
    bool more = false;
    for (int i = 0; i < stage->comm->node_size; i++) {
        const int64_t slices = atomic_load(&progress_of(stage, i)->slices_unstarted);
        if (atomic_load(&progress_of(stage, i)->lines_unfinished) == 0)
            continue;
        more |= !is_known || atomic_load(&progress_of(stage, i)->rate) == 0 ||
                (slices > 0 && estimate_end(stage, i, &paces[i], slices) > worth);
    }
    return more;
}

// Limits the borrower's rate and lines by the link if rows move; both directions run at the same
// time. Returns the seconds that moving adds: the first rows arrive before any is computed, the
// last ones leave after all are.
static double limit_by_link(const struct mmul_stage *stage, struct mmul_thief *borrower) {
    const struct mmul_schedule *schedule = stage->schedule;
    const struct mmul_problem *p = &schedule->problem;
    const double link = schedule->link_bytes_per_second;
    const double in = (double)mmul_problem_split_unit_bytes(p, MMUL_ROWS),
                 out = (double)mmul_problem_result_unit_bytes(p, MMUL_ROWS);
    if (stage->steal_scope != MMUL_STEAL_VALUES)
        return 0;
    const double fastest = link * (double)p->c.cols / fmax(in, out);
    borrower->rate = fmin(borrower->rate, fastest);
    borrower->node_rate = fmin(borrower->node_rate, fastest);
    const int64_t room = mmul_schedule_stolen_lines_most(schedule, borrower->rank);
    borrower->max_lines = mmul_min(borrower->max_lines, room);
    return (double)room / MMUL_STEAL_CHUNKS * (in + 2 * out) / link;
}

static void give_lines(struct mmul_stage *stage, const struct mmul_thief *borrower,
                       const struct mmul_work *work) {
    const int64_t lines = work->line_end - work->line_begin;
    const double busy = (double)(lines * (work->task.end - work->task.begin)) / borrower->rate;
    atomic_store(&stage->progress->borrowed_until, (int64_t)((mmul_clock_now() + busy) * 1e9));
    atomic_fetch_add(&progress_of(stage, work->owner)->lines_lent, lines);
    if (stage->steal_scope == MMUL_STEAL_VALUES)
        mmul_steals_give_lines(stage, work, borrower->rank);
    else
        mmul_works_count_finished(stage, work->owner, lines);
}

bool mmul_works_give_lines(struct mmul_stage *stage, const struct mmul_thief *asks,
                           struct mmul_work *work, double *seconds) {
    struct mmul_pace *paces = stage->works->lender;
    struct mmul_thief borrower = *asks;
    int size = stage->comm->node_size;
    *seconds = 0;
    if (paces == NULL ||
        (stage->steal_scope == MMUL_STEAL_VALUES && !mmul_steals_can_move_rows(stage)))
        return false;
    const double moving = limit_by_link(stage, &borrower),
                 worth = fmax(least_gain_seconds(stage), moving);
    bool more = may_have_more(stage, worth); // read before `unstarted`
    *seconds = more;
    atomic_store(&stage->progress->borrower_rate, (int64_t)borrower.node_rate);
    if (!estimate_paces(stage, paces))
        return false;
    int last = choose_victim(paces, size, seconds);
    *seconds = fmax(*seconds, more);
    const double until = fmax(moving, borrower.until);
    paces[size] = (struct mmul_pace){.rate = borrower.node_rate, .until = until};
    const struct thief who = {borrower.rate, mmul_pace_common_finish(paces, size + 1) - until,
                              worth, borrower.max_lines, false};
    if (last < 0 ||
        (stage->steal_scope == MMUL_STEAL_VALUES && !mmul_steals_has_free_entry(stage)) ||
        !take_lines(stage, last, &who, paces, work))
        return false;
    give_lines(stage, &borrower, work);
    (void)estimate_paces(stage, paces);
    (void)choose_victim(paces, size, seconds);
    *seconds = fmax(*seconds, more);
    return true;
}
