// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// Products of a program that read transposed files directly, over several nodes. Integers: results
// equal plain loops element by element.
#include "trial.h"

// Files that products read transposed: either operand, both, twice, of stacks; split or whole, with
// the plan's or a requested placement; also with a second reader.
static bool transposed_files_are_right(struct mmul_context *context, const int64_t *n,
                                       const char *weights) {
    const struct mmul_shape x = {n[0], n[1], n[4], n[5]}, xt = {n[0], n[1], n[5], n[4]},
                            y = {n[2], n[3], n[5], n[6]}, yt = {n[2], n[3], n[6], n[5]};
    static const enum mmul_placement_kind kinds[] = {MMUL_PLACE_ROWS, MMUL_PLACE_COLS};
    struct trial t;
    begin_trial(&t);
    for (int i = 0; i < 2; i++) {
        save(&t, place(&t, matmul(&t, transpose(&t, load(&t, xt)), load(&t, y)), kinds[i]));
        save(&t, place(&t, matmul(&t, load(&t, x), transpose(&t, load(&t, yt))), kinds[i]));
        save(&t, place(&t, matmul(&t, transpose(&t, load(&t, xt)), transpose(&t, load(&t, yt))),
                       kinds[i]));
        int twice = transpose(&t, transpose(&t, load(&t, x)));
        save(&t, place(&t, matmul(&t, twice, load(&t, y)), kinds[i]));
    }
    int a = place(&t, load(&t, x), MMUL_PLACE_ROWS);
    save(&t, matmul(&t, a, transpose(&t, load(&t, yt))));
    int b = place(&t, load(&t, y), MMUL_PLACE_COLS), seen = transpose(&t, load(&t, xt));
    save(&t, matmul(&t, transpose(&t, load(&t, xt)), b));
    save(&t, matmul(&t, seen, b));
    save(&t, relu(&t, add(&t, seen, generate(&t, x))));
    bool right = run_trial(context, &t, weights);
    end_trial(&t);
    return right;
}

// Files large enough for several panels.
static bool large_files_are_right(struct mmul_context *context, const char *weights) {
    const struct mmul_shape tall = {1, 1, 70, 256}, square = {1, 1, 256, 256};
    struct trial t;
    begin_trial(&t);
    int x = place(&t, load(&t, tall), MMUL_PLACE_ROWS);
    int y = place(&t, transpose(&t, load(&t, tall)), MMUL_PLACE_COLS);
    save(&t, matmul(&t, x, transpose(&t, load(&t, square))));
    save(&t, matmul(&t, transpose(&t, load(&t, square)), y));
    bool right = run_trial(context, &t, weights);
    end_trial(&t);
    return right;
}

int main(int argc, char **argv) {
    // Batch and depth of A and of B, m, k, n.
    static const int64_t products[][7] = {{1, 1, 1, 1, 11, 7, 13},
                                          {2, 3, 2, 3, 3, 5, 2},
                                          {1, 2, 3, 1, 4, 3, 5},
                                          {1, 1, 1, 1, 1, 1, 1}};
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int nodes = 1; nodes <= size && nodes <= 3; nodes++) {
        const struct mmul_context_options options = {.device = "cpu"};
        struct mmul_context *context = make_context(nodes, &options);
        char weights[64] = "", what[96];
        for (int i = 0; i < size; i++)
            sprintf(weights + strlen(weights), "%s%d", i > 0 ? "," : "", i + 1);
        for (int turn = 0; turn < 2; turn++) {
            const char *shares = turn == 0 ? "equal" : weights;
            bool right = large_files_are_right(context, shares);
            for (size_t i = 0; i < sizeof products / sizeof *products; i++)
                right = transposed_files_are_right(context, products[i], shares) && right;
            snprintf(what, sizeof what, "%d nodes, weights %s: transposed files are read", nodes,
                     shares);
            tap_ok(right, what);
        }
        mmul_context_destroy(context);
    }
    int status = tap_end();
    MPI_Finalize();
    return status;
}
