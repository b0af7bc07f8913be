// SPDX-License-Identifier: MIT
// Costs of loops and apart() for --check. Plans nothing itself: the one iteration is part of the
// program's plan.
#include "tensor/loop_costs.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "model/program.h"
#include "tensor/jobs.h"
#include "tensor/script.h"

static void add_carried(struct mmul_text *text, const struct mmul_binding *b) {
    char shape[96];
    const int count = mmul_object_count_matrices(&b->object);
    mmul_text_add(text, "%s%s", text->length > 0 ? ", " : "", b->name);
    if (b->object.kind == MMUL_OBJECT_MATRIX)
        mmul_text_add(text, " (%s)", mmul_object_shape(&b->object, shape));
    else if (count > 0)
        mmul_text_add(text, " (%d %s)", count, count == 1 ? "matrix" : "matrices");
}

// Bindings are listed latest first, so reverse order is text order.
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

enum mmul_status mmul_loop_cost_begin(struct mmul_evaluator *e, const struct mmul_node *node,
                                      const int64_t bounds[2], struct mmul_loop_cost **loop) {
    struct mmul_loop_cost **last = &e->script->loops,
                          *made = mmul_arena_allocate(&e->script->arena, sizeof *made, e->err);
    if (made == NULL || list_carried(e, node, &made->carried) != MMUL_OK)
        return e->err->status;
    made->line = mmul_source_line(e->source, node->at.begin);
    made->first = bounds[0];
    made->end = bounds[1];
    made->may_break = mmul_loop_has_break(node);
    made->value_begin = e->program->value_count;
    while (*last != NULL)
        last = &(*last)->next;
    *last = *loop = made;
    return MMUL_OK;
}

void mmul_loop_cost_end(struct mmul_evaluator *e, struct mmul_loop_cost *loop) {
    loop->value_end = e->program->value_count;
}

// -------------------------------------------------------------------------------------- conditions

enum mmul_status mmul_unplanned_block_add(struct mmul_evaluator *e,
                                          const struct mmul_node *branch) {
    const struct mmul_node *statement = branch->first->next->first;
    while (statement != NULL &&
           (statement->kind == MMUL_NODE_BREAK || statement->kind == MMUL_NODE_CONTINUE))
        statement = statement->next;
    if (statement == NULL)
        return MMUL_OK;
    struct mmul_unplanned_block **last = &e->script->unplanned,
                                *made =
                                    mmul_arena_allocate(&e->script->arena, sizeof *made, e->err);
    if (made == NULL)
        return e->err->status;
    made->line = mmul_source_line(e->source, branch->at.begin);
    while (*last != NULL)
        last = &(*last)->next;
    *last = made;
    return MMUL_OK;
}

// ------------------------------------------------------------------------------------------- apart

enum mmul_status mmul_local_training_cost_begin(struct mmul_evaluator *e,
                                                const struct mmul_node *call, int64_t turns,
                                                struct mmul_local_training_cost **apart) {
    struct mmul_local_training_cost **last = &e->script->aparts,
                                    *made = mmul_arena_allocate(&e->script->arena, sizeof *made,
                                                                e->err);
    if (made == NULL)
        return e->err->status;
    made->line = mmul_source_line(e->source, call->at.begin);
    made->turns = turns;
    made->value_begin = e->program->value_count;
    while (*last != NULL)
        last = &(*last)->next;
    *last = *apart = made;
    return MMUL_OK;
}

void mmul_local_training_cost_end(struct mmul_evaluator *e, struct mmul_local_training_cost *apart,
                                  const struct mmul_object *state) {
    apart->value_end = e->program->value_count;
    apart->matrices = mmul_object_count_matrices(state);
}

enum mmul_status mmul_loop_cost_add_mean(struct mmul_evaluator *e, const struct mmul_object *x,
                                         bool is_taken) {
    enum mmul_status status = MMUL_OK;
    if (x->kind == MMUL_OBJECT_MATRIX) {
        struct mmul_mean_cost *made = mmul_arena_allocate(&e->script->arena, sizeof *made, e->err);
        if (made == NULL)
            return e->err->status;
        *made =
            (struct mmul_mean_cost){x->value, e->program->value_count, is_taken, e->script->means};
        e->script->means = made;
    }
    for (int i = 0; x->kind == MMUL_OBJECT_TUPLE && status == MMUL_OK && i < x->count; i++)
        status = mmul_loop_cost_add_mean(e, &x->items[i], is_taken);
    return status;
}

// ------------------------------------------------------------------------------------------ report

struct cost {
    double seconds, bytes;
    int matrices;
};

static struct cost cost_of(const struct mmul_program_plan *plan, int begin, int end) {
    struct cost cost = {0};
    mmul_program_plan_cost(plan, begin, end, &cost.seconds, &cost.bytes);
    return cost;
}

static struct cost cost_of_means(const struct mmul_script *script,
                                 const struct mmul_program_plan *plan, int begin, int end,
                                 bool are_taken) {
    struct cost sum = {0};
    for (const struct mmul_mean_cost *m = script->means; m != NULL; m = m->next) {
        double seconds = 0, bytes = 0;
        if (m->is_taken != are_taken || m->at <= begin || m->at > end)
            continue;
        mmul_program_plan_mean_cost(plan, m->value, &seconds, &bytes);
        sum.seconds += seconds;
        sum.bytes += bytes;
        sum.matrices++;
    }
    return sum;
}

// Replaces the cost of the one planned iteration of each apart() by that of all its iterations and
// of the means they take. Returns true if there is any.
static bool replace_apart_cost(const struct mmul_script *script,
                               const struct mmul_program_plan *plan, int begin, int end,
                               struct cost *cost) {
    bool is_apart = false;
    for (const struct mmul_local_training_cost *a = script->aparts; a != NULL; a = a->next) {
        if (a->value_begin < begin || a->value_end > end)
            continue;
        const struct cost planned = cost_of(plan, a->value_begin, a->value_end);
        const double turn = mmul_program_plan_apart_seconds(plan, a->value_begin, a->value_end);
        cost->seconds += turn * (double)a->turns - planned.seconds;
        cost->bytes -= planned.bytes;
        is_apart = true;
    }
    const struct cost means = cost_of_means(script, plan, begin, end, true);
    cost->seconds += means.seconds;
    cost->bytes += means.bytes;
    return is_apart;
}

static const char *bytes_text(double bytes, char text[static 32]) {
    return mmul_bytes_format((int64_t)(bytes + 0.5), text);
}

// Prints the cost of a loop of joint steps, had the nodes trained apart with a mean every TURNS
// iterations.
static void print_apart_alternative(const struct mmul_script *script,
                                    const struct mmul_program_plan *plan,
                                    const struct mmul_loop_cost *loop, struct cost now,
                                    FILE *stream) {
    enum { TURNS = 20 };
    const struct cost means =
        cost_of_means(script, plan, loop->value_begin, loop->value_end, false);
    const double turn = mmul_program_plan_apart_seconds(plan, loop->value_begin, loop->value_end);
    char with[32], without[32];
    if (means.matrices == 0 || now.bytes == 0)
        return;
    fprintf(stream,
            "  with apart and the mean of %d %s every %d turns: %.6f s, not %.6f s, and %s between "
            "nodes in "
            "each, not %s\n",
            means.matrices, means.matrices == 1 ? "matrix" : "matrices", TURNS,
            turn + means.seconds / TURNS, now.seconds, bytes_text(means.bytes / TURNS, with),
            bytes_text(now.bytes, without));
}

static void print_aparts(const struct mmul_script *script, const struct mmul_program_plan *plan,
                         FILE *stream) {
    for (const struct mmul_local_training_cost *a = script->aparts; a != NULL; a = a->next) {
        const struct cost planned = cost_of(plan, a->value_begin, a->value_end);
        char bytes[32];
        fprintf(stream,
                "apart in line %d: %lld turn%s of %.6f s on each node, 0 B between nodes per turn "
                "(%s if together); state: %d %s\n",
                a->line, (long long)a->turns, mmul_text_plural(a->turns),
                mmul_program_plan_apart_seconds(plan, a->value_begin, a->value_end),
                bytes_text(planned.bytes, bytes), a->matrices,
                a->matrices == 1 ? "matrix" : "matrices");
    }
}

void mmul_script_print_loops(const struct mmul_script *script, const struct mmul_program_plan *plan,
                             FILE *stream) {
    for (const struct mmul_loop_cost *loop = script->loops; loop != NULL; loop = loop->next) {
        struct cost cost = cost_of(plan, loop->value_begin, loop->value_end);
        char bytes[32];
        const bool is_apart =
            replace_apart_cost(script, plan, loop->value_begin, loop->value_end, &cost);
        fprintf(
            stream,
            "loop in line %d: %s%lld turn%s of %.6f s, %s between nodes per turn; carried: %s\n",
            loop->line, loop->may_break ? "up to " : "", (long long)(loop->end - loop->first),
            mmul_text_plural(loop->end - loop->first), cost.seconds, bytes_text(cost.bytes, bytes),
            loop->carried[0] != '\0' ? loop->carried : "nothing");
        if (!is_apart)
            print_apart_alternative(script, plan, loop, cost, stream);
    }
    for (const struct mmul_unplanned_block *u = script->unplanned; u != NULL; u = u->next)
        fprintf(stream,
                "line %d: the condition of this 'if' is known only in a run: "
                "the plan takes its 'else'\n",
                u->line);
    print_aparts(script, plan, stream);
}
