// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// Products of integer matrices through the public interface, operands in memory: equal element by
// element to naive loops, whatever the rank count, axis, weights, transposes, stacks, dtypes and
// device. With integers in [-4, 4] every float32 sum is exact in any order.
#include <stdlib.h>
#include <string.h>

#include "tap.h"

struct shapes {
    int64_t a_batch, a_depth, b_batch, b_depth, m, n, k;
};

static const struct shapes all_shapes[] = {
    {1, 1, 1, 1, 1, 1, 1},   {1, 1, 1, 1, 37, 29, 53},  {1, 1, 1, 1, 2, 61, 1},
    {1, 1, 1, 1, 101, 1, 7}, {1, 1, 1, 1, 1, 103, 200}, {3, 2, 3, 2, 5, 7, 11},
    {1, 4, 3, 1, 13, 5, 3},  {2, 1, 1, 1, 17, 19, 23},  {1, 1, 5, 1, 3, 2, 9},
};

enum weighting { EQUAL, ONE_TO_N, ROOT_NONE, LAST_ONLY, WEIGHTINGS };

struct variant {
    struct shapes s;
    bool transpose_a, transpose_b;
    enum mmul_dtype a_dtype, b_dtype;
    float alpha, beta;
    enum mmul_split_choice split;
    enum weighting weighting;
    double tail;
};

static int rank, size;

// ------------------------------------------------------------------------------------- operands

struct operand {
    struct mmul_shape shape;
    enum mmul_dtype dtype;
    void *stored;  // what the library sees
    float *values; // the same as float32
};

static int64_t elements(struct mmul_shape s) {
    return s.batch * s.depth * s.rows * s.cols;
}

// Small integers are exact in 16 bits: the upper half of a float32 is bfloat16; float16 by table.
static uint16_t half_bits(enum mmul_dtype dtype, float value) {
    static const uint16_t f16[] = {0xC400, 0xC200, 0xC000, 0xBC00, 0x0000,
                                   0x3C00, 0x4000, 0x4200, 0x4400};
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return dtype == MMUL_BF16 ? (uint16_t)(bits >> 16) : f16[(int)value + 4];
}

static struct operand make_operand(struct mmul_shape shape, enum mmul_dtype dtype, uint64_t seed) {
    struct operand o = {.shape = shape, .dtype = dtype};
    int64_t count = elements(shape);
    o.values = malloc((size_t)count * sizeof(float));
    mmul_generate(MMUL_GENERATE_INTEGER, seed, shape, 0, count, o.values);
    if (dtype == MMUL_F32) {
        o.stored = o.values;
        return o;
    }
    uint16_t *half = malloc((size_t)count * sizeof *half);
    for (int64_t i = 0; i < count; i++)
        half[i] = half_bits(dtype, o.values[i]);
    o.stored = half;
    return o;
}

static void free_operand(struct operand *o) {
    if (o->stored != o->values)
        free(o->stored);
    free(o->values);
}

// ------------------------------------------------------------------------------------ reference

static const float *matrix_of(const struct operand *o, int64_t batch, int64_t depth) {
    int64_t b = o->shape.batch == 1 ? 0 : batch, d = o->shape.depth == 1 ? 0 : depth;
    return o->values + (b * o->shape.depth + d) * o->shape.rows * o->shape.cols;
}

static double dot(const struct variant *v, const float *a, const float *b, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t p = 0; p < v->s.k; p++)
        sum += (double)(v->transpose_a ? a[p * v->s.m + i] : a[i * v->s.k + p]) *
               (double)(v->transpose_b ? b[j * v->s.k + p] : b[p * v->s.n + j]);
    return sum;
}

// Elements of C that differ from the loops.
static int64_t count_wrong(const struct variant *v, const struct operand *a,
                           const struct operand *b, const float *c_in, struct mmul_shape shape,
                           const float *c) {
    int64_t wrong = 0;
    for (int64_t batch = 0; batch < shape.batch; batch++)
        for (int64_t depth = 0; depth < shape.depth; depth++)
            for (int64_t i = 0; i < shape.rows; i++)
                for (int64_t j = 0; j < shape.cols; j++, c++, c_in++) {
                    double value = (double)v->alpha * dot(v, matrix_of(a, batch, depth),
                                                          matrix_of(b, batch, depth), i, j);
                    if (v->beta != 0)
                        value += (double)v->beta * (double)*c_in;
                    wrong += (double)*c != value;
                }
    return wrong;
}

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

struct job {
    struct operand a, b, c_in;
    struct mmul_matmul args;
    struct mmul_shape shape;
    float *c;
    char weights[128];
};

static void open_job(struct job *job, const struct variant *v) {
    const struct shapes *s = &v->s;
    struct mmul_shape a = {s->a_batch, s->a_depth, v->transpose_a ? s->k : s->m,
                           v->transpose_a ? s->m : s->k};
    struct mmul_shape b = {s->b_batch, s->b_depth, v->transpose_b ? s->n : s->k,
                           v->transpose_b ? s->k : s->n};
    struct mmul_error err;
    enum mmul_dtype dtype;
    job->a = make_operand(a, v->a_dtype, 1);
    job->b = make_operand(b, v->b_dtype, 2);
    job->shape = (struct mmul_shape){a.batch > b.batch ? a.batch : b.batch,
                                     a.depth > b.depth ? a.depth : b.depth, s->m, s->n};
    job->c_in = make_operand(job->shape, MMUL_F32, 3);
    job->c = malloc((size_t)elements(job->shape) * sizeof(float));
    for (int64_t i = 0; i < elements(job->shape); i++)
        job->c[i] = -12345;
    mmul_matrix_borrow(job->a.stored, a, v->a_dtype, "A", &job->args.a, &err);
    mmul_matrix_borrow(job->b.stored, b, v->b_dtype, "B", &job->args.b, &err);
    mmul_matrix_borrow(job->c_in.stored, job->shape, MMUL_F32, "C", &job->args.c_in, &err);
    if (mmul_matmul_result(&job->args, &job->shape, &dtype, &err) != MMUL_OK)
        fprintf(stderr, "# %s\n", err.text);
    mmul_output_borrow(job->c, job->shape, MMUL_F32, &job->args.output, &err);
}

static void close_job(struct job *job) {
    mmul_matrix_close(job->args.a);
    mmul_matrix_close(job->args.b);
    mmul_matrix_close(job->args.c_in);
    free_operand(&job->a);
    free_operand(&job->b);
    free_operand(&job->c_in);
    free(job->c);
}

// Collective. True when the product is right (known on root; true elsewhere when it ran).
static bool run_variant(struct mmul_context *context, const struct variant *v) {
    struct job job = {.args = {.transpose_a = v->transpose_a,
                               .transpose_b = v->transpose_b,
                               .alpha = v->alpha,
                               .beta = v->beta,
                               .split = v->split,
                               .tail = v->tail}};
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
        if (right && count_wrong(v, &job.a, &job.b, job.c_in.values, job.shape, job.c) > 0)
            right = false;
        if (!right)
            fprintf(stderr, "# m n k %lld %lld %lld, transposes %d %d, split %d, weights %s: %s\n",
                    (long long)v->s.m, (long long)v->s.n, (long long)v->s.k, v->transpose_a,
                    v->transpose_b, (int)v->split, job.args.weights, err.text);
        close_job(&job);
    }
    mmul_report_destroy(report);
    mmul_plan_destroy(plan);
    return right;
}

// ------------------------------------------------------------------------------------- the tests

// All variants of one shape on one device.
static bool run_shape(struct mmul_context *context, const struct shapes *s, bool many) {
    static const enum mmul_dtype types[][2] = {
        {MMUL_F32, MMUL_F32}, {MMUL_F16, MMUL_F16}, {MMUL_F32, MMUL_BF16}, {MMUL_BF16, MMUL_F32}};
    static const double tails[] = {0, 0.5, -1, 0.9};
    static const float scales[][2] = {{1, 0}, {3, -2}, {0, 2}, {0, 0}};
    bool right = true;
    for (int split = MMUL_SPLIT_AUTO; split <= MMUL_SPLIT_COLS; split++)
        for (int transposes = 0; transposes < 4; transposes++)
            for (int i = 0; i < 4; i++)
                for (int weighting = 0; weighting < (many ? (int)WEIGHTINGS : 2); weighting++) {
                    const struct variant v = {.s = *s,
                                              .transpose_a = transposes & 1,
                                              .transpose_b = transposes & 2,
                                              .a_dtype = types[i][0],
                                              .b_dtype = types[i][1],
                                              .alpha = scales[(i + transposes) % 4][0],
                                              .beta = scales[(i + transposes) % 4][1],
                                              .split = split,
                                              .weighting = weighting,
                                              .tail = tails[(i + split) % 4]};
                    right = run_variant(context, &v) && right;
                }
    return right;
}

static void test_device(const char *device, bool many) {
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
        tap_ok(run_shape(context, s, many), what);
    }
    mmul_context_destroy(context);
}

// A job that is not the plan's is refused, on all ranks alike.
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
    test_device("cpu", true);
    test_device("reference", false);
    test_device("faulty:repeat=2:cpu", false);
    test_mismatched_jobs();
    int status = tap_end();
    MPI_Finalize();
    return status;
}
