// SPDX-License-Identifier: MIT
// Computes one product twice, on any number of ranks: C as blocks of a grid, and D as a sum of
// every rank's part of the inner range, added up into rows. Build and run like multiply.c.
#include <mpimatmul.h>

enum { M = 300, K = 600, N = 280 };

static float c[M * N], d[M * N];

// Adds a value that the ranks generate in place, with this placement.
static enum mmul_status generate_value(struct mmul_program *program, struct mmul_shape shape,
                                       uint64_t seed, enum mmul_placement_kind kind, int *value,
                                       struct mmul_error *err) {
    const struct mmul_generated g = {MMUL_GENERATE_INTEGER, seed, shape};
    enum mmul_status status = mmul_program_generate(program, g, NULL, value, err);
    return status != MMUL_OK ? status : mmul_program_place(program, *value, kind, NULL, value, err);
}

// Moves a value through two placements into root's memory.
static enum mmul_status move_to_root(struct mmul_program *program, int value,
                                     enum mmul_placement_kind made, enum mmul_placement_kind moved,
                                     float *to, struct mmul_error *err) {
    const struct mmul_shape shape = {1, 1, M, N};
    struct mmul_output *output = NULL;
    if (mmul_output_borrow(to, shape, MMUL_F32, &output, err) != MMUL_OK ||
        mmul_program_place(program, value, made, NULL, &value, err) != MMUL_OK ||
        mmul_program_place(program, value, moved, NULL, &value, err) != MMUL_OK)
        return err->status;
    return mmul_program_save(program, value, output, err);
}

// Root only: builds the program.
static enum mmul_status build(struct mmul_program **program, struct mmul_error *err) {
    const struct mmul_shape left = {1, 1, M, K}, right = {1, 1, K, N};
    int a, b, product;
    if (mmul_program_create(program, err) != MMUL_OK ||
        generate_value(*program, left, 1, MMUL_PLACE_GRID, &a, err) != MMUL_OK ||
        generate_value(*program, right, 2, MMUL_PLACE_GRID, &b, err) != MMUL_OK ||
        mmul_program_matmul(*program, a, b, "C", &product, err) != MMUL_OK ||
        move_to_root(*program, product, MMUL_PLACE_GRID, MMUL_PLACE_ROWS, c, err) != MMUL_OK ||
        generate_value(*program, left, 1, MMUL_PLACE_COLS, &a, err) != MMUL_OK ||
        generate_value(*program, right, 2, MMUL_PLACE_ROWS, &b, err) != MMUL_OK ||
        mmul_program_matmul(*program, a, b, "D", &product, err) != MMUL_OK)
        return err->status;
    return move_to_root(*program, product, MMUL_PLACE_PARTIAL, MMUL_PLACE_ROWS, d, err);
}

int main(int argc, char **argv) {
    struct mmul_context *context = NULL;
    struct mmul_program *program = NULL;
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    struct mmul_error err = {.status = MMUL_OK};
    int rank, provided, differ = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const struct mmul_context_options options = {.device = "cpu"};
    const struct mmul_program_options wishes = {.weights = "equal"};
    if (rank == 0)
        err.status = build(&program, &err);
    if (mmul_agree(MPI_COMM_WORLD, &err) == MMUL_OK &&
        mmul_context_create(MPI_COMM_WORLD, &options, &context, &err) == MMUL_OK &&
        mmul_program_plan_create(context, program, &wishes, &plan, &err) == MMUL_OK &&
        mmul_program_run(context, plan, &values, &err) == MMUL_OK && rank == 0) {
        mmul_program_plan_print(plan, false, stdout);
        for (int i = 0; i < M * N; i++)
            differ += c[i] != d[i];
        printf("c[0][0] = %g, c[%d][%d] = %g, %d elements of D differ\n", (double)c[0], M - 1,
               N - 1, (double)c[M * N - 1], differ);
    }
    if (err.status != MMUL_OK && rank == 0)
        fprintf(stderr, "grid: %s\n", err.text);
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    mmul_program_destroy(program);
    mmul_context_destroy(context);
    MPI_Finalize();
    return err.status != MMUL_OK ? (int)err.status : differ > 0;
}
