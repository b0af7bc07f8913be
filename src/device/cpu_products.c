// SPDX-License-Identifier: MIT
// Products through OpenBLAS, its threads and their memory. OpenBLAS counts in int: a larger size or
// row distance is processed in blocks. A block with a too large row distance has a single stored
// row, so that the distance does not matter. Does not bind threads (host/topology) and does not
// choose their number.
#include "device/cpu_products.h"

#include <cblas.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/integer.h"
#include "base/memory.h"
#include "device/address_space.h"
#include "device/host_buffer.h"

// --------------------------------------------------------------------------------------- buffers

// OpenBLAS 0.3 maps a buffer of 128 MiB per thread: for its workers when they start (before main),
// and for the calling thread at its first product. If that fails it retries forever; a worker
// without room for its stack interrupts the process. Address space is therefore checked beforehand.
// Under a limit on address space, the caller's buffer is mapped at once: it stays mapped, so that
// later mappings cannot prevent it. All this belongs to the process, and so do these counters.
enum { THREAD_BYTES = (128 + 8) << 20, PROGRAM_BYTES = 96 << 20, THREAD_ROWS = 64, SIDE = 128 };

static _Atomic int threads_at_start, threads_with_buffers;

static int count_buffers(void) {
    if (atomic_load(&threads_at_start) == 0) {
        atomic_store(&threads_at_start, openblas_get_num_threads());
        atomic_store(&threads_with_buffers, openblas_get_num_threads() - 1);
    }
    return atomic_load(&threads_with_buffers);
}

enum mmul_status mmul_process_check(struct mmul_error *err) {
    const int threads = openblas_get_num_threads();
    count_buffers();
    return mmul_address_space_check_total(PROGRAM_BYTES + (int64_t)threads * THREAD_BYTES,
                                          "the program and OpenBLAS's threads", err);
}

static enum mmul_status check_address_space(int threads, struct mmul_error *err) {
    const int missing = threads - count_buffers();
    return missing <= 0
               ? MMUL_OK
               : mmul_address_space_check(missing, THREAD_BYTES, "OpenBLAS's threads", err);
}

// The number of OpenBLAS threads belongs to the process, too: the last number that any device was
// given. It is one while any device multiplies on threads of the caller. No other code sets it.
static struct {
    atomic_flag is_taken;
    int threads; // requested; 0: none yet
    int alone;   // devices that multiply on threads of the caller
} thread_count = {.is_taken = ATOMIC_FLAG_INIT};

static void update_thread_count(int threads, int alone) {
    count_buffers(); // records the number at the start
    while (atomic_flag_test_and_set(&thread_count.is_taken))
        sched_yield();
    if (threads > 0)
        thread_count.threads = threads;
    thread_count.alone += alone;
    openblas_set_num_threads(thread_count.alone > 0     ? 1
                             : thread_count.threads > 0 ? thread_count.threads
                                                        : atomic_load(&threads_at_start));
    atomic_flag_clear(&thread_count.is_taken);
}

void mmul_cpu_set_threads(void *self, int threads) {
    struct mmul_error later; // the first product reports the failure
    struct mmul_cpu *cpu = self;
    cpu->threads = threads;
    if (check_address_space(threads, &later) == MMUL_OK)
        update_thread_count(threads, 0);
}

// Multiplies once with all threads, so that each maps its buffer.
static enum mmul_status map_buffers(int threads, struct mmul_error *err) {
    const int m = threads * THREAD_ROWS;
    float *a, *b, *c;
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("a first product", err, MMUL_ARRAY(a, (int64_t)m * SIDE),
                          MMUL_ARRAY(b, SIDE * SIDE), MMUL_ARRAY(c, (int64_t)m * SIDE));
    if (status == MMUL_OK)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, SIDE, SIDE, 1, a, SIDE, b, SIDE,
                    0, c, SIDE);
    MMUL_FREE_ALL(a, b, c);
    return status;
}

static enum mmul_status reserve_buffers(void *self, struct mmul_error *err) {
    const struct mmul_cpu *cpu = self;
    const int have = count_buffers();
    const int threads = (int)mmul_max(cpu->threads, atomic_load(&threads_at_start));
    if (threads <= have)
        return MMUL_OK;
    enum mmul_status status = check_address_space(threads, err);
    if (status == MMUL_OK && mmul_address_space_is_limited())
        status = map_buffers(threads, err);
    if (status == MMUL_OK)
        atomic_store(&threads_with_buffers, threads);
    return status;
}

enum mmul_status mmul_cpu_warm_up(void *self, enum mmul_dtype dtype, double most,
                                  struct mmul_error *err) {
    (void)dtype, (void)most;
    return reserve_buffers(self, err);
}

// ------------------------------------------------------------------------------------------ gemm

// The largest part of a product that one call of OpenBLAS takes.
struct block {
    int64_t m, n, k;
};

// A row distance beyond int belongs to a block of one stored row, where any legal value works.
static int row_distance(int64_t ld) {
    return (int)mmul_min(ld, INT_MAX);
}

// Computes the part of C that begins at (i, j) with the terms from p on; it fits `block`.
static void multiply_block(const struct mmul_gemm *args, struct block block, int64_t i, int64_t j,
                           int64_t p) {
    struct mmul_operand a = args->a, b = args->b, c = args->c;
    a.offset += args->transpose_a ? p * a.ld + i : i * a.ld + p;
    b.offset += args->transpose_b ? j * b.ld + p : p * b.ld + j;
    c.offset += i * c.ld + j;
    const CBLAS_TRANSPOSE of_a = args->transpose_a ? CblasTrans : CblasNoTrans;
    const CBLAS_TRANSPOSE of_b = args->transpose_b ? CblasTrans : CblasNoTrans;
    const int m = (int)mmul_min(block.m, args->m - i);
    const int n = (int)mmul_min(block.n, args->n - j);
    const int k = (int)mmul_min(block.k, args->k - p);
    const double beta = p == 0 ? args->beta : 1;
    if (args->dtype == MMUL_F64)
        cblas_dgemm(CblasRowMajor, of_a, of_b, m, n, k, args->alpha, mmul_host_doubles(a),
                    row_distance(a.ld), mmul_host_doubles(b), row_distance(b.ld), beta,
                    mmul_host_doubles(c), row_distance(c.ld));
    else
        cblas_sgemm(CblasRowMajor, of_a, of_b, m, n, k, (float)args->alpha, mmul_host_floats(a),
                    row_distance(a.ld), mmul_host_floats(b), row_distance(b.ld), (float)beta,
                    mmul_host_floats(c), row_distance(c.ld));
}

void mmul_cpu_multiply(const struct mmul_gemm *args) {
    struct block block = {INT_MAX, INT_MAX, INT_MAX};
    if (args->a.ld > INT_MAX)
        *(args->transpose_a ? &block.k : &block.m) = 1;
    if (args->b.ld > INT_MAX)
        *(args->transpose_b ? &block.n : &block.k) = 1;
    if (args->c.ld > INT_MAX)
        block.m = 1;
    for (int64_t i = 0; i < args->m; i += block.m) {
        for (int64_t j = 0; j < args->n; j += block.n)
            for (int64_t p = 0; p < args->k; p += block.k)
                multiply_block(args, block, i, j, p);
    }
}

// OpenBLAS's threads spin for milliseconds after each product, on cores that others need. Waiting
// for such a thread takes longer than it gains: one thread computes a product of so few operations.
static const double FEW_FLOPS = 2e6;

enum mmul_status mmul_cpu_gemm(void *self, const struct mmul_gemm *args, struct mmul_error *err) {
    const double flops = 2 * (double)args->m * (double)args->n * (double)args->k;
    enum mmul_status status = reserve_buffers(self, err);
    if (status == MMUL_OK && flops < FEW_FLOPS)
        update_thread_count(0, 1);
    if (status == MMUL_OK)
        mmul_cpu_multiply(args);
    if (status == MMUL_OK && flops < FEW_FLOPS)
        update_thread_count(0, -1);
    return status;
}

bool mmul_cpu_gemm_depends_on_cut(const void *self) {
    (void)self;
    return true;
}

// Every thread that calls OpenBLAS takes a buffer during the call, besides those of OpenBLAS's
// threads. With limited address space only one part is allowed.
enum mmul_status mmul_cpu_begin_products(void *self, int *parts, struct mmul_error *err) {
    enum mmul_status status = reserve_buffers(self, err);
    if (mmul_address_space_is_limited())
        *parts = 1;
    update_thread_count(0, 1);
    return status;
}

void mmul_cpu_end_products(void *self) {
    (void)self;
    update_thread_count(0, -1);
}
