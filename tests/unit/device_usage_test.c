// SPDX-License-Identifier: MIT
// A run's joules from a counter in a file: earlier use does not count, a counter is read before it
// wraps around twice, and a device replaced during the run has no figure.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "exec/setup/context.h"
#include "exec/status/device_usage.h"
#include "folder.h"

static struct folder folder;
static char path[MMUL_SENSOR_PATH];

static int begin(void **state) {
    (void)state;
    folder_create(&folder);
    assert_in_range(snprintf(path, sizeof path, "%s/energy_uj", folder.path), 1, sizeof path - 1);
    return 0;
}

static int end(void **state) {
    (void)state;
    return unlink(path) != 0 || rmdir(folder.path) != 0;
}

static void set_counter(int64_t microjoules) {
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fprintf(stream, "%lld\n", (long long)microjoules);
    assert_int_equal(fclose(stream), 0);
}

// Returns a context with sensors already found, for a counter that wraps around at 10 J.
static struct mmul_context make_context(void) {
    static struct mmul_device_usage device_usage;
    struct mmul_context context = {.device_usage = &device_usage};
    struct mmul_sensors *sensors = &device_usage.sensors;
    device_usage = (struct mmul_device_usage){.is_open = true};
    set_counter(1000000);
    sensors->energy_counter_count = 1;
    sensors->energy_counters[0] =
        (struct mmul_energy_counter){.last = 1000000, .largest = 10000000};
    memcpy(sensors->energy_counters[0].path, path, sizeof path);
    return context;
}

static void energy_before_a_run_does_not_count(void **state) {
    (void)state;
    struct mmul_context context = make_context();
    for (int run = 0; run < 3; run++) {
        set_counter(2000000 + run * 2000000);
        mmul_device_usage_begin_run(&context, 0);
        set_counter(3000000 + run * 2000000);
        assert_true(fabs(mmul_device_usage_joules(&context) - 1) < 1e-9);
    }
}

static void a_counter_is_read_before_it_wraps_around_twice(void **state) {
    (void)state;
    struct mmul_context context = make_context();
    mmul_device_usage_begin_run(&context, 0);
    const double now = mmul_clock_now();
    set_counter(9000000);
    mmul_device_usage_poll(&context, now + 29);
    set_counter(500000); // the second wrap-around; the first one was seen
    mmul_device_usage_poll(&context, now + 31);
    set_counter(9500000);
    mmul_device_usage_poll(&context, now + 62);
    set_counter(1000000);
    assert_true(fabs(mmul_device_usage_joules(&context) - (9.5 + 9 + 1.5)) < 1e-9);
}

static void a_replaced_device_has_no_figure(void **state) {
    (void)state;
    struct mmul_context context = make_context();
    mmul_device_usage_begin_run(&context, 0);
    context.replacements++;
    assert_true(isnan(mmul_device_usage_joules(&context)));
}

static void a_device_without_a_counter_has_no_figure(void **state) {
    (void)state;
    struct mmul_context context = make_context();
    context.device_usage->sensors.energy_counter_count = 0;
    mmul_device_usage_begin_run(&context, 0);
    mmul_device_usage_poll(&context, mmul_clock_now() + 100);
    assert_true(isnan(mmul_device_usage_joules(&context)));
    context = make_context();
    mmul_device_usage_begin_run(&context, 0);
    assert_int_equal(unlink(path), 0);
    assert_true(isnan(mmul_device_usage_joules(&context)));
    set_counter(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(energy_before_a_run_does_not_count),
        cmocka_unit_test(a_counter_is_read_before_it_wraps_around_twice),
        cmocka_unit_test(a_replaced_device_has_no_figure),
        cmocka_unit_test(a_device_without_a_counter_has_no_figure),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
