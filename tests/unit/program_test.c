// SPDX-License-Identifier: MIT
// Programs: shapes that fit and shapes that do not. Plans: the cheapest rules, compared with an
// exhaustive search, and the printed plan of a chain of products.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clusters.h"
#include "model/gradient.h"
#include "model/matrix.h"
#include "model/program.h"
#include "plan/lists/program_plan.h"
#include "plan/program/program_make.h"
#include "schedules.h"

static int append(struct mmul_program *p, struct mmul_operation operation, const char *name) {
    struct mmul_error err;
    int value = -1;
    operation.operand_count = mmul_operation_row(operation.kind)->most;
    if (mmul_program_append(p, &operation, name, &value, &err) != MMUL_OK)
        fail_msg("%s", err.text);
    return value;
}

static int load(struct mmul_program *p, const char *name, struct mmul_shape shape) {
    return append(p, (struct mmul_operation){.kind = MMUL_LOAD, .shape = shape}, name);
}

static int apply(struct mmul_program *p, enum mmul_operation_kind kind, int x, int y) {
    return append(p, (struct mmul_operation){.kind = kind, .operands = {x, y}}, NULL);
}

static struct mmul_program *new_program(void) {
    struct mmul_program *p;
    struct mmul_error err;
    assert_int_equal(mmul_program_create(&p, &err), MMUL_OK);
    return p;
}

static void results_have_their_shapes(void **state) {
    (void)state;
    struct mmul_program *p = new_program();
    char text[96];
    int a = load(p, "A", (struct mmul_shape){1, 3, 4, 5});
    int b = load(p, "B", (struct mmul_shape){2, 1, 5, 6});
    int bias = load(p, "bias", (struct mmul_shape){1, 1, 1, 6});
    int c = apply(p, MMUL_MATMUL, a, b);
    int d = apply(p, MMUL_ADD, bias, c);
    int e = apply(p, MMUL_TRANSPOSE, d, 0);
    int f = apply(p, MMUL_RELU, e, 0);
    assert_string_equal(mmul_shape_format(p->values[c].shape, text), "2 x 3 x 4 x 6");
    assert_string_equal(mmul_shape_format(p->values[d].shape, text), "2 x 3 x 4 x 6");
    assert_string_equal(mmul_shape_format(p->values[f].shape, text), "2 x 3 x 6 x 4");
    assert_string_equal(p->values[f].name, "value 6");
    assert_int_equal(p->values[a].last_use, 3);
    assert_int_equal(p->values[f].last_use, 6);
    mmul_program_destroy(p);
}

struct refusal {
    enum mmul_operation_kind kind;
    int operands[2];
    const char *text;
};

static void mismatched_operands_are_refused(void **state) {
    (void)state;
    static const struct refusal cases[] = {
        {MMUL_MATMUL,
         {0, 1},
         "cannot multiply 'A.bin' (4096 x 1024) by 'B.bin' (2048 x 512): inner sizes 1024 and 2048 "
         "differ"},
        {MMUL_MATMUL,
         {2, 3},
         "cannot multiply 'S' (3 x 4 x 5) by 'T' (2 x 5 x 4): depths 3 and 2 differ"},
        {MMUL_ADD,
         {0, 1},
         "cannot add 'A.bin' (4096 x 1024) and 'B.bin' (2048 x 512): rows 4096 and 2048 differ"},
        {MMUL_ADD, {2, 3}, "cannot add 'S' (3 x 4 x 5) and 'T' (2 x 5 x 4): depths 3 and 2 differ"},
        {MMUL_RELU, {9, 0}, "cannot relu value 9: the program has 4 values"},
        {MMUL_SAVE, {-1, 0}, "cannot save value -1: the program has 4 values"},
        {MMUL_SAVE, {MMUL_NUMBER, 0}, "save takes values, not numbers"},
        {MMUL_ADD, {MMUL_NUMBER, MMUL_NUMBER}, "add takes values, not numbers"},
    };
    struct mmul_program *p = new_program();
    load(p, "A.bin", (struct mmul_shape){1, 1, 4096, 1024});
    load(p, "B.bin", (struct mmul_shape){1, 1, 2048, 512});
    load(p, "S", (struct mmul_shape){1, 3, 4, 5});
    load(p, "T", (struct mmul_shape){1, 2, 5, 4});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mmul_error err = {.text = ""};
        struct mmul_operation o = {.kind = cases[i].kind,
                                   .operand_count = mmul_operation_row(cases[i].kind)->most,
                                   .operands = {cases[i].operands[0], cases[i].operands[1]}};
        assert_int_not_equal(mmul_program_append(p, &o, NULL, NULL, &err), MMUL_OK);
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(p->value_count, 4);
        assert_int_equal(p->operation_count, 4);
    }
    mmul_program_destroy(p);
}

// The file of such an output would be committed twice.
static void an_output_of_two_values_is_refused(void **state) {
    (void)state;
    const struct mmul_shape shape = {1, 1, 2, 3};
    struct mmul_program *p = new_program();
    struct mmul_output *output = NULL;
    struct mmul_error err;
    float data[6];
    int a = load(p, "A", shape), b = apply(p, MMUL_RELU, a, 0);
    assert_int_equal(mmul_output_borrow(data, shape, MMUL_F32, &output, &err), MMUL_OK);
    assert_int_equal(mmul_program_save(p, a, output, &err), MMUL_OK);
    assert_int_equal(mmul_program_save(p, b, output, &err), MMUL_ERR_USAGE);
    assert_string_equal(err.text, "cannot save two values to one output");
    assert_int_equal(p->operation_count, 3);
    mmul_output_destroy(output);
    mmul_program_destroy(p);
}

static struct mmul_matrix *borrow(const float *data, int64_t rows, int64_t cols, const char *name) {
    struct mmul_matrix *matrix = NULL;
    struct mmul_error err;
    const struct mmul_shape shape = {1, 1, rows, cols};
    assert_int_equal(mmul_matrix_borrow(data, shape, MMUL_F32, name, &matrix, &err), MMUL_OK);
    return matrix;
}

static void a_product_of_files_is_added_as_a_whole_or_not_at_all(void **state) {
    (void)state;
    static const float data[15];
    struct mmul_program *p = new_program();
    struct mmul_matrix *two = borrow(data, 2, 2, "D"), *row = borrow(data, 1, 4, "C");
    struct mmul_matmul args = {.a = borrow(data, 5, 3, "A"),
                               .b = borrow(data, 4, 3, "B"),
                               .c_in = two,
                               .transpose_b = true,
                               .alpha = 2,
                               .beta = 3};
    struct mmul_error err;
    int value = -1;
    char text[96];
    assert_int_equal(mmul_program_product(p, &args, &value, &err), MMUL_ERR_DATA);
    assert_string_equal(err.text, "cannot add 'D' (2 x 2) to a result of 5 x 4: shapes differ");
    assert_true(p->operation_count == 0 && p->value_count == 0 && value == -1);
    args.c_in = row;
    assert_int_equal(mmul_program_product(p, &args, &value, &err), MMUL_OK);
    assert_string_equal(mmul_shape_format(p->values[value].shape, text), "5 x 4");
    assert_true(p->operation_count == 4 && p->values[value].dtype == MMUL_F32);
    assert_int_equal(mmul_program_save(p, value, NULL, &err), MMUL_OK); // for a plan alone
    args.beta = 0;                                                      // C_in is not read
    assert_int_equal(mmul_program_product(p, &args, &value, &err), MMUL_OK);
    assert_int_equal(p->operation_count, 8);
    mmul_matrix_close(args.a);
    mmul_matrix_close(args.b);
    mmul_matrix_close(two);
    mmul_matrix_close(row);
    mmul_program_destroy(p);
}

// ---------------------------------------------------------------------------------------- plans

static struct mmul_program_plan *make_plan(const struct mmul_program *p,
                                           const struct mmul_cluster *cluster, bool keeps_values) {
    double weights[8];
    struct mmul_program_plan *plan = NULL;
    struct mmul_error err = {.text = ""};
    for (int r = 0; r < cluster->size; r++)
        weights[r] = cluster->ranks[r].speed_flops > 0 ? cluster->ranks[r].speed_flops : 1;
    const struct mmul_job_options options = {.keeps_values = keeps_values};
    const struct mmul_program_request request = {
        .program = p, .cluster = cluster, .weights = weights, .options = &options};
    if (mmul_program_plan_make(&request, &plan, &err) != MMUL_OK)
        fail_msg("%s", err.text);
    return plan;
}

// Returns the least seconds of operations [index, ...) by trying every rule of each.
static double try_all(const struct mmul_program *p, const struct mmul_program_costs *costs,
                      int index, const unsigned *have) {
    if (index == p->operation_count)
        return 0;
    const struct mmul_operation *o = &p->operations[index];
    const struct mmul_operation_row *row = mmul_operation_row(o->kind);
    struct mmul_operand_info operands[MMUL_OPERANDS];
    double best = INFINITY;
    const struct mmul_operation_call call = mmul_program_describe_call(p, o, operands);
    for (int i = 0; i < row->rule_count; i++) {
        const struct mmul_rule *rule = &row->rules[i];
        unsigned now[32];
        memcpy(now, have, sizeof now);
        if ((o->kind == MMUL_PLACE && rule->result != o->requested_placement) ||
            !mmul_rule_fits(o->kind, rule, &call, mmul_program_shape(p, o), costs->groups))
            continue;
        double seconds = mmul_program_operation_seconds(costs, p, o, rule);
        bool joined[MMUL_FACTORS] = {false};
        for (int j = 0; j < o->operand_count; j++) {
            int v = o->operands[j];
            if (o->kind != MMUL_SAVE && (now[v] >> rule->operands[j] & 1))
                continue;
            struct mmul_program_path path =
                mmul_program_find_path(costs, &p->values[v], now[v], rule->operands[j]);
            seconds += path.seconds;
            joined[j] =
                path.by == path.from && mmul_program_is_joined_move(path.from, rule->operands[j]);
            now[v] |= o->kind != MMUL_SAVE ? 1U << rule->operands[j] : 0;
            now[v] |= 1U << path.by;
        }
        seconds -= mmul_program_overlap_saving(costs, p, o, rule, joined);
        if (o->result >= 0)
            now[o->result] = 1U << rule->result;
        best = fmin(best, seconds + try_all(p, costs, index + 1, now));
    }
    return best;
}

static void the_plan_is_the_cheapest_of_all_combinations(void **state) {
    (void)state;
    static const enum mmul_operation_kind kinds[] = {MMUL_MATMUL, MMUL_ADD, MMUL_RELU,
                                                     MMUL_TRANSPOSE, MMUL_MATMUL};
    unsigned maps[8];
    uint64_t seed = 5;
    for (int round = 0; round < 60; round++) {
        struct mmul_cluster *cluster =
            make_measured_cluster(2 + round % 4, 1 + round % 3 / 2, maps);
        struct mmul_program *p = new_program();
        const int64_t side = 1 << (4 + 2 * (round % 5));
        load(p, "X", (struct mmul_shape){1, 1, side, side});
        load(p, "Y", (struct mmul_shape){1, 1, side, side});
        for (int i = 0; i < 5; i++) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            apply(p, kinds[seed >> 40 & 3], (int)(seed >> 50 & 7) % p->value_count,
                  (int)(seed >> 55 & 7) % p->value_count);
        }
        apply(p, MMUL_SAVE, p->value_count - 1, 0);
        struct mmul_program_plan *plan = make_plan(p, cluster, true);
        const unsigned nothing[32] = {0};
        double least = try_all(p, &plan->costs, 0, nothing);
        if (fabs(plan->seconds - least) > 1e-9 * least)
            fail_msg("round %d: %.9g s, the least is %.9g", round, plan->seconds, least);
        mmul_program_plan_destroy(plan);
        mmul_program_destroy(p);
        mmul_cluster_destroy(cluster);
    }
}

// A product that loads its files itself overlaps the transfer of panels with computing. An addition
// after it must not turn it into a grid, since operands of a grid move first.
static void a_product_overlaps_its_file_transfers(void **state) {
    (void)state;
    unsigned maps[8];
    const int64_t side = 4096;
    struct mmul_cluster *cluster = make_measured_cluster(2, 1, maps);
    for (int rank = 0; rank < 2; rank++)
        cluster->ranks[rank].speed_flops = 1e11;
    for (int node = 0; node < 2; node++)
        cluster->nodes[node].root_link.bytes_per_second = 1.25e8;
    struct mmul_program *p = new_program();
    load(p, "X", (struct mmul_shape){1, 1, side, side});
    load(p, "W", (struct mmul_shape){1, 1, side, side});
    load(p, "b", (struct mmul_shape){1, 1, 1, side});
    apply(p, MMUL_MATMUL, 0, 1);
    apply(p, MMUL_ADD, 3, 2);
    apply(p, MMUL_SAVE, 4, 0);
    struct mmul_program_plan *plan = make_plan(p, cluster, false);
    const struct mmul_program_costs *costs = &plan->costs;
    const struct mmul_program_step *product = &plan->steps[0];
    const struct mmul_rule *rule = &mmul_operation_row(MMUL_MATMUL)->rules[0];
    const enum mmul_placement_kind from = MMUL_PLACE_FILE, split = MMUL_PLACE_ROWS,
                                   whole = MMUL_PLACE_REPLICATE;
    assert_true(rule->result == split && rule->operands[0] == split && rule->operands[1] == whole);
    while (product->kind == MMUL_STEP_MOVE)
        product++;
    assert_int_equal(product->kind, MMUL_STEP_UNSCHEDULED);
    double ignored;
    double moves = mmul_program_move_seconds(costs, &p->values[0], from, split, &ignored) +
                   mmul_program_move_seconds(costs, &p->values[1], from, whole, &ignored);
    const struct mmul_operation *o = &p->operations[product->operation];
    double check = mmul_program_check_seconds(costs, p, o, rule);
    double multiply = mmul_program_operation_seconds(costs, p, o, rule) - check;
    const struct mmul_rule *sum = mmul_operation_row(MMUL_ADD)->rules; // fused to the product
    while (sum->result != split)
        sum++;
    double together = fmax(moves, multiply) + fmin(moves, multiply) / 16 + check +
                      mmul_program_operation_seconds(costs, p, o + 1, sum);
    if (fabs(product->seconds - together) > 1e-9 * together)
        fail_msg("%.9g s, expected %.9g", product->seconds, together);
    mmul_program_plan_destroy(plan);
    mmul_program_destroy(p);
    mmul_cluster_destroy(cluster);
}

// Compares the plan on two nodes with `expected`. If the plan keeps its values, compares the
// program as well, which is then destroyed.
static void check_text(struct mmul_program *p, bool keeps_values, bool verbose,
                       const char *expected) {
    unsigned maps[8];
    char *text = NULL;
    size_t length;
    struct mmul_cluster *cluster = make_measured_cluster(2, 1, maps);
    struct mmul_program_plan *plan = make_plan(p, cluster, keeps_values);
    FILE *stream = open_memstream(&text, &length);
    mmul_program_plan_print(plan, verbose, stream);
    if (keeps_values)
        mmul_program_print(p, verbose, stream);
    fclose(stream);
    assert_string_equal(text, expected);
    free(text);
    mmul_program_plan_destroy(plan);
    mmul_program_destroy(p);
    mmul_cluster_destroy(cluster);
}

static void a_chain_is_printed(void **state) {
    (void)state;
    static const char expected[] =
        "step  operation  value    from                       placement          network   se"
        "conds     memory\n"
        "   1  move       X        X file                     rows 0 7447 8192   5.8 MiB  0.1"
        "02594   58.2 MiB\n"
        "   2  move       W        W file                     replicate         16.0 MiB  0.0"
        "38688   74.2 MiB\n"
        "   3  matmul     value 3  X rows, W replicate        rows 0 7447 8192       0 B  0.3"
        "47060  132.4 MiB\n"
        "   4  move       b        b file                     replicate          8.0 KiB  0.0"
        "00119  132.4 MiB\n"
        "   5  add        value 4  value 3 rows, b replicate  rows 0 7447 8192       0 B  0.0"
        "12202  190.5 MiB\n"
        "   6  relu       value 5  value 4 rows               rows 0 7447 8192       0 B  0.0"
        "12202  248.7 MiB\n"
        "   7  matmul     value 6  value 5 rows, W replicate  rows 0 7447 8192       0 B  0.3"
        "47060  306.9 MiB\n"
        "   8  add        value 7  value 6 rows, b replicate  rows 0 7447 8192       0 B  0.0"
        "12202  365.1 MiB\n"
        "   9  relu       value 8  value 7 rows               rows 0 7447 8192       0 B  0.0"
        "12202  423.3 MiB\n"
        "  10  move       value 8  value 8 rows               file               5.8 MiB  0.1"
        "05644  423.3 MiB\n"
        "\n"
        "rank  host  device     memory  in step  device memory  in step\n"
        "   0                423.3 MiB        9  -              -\n"
        "   1                 56.8 MiB        9  -              -\n"
        "\n"
        "2 ranks on 2 nodes: 27.6 MiB over the network,\nvalues take at most 423.3 MiB"
        " per node, predicted 0.990 s\n"
        "value    operation  operands    shape\n"
        "X        load                   8192 x 2048\n"
        "W        load                   2048 x 2048\n"
        "b        load                   1 x 2048\n"
        "value 3  matmul     X, W        8192 x 2048\n"
        "value 4  add        value 3, b  8192 x 2048\n"
        "value 5  relu       value 4     8192 x 2048\n"
        "value 6  matmul     value 5, W  8192 x 2048\n"
        "value 7  add        value 6, b  8192 x 2048\n"
        "value 8  relu       value 7     8192 x 2048\n"
        "-        save       value 8     8192 x 2048\n";
    struct mmul_program *p = new_program();
    int x = load(p, "X", (struct mmul_shape){1, 1, 8192, 2048});
    int w = load(p, "W", (struct mmul_shape){1, 1, 2048, 2048});
    int b = load(p, "b", (struct mmul_shape){1, 1, 1, 2048});
    for (int i = 0; i < 2; i++)
        x = apply(p, MMUL_RELU, apply(p, MMUL_ADD, apply(p, MMUL_MATMUL, x, w), b), 0);
    apply(p, MMUL_SAVE, x, 0);
    check_text(p, true, true, expected);
}

// Repeated steps of a loop are printed once, with bytes and seconds of all of them.
static void a_loop_is_printed_once(void **state) {
    (void)state;
    static const char expected[] =
        "step  operation          value     from                 placement          network   sec"
        "onds     memory\n1     move               X         X file               rows 0 7447 819"
        "2   5.8 MiB  0.102594   58.2 MiB\n2     move               W         W file             "
        "  replicate         16.0 MiB  0.038688   74.2 MiB\n3-12  x 5, sums of all:\n3       matm"
        "ul           value 2   X rows, W replicate  rows 0 7447 8192       0 B  1.735298  597.8 "
        "MiB\n4       relu             value 3   value 2 rows         rows 0 7447 8192       0 B "
        " 0.061008  656.0 MiB\n13    move               value 11  value 11 rows        file      "
        "         5.8 MiB  0.105644  656.0 MiB\n\nrank  host  device     memory  in step  device "
        "memory  in step\n   0                656.0 MiB       12  -              -\n   1         "
        "        80.0 MiB       12  -              -\n\n2 ranks on 2 nodes: 27.6 MiB over the net"
        "work,\nvalues take at most 656.0 MiB per node, predicted 2.043 s\nvalue      operation "
        " operands  shape\nX          load                 8192 x 2048\nW          load          "
        "       2048 x 2048\nx 5:\n  value 2  matmul     X, W      8192 x 2048\n  value 3  relu  "
        "     value 2   8192 x 2048\n-          save       value 11  8192 x 2048\n";
    struct mmul_program *p = new_program();
    int x = load(p, "X", (struct mmul_shape){1, 1, 8192, 2048});
    int w = load(p, "W", (struct mmul_shape){1, 1, 2048, 2048});
    for (int i = 0; i < 5; i++)
        x = apply(p, MMUL_RELU, apply(p, MMUL_MATMUL, x, w), 0);
    apply(p, MMUL_SAVE, x, 0);
    check_text(p, true, false, expected);
}

// A product also loads a file transposed, unless another step reads it, too.
static void a_product_loads_transposed_files_with_one_reader(void **state) {
    (void)state;
    static const char expected[] =
        "step  operation  value     from                                  placement          "
        "network   seconds     memory\n"
        "   1  matmul     value 5   X file transposed, V file transposed  rows 0 7447 8192  2"
        "1.8 MiB  0.364720   58.2 MiB\n"
        "   2  matmul     value 9   value 5 rows, U file                  rows 0 7447 8192  1"
        "6.0 MiB  0.351896  116.4 MiB\n"
        "   3  move       W         W file                                replicate         1"
        "6.0 MiB  0.038688   74.2 MiB\n"
        "   4  matmul     value 11  value 9 rows, value 10 replicate      rows 0 7447 8192   "
        "    0 B  0.347060  132.4 MiB\n"
        "   5  matmul     value 12  value 11 rows, W replicate            file               "
        "5.8 MiB  0.452704   74.2 MiB\n"
        "\n"
        "rank  host  device     memory  in step  device memory  in step\n"
        "   0                132.4 MiB        4  -              -\n"
        "   1                 27.6 MiB        4  -              -\n"
        "\n"
        "2 ranks on 2 nodes: 59.6 MiB over the network,\nvalues take at most 132.4 MiB"
        " per node, predicted 1.555 s\n";
    struct mmul_program *p = new_program();
    const struct mmul_shape square = {1, 1, 2048, 2048};
    int x = load(p, "X", (struct mmul_shape){1, 1, 2048, 8192});
    int v = load(p, "V", square), w = load(p, "W", square), transposed;
    x = apply(p, MMUL_MATMUL, apply(p, MMUL_TRANSPOSE, x, 0), apply(p, MMUL_TRANSPOSE, v, 0));
    transposed = apply(p, MMUL_TRANSPOSE, apply(p, MMUL_TRANSPOSE, load(p, "U", square), 0), 0);
    x = apply(p, MMUL_MATMUL, x, transposed);
    x = apply(p, MMUL_MATMUL, x, apply(p, MMUL_TRANSPOSE, w, 0));
    apply(p, MMUL_SAVE, apply(p, MMUL_MATMUL, x, w), 0);
    check_text(p, false, true, expected);
}

// A product loads values that no other step reads, and writes saved results at once. W has two
// readers, so it is loaded before. A value read by relu alone is never stored. Rows of a whole
// operand come from the ranks that have them.
static void a_product_loads_files_with_one_reader(void **state) {
    (void)state;
    static const char expected[] =
        "step  operation      value     from                         placement          n"
        "etwork   seconds     memory\n"
        "   1  matmul         value 3   X file, V file               rows 0 7447 8192  21"
        ".8 MiB  0.364720   58.2 MiB\n"
        "   2  move           W         W file                       replicate         16"
        ".0 MiB  0.038688   74.2 MiB\n"
        "   3  matmul         value 4   value 3 rows, W replicate    rows 0 7447 8192    "
        "   0 B  0.347060  132.4 MiB\n"
        "   4  matmul + relu  value 6   value 4 rows, W replicate    rows 0 7447 8192    "
        "   0 B  0.359261  132.4 MiB\n"
        "   5  move           value 6   value 6 rows                 file               5"
        ".8 MiB  0.105644  116.4 MiB\n"
        "   6  matmul         value 8   value 4 rows, U file         file              21"
        ".8 MiB  0.457539   58.2 MiB\n"
        "   7  move           S         S file                       rows 0 1862 2048   1"
        ".5 MiB  0.025723   72.7 MiB\n"
        "   8  matmul         value 11  value 4 rows, value 10 rows  rows 0 7447 8192  16"
        ".0 MiB  0.367750  130.9 MiB\n"
        "\n"
        "rank  host  device     memory  in step  device memory  in step\n"
        "   0                132.4 MiB        3  -              -\n"
        "   1                 27.6 MiB        3  -              -\n"
        "\n"
        "2 ranks on 2 nodes: 82.9 MiB over the network,\nvalues take at most 190.5 MiB"
        " per node, predicted 2.066 s\n";
    struct mmul_program *p = new_program();
    const struct mmul_shape square = {1, 1, 2048, 2048};
    int x = load(p, "X", (struct mmul_shape){1, 1, 8192, 2048}), v = load(p, "V", square);
    int w = load(p, "W", square);
    x = apply(p, MMUL_MATMUL, apply(p, MMUL_MATMUL, x, v), w);
    apply(p, MMUL_SAVE, apply(p, MMUL_RELU, apply(p, MMUL_MATMUL, x, w), 0), 0);
    apply(p, MMUL_SAVE, apply(p, MMUL_MATMUL, x, load(p, "U", square)), 0);
    int s = append(p,
                   (struct mmul_operation){.kind = MMUL_PLACE,
                                           .operands = {load(p, "S", square)},
                                           .requested_placement = MMUL_PLACE_ROWS},
                   NULL);
    apply(p, MMUL_MATMUL, x, s);
    check_text(p, false, true, expected);
}

static int64_t bytes_of_loop(int turns, bool keeps_values) {
    unsigned maps[8];
    struct mmul_cluster *cluster = make_measured_cluster(2, 2, maps);
    struct mmul_program *p = new_program();
    int x = load(p, "X", (struct mmul_shape){1, 1, 4096, 1024});
    int w = load(p, "W", (struct mmul_shape){1, 1, 1024, 1024});
    for (int i = 0; i < turns; i++)
        x = apply(p, MMUL_RELU, apply(p, MMUL_MATMUL, x, w), 0);
    struct mmul_program_plan *plan = make_plan(p, cluster, keeps_values);
    int64_t bytes = plan->node_bytes_most;
    mmul_program_plan_destroy(plan);
    mmul_program_destroy(p);
    mmul_cluster_destroy(cluster);
    return bytes;
}

// Memory of values is reused after their last read, unless all values are kept.
static void a_longer_loop_needs_no_more_memory(void **state) {
    (void)state;
    assert_int_equal(bytes_of_loop(20, false), bytes_of_loop(4, false));
    assert_true(bytes_of_loop(20, true) > 5 * bytes_of_loop(20, false));
}

static int place(struct mmul_program *p, int x, enum mmul_placement_kind requested_placement) {
    return append(p,
                  (struct mmul_operation){.kind = MMUL_PLACE,
                                          .operands = {x},
                                          .requested_placement = requested_placement},
                  NULL);
}

static int index_of_move(const struct mmul_program_plan *plan, int value) {
    for (int i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind == MMUL_STEP_MOVE &&
            plan->places[plan->steps[i].result].value == value)
            return i;
    fail_msg("value %d is not moved", value);
    return -1;
}

static int stage_of(const struct mmul_program_plan *plan, int value) {
    for (int i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind != MMUL_STEP_MOVE &&
            plan->places[plan->steps[i].result].value == value)
            return plan->steps[i].stage;
    fail_msg("value %d is not made", value);
    return -1;
}

struct early_case {
    bool late;
    int nodes;
    bool is_early; // begins early
};

// Partial sums of two nodes are added up right after their producer, although the reader of the sum
// runs last. The whole operand of the last product is in flight even before. Memory of moving data
// is not reused until they have arrived.
static void moves_between_nodes_begin_early(void **state) {
    (void)state;
    static const struct early_case cases[] = {
        {false, 2, true}, {true, 2, false}, {false, 1, false}};
    const double weights[] = {1, 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned maps[8];
        struct mmul_program_plan *plan = NULL;
        struct mmul_error err;
        struct mmul_cluster *cluster = make_measured_cluster(2, 2 / cases[i].nodes, maps);
        struct mmul_program *p = new_program();
        const struct mmul_shape long_shape = {1, 1, 4096, 512}, square = {1, 1, 512, 512};
        int x = place(p, load(p, "X", long_shape), MMUL_PLACE_ROWS);
        int w = place(p, load(p, "W", square), MMUL_PLACE_REPLICATE);
        int transposed = apply(p, MMUL_TRANSPOSE, x, 0);
        int sum = apply(p, MMUL_MATMUL, transposed, x);
        int parts = place(p, sum, MMUL_PLACE_PARTIAL);
        int y = x;
        for (int turn = 0; turn < 6; turn++)
            y = apply(p, MMUL_MATMUL, y, w);
        int last = apply(p, MMUL_EXP, place(p, parts, MMUL_PLACE_ROWS), 0);
        const struct mmul_program_request request = {
            .program = p, .cluster = cluster, .weights = weights, .moves_late = cases[i].late};
        if (mmul_program_plan_make(&request, &plan, &err) != MMUL_OK)
            fail_msg("%s", err.text);
        const int index = index_of_move(plan, parts);
        const struct mmul_program_step *move = &plan->steps[index];
        const struct mmul_program_place *from = &plan->places[move->operands[0]];
        assert_int_equal(from->placement.kind, MMUL_PLACE_PARTIAL);
        assert_int_equal(plan->places[move->result].placement.kind, MMUL_PLACE_ROWS);
        assert_int_equal(plan->moves_early, cases[i].is_early);
        if (cases[i].is_early) {
            assert_int_equal(move->stage, stage_of(plan, sum) + 1);
            assert_int_equal(move->due, stage_of(plan, last));
            assert_true(move->due > stage_of(plan, y));
        } else {
            assert_true(move->stage > stage_of(plan, y));
            assert_int_equal(move->due, move->stage + 1);
        }
        assert_int_equal(plan->places[mmul_program_base_place(plan, move->operands[0])].last_stage,
                         move->due - 1);
        mmul_program_plan_destroy(plan);
        mmul_program_destroy(p);
        mmul_cluster_destroy(cluster);
    }
}

struct sum_case {
    int nodes;
    struct mmul_shape shape;
    enum mmul_placement_kind by; // partial: directly
};

// Summands that every node needs whole: each node sends its summand to all others, or the nodes add
// up a part each and then send it to all others. The first of these sends more bytes, except
// between two nodes, but waits fewer times. Rows split a value only if there are enough.
static void sums_for_all_nodes_take_the_shorter_path(void **state) {
    (void)state;
    const struct mmul_shape square = {1, 1, 1024, 1024}, wide = {1, 1, 1, 1 << 20},
                            stack = {2, 2, 1, 1 << 18}, small = {1, 1, 8, 8};
    const struct sum_case cases[] = {
        {2, square, MMUL_PLACE_PARTIAL}, {3, square, MMUL_PLACE_ROWS},
        {4, square, MMUL_PLACE_ROWS},    {4, small, MMUL_PLACE_PARTIAL},
        {2, wide, MMUL_PLACE_PARTIAL},   {3, wide, MMUL_PLACE_COLS},
        {4, wide, MMUL_PLACE_COLS},      {4, stack, MMUL_PLACE_ROWS},
        {5, stack, MMUL_PLACE_COLS}};
    const double weights[] = {1, 1, 1, 1, 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sum_case *c = &cases[i];
        const int nodes = c->nodes;
        unsigned maps[8];
        struct mmul_program_plan *plan = NULL;
        struct mmul_error err;
        struct mmul_cluster *cluster = make_measured_cluster(nodes, 1, maps);
        for (int node = 0; node < nodes; node++)
            cluster->nodes[node].root_link.bytes_per_second = 1.2e8;
        struct mmul_program *p = new_program();
        const int parts = place(p, load(p, "X", c->shape), MMUL_PLACE_PARTIAL);
        const int whole = place(p, parts, MMUL_PLACE_REPLICATE);
        const struct mmul_program_request request = {
            .program = p, .cluster = cluster, .weights = weights};
        if (mmul_program_plan_make(&request, &plan, &err) != MMUL_OK)
            fail_msg("%s", err.text);
        const double bytes = mmul_shape_data_bytes(c->shape, MMUL_F32);
        double sent = 0;
        const struct mmul_program_step *last = NULL;
        for (int s = 0; s < plan->step_count; s++) {
            const struct mmul_program_step *step = &plan->steps[s];
            if (step->kind != MMUL_STEP_MOVE || mmul_place_is_file(plan, step->operands[0]))
                continue;
            sent += step->network_bytes;
            last = step;
        }
        assert_non_null(last);
        assert_int_equal(plan->places[last->result].placement.kind, MMUL_PLACE_REPLICATE);
        if (plan->places[last->operands[0]].placement.kind != c->by)
            fail_msg("case %zu (value %d): by way of %s", i, whole,
                     mmul_placement_name(plan->places[last->operands[0]].placement.kind));
        const double each = c->by == MMUL_PLACE_PARTIAL ? nodes : 2;
        assert_true(fabs(sent - each * (nodes - 1) * bytes) < 1);
        mmul_program_plan_destroy(plan);
        mmul_program_destroy(p);
        mmul_cluster_destroy(cluster);
    }
}

static void a_placement_without_a_rule_is_refused(void **state) {
    (void)state;
    unsigned maps[8];
    struct mmul_program_plan *plan = NULL;
    struct mmul_error err;
    const double weights[] = {1, 1};
    struct mmul_cluster *cluster = make_measured_cluster(2, 1, maps);
    struct mmul_program *p = new_program();
    const struct mmul_program_request request = {
        .program = p, .cluster = cluster, .weights = weights};
    assert_int_equal(mmul_program_plan_make(&request, &plan, &err), MMUL_ERR_USAGE);
    assert_string_equal(err.text, "the program has no operations");
    int x = load(p, "X", (struct mmul_shape){1, 1, 4, 4});
    append(p,
           (struct mmul_operation){
               .kind = MMUL_PLACE, .operands = {x}, .requested_placement = MMUL_PLACE_FILE},
           NULL);
    assert_int_equal(mmul_program_plan_make(&request, &plan, &err), MMUL_ERR_USAGE);
    assert_string_equal(err.text,
                        "cannot give 'X' the placement 'file': no rule of the operation allows it");
    mmul_program_destroy(p);
    mmul_cluster_destroy(cluster);
}

// If speeds were not measured, the given weights count: a mesh of equal ranks would not be faster
// then.
static void given_weights_count_without_measured_speeds(void **state) {
    (void)state;
    struct mmul_program_plan *plan = NULL;
    struct mmul_error err;
    const double weights[] = {64, 36};
    struct mmul_cluster *cluster = make_cluster(2, 1);
    struct mmul_program *p = new_program();
    const struct mmul_program_request request = {
        .program = p, .cluster = cluster, .weights = weights};
    int x = load(p, "X", (struct mmul_shape){1, 1, 8192, 2048});
    for (int i = 0; i < 4; i++)
        x = apply(p, MMUL_MATMUL, x, load(p, "W", (struct mmul_shape){1, 1, 2048, 2048}));
    assert_int_equal(mmul_program_plan_make(&request, &plan, &err), MMUL_OK);
    for (int i = 0; i < plan->place_count; i++)
        assert_int_not_equal(plan->places[i].placement.kind, MMUL_PLACE_GRID);
    mmul_program_plan_destroy(plan);
    mmul_program_destroy(p);
    mmul_cluster_destroy(cluster);
}

// Results of devices that other ranks use are checked: finds rows of the table that lack an
// accuracy.
static void every_operation_has_an_accuracy(void **state) {
    (void)state;
    for (int kind = 0; kind < MMUL_OPERATION_KINDS; kind++) {
        const struct mmul_operation_row *row = mmul_operation_row((enum mmul_operation_kind)kind);
        if ((row->class == MMUL_CLASS_OWN) != (row->accuracy == MMUL_UNCHECKED))
            fail_msg("%s", row->name);
    }
}

// Checks each operation's placement of operands against its row of the table.
static void operands_by_row_come_first(void **state) {
    (void)state;
    for (int kind = 0; kind < MMUL_OPERATION_KINDS; kind++) {
        const struct mmul_operation_row *row = mmul_operation_row((enum mmul_operation_kind)kind);
        const bool is_by_row = row->class == MMUL_CLASS_ROWS;
        if (is_by_row != (row->by_row > 0) || row->by_row > row->least ||
            row->indices > row->most || (is_by_row && row->indices > row->by_row) ||
            (row->picks && !is_by_row))
            fail_msg("%s", row->name);
    }
}

// Operands by rows and operands needed whole: a part of the result reads no other rows of the first
// kind.
static void matching_rows_of_operands_stay_together(void **state) {
    (void)state;
    const struct mmul_parameters with = {.axis = -2, .count = 5};
    const struct mmul_operand_info stack = {.shape = {2, 3, 4, 6}},
                                   operands[] = {stack, stack, stack, stack};
    for (int kind = 0; kind < MMUL_OPERATION_KINDS; kind++) {
        const struct mmul_operation_row *row = mmul_operation_row((enum mmul_operation_kind)kind);
        const struct mmul_operation_call call = {operands, row->most, &with};
        for (int i = 0; row->class == MMUL_CLASS_ROWS && i < row->most; i++)
            if (mmul_operation_row_groups((enum mmul_operation_kind)kind, &call, i, stack.shape) !=
                (i < row->by_row ? MMUL_ROW_BY_ROW : 1))
                fail_msg("%s, operand %d", row->name, i);
    }
}

// Indices are split like the rows they refer to, which gives partial sums; columns are whole.
static void sums_by_an_index_give_partial_sums(void **state) {
    (void)state;
    const struct mmul_parameters with = {.axis = -2, .count = 5};
    const struct mmul_operand_info operands[] = {{.shape = {1, 1, 7, 6}}, {.shape = {1, 1, 7, 1}}};
    const struct mmul_operation_call call = {operands, 2, &with};
    const struct mmul_operation_row *row = mmul_operation_row(MMUL_SUM_AT);
    assert_true(row->rules[0].operands[0] == MMUL_PLACE_ROWS &&
                row->rules[0].operands[1] == MMUL_PLACE_ROWS &&
                row->rules[0].result == MMUL_PLACE_PARTIAL);
    for (int i = 0; i < row->rule_count; i++)
        assert_true(
            mmul_rule_fits(MMUL_SUM_AT, &row->rules[i], &call, (struct mmul_shape){1, 1, 5, 6}, 1));
}

// Finds rows of the table without a decision about the gradient.
static bool has_no_gradient(enum mmul_operation_kind kind) {
    switch (kind) {
    case MMUL_LOAD:
    case MMUL_GENERATE:
    case MMUL_SAVE:
    case MMUL_LOAD_PERSISTENT:
    case MMUL_SAVE_PERSISTENT:
    case MMUL_FLOOR_DIVIDE:
    case MMUL_FLOOR:
    case MMUL_ROUND:
    case MMUL_ARGMAX:
    case MMUL_ARGMIN:
    case MMUL_ARGSORT:
    case MMUL_ONE_HOT:
    case MMUL_FUSED_TOPK:
    case MMUL_CAST:
        return true;
    default:
        return kind >= MMUL_EQUAL && kind <= MMUL_GREATER_EQUAL;
    }
}

static void every_operation_has_a_gradient_or_says_why_not(void **state) {
    (void)state;
    for (int kind = 0; kind < MMUL_OPERATION_KINDS; kind++) {
        const char *reason = "unset";
        const bool has_rule =
            mmul_gradient_rule_of((enum mmul_operation_kind)kind, &reason) != NULL;
        if ((has_rule || reason != NULL) == has_no_gradient((enum mmul_operation_kind)kind) ||
            (has_rule && reason != NULL))
            fail_msg("%s", mmul_operation_row((enum mmul_operation_kind)kind)->name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(results_have_their_shapes, assert_no_live_bytes),
        cmocka_unit_test_teardown(mismatched_operands_are_refused, assert_no_live_bytes),
        cmocka_unit_test_teardown(an_output_of_two_values_is_refused, assert_no_live_bytes),
        cmocka_unit_test_teardown(a_product_of_files_is_added_as_a_whole_or_not_at_all,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(the_plan_is_the_cheapest_of_all_combinations,
                                  assert_no_live_bytes),
        cmocka_unit_test(every_operation_has_an_accuracy),
        cmocka_unit_test(operands_by_row_come_first),
        cmocka_unit_test(matching_rows_of_operands_stay_together),
        cmocka_unit_test(sums_by_an_index_give_partial_sums),
        cmocka_unit_test(every_operation_has_a_gradient_or_says_why_not),
        cmocka_unit_test_teardown(a_chain_is_printed, assert_no_live_bytes),
        cmocka_unit_test_teardown(a_loop_is_printed_once, assert_no_live_bytes),
        cmocka_unit_test_teardown(a_product_loads_files_with_one_reader, assert_no_live_bytes),
        cmocka_unit_test_teardown(a_product_loads_transposed_files_with_one_reader,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(a_product_overlaps_its_file_transfers, assert_no_live_bytes),
        cmocka_unit_test_teardown(a_longer_loop_needs_no_more_memory, assert_no_live_bytes),
        cmocka_unit_test_teardown(moves_between_nodes_begin_early, assert_no_live_bytes),
        cmocka_unit_test_teardown(sums_for_all_nodes_take_the_shorter_path, assert_no_live_bytes),
        cmocka_unit_test_teardown(a_placement_without_a_rule_is_refused, assert_no_live_bytes),
        cmocka_unit_test_teardown(given_weights_count_without_measured_speeds,
                                  assert_no_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
