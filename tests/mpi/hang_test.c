// np: 1 3
// SPDX-License-Identifier: MIT
//
// Programs on a device that hangs in a call: in a split product, in a product that is a summand,
// and in operations between. The device is given up and another one computes. Memory that the hung
// device may still use is not freed, so this test does not count live bytes at the end.
#include "trial.h"

// Returns true if the program ends right when the last rank's device hangs at call number `call`.
static bool is_right_after_hang(int nodes, int call) {
    char device[64];
    struct trial t;
    snprintf(device, sizeof device, "faulty:hang=%d:cpu", call);
    const struct mmul_context_options options = {.device = rank == size - 1 ? device : "cpu"};
    struct mmul_context *context = make_context(nodes, &options);
    begin_trial(&t);
    int x = load(&t, (struct mmul_shape){1, 1, 23, 8});
    int bias = generate(&t, (struct mmul_shape){1, 1, 1, 8});
    int y = matmul(&t, x, load(&t, (struct mmul_shape){1, 1, 8, 8}));
    y = relu(&t, add(&t, y, bias));
    int z = matmul(&t, place(&t, transpose(&t, y), MMUL_PLACE_COLS), place(&t, y, MMUL_PLACE_ROWS));
    save(&t, matmul(&t, y, place(&t, z, MMUL_PLACE_REPLICATE)));
    bool right = run_trial(context, &t, "equal");
    end_trial(&t);
    mmul_context_destroy(context);
    return right;
}

int main(int argc, char **argv) {
    char what[96];
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    keeps = true;
    device_timeout = 0.3;
    for (int nodes = 1; nodes <= size; nodes += 2)
        for (int call = 1; call <= 5; call++) {
            snprintf(what, sizeof what, "%d nodes: a device that hangs in call %d is replaced",
                     nodes, call);
            tap_ok(is_right_after_hang(nodes, call), what);
        }
    if (rank == 0)
        printf("1..%d\n", tap_points);
    fflush(stdout);
    MPI_Finalize();
    return tap_failures > 0;
}
