// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// Values assembled from the memory of all ranks: each rank gives its rows or columns, and no rank
// has all. On one node, and with every rank on a node of its own. Parts that do not fit together
// are refused on all ranks alike.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nodes.h"

enum { COLS = 31, OUT = 17 };

static struct mmul_context *context;
static char folder[64];

// Rank 1 has no rows.
static int64_t length_of(int r) {
    return r == 1 ? 0 : 5 + 3 * r;
}

static int64_t begin_of(int r) {
    int64_t begin = 0;
    for (int i = 0; i < r; i++)
        begin += length_of(i);
    return begin;
}

static int x_element(int64_t i, int64_t j) {
    return (int)((i * 7 + j * 3) % 9) - 4;
}

static int w_element(int64_t j, int64_t n) {
    return (int)((j * 5 + n) % 7) - 3;
}

// Returns true if root's Y equals X W, or W^T X^T, from plain loops.
static bool is_product(const float *y, int64_t rows, bool transposed) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t n = 0; n < OUT; n++) {
            int sum = 0;
            for (int64_t j = 0; j < COLS; j++)
                sum += x_element(i, j) * w_element(j, n);
            if (y[transposed ? n * rows + i : i * OUT + n] != (float)sum)
                return false;
        }
    return true;
}

// Root only: builds a job that reads the set.
static void build_program(struct mmul_program *program, struct mmul_matrix *w,
                          struct mmul_output *out, bool transposed, struct mmul_error *err) {
    int x, weights, y;
    if (mmul_program_load_kept(program, folder, "x", &x, err) == MMUL_OK &&
        mmul_program_load(program, w, &weights, err) == MMUL_OK &&
        mmul_program_matmul(program, transposed ? weights : x, transposed ? x : weights, NULL, &y,
                            err) == MMUL_OK)
        mmul_program_save(program, y, out, err);
}

// Returns true if the set, value 0 of the program, is still where the ranks put it.
static bool stays_in_place(const struct mmul_values *values, bool transposed) {
    enum mmul_placement_kind kind;
    char found[96], expected[96];
    int length = snprintf(expected, sizeof expected, transposed ? "cols 0" : "rows 0");
    for (int r = 1; r <= size; r++)
        length +=
            snprintf(expected + length, sizeof expected - (size_t)length, " %d", (int)begin_of(r));
    mmul_values_placement(values, 0, &kind, found);
    return strcmp(found, expected) == 0;
}

// Collective.
static bool product_is_right(bool transposed) {
    const int64_t rows = begin_of(size);
    const struct mmul_shape shape = {1, 1, transposed ? OUT : rows, transposed ? rows : OUT};
    float *y = calloc((size_t)(rows * OUT), sizeof *y), w[COLS * OUT];
    struct mmul_matrix *matrix = NULL;
    struct mmul_output *out = NULL;
    struct mmul_program *program = NULL;
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    struct mmul_error err = {0};
    for (int64_t j = 0; j < COLS; j++)
        for (int64_t n = 0; n < OUT; n++)
            w[transposed ? n * COLS + j : j * OUT + n] = (float)w_element(j, n);
    if (rank == 0 && mmul_program_create(&program, &err) == MMUL_OK &&
        mmul_matrix_borrow(
            w, (struct mmul_shape){1, 1, transposed ? OUT : COLS, transposed ? COLS : OUT},
            MMUL_F32, "W", &matrix, &err) == MMUL_OK &&
        mmul_output_borrow(y, shape, MMUL_F32, &out, &err) == MMUL_OK)
        build_program(program, matrix, out, transposed, &err);
    bool right = mmul_agree(MPI_COMM_WORLD, &err) == MMUL_OK &&
                 mmul_program_plan_create(context, program, NULL, &plan, &err) == MMUL_OK &&
                 mmul_program_run(context, plan, &values, &err) == MMUL_OK;
    if (!right && rank == 0)
        printf("# %s\n", err.text);
    right = right && stays_in_place(values, transposed) &&
            (rank != 0 || is_product(y, rows, transposed));
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    mmul_program_destroy(program);
    mmul_matrix_close(matrix);
    free(y);
    return right;
}

// Gives float32 rows with a gap behind each, or float64 columns.
static enum mmul_status keep_parts(const char *name, bool columns, struct mmul_error *err) {
    const int64_t length = length_of(rank), begin = begin_of(rank);
    const int64_t rows = columns ? COLS : length, cols = columns ? length : COLS, step = cols + 2;
    float *single = calloc((size_t)(rows * step + 1), sizeof *single);
    double *twofold = calloc((size_t)(rows * step + 1), sizeof *twofold);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const int x = columns ? x_element(begin + j, i) : x_element(begin + i, j);
            single[i * step + j] = (float)x;
            twofold[i * step + j] = x;
        }
    const struct mmul_local_part part = {.struct_bytes = sizeof part,
                                         .data = columns ? (void *)twofold : (void *)single,
                                         .rows = rows,
                                         .cols = cols,
                                         .row_step = step,
                                         .dtype = columns ? MMUL_F64 : MMUL_F32,
                                         .axis = columns ? MMUL_COLS : MMUL_ROWS};
    const enum mmul_status status = mmul_keep_part(context, name, &part, err);
    free(single);
    free(twofold);
    return status;
}

// Collective.
static void check_refusal(const struct mmul_local_part *part, const char *name,
                          enum mmul_status expected, const char *text) {
    struct mmul_error err = {0};
    const enum mmul_status status = mmul_keep_part(context, name, part, &err);
    // the text follows the rank if one rank alone failed
    const bool is_said = strstr(err.text, text) != NULL;
    if (rank == 0 && !is_said)
        printf("# %s\n", err.text);
    tap_ok(status == expected && is_said, text);
}

static void test_refusals(void) {
    static const float data[4];
    struct mmul_local_part part = {.data = data, .rows = 2, .cols = 2, .row_step = 2};
    check_refusal(&part, "a/b", MMUL_ERR_USAGE,
                  "'a/b' cannot name a set of shards: expected a file name without '/'");
    part.row_step = rank == size - 1 ? 1 : 2;
    check_refusal(&part, "z", MMUL_ERR_USAGE,
                  "cannot keep 2 x 2 elements as a part of 'z': rows are 1 apart");
    part.row_step = 2;
    part.dtype = MMUL_F16;
    check_refusal(&part, "z", MMUL_ERR_USAGE,
                  "cannot keep 'z' as float16: expected float32 or float64");
    part.dtype = MMUL_F32;
    part.rows = 0;
    check_refusal(&part, "z", MMUL_ERR_DATA, "cannot keep 'z': no rank has any of it");
    if (size == 1)
        return;
    part.rows = 2;
    part.cols = rank == 1 ? 1 : 2;
    check_refusal(&part, "z", MMUL_ERR_DATA,
                  "cannot keep 'z': rank 1 has 2 x 1 of it, rank 0 2 x 2");
    part.cols = 2;
    part.axis = rank == 1 ? MMUL_COLS : MMUL_ROWS;
    check_refusal(&part, "z", MMUL_ERR_DATA,
                  "cannot keep 'z': rank 1 gives columns of float32, rank 0 rows of float32");
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        snprintf(folder, sizeof folder, "/tmp/mmul-parts-%d", (int)getpid());
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int nodes = 0; nodes <= (size > 1 ? 2 : 0); nodes += 2) {
        struct mmul_error err = {0};
        const char *const names[] = {"x"};
        const struct mmul_context_options options = {.device = "cpu", .shard_folder = folder};
        context = make_context(nodes, &options);
        tap_ok(keep_parts("x", false, &err) == MMUL_OK, "each rank's rows are kept");
        tap_ok(product_is_right(false), "a product of kept rows is right");
        tap_ok(keep_parts("x", true, &err) == MMUL_OK, "each rank's float64 columns are kept");
        tap_ok(product_is_right(true), "a product of kept columns is right");
        test_refusals();
        tap_ok(mmul_context_remove_kept(context, names, 1, &err) == MMUL_OK, "the set is removed");
        mmul_context_destroy(context);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        tap_ok(rmdir(folder) == 0, "the folder is empty");
    else
        tap_ok(true, "the folder is empty");
    int status = tap_end();
    MPI_Finalize();
    return status;
}
