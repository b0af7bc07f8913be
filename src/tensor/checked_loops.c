// SPDX-License-Identifier: MIT
// What --check says of loops. Plans nothing: the turn is part of the program.
#include "tensor/checked_loops.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "model/program.h"
#include "tensor/jobs.h"
#include "tensor/script.h"

static int count_matrices(const struct mmul_object *x) {
    int count = x->kind == MMUL_OBJECT_MATRIX;
    for (int i = 0; x->kind == MMUL_OBJECT_TUPLE && i < x->count; i++)
        count += count_matrices(&x->items[i]);
    return count;
}

static void add_carried(struct mmul_text *text, const struct mmul_binding *b) {
    char shape[96];
    const int count = count_matrices(&b->object);
    mmul_text_add(text, "%s%s", text->length > 0 ? ", " : "", b->name);
    if (b->object.kind == MMUL_OBJECT_MATRIX)
        mmul_text_add(text, " (%s)", mmul_object_shape(&b->object, shape));
    else if (count > 0)
        mmul_text_add(text, " (%d %s)", count, count == 1 ? "matrix" : "matrices");
}

// In the order in which the text names them first: bindings begin with the last one.
static enum mmul_status list_carried(struct mmul_evaluator *e, const struct mmul_node *node,
                                     const char **list) {
    struct mmul_carried carried = {NULL};
    struct mmul_text text = {0};
    enum mmul_status status = mmul_carried_find(e, node, &carried);
    for (int i = carried.count - 1; status == MMUL_OK && i >= 0; i--)
        if (!carried.names[i].is_new &&
            strcmp(carried.names[i].binding->name, node->first->text) != 0)
            add_carried(&text, carried.names[i].binding);
    if (status == MMUL_OK)
        status = mmul_evaluator_copy_text(e, mmul_text_get(&text), list);
    mmul_text_fini(&text);
    mmul_carried_fini(&carried);
    return status;
}

enum mmul_status mmul_checked_loop_begin(struct mmul_evaluator *e, const struct mmul_node *node,
                                         const int64_t bounds[2], struct mmul_script_loop **loop) {
    struct mmul_script_loop **last = &e->script->loops,
                            *made = mmul_arena_allocate(&e->script->arena, sizeof *made, e->err);
    if (made == NULL || list_carried(e, node, &made->carried) != MMUL_OK)
        return e->err->status;
    made->line = mmul_source_line(e->source, node->at.begin);
    made->first = bounds[0];
    made->end = bounds[1];
    made->value_begin = e->program->value_count;
    while (*last != NULL)
        last = &(*last)->next;
    *last = *loop = made;
    return MMUL_OK;
}

void mmul_checked_loop_end(struct mmul_evaluator *e, struct mmul_script_loop *loop) {
    loop->value_end = e->program->value_count;
}

void mmul_script_print_loops(const struct mmul_script *script, const struct mmul_program_plan *plan,
                             FILE *stream) {
    for (const struct mmul_script_loop *loop = script->loops; loop != NULL; loop = loop->next) {
        double seconds = 0, network_bytes = 0;
        char bytes[32];
        mmul_program_plan_cost(plan, loop->value_begin, loop->value_end, &seconds, &network_bytes);
        fprintf(stream,
                "loop of line %d: %lld turn%s of %.6f s, %s between nodes in each; carried: %s\n",
                loop->line, (long long)(loop->end - loop->first),
                loop->end - loop->first == 1 ? "" : "s", seconds,
                mmul_bytes_format((int64_t)(network_bytes + 0.5), bytes),
                loop->carried[0] != '\0' ? loop->carried : "nothing");
    }
}
