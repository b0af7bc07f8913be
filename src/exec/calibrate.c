// SPDX-License-Identifier: MIT
// Calibration by timed multiplication. Measures the device alone (operands already on it), not
// transfers; stores nothing.
#include "exec/calibrate.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"

// A measurement shorter than this says more about launch time than about the device.
static const double ENOUGH_SECONDS = 0.02;
enum { SMALLEST = 256, LARGEST = 2048, REPEATS = 3 };

struct square {
    struct mmul_device *device;
    struct mmul_buffer *a, *b, *c;
    int64_t n;
};

static void square_fini(struct square *s) {
    mmul_device_buffer_destroy(s->device, s->c);
    mmul_device_buffer_destroy(s->device, s->b);
    mmul_device_buffer_destroy(s->device, s->a);
}

// host: n * n floats.
static enum mmul_status square_init(struct square *s, const float *host, struct mmul_error *err) {
    struct mmul_buffer **buffers[] = {&s->a, &s->b, &s->c};
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < 3; i++) {
        status = mmul_device_buffer_create(s->device, s->n * s->n, buffers[i], err);
        const struct mmul_operand to = {.buffer = *buffers[i], .ld = s->n};
        if (status == MMUL_OK)
            status = mmul_device_upload(s->device, to, s->n, s->n, host, s->n, MMUL_F32, err);
    }
    return status == MMUL_OK ? mmul_device_wait(s->device, err) : status;
}

static enum mmul_status time_once(struct square *s, double *seconds, struct mmul_error *err) {
    const struct mmul_gemm args = {.m = s->n,
                                   .n = s->n,
                                   .k = s->n,
                                   .alpha = 1,
                                   .a = {.buffer = s->a, .ld = s->n},
                                   .b = {.buffer = s->b, .ld = s->n},
                                   .c = {.buffer = s->c, .ld = s->n}};
    double begin = mmul_clock_now();
    enum mmul_status status = mmul_device_gemm(s->device, &args, err);
    if (status == MMUL_OK)
        status = mmul_device_wait(s->device, err);
    *seconds = mmul_clock_now() - begin;
    return status;
}

static double median_of_three(const double *x) {
    double low = x[0] < x[1] ? x[0] : x[1], high = x[0] < x[1] ? x[1] : x[0];
    return x[2] < low ? low : x[2] > high ? high : x[2];
}

// One size: a warm-up, then three. Seconds of the median.
static enum mmul_status time_square(struct mmul_device *device, const float *host, int64_t n,
                                    double *median, struct mmul_error *err) {
    struct square s = {.device = device, .n = n};
    double seconds[REPEATS];
    enum mmul_status status = square_init(&s, host, err);
    if (status == MMUL_OK)
        status = time_once(&s, &seconds[0], err);
    for (int i = 0; status == MMUL_OK && i < REPEATS; i++)
        status = time_once(&s, &seconds[i], err);
    if (status == MMUL_OK)
        *median = median_of_three(seconds);
    square_fini(&s);
    return status;
}

// `host`: LARGEST squared floats.
static enum mmul_status measure(struct mmul_context *context, const float *host, double *flops,
                                struct mmul_error *err) {
    double seconds = 0;
    int64_t n = SMALLEST / 2;
    enum mmul_status status = mmul_context_warm_up(context, err);
    while (status == MMUL_OK && seconds < ENOUGH_SECONDS && n < LARGEST) {
        n *= 2;
        status = time_square(context->device, host, n, &seconds, err);
    }
    if (status == MMUL_OK)
        *flops = 2.0 * (double)n * (double)n * (double)n / (seconds > 1e-9 ? seconds : 1e-9);
    return status;
}

// One measurement, and one more on the next device if the first fails.
static enum mmul_status measure_or_replace(struct mmul_context *context, bool no_fallback,
                                           const float *host, double *flops,
                                           struct mmul_error *err) {
    enum mmul_status status = measure(context, host, flops, err);
    if (status == MMUL_OK)
        return status;
    status = mmul_context_fall_back(context, no_fallback, err);
    return status == MMUL_OK ? measure(context, host, flops, err) : status;
}

// What the others need to know of a rank after its device was measured, or replaced.
struct measured {
    double speed_flops;
    bool host_memory;
    char device_name[128];
    struct mmul_device_info device;
};

static struct measured describe(const struct mmul_context *context, double flops) {
    struct measured mine = {.speed_flops = flops,
                            .host_memory = mmul_device_can_borrow(context->device)};
    mmul_text_copy(mine.device_name, sizeof mine.device_name, context->device_name);
    mmul_device_describe(context->device, &mine.device);
    return mine;
}

static void store(struct mmul_cluster *cluster, const struct measured *all) {
    for (int rank = 0; rank < cluster->size; rank++) {
        struct mmul_rank_info *info = &cluster->ranks[rank];
        info->speed_flops = all[rank].speed_flops;
        info->host_memory = all[rank].host_memory;
        info->device = all[rank].device;
        mmul_text_copy(info->device_name, sizeof info->device_name, all[rank].device_name);
    }
}

enum mmul_status mmul_calibrate(struct mmul_context *context, bool no_fallback,
                                struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    const int64_t count = (int64_t)LARGEST * LARGEST;
    struct measured *all = NULL;
    float *host = NULL;
    double flops = 0;
    enum mmul_status status = mmul_allocate(comm->size, sizeof *all, "speeds", (void **)&all, err);
    if (status == MMUL_OK)
        status = mmul_allocate(count, sizeof *host, "calibration", (void **)&host, err);
    for (int64_t i = 0; status == MMUL_OK && i < count; i++)
        host[i] = (float)(mmul_random_at(1, (uint64_t)i) >> 40) * 0x1p-24f - 0.5f;
    if (status == MMUL_OK)
        status = measure_or_replace(context, no_fallback, host, &flops, err);
    status = mmul_comm_agree(comm, status, err);
    const struct measured mine = describe(context, flops);
    if (status == MMUL_OK)
        status = mmul_comm_share(comm, &mine, sizeof mine, all, err);
    if (status == MMUL_OK)
        store(context->cluster, all);
    mmul_free(host);
    mmul_free(all);
    return status;
}
