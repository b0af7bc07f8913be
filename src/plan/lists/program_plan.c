// SPDX-License-Identifier: MIT
// Answers questions about a finished plan. Decides nothing.
#include "plan/lists/program_plan.h"

#include <stdio.h>
#include <string.h>

#include "model/rank_groups.h"

int64_t mmul_program_place_bytes(const struct mmul_program_plan *plan,
                                 const struct mmul_program_place *place, int rank) {
    const struct mmul_value *value = &plan->program->values[place->value];
    return MMUL_PLACE_ALIGN(mmul_placement_part(&place->placement, value->shape, rank).elements *
                            (int64_t)mmul_dtype_bytes(value->dtype));
}

const struct mmul_program_costs *mmul_program_costs_of(const struct mmul_program_plan *plan,
                                                       int rank_group) {
    return rank_group > MMUL_GROUP_ALL ? &plan->rank_group_costs[rank_group] : &plan->costs;
}

const struct mmul_program_costs *mmul_program_step_costs(const struct mmul_program_plan *plan,
                                                         const struct mmul_program_step *step) {
    return mmul_program_costs_of(
        plan, mmul_program_operation_group(plan->program, mmul_step_operation(plan, step)));
}

int mmul_program_base_place(const struct mmul_program_plan *plan, int place) {
    while (plan->places[place].view_of >= 0)
        place = plan->places[place].view_of;
    return place;
}

bool mmul_program_is_read_transposed(const struct mmul_program_plan *plan, int place) {
    bool is_transposed = false;
    for (; plan->places[place].view_of >= 0; place = plan->places[place].view_of)
        is_transposed |= plan->places[place].transposed;
    return is_transposed;
}

bool mmul_program_place_has_memory(const struct mmul_program_place *place) {
    return place->view_of < 0 && place->placement.kind != MMUL_PLACE_FILE && !place->is_elided &&
           place->kept < 0;
}

int mmul_program_first_place(const struct mmul_program_plan *plan, int value) {
    for (int i = 0; i < plan->place_count; i++) {
        const struct mmul_program_place *place = &plan->places[i];
        if (place->value == value && place->placement.kind != MMUL_PLACE_FILE && !place->is_elided)
            return i;
    }
    return -1;
}

int mmul_program_operand_count(const struct mmul_program_step *step) {
    return (1 + step->fused_count) * MMUL_OPERANDS;
}

int mmul_program_step_operand(const struct mmul_program_plan *plan,
                              const struct mmul_program_step *step, int index) {
    if (index < MMUL_OPERANDS)
        return step->operands[index];
    const struct mmul_program_fused *fused =
        &plan->fused[step->first_fused + index / MMUL_OPERANDS - 1];
    const bool is_own = index < 2 * MMUL_OPERANDS && mmul_program_head_is_fused(plan, step);
    return is_own || fused->within[index % MMUL_OPERANDS] ? -1
                                                          : fused->operands[index % MMUL_OPERANDS];
}

int mmul_program_result_count(const struct mmul_program_step *step) {
    return 2 + step->fused_count;
}

int mmul_program_step_result(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step, int index) {
    const int place = index == 0   ? step->result
                      : index == 1 ? step->made
                                   : plan->fused[step->first_fused + index - 2].result;
    return index == 0 || (place != step->result && !plan->places[place].is_elided) ? place : -1;
}

bool mmul_program_head_is_fused(const struct mmul_program_plan *plan,
                                const struct mmul_program_step *step) {
    return step->fused_count > 0 && plan->fused[step->first_fused].operation == step->operation;
}

bool mmul_program_needs_result_tile(const struct mmul_program_plan *plan,
                                    const struct mmul_program_step *step) {
    bool reads = false;
    for (int i = 0; step->fused_count > 0 && i < MMUL_OPERANDS; i++) {
        const struct mmul_program_fused *last =
            &plan->fused[step->first_fused + step->fused_count - 1];
        reads |=
            last->within[i] && mmul_program_base_place(plan, last->operands[i]) == step->result;
    }
    return reads;
}

char *mmul_program_step_name(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step,
                             char text[static MMUL_STEP_NAME_BYTES]) {
    if (step->kind == MMUL_STEP_MOVE)
        return strcpy(text, "move");
    snprintf(text, MMUL_STEP_NAME_BYTES, "%s",
             mmul_operation_row(mmul_step_operation(plan, step)->kind)->name);
    for (int i = mmul_program_head_is_fused(plan, step); i < step->fused_count; i++) {
        const struct mmul_operation *fused = mmul_step_fused_operation(plan, step, i);
        const size_t used = strlen(text);
        snprintf(text + used, MMUL_STEP_NAME_BYTES - used, " + %s",
                 mmul_operation_row(fused->kind)->name);
    }
    return text;
}

int mmul_program_node_ranks(const struct mmul_program_plan *plan, int node, int *leader) {
    int count = 0;
    for (int rank = plan->costs.size - 1; rank >= 0; rank--) {
        if (plan->costs.rank_node[rank] != node)
            continue;
        *leader = rank;
        count++;
    }
    return count;
}

int mmul_program_joined_moves(const struct mmul_program_plan *plan, int index,
                              const struct mmul_program_step *moves[MMUL_FACTORS]) {
    const struct mmul_program_step *step = &plan->steps[index];
    for (int i = 0; i < step->joined_count; i++)
        moves[i] = &plan->steps[step->joined_moves[i]];
    return step->joined_count;
}

bool mmul_program_is_early(const struct mmul_program_plan *plan,
                           const struct mmul_program_step *step) {
    if (!plan->moves_early || step->kind != MMUL_STEP_MOVE || step->joined ||
        !(step->network_bytes > 0))
        return false;
    const enum mmul_placement_kind to = plan->places[step->result].placement.kind;
    return to != MMUL_PLACE_FILE && to != MMUL_PLACE_PARTIAL;
}

struct mmul_move mmul_program_step_move(const struct mmul_program_plan *plan,
                                        const struct mmul_program_step *step) {
    const struct mmul_program_place *from = &plan->places[step->operands[0]];
    return (struct mmul_move){.shape = plan->program->values[from->value].shape,
                              .from = from->placement,
                              .to = plan->places[step->result].placement,
                              .size = plan->costs.size,
                              .node_count = plan->costs.node_count,
                              .rank_node = plan->costs.rank_node};
}

// Spreads the nodes over the range along a row of the mesh, and along a column.
int mmul_program_plan_first_panel(const struct mmul_program_plan *plan, int node, int panels) {
    const struct mmul_mesh *mesh = &plan->costs.mesh;
    int rank = 0;
    while (plan->costs.rank_node[rank] != node)
        rank++;
    double place =
        (double)(rank / mesh->cols) / mesh->rows + (double)(rank % mesh->cols) / mesh->cols;
    return (int)(place * panels) % panels;
}

void mmul_program_plan_sum_costs(struct mmul_program_plan *plan) {
    plan->seconds = plan->network_bytes = 0;
    for (int i = 0; i < plan->step_count; i++) {
        plan->seconds += plan->steps[i].seconds;
        plan->network_bytes += plan->steps[i].network_bytes;
    }
}
