// SPDX-License-Identifier: MIT
// Walks the list of tasks by arithmetic on the plan. The run decides which rank begins a task, and
// when.
#include "plan/lists/tasks.h"

#include "base/integer.h"
#include "base/text.h"
#include "model/matrix.h"

bool mmul_tasks_cut_extent(int64_t extent, double share, int64_t least, int64_t index,
                           struct mmul_range *part) {
    const int64_t aligned = extent >= 1024 ? 64 : 1, most = 2;
    int64_t rest = (int64_t)(share * (double)extent) / aligned * aligned;
    int64_t parts = mmul_min(most, rest / mmul_max(aligned, least));
    int64_t begin = extent - rest, each = parts > 0 ? rest / parts / aligned * aligned : 0;
    if (parts == 0)
        *part = (struct mmul_range){0, extent};
    else if (index == 0)
        *part = (struct mmul_range){0, begin};
    else
        *part = (struct mmul_range){begin + (index - 1) * each,
                                    index == parts ? extent : begin + index * each};
    return index <= parts;
}

static const struct mmul_schedule_node *node_of(const struct mmul_tasks *tasks) {
    return &mmul_schedule_nodes(
        tasks->schedule)[mmul_schedule_ranks(tasks->schedule)[tasks->rank].node];
}

// Returns the passes of the schedule that make one task.
static int64_t passes_per_task(const struct mmul_tasks *tasks) {
    int64_t width = mmul_problem_result_width(&tasks->schedule->problem, tasks->schedule->axis);
    return tasks->joined ? mmul_divide_up(width, tasks->schedule->panel_units) : 1;
}

static struct mmul_pass joined_pass(const struct mmul_tasks *tasks, int64_t index) {
    int64_t each = passes_per_task(tasks);
    struct mmul_pass pass = mmul_schedule_pass(tasks->schedule, index * each);
    pass.end = mmul_schedule_pass(tasks->schedule, (index + 1) * each - 1).end;
    return pass;
}

static struct mmul_task product_task(const struct mmul_tasks *tasks, int64_t index) {
    struct mmul_pass pass = joined_pass(tasks, index);
    return (struct mmul_task){.pass = pass,
                              .line_end = mmul_schedule_units(tasks->schedule, tasks->rank, pass),
                              .begin = pass.begin,
                              .end = pass.end};
}

static struct mmul_block_walk walk_product(const struct mmul_tasks *tasks, struct mmul_pass pass) {
    return mmul_product_blocks(tasks->schedule, pass, tasks->rank);
}

static struct mmul_task step_task(const struct mmul_tasks *tasks, int64_t index) {
    (void)index;
    return (struct mmul_task){.line_end = tasks->positions, .end = tasks->width};
}

static struct mmul_block_walk walk_step(const struct mmul_tasks *tasks, struct mmul_pass pass) {
    (void)pass;
    return mmul_step_blocks(tasks->program, tasks->step, tasks->rank);
}

// Functions for the tasks of a product with a schedule, and for those of any other step. uncut:
// returns a task; a list of one pass has one, which is then cut. walk: returns a walk over the
// blocks of a pass.
struct mmul_tasks_kind {
    struct mmul_task (*uncut)(const struct mmul_tasks *tasks, int64_t index);
    struct mmul_block_walk (*walk)(const struct mmul_tasks *tasks, struct mmul_pass pass);
};
static const struct mmul_tasks_kind product_kind = {product_task, walk_product},
                                    step_kind = {step_task, walk_step};

// Selects part `index` of the only pass. Returns false if there is no such part.
static bool cut_single_pass(const struct mmul_tasks *tasks, int64_t index, struct mmul_task *task) {
    *task = tasks->kind->uncut(tasks, 0);
    int64_t extent = tasks->by_lines ? task->line_end : task->end - task->begin;
    struct mmul_range part = {index * tasks->slice, mmul_min((index + 1) * tasks->slice, extent)};
    if (tasks->sums > 1)
        return index == 0;
    if (tasks->slice > 0 && index > 0 && part.begin >= extent)
        return false;
    if (tasks->slice == 0 &&
        !mmul_tasks_cut_extent(extent, tasks->share, tasks->least, index, &part))
        return false;
    if (tasks->by_lines) {
        task->line_begin = part.begin;
        task->line_end = part.end;
    } else {
        task->end = task->begin + part.end;
        task->begin += part.begin;
    }
    return true;
}

static void count_parts(struct mmul_tasks *tasks) {
    struct mmul_task ignored;
    while (cut_single_pass(tasks, tasks->count, &ignored))
        tasks->count++;
}

struct mmul_task mmul_tasks_at(const struct mmul_tasks *tasks, int64_t index) {
    struct mmul_task task;
    if (!tasks->is_single)
        return tasks->kind->uncut(tasks, index);
    (void)cut_single_pass(tasks, index, &task);
    return task;
}

// Limits the slices to eight of at least slice_terms. Slices cost at most 1 % (src/NOTES.md,
// "OpenBLAS"); more of them would let other ranks begin sooner.
static int64_t count_slices(const struct mmul_tasks *tasks) {
    const int64_t most = 8;
    const struct mmul_problem *p = &tasks->schedule->problem;
    bool in_place = mmul_schedule_ranks(tasks->schedule)[tasks->rank].tile.device_bytes == 0 &&
                    p->a_dtype == MMUL_F32 && p->b_dtype == MMUL_F32;
    if (!in_place || !node_of(tasks)->claims || tasks->schedule->slice_terms == 0)
        return 1;
    return mmul_max(1, mmul_min(most, p->k / tasks->schedule->slice_terms));
}

int64_t mmul_tasks_terms_end(const struct mmul_tasks *tasks, int64_t index) {
    const int64_t aligned = 64, k = tasks->terms;
    return index + 1 == tasks->sums ? k : k / tasks->sums * (index + 1) / aligned * aligned;
}

struct mmul_tasks mmul_tasks_of_schedule(const struct mmul_schedule *schedule, int rank,
                                         int64_t slice, bool in_order) {
    const unsigned wide = MMUL_MAPS_C | mmul_maps_whole_operand(schedule->axis);
    struct mmul_tasks tasks = {.schedule = schedule,
                               .kind = &product_kind,
                               .rank = rank,
                               .terms = schedule->problem.k,
                               .sums = 1};
    tasks.joined = (node_of(&tasks)->maps & wide) == wide;
    tasks.by_lines = node_of(&tasks)->checks_whole;
    tasks.share = node_of(&tasks)->claims ? schedule->claim_share : 0;
    tasks.least = mmul_schedule_ranks(schedule)[rank].steal_lines_least;
    tasks.is_single = mmul_schedule_passes(schedule) == passes_per_task(&tasks);
    if (tasks.is_single && slice > 0 && product_task(&tasks, 0).line_end >= 2 * slice) {
        tasks.slice = slice;
        tasks.by_lines = true;
    }
    if (tasks.is_single && tasks.slice == 0 && !in_order)
        tasks.sums = (uint8_t)count_slices(&tasks);
    if (tasks.is_single)
        count_parts(&tasks);
    else
        tasks.count = mmul_schedule_passes(schedule) / passes_per_task(&tasks);
    for (int64_t i = 0; i < tasks.count; i++) {
        const struct mmul_task task = mmul_tasks_at(&tasks, i);
        tasks.positions += task.line_end - task.line_begin;
    }
    return tasks;
}

struct mmul_tasks mmul_tasks_of_step(const struct mmul_program_plan *program,
                                     const struct mmul_program_step *step, int rank) {
    enum { LINES_LEAST = 64 };
    struct mmul_tasks tasks = {.program = program,
                               .step = step,
                               .kind = &step_kind,
                               .rank = rank,
                               .is_single = true,
                               .by_lines = true,
                               .least = LINES_LEAST,
                               .sums = 1};
    int ignored;
    if (step->claim_share > 0 &&
        mmul_program_node_ranks(program, program->costs.rank_node[rank], &ignored) > 1)
        tasks.share = step->claim_share;
    struct mmul_block_walk walk = mmul_step_blocks(program, step, rank);
    struct mmul_block block;
    while (mmul_blocks_next(&walk, &block)) {
        (void)mmul_blocks_skip_alike(&walk, &block);
        if (mmul_region_count(block.at) == 0)
            continue;
        tasks.width = walk.by_cols ? block.at.row_end - block.at.row_begin
                                   : block.at.col_end - block.at.col_begin;
        tasks.terms = block.inner_end - block.inner_begin;
        tasks.positions = walk.line;
    }
    count_parts(&tasks);
    return tasks;
}

struct mmul_block_walk mmul_task_blocks(const struct mmul_tasks *tasks,
                                        const struct mmul_task *task, struct mmul_range lines) {
    struct mmul_pass pass = task->pass;
    pass.begin = task->begin;
    pass.end = task->end;
    struct mmul_block_walk walk = tasks->kind->walk(tasks, pass);
    walk.lines = lines;
    return walk;
}

void mmul_tasks_seek(const struct mmul_tasks *tasks, int64_t position,
                     struct mmul_task_cursor *cursor) {
    if (!cursor->is_there)
        *cursor = (struct mmul_task_cursor){.task = mmul_tasks_at(tasks, 0), .is_there = true};
    for (;;) {
        int64_t lines = cursor->task.line_end - cursor->task.line_begin;
        if (position < cursor->position + lines)
            return;
        cursor->position += lines;
        cursor->task = mmul_tasks_at(tasks, ++cursor->index);
    }
}

double mmul_tasks_elements(const struct mmul_tasks *tasks, int64_t begin, int64_t end) {
    struct mmul_task_cursor cursor = {0};
    double elements = 0;
    while (begin < end) {
        mmul_tasks_seek(tasks, begin, &cursor);
        int64_t lines = cursor.task.line_end - cursor.task.line_begin;
        int64_t until = mmul_min(end, cursor.position + lines);
        elements += (double)(until - begin) * (double)(cursor.task.end - cursor.task.begin);
        begin = until;
    }
    return elements;
}

void mmul_tasks_print(const struct mmul_schedule *schedule, FILE *stream) {
    struct mmul_text table = {0};
    const char *lines = schedule->axis == MMUL_ROWS ? "rows\tcolumns" : "columns\trows";
    mmul_text_add(&table, "rank\ttask\tround\t%s\telements\twaits for\n", lines);
    for (int rank = 0; rank < schedule->size; rank++) {
        struct mmul_tasks tasks = mmul_tasks_of_schedule(schedule, rank, 0, false);
        for (int64_t i = 0; i < tasks.count; i++) {
            struct mmul_task t = mmul_tasks_at(&tasks, i);
            if (t.line_begin == t.line_end)
                continue;
            mmul_text_add(&table, "%d\t%lld\t%lld\t%lld-%lld\t%lld-%lld\t%lld\t", rank,
                          (long long)i, (long long)t.pass.round, (long long)t.line_begin,
                          (long long)t.line_end, (long long)t.begin, (long long)t.end,
                          (long long)((t.line_end - t.line_begin) * (t.end - t.begin)));
            mmul_text_add(&table, "rounds loaded %lld, passes loaded %lld\n",
                          (long long)t.pass.round + 1, (long long)t.pass.index + 1);
        }
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}
