// SPDX-License-Identifier: MIT
// Device tests as a decision of all ranks: choose the devices, test them one after the other on
// each rank, store the results. device/self_test.c decides if a device is right,
// exec/setup/measure.c times it.
#include "exec/setup/device_test.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/kernel_trial.h"
#include "device/self_test.h"
#include "device/tuning.h"
#include "exec/setup/calibrate.h"
#include "exec/setup/measure.h"
#include "exec/setup/profile.h"
#include "exec/threads/device_timeout.h"
#include "io/profile_file.h"

static const double CALL_MOST_SECONDS = 60, PRODUCT_MOST_SECONDS = 1;

enum { ESTIMATE_SIDE = 256 };

struct testing {
    struct mmul_context *context;
    double call_seconds;
    struct mmul_device_test *mine; // owned
    int count;
};

// ----------------------------------------------------------------------------------------- targets

// Makes the result that stays if the process ends during the test.
static struct mmul_device_test begin_test(const struct mmul_context *context, const char *device,
                                          const struct mmul_device_info *info) {
    struct mmul_device_test test = {
        .rank = context->comm->rank, .info = *info, .counts = info->probed};
    mmul_text_copy(test.device, sizeof test.device, device);
    mmul_text_copy(test.failure, sizeof test.failure,
                   "its test did not finish: the program was stopped, or the driver killed it");
    mmul_profile_date(test.date);
    return test;
}

static enum mmul_status choose_targets(struct testing *t, struct mmul_error *err) {
    const struct mmul_context *context = t->context;
    const struct mmul_cluster *cluster = context->cluster;
    struct mmul_device_info info;
    enum mmul_status status = MMUL_ALLOCATE(t->mine, cluster->device_count + 1, "tests", err);
    if (status != MMUL_OK)
        return status;
    mmul_device_describe(context->device, &info);
    t->mine[t->count++] = begin_test(context, context->device_name, &info);
    for (int i = 0; i < cluster->device_count; i++) {
        const struct mmul_device_entry *entry = &cluster->devices[i];
        if (context->chosen && context->comm->node_rank == 0 &&
            entry->node == context->comm->node_index && entry->used_by < 0 &&
            (entry->info.usable || entry->failed_test))
            t->mine[t->count++] = begin_test(context, entry->info.id, &entry->info);
    }
    return MMUL_OK;
}

// ------------------------------------------------------------------------------------- one device

struct subject {
    struct mmul_device *device;
    int64_t memory_bytes;
    struct mmul_device_test *test;
};

// Times products of growing size while the next one is expected to take at most a second.
static enum mmul_status time_products(const struct subject *s, struct mmul_error *err) {
    double seconds;
    bool unstable;
    int64_t before = ESTIMATE_SIDE;
    enum mmul_status status =
        mmul_measure_square(s->device, before, s->memory_bytes, &seconds, &unstable, err);
    for (int i = 0; i < MMUL_TESTED_SIZES && status == MMUL_OK && seconds > 0; i++) {
        const int64_t n = (int64_t)MMUL_TESTED_SMALLEST << i;
        const double growth = (double)n / (double)before;
        if (seconds * growth * growth * growth > PRODUCT_MOST_SECONDS)
            break;
        status = mmul_measure_square(s->device, n, s->memory_bytes, &seconds, &unstable, err);
        s->test->unstable |= unstable ? 1U << i : 0;
        if (status == MMUL_OK && seconds > 0)
            s->test->flops[i] = 2.0 * (double)n * (double)n * (double)n / seconds;
        before = n;
    }
    return status;
}

static enum mmul_status test_and_time(void *argument, struct mmul_error *err) {
    const struct subject *s = argument;
    struct mmul_speed speed = {0};
    enum mmul_status status = mmul_device_self_test(s->device, MMUL_F32, err);
    if (status == MMUL_OK && s->test->has_double)
        status = mmul_device_self_test(s->device, MMUL_F64, err);
    if (status == MMUL_OK)
        status = time_products(s, err);
    if (status != MMUL_OK || mmul_device_can_borrow(s->device))
        return status;
    status = mmul_measure_transfers(s->device, s->memory_bytes, &speed, err);
    s->test->upload_bytes_per_second = speed.upload_bytes_per_second;
    s->test->unstable |= speed.unstable;
    s->test->download_bytes_per_second = speed.download_bytes_per_second;
    return status;
}

static enum mmul_status test_open_device(const struct testing *t, struct subject *s,
                                         struct mmul_error *err) {
    struct mmul_error untuned;
    int kernels = 0;
    const struct mmul_timed_work examining = {
        .device = s->device, .work = test_and_time, .argument = s, .call_seconds = t->call_seconds};
    mmul_device_set_threads(s->device, t->context->cluster->ranks[t->context->comm->rank].threads);
    if (mmul_tuning_apply_stored(s->device, &kernels, &untuned) != MMUL_OK)
        mmul_context_warn(t->context, "rank %d: %s", t->context->comm->rank, untuned.text);
    s->test->has_double = mmul_device_has_dtype(s->device, MMUL_F64);
    enum mmul_status status = mmul_warm_up_with_timeout(s->device, MMUL_F32, INFINITY, err);
    if (status == MMUL_OK && s->test->has_double)
        status = mmul_warm_up_with_timeout(s->device, MMUL_F64, INFINITY, err);
    return status == MMUL_OK ? mmul_run_with_timeout(&examining, err) : status;
}

// Tests one device. Fails only for reasons that are not the device's fault.
static enum mmul_status test_device(const struct testing *t, struct mmul_device_test *test,
                                    struct mmul_error *err) {
    struct subject subject = {.memory_bytes = mmul_calibrate_memory_bytes(t->context),
                              .test = test};
    struct mmul_error found = {0};
    enum mmul_status status = mmul_device_open(test->device, &subject.device, &found);
    if (status == MMUL_OK) {
        status = test_open_device(t, &subject, &found);
        mmul_device_close(subject.device);
    }
    test->passed = status == MMUL_OK;
    test->counts = status != MMUL_ERR_SYSTEM;
    mmul_text_copy(test->failure, sizeof test->failure, status == MMUL_OK ? "" : found.text);
    if (test->info.kernels[0] != '\0')
        mmul_kernels_compare(&test->kernels);
    if (test->counts)
        return MMUL_OK;
    *err = found;
    return status;
}

// ------------------------------------------------------------------------------------------ whole

// Collective. Copies the present results of all ranks to all ranks and into the profiles.
static enum mmul_status store_results(const struct testing *t, struct mmul_error *err) {
    struct mmul_context *context = t->context;
    void *all = NULL;
    int64_t total = 0;
    enum mmul_status status = mmul_comm_allgather_varying(
        context->comm, t->mine, t->count * (int64_t)sizeof *t->mine, &all, &total, err);
    if (status != MMUL_OK)
        return status;
    mmul_free(context->tests);
    context->tests = all;
    context->test_count = (int)(total / (int64_t)sizeof *context->tests);
    status = mmul_profile_store_tests(context, context->tests, context->test_count, err);
    return mmul_comm_agree(context->comm, status, err);
}

enum mmul_status mmul_test_devices(struct mmul_context *context, double device_timeout_seconds,
                                   struct mmul_error *err) {
    struct testing t = {.context = context,
                        .call_seconds = device_timeout_seconds > 0 ? device_timeout_seconds
                                                                   : CALL_MOST_SECONDS};
    struct mmul_error untested = {0};
    enum mmul_status status = mmul_comm_agree(context->comm, choose_targets(&t, err), err);
    if (status == MMUL_OK)
        status = mmul_profile_choose_paths(context, err);
    if (status == MMUL_OK)
        status = store_results(&t, err);
    for (int i = 0; i < t.count && status == MMUL_OK && untested.status == MMUL_OK; i++)
        untested.status = test_device(&t, &t.mine[i], &untested);
    if (status == MMUL_OK)
        status = store_results(&t, err);
    if (status == MMUL_OK) {
        *err = untested.status != MMUL_OK ? untested : *err;
        status = mmul_comm_agree(context->comm, untested.status, err);
    }
    mmul_free(t.mine);
    return status;
}
