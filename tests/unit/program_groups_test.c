// SPDX-License-Identifier: MIT
// Programs with values split between groups of rows, and programs without.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "clusters.h"
#include "plan/lists/program_plan.h"
#include "plan/program/program_make.h"
#include "schedules.h"
#include "sentences.h"

static struct mmul_program *new_program(void) {
    struct mmul_program *p;
    struct mmul_error err;
    assert_int_equal(mmul_program_create(&p, &err), MMUL_OK);
    return p;
}

static struct mmul_program_plan *make_plan(const struct mmul_program *p, int size, int per_node) {
    double weights[64];
    struct mmul_cluster *cluster = make_cluster(size, per_node);
    struct mmul_program_plan *plan = NULL;
    struct mmul_error err = {.text = ""};
    for (int rank = 0; rank < size; rank++)
        weights[rank] = 1;
    for (int rank = 0; rank < size; rank++)
        cluster->ranks[rank].speed_flops = 1e11;
    const struct mmul_program_request request = {
        .program = p, .cluster = cluster, .weights = weights};
    if (mmul_program_plan_make(&request, &plan, &err) != MMUL_OK)
        fail_msg("%s", err.text);
    mmul_cluster_destroy(cluster);
    return plan;
}

static bool is_file(const struct mmul_program_plan *plan, int place) {
    return plan->places[place].placement.kind == MMUL_PLACE_FILE;
}

// Returns true if a value is computed and depends on the words. Weights, which may be transposed,
// do not.
static bool is_of_words(const struct mmul_program *p, int value) {
    enum { WORD_IDS = 0 };
    bool is_of = false;
    for (int i = 0; i < p->operation_count; i++)
        for (int j = 0; p->operations[i].result == value && j < p->operations[i].operand_count; j++)
            is_of |= p->operations[i].operands[j] == WORD_IDS ||
                     is_of_words(p, p->operations[i].operands[j]);
    return is_of;
}

// In a sentence model only inputs, weights and the result move, for both ways to shape its values.
static void values_of_a_sentence_model_stay_in_their_groups(void **state) {
    (void)state;
    static const int sizes[][2] = {{2, 1}, {2, 2}, {3, 1}, {5, 2}, {8, 1}};
    for (int turn = 0; turn < 2; turn++) {
        struct mmul_program *p = new_program();
        struct mmul_error err;
        sentence_model(p, 1, turn == 1);
        assert_int_equal(mmul_program_fold_stacks(p, &err), MMUL_OK);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct mmul_program_plan *plan = make_plan(p, sizes[i][0], sizes[i][1]);
            for (int s = 0; s < plan->step_count; s++) {
                const struct mmul_program_step *step = &plan->steps[s];
                bool moves = step->kind == MMUL_STEP_MOVE &&
                             is_of_words(p, plan->places[step->result].value) &&
                             !is_file(plan, step->operands[0]) && !is_file(plan, step->result);
                const struct mmul_operation *o = &p->operations[step->operation];
                if (step->kind != MMUL_STEP_MOVE && o->kind == MMUL_MATMUL)
                    assert_int_equal(mmul_program_shape(p, o).rows, TEXTS * WORDS);
                if (moves || step->relays_whole)
                    fail_msg("%d ranks: step %d moves '%s'", sizes[i][0], s,
                             p->values[plan->places[step->result].value].name);
            }
            assert_int_equal(TEXTS % plan->costs.groups, 0);
            mmul_program_plan_destroy(plan);
        }
        mmul_program_destroy(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(values_of_a_sentence_model_stay_in_their_groups,
                                  assert_no_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
