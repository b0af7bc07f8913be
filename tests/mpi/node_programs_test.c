// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// Local SGD: nodes compute separately, each with a program of its own, from a value that all share
// and data of their own, turn after turn. At the end the values of all nodes are summed over the
// ranks. Programs with files are refused, and later programs still run.
#include "base/memory.h"
#include "persistent_values.h"

enum { TURNS = 3, NODES_MOST = 3 };
static const struct mmul_shape SHAPE = {1, 2, 5, 7}, ONE = {1, 1, 1, 1};

// Root only: builds x + x + (node + 1), kept whole on the node under *held.
static enum mmul_status build_program(const struct mmul_context *context, int node, int64_t from,
                                      struct mmul_program **program, struct mmul_matrix **added,
                                      int64_t *held, struct mmul_error *err) {
    static const float parts[NODES_MOST] = {1, 2, 3};
    int x = 0, y = 0;
    enum mmul_status status = mmul_program_create(program, err);
    if (status == MMUL_OK)
        status = mmul_matrix_borrow(&parts[node], ONE, MMUL_F32, "part", added, err);
    if (status == MMUL_OK)
        status =
            mmul_program_load_held(*program, mmul_context_of_node(context), from, "x", &x, err);
    if (status == MMUL_OK)
        status = mmul_program_load(*program, *added, &y, err);
    if (status == MMUL_OK)
        status = mmul_program_add(*program, x, y, NULL, &y, err);
    if (status == MMUL_OK)
        status = mmul_program_add(*program, x, y, NULL, &y, err);
    if (status == MMUL_OK)
        status = mmul_program_place(*program, y, MMUL_PLACE_REPLICATE, NULL, &y, err);
    return status == MMUL_OK ? mmul_program_hold(*program, y, held, err) : status;
}

// Collective. Runs one turn on every node. *held: number of the kept input, then of the kept
// result.
static bool run_turn(struct mmul_context *context, int nodes, int64_t *held) {
    struct mmul_program *programs[NODES_MOST] = {NULL};
    struct mmul_matrix *added[NODES_MOST] = {NULL};
    struct mmul_error err;
    enum mmul_status status = MMUL_OK;
    int64_t made = 0;
    for (int node = 0; rank == 0 && status == MMUL_OK && node < nodes; node++)
        status = build_program(context, node, *held, &programs[node], &added[node], &made, &err);
    if (status == MMUL_OK)
        status = mmul_apart_run(context, (const struct mmul_program *const *)programs, NULL, &err);
    for (int node = 0; node < nodes; node++) {
        mmul_program_destroy(programs[node]);
        mmul_matrix_close(added[node]);
    }
    if (status != MMUL_OK)
        fprintf(stderr, "# rank %d: %s\n", rank, err.text);
    release_value(context, *held);
    *held = made;
    return status == MMUL_OK;
}

// Returns the expected sum over ranks after `turns` turns that start with y.
static struct known sum_over_ranks(const struct mmul_context *context, const struct known *y,
                                   int turns) {
    struct known sum = {SHAPE, calloc((size_t)elements(SHAPE), sizeof(double))};
    for (int r = 0; r < size; r++)
        for (int64_t i = 0; i < elements(SHAPE); i++) {
            double x = y->at[i];
            for (int t = 0; t < turns; t++)
                x = x + x + context->comm->rank_node[r] + 1;
            sum.at[i] += x;
        }
    return sum;
}

static void test_separate_turns(struct mmul_context *context, int nodes) {
    struct mmul_apart_node about[NODES_MOST] = {{0}};
    const struct mmul_program_options options = {.weights = "equal"};
    struct trial first, last;
    struct mmul_error err;
    char what[96];
    begin_trial(&first);
    int y = place(&first, relu(&first, load(&first, SHAPE)), MMUL_PLACE_REPLICATE);
    int64_t held = hold_value(&first, y);
    bool right = holds_on_all_ranks(run_trial(context, &first, "equal")) &&
                 mmul_apart_begin(context, &options, about, &err) == MMUL_OK;
    int ranks = 0;
    double shares = 0;
    for (int node = 0; node < nodes; node++) {
        ranks += about[node].ranks;
        // equal speeds: shares follow rank counts
        shares += about[node].share * size - about[node].ranks;
    }
    snprintf(what, sizeof what, "%d nodes: shares follow rank counts", nodes);
    tap_ok(mmul_context_nodes(context) == nodes &&
               (rank != 0 || (ranks == size && shares < 1e-9 && shares > -1e-9)),
           what);
    for (int t = 0; right && t < TURNS; t++)
        right = holds_on_all_ranks(run_turn(context, nodes, &held));
    struct known sum = sum_over_ranks(context, &first.known[y], TURNS);
    begin_trial(&last);
    int x = load_held(context, &last, held, &sum);
    save(&last, x);
    save(&last, relu(&last, add(&last, x, x)));
    save(&last, matmul(&last, x, generate(&last, (struct mmul_shape){1, 1, 7, 3})));
    save(&last, transpose(&last, x));
    right = right && holds_on_all_ranks(run_trial(context, &last, "equal"));
    snprintf(what, sizeof what, "%d nodes: separate turns give the expected sum", nodes);
    tap_ok(right, what);
    release_value(context, held);
    free(sum.at);
    end_trial(&first);
    end_trial(&last);
}

// The program asks for a set of shards to be kept on the ranks.
static void test_refused(struct mmul_context *context, int nodes) {
    struct mmul_program *programs[NODES_MOST] = {NULL};
    const struct mmul_generated g = {MMUL_GENERATE_UNIFORM, 1, SHAPE};
    struct mmul_error err = {.status = MMUL_OK};
    struct trial first;
    int x = 0;
    for (int node = 0; rank == 0 && node < nodes; node++) {
        mmul_program_create(&programs[node], &err);
        mmul_program_generate(programs[node], g, NULL, &x, &err);
    }
    if (rank == 0)
        mmul_program_keep(programs[nodes - 1], x, "apart", true, &err);
    enum mmul_status status =
        mmul_apart_run(context, (const struct mmul_program *const *)programs, NULL, &err);
    tap_ok(status == MMUL_ERR_USAGE &&
               strcmp(err.text, "a program for one node cannot read or write files") == 0,
           "programs with files are refused in local SGD");
    for (int node = 0; node < nodes; node++)
        mmul_program_destroy(programs[node]);
    begin_trial(&first);
    int64_t held = hold_value(&first, place(&first, load(&first, SHAPE), MMUL_PLACE_REPLICATE));
    bool right = holds_on_all_ranks(run_trial(context, &first, "equal"));
    tap_ok(right && holds_on_all_ranks(run_turn(context, nodes, &held)),
           "later programs run after a refusal");
    release_value(context, held);
    end_trial(&first);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int nodes = 1; nodes <= NODES_MOST && nodes <= size; nodes++) {
        const struct mmul_context_options options = {.device = "cpu"};
        struct mmul_context *context = make_context(nodes, &options);
        test_separate_turns(context, nodes);
        test_refused(context, nodes);
        mmul_context_destroy(context);
        tap_ok(mmul_live_bytes() == 0, "the library has freed all memory");
    }
    int status = tap_end();
    MPI_Finalize();
    return status;
}
