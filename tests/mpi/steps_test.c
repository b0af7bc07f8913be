// np: 1 2 3
// SPDX-License-Identifier: MIT
//
// A thousand small steps. A rank does not wait for its own results: never when alone, and with
// others on its node only if these are behind. Results equal a loop.
#include "exec/memory/values.h"
#include "nodes.h"

enum { ROWS = 64, COLS = 5, TURNS = 500 };

static const struct mmul_generated GENERATED = {MMUL_GENERATE_INTEGER, 3, {1, 1, ROWS, COLS}};

static int apply(struct mmul_program *p, const char *operation, int x, int y) {
    const struct mmul_call call = {.operation = operation,
                                   .operands = {x, y},
                                   .operand_count = y < 0 ? 1 : 2,
                                   .with = {.axis = -1}};
    struct mmul_error err;
    int value;
    if (mmul_program_apply(p, &call, NULL, &value, &err) != MMUL_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return value;
}

// Subtracts the largest element of each row from y, again and again. Each turn is two steps, since
// a fused chain cannot extend across a row.
static void write_program(struct mmul_program *p) {
    struct mmul_error err;
    int y;
    mmul_program_generate(p, GENERATED, NULL, &y, &err);
    for (int i = 0; i < TURNS; i++)
        y = apply(p, "subtract", y, apply(p, "max", y, -1));
}

// Compares this rank's part of the last value.
static bool is_right(const struct mmul_values *values, int value) {
    float expected[ROWS * COLS];
    bool right = true;
    mmul_generate(GENERATED.kind, GENERATED.seed, GENERATED.shape, 0, ROWS * COLS, expected);
    for (int i = 0; i < ROWS; i++) {
        float most = expected[i * COLS];
        for (int j = 1; j < COLS; j++)
            most = expected[i * COLS + j] > most ? expected[i * COLS + j] : most;
        for (int j = 0; j < COLS; j++)
            expected[i * COLS + j] -= most;
    }
    for (int64_t p = 0; p < mmul_values_part_count(values, value); p++) {
        const struct mmul_value_part part = mmul_values_part(values, value, p);
        const struct mmul_region r = part.region;
        for (int64_t i = r.row_begin; i < r.row_end; i++)
            for (int64_t j = r.col_begin; j < r.col_end; j++)
                right =
                    right && part.data[(i - r.row_begin) * part.row_step +
                                       (j - r.col_begin) * part.col_step] == expected[i * COLS + j];
    }
    return right;
}

int main(int argc, char **argv) {
    const struct mmul_program_options options = {.weights = "equal", .verify_seed = 7};
    struct mmul_program *program = NULL;
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    struct mmul_error err;
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    struct mmul_context *context = make_context(1, &(struct mmul_context_options){.device = "cpu"});
    if (rank == 0) {
        mmul_program_create(&program, &err);
        write_program(program);
    }
    if (mmul_program_plan_create(context, program, &options, &plan, &err) != MMUL_OK ||
        mmul_program_run(context, plan, &values, &err) != MMUL_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
    const struct mmul_waits waits = values->run_waits;
    tap_ok(plan->step_count >= 2 * TURNS, "the plan has two steps per turn");
    tap_ok(is_right(values, 2 * TURNS), "results equal a loop");
    char text[128];
    snprintf(text, sizeof text, "the rank waited %lld times and slept %lld times",
             (long long)waits.count, (long long)waits.sleeps);
    tap_ok(size > 1 || (waits.count == 0 && waits.sleeps == 0), text);
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    mmul_program_destroy(program);
    mmul_context_destroy(context);
    int status = tap_end();
    MPI_Finalize();
    return status;
}
