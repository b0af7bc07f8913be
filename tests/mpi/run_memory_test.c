// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// The memory of a run beside its values is what its plan predicts. The segment's size matches to
// the byte; each rank's own memory is at most the prediction and more than half of it.
#include <string.h>

#include "base/memory.h"
#include "exec/memory/values.h"
#include "nodes.h"

// Structs and lists of a run and of each step (mpi/reuse_test), which no plan counts.
enum { LISTS_OF_RUN = 96 << 10, LISTS_OF_STEP = 8 << 10 };

// ------------------------------------------------------------------------------ programs, on root

static int generate(struct mmul_program *p, int64_t rows, int64_t cols) {
    const struct mmul_generated made = {MMUL_GENERATE_INTEGER, (uint64_t)cols, {1, 1, rows, cols}};
    struct mmul_error err;
    int value;
    mmul_program_generate(p, made, NULL, &value, &err);
    return value;
}

static int apply(struct mmul_program *p, const char *operation, int x, int y) {
    const struct mmul_call call = {.operation = operation,
                                   .operands = {x, y},
                                   .operand_count = y < 0 ? 1 : 2,
                                   .with = {.axis = -1, .count = 5}};
    struct mmul_error err;
    int value;
    if (mmul_program_apply(p, &call, NULL, &value, &err) != MMUL_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return value;
}

static int place(struct mmul_program *p, int x, enum mmul_placement_kind kind) {
    struct mmul_error err;
    int value;
    mmul_program_place(p, x, kind, NULL, &value, &err);
    return value;
}

static void write_chain(struct mmul_program *p) {
    const int y = apply(p, "matmul", generate(p, 3000, 64), generate(p, 64, 700));
    apply(p, "silu", apply(p, "add", apply(p, "gelu", y, -1), generate(p, 1, 700)), -1);
}

static void write_topk(struct mmul_program *p) {
    const int x = generate(p, 5000, 40), y = generate(p, 6000, 40);
    apply(p, "topk", apply(p, "matmul", x, apply(p, "transpose", y, -1)), -1);
}

static void write_square(struct mmul_program *p) {
    const int x = place(p, generate(p, 300, 20000), MMUL_PLACE_ROWS);
    apply(p, "matmul", x, generate(p, 20000, 90));
    apply(p, "matmul", x, generate(p, 20000, 110));
}

static void write_grid(struct mmul_program *p) {
    const int x = generate(p, 4001, 600), y = generate(p, 600, 5003);
    place(p, apply(p, "matmul", x, y), MMUL_PLACE_GRID);
}

static void write_partial_sums(struct mmul_program *p) {
    const int x = place(p, generate(p, 50000, 30), MMUL_PLACE_COLS),
              y = place(p, generate(p, 30, 20), MMUL_PLACE_ROWS);
    place(p, apply(p, "matmul", x, y), MMUL_PLACE_ROWS);
}

static void write_move(struct mmul_program *p) {
    place(p, place(p, generate(p, 1001, 999), MMUL_PLACE_ROWS), MMUL_PLACE_COLS);
}

static void write_loop(struct mmul_program *p) {
    const int w = generate(p, 160, 160);
    int x = generate(p, 40000, 160);
    for (int i = 0; i < 6; i++)
        x = apply(p, "relu", apply(p, "matmul", x, w), -1);
}

// Root's files: need lanes and slots on the nodes, and line buffers.
static float data_x[2000 * 300], data_y[300 * 900];
static struct mmul_matrix *files[2];

static void write_products_of_files(struct mmul_program *p) {
    const struct mmul_shape shapes[] = {{1, 1, 2000, 300}, {1, 1, 300, 900}};
    float *data[] = {data_x, data_y};
    struct mmul_error err;
    int values[2];
    for (int i = 0; i < 2; i++) {
        mmul_matrix_borrow(data[i], shapes[i], MMUL_F32, "X", &files[i], &err);
        mmul_program_load(p, files[i], &values[i], &err);
    }
    const int y = apply(p, "matmul", values[0], values[1]);
    apply(p, "matmul", y, generate(p, 900, 700));
}

// ---------------------------------------------------------------------------------------- compared

// Collective.
static void compare_with_plan(struct mmul_context *context, void (*write)(struct mmul_program *),
                              const char *what) {
    const struct mmul_program_options options = {.weights = "equal", .verify_seed = 7};
    const struct mmul_comm *comm = context->comm;
    struct mmul_program *program = NULL;
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    struct mmul_error err;
    char text[256];
    if (rank == 0) {
        mmul_program_create(&program, &err);
        write(program);
    }
    if (mmul_program_plan_create(context, program, &options, &plan, &err) != MMUL_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
    const int64_t before = mmul_live_bytes();
    mmul_peak_bytes_reset();
    bool right = mmul_program_run(context, plan, &values, &err) == MMUL_OK;
    if (!right)
        MPI_Abort(MPI_COMM_WORLD, 1);
    const int64_t own = mmul_peak_bytes() - before, said = plan->rank_private_bytes[rank],
                  lists = LISTS_OF_RUN + LISTS_OF_STEP * (int64_t)plan->step_count,
                  segment = plan->segment_bytes[comm->node_index];
    snprintf(text, sizeof text, "%d nodes, %s: the segment is %lld bytes, planned %lld",
             comm->node_count, what, (long long)values->run_segment_bytes, (long long)segment);
    tap_ok(values->run_segment_bytes == segment, text);
    snprintf(text, sizeof text,
             "%d nodes, %s: a rank's own memory is %lld bytes, planned %lld and lists",
             comm->node_count, what, (long long)own, (long long)said);
    tap_ok(own <= said + lists && own > said / 2, text);
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    mmul_program_destroy(program);
    for (int i = 0; i < 2; i++) {
        mmul_matrix_close(files[i]);
        files[i] = NULL;
    }
}

int main(int argc, char **argv) {
    static const struct {
        void (*write)(struct mmul_program *);
        const char *name;
    } programs[] = {{write_chain, "a fused chain"},
                    {write_topk, "the largest elements of a product"},
                    {write_square, "two products that read one value"},
                    {write_grid, "a grid"},
                    {write_partial_sums, "partial sums"},
                    {write_move, "a move"},
                    {write_loop, "a loop"},
                    {write_products_of_files, "products of files"}};
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int nodes = 1; nodes <= 2 && nodes <= size; nodes++) {
        struct mmul_context *context =
            make_context(nodes, &(struct mmul_context_options){.device = "cpu"});
        for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
            compare_with_plan(context, programs[i].write, programs[i].name);
        mmul_context_destroy(context);
    }
    int status = tap_end();
    MPI_Finalize();
    return status;
}
