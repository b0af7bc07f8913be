// SPDX-License-Identifier: MIT
// Lets products read and write files, and relay a whole operand, in place of moves. Examines the
// readers of each place. Placements stay as chosen. The bytes of a replaced move travel while the
// product computes.
#include "plan/program/program_planning.h"

#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "model/matrix.h"

// Readers of a place, and the moves that make and take it.
struct use {
    int count;  // steps that read it, and its views; updated as products take over moves
    int reader; // one of the steps; -1: none
    int view;   // one of the views; -1: none
    int last;   // last step that reads it, its base, or a view of either
    int brings; // move that makes it; -1: none
    int takes;  // first move that takes it to a file; -1: none
};

struct fusing {
    struct mmul_program_plan *plan;
    struct use *uses; // by place
};

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
            f->uses[mmul_program_base_place(plan, step->operands[j])].last = i;
        }
        if (step->kind != MMUL_STEP_MOVE)
            continue;
        f->uses[step->result].brings = i;
        struct use *from = &f->uses[step->operands[0]];
        if (mmul_place_is_file(plan, step->result) && from->takes < 0)
            from->takes = i;
    }
    return status;
}

// Returns NULL if the move no longer exists.
static struct mmul_program_step *move_at(const struct fusing *f, int step) {
    return step >= 0 && f->plan->steps[step].kind == MMUL_STEP_MOVE ? &f->plan->steps[step] : NULL;
}

static void replace_operand(struct fusing *f, struct mmul_program_step *step, int index,
                            int place) {
    f->uses[step->operands[index]].count--;
    f->uses[place].count++;
    step->operands[index] = place;
}

// Lets the product do the work of the move.
static void absorb_move(struct fusing *f, struct mmul_program_step *step,
                        struct mmul_program_step *move, int place) {
    f->plan->places[place].is_elided = true;
    step->seconds += move->seconds;
    step->network_bytes += move->network_bytes;
    move->kind = MMUL_STEP_REMOVED;
    f->uses[move->operands[0]].count--;
    move->operands[0] = -1;
}

// Returns the place that this place shows transposed, while it has no other readers.
static int find_transposed_base(const struct fusing *f, int place, bool *is_transposed) {
    *is_transposed = false;
    while (f->plan->places[place].transposed && f->uses[place].count == 1) {
        place = f->plan->places[place].view_of;
        *is_transposed = !*is_transposed;
    }
    return place;
}

// Lets the product read an operand from its file, in place of the move that brings it. Returns
// false if it cannot.
static bool read_from_file(struct fusing *f, struct mmul_program_step *step, int index) {
    const struct mmul_program_plan *plan = f->plan;
    int place = step->operands[index];
    bool is_transposed;
    const int base = find_transposed_base(f, place, &is_transposed);
    struct mmul_program_step *move = move_at(f, f->uses[base].brings);
    if (plan->options.keeps_values || move == NULL ||
        !mmul_place_is_file(plan, move->operands[0]) || plan->places[base].kept >= 0 ||
        f->uses[base].count != 1 ||
        plan->program->operations[plan->places[move->operands[0]].operation].kind != MMUL_LOAD)
        return false;
    replace_operand(f, step, index, move->operands[0]);
    step->transposed_factors[index] =
        is_transposed != mmul_step_operation(plan, step)->scale.transposed_factors[index];
    for (; place != base; place = plan->places[place].view_of)
        plan->places[place].is_elided = true;
    absorb_move(f, step, move, base);
    return true;
}

// Lets the product write its result to its file, likewise.
static void write_to_file(struct fusing *f, struct mmul_program_step *step) {
    int place = step->result;
    struct mmul_program_step *move = move_at(f, f->uses[place].takes);
    if (f->plan->options.keeps_values || move == NULL || f->plan->places[place].kept >= 0 ||
        f->uses[place].count != 1)
        return;
    step->result = move->result;
    absorb_move(f, step, move, place);
}

// Lets the ranks relay their rows of the whole operand, in place of a move that brings it to all
// nodes.
static void relay_rows(struct fusing *f, struct mmul_program_step *step, int index) {
    const int place = step->operands[index];
    struct mmul_program_step *move = move_at(f, f->uses[place].brings);
    if (move == NULL || f->uses[place].count != 1)
        return;
    const struct mmul_placement *from = &f->plan->places[move->operands[0]].placement;
    if (from->kind != MMUL_PLACE_ROWS || from->holders != NULL ||
        mmul_program_is_read_transposed(f->plan, move->operands[0]))
        return;
    replace_operand(f, step, index, move->operands[0]);
    absorb_move(f, step, move, place);
    step->relays_whole = true;
}

// Returns true if both operands are split by rows, or if an operand's matrices each meet several
// matrices of the other one. Then every rank has the operands it needs.
static bool is_by_groups(const struct mmul_program_plan *plan,
                         const struct mmul_program_step *step) {
    const struct mmul_shape result = mmul_place_value(plan, step->result)->shape;
    bool by_groups = false;
    // The operands are in files.
    if (mmul_step_operation(plan, step)->scale.is_given)
        return false;
    for (int i = 0; step->kind == MMUL_STEP_COMPUTE && i < MMUL_FACTORS && step->operands[i] >= 0;
         i++) {
        const struct mmul_shape have = mmul_place_value(plan, step->operands[i])->shape;
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
    // The ranks of a group have the operands they need.
    if (is_by_groups(plan, step) || made->holders != NULL)
        return;
    if (step->kind != MMUL_STEP_COMPUTE || mmul_step_operation(plan, step)->kind != MMUL_MATMUL ||
        !(rows || made->kind == MMUL_PLACE_COLS))
        return;
    step->kind = MMUL_STEP_UNSCHEDULED;
    step->axis = rows ? MMUL_ROWS : MMUL_COLS;
    step->offsets = rows ? made->row_offsets : made->col_offsets;
    bool joined[MMUL_FACTORS];
    for (int i = 0; i < MMUL_FACTORS; i++)
        joined[i] = read_from_file(f, step, i);
    step->seconds -=
        mmul_program_overlap_saving(&plan->costs, plan->program, mmul_step_operation(plan, step),
                                    &(struct mmul_rule){.result = made->kind}, joined);
    write_to_file(f, step);
    relay_rows(f, step, rows ? 1 : 0);
    if (mmul_place_is_file(plan, step->operands[rows ? 0 : 1]) &&
        mmul_place_is_file(plan, step->result))
        step->offsets = NULL;
}

enum mmul_status mmul_program_absorb_moves(struct mmul_program_plan *plan, struct mmul_error *err) {
    struct fusing f = {.plan = plan};
    enum mmul_status status = find_uses(&f, err);
    for (int i = 0; status == MMUL_OK && i < plan->step_count; i++)
        fuse_product(&f, &plan->steps[i]);
    mmul_free(f.uses);
    return status;
}
