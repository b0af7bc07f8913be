// SPDX-License-Identifier: MIT
// Places moves between nodes in the list of steps, so that values travel while later steps compute.
// Summands are added up as soon as they are made, because the sum takes less memory. A value that
// takes more memory at its destination, such as parameters that every node needs whole, starts no
// sooner than necessary: twice its predicted seconds before its first reader. Moves cross the
// network in the order of the list. program_memory.c finds the stage that waits for a move.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "plan/program/program_planning.h"

static const double LEAD = 2; // factor of a move's seconds before its first reader

// New position of a step. A step that stays has an odd position; moves go to even positions
// between. Steps with equal positions keep their order.
struct order {
    int position, index;
};

struct ordering {
    struct mmul_program_plan *plan;
    struct order *orders; // owned, by step
    int *producers;       // owned, by place: step that makes its memory; -1: none
    int *readers;         // owned, by place: first step that reads its memory; step_count: none
    double *begins;       // owned: begin of each step if only computing steps took time
};

// Records makers and readers of all places, and the begins of the computing steps.
static void record_steps(struct ordering *o) {
    const struct mmul_program_plan *plan = o->plan;
    double now = 0;
    for (int i = 0; i < plan->place_count; i++) {
        o->producers[i] = -1;
        o->readers[i] = plan->step_count;
    }
    for (int i = 0; i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        for (int r = 0; r < mmul_program_result_count(step); r++)
            if (mmul_program_step_result(plan, step, r) >= 0)
                o->producers[mmul_program_base_place(plan,
                                                     mmul_program_step_result(plan, step, r))] = i;
        for (int j = 0; j < mmul_program_operand_count(step); j++) {
            const int place = mmul_program_step_operand(plan, step, j);
            int *reader = place >= 0 ? &o->readers[mmul_program_base_place(plan, place)] : NULL;
            if (reader != NULL)
                *reader = (int)mmul_min(*reader, i);
        }
        o->orders[i] = (struct order){2 * i + 1, i};
        o->begins[i] = now;
        now += step->kind == MMUL_STEP_MOVE ? 0 : step->seconds;
    }
    o->begins[plan->step_count] = now;
}

// Returns the first position in the list that begins no earlier than `seconds`.
static int find_position(const struct ordering *o, double seconds) {
    int low = 0, high = o->plan->step_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (o->begins[middle] < seconds)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Walks moves from the last to the first. Each must end when the next move begins, or its first
// reader.
static void place_before_readers(struct ordering *o) {
    const struct mmul_program_plan *plan = o->plan;
    double begin = INFINITY;
    for (int i = plan->step_count - 1; i >= 0; i--) {
        const struct mmul_program_step *step = &plan->steps[i];
        if (!mmul_program_is_early(plan, step))
            continue;
        if (plan->places[step->operands[0]].placement.kind == MMUL_PLACE_PARTIAL) {
            o->orders[i].position = 0;
            continue;
        }
        begin = fmin(begin, o->begins[o->readers[step->result]]) - LEAD * step->seconds;
        o->orders[i].position = 2 * (int)mmul_min(i, find_position(o, begin));
    }
}

// Walks moves from the first to the last. Each must stand behind the maker of its operand, which
// may be a move in a new position.
static void place_behind_makers(struct ordering *o) {
    const struct mmul_program_plan *plan = o->plan;
    for (int i = 0; i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        if (!mmul_program_is_early(plan, step))
            continue;
        const int maker = o->producers[mmul_program_base_place(plan, step->operands[0])];
        if (maker < 0)
            continue;
        const int behind = o->orders[maker].position + o->orders[maker].position % 2;
        o->orders[i].position = (int)mmul_max(o->orders[i].position, behind);
    }
}

static int compare_orders(const void *a, const void *b) {
    const struct order *x = a, *y = b;
    return x->position != y->position ? x->position - y->position : x->index - y->index;
}

enum mmul_status mmul_program_reorder_early_moves(struct mmul_program_plan *plan,
                                                  struct mmul_error *err) {
    struct ordering o = {.plan = plan};
    struct mmul_program_step *steps = NULL;
    const int count = plan->step_count;
    bool any = false;
    for (int i = 0; i < count; i++)
        any |= mmul_program_is_early(plan, &plan->steps[i]);
    plan->moves_early = any;
    if (!any)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "a plan", err, MMUL_ARRAY(o.orders, count), MMUL_ARRAY(o.producers, plan->place_count),
        MMUL_ARRAY(o.readers, plan->place_count), MMUL_ARRAY(o.begins, count + 1),
        MMUL_ARRAY(steps, count));
    if (status == MMUL_OK) {
        record_steps(&o);
        place_before_readers(&o);
        place_behind_makers(&o);
        qsort(o.orders, (size_t)count, sizeof *o.orders, compare_orders);
        for (int i = 0; i < count; i++)
            steps[i] = plan->steps[o.orders[i].index];
        memcpy(plan->steps, steps, (size_t)count * sizeof *steps);
    }
    MMUL_FREE_ALL(o.orders, o.producers, o.readers, o.begins, steps);
    return status;
}
