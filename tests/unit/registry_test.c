// SPDX-License-Identifier: MIT
//
// Device names, order of fallbacks, and the effect of every rule of a faulty device. Opens only cpu
// and reference: no OpenCL here.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/device.h"

// ----------------------------------------------------------------------------------------- names

static void names_are_accepted_or_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *error; // NULL: accepted
    } cases[] = {
        {"cpu", NULL},
        {"reference", NULL},
        {"0:0", NULL},
        {"12:3", NULL},
        {"faulty:delay=5ms:cpu", NULL},
        {"faulty:repeat=4,corrupt=*,everywhere:0:1", NULL},
        {"faulty:fail=1:faulty:delay=1us:reference", NULL},
        {"", "'' is not a device name"},
        {"gpu", "'gpu' is not a device name"},
        {"0:", "'0:' is not a device name"},
        {":0", "':0' is not a device name"},
        {"0:0:0", "'0:0:0' is not a device name"},
        {"-1:0", "'-1:0' is not a device name"},
        {"12345:0", "'12345:0' is not a device name"},
        {"faulty", "'faulty' is not a device name"},
        {"faulty:cpu", "'faulty:cpu' is not of the form faulty:RULES:NAME"},
        {"faulty::cpu", "'faulty::cpu' is not of the form faulty:RULES:NAME"},
        {"faulty:everywhere:", "'' is not a device name"},
        {"faulty:slow=2:cpu", "unknown faulty rule 'slow'"},
        {"faulty:fail-open=1:cpu", "faulty rule 'fail-open' takes no value"},
        {"faulty:fail:cpu", "faulty rule 'fail' needs a value"},
        {"faulty:delay=5:cpu", "faulty rule delay: '5' is not a time from 0s to 3600s such as 5ms"},
        {"faulty:delay=-5ms:cpu",
         "faulty rule delay: '-5' is not a time from 0s to 3600s such as 5ms"},
        {"faulty:clock=260ms:cpu", NULL},
        {"faulty:clock=5:cpu", "faulty rule clock: '5' is not a time from 0s to 3600s such as 5ms"},
        {"faulty:clock:cpu", "faulty rule 'clock' needs a value"},
        {"faulty:repeat=4,from=3,hang=2:cpu", NULL},
        {"faulty:from=0:cpu", "faulty rule from: '0' is not a whole number from 1 to 1000000"},
        {"faulty:hang=*,wake=1.5s:cpu", NULL},
        {"faulty:wake=1:cpu", "faulty rule wake: '1' is not a time from 0s to 3600s such as 5ms"},
        {"faulty:hang:cpu", "faulty rule 'hang' needs a value"},
        {"faulty:repeat=0:cpu", "faulty rule repeat: '0' is not a whole number from 1 to 1000000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_error err = {0};
        enum mmul_status status = mmul_device_check_name(cases[i].text, &err);
        assert_int_equal(status, cases[i].error == NULL ? MMUL_OK : MMUL_ERR_USAGE);
        assert_string_equal(err.text, cases[i].error == NULL ? "" : cases[i].error);
    }
}

static void names_that_are_too_long_are_refused(void **state) {
    (void)state;
    char text[200];
    memset(text, '1', sizeof text);
    memcpy(text, "faulty:fail=", 12);
    memcpy(text + sizeof text - 5, ":cpu", 5);
    struct mmul_error err = {0};
    assert_int_equal(mmul_device_check_name(text, &err), MMUL_ERR_USAGE);
    assert_non_null(strstr(err.text, "is longer than 120 characters"));
}

static void mistyped_names_get_a_hint(void **state) {
    (void)state;
    struct mmul_error err = {0};
    assert_int_equal(mmul_device_check_name("referense", &err), MMUL_ERR_USAGE);
    assert_string_equal(err.hint, "did you mean 'reference'?");
}

static void every_device_has_a_fallback(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"0:0", "cpu"},
        {"cpu", "reference"},
        {"reference", NULL},
        {"faulty:fail=1:0:0", "cpu"},
        {"faulty:fail=1:cpu", "reference"},
        {"faulty:fail=1:reference", NULL},
        {"faulty:fail=1,everywhere:3:1", "faulty:fail=1,everywhere:cpu"},
        {"faulty:everywhere,corrupt=*:cpu", "faulty:everywhere,corrupt=*:reference"},
        {"faulty:everywhere,corrupt=*:reference", NULL},
        {"faulty:everywhere:faulty:fail=1:0:0", "faulty:everywhere:cpu"},
        {"faulty:fail=1:faulty:everywhere:0:0", "faulty:everywhere:cpu"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char next[128];
        const char *found = mmul_device_fallback_name(cases[i][0], next);
        if (cases[i][1] == NULL) {
            assert_null(found);
        } else {
            assert_non_null(found);
            assert_string_equal(found, cases[i][1]);
        }
    }
}

// ------------------------------------------------------------------------------- a small product

enum { M = 3, N = 5, K = 7 };

// A device with A, B and C of a small exact product on it.
struct bench {
    struct mmul_device *device;
    struct mmul_buffer *a, *b, *c;
    float result[M * N];
    struct mmul_error err;
};

static float a_at(int i, int p) {
    return (float)((i * 3 + p * 5) % 9 - 4);
}
static float b_at(int p, int j) {
    return (float)((p * 2 + j * 7) % 9 - 4);
}

static void upload_whole(struct bench *bench, struct mmul_buffer *buffer, const float *values,
                         int rows, int cols) {
    struct mmul_operand to = {buffer, 0, cols};
    assert_int_equal(
        mmul_device_upload(bench->device,
                           &(struct mmul_upload){to, rows, cols, values, cols, MMUL_F32},
                           &bench->err),
        MMUL_OK);
}

static void setup(struct bench *bench, const char *name) {
    memset(bench, 0, sizeof *bench);
    float a[M * K], b[K * N], c[M * N];
    for (int e = 0; e < M * K; e++)
        a[e] = a_at(e / K, e % K);
    for (int e = 0; e < K * N; e++)
        b[e] = b_at(e / N, e % N);
    for (int e = 0; e < M * N; e++)
        c[e] = 1.0f;
    assert_int_equal(mmul_device_open(name, &bench->device, &bench->err), MMUL_OK);
    assert_int_equal(
        mmul_device_buffer_create(bench->device, MMUL_F32, M * K, &bench->a, &bench->err), 0);
    assert_int_equal(
        mmul_device_buffer_create(bench->device, MMUL_F32, K * N, &bench->b, &bench->err), 0);
    assert_int_equal(
        mmul_device_buffer_create(bench->device, MMUL_F32, M * N, &bench->c, &bench->err), 0);
    upload_whole(bench, bench->a, a, M, K);
    upload_whole(bench, bench->b, b, K, N);
    upload_whole(bench, bench->c, c, M, N);
}

static enum mmul_status multiply(struct bench *bench, float beta) {
    const struct mmul_gemm args = {
        .m = M,
        .n = N,
        .k = K,
        .alpha = 1.0f,
        .beta = beta,
        .a = {bench->a, 0, K},
        .b = {bench->b, 0, N},
        .c = {bench->c, 0, N},
    };
    enum mmul_status status = mmul_device_gemm(bench->device, &args, &bench->err);
    if (status == MMUL_OK) {
        struct mmul_operand from = {bench->c, 0, N};
        status = mmul_device_download(
            bench->device, &(struct mmul_download){from, M, N, bench->result, N, MMUL_F32},
            &bench->err);
    }
    return status == MMUL_OK ? mmul_device_wait(bench->device, &bench->err) : status;
}

static void teardown(struct bench *bench) {
    mmul_device_buffer_destroy(bench->device, bench->a);
    mmul_device_buffer_destroy(bench->device, bench->b);
    mmul_device_buffer_destroy(bench->device, bench->c);
    mmul_device_close(bench->device);
    assert_int_equal(mmul_live_bytes(), 0);
}

// Returns the number of elements of the result that differ from A B + added.
static int count_wrong(const struct bench *bench, float added) {
    int wrong = 0;
    for (int e = 0; e < M * N; e++) {
        float sum = added;
        for (int p = 0; p < K; p++)
            sum += a_at(e / N, p) * b_at(p, e % N);
        wrong += bench->result[e] != sum;
    }
    return wrong;
}

// ----------------------------------------------------------------------------------------- rules

static void a_failing_multiplication_loses_the_device(void **state) {
    (void)state;
    struct bench bench;
    setup(&bench, "faulty:fail=3:cpu");
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_int_equal(count_wrong(&bench, 0.0f), 0);
    assert_false(bench.device->lost);
    assert_int_equal(multiply(&bench, 0.0f), MMUL_ERR_UNAVAILABLE);
    assert_string_equal(bench.err.text,
                        "device 'faulty:fail=3:cpu' was lost at multiplication 3 by rule");
    assert_true(bench.device->lost);
    assert_int_equal(multiply(&bench, 0.0f), MMUL_ERR_UNAVAILABLE);
    assert_string_equal(bench.err.text,
                        "device 'cpu (faulty:fail=3:cpu)' failed earlier and is lost");
    teardown(&bench);
}

static void fail_star_fails_the_first_multiplication(void **state) {
    (void)state;
    struct bench bench;
    setup(&bench, "faulty:fail=*:reference");
    assert_int_equal(multiply(&bench, 0.0f), MMUL_ERR_UNAVAILABLE);
    teardown(&bench);
}

static void corrupt_changes_one_element_of_one_result(void **state) {
    (void)state;
    struct bench bench;
    setup(&bench, "faulty:corrupt=2:cpu");
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_int_equal(count_wrong(&bench, 0.0f), 0);
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_int_equal(count_wrong(&bench, 0.0f), 1);
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_int_equal(count_wrong(&bench, 0.0f), 0);
    teardown(&bench);
}

static void corrupt_star_changes_every_result(void **state) {
    (void)state;
    struct bench bench;
    setup(&bench, "faulty:corrupt=*:reference");
    for (int i = 0; i < 10; i++) {
        assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
        assert_int_equal(count_wrong(&bench, 0.0f), 1);
    }
    teardown(&bench);
}

static void repeat_keeps_the_result_correct(void **state) {
    (void)state;
    struct bench bench;
    setup(&bench, "faulty:repeat=4:cpu");
    assert_true(mmul_device_gemm_temporary_bytes(bench.device, MMUL_F32, M, N, K) >= M * N * 4);
    assert_int_equal(multiply(&bench, 1.0f), MMUL_OK);
    assert_int_equal(count_wrong(&bench, 1.0f), 0);
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_int_equal(count_wrong(&bench, 0.0f), 0);
    teardown(&bench);
}

// The inner device sees every repeat: its third multiplication belongs to the first outer one.
static void repeat_multiplies_several_times(void **state) {
    (void)state;
    struct bench bench;
    setup(&bench, "faulty:repeat=3:faulty:fail=3:cpu");
    assert_int_equal(multiply(&bench, 0.0f), MMUL_ERR_UNAVAILABLE);
    teardown(&bench);
}

static void delay_makes_multiplications_wait(void **state) {
    (void)state;
    struct bench bench;
    setup(&bench, "faulty:delay=30ms:cpu");
    double begin = mmul_clock_now();
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_true(mmul_clock_now() - begin >= 0.030);
    assert_int_equal(count_wrong(&bench, 0.0f), 0);
    teardown(&bench);
}

// Without the rule each multiplication would wait, or cost the inner device three times the work.
static void slow_rules_begin_at_from(void **state) {
    (void)state;
    struct bench bench;
    setup(&bench, "faulty:delay=30ms,from=2:cpu");
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    double begin = mmul_clock_now();
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_true(mmul_clock_now() - begin >= 0.030);
    teardown(&bench);
    setup(&bench, "faulty:delay=3600s,from=3:cpu"); // the test ends long before
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    teardown(&bench);
    // 1, 1, then 3 calls: the fifth is one of these
    setup(&bench, "faulty:repeat=3,from=3:faulty:fail=5:cpu");
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_int_equal(count_wrong(&bench, 0.0f), 0);
    assert_int_equal(multiply(&bench, 0.0f), MMUL_ERR_UNAVAILABLE);
    teardown(&bench);
}

static void striking_every_time_begins_at_from(void **state) {
    (void)state;
    struct bench bench;
    setup(&bench, "faulty:corrupt=*,from=2:cpu");
    for (int call = 1; call <= 3; call++) {
        assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
        assert_int_equal(count_wrong(&bench, 0.0f), call >= 2);
    }
    teardown(&bench);
    setup(&bench, "faulty:fail=*,from=2:cpu");
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_int_equal(multiply(&bench, 0.0f), MMUL_ERR_UNAVAILABLE);
    teardown(&bench);
    setup(&bench, "faulty:corrupt=1,from=2:cpu"); // a plain number is not a share
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_int_equal(count_wrong(&bench, 0.0f), 1);
    teardown(&bench);
}

// Runs in a child, which reports when it reaches the second multiplication and nothing later.
static void hanging_never_returns(void **state) {
    (void)state;
    int pipes[2], status = 0;
    char told[8];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct bench bench;
        setup(&bench, "faulty:hang=2:reference");
        bool ok = multiply(&bench, 0.0f) == MMUL_OK && write(pipes[1], "1", 1) == 1;
        (void)(multiply(&bench, 0.0f) == MMUL_OK && ok && write(pipes[1], "2", 1) == 1);
        _exit(0);
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], told, 1), 1);
    mmul_clock_sleep(0.2);
    assert_int_equal(waitpid(child, &status, WNOHANG), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(read(pipes[0], told, 1), 0);
    close(pipes[0]);
}

static void a_rule_fails_opening(void **state) {
    (void)state;
    struct mmul_device *device = NULL;
    struct mmul_error err = {0};
    assert_int_equal(mmul_device_open("faulty:fail-open:cpu", &device, &err), MMUL_ERR_UNAVAILABLE);
    assert_string_equal(err.text, "cannot open device 'faulty:fail-open:cpu': its rule fail-open");
    assert_null(device);
    assert_int_equal(mmul_live_bytes(), 0);
}

static void a_rule_fails_the_second_allocation(void **state) {
    (void)state;
    struct mmul_device *device = NULL;
    struct mmul_buffer *first = NULL, *second = NULL;
    struct mmul_error err = {0};
    assert_int_equal(mmul_device_open("faulty:fail-alloc=2:cpu", &device, &err), MMUL_OK);
    assert_int_equal(mmul_device_buffer_create(device, MMUL_F32, 10, &first, &err), MMUL_OK);
    assert_int_equal(mmul_device_buffer_create(device, MMUL_F32, 10, &second, &err),
                     MMUL_ERR_UNAVAILABLE);
    assert_string_equal(err.text,
                        "device 'faulty:fail-alloc=2:cpu' was lost at allocation 2 by rule");
    assert_null(second);
    mmul_device_buffer_destroy(device, first);
    mmul_device_close(device);
    assert_int_equal(mmul_live_bytes(), 0);
}

static void rules_fail_transfers(void **state) {
    (void)state;
    struct bench bench;
    setup(&bench, "faulty:fail-upload=4,fail-download=2:cpu"); // set-up uploads three times
    assert_int_equal(multiply(&bench, 0.0f), MMUL_OK);
    assert_int_equal(multiply(&bench, 0.0f), MMUL_ERR_UNAVAILABLE);
    assert_non_null(strstr(bench.err.text, "was lost at download 2 by rule"));
    teardown(&bench);
    setup(&bench, "faulty:fail-upload=4:cpu");
    float value = 1.0f;
    struct mmul_operand to = {bench.a, 0, 1};
    assert_int_equal(mmul_device_upload(bench.device,
                                        &(struct mmul_upload){to, 1, 1, &value, 1, MMUL_F32},
                                        &bench.err),
                     MMUL_ERR_UNAVAILABLE);
    assert_non_null(strstr(bench.err.text, "was lost at upload 4 by rule"));
    teardown(&bench);
}

static void faulty_devices_describe_and_borrow_like_their_inner_one(void **state) {
    (void)state;
    struct bench bench;
    setup(&bench, "faulty:delay=0s:reference");
    struct mmul_device_info info;
    mmul_device_describe(bench.device, &info);
    assert_string_equal(info.id, "reference");
    assert_string_equal(info.name, "faulty:delay=0s:reference");
    assert_false(info.usable);
    assert_true(mmul_device_can_borrow(bench.device));
    float memory[4] = {1.0f, 2.0f, 3.0f, 4.0f}, copy[4] = {0};
    struct mmul_buffer *buffer = NULL;
    assert_int_equal(
        mmul_device_buffer_borrow(bench.device, MMUL_F32, memory, 4, &buffer, &bench.err), 0);
    struct mmul_operand from = {buffer, 0, 4};
    assert_int_equal(mmul_device_download(bench.device,
                                          &(struct mmul_download){from, 1, 4, copy, 4, MMUL_F32},
                                          &bench.err),
                     MMUL_OK);
    assert_memory_equal(copy, memory, sizeof memory);
    mmul_device_buffer_destroy(bench.device, buffer);
    teardown(&bench);
}

// Properties used instead of names. A faulty device is always checked, whatever device it wraps.
// Retrying the inner device with another blocking helps only if its memory is the host's.
static void devices_report_their_properties(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool is_plain, is_trusted, fails_like_fallback, gemm_depends_on_cut;
    } cases[] = {
        {"cpu", false, true, true, true},
        {"reference", true, true, false, false},
        {"faulty:delay=0s:cpu", false, false, false, true},
        {"faulty:hang=1000:cpu", false, false, false, false},
        {"faulty:delay=0s:reference", false, false, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mmul_device *device;
        struct mmul_error err;
        assert_int_equal(mmul_device_open(cases[i].name, &device, &err), MMUL_OK);
        assert_int_equal(mmul_device_is_plain(device), cases[i].is_plain);
        assert_int_equal(mmul_device_is_trusted(device), cases[i].is_trusted);
        assert_int_equal(mmul_device_fails_like_fallback(device), cases[i].fails_like_fallback);
        assert_int_equal(mmul_device_gemm_depends_on_cut(device), cases[i].gemm_depends_on_cut);
        mmul_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_accepted_or_refused),
        cmocka_unit_test(names_that_are_too_long_are_refused),
        cmocka_unit_test(mistyped_names_get_a_hint),
        cmocka_unit_test(every_device_has_a_fallback),
        cmocka_unit_test(a_failing_multiplication_loses_the_device),
        cmocka_unit_test(fail_star_fails_the_first_multiplication),
        cmocka_unit_test(corrupt_changes_one_element_of_one_result),
        cmocka_unit_test(corrupt_star_changes_every_result),
        cmocka_unit_test(repeat_keeps_the_result_correct),
        cmocka_unit_test(repeat_multiplies_several_times),
        cmocka_unit_test(delay_makes_multiplications_wait),
        cmocka_unit_test(slow_rules_begin_at_from),
        cmocka_unit_test(striking_every_time_begins_at_from),
        cmocka_unit_test(hanging_never_returns),
        cmocka_unit_test(a_rule_fails_opening),
        cmocka_unit_test(a_rule_fails_the_second_allocation),
        cmocka_unit_test(rules_fail_transfers),
        cmocka_unit_test(faulty_devices_describe_and_borrow_like_their_inner_one),
        cmocka_unit_test(devices_report_their_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
