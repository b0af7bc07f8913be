// SPDX-License-Identifier: MIT
// Fuses operations: a step takes in the steps that make its operands, if all work on the same
// elements or rows in the same placement. The fused step stands at the position of its last
// operation, so every other reader of its results must stand behind that. Placements stay as
// chosen.
//
//     m = b g + c m0 ----+------------> m
//                        w = w0 - ... -> w
//     v = d g g + e v0 --+------------> v
//
// The three form a group. A result that no step outside reads exists only in tiles, never in memory
// as a whole. A result that others read too is a further result of the step.
//
// A group has at most one operation that does not work by elements or rows, its head, such as a
// product. The head is made first, and all others work on its result.
// Without fusion a turn of AdamW takes 3.3 times as long, a product with four operations 1.2 times
// (bench/ledger.md).
#include "plan/program/program_planning.h"

#include <math.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "model/matrix.h"

// Most operations of a group: a tile of each operand and result fits the processor's caches.
enum { MEMBERS_MOST = 32 };

// A group of steps, known by the step that carries it out.
struct group {
    int head;         // step of an operation that does not work by elements or rows; -1: none
    int first, count; // member steps: a list by `after`
    bool by_rows;     // members work on rows, counted over all matrices
    bool is_reshaped; // by_rows is required
    // By the step itself: it may join another group; it may take in others.
    bool may_join, takes;
};

struct grouping {
    struct mmul_program_plan *plan;
    struct group *groups; // owned, by step
    int *into;            // owned, by step: the step that took it in, or itself
    int *after;           // owned, by step: next member of its group; -1
    int *producers;       // owned, by place: step that makes its memory; -1
    // Owned: steps that read the memory of place p: [first_one[p], first_one[p + 1]).
    int *readers, *first_one;
    bool *is_wanted; // owned, by place: its memory is a result, or has readers elsewhere
};

static const struct mmul_program_step *step_at(const struct grouping *g, int step) {
    return &g->plan->steps[step];
}

static struct mmul_shape made_shape(const struct grouping *g, int step) {
    return mmul_place_value(g->plan, step_at(g, step)->result)->shape;
}

static enum mmul_placement_kind kind_of(const struct grouping *g, int step) {
    return g->plan->places[step_at(g, step)->result].placement.kind;
}

static int64_t rows_of(struct mmul_shape s) {
    return mmul_shape_matrices(s) * s.rows;
}

static int find_group(const struct grouping *g, int step) {
    while (g->into[step] != step)
        step = g->into[step];
    return step;
}

// ----------------------------------------------------------------------------------- one operation

static bool is_by_element(const struct mmul_operation *o) {
    const struct mmul_operation_row *row = mmul_operation_row(o->kind);
    return row->class == MMUL_CLASS_ELEMENTS ||
           (row->class == MMUL_CLASS_ROWS && !row->picks && row->indices == 0);
}

static bool is_fusable_placement(enum mmul_placement_kind kind) {
    return kind == MMUL_PLACE_ROWS || kind == MMUL_PLACE_COLS || kind == MMUL_PLACE_REPLICATE ||
           kind == MMUL_PLACE_GRID;
}

// Returns true if an operand of a step is read tile by tile, in the order of the step's result in
// memory.
static bool is_read_in_tiles(const struct grouping *g, int step, int index) {
    const struct mmul_operation *o = mmul_step_operation(g->plan, step_at(g, step));
    const struct mmul_operation_row *row = mmul_operation_row(o->kind);
    const int place = step_at(g, step)->operands[index];
    return step_at(g, step)->kind == MMUL_STEP_COMPUTE && is_by_element(o) &&
           (row->class == MMUL_CLASS_ELEMENTS || index < row->by_row) &&
           !mmul_program_is_read_transposed(g->plan, place) &&
           mmul_shape_equal(mmul_place_value(g->plan, place)->shape, made_shape(g, step));
}

// Returns true if the rows of all matrices of the result may be made like rows of one matrix.
static bool fits_by_rows(const struct grouping *g, int step) {
    const struct mmul_operation *o = mmul_step_operation(g->plan, step_at(g, step));
    const struct mmul_shape r = made_shape(g, step);
    bool fits = o->kind != MMUL_ROPE && !(o->kind == MMUL_SOFTMAX && o->with.causal) &&
                !(o->kind == MMUL_SOFTMAX_BACKWARD && o->with.causal);
    for (int i = 0; fits && i < MMUL_OPERANDS; i++) {
        const int place = step_at(g, step)->operands[i];
        if (place < 0)
            continue;
        const struct mmul_shape x = mmul_place_value(g->plan, place)->shape;
        const bool is_alike = x.batch == r.batch && x.depth == r.depth && x.rows == r.rows;
        const bool is_vector = mmul_shape_matrices(x) == 1 && x.rows == 1;
        fits = is_vector || (is_alike && (mmul_shape_matrices(x) == 1 ||
                                          !mmul_program_is_read_transposed(g->plan, place)));
    }
    return fits;
}

// Returns true if operands and result have one type. Tiles between fused operations have one type.
static bool is_of_one_type(const struct grouping *g, int step) {
    const struct mmul_program_step *s = step_at(g, step);
    bool all = true;
    for (int i = 0; i < MMUL_OPERANDS; i++)
        all &= s->operands[i] < 0 || mmul_place_value(g->plan, s->operands[i])->dtype ==
                                         mmul_place_value(g->plan, s->result)->dtype;
    return all;
}

// Without by_rows every matrix takes a call per fused operation, so many small ones are not worth
// it.
static bool is_large_enough(struct mmul_shape shape) {
    enum { MATRIX_LEAST = 1 << 16 };
    return mmul_shape_matrices(shape) == 1 || shape.rows * shape.cols >= MATRIX_LEAST;
}

static struct group begin_group(const struct grouping *g, int step) {
    struct group group = {.head = -1, .first = step, .count = 1};
    const struct mmul_program_step *s = step_at(g, step);
    if (s->kind == MMUL_STEP_MOVE)
        return group;
    const enum mmul_placement_kind kind = kind_of(g, step);
    const bool is_one = is_by_element(mmul_step_operation(g->plan, step_at(g, step)));
    group.head = is_one ? -1 : step;
    group.by_rows = (kind == MMUL_PLACE_ROWS || kind == MMUL_PLACE_REPLICATE) &&
                    (!is_one || fits_by_rows(g, step));
    group.may_join = is_fusable_placement(kind) && (kind != MMUL_PLACE_GRID || is_one) &&
                     is_of_one_type(g, step);
    group.takes = group.may_join && is_one;
    return group;
}

// ------------------------------------------------------------------------------ readers of a value

static enum mmul_status record_readers(struct grouping *g, struct mmul_error *err) {
    const struct mmul_program_plan *plan = g->plan;
    int total = 0;
    for (int i = 0; i < plan->place_count; i++) {
        g->producers[i] = -1;
        g->is_wanted[i] = true; // until a reader is found
    }
    for (int i = 0; i < plan->step_count; i++)
        for (int j = 0; j < MMUL_OPERANDS; j++)
            if (plan->steps[i].operands[j] >= 0) {
                g->first_one[mmul_program_base_place(plan, plan->steps[i].operands[j]) + 1]++;
                g->is_wanted[plan->steps[i].operands[j]] = false;
                total++;
            }
    for (int i = 0; i < plan->place_count; i++)
        g->first_one[i + 1] += g->first_one[i];
    // Views come after the places they show.
    for (int i = plan->place_count - 1; i >= 0; i--)
        if (plan->places[i].view_of >= 0)
            g->is_wanted[plan->places[i].view_of] = false;
    for (int i = 0; i < plan->place_count; i++)
        g->is_wanted[mmul_program_base_place(plan, i)] |=
            g->is_wanted[i] || plan->places[i].kept >= 0;
    enum mmul_status status = MMUL_ALLOCATE(g->readers, total + 1, "a plan", err);
    for (int i = plan->step_count - 1; status == MMUL_OK && i >= 0; i--) {
        g->producers[mmul_program_base_place(plan, plan->steps[i].result)] = i;
        for (int j = 0; j < MMUL_OPERANDS; j++)
            if (plan->steps[i].operands[j] >= 0)
                g->readers[--g->first_one
                                 [mmul_program_base_place(plan, plan->steps[i].operands[j]) + 1]] =
                    i;
    }
    // Each entry began at the next one's begin and was counted down to its own.
    for (int i = 0; status == MMUL_OK && i < plan->place_count; i++)
        g->first_one[i] = g->first_one[i + 1];
    if (status == MMUL_OK)
        g->first_one[plan->place_count] = total;
    return status;
}

static int result_base(const struct grouping *g, int step) {
    return mmul_program_base_place(g->plan, step_at(g, step)->result);
}

// Returns the last step that reads the memory of a place, by the current groups; -1: none.
static int last_reader(const struct grouping *g, int base) {
    int last = -1;
    for (int i = g->first_one[base]; i < g->first_one[base + 1]; i++)
        last = (int)mmul_max(last, find_group(g, g->readers[i]));
    return last;
}

// Returns true if every reader of a group's results still stands behind them once the group is part
// of the group of `step`.
static bool readers_allow_delay(const struct grouping *g, int group, int step) {
    for (int k = g->groups[group].first; k >= 0; k = g->after[k]) {
        const int base = result_base(g, k);
        for (int i = g->first_one[base]; i < g->first_one[base + 1]; i++) {
            const int reader = g->readers[i], at = find_group(g, reader);
            if (at == group || at > step)
                continue;
            if (at < step)
                return false;
            for (int j = 0; j < MMUL_OPERANDS; j++) {
                const int place = step_at(g, reader)->operands[j];
                if (place >= 0 && mmul_program_base_place(g->plan, place) == base &&
                    !is_read_in_tiles(g, reader, j))
                    return false;
            }
        }
    }
    return true;
}

// Returns true if memory grows when a group moves back to the step: its operands live longer
// instead of its results, while the steps between make values.
static bool delay_grows_memory(const struct grouping *g, int group, int step) {
    const struct mmul_program_plan *plan = g->plan;
    double saved = 0, longer = 0, made = 0; // elements
    for (int i = group + 1; i < step; i++)
        if (g->into[i] == i && plan->steps[i].kind != MMUL_STEP_REMOVED)
            made += mmul_shape_elements(made_shape(g, i));
    for (int k = g->groups[group].first; made > 0 && k >= 0; k = g->after[k]) {
        saved +=
            last_reader(g, result_base(g, k)) != group ? mmul_shape_elements(made_shape(g, k)) : 0;
        for (int j = 0; j < MMUL_OPERANDS; j++) {
            const int place = step_at(g, k)->operands[j];
            const int base = place < 0 ? -1 : mmul_program_base_place(plan, place);
            if (base >= 0 && !mmul_place_is_file(plan, base) && last_reader(g, base) < step)
                longer += mmul_shape_elements(mmul_place_value(g->plan, place)->shape);
        }
    }
    return made > saved && longer > saved;
}

// Returns true if a rank has the same part of both. A single rank has all rows of both.
static bool holds_same_part(const struct grouping *g, enum mmul_placement_kind a,
                            enum mmul_placement_kind b) {
    const bool is_whole_a = a == MMUL_PLACE_ROWS || a == MMUL_PLACE_REPLICATE,
               is_whole_b = b == MMUL_PLACE_ROWS || b == MMUL_PLACE_REPLICATE;
    return a == b || (g->plan->costs.size == 1 && is_whole_a && is_whole_b);
}

static bool can_join(const struct grouping *g, int group, int step) {
    const struct group *from = &g->groups[group], *to = &g->groups[step];
    const struct mmul_shape made = made_shape(g, group), r = made_shape(g, step);
    const bool by_rows = from->by_rows && to->by_rows;
    const bool is_reshaped = from->is_reshaped || to->is_reshaped || !mmul_shape_equal(made, r);
    return from->may_join && (from->head < 0 || to->head < 0) &&
           from->count + to->count <= MEMBERS_MOST &&
           holds_same_part(g, kind_of(g, group), kind_of(g, step)) &&
           mmul_place_value(g->plan, step_at(g, group)->result)->dtype ==
               mmul_place_value(g->plan, step_at(g, step)->result)->dtype &&
           rows_of(r) == rows_of(made) && r.cols == made.cols &&
           (by_rows || (!is_reshaped && is_large_enough(r))) &&
           readers_allow_delay(g, group, step) && !delay_grows_memory(g, group, step);
}

// ---------------------------------------------------------------------------------------- grouping

static void join_groups(struct grouping *g, int group, int step) {
    struct group *from = &g->groups[group], *to = &g->groups[step];
    to->is_reshaped |=
        from->is_reshaped || !mmul_shape_equal(made_shape(g, group), made_shape(g, step));
    to->by_rows &= from->by_rows;
    to->head = from->head >= 0 ? from->head : to->head;
    to->count += from->count;
    g->into[group] = step;
    int a = from->first, b = to->first, *end = &to->first;
    // Merges the lists in the order of the steps.
    while (a >= 0 || b >= 0) {
        int *next = b < 0 || (a >= 0 && a < b) ? &a : &b;
        *end = *next;
        end = &g->after[*next];
        *next = *end;
    }
    *end = -1;
}

// Returns the last group before `below` that makes an operand of the step's group; -1: none.
static int find_maker(const struct grouping *g, int step, int below) {
    int last = -1;
    for (int k = g->groups[step].first; k >= 0; k = g->after[k])
        for (int j = 0; j < MMUL_OPERANDS; j++) {
            const int place = step_at(g, k)->operands[j];
            const int maker =
                place < 0 ? -1 : g->producers[mmul_program_base_place(g->plan, place)];
            const int group = maker < 0 ? -1 : find_group(g, maker);
            if (group != step && group < below)
                last = (int)mmul_max(last, group);
        }
    return last;
}

// Takes in makers, the last one first, because it may read results of earlier ones. A maker that
// joins adds its own operands, made before it.
static void take_in_makers(struct grouping *g, int step, bool only_products) {
    int group = find_maker(g, step, step);
    while (group >= 0) {
        const int head = g->groups[group].head;
        const bool is_asked = !only_products || head < 0 ||
                              mmul_step_operation(g->plan, step_at(g, head))->kind == MMUL_MATMUL;
        if (is_asked && can_join(g, group, step))
            join_groups(g, group, step);
        group = find_maker(g, step, group);
    }
}

// ------------------------------------------------------------------------------------------- steps

// Returns true if the result of a member is read in its group alone.
static bool is_read_within_group(const struct grouping *g, int step) {
    const int base = result_base(g, step), group = find_group(g, step);
    bool is_alone = !g->is_wanted[base];
    for (int i = g->first_one[base]; is_alone && i < g->first_one[base + 1]; i++)
        is_alone = find_group(g, g->readers[i]) == group;
    return is_alone;
}

static void elide_place(struct mmul_program_plan *plan, int base) {
    for (int i = base; i < plan->place_count; i++)
        plan->places[i].is_elided |= mmul_program_base_place(plan, i) == base;
}

// Returns the last member that reads another member's result.
static int last_member(const struct grouping *g, int step) {
    int last = step;
    for (int i = g->first_one[result_base(g, step)]; i < g->first_one[result_base(g, step) + 1];
         i++)
        last = (int)mmul_max(last, g->readers[i]);
    return last;
}

// Gives each result that is read in the group alone a tile, until its last reader is done.
static void assign_tiles(const struct grouping *g, int index, struct mmul_program_step *step) {
    int busy_to[MEMBERS_MOST]; // by tile: last member that reads its content
    for (int k = g->groups[index].first; k >= 0; k = g->after[k]) {
        int tile = 0;
        if (g->groups[index].head == k || !is_read_within_group(g, k))
            continue;
        while (tile < step->tile_count && busy_to[tile] >= k)
            tile++;
        step->tile_count = (int)mmul_max(step->tile_count, tile + 1);
        busy_to[tile] = last_member(g, k);
        elide_place(g->plan, result_base(g, k));
        g->plan->places[result_base(g, k)].tile = tile + 1;
    }
}

// Returns the seconds saved because a member's result is not read from memory, and not written
// there if it stays within the group.
static double saved_seconds(const struct grouping *g, int step) {
    const int base = result_base(g, step), group = find_group(g, step);
    int passes = is_read_within_group(g, step);
    for (int i = g->first_one[base]; i < g->first_one[base + 1]; i++)
        passes += find_group(g, g->readers[i]) == group;
    return passes * mmul_program_scan_seconds(mmul_program_step_costs(g->plan, step_at(g, step)),
                                              mmul_place_value(g->plan, base),
                                              g->plan->places[base].placement.kind);
}

static void add_fused(const struct grouping *g, int step) {
    struct mmul_program_plan *plan = g->plan;
    const struct mmul_program_step *s = step_at(g, step);
    struct mmul_program_fused *fused = &plan->fused[plan->fused_count++];
    *fused = (struct mmul_program_fused){.operation = s->operation, .result = s->result};
    for (int j = 0; j < MMUL_OPERANDS; j++) {
        const int maker =
            s->operands[j] < 0 ? -1 : g->producers[mmul_program_base_place(plan, s->operands[j])];
        fused->operands[j] = s->operands[j];
        fused->within[j] = maker >= 0 && find_group(g, maker) == find_group(g, step);
    }
}

// Replaces the group by one step, at the position of its last member.
static void make_step(struct grouping *g, int index) {
    struct mmul_program_plan *plan = g->plan;
    const struct group *group = &g->groups[index];
    const int result = plan->steps[index].result;
    struct mmul_program_step step = plan->steps[group->head >= 0 ? group->head : group->first];
    step.by_rows = group->by_rows;
    step.first_fused = plan->fused_count;
    for (int k = group->first; k >= 0; k = g->after[k]) {
        if (k == group->head)
            continue;
        const double more = fmax(plan->steps[k].seconds - saved_seconds(g, k), 0);
        step.seconds += k != group->first || group->head >= 0 ? more : 0;
        step.fused_seconds += k != group->first || group->head >= 0 ? more : 0;
        add_fused(g, k);
    }
    step.fused_count = plan->fused_count - step.first_fused;
    assign_tiles(g, index, &step);
    step.made = step.result = result;
    if (group->head >= 0) {
        step.made = plan->steps[group->head].result;
        // The head's result occupies the memory of the final result.
        if (is_read_within_group(g, group->head)) {
            elide_place(plan, step.made);
            plan->places[step.made].view_of = result;
            plan->places[step.made].reshaped = true;
        }
    }
    for (int k = group->first; k >= 0; k = g->after[k])
        plan->steps[k].kind = MMUL_STEP_REMOVED;
    plan->steps[index] = step;
}

static void make_steps(struct grouping *g) {
    for (int i = 0; i < g->plan->step_count; i++)
        g->plan->steps[i].made = g->plan->steps[i].result;
    for (int i = 0; i < g->plan->step_count; i++)
        if (g->into[i] == i && g->groups[i].count > 1)
            make_step(g, i);
}

enum mmul_status mmul_program_fuse_operations(struct mmul_program_plan *plan,
                                              struct mmul_error *err) {
    struct grouping g = {.plan = plan};
    const int steps = plan->step_count, places = plan->place_count;
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("a plan", err, MMUL_ARRAY(plan->fused, steps + 1),
                          MMUL_ARRAY(g.groups, steps + 1), MMUL_ARRAY(g.into, steps + 1),
                          MMUL_ARRAY(g.after, steps + 1), MMUL_ARRAY(g.producers, places + 1),
                          MMUL_ARRAY(g.first_one, places + 1), MMUL_ARRAY(g.is_wanted, places + 1));
    if (status == MMUL_OK)
        status = record_readers(&g, err);
    for (int i = 0; status == MMUL_OK && i < steps; i++) {
        g.groups[i] = begin_group(&g, i);
        g.into[i] = i;
        g.after[i] = -1;
    }
    // Operations on products first.
    for (int turn = 0; status == MMUL_OK && !plan->options.keeps_values && turn < 2; turn++)
        for (int i = 0; i < steps; i++)
            if (g.into[i] == i && g.groups[i].takes)
                take_in_makers(&g, i, turn == 0);
    if (status == MMUL_OK)
        make_steps(&g);
    MMUL_FREE_ALL(g.groups, g.into, g.after, g.producers, g.readers, g.first_one, g.is_wanted);
    return status;
}
