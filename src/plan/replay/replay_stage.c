// SPDX-License-Identifier: MIT
// A schedule as it is before the clock starts: folded, with what its ranks compute and what its lists have
// brought about already. Nothing moves here.
#include "plan/replay/replay_parts.h"

#include <math.h>

#include "base/memory.h"

// Mean seconds of an element of C of those for whom the rank stands; what root's lists read and write
// is not computing.
static void find_element_seconds(const struct mmul_replay_simulation *s,
                                 struct mmul_replay_stage *stage,
                                 const struct mmul_stage_plan *whole) {
    const struct mmul_cost *cost = whole->cost;
    for (int rank = 0; rank < whole->schedule->size; rank++) {
        const struct mmul_schedule_rank *r = &mmul_schedule_ranks(whole->schedule)[rank];
        int classes = s->classes.rank_of[rank];
        struct mmul_pass_cost pass = cost->ranks[rank].pass;
        if (r->node == cost->root_node && pass.knots > 0)
            pass = mmul_cost_pass(cost, rank, 0);
        if (r->end > r->begin)
            stage->element_seconds[classes] +=
                cost->passes *
                mmul_pass_seconds(&pass, (double)(r->end - r->begin) / cost->rounds) /
                s->classes.members[classes];
    }
    double rounds = (double)stage->schedule->rounds, part = rounds / cost->rounds;
    for (int rank = 0; rank < s->classes.size; rank++) {
        const struct mmul_tasks tasks = mmul_tasks_of(stage->schedule, rank, 0, false);
        double elements = mmul_tasks_elements(&tasks, 0, tasks.positions);
        stage->element_seconds[rank] += elements > 0 ? whole->seconds : 0;
        stage->element_seconds[rank] /= elements > 0 ? elements / part : 1;
    }
    stage->left_out = (cost->rounds - rounds) / ceil(rounds / 2);
}

static void reset_stage(const struct mmul_replay_simulation *s, struct mmul_replay_stage *stage) {
    const struct mmul_cost *cost = stage->cost;
    for (int node = 0; node < cost->node_count; node++) // of a spread operand there is no chain
        if (cost->nodes[node].remote)
            stage->panel_seconds_per_byte =
                fmax(stage->panel_seconds_per_byte, cost->nodes[node].link);
    if (cost->last_in_chain >= 0)
        stage->panel_seconds_per_byte = cost->nodes[cost->last_in_chain].gap / cost->panel_bytes;
    for (int64_t i = 0; i < s->classes.node_count * stage->positions; i++)
        stage->begun[i] = stage->ended[i] = INFINITY;
    for (int node = 0; node < s->classes.node_count; node++)
        for (int route = 0; route < MMUL_ROUTES; route++) {
            const struct mmul_transfers list =
                mmul_transfers_make(stage->schedule, node, (enum mmul_route)route);
            int64_t reached = mmul_transfers_reached(&list);
            mmul_replay_raise(
                stage, node,
                (struct mmul_count){mmul_route_brings(stage->schedule, list.route, node), reached});
            mmul_replay_raise(stage, node,
                              (struct mmul_count){mmul_route_frees(list.route), reached});
        }
}

enum mmul_status mmul_replay_stage_init(const struct mmul_replay_simulation *s,
                                        const struct mmul_stage_plan *whole,
                                        struct mmul_replay_stage *stage, struct mmul_error *err) {
    int nodes = s->classes.node_count, size = s->classes.size;
    if (whole->schedule == NULL)
        return MMUL_OK;
    stage->cost = whole->cost;
    if (mmul_rank_classes_plan(&s->classes, whole->schedule, &stage->schedule, err) != MMUL_OK)
        return err->status;
    stage->positions = mmul_transfers_make(stage->schedule, 0, MMUL_ROUTE_RELAY).end;
    int64_t panels = nodes * stage->positions;
    if (MMUL_ALLOCATE(stage->counters, nodes, "the simulation", err) != MMUL_OK ||
        MMUL_ALLOCATE(stage->begun, panels, "the simulation", err) != MMUL_OK ||
        MMUL_ALLOCATE(stage->ended, panels, "the simulation", err) != MMUL_OK ||
        MMUL_ALLOCATE(stage->frees, panels, "the simulation", err) != MMUL_OK ||
        MMUL_ALLOCATE(stage->last, nodes, "the simulation", err) != MMUL_OK ||
        MMUL_ALLOCATE(stage->passes_done, size, "the simulation", err) != MMUL_OK ||
        MMUL_ALLOCATE(stage->element_seconds, size, "the simulation", err) != MMUL_OK)
        return err->status;
    find_element_seconds(s, stage, whole);
    reset_stage(s, stage);
    return MMUL_OK;
}

void mmul_replay_stage_fini(struct mmul_replay_stage *stage) {
    mmul_schedule_free(stage->schedule);
    mmul_free(stage->counters);
    mmul_free(stage->begun);
    mmul_free(stage->ended);
    mmul_free(stage->frees);
    mmul_free(stage->last);
    mmul_free(stage->passes_done);
    mmul_free(stage->element_seconds);
}
