// SPDX-License-Identifier: MIT
// The context has a list of held values, newest first. A segment counts its users, the held values
// in it and the runs that use it. The last user puts it into the cache of segments
// (exec/memory/segment_cache.h).
#include "exec/memory/held.h"

#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "exec/memory/segment_cache.h"
#include "model/matrix.h"
#include "model/rank_groups.h"

struct mmul_held_segment {
    struct mmul_shared shared;
    int users; // held values, and the runs' values that have made or read them
};

struct mmul_held {
    struct mmul_held *next;
    int64_t number;
    struct mmul_held_info info;
    struct mmul_held_segment *segment;
    int64_t *offsets; // owned, by rank, in units of its placement; NULL: replicated
    char **parts;     // owned, by rank of the node: addresses of the parts
    int ranks;
    bool is_released;                  // root: by the user
    bool is_apart;                     // each node holds a value of its own
    struct mmul_rank_group rank_group; // storage for info.rank_group
};

int64_t mmul_held_next_number(void) {
    static atomic_int_least64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

static void release_segment(struct mmul_context *context, struct mmul_held_segment *segment) {
    if (segment == NULL || --segment->users > 0)
        return;
    mmul_segment_cache_put(context, MMUL_SEGMENT_CACHE_HELD, &segment->shared);
    mmul_free(segment);
}

static void destroy_held(struct mmul_context *context, struct mmul_held *held) {
    release_segment(context, held->segment);
    MMUL_FREE_ALL(held->offsets, held->parts, held);
}

static const struct mmul_held *find_in_list(const struct mmul_held *held, int64_t number) {
    while (held != NULL && (held->number != number || held->is_released))
        held = held->next;
    return held;
}

const struct mmul_held *mmul_held_find(const struct mmul_context *context, int64_t number) {
    const struct mmul_held *held = find_in_list(context->held, number), *other = NULL;
    if (held == NULL && context->node != NULL)
        other = find_in_list(context->node->held, number);
    if (held == NULL && context->alone != NULL)
        held = find_in_list(context->alone->held, number);
    if (held == NULL && context->whole != NULL)
        other = find_in_list(context->whole->held, number);
    return other != NULL && other->info.kind == MMUL_PLACE_REPLICATE ? other : held;
}

const struct mmul_held *mmul_held_find_on_root(const struct mmul_context *context, int64_t number) {
    return context->alone != NULL && find_in_list(context->held, number) == NULL
               ? find_in_list(context->alone->held, number)
               : NULL;
}

const void *mmul_held_data(const struct mmul_held *held) {
    return held->parts[0];
}

struct mmul_held_info mmul_held_info(const struct mmul_context *context,
                                     const struct mmul_held *held) {
    struct mmul_held_info info = held->info;
    if (held->is_apart && context->whole == NULL)
        info.kind = MMUL_PLACE_PARTIAL;
    return info;
}

static enum mmul_status copy_offsets(const int64_t *from, int ranks, int64_t **to,
                                     struct mmul_error *err) {
    if (from == NULL)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE(*to, ranks + 1, "a held value", err);
    if (status == MMUL_OK)
        memcpy(*to, from, (size_t)(ranks + 1) * sizeof **to);
    return status;
}

enum mmul_status mmul_held_complete(const struct mmul_context *context,
                                    struct mmul_persistent_value *kept, struct mmul_error *err) {
    const struct mmul_held *held = mmul_held_find(context, kept->held);
    if (held == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "'%s' is no longer held", kept->name);
    kept->parts = held->ranks;
    return copy_offsets(held->offsets, held->ranks, &kept->offsets, err);
}

// ------------------------------------------------------------------------------------------- a run

static int find_place(const struct mmul_values *v, int kept) {
    int place = v->plan->place_count - 1;
    while (place >= 0 && v->plan->places[place].kept != kept)
        place--;
    return place;
}

static bool is_whole(const struct mmul_values *v, int place) {
    return v->plan->places[place].placement.kind == MMUL_PLACE_REPLICATE;
}

// Lays out the parts that the node's ranks make of a value, from byte `at` on. Returns the end.
// base NULL: sizes only.
static int64_t lay_out_parts(struct mmul_values *v, int place, int64_t at, char *base) {
    char **parts = v->persistent_parts + (int64_t)place * v->node_size;
    for (int rank = 0, index = 0; rank < v->plan->costs.size; rank++) {
        if (v->plan->costs.rank_node[rank] != v->node)
            continue;
        if (base != NULL)
            parts[index] = is_whole(v, place) && index > 0 ? parts[0] : base + at;
        if (!is_whole(v, place) || index == 0)
            at += mmul_program_place_bytes(v->plan, &v->plan->places[place], rank);
        index++;
    }
    return at;
}

static int64_t lay_out_made(struct mmul_values *v, char *base) {
    const struct mmul_program *program = v->plan->program;
    int64_t at = 0;
    for (int k = 0; k < program->persistent_count; k++) {
        const int place =
            program->kept[k].held > 0 && program->kept[k].is_made ? find_place(v, k) : -1;
        at = place >= 0 ? lay_out_parts(v, place, at, base) : at;
    }
    return at;
}

static void use_segment(struct mmul_values *v, struct mmul_held_segment *segment) {
    segment->users++;
    v->held[v->held_count++] = segment;
}

static void find_read_value(const struct mmul_context *context, struct mmul_values *v, int kept) {
    const struct mmul_held *held = mmul_held_find(context, v->plan->program->kept[kept].held);
    const int place = find_place(v, kept);
    if (place < 0)
        return;
    memcpy(v->persistent_parts + (int64_t)place * v->node_size, held->parts,
           (size_t)v->node_size * sizeof *held->parts);
    use_segment(v, held->segment);
}

static int count_made_values(const struct mmul_program *program) {
    int count = 0;
    for (int k = 0; k < program->persistent_count; k++)
        count += program->kept[k].held > 0 && program->kept[k].is_made;
    return count;
}

enum mmul_status mmul_held_open(struct mmul_context *context, struct mmul_values *values,
                                struct mmul_error *err) {
    const struct mmul_program *program = values->plan->program;
    const int64_t bytes = lay_out_made(values, NULL);
    struct mmul_held_segment *made = NULL;
    bool is_new = true;
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "held values", err, MMUL_ARRAY(values->held, program->persistent_count + 1),
        MMUL_ARRAY(made, 1));
    status = mmul_comm_agree(context->comm, status, err);
    for (int k = 0; status == MMUL_OK && k < program->persistent_count; k++) {
        const struct mmul_persistent_value *kept = &program->kept[k];
        if (kept->held > 0 && !kept->is_made && mmul_held_find(context, kept->held) == NULL)
            status = mmul_fail(err, MMUL_ERR_USAGE, "'%s' is no longer held", kept->name);
        else if (kept->held > 0 && !kept->is_made)
            find_read_value(context, values, k);
    }
    status = mmul_comm_agree(context->comm, status, err);
    if (status == MMUL_OK && count_made_values(program) > 0)
        status = mmul_segment_cache_take(context, MMUL_SEGMENT_CACHE_HELD, bytes, &made->shared,
                                         &is_new, err);
    if (status != MMUL_OK) {
        mmul_free(made);
        return status;
    }
    lay_out_made(values, made->shared.data);
    use_segment(values, made);
    return MMUL_OK;
}

static enum mmul_status register_held(struct mmul_context *context, const struct mmul_values *v,
                                      int kept, struct mmul_held_segment *segment,
                                      struct mmul_error *err) {
    const int place = find_place(v, kept), ranks = v->plan->costs.size;
    const struct mmul_placement *p = &v->plan->places[place].placement;
    const struct mmul_value *value = mmul_place_value(v->plan, place);
    struct mmul_held *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "a held value", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made->parts, v->node_size, "a held value", err);
    if (status == MMUL_OK)
        status = copy_offsets(p->kind == MMUL_PLACE_ROWS   ? p->row_offsets
                              : p->kind == MMUL_PLACE_COLS ? p->col_offsets
                                                           : NULL,
                              ranks, &made->offsets, err);
    if (status != MMUL_OK) {
        if (made != NULL)
            destroy_held(context, made);
        return status;
    }
    memcpy(made->parts, v->persistent_parts + (int64_t)place * v->node_size,
           (size_t)v->node_size * sizeof *made->parts);
    made->number = v->plan->program->kept[kept].held;
    made->info = (struct mmul_held_info){.shape = value->shape,
                                         .dtype = value->dtype,
                                         .kind = p->kind,
                                         .is_integer = value->is_integer,
                                         .is_bool = value->is_bool,
                                         .group_is_requested = value->group_is_requested};
    made->info.has_open_type =
        v->plan->program->kept[kept].stays_exact_in_both_types && value->has_open_type;
    made->info.is_exact_in_both_types = made->info.has_open_type && value->is_exact_in_both_types;
    const struct mmul_rank_group *rank_group =
        mmul_program_rank_group(v->plan->program, value->rank_group);
    if (rank_group != NULL) {
        made->rank_group = *rank_group;
        made->info.rank_group = &made->rank_group;
    }
    made->segment = segment;
    made->ranks = ranks;
    made->is_apart = context->whole != NULL && !mmul_context_is_of_root(context);
    segment->users++;
    made->next = context->held;
    context->held = made;
    return MMUL_OK;
}

enum mmul_status mmul_held_commit(struct mmul_context *context, struct mmul_values *values,
                                  struct mmul_error *err) {
    const struct mmul_program *program = values->plan->program;
    enum mmul_status status = MMUL_OK;
    for (int k = 0; status == MMUL_OK && k < program->persistent_count; k++)
        if (program->kept[k].held > 0 && program->kept[k].is_made)
            status = register_held(context, values, k, values->held[values->held_count - 1], err);
    return status;
}

void mmul_held_close(struct mmul_values *values) {
    for (int i = 0; i < values->held_count && !values->is_abandoned; i++)
        release_segment(values->context, values->held[i]);
    mmul_free(values->held);
    values->held = NULL;
    values->held_count = 0;
}

// --------------------------------------------------------------------------------------- releasing

void mmul_held_release(struct mmul_context *context, int64_t number) {
    // The list begins with the newest, and values are mostly released soon after they were made.
    struct mmul_held *held = context->held;
    while (held != NULL && (held->number != number || held->is_released))
        held = held->next;
    if (held != NULL) {
        held->is_released = true;
        context->released_count++;
    }
    if (context->node != NULL)
        mmul_held_release(context->node, number);
    if (context->alone != NULL)
        mmul_held_release(context->alone, number);
}

enum mmul_status mmul_held_list_released(const struct mmul_context *context, int64_t **numbers,
                                         int64_t *count, struct mmul_error *err) {
    const int64_t all = context->released_count;
    *count = 0;
    if (MMUL_ALLOCATE(*numbers, all + 1, "numbers of held values", err) != MMUL_OK)
        return err->status;
    for (const struct mmul_held *held = context->held; held != NULL && *count < all;
         held = held->next)
        if (held->is_released)
            (*numbers)[(*count)++] = held->number;
    return MMUL_OK;
}

// Drops the values with these numbers. Each number belongs to one value.
static void drop_numbers(struct mmul_context *context, const int64_t *numbers, int64_t count) {
    int64_t left = count;
    for (struct mmul_held **at = &context->held; *at != NULL && left > 0;) {
        struct mmul_held *held = *at;
        bool goes = false;
        for (int64_t i = 0; i < count; i++)
            goes |= numbers[i] == held->number;
        if (!goes) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        context->released_count -= held->is_released;
        left--;
        destroy_held(context, held);
    }
}

enum mmul_status mmul_held_drop_released(struct mmul_context *context, struct mmul_error *err) {
    int64_t count = context->released_count, *numbers = NULL;
    enum mmul_status status = mmul_comm_broadcast(context->comm, &count, sizeof count, err);
    if (status != MMUL_OK || count == 0)
        return status;
    status = context->comm->rank == 0
                 ? mmul_held_list_released(context, &numbers, &count, err)
                 : MMUL_ALLOCATE(numbers, count, "numbers of held values", err);
    status = mmul_comm_agree(context->comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(context->comm, numbers, count * (int64_t)sizeof *numbers, err);
    if (status == MMUL_OK)
        drop_numbers(context, numbers, count);
    mmul_free(numbers);
    return status;
}

void mmul_held_destroy(struct mmul_context *context) {
    while (context->held != NULL) {
        struct mmul_held *held = context->held;
        context->held = held->next;
        destroy_held(context, held);
    }
}
