// SPDX-License-Identifier: MIT
// A look at who reads which place. Chooses nothing: placements are as they were chosen. What moves goes another way,
// while it is computed with; and operations go together: a step takes in the one reader of what it makes, where that
// has to do with elements or rows that are where they are wanted.
#include "plan/program/program_planning.h"

#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "model/matrix.h"

// Who reads a place, and what moves make and take it.
struct use {
    int count;  // steps that read it, and views of it; kept up as products take over
    int reader; // one of the steps; -1: none
    int view;   // one of the views; -1: none
    int last;   // the last step that reads it, or what it shows, or views of it
    int brings; // the move that makes it; -1: none does
    int takes;  // the first move that takes it to a file; -1: none does
};

struct fusing {
    struct mmul_program_plan *plan;
    struct use *uses; // by place
};

static const struct mmul_operation *operation_of(const struct mmul_program_plan *plan,
                                                 const struct mmul_program_step *step) {
    return &plan->program->operations[step->operation];
}

static struct mmul_shape shape_of(const struct mmul_program_plan *plan, int place) {
    return plan->program->values[plan->places[place].value].shape;
}

static bool is_file(const struct mmul_program_plan *plan, int place) {
    return plan->places[place].placement.kind == MMUL_PLACE_FILE;
}

static enum mmul_status find_uses(struct fusing *f, struct mmul_error *err) {
    const struct mmul_program_plan *plan = f->plan;
    enum mmul_status status = MMUL_ALLOCATE(f->uses, plan->place_count, "a plan", err);
    for (int i = 0; status == MMUL_OK && i < plan->place_count; i++)
        f->uses[i] = (struct use){0, -1, -1, -1, -1, -1};
    for (int i = 0; status == MMUL_OK && i < plan->place_count; i++)
        if (plan->places[i].view_of >= 0) {
            f->uses[plan->places[i].view_of].count++;
            f->uses[plan->places[i].view_of].view = i;
        }
    for (int i = 0; status == MMUL_OK && i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        for (int j = 0; j < MMUL_OPERANDS; j++) {
            if (step->operands[j] < 0)
                continue;
            f->uses[step->operands[j]].count++;
            f->uses[step->operands[j]].reader = i;
            f->uses[mmul_program_base(plan, step->operands[j])].last = i;
        }
        if (step->kind != MMUL_STEP_MOVE)
            continue;
        f->uses[step->result].brings = i;
        struct use *from = &f->uses[step->operands[0]];
        if (is_file(plan, step->result) && from->takes < 0)
            from->takes = i;
    }
    return status;
}

// NULL: there is no such move any more.
static struct mmul_program_step *move_at(const struct fusing *f, int step) {
    return step >= 0 && f->plan->steps[step].kind == MMUL_STEP_MOVE ? &f->plan->steps[step] : NULL;
}

static void read_instead(struct fusing *f, struct mmul_program_step *step, int index, int place) {
    f->uses[step->operands[index]].count--;
    f->uses[place].count++;
    step->operands[index] = place;
}

// As they are in memory, not the other way round.
static bool has_rows(const struct mmul_program_plan *plan, int place) {
    bool turned = false;
    for (int at = place; plan->places[at].view_of >= 0; at = plan->places[at].view_of)
        turned |= plan->places[at].transposed;
    return plan->places[place].placement.kind == MMUL_PLACE_ROWS && !turned;
}

// The product does what the move did.
static void take_over(struct fusing *f, struct mmul_program_step *step,
                      struct mmul_program_step *move, int place) {
    f->plan->places[place].is_gone = true;
    step->seconds += move->seconds;
    step->network_bytes += move->network_bytes;
    move->kind = MMUL_STEP_GONE;
    f->uses[move->operands[0]].count--;
    move->operands[0] = -1;
}

// What a place shows turned round, so long as nobody else looks at it.
static int find_turned(const struct fusing *f, int place, bool *turned) {
    *turned = false;
    while (f->plan->places[place].transposed && f->uses[place].count == 1) {
        place = f->plan->places[place].view_of;
        *turned = !*turned;
    }
    return place;
}

// The file that an operand comes from, where the product can take the place of the move that brings it.
static bool bring(struct fusing *f, struct mmul_program_step *step, int index) {
    const struct mmul_program_plan *plan = f->plan;
    int place = step->operands[index];
    bool turned;
    const int base = find_turned(f, place, &turned);
    struct mmul_program_step *move = move_at(f, f->uses[base].brings);
    if (plan->options.keeps_values || move == NULL || !is_file(plan, move->operands[0]) ||
        plan->places[base].kept >= 0 || f->uses[base].count != 1 ||
        plan->program->operations[plan->places[move->operands[0]].operation].kind != MMUL_LOAD)
        return false;
    read_instead(f, step, index, move->operands[0]);
    step->turned[index] = turned != operation_of(plan, step)->scale.turned[index];
    for (; place != base; place = plan->places[place].view_of)
        plan->places[place].is_gone = true;
    take_over(f, step, move, base);
    return true;
}

// The file that the result goes to, likewise.
static void take_to_file(struct fusing *f, struct mmul_program_step *step) {
    int place = step->result;
    struct mmul_program_step *move = move_at(f, f->uses[place].takes);
    if (f->plan->options.keeps_values || move == NULL || f->plan->places[place].kept >= 0 ||
        f->uses[place].count != 1)
        return;
    step->result = move->result;
    take_over(f, step, move, place);
}

// The whole operand, where a move would bring it to all nodes from ranks that have rows of it.
static void spread(struct fusing *f, struct mmul_program_step *step, int index) {
    const int place = step->operands[index];
    struct mmul_program_step *move = move_at(f, f->uses[place].brings);
    if (move == NULL || f->uses[place].count != 1 || !has_rows(f->plan, move->operands[0]) ||
        f->plan->places[move->operands[0]].placement.holders != NULL)
        return;
    read_instead(f, step, index, move->operands[0]);
    take_over(f, step, move, place);
    step->spreads = true;
}

// Are both operands split by rows, or one whose matrices meet several of the other's? The ranks have what they
// need.
static bool is_by_groups(const struct mmul_program_plan *plan,
                         const struct mmul_program_step *step) {
    const struct mmul_shape result = shape_of(plan, step->result);
    bool by_groups = false;
    if (operation_of(plan, step)->scale.is_given) // its operands are in files
        return false;
    for (int i = 0; step->kind == MMUL_STEP_COMPUTE && i < MMUL_FACTORS && step->operands[i] >= 0;
         i++) {
        const struct mmul_shape have = shape_of(plan, step->operands[i]);
        bool same = have.batch == result.batch && have.depth == result.depth;
        by_groups |=
            plan->places[step->operands[i]].placement.kind == MMUL_PLACE_ROWS && (i == 1 || !same);
    }
    return by_groups;
}

static void fuse_product(struct fusing *f, struct mmul_program_step *step) {
    const struct mmul_program_plan *plan = f->plan;
    const struct mmul_placement *made = &plan->places[step->result].placement;
    bool rows = made->kind == MMUL_PLACE_ROWS;
    if (is_by_groups(plan, step) || made->holders != NULL) // a team's ranks have what they need
        return;
    if (step->kind != MMUL_STEP_COMPUTE || operation_of(plan, step)->kind != MMUL_MATMUL ||
        !(rows || made->kind == MMUL_PLACE_COLS))
        return;
    step->is_product = true;
    step->axis = rows ? MMUL_ROWS : MMUL_COLS;
    step->offsets = rows ? made->row_offsets : made->col_offsets;
    bool joined[MMUL_FACTORS];
    for (int i = 0; i < MMUL_FACTORS; i++)
        joined[i] = bring(f, step, i);
    step->seconds -=
        mmul_program_joined_saving(&plan->costs, plan->program, operation_of(plan, step),
                                   &(struct mmul_rule){.result = made->kind}, joined);
    take_to_file(f, step);
    spread(f, step, rows ? 1 : 0);
    if (is_file(plan, step->operands[rows ? 0 : 1]) && is_file(plan, step->result))
        step->offsets = NULL;
}

enum mmul_status mmul_program_fuse(struct mmul_program_plan *plan, struct mmul_error *err) {
    struct fusing f = {.plan = plan};
    enum mmul_status status = find_uses(&f, err);
    for (int i = 0; status == MMUL_OK && i < plan->step_count; i++)
        fuse_product(&f, &plan->steps[i]);
    mmul_free(f.uses);
    return status;
}

// --------------------------------------------------------------------------------------- epilogues

// A step takes in the one reader of what it makes, again and again.
struct group {
    struct mmul_program_plan *plan;
    struct use *uses; // by place
    int step;         // at hand: what it makes is
    int place;        // this, in the end
    bool by_rows;     // so far rows of all matrices, one after the other, will do
    bool is_reshaped; // and they must
};

static const struct mmul_operation *made_by(const struct group *c, int step) {
    return operation_of(c->plan, &c->plan->steps[step]);
}

static bool is_by_element(const struct mmul_operation *o) {
    const struct mmul_operation_row *row = mmul_operation_row(o->kind);
    return row->class == MMUL_CLASS_ELEMENTS ||
           (row->class == MMUL_CLASS_ROWS && !row->picks && row->by_row == 1);
}

static bool is_together(enum mmul_placement_kind kind) {
    return kind == MMUL_PLACE_ROWS || kind == MMUL_PLACE_COLS || kind == MMUL_PLACE_REPLICATE ||
           kind == MMUL_PLACE_GRID;
}

static bool is_turned(const struct group *c, int place) {
    bool turned = false;
    for (; c->plan->places[place].view_of >= 0; place = c->plan->places[place].view_of)
        turned ^= c->plan->places[place].transposed;
    return turned;
}

static int64_t rows_of(struct mmul_shape s) {
    return mmul_shape_matrices(s) * s.rows;
}

static int64_t elements_of(struct mmul_shape s) {
    return rows_of(s) * s.cols;
}

// May the rows of all matrices of the result be made as those of one?
static bool fits_by_rows(const struct group *c, int step) {
    const struct mmul_program_step *s = &c->plan->steps[step];
    const struct mmul_operation *o = made_by(c, step);
    const struct mmul_shape r = shape_of(c->plan, s->result);
    const enum mmul_placement_kind kind = c->plan->places[s->result].placement.kind;
    bool fits = (kind == MMUL_PLACE_ROWS || kind == MMUL_PLACE_REPLICATE) && o->kind != MMUL_ROPE &&
                !(o->kind == MMUL_SOFTMAX && o->with.causal);
    for (int i = 0; fits && i < MMUL_OPERANDS; i++) {
        if (s->operands[i] < 0)
            continue;
        const struct mmul_shape x = shape_of(c->plan, s->operands[i]);
        const bool is_alike = x.batch == r.batch && x.depth == r.depth && x.rows == r.rows;
        const bool is_vector = mmul_shape_matrices(x) == 1 && x.rows == 1;
        fits = is_vector ||
               (is_alike && (mmul_shape_matrices(x) == 1 || !is_turned(c, s->operands[i])));
    }
    return fits;
}

// ----------------------------------------------------------------------------------------- readers

// The only step that reads what is made, directly or as a view of it, which *place becomes; -1: there is no such one.
static int find_reader(const struct group *c, int *place) {
    if (c->plan->places[*place].kept >= 0) // it is for others, too
        return -1;
    while (c->uses[*place].count == 1 && c->uses[*place].view >= 0 &&
           !c->plan->places[c->uses[*place].view].transposed)
        *place = c->uses[*place].view;
    return c->uses[*place].count == 1 ? c->uses[*place].reader : -1;
}

// Does memory grow because the step comes as late as its reader? What it reads stays for longer instead of what it
// makes, while steps between make something.
static bool keeps_too_much(const struct group *c, int reader) {
    const struct mmul_program_plan *plan = c->plan;
    const struct mmul_program_step *step = &plan->steps[c->step];
    const int64_t saved = elements_of(shape_of(c->plan, c->place));
    int64_t longer = 0, made = 0;
    for (int i = c->step + 1; i < reader; i++)
        if (plan->steps[i].kind != MMUL_STEP_GONE)
            made += elements_of(shape_of(c->plan, plan->steps[i].result));
    for (int i = 0; i < (1 + step->fused_count) * MMUL_OPERANDS; i++) {
        const int place = mmul_program_step_operand(plan, step, i);
        if (place >= 0 &&
            plan->places[mmul_program_base(c->plan, place)].placement.kind != MMUL_PLACE_FILE &&
            c->uses[mmul_program_base(c->plan, place)].last < reader)
            longer += elements_of(shape_of(c->plan, place));
    }
    return made > saved && longer > saved;
}

// All that it reads and makes has one type, as the memory between fused operations has.
static bool is_of_one_type(const struct group *c, int step) {
    const struct mmul_program_plan *plan = c->plan;
    const struct mmul_program_step *s = &plan->steps[step];
    const enum mmul_dtype dtype = plan->program->values[plan->places[s->result].value].dtype;
    bool all = true;
    for (int i = 0; i < MMUL_OPERANDS; i++)
        all &= s->operands[i] < 0 ||
               plan->program->values[plan->places[s->operands[i]].value].dtype == dtype;
    return all;
}

// One matrix after the other, each fused operation of which is a call: not many small ones.
static bool is_worth_it(struct mmul_shape shape) {
    enum { MATRIX_LEAST = 1 << 16 };
    return mmul_shape_matrices(shape) == 1 || shape.rows * shape.cols >= MATRIX_LEAST;
}

static bool may_take(const struct group *c, int reader, int shown) {
    const struct mmul_program_step *next = &c->plan->steps[reader];
    const struct mmul_shape made = shape_of(c->plan, c->place);
    if (next->kind != MMUL_STEP_COMPUTE || next->is_product || next->fused_count > 0 ||
        !is_by_element(made_by(c, reader)) || !is_of_one_type(c, reader) ||
        c->plan->places[next->result].placement.kind != c->plan->places[c->place].placement.kind)
        return false;
    const struct mmul_shape r = shape_of(c->plan, next->result), have = shape_of(c->plan, shown);
    const bool by_rows = c->by_rows && fits_by_rows(c, reader);
    const bool is_reshaped = c->is_reshaped || !mmul_shape_equal(r, made);
    return mmul_shape_equal(have, r) && rows_of(r) == rows_of(made) && r.cols == made.cols &&
           (by_rows || (!is_reshaped && is_worth_it(r))) &&
           (mmul_operation_row(made_by(c, reader)->kind)->class == MMUL_CLASS_ELEMENTS ||
            next->operands[0] == shown) &&
           !keeps_too_much(c, reader);
}

// ------------------------------------------------------------------------------------------- fused operations

static void add_link(struct group *c, struct mmul_program_step *group,
                     const struct mmul_program_step *from, int shown) {
    struct mmul_program_fused fused = {.operation = from->operation, .before = -1};
    for (int i = 0; i < MMUL_OPERANDS; i++) {
        fused.operands[i] = from->operands[i] == shown ? -1 : from->operands[i];
        if (shown >= 0 && from->operands[i] == shown)
            fused.before = i;
    }
    c->plan->fused[c->plan->fused_count++] = fused;
    group->fused_count++;
}

// What made it is the first fused operation itself, or leaves its result where the last one will have its own.
static void begin_group(struct group *c) {
    struct mmul_program_step *step = &c->plan->steps[c->step];
    step->first_fused = c->plan->fused_count;
    if (is_by_element(made_by(c, c->step)))
        add_link(c, step, step, -1);
}

// The step becomes the reader's, in its place.
static void take(struct group *c, int reader, int shown) {
    struct mmul_program_plan *plan = c->plan;
    struct mmul_program_step group = plan->steps[c->step];
    const struct mmul_program_step *next = &plan->steps[reader];
    const bool is_written = group.fused_count > 0;
    for (int at = shown; at != c->place; at = plan->places[at].view_of)
        plan->places[at].is_gone = true;
    plan->places[c->place].is_gone = true;
    const double saved =
        is_written
            ? mmul_program_chained_saving(mmul_program_step_costs(plan, next),
                                          &plan->program->values[plan->places[c->place].value],
                                          plan->places[c->place].placement.kind)
            : 0;
    const double more = next->seconds > saved ? next->seconds - saved : 0;
    add_link(c, &group, next, shown);
    group.seconds += more;
    group.fused_seconds += more;
    c->by_rows = c->by_rows && fits_by_rows(c, reader);
    c->is_reshaped |=
        !mmul_shape_equal(shape_of(c->plan, next->result), shape_of(c->plan, c->place));
    c->place = group.result = next->result;
    group.by_rows = c->by_rows;
    plan->steps[c->step].kind = MMUL_STEP_GONE;
    plan->steps[reader] = group;
    c->step = reader;
    for (int i = 0; i < MMUL_OPERANDS; i++)
        if (group.operands[i] >= 0)
            c->uses[mmul_program_base(c->plan, group.operands[i])].last = (int)mmul_larger(
                c->uses[mmul_program_base(c->plan, group.operands[i])].last, reader);
}

// A group that begins with this step, if there is one.
static void fuse(struct group *c, int step) {
    struct mmul_program_plan *plan = c->plan;
    const int made = plan->steps[step].result;
    const enum mmul_placement_kind kind = plan->places[made].placement.kind;
    const bool is_one = is_by_element(made_by(c, step));
    c->step = step;
    c->place = made;
    c->is_reshaped = false;
    c->by_rows =
        is_one ? fits_by_rows(c, step) : kind == MMUL_PLACE_ROWS || kind == MMUL_PLACE_REPLICATE;
    if (!is_together(kind) || (kind == MMUL_PLACE_GRID && !is_one) || !is_of_one_type(c, step))
        return;
    for (bool any = false;; any = true) {
        int shown = c->place;
        const int reader = find_reader(c, &shown);
        if (reader < 0 || !may_take(c, reader, shown))
            break;
        if (!any)
            begin_group(c);
        take(c, reader, shown);
    }
    if (plan->steps[c->step].fused_count == 0 || is_one)
        return;
    plan->steps[c->step].made = made;
    plan->places[made].view_of = c->place;
    plan->places[made].reshaped = true;
}

enum mmul_status mmul_program_fuse_epilogues(struct mmul_program_plan *plan,
                                             struct mmul_error *err) {
    struct fusing f = {.plan = plan};
    enum mmul_status status = MMUL_ALLOCATE(plan->fused, plan->step_count + 1, "a plan", err);
    if (status == MMUL_OK)
        status = find_uses(&f, err);
    if (status != MMUL_OK)
        return status;
    struct group c = {.plan = plan, .uses = f.uses};
    for (int i = 0; i < plan->step_count; i++)
        plan->steps[i].made = -1;
    for (int turn = 0; !plan->options.keeps_values && turn < 2;
         turn++) // first what is done to products
        for (int i = 0; i < plan->step_count; i++)
            if (plan->steps[i].kind == MMUL_STEP_COMPUTE && plan->steps[i].fused_count == 0 &&
                (turn == 1 || made_by(&c, i)->kind == MMUL_MATMUL))
                fuse(&c, i);
    for (int i = 0; i < plan->step_count; i++)
        if (plan->steps[i].made < 0)
            plan->steps[i].made = plan->steps[i].result;
    mmul_free(c.uses);
    return MMUL_OK;
}
