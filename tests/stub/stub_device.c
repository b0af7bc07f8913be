// SPDX-License-Identifier: MIT
//
// A minimal device backend: this file and KIND(stub) in the registry, which the Makefile adds to
// the program of tests/cli/stub.bats. "stub:0" and "stub:1" are cards with memory of their own that
// compute by plain loops. MMUL_STUBS is their number.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "device/device.h"
#include "device/host_buffer.h"
#include "device/probe.h"
#include "device/reference_map.h"

enum { STUBS_MOST = 2 };

static struct mmul_device_info infos[STUBS_MOST]; // descriptions of the open devices

static bool is_name(const char *text) {
    return strncmp(text, "stub:", 5) == 0 && text[5] >= '0' && text[5] < '0' + STUBS_MOST &&
           text[6] == '\0';
}

static int count_stubs(void) {
    const char *count = getenv("MMUL_STUBS");
    int stubs = count != NULL ? atoi(count) : 0;
    return stubs < STUBS_MOST ? stubs : STUBS_MOST;
}

static struct mmul_device_info make_info(int index) {
    struct mmul_device_info info = {.vendor = "tests",
                                    .platform = "stubs",
                                    .driver = "1",
                                    .type = MMUL_DEVICE_GPU,
                                    .usable = true,
                                    .compute_units = 1,
                                    .memory_bytes = 1 << 30,
                                    .max_allocation_bytes = 1 << 28};
    snprintf(info.id, sizeof info.id, "stub:%d", index);
    snprintf(info.name, sizeof info.name, "Stub %d000", index + 3);
    return info;
}

static enum mmul_status probe_stubs(const struct mmul_probe_options *options,
                                    struct mmul_probe *probe, struct mmul_error *err) {
    (void)options;
    for (int i = 0; i < count_stubs(); i++) {
        const struct mmul_device_info info = make_info(i);
        mmul_probe_add_device(probe, &info);
    }
    return count_stubs() < STUBS_MOST
               ? mmul_probe_add_warning(probe, "a slot for a stub is empty", err)
               : MMUL_OK;
}

static enum mmul_status open_stub(const char *text, void **self, struct mmul_error *err) {
    int index = text[5] - '0';
    if (index >= count_stubs())
        return mmul_fail(err, MMUL_ERR_UNAVAILABLE, "'%s' is not plugged in", text);
    infos[index] = make_info(index);
    *self = &infos[index];
    return MMUL_OK;
}

static void close_stub(void *self, bool lost) {
    (void)self;
    (void)lost;
}

static void describe(const void *self, struct mmul_device_info *info) {
    const struct mmul_device_info *own = self;
    *info = *own;
}

static float at(struct mmul_operand x, bool transpose, int64_t r, int64_t c) {
    return mmul_host_floats(x)[transpose ? c * x.ld + r : r * x.ld + c];
}

static enum mmul_status gemm(void *self, const struct mmul_gemm *args, struct mmul_error *err) {
    (void)self;
    (void)err;
    for (int64_t e = 0; e < args->m * args->n; e++) {
        int64_t i = e / args->n, j = e % args->n;
        float *c = mmul_host_floats(args->c) + i * args->c.ld + j, sum = 0;
        for (int64_t p = 0; p < args->k; p++)
            sum += at(args->a, args->transpose_a, i, p) * at(args->b, args->transpose_b, p, j);
        *c = args->alpha * sum + (args->beta == 0 ? 0 : args->beta * *c);
    }
    return MMUL_OK;
}

const struct mmul_device_table mmul_stub_table = {
    .kind = "stub",
    .names = "stub:K",
    .next = "cpu",
    .is_name = is_name,
    .probe = probe_stubs,
    .open = open_stub,
    .close = close_stub,
    .describe = describe,
    .buffer_create = mmul_host_buffer_create,
    .buffer_destroy = mmul_host_buffer_destroy,
    .upload = mmul_host_upload,
    .download = mmul_host_download,
    .gemm = gemm,
    .map = mmul_reference_map,
};
