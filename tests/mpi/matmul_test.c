// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// Products of integer matrices through the public interface, operands in memory. Results equal
// naive loops element by element for any rank count, axis, weights, transposes, stacks, dtypes and
// device. With integers in [-4, 4] every float32 sum is exact in any order.
#include <string.h>

#include "product.h"
#include "tap.h"

static const struct shapes all_shapes[] = {
    {1, 1, 1, 1, 1, 1, 1},   {1, 1, 1, 1, 37, 29, 53},  {1, 1, 1, 1, 2, 61, 1},
    {1, 1, 1, 1, 101, 1, 7}, {1, 1, 1, 1, 1, 103, 200}, {3, 2, 3, 2, 5, 7, 11},
    {1, 4, 3, 1, 13, 5, 3},  {2, 1, 1, 1, 17, 19, 23},  {1, 1, 5, 1, 3, 2, 9},
};

enum weighting { EQUAL, ONE_TO_N, ROOT_NONE, LAST_ONLY, WEIGHTINGS };

static int rank, size;

// -------------------------------------------------------------------------------------- one case

static const char *weights_text(enum weighting weighting, char text[static 128]) {
    text[0] = '\0';
    if (weighting == EQUAL)
        return "equal";
    for (int i = 0; i < size; i++) {
        int weight = weighting == ONE_TO_N ? i + 1 : weighting == ROOT_NONE ? i > 0 : i == size - 1;
        sprintf(text + strlen(text), "%s%d", i > 0 ? "," : "", size == 1 ? 1 : weight);
    }
    return text;
}

// Prints everything needed to run a variant again.
static void print_variant(const struct variant *v, const struct job *job, const char *why) {
    fprintf(stderr,
            "# stacks %lld x %lld by %lld x %lld, m n k %lld %lld %lld, %s%s by %s%s, alpha %g, "
            "beta %g, split %d, weights %s, tail %g, seed %llu: %s\n",
            (long long)v->s.a_batch, (long long)v->s.a_depth, (long long)v->s.b_batch,
            (long long)v->s.b_depth, (long long)v->s.m, (long long)v->s.n, (long long)v->s.k,
            mmul_dtype_name(v->a_dtype), v->transpose_a ? " transposed" : "",
            mmul_dtype_name(v->b_dtype), v->transpose_b ? " transposed" : "", (double)v->alpha,
            (double)v->beta, (int)v->split, job->args.weights, v->tail,
            (unsigned long long)job->args.verify_seed, why);
}

// Collective. Returns true if the product is right (root compares; other ranks return true if it
// ran).
static bool run_variant(struct mmul_context *context, const struct variant *v, uint64_t seed) {
    struct job job = {.args = {.transpose_a = v->transpose_a,
                               .transpose_b = v->transpose_b,
                               .alpha = v->alpha,
                               .beta = v->beta,
                               .split = v->split,
                               .tail = v->tail > 0   ? MMUL_TAIL_SHARE
                                       : v->tail < 0 ? MMUL_TAIL_OFF
                                                     : MMUL_TAIL_AUTO,
                               .tail_share = v->tail,
                               .verify_seed = seed}};
    struct mmul_plan *plan = NULL;
    struct mmul_report *report = NULL;
    struct mmul_error err = {.text = ""};
    if (rank == 0)
        open_job(&job, v);
    job.args.weights = weights_text(v->weighting, job.weights);
    enum mmul_status status = mmul_plan_create(context, &job.args, &plan, &err);
    if (status == MMUL_OK)
        status = mmul_run(context, &job.args, plan, &report, &err);
    bool right = status == MMUL_OK;
    if (rank == 0) {
        int64_t wrong =
            right ? count_wrong(v, &job.a, &job.b, job.c_in.values, job.shape, job.c) : 0;
        if (wrong > 0)
            snprintf(err.text, sizeof err.text, "%lld elements differ", (long long)wrong);
        right = right && wrong == 0;
        if (!right)
            print_variant(v, &job, err.text);
        close_job(&job);
    }
    mmul_report_destroy(report);
    mmul_plan_destroy(plan);
    return right;
}

// ------------------------------------------------------------------------------------- the tests

// Tests all combinations of splits, transposes and types of one shape on one device; the other
// parameters take turns. The weighting is the sum of the three indices. Each of them, and each
// pair, so meets every weighting, since the third index varies freely (types and transposes meet
// three of the four, as there are three splits). `shift` depends on the shape, so that in four
// shapes all triples meet every weighting on any number of ranks. `shift` also depends on the
// number of ranks, so that a shape meets other combinations on 2, 3 and 5. The steps of factors and
// tails were found by search: any three of shape, split, transposes, types, factors, weighting and
// tail meet on each number of ranks, with four weightings and with two.
static bool run_shape(struct mmul_context *context, const struct shapes *s, int weightings,
                      int shift) {
    static const enum mmul_dtype types[][2] = {
        {MMUL_F32, MMUL_F32}, {MMUL_F16, MMUL_F16}, {MMUL_F32, MMUL_BF16}, {MMUL_BF16, MMUL_F32}};
    static const double tails[] = {0, 0.5, -1, 0.9};
    // Seven factors: coprime to the cycles of length three and four, so that all pairs occur.
    static const float scales[7][2] = {{1, 0}, {3, -2}, {-1, 1}, {0, 2}, {2, 0}, {1, 3}, {0, 0}};
    bool right = true;
    int turn = 0;
    for (int split = MMUL_SPLIT_AUTO; split <= MMUL_SPLIT_COLS; split++)
        for (int transposes = 0; transposes < 4; transposes++)
            for (int i = 0; i < 4; i++, turn++) {
                const struct variant v = {.s = *s,
                                          .transpose_a = transposes & 1,
                                          .transpose_b = transposes & 2,
                                          .a_dtype = types[i][0],
                                          .b_dtype = types[i][1],
                                          .alpha = scales[(turn + 5 * shift) % 7][0],
                                          .beta = scales[(turn + 5 * shift) % 7][1],
                                          .split = split,
                                          .weighting =
                                              (split + transposes + i + shift) % weightings,
                                          .tail = tails[(turn * 5 / 7 + shift) % 4]};
                right = run_variant(context, &v, (uint64_t)turn + 1) && right;
            }
    return right;
}

static void test_device(const char *device, int weightings) {
    struct mmul_context *context = NULL;
    struct mmul_error err = {.text = ""};
    const struct mmul_context_options options = {.device = device};
    char what[160];
    enum mmul_status status = mmul_context_create(MPI_COMM_WORLD, &options, &context, &err);
    snprintf(what, sizeof what, "context on %s %.80s", device, err.text);
    tap_ok(status == MMUL_OK, what);
    for (size_t i = 0; status == MMUL_OK && i < sizeof all_shapes / sizeof all_shapes[0]; i++) {
        const struct shapes *s = &all_shapes[i];
        snprintf(what, sizeof what, "%s: stacks %lld x %lld by %lld x %lld, m n k %lld %lld %lld",
                 device, (long long)s->a_batch, (long long)s->a_depth, (long long)s->b_batch,
                 (long long)s->b_depth, (long long)s->m, (long long)s->n, (long long)s->k);
        tap_ok(run_shape(context, s, weightings, (int)i + size), what);
    }
    mmul_context_destroy(context);
}

// A plan refuses a job with other parameters, on all ranks alike.
static void test_mismatched_jobs(void) {
    struct mmul_context *context = NULL;
    struct mmul_error err = {.text = ""};
    const struct mmul_context_options options = {.device = "cpu"};
    const struct variant v = {
        .s = {1, 1, 1, 1, 8, 6, 4}, .a_dtype = MMUL_F32, .b_dtype = MMUL_F32, .alpha = 1};
    struct job job = {.args = {.alpha = 1, .weights = "equal"}};
    struct mmul_plan *plan = NULL;
    struct mmul_report *report = NULL;
    float small[6];
    mmul_context_create(MPI_COMM_WORLD, &options, &context, &err);
    if (rank == 0) {
        open_job(&job, &v);
        mmul_output_destroy(job.args.output);
        mmul_output_borrow(small, (struct mmul_shape){1, 1, 2, 3}, MMUL_F32, &job.args.output,
                           &err);
    }
    job.args.weights = "equal";
    mmul_plan_create(context, &job.args, &plan, &err);
    tap_ok(mmul_run(context, &job.args, plan, &report, &err) == MMUL_ERR_USAGE &&
               strcmp(err.text, "output is 2 x 3, the result is 8 x 6") == 0,
           "an output of another shape is refused");
    job.args.output = NULL;
    tap_ok(mmul_run(context, &job.args, plan, &report, &err) == MMUL_ERR_USAGE &&
               strcmp(err.text, "there is no output to write to") == 0,
           "no output is refused");
    struct mmul_matrix *const a = job.args.a;
    if (rank == 0) {
        mmul_output_borrow(job.c, job.shape, MMUL_F32, &job.args.output, &err);
        mmul_matrix_borrow(job.a.stored, (struct mmul_shape){1, 1, 4, 4}, MMUL_F32, "X",
                           &job.args.a, &err);
    }
    tap_ok(mmul_run(context, &job.args, plan, &report, &err) == MMUL_ERR_USAGE &&
               strcmp(err.text, "plan is for other operands than 'X' and 'B'") == 0,
           "an operand of another shape is refused");
    if (rank == 0)
        mmul_matrix_close(job.args.a);
    job.args.a = a;
    job.args.output = NULL;
    if (rank == 0)
        close_job(&job);
    mmul_plan_destroy(plan);
    mmul_context_destroy(context);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    test_device("cpu", WEIGHTINGS);
    test_device("reference", 2);
    test_device("faulty:repeat=2:cpu", 2);
    test_mismatched_jobs();
    int status = tap_end();
    MPI_Finalize();
    return status;
}
