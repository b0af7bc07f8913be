// SPDX-License-Identifier: MIT
//
// The result check of products on a device that keeps their operands: `check_test NAME`. The device
// counts as one with memory of its own. Three products share A, so the device's own sums take part
// from the second one on. Every error is found and repaired. Wrong sums cost one inspection by the
// host and nothing else. Integers: results are equal.
#include "base/random.h"
#include "base/text.h"
#include "exec/worker/verify.h"
#include "tap.h"

enum { M = 211, N = 157, K = 203, PRODUCTS = 3 };

struct job {
    struct mmul_comm comm;
    struct mmul_context context;
    struct mmul_worker worker;
    struct mmul_verifier verifier;
    struct mmul_verifier_memory room;
    float *a, *b[PRODUCTS], *c[PRODUCTS];
    struct mmul_error err;
};

static float *draw_integers(int64_t count, uint64_t seed) {
    float *values = must_allocate(count, sizeof *values);
    for (int64_t e = 0; e < count; e++)
        values[e] = (float)((int64_t)(mmul_random_at(seed, (uint64_t)e) % 9) - 4);
    return values;
}

static void begin_job(struct job *job, const char *rules, const char *name) {
    const struct mmul_worker_options options = {.tile = {.m = M,
                                                         .n = N,
                                                         .k = K,
                                                         .a_lanes = 1,
                                                         .b_lanes = 1,
                                                         .c_lanes = 1,
                                                         .free_bytes = 1 << 24},
                                                .lasting = MMUL_LASTING_A | MMUL_LASTING_B |
                                                           MMUL_LASTING_C};
    memset(job, 0, sizeof *job);
    job->context.comm = &job->comm;
    job->context.fallback_threads = 1;
    snprintf(job->context.device_name, sizeof job->context.device_name, "faulty:hang=1000%s:%s",
             rules, name);
    must_succeed(mmul_device_open(job->context.device_name, &job->context.device, &job->err),
                 &job->err);
    must_succeed(mmul_worker_init(&job->worker, &job->context, &options, &job->err), &job->err);
    must_succeed(mmul_verifier_init(&job->verifier, &job->room,
                                    &(struct mmul_verifier_request){.axis = MMUL_ROWS,
                                                                    .piece_units_max = M,
                                                                    .panel_units_max = N,
                                                                    .k_max = K,
                                                                    .piece_count = 1,
                                                                    .seed = 5},
                                    &job->err),
                 &job->err);
    job->a = draw_integers((int64_t)M * K, 1);
    for (int t = 0; t < PRODUCTS; t++) {
        job->b[t] = draw_integers((int64_t)K * N, 2 + (uint64_t)t);
        job->c[t] = must_allocate((int64_t)M * N, sizeof(float));
    }
}

static void end_job(struct job *job) {
    mmul_verifier_room_fini(&job->room);
    mmul_worker_fini(&job->worker);
    mmul_device_close(job->context.device);
    mmul_text_fini(&job->context.warnings);
    free(job->a);
    for (int t = 0; t < PRODUCTS; t++) {
        free(job->b[t]);
        free(job->c[t]);
    }
}

static enum mmul_status multiply(struct job *job, int t) {
    const struct mmul_product product = {.m = M,
                                         .n = N,
                                         .k = K,
                                         .alpha = 1,
                                         .a = job->a,
                                         .lda = K,
                                         .b = job->b[t],
                                         .ldb = N,
                                         .c = job->c[t],
                                         .ldc = N};
    mmul_verifier_invalidate(&job->verifier);
    enum mmul_status status = mmul_worker_multiply(&job->worker, &product, &job->err);
    const struct mmul_verifier_block block = {.product = &product, .place = "a block"};
    struct mmul_verification v = {.method = &mmul_product_check,
                                  .verifier = &job->verifier,
                                  .worker = &job->worker,
                                  .block = &block,
                                  .place = block.place};
    return status == MMUL_OK ? mmul_verification_run(&v, &job->err) : status;
}

static bool is_right(const struct job *job) {
    for (int t = 0; t < PRODUCTS; t++)
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < N; j++) {
                double sum = 0;
                for (int64_t p = 0; p < K; p++)
                    sum += (double)job->a[i * K + p] * (double)job->b[t][p * N + j];
                if ((double)job->c[t][i * N + j] != sum)
                    return false;
            }
    return true;
}

// Changes one element of the device's copy of A.
static void change_element_of_a(struct job *job) {
    const struct mmul_host_tile all = {job->a, M, K, K, MMUL_F32};
    const float other = 100;
    struct mmul_operand at;
    if (!mmul_tile_cache_find(&job->worker.kept, &all, &at)) {
        printf("Bail out! A is not kept\n");
        exit(1);
    }
    at.offset += 100 * at.ld + 77;
    must_succeed(mmul_device_upload(job->context.device,
                                    &(struct mmul_upload){at, 1, 1, &other, 1, MMUL_F32},
                                    &job->err),
                 &job->err);
}

struct rule {
    const char *name, *rules;
    bool spoils; // the device's copy of A, after the first product
    int64_t found;
};

static void test_rule(const char *name, const struct rule *rule) {
    struct job job;
    char detail[256];
    begin_job(&job, rule->rules, name);
    enum mmul_status status = MMUL_OK;
    for (int t = 0; status == MMUL_OK && t < PRODUCTS; t++) {
        status = multiply(&job, t);
        if (t == 0 && rule->spoils)
            change_element_of_a(&job);
    }
    snprintf(detail, sizeof detail, "status %d, %lld found, %d devices replaced, %lld sums: %.100s",
             status, (long long)job.verifier.blocks_recomputed, job.context.replacements,
             (long long)job.worker.projections, job.err.text);
    const bool has_helped = job.worker.projections > 0 || rule->found > 0;
    report_point(status == MMUL_OK && is_right(&job) && has_helped &&
                     job.verifier.blocks_recomputed == rule->found &&
                     job.context.replacements == (int)rule->found,
                 rule->name, detail);
    end_job(&job);
}

int main(int argc, char **argv) {
    static const struct rule rules[] = {
        {"a correct device takes part with its sums", "", false, 0},
        {"wrong sums cause no wrong result", ",lie=2", false, 0},
        {"a wrong element of the second product is repaired", ",corrupt=2", false, 1},
        {"a wrong element of the third product is repaired", ",corrupt=3", false, 1},
        {"a wrong element in every row and column is repaired", ",garble=3", false, 1},
        {"an element of A uploaded wrongly is found", ",spoil-upload=1", false, 1},
        {"an element of the third B uploaded wrongly is found", ",spoil-upload=4", false, 1},
        {"an element of the second product downloaded wrongly is found", ",spoil-download=2", false,
         1},
        {"an element of A changed on the device is found", "", true, 1},
    };
    struct mmul_device *device = open_device(argc, argv);
    const bool has_next = strcmp(argv[1], "reference") != 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (has_next || rules[i].found == 0)
            test_rule(argv[1], &rules[i]);
    return close_device(device);
}
