// SPDX-License-Identifier: MIT
// Requested placements: place(...) in the text, and a placement file that lists names. Only records
// the request in the program; the plan decides on the moves.
#include "tensor/placement_requests.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "tensor/builtins.h"
#include "tensor/jobs.h"
#include "tensor/script.h"

// -------------------------------------------------------------------------------------- one value

static enum mmul_status place_matrix(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const struct mmul_placement_request *requested_placement,
                                     struct mmul_object *x) {
    char text[48];
    const char *name = mmul_evaluator_name(e, at, text);
    const int given = mmul_job_value(e, at, x);
    int value = 0;
    if (given < 0)
        return e->err->status;
    if (mmul_program_place_as(e->program, given, requested_placement, name, &value, e->err) !=
        MMUL_OK)
        return mmul_evaluator_locate(e, at);
    const bool is_row = x->is_row;
    *x = mmul_matrix_object(e, value, x->axes);
    x->is_row = is_row;
    return MMUL_OK;
}

// Finds the requested placement for a path such as "state.0.3". Returns false if there is none.
typedef bool find_request(const struct mmul_evaluator *e, const char *path, void *context,
                          struct mmul_placement_request *requested_placement);

enum { PATH_BYTES = 256 };

struct placement_walk {
    struct mmul_evaluator *e;
    const struct mmul_node *at;
    find_request *find;
    void *context;
    char path[PATH_BYTES];
};

// Places the object, or all matrices in its tuples. Other kinds stay unchanged.
static enum mmul_status place_all(struct placement_walk *p, size_t length, struct mmul_object *x) {
    struct mmul_placement_request requested_placement;
    if (x->kind == MMUL_OBJECT_MATRIX)
        return p->find(p->e, p->path, p->context, &requested_placement)
                   ? place_matrix(p->e, p->at, &requested_placement, x)
                   : MMUL_OK;
    if (x->kind != MMUL_OBJECT_TUPLE)
        return MMUL_OK;
    struct mmul_object *items = mmul_allocate(x->count, sizeof *items, "a tuple", p->e->err);
    enum mmul_status status = items != NULL ? MMUL_OK : p->e->err->status;
    for (int i = 0; status == MMUL_OK && i < x->count; i++) {
        const size_t left = sizeof p->path - length;
        const int more = snprintf(p->path + length, left, ".%d", i);
        items[i] = x->items[i];
        status = place_all(p, (size_t)more < left ? length + (size_t)more : length, &items[i]);
    }
    if (status == MMUL_OK)
        status = mmul_evaluator_tuple(p->e, items, x->count, x);
    mmul_free(items);
    return status;
}

// ------------------------------------------------------------------------------------ place(...)

// Reads a rank or a tuple of ranks.
static enum mmul_status take_ranks(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                   int ranks[static MMUL_TUPLE_MOST], int *count) {
    const struct mmul_object *given = &argument->object;
    const bool is_one = given->kind != MMUL_OBJECT_TUPLE;
    *count = is_one ? 1 : given->count;
    if (*count == 0)
        return mmul_evaluator_fail(e, argument->node, "ranks is empty, expected one at least");
    for (int i = 0; i < *count; i++) {
        const struct mmul_argument item = {argument->node, is_one ? *given : given->items[i]};
        int64_t rank = 0;
        enum mmul_status status = mmul_argument_get_integer(e, &item, "a rank", &rank);
        if (status != MMUL_OK)
            return status;
        if (rank < 0 || rank >= INT_MAX)
            return mmul_evaluator_fail(e, argument->node, "invalid rank %lld: ranks start at 0",
                                       (long long)rank);
        ranks[i] = (int)rank;
    }
    return MMUL_OK;
}

// Reads the columns of a block. 0 would mean the default.
static enum mmul_status take_block(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                   int64_t *cols) {
    enum mmul_status status = mmul_argument_get_integer(e, argument, "block", cols);
    return status == MMUL_OK && *cols < 1
               ? mmul_evaluator_fail(e, argument->node, "block is %lld, expected 1 or more columns",
                                     (long long)*cols)
               : status;
}

static bool give_request(const struct mmul_evaluator *e, const char *path, void *context,
                         struct mmul_placement_request *requested_placement) {
    (void)e;
    (void)path;
    *requested_placement = *(const struct mmul_placement_request *)context;
    return true;
}

enum mmul_status mmul_builtin_place(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    static const char *const words[] = {"rows", "cols", "cyclic", "replicate", "grid", NULL};
    static const enum mmul_placement_kind kinds[] = {
        MMUL_PLACE_ROWS, MMUL_PLACE_COLS, MMUL_PLACE_CYCLIC, MMUL_PLACE_REPLICATE, MMUL_PLACE_GRID};
    int choice = 0, count = 0, ranks[MMUL_TUPLE_MOST];
    int64_t block_cols = 0;
    (void)builtin;
    enum mmul_status status = MMUL_OK;
    if (arguments[0].object.kind != MMUL_OBJECT_TUPLE)
        status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK)
        status = mmul_argument_get_choice(e, &arguments[1], "placement", words, &choice);
    if (status == MMUL_OK && arguments[2].node != NULL)
        status = take_ranks(e, &arguments[2], ranks, &count);
    if (status == MMUL_OK && arguments[3].node != NULL)
        status = take_block(e, &arguments[3], &block_cols);
    if (status != MMUL_OK)
        return status;
    struct mmul_placement_request requested_placement = {.kind = kinds[choice],
                                                         .ranks = count > 0 ? ranks : NULL,
                                                         .rank_count = count,
                                                         .block_cols = block_cols};
    struct placement_walk p = {
        .e = e, .at = call, .find = give_request, .context = &requested_placement};
    *result = arguments[0].object;
    return place_all(&p, 0, result);
}

// ------------------------------------------------------------------------------ placement file

// An entry for a tuple applies to all its elements without an entry of their own.
static bool find_named_request(const struct mmul_evaluator *e, const char *path, void *context,
                               struct mmul_placement_request *requested_placement) {
    char name[PATH_BYTES];
    (void)context;
    mmul_text_copy(name, sizeof name, path);
    for (char *end; !mmul_placements_find(e->script->placements, name, requested_placement);
         *end = '\0') {
        end = strrchr(name, '.');
        if (end == NULL)
            return false;
    }
    return true;
}

enum mmul_status mmul_request_named_placement(struct mmul_evaluator *e, const struct mmul_node *at,
                                              const char *name, struct mmul_object *object) {
    struct placement_walk p = {.e = e, .at = at, .find = find_named_request};
    if (e->script->placements == NULL)
        return MMUL_OK;
    const int length = snprintf(p.path, sizeof p.path, "%s", name);
    if ((size_t)length >= sizeof p.path) // longer than any name in a file
        return MMUL_OK;
    return place_all(&p, (size_t)length, object);
}
