// SPDX-License-Identifier: MIT
// Plans a program on described machines: A and B are made in place as grids, and C = A B stays in
// place. Prints the plan, and as JSON its parts beside the formulas of plan/simulate/grid.h. Links
// the internals of the library and runs nothing.
//   grid_plan CLUSTER.json
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "plan/lists/program_plan.h"
#include "plan/program/program_make.h"
#include "plan/simulate/cluster_file.h"
#include "plan/simulate/grid.h"

static enum mmul_status make_program(const struct mmul_problem *problem,
                                     struct mmul_program **program, struct mmul_error *err) {
    const struct mmul_shape shapes[] = {{1, 1, problem->m, problem->k},
                                        {1, 1, problem->k, problem->n}};
    int placed[2];
    enum mmul_status status = mmul_program_create(program, err);
    for (int i = 0; status == MMUL_OK && i < 2; i++) {
        const struct mmul_operation make = {.kind = MMUL_GENERATE, .shape = shapes[i]};
        int made;
        status = mmul_program_append(*program, &make, i == 0 ? "A" : "B", &made, err);
        const struct mmul_operation place = {
            .kind = MMUL_PLACE, .operands = {made}, .requested_placement = MMUL_PLACE_GRID};
        if (status == MMUL_OK)
            status = mmul_program_append(*program, &place, i == 0 ? "A" : "B", &placed[i], err);
    }
    const struct mmul_operation multiply = {.kind = MMUL_MATMUL,
                                            .operands = {placed[0], placed[1]}};
    return status == MMUL_OK ? mmul_program_append(*program, &multiply, "C", NULL, err) : status;
}

static void print(const struct mmul_program_plan *plan, const struct mmul_grids *grids,
                  double plan_seconds) {
    double seconds = 0, most = 0;
    const struct mmul_mesh *mesh = &plan->costs.mesh;
    const struct mmul_program_step *last = &plan->steps[plan->step_count - 1];
    for (int i = 0; i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        if (step->operation == last->operation)
            seconds += step->seconds;
    }
    for (int node = 0; node < plan->costs.node_count; node++) {
        const struct mmul_mesh_node *n = &mesh->nodes[node];
        most = fmax(most, fmax(n->row_sends + n->col_sends, n->rows + n->cols - 2 * n->block));
    }
    static const struct mmul_rule grid = {{MMUL_PLACE_GRID_ROWS, MMUL_PLACE_GRID_COLS},
                                          MMUL_PLACE_GRID};
    double check = mmul_program_check_seconds(&plan->costs, plan->program,
                                              &plan->program->operations[last->operation], &grid);
    printf("{\"mesh\": [%d, %d], \"seconds\": %.6f, \"check_seconds\": %.6f, "
           "\"share_of_a_node\": %.6f, \"link_bytes_per_second\": %.6g, \"plan_seconds\": %.6f, "
           "\"formula\": {\"grid\": [%d, %d], \"seconds\": %.6f, \"bytes\": %.6g}}\n",
           mesh->rows, mesh->cols, seconds, check, most, plan->costs.bytes_per_second, plan_seconds,
           grids[1].in_place.rows, grids[1].in_place.cols, grids[1].in_place.seconds,
           grids[1].in_place.bytes);
}

static enum mmul_status plan_it(const char *path, struct mmul_error *err) {
    struct mmul_description *description = NULL;
    struct mmul_program *program = NULL;
    struct mmul_program_plan *plan = NULL;
    struct mmul_grids grids[MMUL_GRIDS];
    double *weights = NULL;
    json_t *value = NULL;
    enum mmul_status status = mmul_json_load(path, &value, err);
    if (status == MMUL_OK)
        status = mmul_description_create(value, path, &description, err);
    json_decref(value);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(weights, description->cluster->size, "weights", err);
    for (int rank = 0; status == MMUL_OK && rank < description->cluster->size; rank++)
        weights[rank] = description->cluster->ranks[rank].speed_flops;
    if (status == MMUL_OK)
        status = make_program(&description->problem, &program, err);
    double begin = mmul_clock_now();
    if (status == MMUL_OK)
        status = mmul_program_plan_make(
            &(struct mmul_program_request){.program = program,
                                           .cluster = description->cluster,
                                           .weights = weights,
                                           .options =
                                               &(struct mmul_job_options){.keeps_values = true}},
            &plan, err);
    double seconds = mmul_clock_now() - begin;
    if (status == MMUL_OK)
        status = mmul_grids(&description->problem, description->cluster, grids, err);
    if (status == MMUL_OK) {
        mmul_program_plan_print(plan, true, stderr);
        print(plan, grids, seconds);
    }
    mmul_program_plan_destroy(plan);
    mmul_program_destroy(program);
    mmul_free(weights);
    mmul_description_destroy(description);
    return status;
}

int main(int argc, char **argv) {
    struct mmul_error err = {.text = ""};
    if (argc != 2) {
        fprintf(stderr, "usage: grid_plan CLUSTER.json\n");
        return 64;
    }
    if (plan_it(argv[1], &err) == MMUL_OK)
        return 0;
    fprintf(stderr, "grid_plan: %s\n", err.text);
    return (int)err.status;
}
