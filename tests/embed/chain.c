// SPDX-License-Identifier: MIT
// Several products in one job, whose values stay on the ranks: Y = relu(X W + b) W, from and to root's
// memory. Build and run like multiply.c.
#include <mpimatmul.h>

enum { M = 300, N = 60 };

static float x[M * N], w[N * N], bias[N], y[M * N];

// Root's half: what is to be computed.
static struct mmul_program *build(struct mmul_matrix *matrices[3], struct mmul_error *err) {
    const struct mmul_shape tall = {1, 1, M, N}, square = {1, 1, N, N}, row = {1, 1, 1, N};
    struct mmul_program *program = NULL;
    struct mmul_output *output = NULL;
    int X, W, B, value;
    for (int i = 0; i < M * N; i++)
        x[i] = (float)(i % 7 - 3);
    for (int i = 0; i < N * N; i++)
        w[i] = (float)(i % 5 - 2);
    for (int i = 0; i < N; i++)
        bias[i] = (float)(i % 3);
    if (mmul_matrix_borrow(x, tall, MMUL_F32, "X", &matrices[0], err) != MMUL_OK ||
        mmul_matrix_borrow(w, square, MMUL_F32, "W", &matrices[1], err) != MMUL_OK ||
        mmul_matrix_borrow(bias, row, MMUL_F32, "b", &matrices[2], err) != MMUL_OK ||
        mmul_output_borrow(y, tall, MMUL_F32, &output, err) != MMUL_OK ||
        mmul_program_create(&program, err) != MMUL_OK ||
        mmul_program_load(program, matrices[0], &X, err) != MMUL_OK ||
        mmul_program_load(program, matrices[1], &W, err) != MMUL_OK ||
        mmul_program_load(program, matrices[2], &B, err) != MMUL_OK ||
        mmul_program_matmul(program, X, W, NULL, &value, err) != MMUL_OK ||
        mmul_program_add(program, value, B, NULL, &value, err) != MMUL_OK ||
        mmul_program_relu(program, value, NULL, &value, err) != MMUL_OK ||
        mmul_program_matmul(program, value, W, "Y", &value, err) != MMUL_OK ||
        mmul_program_save(program, value, output, err) != MMUL_OK)
        return program;
    err->status = MMUL_OK;
    return program;
}

int main(int argc, char **argv) {
    struct mmul_context *context = NULL;
    struct mmul_matrix *matrices[3] = {NULL};
    struct mmul_program *program = NULL;
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    struct mmul_error err = {.status = MMUL_OK};
    int rank, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const struct mmul_context_options options = {.device = "cpu"};
    const struct mmul_program_options wishes = {.weights = "equal", .keep_values = true};
    if (rank == 0)
        program = build(matrices, &err);
    if (mmul_agree(MPI_COMM_WORLD, &err) == MMUL_OK &&
        mmul_context_create(MPI_COMM_WORLD, &options, &context, &err) == MMUL_OK &&
        mmul_program_plan_create(context, program, &wishes, &plan, &err) == MMUL_OK &&
        mmul_program_run(context, plan, &values, &err) == MMUL_OK && rank == 0) {
        enum mmul_placement_kind kind;
        char text[96];
        mmul_program_plan_print(plan, stdout);
        printf("Y is %s: y[0][0] = %g, y[%d][%d] = %g\n",
               mmul_values_placement(values, 6, &kind, text), (double)y[0], M - 1, N - 1,
               (double)y[M * N - 1]);
    }
    if (err.status != MMUL_OK && rank == 0)
        fprintf(stderr, "chain: %s\n", err.text);
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    mmul_program_destroy(program);
    for (int i = 0; i < 3; i++)
        mmul_matrix_close(matrices[i]);
    mmul_context_destroy(context);
    MPI_Finalize();
    return err.status;
}
