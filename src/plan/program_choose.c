// SPDX-License-Identifier: MIT
// Which rule each operation follows: dynamic programming along the program. A state says in which
// placements every value is that somebody still reads; of two ways to the same state the shorter one
// goes on. Exact while no more than STATES_MOST states are open, which programs with few values
// alive at a time never exceed; beyond that the best ones go on.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "plan/program_plan.h"

enum { STATES_MOST = 512 };

struct state {
    double seconds;
    int parent;          // among those before the operation
    int rule;            // of the operation
    unsigned char *have; // per value: a bit per kind; 0: nobody reads it any more
};

// States before and after an operation, with their bytes, and how each came about.
struct search {
    const struct mmul_program *program;
    const struct mmul_program_costs *costs;
    struct state *states[2];
    unsigned char *have[2];
    int *parents, *rules; // operation * STATES_MOST + state
    int count;
};

static bool may_go(enum mmul_placement_kind from, enum mmul_placement_kind to) {
    return from != MMUL_PLACE_PARTIAL || to != MMUL_PLACE_FILE; // nobody adds into a file
}

struct mmul_program_path mmul_program_find_path(const struct mmul_program_costs *costs,
                                                struct mmul_shape shape, unsigned have,
                                                enum mmul_placement_kind to) {
    const enum mmul_placement_kind rows = MMUL_PLACE_ROWS;
    struct mmul_program_path best = {.seconds = INFINITY};
    double ignored, onward = mmul_program_move_seconds(costs, shape, rows, to, &ignored);
    for (int kind = 0; kind < MMUL_PLACEMENTS; kind++) {
        const enum mmul_placement_kind from = (enum mmul_placement_kind)kind;
        if ((have >> kind & 1) == 0)
            continue;
        double direct = mmul_program_move_seconds(costs, shape, from, to, &ignored);
        if (may_go(from, to) && direct < best.seconds)
            best = (struct mmul_program_path){from, false, direct};
        double by_rows = mmul_program_move_seconds(costs, shape, from, rows, &ignored) + onward;
        if (from != rows && to != rows && by_rows < best.seconds)
            best = (struct mmul_program_path){from, true, by_rows};
    }
    return best;
}

// Every operation has its place in the text of a program; a wish leaves one rule.
static bool is_allowed(const struct search *s, const struct mmul_operation *o,
                       const struct mmul_rule *rule) {
    struct mmul_operand_info operands[MMUL_OPERANDS];
    const struct mmul_operation_call call = mmul_program_call(s->program, o, operands);
    if (o->kind == MMUL_PLACE && rule->result != o->wish)
        return false;
    return mmul_rule_fits(o->kind, rule, &call, mmul_program_shape(s->program, o));
}

// What following a rule costs from a state on; `have` becomes what is where afterwards.
static double follow(const struct search *s, int index, const struct mmul_rule *rule,
                     unsigned char *have) {
    const struct mmul_operation *o = &s->program->operations[index];
    double seconds = mmul_program_operation_seconds(s->costs, s->program, o, rule);
    bool joined[MMUL_FACTORS] = {false};
    for (int i = 0; i < o->operand_count; i++) {
        int value = o->operands[i];
        if (value == MMUL_NUMBER)
            continue;
        unsigned wanted = 1U << rule->operands[i];
        bool is_saved = o->kind == MMUL_SAVE; // into a file of its own, which nobody reads
        if ((have[value] & wanted) != 0 && !is_saved)
            continue;
        struct mmul_program_path path = mmul_program_find_path(
            s->costs, s->program->values[value].shape, have[value], rule->operands[i]);
        seconds += path.seconds;
        if (i < MMUL_FACTORS)
            joined[i] = !path.by_rows && mmul_program_joins(path.from, rule->operands[i]);
        if (!is_saved)
            have[value] |= (unsigned char)wanted;
        if (path.by_rows)
            have[value] |= 1U << MMUL_PLACE_ROWS;
    }
    seconds -= mmul_program_joined_saving(s->costs, s->program, o, rule, joined);
    if (o->result >= 0)
        have[o->result] = (unsigned char)(1U << rule->result);
    for (int i = 0; i < o->operand_count; i++)
        if (o->operands[i] != MMUL_NUMBER && s->program->values[o->operands[i]].last_use == index)
            have[o->operands[i]] = 0;
    return seconds;
}

// Adds a state unless there is one like it that is as short; the longest one makes room.
static void keep(struct search *s, struct state *next, int *count, const struct state *state) {
    size_t bytes = (size_t)s->program->value_count;
    int target = *count;
    for (int i = 0; i < *count; i++)
        if (memcmp(next[i].have, state->have, bytes) == 0)
            target = i;
    if (target == *count && *count == STATES_MOST) {
        target = 0;
        for (int i = 1; i < *count; i++)
            target = next[i].seconds > next[target].seconds ? i : target;
    }
    if (target < *count && next[target].seconds <= state->seconds)
        return;
    next[target].seconds = state->seconds;
    next[target].parent = state->parent;
    next[target].rule = state->rule;
    memcpy(next[target].have, state->have, bytes);
    *count += target == *count;
}

static enum mmul_status advance(struct search *s, int index, unsigned char *scratch,
                                struct mmul_error *err) {
    const struct mmul_operation *o = &s->program->operations[index];
    const struct mmul_operation_row *row = mmul_operation_row(o->kind);
    size_t bytes = (size_t)s->program->value_count;
    struct state *now = s->states[index % 2], *next = s->states[(index + 1) % 2];
    int count = 0;
    for (int rule = 0; rule < row->rule_count; rule++) {
        if (!is_allowed(s, o, &row->rules[rule]))
            continue;
        for (int i = 0; i < s->count; i++) {
            memcpy(scratch, now[i].have, bytes);
            struct state state = {.parent = i, .rule = rule, .have = scratch};
            state.seconds = now[i].seconds + follow(s, index, &row->rules[rule], scratch);
            keep(s, next, &count, &state);
        }
    }
    if (count == 0)
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot place '%s' as '%s'",
                         s->program->values[o->operands[0]].name, mmul_placement_name(o->wish));
    for (int i = 0; i < count; i++) {
        s->parents[(int64_t)index * STATES_MOST + i] = next[i].parent;
        s->rules[(int64_t)index * STATES_MOST + i] = next[i].rule;
    }
    s->count = count;
    return MMUL_OK;
}

static enum mmul_status init_search(struct search *s, struct mmul_error *err) {
    int64_t bytes = s->program->value_count, operations = s->program->operation_count;
    enum mmul_status status = MMUL_ALLOCATE(s->parents, operations * STATES_MOST, "a plan", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(s->rules, operations * STATES_MOST, "a plan", err);
    for (int i = 0; status == MMUL_OK && i < 2; i++) {
        status = MMUL_ALLOCATE(s->states[i], STATES_MOST, "a plan", err);
        if (status == MMUL_OK)
            status = MMUL_ALLOCATE(s->have[i], STATES_MOST * bytes, "a plan", err);
        for (int j = 0; status == MMUL_OK && j < STATES_MOST; j++)
            s->states[i][j].have = s->have[i] + j * bytes;
    }
    s->count = 1; // nothing is anywhere
    return status;
}

enum mmul_status mmul_program_choose(const struct mmul_program *program,
                                     const struct mmul_program_costs *costs,
                                     const struct mmul_rule **rules, struct mmul_error *err) {
    struct search s = {.program = program, .costs = costs};
    unsigned char *scratch = NULL;
    enum mmul_status status = init_search(&s, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(scratch, program->value_count, "a plan", err);
    for (int i = 0; status == MMUL_OK && i < program->operation_count; i++)
        status = advance(&s, i, scratch, err);
    int best = 0;
    const struct state *last = s.states[program->operation_count % 2];
    for (int i = 1; status == MMUL_OK && i < s.count; i++)
        best = last[i].seconds < last[best].seconds ? i : best;
    for (int i = program->operation_count - 1; status == MMUL_OK && i >= 0; i--) {
        const struct mmul_operation_row *row = mmul_operation_row(program->operations[i].kind);
        rules[i] = &row->rules[s.rules[(int64_t)i * STATES_MOST + best]];
        best = s.parents[(int64_t)i * STATES_MOST + best];
    }
    mmul_free(scratch);
    for (int i = 0; i < 2; i++) {
        mmul_free(s.states[i]);
        mmul_free(s.have[i]);
    }
    mmul_free(s.parents);
    mmul_free(s.rules);
    return status;
}
