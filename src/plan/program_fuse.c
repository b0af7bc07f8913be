// SPDX-License-Identifier: MIT
// A look at who reads which place. Chooses nothing: what moves goes another way, while it is computed with.
#include "plan/program_plan.h"

#include <string.h>

#include "base/memory.h"

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

// Steps that read a place, and views of it.
static int count_readers(const struct mmul_program_plan *plan, int place) {
    int count = 0;
    for (int i = 0; i < plan->step_count; i++)
        for (int j = 0; j < MMUL_OPERANDS; j++)
            count += plan->steps[i].operands[j] == place;
    for (int i = 0; i < plan->place_count; i++)
        count += plan->places[i].view_of == place;
    return count;
}

// The move that brings a place from a file, or takes it to one; NULL: none does.
static struct mmul_program_step *find_move(const struct mmul_program_plan *plan, int place,
                                           bool brings) {
    for (int i = 0; i < plan->step_count; i++) {
        struct mmul_program_step *step = &plan->steps[i];
        int here = brings ? step->result : step->operands[0];
        int there = brings ? step->operands[0] : step->result;
        if (step->kind == MMUL_STEP_MOVE && here == place && is_file(plan, there))
            return step;
    }
    return NULL;
}

// As they are in memory, not the other way round.
static bool has_rows(const struct mmul_program_plan *plan, int place) {
    bool turned = false;
    for (int at = place; plan->places[at].view_of >= 0; at = plan->places[at].view_of)
        turned |= plan->places[at].transposed;
    return plan->places[place].placement.kind == MMUL_PLACE_ROWS && !turned;
}

// The product does what the move did.
static void take_over(struct mmul_program_plan *plan, struct mmul_program_step *step,
                      struct mmul_program_step *move, int place) {
    plan->places[place].is_gone = true;
    step->seconds += move->seconds;
    step->network_bytes += move->network_bytes;
    move->kind = MMUL_STEP_GONE;
    move->operands[0] = -1;
}

// What a place shows turned round, so long as nobody else looks at it.
static int find_turned(const struct mmul_program_plan *plan, int place, bool *turned) {
    *turned = false;
    while (plan->places[place].transposed && count_readers(plan, place) == 1) {
        place = plan->places[place].view_of;
        *turned = !*turned;
    }
    return place;
}

// The file that an operand comes from, where the product can take the place of the move that brings it.
static void bring(struct mmul_program_plan *plan, struct mmul_program_step *step, int index) {
    int place = step->operands[index];
    bool turned;
    const int base = find_turned(plan, place, &turned);
    struct mmul_program_step *move = find_move(plan, base, true);
    if (plan->keeps_values || move == NULL || plan->places[base].kept >= 0 ||
        count_readers(plan, base) != 1 ||
        plan->program->operations[plan->places[move->operands[0]].operation].kind != MMUL_LOAD)
        return;
    step->operands[index] = move->operands[0];
    step->turned[index] = turned;
    for (; place != base; place = plan->places[place].view_of)
        plan->places[place].is_gone = true;
    take_over(plan, step, move, base);
}

// The file that the result goes to, likewise.
static void take(struct mmul_program_plan *plan, struct mmul_program_step *step) {
    int place = step->result;
    struct mmul_program_step *move = find_move(plan, place, false);
    if (plan->keeps_values || move == NULL || plan->places[place].kept >= 0 ||
        count_readers(plan, place) != 1)
        return;
    step->result = move->result;
    take_over(plan, step, move, place);
}

// The whole operand, where a move would bring it to all nodes from ranks that have rows of it.
static int spread(struct mmul_program_plan *plan, struct mmul_program_step *step, int place) {
    for (int i = 0; i < plan->step_count; i++) {
        struct mmul_program_step *move = &plan->steps[i];
        if (move->kind != MMUL_STEP_MOVE || move->result != place ||
            count_readers(plan, place) != 1 || !has_rows(plan, move->operands[0]))
            continue;
        place = move->operands[0];
        take_over(plan, step, move, move->result);
        step->spreads = true;
    }
    return place;
}

// Are both operands split by rows, or one whose matrices meet several of the other's? The ranks have what they
// need.
static bool is_by_groups(const struct mmul_program_plan *plan,
                         const struct mmul_program_step *step) {
    const struct mmul_shape result = shape_of(plan, step->result);
    bool by_groups = false;
    for (int i = 0; step->kind == MMUL_STEP_COMPUTE && i < MMUL_FACTORS && step->operands[i] >= 0;
         i++) {
        const struct mmul_shape have = shape_of(plan, step->operands[i]);
        bool same = have.batch == result.batch && have.depth == result.depth;
        by_groups |=
            plan->places[step->operands[i]].placement.kind == MMUL_PLACE_ROWS && (i == 1 || !same);
    }
    return by_groups;
}

static void fuse(struct mmul_program_plan *plan, struct mmul_program_step *step) {
    const struct mmul_placement *made = &plan->places[step->result].placement;
    bool rows = made->kind == MMUL_PLACE_ROWS;
    if (is_by_groups(plan, step))
        return;
    if (step->kind != MMUL_STEP_COMPUTE || operation_of(plan, step)->kind != MMUL_MATMUL ||
        !(rows || made->kind == MMUL_PLACE_COLS))
        return;
    step->is_product = true;
    step->axis = rows ? MMUL_ROWS : MMUL_COLS;
    step->offsets = rows ? made->row_offsets : made->col_offsets;
    for (int i = 0; i < MMUL_FACTORS; i++)
        bring(plan, step, i);
    take(plan, step);
    int whole = rows ? 1 : 0;
    step->operands[whole] = spread(plan, step, step->operands[whole]);
    if (is_file(plan, step->operands[rows ? 0 : 1]) && is_file(plan, step->result))
        step->offsets = NULL;
}

void mmul_program_drop_gone(struct mmul_program_plan *plan) {
    int kept = 0;
    for (int i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind != MMUL_STEP_GONE)
            plan->steps[kept++] = plan->steps[i];
    plan->step_count = kept;
}

enum mmul_status mmul_program_fit(struct mmul_program_plan *plan, struct mmul_error *err) {
    struct mmul_program_place *places = NULL;
    struct mmul_program_step *steps = NULL;
    enum mmul_status status = MMUL_ALLOCATE_RAW(places, plan->place_count, "a plan", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE_RAW(steps, plan->step_count, "a plan", err);
    if (status != MMUL_OK) {
        mmul_free(places);
        return status;
    }
    memcpy(places, plan->places, (size_t)plan->place_count * sizeof *places);
    memcpy(steps, plan->steps, (size_t)plan->step_count * sizeof *steps);
    mmul_free(plan->places);
    mmul_free(plan->steps);
    plan->places = places;
    plan->steps = steps;
    return MMUL_OK;
}

void mmul_program_fuse(struct mmul_program_plan *plan) {
    for (int i = 0; i < plan->step_count; i++)
        fuse(plan, &plan->steps[i]);
    mmul_program_drop_gone(plan);
}
