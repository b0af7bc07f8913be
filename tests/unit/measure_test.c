// SPDX-License-Identifier: MIT
// Timing a device: chosen sizes, number of repeats, and work done before the clock starts. The
// device is the test's own and records its calls. The clock is simulated: it moves only when the
// device works or the clock is read, so load on the machine does not matter.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/median.h"
#include "device/host_buffer.h"
#include "device/map.h"
#include "exec/setup/measure.h"
#include "model/dtype.h"

struct recorder {
    double nap_seconds;
    double growth;              // growth of the nap per gemm; 0: none
    int slow_point, slow_gemms; // at this size so many gemms nap longer
    double slow_factor;
    int64_t memory_bytes;
    int gemms[MMUL_SPEED_POINTS]; // by size
    int uploads, downloads;       // after the products
    int burst;                    // gemms until a long nap, as under a CPU quota; 0: none
    double period_seconds;        // length of that nap
    int fails_at;                 // number of the gemm that fails, from 1
    int gemm_count;
    enum mmul_dtype dtype; // type of the last gemm
};

static int64_t clock_ns;

// Replaces the C library's function.
int clock_gettime(clockid_t clock, struct timespec *now) {
    (void)clock;
    clock_ns += 200;
    *now = (struct timespec){.tv_sec = clock_ns / 1000000000, .tv_nsec = clock_ns % 1000000000};
    return 0;
}

static void work_for(double seconds) {
    clock_ns += (int64_t)(seconds * 1e9);
}

static double transfer_seconds(int64_t rows, int64_t cols) {
    return (double)(rows * cols) * sizeof(float) / 10e9;
}

static enum mmul_status gemm(void *self, const struct mmul_gemm *args, struct mmul_error *err) {
    struct recorder *r = self;
    int point = 0;
    while ((int64_t)MMUL_SPEED_SMALLEST << point < args->m)
        point++;
    assert_int_equal(args->m, (int64_t)MMUL_SPEED_SMALLEST << point);
    assert_int_equal(args->n, args->m);
    assert_int_equal(args->k, args->m);
    r->gemms[point]++;
    // Operands must have been written before, up to their last element.
    const struct mmul_operand operands[] = {args->a, args->b, args->c};
    r->dtype = args->dtype;
    for (int i = 0; i < 3; i++)
        assert_true(mmul_dtype_get_real(args->dtype, mmul_host_floats(operands[i]),
                                        args->m * args->m - 1) != 0);
    bool is_slow = r->slow_gemms > 0 && point == r->slow_point;
    r->slow_gemms -= is_slow;
    work_for(is_slow ? r->slow_factor * r->nap_seconds : r->nap_seconds);
    r->nap_seconds *= r->growth > 0 ? r->growth : 1;
    if (r->burst > 0 && r->gemm_count % r->burst == r->burst - 1)
        work_for(r->period_seconds);
    if (++r->gemm_count == r->fails_at) {
        err->status = MMUL_ERR_UNAVAILABLE;
        return MMUL_ERR_UNAVAILABLE;
    }
    return MMUL_OK;
}

static enum mmul_status upload(void *self, const struct mmul_upload *u, struct mmul_error *err) {
    struct recorder *r = self;
    r->uploads++;
    work_for(transfer_seconds(u->rows, u->cols));
    return mmul_host_upload(self, u, err);
}

static enum mmul_status download(void *self, const struct mmul_download *d,
                                 struct mmul_error *err) {
    struct recorder *r = self;
    r->downloads++;
    work_for(transfer_seconds(d->rows, d->cols));
    return mmul_host_download(self, d, err);
}

static void describe(const void *self, struct mmul_device_info *info) {
    const struct recorder *r = self;
    *info = (struct mmul_device_info){.memory_bytes = r->memory_bytes,
                                      .max_allocation_bytes = r->memory_bytes};
}

static bool has_dtype(const void *self, enum mmul_dtype dtype) {
    (void)self;
    return dtype == MMUL_F32 || dtype == MMUL_F64;
}

static const struct mmul_device_table table = {
    .kind = "recorder",
    .describe = describe,
    .buffer_create = mmul_host_buffer_create,
    .buffer_destroy = mmul_host_buffer_destroy,
    .upload = upload,
    .download = download,
    .gemm = gemm,
    .has_dtype = has_dtype,
};

static enum mmul_status measure(struct recorder *r, bool thorough, int64_t memory_bytes,
                                struct mmul_speed *speed) {
    struct mmul_device device = {.table = &table, .self = r};
    const struct mmul_measure_request request = {.thorough = thorough,
                                                 .memory_bytes = memory_bytes};
    struct mmul_error err = {.text = ""};
    enum mmul_status status = mmul_measure_device(&device, &request, speed, &err);
    assert_int_equal(mmul_live_bytes(), 0);
    return status;
}

static const int64_t GIB = (int64_t)1 << 30;

static void a_brief_measurement_ends_at_the_first_long_size(void **state) {
    (void)state;
    struct recorder r = {.nap_seconds = 0.021, .memory_bytes = GIB};
    struct mmul_speed speed = {.warm_up_seconds = 3, .origin = MMUL_SPEED_MEASURED};
    assert_int_equal(measure(&r, false, GIB, &speed), MMUL_OK);
    assert_int_equal(speed.measured_points, 1);
    assert_true(r.gemms[0] >= 1 + 3 && r.gemms[0] <= 1 + 6); // more if naps differ
    assert_int_equal(r.gemms[1], 0);
    assert_true(speed.flops[0] > 0 && speed.flops[0] <= 2.0 * 256 * 256 * 256 / 0.021);
    for (int i = 1; i < MMUL_SPEED_POINTS; i++)
        assert_true(speed.flops[i] == speed.flops[0]);
    assert_true(speed.upload_bytes_per_second > 0 && speed.download_bytes_per_second > 0);
    assert_true(speed.warm_up_seconds == 3 && speed.origin == MMUL_SPEED_MEASURED);
}

// A long job makes one more size worth its time.
static void a_long_job_is_measured_at_one_more_size(void **state) {
    (void)state;
    for (int is_long = 0; is_long < 2; is_long++) {
        struct recorder r = {.nap_seconds = 0.013, .memory_bytes = GIB};
        struct mmul_device device = {.table = &table, .self = &r};
        const struct mmul_measure_request request = {.is_long = is_long,
                                                     .memory_bytes = 4 * 4 * 512 * 512};
        struct mmul_speed speed = {0};
        struct mmul_error err;
        assert_int_equal(mmul_measure_device(&device, &request, &speed, &err), MMUL_OK);
        assert_int_equal(speed.measured_points, 1 + is_long);
    }
}

// A short product is repeated until it fills a time span, three times over.
static void short_products_are_repeated_to_fill_their_span(void **state) {
    (void)state;
    struct recorder r = {.nap_seconds = 0.0025, .memory_bytes = GIB};
    struct mmul_speed speed = {0};
    double begin = mmul_clock_now();
    assert_int_equal(measure(&r, false, 4 * 4 * 256 * 256, &speed), MMUL_OK); // one size
    assert_true(r.gemms[0] > 1 + 3 && r.gemms[0] <= 1 + 6 * 4);
    assert_true(mmul_clock_now() - begin >= 3 * 0.01);
    assert_true(speed.flops[0] <= 2.0 * 256 * 256 * 256 / 0.0025);
}

// A job that is over in a moment is measured only briefly, yet long enough to notice a quota.
static void a_short_job_is_not_measured_for_long(void **state) {
    (void)state;
    const double nap = 0.0004, flop = 2.0 * 256 * 256 * 256;
    struct recorder r = {.nap_seconds = nap, .memory_bytes = GIB};
    struct mmul_device device = {.table = &table, .self = &r};
    struct mmul_measure_request request = {.memory_bytes = 4 * 4 * 256 * 256}; // one size
    struct mmul_error err;
    // Products of the job: a 400th of their time is 0.1 ms, 2 ms, 1 s.
    const double products[] = {100, 2000, 1e6};
    const int least[] = {1 + 3 * 3, 1 + 3 * 5, 1 + 3 * 25};
    for (int i = 0; i < 3; i++) {
        struct mmul_speed speed = {0};
        request.job_flops = products[i] * flop;
        r.gemm_count = 0;
        assert_int_equal(mmul_measure_device(&device, &request, &speed, &err), MMUL_OK);
        assert_in_range(r.gemm_count, least[i], least[i] + 1);
        assert_true(fabs(speed.flops[0] * nap / flop - 1) < 0.01);
    }
    r = (struct recorder){
        .nap_seconds = 0.0006, .burst = 20, .period_seconds = 0.08, .memory_bytes = GIB};
    struct mmul_speed speed = {0};
    request.period_seconds = r.period_seconds;
    request.job_flops = 100 * flop;
    assert_int_equal(mmul_measure_device(&device, &request, &speed, &err), MMUL_OK);
    assert_true(speed.flops[0] <= flop * r.burst / r.period_seconds);
}

static void times_that_never_agree_are_unstable(void **state) {
    (void)state;
    struct recorder r = {.nap_seconds = 0.04, .growth = 1 / 1.3, .memory_bytes = GIB};
    struct mmul_speed speed = {0};
    assert_int_equal(measure(&r, false, 4 * 4 * 256 * 256, &speed), MMUL_OK); // one size
    assert_int_equal(speed.unstable & 1, 1);
    r = (struct recorder){.nap_seconds = 0.021, .memory_bytes = GIB};
    assert_int_equal(measure(&r, false, 4 * 4 * 256 * 256, &speed), MMUL_OK);
    assert_int_equal(speed.unstable & 1, 0);
}

// The machine is busy during the first timings: later ones agree on the true time.
static void a_busy_moment_is_outlasted(void **state) {
    (void)state;
    struct recorder r = {
        .nap_seconds = 0.021, .slow_gemms = 1 + 2, .slow_factor = 4, .memory_bytes = GIB};
    struct mmul_speed speed = {0};
    assert_int_equal(measure(&r, false, 4 * 4 * 256 * 256, &speed), MMUL_OK);
    assert_true(r.gemms[0] >= 1 + 2 + 2 && r.gemms[0] <= 1 + 6);
    assert_true(speed.flops[0] > 2.0 * 256 * 256 * 256 / (2 * r.nap_seconds));
    assert_int_equal(speed.unstable & 1, 0);
}

// All products nap equally, so 512 should have eight times the rate of 256. A nap of 16 times the
// length looks like a drop in rate.
static void a_drop_from_size_to_size_is_timed_again(void **state) {
    (void)state;
    struct recorder passing = {.nap_seconds = 0.003,
                               .slow_point = 1,
                               .slow_gemms = 1 + 3, // the first timing of that size
                               .slow_factor = 16,
                               .memory_bytes = GIB};
    struct recorder lasting = passing;
    struct mmul_speed speed = {0};
    lasting.slow_gemms = 1000;
    assert_int_equal(measure(&passing, false, 4 * 4 * 512 * 512, &speed), MMUL_OK);
    assert_int_equal(speed.unstable & 2, 0);
    assert_true(speed.flops[1] > speed.flops[0]);
    assert_int_equal(measure(&lasting, false, 4 * 4 * 512 * 512, &speed), MMUL_OK);
    assert_int_equal(speed.unstable & 2, 2);
    assert_true(lasting.gemms[1] >= 2 * (1 + 3) && lasting.gemms[1] <= 3 * (1 + 6));
}

static void float64_is_measured_beside_float32(void **state) {
    (void)state;
    struct recorder r = {.nap_seconds = 0.021, .memory_bytes = GIB};
    struct mmul_device device = {.table = &table, .self = &r};
    const struct mmul_measure_request request = {.dtype = MMUL_F64, .memory_bytes = GIB};
    struct mmul_speed speed = {.flops = {5, 6, 7, 8, 9},
                               .measured_points = 5,
                               .pack_a_seconds = 2,
                               .unstable = 1U << 3 | 1U << MMUL_UNSTABLE_DOUBLES << 4};
    struct mmul_error err = {.text = ""};
    assert_int_equal(mmul_measure_device(&device, &request, &speed, &err), MMUL_OK);
    assert_int_equal(r.dtype, MMUL_F64);
    assert_int_equal(speed.double_points, 1);
    assert_true(speed.double_flops[0] > 0 &&
                speed.double_flops[0] <= 2.0 * 256 * 256 * 256 / 0.021);
    assert_true(speed.double_flops[4] == speed.double_flops[0]);
    assert_true(speed.flops[0] == 5 && speed.flops[4] == 9 && speed.measured_points == 5);
    assert_true(speed.pack_a_seconds == 2 && speed.upload_bytes_per_second > 0);
    assert_int_equal(speed.unstable & 1U << 3, 1U << 3);
    assert_int_equal(speed.unstable & 1U << MMUL_UNSTABLE_DOUBLES << 4, 0);
    assert_int_equal(mmul_live_bytes(), 0);
    // Known transfer speeds are not measured again.
    const struct mmul_measure_request keeping = {
        .dtype = MMUL_F64, .memory_bytes = GIB, .has_transfers = true};
    r.downloads = 0;
    speed.upload_bytes_per_second = 17;
    speed.unstable |= MMUL_UNSTABLE_TRANSFERS;
    assert_int_equal(mmul_measure_device(&device, &keeping, &speed, &err), MMUL_OK);
    assert_true(r.downloads == 0 && speed.upload_bytes_per_second == 17);
    assert_true((speed.unstable & MMUL_UNSTABLE_TRANSFERS) != 0);
}

static void a_quota_is_measured_over_its_period(void **state) {
    (void)state;
    struct recorder r = {
        .nap_seconds = 0.0006, .burst = 20, .period_seconds = 0.08, .memory_bytes = GIB};
    struct mmul_device device = {.table = &table, .self = &r};
    const struct mmul_measure_request request = {.memory_bytes = 4 * 4 * 256 * 256, // one size
                                                 .period_seconds = r.period_seconds};
    struct mmul_speed speed = {0};
    struct mmul_error err;
    assert_int_equal(mmul_measure_device(&device, &request, &speed, &err), MMUL_OK);
    // The timing spans a burst and its nap; without knowing the period, 10 ms would lie within a
    // burst.
    assert_true(speed.flops[0] <= 2.0 * 256 * 256 * 256 * r.burst / r.period_seconds);
}

static void a_thorough_measurement_takes_every_size_that_fits(void **state) {
    (void)state;
    struct recorder r = {.nap_seconds = 0.051, .memory_bytes = GIB};
    struct mmul_speed speed = {0};
    assert_int_equal(measure(&r, true, 4 * 4 * 1024 * 1024, &speed), MMUL_OK);
    assert_int_equal(speed.measured_points, 3);
    for (int i = 0; i < MMUL_SPEED_POINTS; i++)
        assert_true(i < 3 ? r.gemms[i] >= 1 + 3 && r.gemms[i] <= 3 * (1 + 10) : r.gemms[i] == 0);
    assert_true(speed.flops[1] != speed.flops[0] && speed.flops[4] == speed.flops[2]);
}

static void a_thorough_measurement_skips_sizes_that_take_too_long(void **state) {
    (void)state;
    struct recorder r = {.nap_seconds = 0.13, .memory_bytes = GIB};
    struct mmul_speed speed = {0};
    assert_int_equal(measure(&r, true, GIB, &speed), MMUL_OK);
    assert_int_equal(speed.measured_points, 1);
    assert_true(r.gemms[0] >= 1 + 3 && r.gemms[0] <= 1 + 10);
}

static void a_small_device_gets_small_squares(void **state) {
    (void)state;
    // Room for three squares of 512 twice over, not for 1024.
    struct recorder r = {.nap_seconds = 0, .memory_bytes = 2 * 3 * 4 * 512 * 512};
    struct mmul_speed speed = {0};
    assert_int_equal(measure(&r, true, GIB, &speed), MMUL_OK);
    assert_int_equal(speed.measured_points, 2);
}

static void transfers_are_measured_on_devices_with_memory_of_their_own(void **state) {
    (void)state;
    struct recorder r = {.nap_seconds = 0.021, .memory_bytes = 64 << 20};
    struct mmul_speed speed = {0};
    assert_int_equal(measure(&r, false, 64 << 20, &speed), MMUL_OK);
    int products = 3; // uploads of the one size
    assert_true(r.uploads - products >= 4 && r.downloads >= 4);
    struct mmul_device_table borrowing = table;
    borrowing.buffer_borrow = mmul_host_buffer_borrow;
    struct mmul_device device = {.table = &borrowing, .self = &r};
    const struct mmul_measure_request request = {.memory_bytes = GIB};
    struct mmul_error err;
    r.downloads = 0;
    assert_int_equal(mmul_measure_device(&device, &request, &speed, &err), MMUL_OK);
    assert_int_equal(r.downloads, 0);
    assert_true(speed.upload_bytes_per_second == 0 && speed.download_bytes_per_second == 0);
}

// A thorough measurement takes the median: each product takes 2 % longer than the one before, and
// the first is ignored.
static void a_thorough_measurement_takes_the_median(void **state) {
    (void)state;
    const double nap = 0.06, growth = 1.02;
    struct recorder r = {.nap_seconds = nap, .growth = growth, .memory_bytes = GIB};
    struct mmul_speed speed = {0};
    assert_int_equal(measure(&r, true, 4 * 4 * 256 * 256, &speed), MMUL_OK); // one size
    assert_int_equal(r.gemms[0], 1 + 3);
    double median = nap * growth * growth;
    assert_true(fabs(speed.flops[0] * median / (2.0 * 256 * 256 * 256) - 1) < 1e-3);
}

enum { PACKING_SIDE = 1024 }; // large enough for the check to use several threads
static const double PACK_A = 3e-8, PACK_B = 5e-8, EACH = 2e-10;

static enum mmul_status packing_gemm(void *self, const struct mmul_gemm *args,
                                     struct mmul_error *err) {
    (void)self, (void)err;
    double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    work_for(PACK_A * m * k + PACK_B * k * n + EACH * m * n * k);
    return MMUL_OK;
}

static const double ADDING = 1e10; // bytes per second

static enum mmul_status adding_map(void *self, const struct mmul_map *args,
                                   struct mmul_error *err) {
    (void)self, (void)err;
    assert_int_equal(args->kind, MMUL_ADD);
    assert_int_equal(args->parallel.threads, 2);
    work_for(3 * (double)args->rows * (double)args->cols * sizeof(float) / ADDING);
    return MMUL_OK;
}

// Threads of a rank; every part takes the same time.
static void run_parts(int parts, mmul_work *work, void *context) {
    work_for(1e-3);
    for (int i = 0; i < parts; i++)
        work(context, i);
}

// Packing is measured with products of few rows or columns, in a thorough measurement of devices
// that compute in host memory. So is the memory traffic of an addition and of the check.
static void packing_and_memory_are_measured_in_host_memory(void **state) {
    (void)state;
    struct mmul_device_table packing = table;
    packing.gemm = packing_gemm;
    packing.buffer_borrow = mmul_host_buffer_borrow;
    packing.map = adding_map;
    for (int thorough = 0; thorough < 2; thorough++) {
        struct recorder r = {.memory_bytes = GIB};
        struct mmul_device device = {.table = &packing, .self = &r};
        const struct mmul_measure_request request = {.thorough = thorough,
                                                     .memory_bytes =
                                                         4 * 4 * PACKING_SIDE * PACKING_SIDE,
                                                     .parallel = {2, run_parts}};
        struct mmul_speed speed = {0};
        struct mmul_error err;
        assert_int_equal(mmul_measure_device(&device, &request, &speed, &err), MMUL_OK);
        assert_true(fabs(speed.pack_a_seconds - (thorough ? PACK_A : 0)) < 1e-3 * PACK_A);
        assert_true(fabs(speed.pack_b_seconds - (thorough ? PACK_B : 0)) < 1e-3 * PACK_B);
        assert_true(fabs(speed.map_bytes_per_second - (thorough ? ADDING : 0)) < 1e-2 * ADDING);
        // One pass over each of B, A and C.
        const double rate = sizeof(float) * PACKING_SIDE * PACKING_SIDE / 1e-3;
        assert_true(fabs(speed.check_bytes_per_second - (thorough ? rate : 0)) < 1e-2 * rate);
    }
    assert_int_equal(mmul_live_bytes(), 0);
}

static void a_failing_device_leaves_the_speed_unchanged(void **state) {
    (void)state;
    for (int fails_at = 1; fails_at <= 4; fails_at++) {
        struct recorder r = {.nap_seconds = 0.021, .memory_bytes = GIB, .fails_at = fails_at};
        struct mmul_speed speed = {.flops = {5}};
        assert_int_equal(measure(&r, false, GIB, &speed), MMUL_ERR_UNAVAILABLE);
        assert_true(speed.flops[0] == 5 && speed.measured_points == 0);
    }
}

static void the_median_is_the_lower_middle(void **state) {
    (void)state;
    double one[] = {3}, two[] = {4, 2}, three[] = {9, 1, 5}, five[] = {5, 4, 1, 2, 3};
    assert_true(mmul_median(one, 1) == 3);
    assert_true(mmul_median(two, 2) == 2);
    assert_true(mmul_median(three, 3) == 5);
    assert_true(mmul_median(five, 5) == 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_brief_measurement_ends_at_the_first_long_size),
        cmocka_unit_test(a_long_job_is_measured_at_one_more_size),
        cmocka_unit_test(short_products_are_repeated_to_fill_their_span),
        cmocka_unit_test(a_short_job_is_not_measured_for_long),
        cmocka_unit_test(times_that_never_agree_are_unstable),
        cmocka_unit_test(a_busy_moment_is_outlasted),
        cmocka_unit_test(a_drop_from_size_to_size_is_timed_again),
        cmocka_unit_test(float64_is_measured_beside_float32),
        cmocka_unit_test(a_quota_is_measured_over_its_period),
        cmocka_unit_test(a_thorough_measurement_takes_every_size_that_fits),
        cmocka_unit_test(a_thorough_measurement_skips_sizes_that_take_too_long),
        cmocka_unit_test(a_small_device_gets_small_squares),
        cmocka_unit_test(transfers_are_measured_on_devices_with_memory_of_their_own),
        cmocka_unit_test(a_thorough_measurement_takes_the_median),
        cmocka_unit_test(packing_and_memory_are_measured_in_host_memory),
        cmocka_unit_test(a_failing_device_leaves_the_speed_unchanged),
        cmocka_unit_test(the_median_is_the_lower_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
