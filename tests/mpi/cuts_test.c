// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// Every way to split a job, over several nodes: rounds, panels, panels of several matrices, few or
// many slots, a whole operand that stays or is sent again, and work stealing. Products equal naive
// loops element by element. Communicators split one machine into nodes, so that everything crosses
// MPI.
#include "api/problem_load.h"
#include "model/report.h"
#include "mpimatmul.h"
#include "nodes.h"
#include "plan/lists/program_plan.h"
#include "plan/lists/transfers.h"
#include "plan/parts/panels.h"
#include "plan/product/schedule_make.h"
#include "product.h"
#include "tap.h"

// ----------------------------------------------------------------------------------------- cuts

struct cut {
    const char *name;
    int64_t rounds, panel_units, panel_matrices; // 0: everything at once
    int64_t result_slots, whole_slots;           // 0: one per step
    double tail;                                 // fraction left to claims; 0: none
    int64_t root_whole_slots;                    // slots of the first node; 0: like the other nodes
};

static const struct cut cuts[] = {
    {"one round of one panel", 1, 0, 0, 0, 0, 0, 0},
    {"panels of 7", 1, 7, 1, 0, 0, 0, 0},
    {"panels of 1, one slot for results", 1, 1, 1, 1, 0, 0, 0},
    {"panels of two matrices", 1, 0, 2, 2, 0, 0, 0},
    {"three rounds", 3, 0, 0, 2, 0, 0, 0},
    {"three rounds, panels of 5", 3, 5, 1, 2, 0, 0, 0},
    {"two rounds, the whole operand comes again", 2, 5, 1, 2, 2, 0, 0},
    {"more rounds than rows, one slot of each", 40, 9, 1, 1, 1, 0, 0},
    {"claims, one panel", 1, 0, 0, 0, 0, 0.5, 0},
    {"claims, panels of 6", 1, 6, 1, 2, 0, 0.3, 0},
    {"claims, three rounds, panels of 5", 3, 5, 1, 2, 0, 0.9, 0},
    {"claims, panels of two matrices", 1, 0, 2, 2, 0, 0.9, 0},
    {"claims, the whole operand comes again", 2, 5, 1, 2, 2, 0.9, 0},
    {"claims, two slots of the whole operand at root", 1, 6, 1, 2, 0, 0.4, 2},
};

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void cut_node(struct mmul_schedule *schedule, int index, const struct cut *cut) {
    struct mmul_schedule_node *node =
        (struct mmul_schedule_node *)&mmul_schedule_nodes(schedule)[index];
    int64_t loads = 0, passes = mmul_schedule_passes(schedule);
    int64_t slots = index == 0 && cut->root_whole_slots > 0 && schedule->node_count > 1
                        ? cut->root_whole_slots
                        : cut->whole_slots;
    node->whole_stays = slots == 0;
    node->piece_lane_bytes = node->c_in_lane_bytes = 0;
    node->whole_slot_bytes = node->result_slot_bytes = 0;
    for (int64_t i = 0; i < passes; i++) {
        struct mmul_pass pass = mmul_schedule_pass(schedule, i);
        bool comes = mmul_schedule_loads(schedule, index, pass);
        loads += comes;
        if (comes)
            node->whole_slot_bytes =
                larger(node->whole_slot_bytes, mmul_schedule_panel_bytes(schedule, pass));
        node->result_slot_bytes =
            larger(node->result_slot_bytes,
                   mmul_content_bytes(schedule, MMUL_CONTENT_RESULT, index, pass));
        node->piece_lane_bytes = larger(
            node->piece_lane_bytes, mmul_content_bytes(schedule, MMUL_CONTENT_PIECES, index, pass));
        node->c_in_lane_bytes = larger(
            node->c_in_lane_bytes, mmul_content_bytes(schedule, MMUL_CONTENT_C_IN, index, pass));
    }
    node->piece_lanes = schedule->rounds > 1 ? 2 : 1;
    node->whole_slots = slots > 0 && loads > 0 ? slots : loads;
    node->result_slots = cut->result_slots > 0 ? cut->result_slots : passes;
    node->chain_place = index;
    node->claims = schedule->claim_share > 0;
    node->checks_whole = mmul_check_projects_whole(&schedule->problem, schedule->axis,
                                                   schedule->panel_units, schedule->rounds, false);
}

// Changes a schedule as if the plan had chosen this cut; the same on all ranks.
static void cut_plan(struct mmul_schedule *schedule, const struct cut *cut) {
    const struct mmul_problem *p = &schedule->problem;
    int64_t matrices = mmul_shape_matrices(mmul_problem_whole_shape(p, schedule->axis));
    int64_t units = mmul_problem_result_width(p, schedule->axis);
    schedule->rounds = cut->rounds;
    schedule->panel_units = cut->panel_units > 0 ? cut->panel_units : units;
    schedule->panel_matrices =
        cut->panel_matrices > 0 && cut->panel_matrices < matrices ? cut->panel_matrices : matrices;
    if (schedule->panel_matrices > 1)
        schedule->panel_units = units;
    schedule->chunk_bytes = 4096; // small, so that transfers have several chunks
    for (int i = 0; i < schedule->node_count; i++)
        cut_node(schedule, i, cut);
}

// Collective. Plans the job, then replaces the plan's schedule of the product by one with this cut.
static struct mmul_plan *make_plan(struct mmul_context *context, const struct job *job,
                                   const struct variant *v, const struct cut *cut,
                                   const double *weights) {
    struct mmul_problem problem = {0};
    struct mmul_plan *plan = NULL;
    struct mmul_schedule *schedule = NULL;
    struct mmul_error err = {.text = ""};
    if (mmul_plan_create(context, &job->args, &plan, &err) != MMUL_OK) {
        fprintf(stderr, "# %s\n", err.text);
        return NULL;
    }
    if (rank == 0)
        mmul_problem_load(&job->args, &problem, &err);
    MPI_Bcast(&problem, (int)sizeof problem, MPI_BYTE, 0, MPI_COMM_WORLD);
    const struct mmul_schedule_request request = {.problem = &problem,
                                                  .cluster = context->cluster,
                                                  .weights = weights,
                                                  .split = v->split,
                                                  .tail = cut->tail > 0 ? MMUL_TAIL_SHARE
                                                                        : MMUL_TAIL_OFF,
                                                  .tail_share = cut->tail};
    if (mmul_schedule_make(&request, &schedule, &err) != MMUL_OK) {
        fprintf(stderr, "# %s\n", err.text);
        return NULL;
    }
    cut_plan(schedule, cut);
    mmul_schedule_free(plan->job->steps[0].schedule);
    plan->schedule = plan->job->steps[0].schedule = schedule;
    return plan;
}

// Collective. Returns true if the product is right (root compares; other ranks return true if it
// ran). Root adds the number of claimed units to *claims.
static bool run_cut(struct mmul_context *context, const struct variant *v, const struct cut *cut,
                    const double *weights, int64_t *claims) {
    struct job job = {.args = {.transpose_a = v->transpose_a,
                               .transpose_b = v->transpose_b,
                               .alpha = v->alpha,
                               .beta = v->beta}};
    struct mmul_report *report = NULL;
    struct mmul_error err = {.text = ""};
    if (rank == 0)
        open_job(&job, v);
    struct mmul_plan *plan = make_plan(context, &job, v, cut, weights);
    bool right = plan != NULL && mmul_run(context, &job.args, plan, &report, &err) == MMUL_OK;
    if (rank == 0) {
        for (int i = 0; right && i < size; i++)
            *claims += report->ranks[i].claims;
        if (right)
            right = count_wrong(v, &job.a, &job.b, job.c_in.values, job.shape, job.c) == 0;
        if (!right)
            fprintf(stderr, "# m n k %lld %lld %lld, transposes %d %d, split %d: %s\n",
                    (long long)v->s.m, (long long)v->s.n, (long long)v->s.k, v->transpose_a,
                    v->transpose_b, (int)v->split, err.text);
        close_job(&job);
    }
    mmul_report_destroy(report);
    mmul_plan_destroy(plan);
    return right;
}

static const struct shapes shapes[] = {{1, 1, 1, 1, 37, 29, 53},
                                       {3, 2, 3, 2, 5, 7, 11},
                                       {1, 4, 3, 1, 13, 5, 3},
                                       {2, 1, 1, 1, 17, 19, 23},
                                       {1, 1, 5, 1, 3, 2, 9}};

// Tests two of the four transposes per call: those with the parity of `turn` + shape + split. Each
// shape and each split so meets all four in every cut. All three combined do in two successive
// cuts, and within one cut on two rank counts, one with 3 and one with 5 ranks.
static bool run_shapes(struct mmul_context *context, const struct cut *cut, int turn,
                       int64_t *claims) {
    static const double equal[] = {1, 1, 1, 1, 1}, uneven[] = {2, 0, 1, 3, 1};
    bool right = true;
    for (int i = 0; i < 5; i++)
        for (int split = MMUL_SPLIT_ROWS; split <= MMUL_SPLIT_COLS; split++)
            for (int transposes = (turn + i + split) % 2; transposes < 4; transposes += 2) {
                const struct variant v = {.s = shapes[i],
                                          .transpose_a = transposes & 1,
                                          .transpose_b = transposes & 2,
                                          .a_dtype = transposes == 2 ? MMUL_BF16 : MMUL_F32,
                                          .b_dtype = transposes == 1 ? MMUL_F16 : MMUL_F32,
                                          .alpha = transposes == 3 ? 3 : 1,
                                          .beta = transposes == 3 ? -2 : 0,
                                          .split = split};
                right = run_cut(context, &v, cut,
                                size > 1 && i % 2 && cut->root_whole_slots == 0 ? uneven : equal,
                                claims) &&
                        right;
            }
    return right;
}

int main(int argc, char **argv) {
    int provided;
    char what[96];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int nodes = 1; nodes <= size; nodes += size > 2 && nodes == 2 ? size - 2 : 1) {
        // The last rank may be slow, so that other ranks of its node steal its work.
        for (int slow = 0; slow < 2; slow++) {
            struct mmul_context *context = make_context(
                nodes, &(struct mmul_context_options){
                           .device = slow && rank == size - 1 ? "faulty:delay=500us:cpu" : "cpu"});
            for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
                int64_t claims = 0;
                if ((cuts[i].tail > 0) != slow)
                    continue;
                snprintf(what, sizeof what, "%d nodes: %s", nodes, cuts[i].name);
                tap_ok(run_shapes(context, &cuts[i], (int)i + size / 2, &claims), what);
                tap_ok(rank != 0 || (claims > 0) == (slow && nodes < size),
                       "lines are stolen if and only if a rank is slow");
            }
            mmul_context_destroy(context);
        }
    }
    int status = tap_end();
    MPI_Finalize();
    return status;
}
