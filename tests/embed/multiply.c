// SPDX-License-Identifier: MIT
// The library in another program: C = A B from root's memory, on all ranks. Build with
//     cc multiply.c $(pkg-config --cflags --libs mpimatmul)
// and run with mpirun.
#include <mpimatmul.h>

enum { M = 300, N = 200, K = 100 };

static int run(struct mmul_context *context, int rank, struct mmul_error *err) {
    static float a[M * K], b[K * N], c[M * N];
    const struct mmul_shape a_shape = {1, 1, M, K}, b_shape = {1, 1, K, N}, c_shape = {1, 1, M, N};
    struct mmul_matmul args = {.alpha = 1};
    struct mmul_plan *plan = NULL;
    struct mmul_report *report = NULL;
    for (int i = 0; i < M * K; i++)
        a[i] = (float)(i % 7 - 3);
    for (int i = 0; i < K * N; i++)
        b[i] = (float)(i % 5 - 2);
    if (rank == 0 && mmul_matrix_borrow(a, a_shape, MMUL_F32, "a", &args.a, err) == MMUL_OK &&
        mmul_matrix_borrow(b, b_shape, MMUL_F32, "b", &args.b, err) == MMUL_OK)
        mmul_output_borrow(c, c_shape, MMUL_F32, &args.output, err);
    if (mmul_agree(MPI_COMM_WORLD, err) == MMUL_OK &&
        mmul_plan_create(context, &args, &plan, err) == MMUL_OK &&
        mmul_run(context, &args, plan, &report, err) == MMUL_OK && rank == 0)
        printf("c[0][0] = %g, c[%d][%d] = %g\n", (double)c[0], M - 1, N - 1, (double)c[M * N - 1]);
    mmul_report_destroy(report);
    mmul_plan_destroy(plan);
    mmul_matrix_close(args.a);
    mmul_matrix_close(args.b);
    return err->status;
}

int main(int argc, char **argv) {
    struct mmul_context *context = NULL;
    struct mmul_error err = {.status = MMUL_OK};
    int rank, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const struct mmul_context_options options = {.device = "cpu"};
    if (mmul_context_create(MPI_COMM_WORLD, &options, &context, &err) == MMUL_OK)
        run(context, rank, &err);
    if (rank == 0 && err.status != MMUL_OK)
        fprintf(stderr, "multiply: %s\n", err.text);
    mmul_context_destroy(context);
    MPI_Finalize();
    return err.status;
}
