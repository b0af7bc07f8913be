// SPDX-License-Identifier: MIT
// Times OpenBLAS on all cores of root's node in a child process. BLAS threads keep the affinity
// mask and the thread count of their start, and root is bound to its part of the node. The child
// makes no MPI call. The baseline covers neither files nor checks nor other nodes.
#include "exec/setup/baseline.h"

#include <math.h>
#include <string.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"

struct job {
    const struct mmul_baseline *baseline;
    struct mmul_cpuset cores;
    int threads;
    struct mmul_device *device;
    struct mmul_buffer *a, *b, *c; // (m, k), (k, n), (m, n), without gaps
};

// Result of the child.
struct answer {
    struct mmul_error error;
    double seconds[]; // one per run
};

// ------------------------------------------------------------------------------- in the child

static enum mmul_status create_matrix(struct job *job, int64_t rows, int64_t cols, uint64_t seed,
                                      struct mmul_buffer **buffer, struct mmul_error *err) {
    const struct mmul_shape shape = {1, 1, rows, cols};
    float *memory = NULL; // never freed: the child process exits soon
    enum mmul_status status = MMUL_ALLOCATE_RAW(memory, rows * cols, "the baseline's matrix", err);
    if (status != MMUL_OK)
        return status;
    mmul_generate(MMUL_GENERATE_UNIFORM, seed, shape, 0, rows * cols, memory);
    return mmul_device_buffer_borrow(job->device, MMUL_F32, memory, rows * cols, buffer, err);
}

static enum mmul_status prepare_child(struct job *job, struct mmul_error *err) {
    const struct mmul_baseline *size = job->baseline;
    enum mmul_status status = mmul_topology_bind(&job->cores, err);
    if (status == MMUL_OK)
        status = mmul_device_open("cpu", &job->device, err);
    if (status != MMUL_OK)
        return status;
    mmul_device_set_threads(job->device, job->threads);
    status = mmul_device_warm_up(job->device, MMUL_F32, INFINITY, err);
    if (status != MMUL_OK)
        return status;
    status = create_matrix(job, size->m, size->k, 1, &job->a, err);
    if (status == MMUL_OK)
        status = create_matrix(job, size->k, size->n, 2, &job->b, err);
    if (status == MMUL_OK)
        status = create_matrix(job, size->m, size->n, 3, &job->c, err);
    return status;
}

static enum mmul_status time_product(struct job *job, double *seconds, struct mmul_error *err) {
    const struct mmul_baseline *size = job->baseline;
    const struct mmul_gemm gemm = {.m = size->m,
                                   .n = size->n,
                                   .k = size->k,
                                   .alpha = 1,
                                   .a = {.buffer = job->a, .ld = size->k},
                                   .b = {.buffer = job->b, .ld = size->n},
                                   .c = {.buffer = job->c, .ld = size->n}};
    double begin = mmul_clock_now();
    enum mmul_status status = mmul_device_gemm(job->device, &gemm, err);
    if (status == MMUL_OK)
        status = mmul_device_wait(job->device, err);
    *seconds = mmul_clock_now() - begin;
    return status;
}

static void time_products(const void *argument, void *result) {
    struct job job = *(const struct job *)argument;
    struct answer *answer = result;
    const int warmup = job.baseline->warmup, count = warmup + job.baseline->runs;
    enum mmul_status status = prepare_child(&job, &answer->error);
    for (int i = 0; status == MMUL_OK && i < count; i++) {
        double seconds;
        status = time_product(&job, &seconds, &answer->error);
        if (i >= warmup)
            answer->seconds[i - warmup] = seconds;
    }
}

// ------------------------------------------------------------------------------ in the parent

static enum mmul_status run_child(const struct job *job, double *seconds, struct mmul_error *err) {
    const size_t times_bytes = (size_t)job->baseline->runs * sizeof *seconds,
                 bytes = sizeof(struct answer) + times_bytes;
    struct mmul_child child;
    int ignored;
    struct answer *answer = mmul_allocate(1, bytes, "the baseline", err);
    if (answer == NULL)
        return err->status;
    enum mmul_status status = mmul_child_start(time_products, job, bytes, &child, err);
    if (status == MMUL_OK &&
        mmul_child_finish(&child, INFINITY, answer, &ignored) != MMUL_CHILD_DONE)
        status = mmul_fail(err, MMUL_ERR_SYSTEM,
                           "the child process of the baseline ended before its last result");
    else if (status == MMUL_OK && answer->error.status != MMUL_OK)
        status = (*err = answer->error).status;
    if (status == MMUL_OK)
        memcpy(seconds, answer->seconds, times_bytes);
    mmul_free(answer);
    return status;
}

// Returns the number of cores, or fewer if the cgroup's CPU quota grants less time than that.
static int count_threads(const struct mmul_topology *topology) {
    int cores = mmul_cpuset_count(&topology->core_first_units);
    if (topology->cpu_quota > 0 && topology->cpu_quota < cores)
        cores = (int)topology->cpu_quota;
    return cores > 0 ? cores : 1;
}

static enum mmul_status check_memory(const struct mmul_baseline *size, int64_t available_bytes,
                                     struct mmul_error *err) {
    const double m = (double)size->m, n = (double)size->n, k = (double)size->k;
    const double need_bytes = sizeof(float) * (m * k + k * n + m * n);
    char need[32], available[32];
    if (need_bytes <= (double)available_bytes)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_SYSTEM, "the baseline needs %s of memory, %s are available",
                     mmul_bytes_format(need_bytes < 9e18 ? (int64_t)need_bytes : INT64_MAX, need),
                     mmul_bytes_format(available_bytes, available));
}

static enum mmul_status measure_on_root(const struct mmul_baseline *baseline, double *seconds,
                                        int *threads, struct mmul_error *err) {
    struct mmul_topology topology;
    struct job job = {.baseline = baseline};
    enum mmul_status status = mmul_topology_discover(&topology, err);
    if (status == MMUL_OK)
        status = check_memory(baseline, topology.memory_available_bytes, err);
    if (status != MMUL_OK)
        return status;
    job.cores = topology.core_first_units;
    job.threads = *threads = count_threads(&topology);
    return run_child(&job, seconds, err);
}

enum mmul_status mmul_baseline_run(struct mmul_context *context,
                                   const struct mmul_baseline *baseline, double *seconds,
                                   int *threads, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (context->comm->rank == 0)
        status = measure_on_root(baseline, seconds, threads, err);
    return mmul_comm_agree(context->comm, status, err);
}
