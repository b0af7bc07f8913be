// SPDX-License-Identifier: MIT
//
// Tuned parameters: read from the tuners' files, stored, loaded and passed to a device; and the
// self-test of a tuned device. No OpenCL: the tuned device only records the parameters.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/self_test.h"
#include "device/tuning.h"
#include "folder.h"

// A tuner's file; NULL members get usual values.
struct tuner_file {
    const char *family, *precision, *device, *time, *parameters, *m;
};

static const char *or_usual(const char *text, const char *usual) {
    return text != NULL ? text : usual;
}

static const char *store_tuner_file(struct folder *folder, const struct tuner_file *f) {
    char text[2000];
    int length = snprintf(
        text, sizeof text,
        "{ \"kernel_family\": \"%s\", \"precision\": \"%s\", \"best_kernel\": \"X\",\n"
        "  \"best_time\": \"%s\", \"best_parameters\": \"%s\", \"arg_m\": \"%s\", \"arg_n\": "
        "\"64\",\n"
        "  \"device\": \"%s\", \"results\": [ { \"time\": 1.5, \"parameters\": {\"A\": 1} } ] }\n",
        or_usual(f->family, "copy"), or_usual(f->precision, "32"), or_usual(f->time, "0.25"),
        or_usual(f->parameters, "COPY_DIMX=8 COPY_DIMY=16 PRECISION=32"), or_usual(f->m, "64"),
        or_usual(f->device, "Card"));
    const char *path = folder_path(folder, "tuner.json");
    file_store(path, text, (size_t)length);
    return path;
}

static void read_or_die(struct folder *folder, const struct tuner_file *f,
                        struct mmul_tuning *tuning) {
    struct mmul_error err;
    assert_int_equal(mmul_tuning_read(store_tuner_file(folder, f), tuning, &err), MMUL_OK);
}

static void the_best_result_of_a_tuner_is_read(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_tuning tuning = {.count = 0};
    folder_create(&folder);
    read_or_die(&folder, &(struct tuner_file){.family = NULL}, &tuning);
    assert_int_equal(tuning.count, 1);
    assert_string_equal(tuning.device, "Card");
    const struct mmul_tuned_kernel *kernel = &tuning.kernels[0];
    assert_string_equal(kernel->kernel, "Copy");
    assert_true(kernel->milliseconds == 0.25);
    assert_true(kernel->m == 64 && kernel->n == 64 && kernel->k == 0);
    assert_int_equal(kernel->count, 2);
    assert_string_equal(kernel->names[0], "COPY_DIMX");
    assert_string_equal(kernel->names[1], "COPY_DIMY");
    assert_true(kernel->values[0] == 8 && kernel->values[1] == 16);
    folder_destroy(&folder);
}

static void every_kernel_of_a_product_is_known(void **state) {
    (void)state;
    static const char *const families[][2] = {
        {"xgemm_1", "Xgemm"},
        {"xgemm_2", "Xgemm"},
        {"xgemm_11", "Xgemm"},
        {"xgemm_12", "Xgemm"},
        {"xgemm_direct_1", "XgemmDirect"},
        {"xgemm_direct_2", "XgemmDirect"},
        {"copy", "Copy"},
        {"pad", "Pad"},
        {"transpose", "Transpose"},
        {"padtranspose", "Padtranspose"},
        {"gemm_routine", "GemmRoutine"},
    };
    struct folder folder;
    folder_create(&folder);
    struct mmul_tuning all = {.count = 0};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        struct mmul_tuning tuning = {.count = 0};
        const struct tuner_file file = {.family = families[i][0]};
        read_or_die(&folder, &file, &tuning);
        assert_string_equal(tuning.kernels[0].kernel, families[i][1]);
        read_or_die(&folder, &file, &all);
    }
    assert_int_equal(all.count, MMUL_TUNED_KERNELS);
    folder_destroy(&folder);
}

static void the_faster_of_two_files_counts(void **state) {
    (void)state;
    static const char *const times[] = {"3.00", "1.00", "2.00"};
    struct folder folder;
    struct mmul_tuning tuning = {.count = 0};
    folder_create(&folder);
    for (int i = 0; i < 3; i++) {
        char parameters[16];
        snprintf(parameters, sizeof parameters, "MWG=%d", i);
        read_or_die(
            &folder,
            &(struct tuner_file){.family = "xgemm_1", .time = times[i], .parameters = parameters},
            &tuning);
    }
    assert_int_equal(tuning.count, 1);
    assert_int_equal(tuning.kernels[0].values[0], 1);
    folder_destroy(&folder);
}

static void a_malformed_result_of_a_tuner_is_refused(void **state) {
    (void)state;
    static const struct {
        struct tuner_file file;
        const char *error;
    } cases[] = {
        {{.family = ""}, "is not a result of CLBlast's tuners: it has no kernel family"},
        {{.family = "xdot_1"}, "is for the kernel family 'xdot_1', which products do not use"},
        {{.precision = "64"}, "is of precision '64', expected 32"},
        {{.time = ""}, "it has no best time"},
        {{.time = "soon"}, "it has no best time"},
        {{.time = "-1"}, "it has no best time"},
        {{.parameters = ""}, "its best parameters are not a list of NAME=NUMBER"},
        {{.parameters = "PRECISION=32"}, "not a list of NAME=NUMBER"},
        {{.parameters = "MWG"}, "not a list of NAME=NUMBER"},
        {{.parameters = "MWG=x"}, "not a list of NAME=NUMBER"},
        {{.parameters = "MWG=-1"}, "not a list of NAME=NUMBER"},
        {{.parameters = "mwg=1"}, "not a list of NAME=NUMBER"},
        {{.parameters = "A_NAME_OF_TWENTY_FOUR_LT=1"}, "not a list of NAME=NUMBER"},
        {{.parameters = "MWG=99999999999"}, "not a list of NAME=NUMBER"},
        {{.parameters = "A=1 B=1 C=1 D=1 E=1 F=1 G=1 H=1 I=1 J=1 K=1 L=1 M=1 N=1 O=1 P=1 Q=1 R=1 "
                        "S=1 T=1 U=1 V=1 W=1 X=1 Y=1"},
         "not a list of NAME=NUMBER"},
        {{.device = "Other"}, "was measured on 'Other', expected 'Card'"},
        {{.m = "128"}, "was measured at 128 x 64 x 0, an earlier file of 'Copy' at 64 x 64 x 0"},
    };
    struct folder folder;
    struct mmul_error err;
    struct mmul_tuning tuning = {.count = 0};
    folder_create(&folder);
    read_or_die(&folder, &(struct tuner_file){.time = NULL}, &tuning);
    const struct mmul_tuning before = tuning;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = store_tuner_file(&folder, &cases[i].file);
        assert_failure(mmul_tuning_read(path, &tuning, &err), MMUL_ERR_DATA, err, cases[i].error);
        assert_memory_equal(&tuning, &before, sizeof tuning);
    }
    const char *path = folder_path(&folder, "absent.json");
    assert_failure(mmul_tuning_read(path, &tuning, &err), MMUL_ERR_NO_INPUT, err, "absent.json");
    file_store(folder_path(&folder, "tuner.json"), "[1, 2", 5);
    path = folder_path(&folder, "tuner.json");
    assert_failure(mmul_tuning_read(path, &tuning, &err), MMUL_ERR_DATA, err, "not valid JSON");
    folder_destroy(&folder);
}

// ---------------------------------------------------------------------------- stored parameters

static void make_set(struct mmul_tuning *tuning) {
    *tuning = (struct mmul_tuning){.device = "Card \"X\"",
                                   .vendor = "Maker",
                                   .driver = "1.2",
                                   .count = 2,
                                   .kernels = {{.kernel = "Xgemm",
                                                .count = 2,
                                                .names = {"MWG", "SA"},
                                                .values = {64, 0},
                                                .milliseconds = 1.25,
                                                .m = 512,
                                                .n = 512,
                                                .k = 512},
                                               {.kernel = "Pad",
                                                .count = 1,
                                                .names = {"PAD_DIMX"},
                                                .values = {8},
                                                .milliseconds = 0.5}}};
}

static void a_set_is_stored_and_loaded(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    struct mmul_tuning tuning, loaded;
    folder_create(&folder);
    make_set(&tuning);
    const char *path = folder_path(&folder, "cache/set.json");
    assert_int_equal(mmul_tuning_store(path, &tuning, &err), MMUL_OK);
    assert_int_equal(mmul_tuning_load(path, &loaded, &err), MMUL_OK);
    assert_memory_equal(&loaded, &tuning, sizeof tuning);
    path = folder_path(&folder, "cache/none.json");
    assert_int_equal(mmul_tuning_load(path, &loaded, &err), MMUL_OK);
    assert_int_equal(loaded.count, 0);
    folder_destroy(&folder);
}

static void a_damaged_set_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{}",
        "[]",
        "{\"schema\": 2, \"kernels\": {}}",
        "{\"schema\": 1, \"kernels\": []}",
        "{\"schema\": 1, \"kernels\": {\"Xdot\": {\"parameters\": {\"A\": 1}}}}",
        "{\"schema\": 1, \"kernels\": {\"Pad\": {}}}",
        "{\"schema\": 1, \"kernels\": {\"Pad\": 5}}",
        "{\"schema\": 1, \"kernels\": {\"Pad\": {\"parameters\": {\"A\": \"1\"}}}}",
        "{\"schema\": 1, \"kernels\": {\"Pad\": {\"parameters\": {\"A\": -1}}}}",
        "{\"schema\": 1, \"kernels\": {\"Pad\": {\"parameters\": {\"a b\": 1}}}}",
    };
    struct folder folder;
    struct mmul_error err;
    struct mmul_tuning loaded;
    folder_create(&folder);
    const char *path = folder_path(&folder, "set.json");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        file_store(path, texts[i], strlen(texts[i]));
        assert_failure(mmul_tuning_load(path, &loaded, &err), MMUL_ERR_DATA, err,
                       "is not a file of tuned parameters");
    }
    folder_destroy(&folder);
}

// ---------------------------------------------------------------------------------- on a device

static struct {
    struct mmul_device_info info;
    struct mmul_tuned_kernel taken[MMUL_TUNED_KERNELS];
    int count;
} spy;

static void spy_describe(const void *self, struct mmul_device_info *info) {
    (void)self;
    *info = spy.info;
}

static enum mmul_status spy_tune(void *self, const struct mmul_tuned_kernel *kernel,
                                 struct mmul_error *err) {
    (void)self;
    (void)err;
    spy.taken[spy.count++] = *kernel;
    return MMUL_OK;
}

static void a_stored_set_counts_for_its_device_and_driver_only(void **state) {
    (void)state;
    static const struct {
        const char *name, *vendor, *driver;
        enum mmul_status status;
        int kernels;
    } cases[] = {
        {"Card \"X\"", "Maker", "1.2", MMUL_OK, 2},
        {"Card \"X\"", "Maker", "1.3", MMUL_ERR_DATA, 0},
        {"Card \"Y\"", "Maker", "1.2", MMUL_OK, 0},
        {"Card \"X\"", "Baker", "1.2", MMUL_OK, 0},
    };
    static const struct mmul_device_table table = {
        .kind = "spy", .describe = spy_describe, .tune = spy_tune};
    struct mmul_device device = {.table = &table};
    struct folder folder;
    struct mmul_error err;
    struct mmul_tuning tuning;
    char path[512];
    folder_create(&folder);
    assert_int_equal(setenv("XDG_CACHE_HOME", folder.path, 1), 0);
    make_set(&tuning);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int kernels = -1;
        memset(&spy, 0, sizeof spy);
        snprintf(spy.info.name, sizeof spy.info.name, "%s", cases[i].name);
        snprintf(spy.info.vendor, sizeof spy.info.vendor, "%s", cases[i].vendor);
        snprintf(spy.info.driver, sizeof spy.info.driver, "%s", cases[i].driver);
        if (i == 0) {
            assert_int_equal(mmul_tuning_path(&spy.info, path, &err), MMUL_OK);
            assert_int_equal(mmul_tuning_store(path, &tuning, &err), MMUL_OK);
        }
        assert_int_equal(mmul_tuning_apply_stored(&device, &kernels, &err), cases[i].status);
        assert_int_equal(kernels, cases[i].kernels);
        assert_int_equal(spy.count, cases[i].kernels);
        assert_memory_equal(spy.taken, tuning.kernels, (size_t)spy.count * sizeof spy.taken[0]);
        assert_false(device.lost);
    }
    folder_destroy(&folder);
}

static void a_device_without_parameters_refuses_and_is_not_lost(void **state) {
    (void)state;
    struct mmul_device *device = NULL;
    struct mmul_error err;
    struct mmul_tuning tuning;
    int kernels = -1;
    make_set(&tuning);
    assert_int_equal(mmul_device_open("reference", &device, &err), MMUL_OK);
    assert_failure(mmul_tuning_apply(device, &tuning, &err), MMUL_ERR_UNAVAILABLE, err,
                   "device 'reference' has no parameters to tune");
    assert_int_equal(mmul_tuning_apply_stored(device, &kernels, &err), MMUL_OK);
    assert_int_equal(kernels, 0);
    assert_false(device->lost);
    mmul_device_close(device);
    assert_int_equal(mmul_live_bytes(), 0);
}

// ------------------------------------------------------------------------------------ self-test

static void the_self_test_finds_one_wrong_element(void **state) {
    (void)state;
    static const struct {
        const char *device;
        enum mmul_status status;
        const char *error;
        enum mmul_dtype dtype;
    } cases[] = {
        {"cpu", MMUL_OK, NULL, MMUL_F32},
        {"reference", MMUL_OK, NULL, MMUL_F32},
        {"cpu", MMUL_OK, NULL, MMUL_F64},
        {"faulty:corrupt=8:cpu", MMUL_ERR_WRONG,
         "self-test: 5 x 1 x 9, transposed 1 1, of float64: ", MMUL_F64},
        {"faulty:corrupt=29:cpu", MMUL_ERR_WRONG,
         "transposed 0 0, in rectangles, of float64: ", MMUL_F64},
        {"faulty:corrupt=40:cpu", MMUL_ERR_WRONG, "self-test: 67 x 91 x 29, transposed 0 0, in ",
         MMUL_F64},
        {"faulty:corrupt=41:cpu", MMUL_OK, NULL, MMUL_F64},
        {"faulty:corrupt=1:cpu", MMUL_ERR_WRONG, "self-test: 1 x 1 x 1", MMUL_F32},
        {"faulty:corrupt=8:cpu", MMUL_ERR_WRONG, "self-test: 5 x 1 x 9, transposed 1 1", MMUL_F32},
        {"faulty:corrupt=26:cpu", MMUL_ERR_WRONG,
         "self-test: 45 x 37 x 53, transposed 1 0: ", MMUL_F32},
        {"faulty:corrupt=29:cpu", MMUL_ERR_WRONG, "transposed 0 0, in rectangles: ", MMUL_F32},
        {"faulty:corrupt=33:cpu", MMUL_ERR_WRONG, "transposed 0 0, of float16: ", MMUL_F32},
        {"faulty:corrupt=46:cpu", MMUL_ERR_WRONG,
         "transposed 1 0, in rectangles, of bfloat16: ", MMUL_F32},
        {"faulty:corrupt=49:cpu", MMUL_ERR_WRONG,
         "self-test: 95 x 33 x 65, transposed 0 0: ", MMUL_F32},
        {"faulty:corrupt=56:cpu", MMUL_ERR_WRONG, "self-test: 67 x 91 x 29, transposed 0 0, in ",
         MMUL_F32},
        {"faulty:corrupt=57:cpu", MMUL_OK, NULL, MMUL_F32},
        {"faulty:fail=3:cpu", MMUL_ERR_UNAVAILABLE, "was lost at multiplication 3", MMUL_F32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_device *device = NULL;
        struct mmul_error err = {0};
        assert_int_equal(mmul_device_open(cases[i].device, &device, &err), MMUL_OK);
        enum mmul_status status = mmul_device_self_test(device, cases[i].dtype, &err);
        if (cases[i].error == NULL)
            assert_int_equal(status, MMUL_OK);
        else
            assert_failure(status, cases[i].status, err, cases[i].error);
        mmul_device_close(device);
        assert_int_equal(mmul_live_bytes(), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_result_of_a_tuner_is_read),
        cmocka_unit_test(every_kernel_of_a_product_is_known),
        cmocka_unit_test(the_faster_of_two_files_counts),
        cmocka_unit_test(a_malformed_result_of_a_tuner_is_refused),
        cmocka_unit_test(a_set_is_stored_and_loaded),
        cmocka_unit_test(a_damaged_set_is_refused),
        cmocka_unit_test(a_stored_set_counts_for_its_device_and_driver_only),
        cmocka_unit_test(a_device_without_parameters_refuses_and_is_not_lost),
        cmocka_unit_test(the_self_test_finds_one_wrong_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
