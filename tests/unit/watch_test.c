// SPDX-License-Identifier: MIT
// Work on a device with calls that return, fail, or block until the test releases them. Abandoned
// work never continues, and no further call enters that device.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "exec/threads/device_timeout.h"

// A device that only warms up. Static: an abandoned thread stays in it until the process ends.
static struct {
    atomic_bool hangs, left; // a call blocks while `hangs`; `left`: one has returned
    bool fails;
    int warm_ups, closes;
} stub;

static enum mmul_status warm_up(void *self, enum mmul_dtype dtype, double most,
                                struct mmul_error *err) {
    (void)dtype, (void)most;
    (void)self;
    stub.warm_ups++;
    while (atomic_load(&stub.hangs))
        mmul_clock_sleep(1e-3);
    atomic_store(&stub.left, true);
    return stub.fails ? mmul_fail(err, MMUL_ERR_UNAVAILABLE, "it burnt down") : MMUL_OK;
}

static void close_stub(void *self, bool lost) {
    (void)self;
    (void)lost;
    stub.closes++;
}

static void describe(const void *self, struct mmul_device_info *info) {
    (void)self;
    *info = (struct mmul_device_info){.id = "7:0", .name = "stub"};
}

static const struct mmul_device_table table = {
    .kind = "stub", .describe = describe, .warm_up = warm_up, .close = close_stub};

static struct mmul_device device;
static atomic_int went_on; // number of times work continued after its call

static enum mmul_status call_device(void *argument, struct mmul_error *err) {
    enum mmul_status status = mmul_device_warm_up(argument, MMUL_F32, INFINITY, err);
    atomic_fetch_add(&went_on, 1);
    return status;
}

static enum mmul_status run_watched(double call_seconds, struct mmul_error *err) {
    return mmul_run_with_timeout(&(struct mmul_timed_work){.device = &device,
                                                           .work = call_device,
                                                           .argument = &device,
                                                           .call_seconds = call_seconds},
                                 err);
}

static int reset(void **state) {
    (void)state;
    memset(&stub, 0, sizeof stub);
    device = (struct mmul_device){.table = &table};
    atomic_store(&went_on, 0);
    return 0;
}

static void work_that_ends_returns_its_status(void **state) {
    (void)state;
    struct mmul_error err = {.text = ""};
    assert_int_equal(run_watched(60, &err), MMUL_OK);
    assert_true(mmul_device_call_seconds(&device) == 0);
    assert_int_equal(atomic_load(&went_on), 1);
    stub.fails = true;
    assert_int_equal(run_watched(60, &err), MMUL_ERR_UNAVAILABLE);
    assert_string_equal(err.text, "it burnt down");
    assert_true(device.lost);
}

static void a_call_that_does_not_return_is_abandoned(void **state) {
    (void)state;
    struct mmul_error err = {.text = ""};
    atomic_store(&stub.hangs, true);
    assert_int_equal(run_watched(0.05, &err), MMUL_ERR_UNAVAILABLE);
    assert_string_equal(err.text, "device '7:0 (stub)' hangs: a call exceeded 0.05 s");
    assert_true(device.lost);

    // The device is neither called again nor closed.
    assert_int_equal(mmul_device_warm_up(&device, MMUL_F32, INFINITY, &err), MMUL_ERR_UNAVAILABLE);
    assert_int_equal(stub.warm_ups, 1);
    mmul_device_close(&device);
    assert_int_equal(stub.closes, 0);

    // The driver wakes up: its thread stops there.
    atomic_store(&stub.hangs, false);
    for (int i = 0; i < 1000 && !atomic_load(&stub.left); i++)
        mmul_clock_sleep(1e-3);
    assert_true(atomic_load(&stub.left));
    mmul_clock_sleep(0.05);
    assert_int_equal(atomic_load(&went_on), 0);
    assert_int_equal(mmul_device_warm_up(&device, MMUL_F32, INFINITY, &err), MMUL_ERR_UNAVAILABLE);
    assert_int_equal(stub.warm_ups, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(work_that_ends_returns_its_status, reset),
        cmocka_unit_test_setup(a_call_that_does_not_return_is_abandoned,
                               reset), // leaves a thread: last
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
