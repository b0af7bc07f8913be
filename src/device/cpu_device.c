// SPDX-License-Identifier: MIT
//
// The CPU through OpenBLAS. The only file that includes cblas.h.
// OpenBLAS counts in int: a size or a row distance beyond that is worked off in blocks, the ones
// whose row distance is too large having a single stored row, so that the distance does not matter.
// Does not bind threads (host/topology) and does not choose their number: it is told.
#include "device/host_buffer.h"
#include "device/registry.h"

#include <cblas.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/text.h"

struct cpu {
    struct mmul_device_info info;
};

// ------------------------------------------------------------------------------------ description

// Copies the value of the first "key : value" line of /proc/cpuinfo; "" when there is none.
static void read_cpuinfo(const char *key, char *value, size_t capacity) {
    value[0] = '\0';
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL)
        return;
    char line[512];
    while (value[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) == 0 && colon != NULL) {
            char *text = colon + 1 + strspn(colon + 1, " \t");
            text[strcspn(text, "\n")] = '\0';
            mmul_text_copy(value, capacity, text);
        }
    }
    fclose(file);
}

static void fill_info(struct mmul_device_info *info) {
    cpu_set_t set;
    bool has_set = sched_getaffinity(0, sizeof set, &set) == 0;
    int64_t bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    *info = (struct mmul_device_info){
        .id = "cpu",
        .platform = "OpenBLAS",
        .type = MMUL_DEVICE_CPU,
        .usable = true,
        .compute_units = has_set ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN),
        .memory_bytes = bytes,
        .max_allocation_bytes = bytes,
    };
    read_cpuinfo("model name", info->name, sizeof info->name);
    if (info->name[0] == '\0') // not every architecture has that line
        mmul_text_copy(info->name, sizeof info->name, openblas_get_corename());
    read_cpuinfo("vendor_id", info->vendor, sizeof info->vendor);
    mmul_text_copy(info->driver, sizeof info->driver, openblas_get_config());
}

static enum mmul_status open_cpu(const char *text, void **self, struct mmul_error *err) {
    (void)text;
    struct cpu *cpu = mmul_allocate(1, sizeof *cpu, "a device", err);
    if (cpu == NULL)
        return err->status;
    fill_info(&cpu->info);
    *self = cpu;
    return MMUL_OK;
}

static void close_cpu(void *self, bool lost) {
    (void)lost;
    mmul_free(self);
}

static void describe(const void *self, struct mmul_device_info *info) {
    const struct cpu *cpu = self;
    *info = cpu->info;
}

static void set_threads(void *self, int threads) {
    (void)self;
    openblas_set_num_threads(threads);
}

// ------------------------------------------------------------------------------------------ gemm

// The largest part of a product that one call of OpenBLAS takes.
struct block {
    int64_t m, n, k;
};

static struct block block_of(const struct mmul_gemm *args) {
    struct block block = {INT_MAX, INT_MAX, INT_MAX};
    if (args->a.ld > INT_MAX)
        *(args->transpose_a ? &block.k : &block.m) = 1;
    if (args->b.ld > INT_MAX)
        *(args->transpose_b ? &block.n : &block.k) = 1;
    if (args->c.ld > INT_MAX)
        block.m = 1;
    return block;
}

// A row distance beyond int belongs to a block of one stored row, where any legal value will do.
static int row_distance(int64_t ld) {
    return (int)mmul_smaller(ld, INT_MAX);
}

// The part of C that begins at (i, j), with the terms from p on; it fits `block`.
static void multiply_block(const struct mmul_gemm *args, struct block block, int64_t i, int64_t j,
                           int64_t p) {
    const float *a = mmul_host_address(args->a);
    const float *b = mmul_host_address(args->b);
    float *c = mmul_host_address(args->c);
    a += args->transpose_a ? p * args->a.ld + i : i * args->a.ld + p;
    b += args->transpose_b ? j * args->b.ld + p : p * args->b.ld + j;
    c += i * args->c.ld + j;
    cblas_sgemm(CblasRowMajor, args->transpose_a ? CblasTrans : CblasNoTrans,
                args->transpose_b ? CblasTrans : CblasNoTrans,
                (int)mmul_smaller(block.m, args->m - i), (int)mmul_smaller(block.n, args->n - j),
                (int)mmul_smaller(block.k, args->k - p), args->alpha, a, row_distance(args->a.ld),
                b, row_distance(args->b.ld), p == 0 ? args->beta : 1.0f, c,
                row_distance(args->c.ld));
}

static enum mmul_status gemm(void *self, const struct mmul_gemm *args, struct mmul_error *err) {
    (void)self;
    (void)err;
    const struct block block = block_of(args);
    for (int64_t i = 0; i < args->m; i += block.m) {
        for (int64_t j = 0; j < args->n; j += block.n)
            for (int64_t p = 0; p < args->k; p += block.k)
                multiply_block(args, block, i, j, p);
    }
    return MMUL_OK;
}

const struct mmul_device_table mmul_cpu_table = {
    .kind = "cpu",
    .open = open_cpu,
    .close = close_cpu,
    .describe = describe,
    .buffer_create = mmul_host_buffer_create,
    .buffer_destroy = mmul_host_buffer_destroy,
    .buffer_borrow = mmul_host_buffer_borrow,
    .upload = mmul_host_upload,
    .download = mmul_host_download,
    .gemm = gemm,
    .set_threads = set_threads,
};
