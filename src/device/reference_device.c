// SPDX-License-Identifier: MIT
// The specification of a device: three plain loops, sums in double (for float64: in long double),
// each element rounded to its type once. Deliberately slow and never tuned; every other device must
// agree with it. Also the last resort if the CPU's library computes a wrong block.
#include "device/host_buffer.h"
#include "device/matrix_sums.h"
#include "device/reference_map.h"
#include "device/registry.h"

#include <string.h>
#include <unistd.h>

static enum mmul_status open_reference(const char *text, void **self, struct mmul_error *err) {
    (void)text;
    (void)err;
    *self = NULL;
    return MMUL_OK;
}

static void close_reference(void *self, bool lost) {
    (void)self;
    (void)lost;
}

static void describe(const void *self, struct mmul_device_info *info) {
    (void)self;
    int64_t bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    *info = (struct mmul_device_info){
        .id = "reference",
        .name = "reference",
        .vendor = "mpimatmul",
        .platform = "plain loops",
        .driver = MMUL_VERSION,
        .type = MMUL_DEVICE_CPU,
        .has_double = true,
        .compute_units = 1,
        .memory_bytes = bytes,
        .max_allocation_bytes = bytes,
        .reason = "deliberately slow: the written specification",
    };
}

// Returns element (r, c) of op(X), where X is `x` as stored.
static double element(struct mmul_operand x, bool transpose, int64_t r, int64_t c) {
    return transpose ? mmul_host_floats(x)[c * x.ld + r] : mmul_host_floats(x)[r * x.ld + c];
}

static long double element64(struct mmul_operand x, bool transpose, int64_t r, int64_t c) {
    return mmul_host_doubles(x)[transpose ? c * x.ld + r : r * x.ld + c];
}

static void multiply64(const struct mmul_gemm *args) {
    for (int64_t i = 0; i < args->m; i++) {
        for (int64_t j = 0; j < args->n; j++) {
            long double sum = 0;
            for (int64_t p = 0; p < args->k; p++) {
                sum += element64(args->a, args->transpose_a, i, p) *
                       element64(args->b, args->transpose_b, p, j);
            }
            double *c = mmul_host_doubles(args->c) + i * args->c.ld + j;
            long double old = args->beta == 0 ? 0 : (long double)args->beta * *c;
            *c = (double)((long double)args->alpha * sum + old);
        }
    }
}

static enum mmul_status gemm(void *self, const struct mmul_gemm *args, struct mmul_error *err) {
    (void)self;
    (void)err;
    if (args->dtype == MMUL_F64) {
        multiply64(args);
        return MMUL_OK;
    }
    for (int64_t i = 0; i < args->m; i++) {
        for (int64_t j = 0; j < args->n; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < args->k; p++) {
                sum += element(args->a, args->transpose_a, i, p) *
                       element(args->b, args->transpose_b, p, j);
            }
            float *c = mmul_host_floats(args->c) + i * args->c.ld + j;
            double old = args->beta == 0 ? 0.0 : args->beta * (double)*c;
            *c = (float)(args->alpha * sum + old);
        }
    }
    return MMUL_OK;
}

static enum mmul_status project(void *self, const struct mmul_matrix_sums *args,
                                struct mmul_error *err) {
    (void)self;
    (void)err;
    mmul_matrix_sums_compute(args, mmul_host_floats(args->x), args->x.ld);
    return MMUL_OK;
}

static bool is_name(const char *text) {
    return strcmp(text, "reference") == 0;
}

const struct mmul_device_table mmul_reference_table = {
    .kind = "reference",
    .names = "reference",
    .is_plain = true,
    .is_trusted = true,
    .is_name = is_name,
    .open = open_reference,
    .close = close_reference,
    .describe = describe,
    .has_dtype = mmul_host_has_dtype,
    .buffer_create = mmul_host_buffer_create,
    .buffer_destroy = mmul_host_buffer_destroy,
    .buffer_borrow = mmul_host_buffer_borrow,
    .upload = mmul_host_upload,
    .download = mmul_host_download,
    .gemm = gemm,
    .map = mmul_reference_map,
    .project = project,
};
