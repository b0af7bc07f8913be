// np: 1 3
// SPDX-License-Identifier: MIT
// One rank passes a larger struct of options than the library knows: all ranks refuse it alike.
#include <stdlib.h>
#include <string.h>

#include "mpimatmul.h"
#include "tap.h"

// Each struct is followed by room for fields unknown to this library.
struct larger_context {
    struct mmul_context_options options;
    char more[16];
};

struct larger_matmul {
    struct mmul_matmul args;
    char more[16];
};

struct larger_baseline {
    struct mmul_baseline baseline;
    char more[16];
};

static bool is_odd; // true on the rank with the larger struct

static size_t claim_bytes(size_t bytes) {
    return is_odd ? bytes + 8 : 0;
}

static void check_refusal(enum mmul_status status, const struct mmul_error *err, size_t bytes,
                          const char *name) {
    char expected[160], what[64];
    snprintf(expected, sizeof expected,
             "struct %s is said to have %zu bytes, this library (%s) knows %zu", name, bytes + 8,
             MMUL_VERSION, bytes);
    snprintf(what, sizeof what, "a larger struct is refused: %s", name);
    bool right = status == MMUL_ERR_USAGE && strstr(err->text, expected) != NULL;
    if (!right)
        printf("# %d: %s\n", (int)status, err->text);
    tap_ok(right, what);
}

static void test_job(struct mmul_context *context, int rank) {
    static float ones[4] = {1, 1, 1, 1}, c[4];
    const struct mmul_shape shape = {1, 1, 2, 2};
    struct larger_matmul given = {.args = {.alpha = 1, .weights = "equal"}};
    struct larger_baseline timed = {.baseline = {.m = 2, .n = 2, .k = 2, .runs = 1}};
    struct mmul_plan *plan = NULL;
    struct mmul_report *report = NULL;
    struct mmul_error err = {0};
    double seconds = 0;
    int threads = 0;
    if (rank == 0) {
        mmul_matrix_borrow(ones, shape, MMUL_F32, "a", &given.args.a, &err);
        mmul_matrix_borrow(ones, shape, MMUL_F32, "b", &given.args.b, &err);
        mmul_output_borrow(c, shape, MMUL_F32, &given.args.output, &err);
    }
    given.args.struct_bytes = claim_bytes(sizeof given.args);
    check_refusal(mmul_plan_create(context, &given.args, &plan, &err), &err, sizeof given.args,
                  "mmul_matmul");
    given.args.struct_bytes = sizeof given.args;
    err = (struct mmul_error){0};
    tap_ok(mmul_plan_create(context, &given.args, &plan, &err) == MMUL_OK,
           "a struct of the library's own size is accepted");
    given.args.struct_bytes = claim_bytes(sizeof given.args);
    check_refusal(mmul_run(context, &given.args, plan, &report, &err), &err, sizeof given.args,
                  "mmul_matmul");
    if (rank == 0 && is_odd) // the refusal left the struct unread
        mmul_output_destroy(given.args.output);
    timed.baseline.struct_bytes = claim_bytes(sizeof timed.baseline);
    check_refusal(mmul_baseline_measure(context, &timed.baseline, &seconds, &threads, &err), &err,
                  sizeof timed.baseline, "mmul_baseline");
    mmul_matrix_close(given.args.a);
    mmul_matrix_close(given.args.b);
    mmul_plan_destroy(plan);
}

int main(int argc, char **argv) {
    struct mmul_context *context = NULL;
    struct larger_context given = {.options = {.device = "cpu", .no_bind = true}};
    struct mmul_error err = {0};
    int provided, rank, size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    is_odd = rank == size - 1;
    given.options.struct_bytes = claim_bytes(sizeof given.options);
    check_refusal(mmul_context_create(MPI_COMM_WORLD, &given.options, &context, &err), &err,
                  sizeof given.options, "mmul_context_options");
    given.options.struct_bytes = sizeof given.options;
    err = (struct mmul_error){0};
    enum mmul_status status = mmul_context_create(MPI_COMM_WORLD, &given.options, &context, &err);
    tap_ok(status == MMUL_OK, "a context accepts a struct of the library's own size");
    if (status == MMUL_OK)
        test_job(context, rank);
    mmul_context_destroy(context);
    tap_ok(mmul_live_bytes() == 0, "the library has freed all memory");
    status = tap_end();
    MPI_Finalize();
    return status;
}
