// np: 1 2 3
// SPDX-License-Identifier: MIT
//
// Small programs that root runs alone. Their values are read by further programs on root, and by
// programs of all ranks. Failures on root are failures of all ranks, and later programs still run.
#include <string.h>

#include "exec/memory/held.h"
#include "nodes.h"
#include "plan/lists/program_plan.h"
#include "tap.h"

enum { ROWS = 7, COLS = 5, COUNT = ROWS * COLS };
static const struct mmul_shape SHAPE = {1, 1, ROWS, COLS}, ONE = {1, 1, 1, 1};
static const struct mmul_program_options ALLOWED = {.may_run_on_root = true};
// One program of root. Input: memory that it loads, or the number of a held value.
struct one {
    const void *memory;
    enum mmul_dtype dtype;
    int64_t read;
    int64_t held;       // out: number of the result, if holds is set
    bool holds, gets;   // the result stays, or comes to `result`
    bool is_copy;       // the result is the value itself, otherwise value + value
    bool is_whole;      // all ranks get all of the result
    const int64_t *row; // NULL, or the result is that row of the value; out of range fails
    struct mmul_program_options options;
    double result[COUNT];
    bool is_on_root; // out
    struct mmul_error err;
};

static void build(struct mmul_context *context, struct one *one, struct mmul_program *program,
                  struct mmul_matrix **matrix, struct mmul_matrix **rows) {
    struct mmul_output *output = NULL;
    int x = -1;
    if (one->memory != NULL) {
        mmul_matrix_borrow(one->memory, SHAPE, one->dtype, "x", matrix, &one->err);
        mmul_program_load(program, *matrix, &x, &one->err);
    } else {
        mmul_program_load_held(program, context, one->read, "x", &x, &one->err);
    }
    if (one->row != NULL) {
        struct mmul_call take = {.operation = "take", .operands = {x, -1}, .operand_count = 2};
        mmul_matrix_borrow(one->row, ONE, MMUL_I64, "row", rows, &one->err);
        mmul_program_load(program, *rows, &take.operands[1], &one->err);
        mmul_program_apply(program, &take, "taken", &x, &one->err);
    } else if (!one->is_copy)
        mmul_program_add(program, x, x, "y", &x, &one->err);
    if (one->is_whole)
        mmul_program_place(program, x, MMUL_PLACE_REPLICATE, "z", &x, &one->err);
    if (one->holds)
        mmul_program_hold(program, x, &one->held, &one->err);
    if (one->gets &&
        mmul_output_borrow(one->result, SHAPE, MMUL_F64, &output, &one->err) == MMUL_OK)
        mmul_program_save(program, x, output, &one->err);
}

// Runs the program on root's behalf. Collective.
static enum mmul_status run_one(struct mmul_context *context, struct one *one) {
    struct mmul_program *program = NULL;
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    struct mmul_matrix *matrix = NULL, *rows = NULL;
    if (rank == 0) {
        mmul_program_create(&program, &one->err);
        build(context, one, program, &matrix, &rows);
    }
    enum mmul_status status =
        mmul_program_plan_create(context, program, &one->options, &plan, &one->err);
    one->is_on_root = plan == NULL || plan->is_on_root;
    if (status == MMUL_OK)
        status = mmul_program_run(context, plan, &values, &one->err);
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    mmul_program_destroy(program);
    mmul_matrix_close(matrix);
    mmul_matrix_close(rows);
    return status;
}

static bool is_multiple(const struct one *one, const double *x, double factor) {
    bool right = true;
    for (int i = 0; rank == 0 && i < COUNT; i++)
        right &= one->result[i] == factor * x[i];
    return right;
}

// Root makes a value of this type alone and reads it again. Then a program of all ranks reads it,
// and root alone once more.
static void test_values(struct mmul_context *context, const void *memory, enum mmul_dtype dtype,
                        const double *x, const char *name) {
    char what[96];
    struct one first = {.memory = memory, .dtype = dtype, .holds = true, .options = ALLOWED};
    bool right = run_one(context, &first) == MMUL_OK && first.is_on_root == (size > 1);
    struct one next = {.read = first.held, .gets = true};
    right = right && run_one(context, &next) == MMUL_OK && next.is_on_root == (size > 1) &&
            is_multiple(&next, x, 4);
    snprintf(what, sizeof what, "%s: root reads its value", name);
    tap_ok(right, what);
    right = rank != 0 || size == 1 || mmul_held_find_on_root(context, first.held) != NULL;
    struct one all = {.read = first.held,
                      .gets = true,
                      .holds = true,
                      .options = {.keep_values = true, .may_run_on_root = true}};
    right =
        run_one(context, &all) == MMUL_OK && !all.is_on_root && is_multiple(&all, x, 4) && right;
    snprintf(what, sizeof what, "%s: all ranks read it", name);
    tap_ok(right && mmul_held_find_on_root(context, first.held) == NULL, what);
    struct one again = {.read = first.held, .gets = true, .is_copy = true, .options = ALLOWED};
    right = run_one(context, &again) == MMUL_OK && again.is_on_root == (size > 1) &&
            is_multiple(&again, x, 2);
    // Root reads the result of all ranks, too.
    struct one last = {.read = all.held, .gets = true, .is_copy = true, .options = ALLOWED};
    right = run_one(context, &last) == MMUL_OK && is_multiple(&last, x, 4) && right;
    snprintf(what, sizeof what, "%s: root alone reads it again", name);
    tap_ok(right, what);
    if (rank == 0) {
        mmul_context_release(context, first.held);
        mmul_context_release(context, all.held);
    }
}

// All ranks make a value that each has whole. Root alone reads it where it is.
static void test_whole(struct mmul_context *context, const float *x, const double *expected) {
    struct one all = {.memory = x, .holds = true, .is_whole = true, .options = ALLOWED};
    bool right = run_one(context, &all) == MMUL_OK && !all.is_on_root;
    for (int i = 0; i < 2; i++) {
        struct one next = {.read = all.held, .gets = true, .options = ALLOWED};
        right = run_one(context, &next) == MMUL_OK && next.is_on_root == (size > 1) &&
                is_multiple(&next, expected, 4) && right;
    }
    tap_ok(right, "root alone reads a value that every rank has whole");
    if (rank == 0)
        mmul_context_release(context, all.held);
}

static void test_released(struct mmul_context *context, const float *x) {
    struct one one = {.memory = x, .holds = true, .options = ALLOWED}, other = one;
    bool right = run_one(context, &one) == MMUL_OK;
    if (rank == 0)
        mmul_context_release(context, one.held);
    right = run_one(context, &other) == MMUL_OK && right;
    const struct mmul_context *own = context->alone != NULL ? context->alone : context;
    tap_ok(right && (rank != 0 || mmul_held_find(own, other.held) != NULL) &&
               own->released_count == 0 && mmul_held_find(own, one.held) == NULL,
           "a released value goes with the next program");
    if (rank == 0)
        mmul_context_release(context, other.held);
}

static void test_failures(struct mmul_context *context, const float *x, const double *expected) {
    static const int64_t row = ROWS;
    struct one bad = {.memory = x, .holds = true, .row = &row, .options = ALLOWED};
    enum mmul_status status = run_one(context, &bad);
    tap_ok(status == MMUL_ERR_DATA && bad.is_on_root == (size > 1) &&
               strcmp(bad.err.text, "cannot read row 7 of 'x', which has 7 rows") == 0,
           "a failure of root alone is that of all ranks");
    struct one large = {
        .memory = x, .holds = true, .options = {.memory_limit_bytes = 1, .may_run_on_root = true}};
    status = run_one(context, &large);
    tap_ok(status == MMUL_ERR_SYSTEM &&
               strncmp(large.err.text, "cannot fit the program's values", 31) == 0,
           "too little memory is refused on all ranks");
    struct one next = {.memory = x, .gets = true, .options = ALLOWED};
    status = run_one(context, &next);
    tap_ok(status == MMUL_OK && is_multiple(&next, expected, 2), "later programs run");
}

int main(int argc, char **argv) {
    int provided;
    float single[COUNT];
    double twofold[COUNT], integers_as[COUNT];
    int64_t integers[COUNT];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < COUNT; i++) {
        twofold[i] = 1 + i * (1.0 + 1e-12); // not a float32
        integers[i] = i * 1003 - 999;
        integers_as[i] = (double)integers[i];
        single[i] = (float)(i % 9 - 4);
    }
    const struct mmul_context_options options = {.device = "cpu"};
    for (int nodes = 1; nodes <= 2 && nodes <= size; nodes++) {
        double expected[COUNT];
        struct mmul_context *context = make_context(nodes, &options);
        for (int i = 0; i < COUNT; i++)
            expected[i] = single[i];
        test_values(context, single, MMUL_F32, expected, "float32");
        test_values(context, twofold, MMUL_F64, twofold, "float64");
        test_values(context, integers, MMUL_I64, integers_as, "int64");
        test_whole(context, single, expected);
        test_released(context, single);
        test_failures(context, single, expected);
        mmul_context_destroy(context);
    }
    const int failed = tap_end();
    MPI_Finalize();
    return failed;
}
