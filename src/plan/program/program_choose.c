// SPDX-License-Identifier: MIT
// Chooses the rule of each operation by dynamic programming along the program. A state records the
// placements of every value that a later operation reads. Of two paths to the same state the
// shorter one survives. A state is dropped too if the best state catches up: it makes the moves
// that it lacks and is no later. The search is exact while the open states stay below a limit,
// which programs with few live values never reach. Beyond it the best states survive: 512, or fewer
// in programs of many thousand operations, where planning must be shorter than the run.
//
// Also chooses the number of groups of rows between which values are split (model/operation.h), so
// that groups of the largest values stay together.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "model/matrix.h"
#include "model/rank_groups.h"
#include "plan/program/program_planning.h"

enum { STATES_MOST = 512, RULES_MOST = 16, FOUND_MOST = STATES_MOST * RULES_MOST };
// Placements of a value, a bit per kind.
typedef uint16_t placement_bits;
enum { TABLE = 2 * FOUND_MOST, WORD = sizeof(uint64_t) / sizeof(placement_bits) };
_Static_assert(MMUL_PLACEMENTS <= CHAR_BIT * sizeof(placement_bits), "a bit for each placement");
// States of one operation; states of the whole program.
enum { STATES_LEAST = 16, STATES_OF_ALL = 1024 * STATES_MOST };

struct state {
    double seconds;
    uint64_t hash;        // hash of `have`
    int parent;           // index among the states before the operation
    int rule;             // rule of the operation
    placement_bits *have; // per slot; 0: no later reader
};

// A path that was computed for the current operation.
struct known_path {
    unsigned have;
    struct mmul_program_path path;
};

// Sort key of a found state.
struct rank_of_state {
    double seconds;
    int state;
};

// Seconds in which the best state of an operation gets a value in each kind; NaN: not computed yet.
struct catching_up {
    int operation;
    double seconds[MMUL_PLACEMENTS];
};

// States before and after an operation, their slots, and the choices that led to them.
struct search {
    const struct mmul_program *program;
    const struct mmul_program_costs *rank_groups; // costs, by group
    const struct mmul_program_costs *costs;       // costs of the current operation
    struct state now[STATES_MOST], found[FOUND_MOST];
    struct rank_of_state order[FOUND_MOST];
    placement_bits *have[2], *scratch; // slots of these states; of one state
    int *parents, *rules;              // operation * STATES_MOST + state
    int *slots;                        // slot of each value; live values use slots in turn
    int *owners;                       // value in each slot; -1: free
    bool has_wishes;                   // the program requests placements that need several ranks
    bool *is_transposed;               // per value: it is stored as another value, read transposed
    int slot_count;                    // in use, a multiple of WORD
    int states_most;                   // limit of surviving states
    int count, found_count;
    int table[TABLE]; // found states by hash; 0: none, else index + 1
    int table_size;   // power of two
    struct known_path paths[MMUL_OPERANDS][MMUL_PLACEMENTS][MMUL_PLACEMENTS];
    struct catching_up *catching_up; // by slot
};

// A program without groups of ranks has no groups of ranks in its values either.
static const struct mmul_program_costs *costs_of_rank_group(const struct search *s,
                                                            int rank_group) {
    return &s->rank_groups[rank_group > MMUL_GROUP_ALL ? rank_group : MMUL_GROUP_ALL];
}

static const struct mmul_program_costs *costs_of(const struct search *s, int value) {
    return costs_of_rank_group(s, s->program->values[value].rank_group);
}

// Returns the path of an operand. Few sets of placements recur, so paths are cached.
static struct mmul_program_path find_path(struct search *s, const struct mmul_operation *o,
                                          int operand, unsigned have, enum mmul_placement_kind to) {
    struct known_path *known = s->paths[operand][to];
    int i = 0;
    while (i < MMUL_PLACEMENTS && known[i].have != 0 && known[i].have != have)
        i++;
    if (i < MMUL_PLACEMENTS && known[i].have == have)
        return known[i].path;
    struct mmul_program_path path =
        mmul_program_is_group_move(s->program, o)
            ? mmul_program_find_rank_group_path(costs_of(s, o->operands[operand]), s->costs,
                                                &s->program->values[o->operands[operand]], have, to)
            : mmul_program_find_path(s->costs, &s->program->values[o->operands[operand]], have, to);
    if (i < MMUL_PLACEMENTS)
        known[i] = (struct known_path){have, path};
    return path;
}

// Returns true if every part of the product needs all of one operand, which may arrive in panels.
static bool has_panels(const struct mmul_rule *rule) {
    const bool by_rows = rule->result == MMUL_PLACE_ROWS, by_cols = rule->result == MMUL_PLACE_COLS;
    return (by_rows || by_cols) && rule->operands[by_rows] == MMUL_PLACE_REPLICATE;
}

// Returns true if every part also needs a part of the other operand, in pieces.
static bool has_pieces(const struct mmul_rule *rule) {
    const bool by_cols = rule->result == MMUL_PLACE_COLS;
    return has_panels(rule) && rule->operands[by_cols] == rule->result;
}

static bool needs_several_ranks(enum mmul_placement_kind kind) {
    return kind != MMUL_PLACE_ROWS && kind != MMUL_PLACE_REPLICATE && kind != MMUL_PLACE_FILE;
}

static bool has_wishes(const struct mmul_program *program) {
    bool any = false;
    for (int i = 0; !any && i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        any = (o->kind == MMUL_PLACE || o->kind == MMUL_LOAD_PERSISTENT) &&
              needs_several_ranks(o->requested_placement);
    }
    return any;
}

// Returns true if a placement is worth trying. A single rank has all of every value in any
// placement: rows suffice, or whole matrices if rows do not apply. Other placements would only cost
// copies; a requested placement is tried anyway.
static bool is_worth_trying(const struct search *s, enum mmul_placement_kind kind) {
    const bool is_alone = s->costs->groups == MMUL_ONE_RANK;
    if (s->costs->holders != NULL && mmul_placement_is_mesh(kind))
        return false;
    if (kind == MMUL_PLACE_CYCLIC && s->costs->block_cols == 0)
        return false;
    return !needs_several_ranks(kind) || s->has_wishes || !is_alone;
}

// Returns true if an operation may follow a rule. A request leaves one rule. A value that is read
// transposed lies in memory in its own order, unless whole matrices of it are there.
static bool is_allowed(const struct search *s, const struct mmul_operation *o,
                       const struct mmul_rule *rule) {
    struct mmul_operand_info operands[MMUL_OPERANDS];
    const struct mmul_operation_call call = mmul_program_describe_call(s->program, o, operands);
    const enum mmul_operation_class class = mmul_operation_row(o->kind)->class;
    const int64_t groups = s->costs->groups;
    const bool is_whole = rule->result == MMUL_PLACE_ROWS || rule->result == MMUL_PLACE_COLS;
    if (!is_worth_trying(s, rule->result))
        return false;
    if (s->costs->streams && o->kind == MMUL_MATMUL && !is_whole)
        return false;
    if (o->scale.is_given && !has_panels(rule))
        return false;
    const bool is_any =
        mmul_program_is_group_move(s->program, o) && o->requested_placement == MMUL_PLACE_FILE;
    if (is_any && rule->result != MMUL_PLACE_ROWS && rule->result != MMUL_PLACE_COLS &&
        rule->result != MMUL_PLACE_REPLICATE)
        return false;
    if ((o->kind == MMUL_PLACE || o->kind == MMUL_LOAD_PERSISTENT) && !is_any &&
        rule->result != o->requested_placement)
        return false;
    if (o->kind == MMUL_SAVE_PERSISTENT && rule->result == MMUL_PLACE_REPLICATE &&
        s->program->kept[o->kept].held == 0)
        return false;
    // Columns of a stack are not columns of a set of shards, which has its matrices one below the
    // other.
    if (o->kind == MMUL_SAVE_PERSISTENT && rule->result == MMUL_PLACE_COLS &&
        mmul_shape_matrices(mmul_program_shape(s->program, o)) > 1)
        return false;
    for (int i = 0; i < o->operand_count; i++) {
        const struct mmul_shape have = operands[i].shape;
        bool is_apart = groups == 1 || (groups > 1 && have.batch * have.depth % groups != 0);
        bool by_steps = class == MMUL_CLASS_COPY || class == MMUL_CLASS_LOOKUP;
        bool is_split =
            rule->operands[i] == MMUL_PLACE_ROWS || rule->operands[i] == MMUL_PLACE_COLS;
        if (by_steps && is_split && is_apart && s->is_transposed[o->operands[i]])
            return false;
    }
    return mmul_rule_fits(o->kind, rule, &call, mmul_program_shape(s->program, o), groups);
}

// Returns true if the product will read that operand from its file (program_absorb_moves.c).
static bool is_read_from_file(const struct search *s, int index, const struct mmul_rule *rule,
                              int operand, unsigned have) {
    const struct mmul_operation *o = &s->program->operations[index];
    return o->kind == MMUL_MATMUL && !s->costs->keeps_values && have == 1U << MMUL_PLACE_FILE &&
           has_pieces(rule) && s->program->values[o->operands[operand]].last_use == index;
}

// Returns the hash of one slot. The hashes of all slots are combined by xor, so that a step only
// changes those of its own values.
static uint64_t hash_of(int slot, unsigned have) {
    uint64_t hash = ((uint64_t)slot << MMUL_PLACEMENTS | have) * 0x9E3779B97F4A7C15U;
    hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93U;
    return have == 0 ? 0 : hash ^ hash >> 32;
}

static void set_slot(struct state *state, int slot, unsigned have) {
    state->hash ^= hash_of(slot, state->have[slot]) ^ hash_of(slot, have);
    state->have[slot] = (placement_bits)have;
}

// Returns the seconds of following a rule from a state, and advances the state.
static double follow_rule(struct search *s, int index, const struct mmul_rule *rule, double seconds,
                          struct state *state) {
    const struct mmul_operation *o = &s->program->operations[index];
    bool joined[MMUL_FACTORS] = {false};
    for (int i = 0; i < o->operand_count; i++) {
        int value = o->operands[i];
        if (value == MMUL_NUMBER)
            continue;
        const int slot = s->slots[value];
        const unsigned have = state->have[slot];
        unsigned wanted = 1U << rule->operands[i];
        bool is_saved = o->kind == MMUL_SAVE; // a save has its own file, which no operation reads
        const bool is_handed_on = mmul_program_is_group_move(s->program, o);
        if ((have & wanted) != 0 && !is_saved && !is_handed_on)
            continue;
        // A computed value enters a file only by a save.
        if (rule->operands[i] == MMUL_PLACE_FILE && !is_saved)
            return INFINITY;
        struct mmul_program_path path = find_path(s, o, i, have, rule->operands[i]);
        seconds += path.seconds;
        if (i < MMUL_FACTORS)
            joined[i] = path.by == path.from &&
                        (mmul_program_is_joined_move(path.from, rule->operands[i]) ||
                         is_read_from_file(s, index, rule, i, have));
        if (is_saved || is_handed_on)
            wanted = 0;
        set_slot(state, slot, have | 1U << path.by | wanted);
    }
    if (joined[0] || joined[1])
        seconds -= mmul_program_overlap_saving(s->costs, s->program, o, rule, joined);
    if (o->result >= 0)
        set_slot(state, s->slots[o->result], 1U << rule->result);
    for (int i = 0; i < o->operand_count; i++)
        if (o->operands[i] != MMUL_NUMBER && s->program->values[o->operands[i]].last_use == index)
            set_slot(state, s->slots[o->operands[i]], 0);
    if (o->result >= 0 && s->program->values[o->result].last_use == index)
        set_slot(state, s->slots[o->result], 0);
    return seconds;
}

// ------------------------------------------------------------------------------------------ states

// Adds a state unless an equal one is as short.
static void add_state(struct search *s, const struct state *state) {
    const size_t bytes = (size_t)s->slot_count * sizeof *state->have;
    const unsigned last = (unsigned)s->table_size - 1;
    uint64_t at = state->hash & last;
    while (s->table[at] != 0 && memcmp(s->found[s->table[at] - 1].have, state->have, bytes) != 0)
        at = (at + 1) & last;
    if (s->table[at] == 0) {
        struct state *made = &s->found[s->found_count];
        made->have = s->have[1] + (size_t)s->found_count * (size_t)s->slot_count;
        made->hash = state->hash;
        made->seconds = INFINITY;
        memcpy(made->have, state->have, bytes);
        s->table[at] = ++s->found_count;
    }
    struct state *found = &s->found[s->table[at] - 1];
    if (found->seconds <= state->seconds)
        return;
    found->seconds = state->seconds;
    found->parent = state->parent;
    found->rule = state->rule;
}

// Orders by seconds; ties by the order in which states were found.
static int compare_ranks(const void *a, const void *b) {
    const struct rank_of_state *x = a, *y = b;
    const int by_seconds = (x->seconds > y->seconds) - (x->seconds < y->seconds);
    return by_seconds != 0 ? by_seconds : x->state - y->state;
}

// Returns the seconds until the best state has the value of a slot in that kind too. Cached: many
// other states have it, or lack it.
static double seconds_to_catch_up(struct search *s, int index, const struct state *best, int slot,
                                  enum mmul_placement_kind kind) {
    struct catching_up *known = &s->catching_up[slot];
    const int value = s->owners[slot];
    if (known->operation != index + 1)
        for (int i = 0; i < MMUL_PLACEMENTS; i++)
            known->seconds[i] = NAN;
    known->operation = index + 1;
    if (isnan(known->seconds[kind]))
        known->seconds[kind] =
            mmul_program_find_path(costs_of(s, value), &s->program->values[value], best->have[slot],
                                   kind)
                .seconds;
    return known->seconds[kind];
}

// Returns true if the best state is no later after it has made the moves that it lacks. Most states
// are not even one move ahead.
static bool catches_up(struct search *s, int index, const struct state *best,
                       const struct state *state) {
    double seconds = 0;
    for (int word = 0; word < s->slot_count; word += WORD) {
        uint64_t have, has;
        memcpy(&have, state->have + word, sizeof have);
        memcpy(&has, best->have + word, sizeof has);
        if ((have & ~has) == 0)
            continue;
        for (int i = word; i < word + WORD; i++) {
            unsigned lacks = state->have[i] & ~(unsigned)best->have[i];
            for (int kind = 0; lacks >> kind != 0; kind++)
                if ((lacks >> kind & 1) != 0)
                    seconds +=
                        seconds_to_catch_up(s, index, best, i, (enum mmul_placement_kind)kind);
        }
        if (best->seconds + seconds > state->seconds)
            return false;
    }
    return true;
}

// Selects the states that survive.
static void select_states(struct search *s, int index) {
    const size_t slots = (size_t)s->slot_count;
    for (int i = 0; i < s->found_count; i++)
        s->order[i] = (struct rank_of_state){s->found[i].seconds, i};
    qsort(s->order, (size_t)s->found_count, sizeof *s->order, compare_ranks);
    const struct state *best = &s->found[s->order[0].state];
    s->count = 0;
    for (int i = 0; i < s->found_count && s->count < s->states_most; i++) {
        const struct state *state = &s->found[s->order[i].state];
        if (i > 0 && catches_up(s, index, best, state))
            continue;
        struct state *next = &s->now[s->count];
        *next = *state;
        next->have = s->have[0] + (size_t)s->count * slots;
        memcpy(next->have, state->have, slots * sizeof *next->have);
        s->parents[(int64_t)index * s->states_most + s->count] = state->parent;
        s->rules[(int64_t)index * s->states_most + s->count] = state->rule;
        s->count++;
    }
}

static enum mmul_status advance_operation(struct search *s, int index, struct mmul_error *err) {
    const struct mmul_operation *o = &s->program->operations[index];
    const struct mmul_operation_row *row = mmul_operation_row(o->kind);
    const size_t bytes = (size_t)s->slot_count * sizeof *s->scratch;
    s->costs = costs_of_rank_group(s, mmul_program_operation_group(s->program, o));
    s->found_count = 0;
    memset(s->table, 0, (size_t)s->table_size * sizeof *s->table);
    memset(s->paths, 0, sizeof s->paths);
    if (o->result >= 0)
        s->owners[s->slots[o->result]] = o->result;
    for (int rule = 0; rule < row->rule_count; rule++) {
        if (!is_allowed(s, o, &row->rules[rule]))
            continue;
        const double seconds =
            mmul_program_operation_seconds(s->costs, s->program, o, &row->rules[rule]);
        for (int i = 0; i < s->count; i++) {
            memcpy(s->scratch, s->now[i].have, bytes);
            struct state state = {
                .hash = s->now[i].hash, .parent = i, .rule = rule, .have = s->scratch};
            state.seconds =
                s->now[i].seconds + follow_rule(s, index, &row->rules[rule], seconds, &state);
            if (state.seconds < INFINITY)
                add_state(s, &state);
        }
    }
    if (s->found_count == 0)
        return mmul_fail(err, MMUL_ERR_USAGE,
                         "cannot give '%s' the placement '%s': no rule of the operation allows it",
                         s->program->values[o->operands[0]].name,
                         mmul_placement_name(o->requested_placement));
    select_states(s, index);
    return MMUL_OK;
}

// --------------------------------------------------------------------------------------- searching

// Assigns slots. A value has a slot from the operation that makes it to its last reader.
static void assign_slots(struct search *s) {
    const struct mmul_program *p = s->program;
    int used = 0;
    for (int i = 0; i < p->operation_count; i++) {
        const struct mmul_operation *o = &p->operations[i];
        if (o->result >= 0) {
            int slot = 0;
            while (slot < used && s->owners[slot] >= 0)
                slot++;
            used += slot == used;
            s->slots[o->result] = slot;
            s->owners[slot] = o->result;
        }
        for (int slot = 0; slot < used; slot++)
            if (s->owners[slot] >= 0 && p->values[s->owners[slot]].last_use <= i)
                s->owners[slot] = -1;
    }
    s->slot_count = (used + WORD - 1) / WORD * WORD;
}

static void mark_transposed(struct search *s) {
    const struct mmul_program *p = s->program;
    for (int i = 0; i < p->operation_count; i++) {
        const struct mmul_operation *o = &p->operations[i];
        if (o->kind == MMUL_TRANSPOSE ||
            (o->kind == MMUL_PLACE && !mmul_program_is_group_move(p, o)))
            s->is_transposed[o->result] =
                s->is_transposed[o->operands[0]] != (o->kind == MMUL_TRANSPOSE);
    }
}

static enum mmul_status init_search(struct search *s, struct mmul_error *err) {
    int64_t values = s->program->value_count, operations = s->program->operation_count;
    s->states_most =
        (int)mmul_max(STATES_LEAST, mmul_min(STATES_MOST, STATES_OF_ALL / mmul_max(1, operations)));
    for (s->table_size = 1; s->table_size < 2 * s->states_most * RULES_MOST;)
        s->table_size *= 2;
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "a plan", err, MMUL_ARRAY(s->parents, operations * s->states_most),
        MMUL_ARRAY(s->rules, operations * s->states_most), MMUL_ARRAY(s->slots, values),
        MMUL_ARRAY(s->is_transposed, values), MMUL_ARRAY(s->owners, values + WORD));
    if (status != MMUL_OK)
        return status;
    for (int64_t i = 0; i < values + WORD; i++)
        s->owners[i] = -1;
    s->has_wishes = has_wishes(s->program);
    assign_slots(s);
    mark_transposed(s);
    status = MMUL_ALLOCATE_ALL(
        "a plan", err, MMUL_ARRAY(s->have[0], (int64_t)s->states_most * s->slot_count),
        MMUL_ARRAY(s->have[1], (int64_t)s->states_most * RULES_MOST * s->slot_count),
        MMUL_ARRAY(s->scratch, s->slot_count), MMUL_ARRAY(s->catching_up, s->slot_count));
    s->now[0] = (struct state){.have = s->have[0]}; // no value is placed yet
    s->count = 1;
    return status;
}

enum mmul_status mmul_program_choose(const struct mmul_program *program,
                                     const struct mmul_program_costs *costs,
                                     const struct mmul_rule **rules, double *seconds,
                                     struct mmul_error *err) {
    enum { REPORTED_EACH = 1024 }; // operations; they take some tens of milliseconds
    struct search *s = NULL;
    enum mmul_status status = MMUL_ALLOCATE(s, 1, "a plan", err);
    if (status != MMUL_OK)
        return status;
    s->program = program;
    s->rank_groups = costs;
    status = init_search(s, err);
    for (int i = 0; status == MMUL_OK && i < program->operation_count; i++) {
        if (program->planning != NULL && i % REPORTED_EACH == 0)
            program->planning(program->planning_context, i, program->operation_count);
        status = advance_operation(s, i, err);
    }
    int best = 0; // states are sorted
    if (status == MMUL_OK)
        *seconds = s->now[best].seconds;
    for (int i = program->operation_count - 1; status == MMUL_OK && i >= 0; i--) {
        const struct mmul_operation_row *row = mmul_operation_row(program->operations[i].kind);
        rules[i] = &row->rules[s->rules[(int64_t)i * s->states_most + best]];
        best = s->parents[(int64_t)i * s->states_most + best];
    }
    MMUL_FREE_ALL(s->parents, s->rules, s->slots, s->owners, s->is_transposed, s->have[0],
                  s->have[1], s->scratch, s->catching_up, s);
    return status;
}

// ------------------------------------------------------------------------------------------ groups

// A number of groups that operations keep together, and the elements of their results.
struct group_request {
    int64_t groups;
    double elements;
};

static int compare_wishes(const void *a, const void *b) {
    const struct group_request *x = a, *y = b;
    return (x->elements < y->elements) - (x->elements > y->elements);
}

// Adds the numbers of groups of the operands that can be split only between groups.
static int add_group_wishes(const struct mmul_program *program, const struct mmul_operation *o,
                            struct group_request *requests, int count) {
    struct mmul_operand_info operands[MMUL_OPERANDS];
    const struct mmul_operation_call call = mmul_program_describe_call(program, o, operands);
    const struct mmul_shape result = mmul_program_shape(program, o);
    for (int i = 0; o->kind != MMUL_SAVE && i < o->operand_count; i++) {
        if (operands[i].is_number)
            continue;
        int64_t groups = mmul_operation_row_groups(o->kind, &call, i, result);
        int same = 0;
        while (same < count && requests[same].groups != groups)
            same++;
        if (groups == MMUL_ROW_BY_ROW || groups == 1)
            continue;
        requests[same].groups = groups;
        requests[same].elements += mmul_shape_elements(result);
        count += same == count;
    }
    return count;
}

enum mmul_status mmul_program_find_groups(const struct mmul_program *program, int size,
                                          int64_t *groups, struct mmul_error *err) {
    struct group_request *requests = NULL;
    int count = 0;
    enum mmul_status status =
        MMUL_ALLOCATE(requests, (int64_t)program->operation_count * MMUL_OPERANDS, "a plan", err);
    if (status != MMUL_OK)
        return status;
    for (int i = 0; i < program->operation_count; i++)
        count = add_group_wishes(program, &program->operations[i], requests, count);
    if (count > 0)
        qsort(requests, (size_t)count, sizeof *requests, compare_wishes);
    int64_t found = 0;
    for (int i = 0; i < count; i++) {
        int64_t both = mmul_gcd(requests[i].groups, found);
        found = both >= size ? both : found;
    }
    *groups = size == 1 ? MMUL_ONE_RANK : found > 1 ? found : 1;
    mmul_free(requests);
    return MMUL_OK;
}
