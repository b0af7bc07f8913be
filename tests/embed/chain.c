// SPDX-License-Identifier: MIT
// Two products of one job, Y = relu(X W) W. The value between them stays on the ranks.
#include <mpimatmul.h>

enum { M = 300, N = 60 };
static float x[M * N], w[N * N], y[M * N];
// Root only: builds the program.
static void build(struct mmul_program **program, struct mmul_matrix *in[2], int *middle,
                  struct mmul_error *err) {
    const struct mmul_shape tall = {1, 1, M, N}, square = {1, 1, N, N};
    struct mmul_output *out = NULL;
    int X, W, Y;
    for (int i = 0; i < M * N; i++)
        x[i] = (float)(i % 7 - 3), w[i % (N * N)] = (float)(i % (N * N) % 5 - 2);
    (void)(mmul_program_create(program, err) || // stops at the first failure
           mmul_matrix_borrow(x, tall, MMUL_F32, "X", &in[0], err) ||
           mmul_matrix_borrow(w, square, MMUL_F32, "W", &in[1], err) ||
           mmul_output_borrow(y, tall, MMUL_F32, &out, err) ||
           mmul_program_load(*program, in[0], &X, err) ||
           mmul_program_load(*program, in[1], &W, err) ||
           mmul_program_matmul(*program, X, W, NULL, middle, err) ||
           mmul_program_relu(*program, *middle, "H", middle, err) ||
           mmul_program_matmul(*program, *middle, W, "Y", &Y, err) ||
           mmul_program_save(*program, Y, out, err));
}

int main(int argc, char **argv) {
    struct mmul_context *context = NULL;
    struct mmul_matrix *in[2] = {NULL};
    struct mmul_program *program = NULL;
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    struct mmul_error err = {.status = MMUL_OK};
    const struct mmul_context_options options = {.device = "cpu"};
    const struct mmul_program_options wishes = {.weights = "equal", .keep_values = true};
    int rank, provided, middle = -1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        build(&program, in, &middle, &err);
    (void)(mmul_agree(MPI_COMM_WORLD, &err) ||
           mmul_context_create(MPI_COMM_WORLD, &options, &context, &err) ||
           mmul_program_plan_create(context, program, &wishes, &plan, &err) ||
           mmul_program_run(context, plan, &values, &err));
    if (rank == 0 && err.status == MMUL_OK) {
        mmul_program_plan_print(plan, false, stdout);
        printf("H: rows 0 to %d stay here; Y begins with %g and ends with %g\n",
               (int)mmul_values_part(values, middle, 0).region.row_end, (double)y[0],
               (double)y[M * N - 1]);
    } else if (rank == 0)
        fprintf(stderr, "chain: %s\n", err.text);
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    mmul_program_destroy(program);
    mmul_matrix_close(in[0]);
    mmul_matrix_close(in[1]);
    mmul_context_destroy(context);
    MPI_Finalize();
    return err.status;
}
