// np: 1 2 3 6
// SPDX-License-Identifier: MIT
//
// Programs of several operations through the public interface, over several nodes: every pair of
// placements, every rule of matmul, transposes, repeated sums, chains. Results are integers and
// equal plain loops element by element, on every rank that holds them and in root's outputs. A
// failure of one rank ends the program everywhere with one error.
#include <unistd.h>

#include "trial.h"
#include "weightings.h"

// ---------------------------------------------------------------------------------------- tests

// Makes links free or unknown: small products are then spread over the ranks all the same.
static void make_links_fast(struct mmul_context *context, bool fast) {
    const struct mmul_link link = {fast ? 1e15 : 0, fast ? 1e-15 : 0};
    for (int i = 0; i < context->cluster->node_count; i++)
        context->cluster->nodes[i].root_link = context->cluster->nodes[i].ring_link = link;
}

// Moves from every placement into every other one, and to a file; partial values are real sums.
static bool every_move_is_right(struct mmul_context *context, struct mmul_shape s,
                                const char *weights) {
    struct trial t;
    begin_trial(&t);
    const struct mmul_shape tall = {s.batch, s.depth, s.rows, 7},
                            wide = {s.batch, s.depth, 7, s.cols};
    int x = load(&t, s), a = load(&t, tall), b = load(&t, wide);
    for (int from = MMUL_PLACE_ROWS; from < KINDS; from++) {
        int f = from == MMUL_PLACE_PARTIAL ? matmul(&t, a, b) : x;
        f = place(&t, f, (enum mmul_placement_kind)from);
        for (int to = MMUL_PLACE_ROWS; to < KINDS; to++)
            if (to != from)
                place(&t, f, (enum mmul_placement_kind)to);
        save(&t, f);
        if (from != MMUL_PLACE_GRID)
            save(&t, transpose(&t, place(&t, transpose(&t, f), MMUL_PLACE_REPLICATE)));
    }
    place(&t, x, MMUL_PLACE_PARTIAL);
    save(&t, x);
    bool right = run_trial(context, &t, weights);
    end_trial(&t);
    return right;
}

// Rules of matmul, with each combination of transposed operands.
static bool rules_are_right(struct mmul_context *context,
                            const enum mmul_placement_kind (*rules)[3], size_t count,
                            const int64_t *n, const char *weights) {
    bool right = true;
    for (int turns = 0; turns < 4; turns++) {
        const int64_t m = n[4], k = n[5], width = n[6];
        struct trial t;
        begin_trial(&t);
        int a = load(&t, (struct mmul_shape){n[0], n[1], turns & 1 ? k : m, turns & 1 ? m : k});
        int b =
            load(&t, (struct mmul_shape){n[2], n[3], turns & 2 ? width : k, turns & 2 ? k : width});
        a = turns & 1 ? transpose(&t, a) : a;
        b = turns & 2 ? transpose(&t, b) : b;
        for (size_t i = 0; i < count; i++) {
            int c = matmul(&t, place(&t, a, rules[i][0]), place(&t, b, rules[i][1]));
            t.wanted[c] = n[0] == n[2] && n[1] == n[3] ? rules[i][2] : MMUL_PLACE_FILE;
            save(&t, place(&t, c, rules[i][2]));
        }
        right = run_trial(context, &t, weights) && right;
        end_trial(&t);
    }
    return right;
}

static bool every_rule_is_right(struct mmul_context *context, const int64_t *n,
                                const char *weights) {
    static const enum mmul_placement_kind rules[][3] = {
        {MMUL_PLACE_ROWS, MMUL_PLACE_REPLICATE, MMUL_PLACE_ROWS},
        {MMUL_PLACE_REPLICATE, MMUL_PLACE_COLS, MMUL_PLACE_COLS},
        {MMUL_PLACE_REPLICATE, MMUL_PLACE_CYCLIC, MMUL_PLACE_CYCLIC},
        {MMUL_PLACE_COLS, MMUL_PLACE_ROWS, MMUL_PLACE_PARTIAL},
        {MMUL_PLACE_REPLICATE, MMUL_PLACE_REPLICATE, MMUL_PLACE_ROWS},
        {MMUL_PLACE_REPLICATE, MMUL_PLACE_REPLICATE, MMUL_PLACE_COLS},
        {MMUL_PLACE_REPLICATE, MMUL_PLACE_REPLICATE, MMUL_PLACE_REPLICATE}};
    static const enum mmul_placement_kind grid[][3] = {
        {MMUL_PLACE_GRID_ROWS, MMUL_PLACE_GRID_COLS, MMUL_PLACE_GRID}};
    bool right = rules_are_right(context, rules, sizeof rules / sizeof *rules, n, weights);
    make_links_fast(context, true);
    right = rules_are_right(context, grid, 1, n, weights) && right;
    make_links_fast(context, false);
    return right;
}

// Layers of a network: products, a bias that repeats, relu, and a value combined with its own
// transpose.
static bool chain_is_right(struct mmul_context *context, const char *weights) {
    struct trial t;
    begin_trial(&t);
    int x = load(&t, (struct mmul_shape){1, 1, 23, 5});
    for (int layer = 0; layer < 2; layer++) {
        int w = generate(&t, (struct mmul_shape){1, 1, 5, 5});
        int bias = load(&t, (struct mmul_shape){1, 1, layer == 0 ? 1 : 23, layer == 0 ? 5 : 1});
        x = relu(&t, add(&t, matmul(&t, x, w), bias));
    }
    int squares = matmul(&t, transpose(&t, x), x);
    save(&t, squares);
    save(&t, add(&t, x, x));
    int sum = add(&t, place(&t, matmul(&t, transpose(&t, x), x), MMUL_PLACE_PARTIAL),
                  place(&t, squares, MMUL_PLACE_PARTIAL));
    save(&t, relu(&t, transpose(&t, transpose(&t, sum))));
    int grid = place(&t, x, MMUL_PLACE_GRID);
    save(&t, place(&t, relu(&t, add(&t, grid, grid)), MMUL_PLACE_GRID));
    bool right = run_trial(context, &t, weights);
    end_trial(&t);
    return right;
}

// Enough ranks on nodes of their own form a mesh of rows and columns, not a line.
static void test_a_mesh(struct mmul_context *context) {
    const char *expected = size == 4 ? "grid 0 48 96 x 0 48 96" : "grid 0 48 96 x 0 32 64 96";
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    enum mmul_placement_kind kind;
    struct trial t;
    char text[96] = "";
    begin_trial(&t);
    int a = place(&t, generate(&t, (struct mmul_shape){1, 1, 96, 96}), MMUL_PLACE_GRID);
    int b = place(&t, generate(&t, (struct mmul_shape){1, 1, 96, 96}), MMUL_PLACE_GRID);
    int c = place(&t, matmul(&t, a, b), MMUL_PLACE_GRID);
    t.wanted[c] = MMUL_PLACE_GRID;
    save(&t, c);
    const struct mmul_program_options options = {.weights = "equal", .keep_values = true};
    enum mmul_status status = mmul_program_plan_create(context, t.program, &options, &plan, &t.err);
    if (status == MMUL_OK)
        status = mmul_program_run(context, plan, &values, &t.err);
    if (status == MMUL_OK)
        mmul_values_placement(values, c, &kind, text);
    bool right = status == MMUL_OK && is_right(&t, values, c) && is_right(&t, values, c - 1);
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    tap_ok(right && strcmp(text, expected) == 0, text);
    end_trial(&t);
}

// Consecutive products, each with an operand of root's. Intermediate values stay where they are,
// split by rows, then by columns. One matrix is used twice, and one intermediate value is saved.
static bool chain_with_files_is_right(struct mmul_context *context, const int64_t *n,
                                      const char *weights) {
    struct trial t;
    begin_trial(&t);
    const struct mmul_shape right = {n[2], n[3], n[6], n[6]}, left = {n[2], n[3], n[4], n[4]};
    int x = load(&t, (struct mmul_shape){n[0], n[1], n[4], n[6]});
    for (int i = 0; i < 4; i++) {
        x = matmul(&t, x, load(&t, right));
        if (i == 2)
            save(&t, x);
    }
    save(&t, x);
    x = place(&t, load(&t, (struct mmul_shape){n[0], n[1], n[4], n[6]}), MMUL_PLACE_COLS);
    for (int i = 0; i < 3; i++)
        x = matmul(&t, load(&t, left), x);
    save(&t, x);
    int a = load(&t, (struct mmul_shape){1, 1, n[4], n[5]});
    int b = load(&t, (struct mmul_shape){1, 1, n[5], n[6]}), c = matmul(&t, a, b);
    save(&t, c);
    save(&t, matmul(&t, a, load(&t, (struct mmul_shape){1, 1, n[5], 3})));
    save(&t, matmul(&t, c, transpose(&t, c)));
    bool right_all = run_trial(context, &t, weights);
    end_trial(&t);
    return right_all;
}

// Products large enough for a whole operand in several panels, from root or from rows on the ranks.
static bool operands_in_panels_are_right(struct mmul_context *context, const char *weights) {
    const struct mmul_shape tall = {1, 1, 70, 256}, wide = {1, 1, 256, 70},
                            square = {1, 1, 256, 256};
    struct trial t;
    begin_trial(&t);
    int x = place(&t, load(&t, tall), MMUL_PLACE_ROWS);
    int y = place(&t, load(&t, wide), MMUL_PLACE_COLS);
    for (int i = 0; i < 2; i++) {
        save(&t, matmul(&t, x, load(&t, square)));
        save(&t, matmul(&t, x, place(&t, load(&t, square), MMUL_PLACE_ROWS)));
        save(&t, matmul(&t, load(&t, square), y));
        save(&t, matmul(&t, place(&t, load(&t, square), MMUL_PLACE_ROWS), y));
    }
    bool right = run_trial(context, &t, weights);
    end_trial(&t);
    return right;
}

// A square of a grid needs its columns, copied from its rows, which are gathered from blocks. These
// moves must not overlap with the product itself.
static void test_a_square_of_a_grid(void) {
    const struct mmul_context_options cpu = {.device = "cpu"};
    struct mmul_context *context = make_context(3, &cpu);
    struct trial t;
    begin_trial(&t);
    int x = place(&t, generate(&t, (struct mmul_shape){1, 1, 256, 256}), MMUL_PLACE_GRID);
    int square = matmul(&t, x, x);
    t.wanted[square] = MMUL_PLACE_GRID;
    save(&t, place(&t, square, MMUL_PLACE_GRID));
    keeps = true;
    tap_ok(run_trial(context, &t, "2,1,1,2"), "a grid times itself is right");
    keeps = false;
    end_trial(&t);
    mmul_context_destroy(context);
}

static void test_programs(int nodes, const struct mmul_context_options *options, bool many) {
    static const struct mmul_shape shapes[] = {
        {1, 1, 13, 9}, {2, 3, 4, 5}, {1, 1, 1, 1}, {1, 1, 1, 1200}, {2, 1, 2, 30}};
    // Batch and depth of A and of B, m, k, n.
    static const int64_t products[][7] = {{1, 1, 1, 1, 11, 7, 13},
                                          {2, 3, 2, 3, 3, 5, 2},
                                          {1, 2, 3, 1, 4, 3, 5},
                                          {1, 1, 1, 1, 1, 1, 1}};
    struct mmul_context *context = make_context(nodes, options);
    for (int w = 0; w < (many ? (int)WEIGHTINGS : 1); w++) {
        char weights[64], what[160];
        weights_text((enum weighting)w, weights);
        bool moves = true, rules = true;
        bool chains = w > 0 || nodes == 0 || operands_in_panels_are_right(context, weights);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            moves = every_move_is_right(context, shapes[i], weights) && moves;
        snprintf(what, sizeof what, "%s, %d nodes, weights %s: every pair of placements is moved",
                 options->device, nodes, weights);
        tap_ok(moves, what);
        for (int turn = 0; turn < (w == 0 && nodes > 0 ? 2 : 1); turn++) {
            keeps = turn > 0;
            for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
                rules = every_rule_is_right(context, products[i], weights) && rules;
                chains = chain_with_files_is_right(context, products[i], weights) && chains;
            }
            chains = chain_is_right(context, weights) && chains;
        }
        snprintf(what, sizeof what, "%s, %d nodes, weights %s: every rule of matmul is right",
                 options->device, nodes, weights);
        tap_ok(rules, what);
        snprintf(what, sizeof what, "%s, %d nodes, weights %s: a chain is right", options->device,
                 nodes, weights);
        tap_ok(chains, what);
    }
    mmul_context_destroy(context);
}

// -------------------------------------------------------------------------------------- failures

// Collective. Returns true if every rank has root's error text and this status.
static bool fails_on_all_ranks(enum mmul_status status, enum mmul_status expected,
                               const struct mmul_error *err, const char *text) {
    char words[sizeof err->text];
    memcpy(words, err->text, sizeof words);
    MPI_Bcast(words, sizeof words, MPI_CHAR, 0, MPI_COMM_WORLD);
    bool good = status == expected && strcmp(words, err->text) == 0 &&
                (text == NULL || strstr(words, text) != NULL);
    if (!good)
        fprintf(stderr, "# rank %d: status %d: %s\n", rank, (int)status, err->text);
    return good;
}

static struct mmul_context *make_faulty_context(int nodes, const char *device) {
    const struct mmul_context_options options = {.device = rank == size - 1 ? device : "cpu"};
    return make_context(nodes, &options);
}

// The last rank's device is lost at its first product, and fallback is off. Ends the trial.
static bool fails_without_fallback(int nodes, struct trial *t) {
    struct mmul_context *context = make_faulty_context(nodes, "faulty:fail=1:cpu");
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    const struct mmul_program_options options = {
        .struct_bytes = sizeof options, .weights = "equal", .no_fallback = true};
    enum mmul_status status =
        mmul_program_plan_create(context, t->program, &options, &plan, &t->err);
    if (status == MMUL_OK)
        status = mmul_program_run(context, plan, &values, &t->err);
    bool ends = fails_on_all_ranks(status, MMUL_ERR_UNAVAILABLE, &t->err,
                                   "was lost at multiplication 1 by rule");
    mmul_program_plan_destroy(plan);
    end_trial(t);
    mmul_context_destroy(context);
    return ends;
}

// The last rank's device errs; with fallback off every rank fails.
static void test_devices_that_fail(int nodes) {
    static const char *const devices[] = {"faulty:fail=1:cpu", "faulty:corrupt=1:cpu",
                                          "faulty:fail-alloc=1:cpu"};
    char what[160];
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        struct mmul_context *context = make_faulty_context(nodes, devices[i]);
        snprintf(what, sizeof what, "%d nodes, %s: the device is replaced", nodes, devices[i]);
        tap_ok(chain_is_right(context, "equal"), what);
        mmul_context_destroy(context);
    }
    struct trial t;
    begin_trial(&t);
    int x = load(&t, (struct mmul_shape){1, 1, 2 * size, 8});
    save(&t, matmul(&t, x, load(&t, (struct mmul_shape){1, 1, 8, 8})));
    snprintf(what, sizeof what, "%d nodes: a lost device fails on all ranks", nodes);
    tap_ok(fails_without_fallback(nodes, &t), what);
}

// Grids with an inner range in several panels, also for a stack.
static bool grids_in_panels_are_right(struct mmul_context *context, const char *weights) {
    static const int64_t depths[] = {1, 2};
    make_links_fast(context, true);
    bool right = true;
    keeps = true;
    for (int i = 0; i < 2; i++) {
        struct trial t;
        begin_trial(&t);
        int a =
            place(&t, generate(&t, (struct mmul_shape){1, depths[i], 40, 1100}), MMUL_PLACE_GRID);
        int b =
            place(&t, generate(&t, (struct mmul_shape){1, depths[i], 1100, 30}), MMUL_PLACE_GRID);
        int c = matmul(&t, a, b);
        t.wanted[c] = size != 4 ? MMUL_PLACE_GRID : MMUL_PLACE_FILE; // 3 nodes: partial sums
        save(&t, place(&t, c, MMUL_PLACE_GRID));
        right = run_trial(context, &t, weights) && right;
        end_trial(&t);
    }
    keeps = false;
    make_links_fast(context, false);
    return right;
}

// Includes trials in which the last rank's device is lost, with and without a replacement.
static void test_panels(int nodes) {
    static const char *const devices[] = {"cpu",
                                          "faulty:fail=1:cpu",
                                          "faulty:fail=2:cpu",
                                          "faulty:fail=3:cpu",
                                          "faulty:corrupt=1:cpu",
                                          "faulty:corrupt=2:cpu",
                                          "faulty:corrupt=4:cpu",
                                          "faulty:delay=5ms:cpu"};
    char weights[64], what[160];
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        struct mmul_context *context = make_faulty_context(nodes, devices[i]);
        snprintf(what, sizeof what, "%d nodes, %s: grids in panels are right", nodes, devices[i]);
        wrong_rank = -1;
        bool right =
            grids_in_panels_are_right(context, weights_text(i == 0 ? ONE_TO_N : EQUAL, weights));
        // other ranks find no error
        if (rank == 0 && strcmp(devices[i], "faulty:corrupt=1:cpu") == 0)
            right = right && wrong_rank == size - 1;
        tap_ok(right, what);
        mmul_context_destroy(context);
    }
    struct trial t;
    begin_trial(&t);
    int a = place(&t, generate(&t, (struct mmul_shape){1, 1, 40, 1100}), MMUL_PLACE_GRID);
    int b = place(&t, generate(&t, (struct mmul_shape){1, 1, 1100, 30}), MMUL_PLACE_GRID);
    matmul(&t, a, b);
    snprintf(what, sizeof what, "%d nodes: a lost device fails grids in panels on all ranks",
             nodes);
    tap_ok(fails_without_fallback(nodes, &t), what);
}

// Root's file is truncated after it was opened.
static void test_a_file_that_shrinks(struct mmul_context *context, int nodes) {
    const struct mmul_shape shape = {1, 1, 1024, 1024};
    const char *folder = getenv("TMPDIR");
    char path[256], what[96];
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    struct mmul_matrix *matrix = NULL;
    struct mmul_error err = {.status = MMUL_OK};
    struct trial t;
    begin_trial(&t);
    snprintf(path, sizeof path, "%s/shrinks-%d.bin", folder != NULL ? folder : "/tmp",
             (int)getpid());
    const struct mmul_output_request request = {.path = path, .shape = shape, .dtype = MMUL_F32};
    int x = -1;
    if (rank == 0 && mmul_generate_file(MMUL_GENERATE_INTEGER, 1, &request, &err) == MMUL_OK &&
        mmul_matrix_open(path, &matrix, &err) == MMUL_OK &&
        mmul_program_load(t.program, matrix, &x, &err) == MMUL_OK)
        mmul_program_relu(t.program, x, NULL, NULL, &err);
    enum mmul_status status = mmul_agree(MPI_COMM_WORLD, &err);
    if (status == MMUL_OK)
        status = mmul_program_plan_create(context, t.program, NULL, &plan, &err);
    if (rank == 0 && truncate(path, 100000) != 0)
        status = MMUL_ERR_INTERNAL;
    if (status == MMUL_OK)
        status = mmul_program_run(context, plan, &values, &err);
    snprintf(what, sizeof what, "%d nodes: a truncated file fails on all ranks", nodes);
    tap_ok(fails_on_all_ranks(status, MMUL_ERR_DATA, &err, "shrinks"), what);
    mmul_program_plan_destroy(plan);
    mmul_matrix_close(matrix);
    if (rank == 0)
        remove(path);
    end_trial(&t);
}

static void test_refusals(struct mmul_context *context) {
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    struct trial t;
    begin_trial(&t);
    enum mmul_status status = mmul_program_plan_create(context, t.program, NULL, &plan, &t.err);
    tap_ok(fails_on_all_ranks(status, MMUL_ERR_USAGE, &t.err, "the program has no operations"),
           "an empty program is refused");
    save(&t, load(&t, (struct mmul_shape){1, 1, 3, 5}));
    const struct mmul_program_options large = {.struct_bytes = 1 << 20};
    status = mmul_program_plan_create(context, t.program, &large, &plan, &t.err);
    tap_ok(fails_on_all_ranks(status, MMUL_ERR_USAGE, &t.err, "mmul_program_options"),
           "options of a newer library are refused");
    const struct mmul_program_options many = {.weights = "1,1,1,1,1,1,1,1,1"};
    status = mmul_program_plan_create(context, t.program, &many, &plan, &t.err);
    tap_ok(fails_on_all_ranks(status, MMUL_ERR_USAGE, &t.err,
                              "weights '1,1,1,1,1,1,1,1,1' has 9 numbers for"),
           "weights of other ranks are refused");
    status = mmul_program_plan_create(context, t.program, NULL, &plan, &t.err);
    if (status == MMUL_OK)
        status = mmul_program_run(context, plan, &values, &t.err);
    mmul_values_destroy(values);
    tap_ok(status == MMUL_OK, "a matrix is loaded and saved");
    if (status == MMUL_OK)
        status = mmul_program_run(context, plan, &values, &t.err);
    tap_ok(fails_on_all_ranks(status, MMUL_ERR_USAGE, &t.err,
                              "the output of 'X' has already been written"),
           "a second write to an output is refused");
    mmul_program_plan_destroy(plan);
    end_trial(&t);
}

// CPUs beside OpenCL devices, which use tiles between host values and the worker.
static void test_a_mix(const struct mmul_probe *probe, int nodes) {
    const struct mmul_device_info *devices;
    int count = mmul_probe_devices(probe, &devices), most = 0;
    MPI_Allreduce(&count, &most, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (most > 0)
        test_programs(
            nodes,
            &(struct mmul_context_options){.device = rank % 2 == 0 ? "0:0" : "cpu", .probe = probe},
            false);
    else if (rank == 0)
        printf("ok %d - a mix # SKIP opencl: no device\n", ++tap_points);
    if (most == 0 && rank != 0)
        tap_points++;
}

// With the argument "hosts": runs on the real nodes, of which the last one is slow
// (tests/lab/run.bats).
static int test_real_hosts(void) {
    const char *device = rank == size - 1 ? "faulty:delay=2ms:cpu" : "cpu";
    test_programs(0, &(struct mmul_context_options){.device = device}, false);
    test_devices_that_fail(0);
    struct mmul_context *context = make_faulty_context(0, device);
    tap_ok(grids_in_panels_are_right(context, "equal"), "grids in panels are right");
    mmul_context_destroy(context);
    int status = tap_end();
    MPI_Finalize();
    return status;
}

int main(int argc, char **argv) {
    int provided;
    struct mmul_probe *probe = NULL;
    struct mmul_error err;
    const struct mmul_probe_options ask = {.limit_seconds = 60};
    if (mmul_probe_create(&ask, &probe, &err) != MMUL_OK)
        return 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1 && strcmp(argv[1], "hosts") == 0) {
        mmul_probe_destroy(probe);
        return test_real_hosts();
    }
    const struct mmul_context_options cpu = {.device = "cpu"};
    bool is_mesh = size == 4 || size == 6; // more than one row and column: only these counts
    // Five ranks run only the cases that three ranks lack: three nodes, and several ranks on some
    // nodes.
    for (int nodes = size == 5 ? 3 : 1; nodes <= size && nodes <= 3 && !is_mesh; nodes++) {
        test_programs(nodes, &cpu, true);
        test_devices_that_fail(nodes);
        test_panels(nodes);
        struct mmul_context *context = make_context(nodes, &cpu);
        test_a_file_that_shrinks(context, nodes);
        mmul_context_destroy(context);
    }
    if (is_mesh) {
        struct mmul_context *context = make_context(size, &cpu);
        test_a_mesh(context);
        mmul_context_destroy(context);
        test_programs(size, &cpu, true);
        test_panels(size);
    }
    if (size == 4)
        test_a_square_of_a_grid();
    if (!is_mesh && size < 5) {
        struct mmul_context *context = make_context(1, &cpu);
        test_refusals(context);
        mmul_context_destroy(context);
        test_a_mix(probe, size > 1 ? 2 : 1);
    }
    mmul_probe_destroy(probe);
    int status = tap_end();
    MPI_Finalize();
    return status;
}
