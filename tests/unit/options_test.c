// SPDX-License-Identifier: MIT
// Structs of options from callers compiled for an older or a newer version of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/options.h"

struct first_version {
    size_t struct_bytes;
    int32_t count;
    int32_t more;
};

struct second_version {
    size_t struct_bytes;
    int32_t count;
    int32_t more;
    double factor;
    const char *name;
};

static void an_older_struct_gets_defaults_for_later_fields(void **state) {
    (void)state;
    // Memory behind an older struct must not be read as options.
    const struct {
        struct first_version options;
        double behind[2];
    } caller = {{sizeof(struct first_version), 7, 8}, {9, 9}};
    struct second_version mine;
    struct mmul_error err = {0};
    assert_int_equal(MMUL_OPTIONS_COPY(second_version, &caller, &mine, &err), MMUL_OK);
    assert_int_equal(mine.count, 7);
    assert_int_equal(mine.more, 8);
    assert_true(mine.factor == 0);
    assert_null(mine.name);
    assert_int_equal(mine.struct_bytes, sizeof mine);
}

static void a_current_struct_is_read_with_or_without_its_size(void **state) {
    (void)state;
    for (int sized = 0; sized <= 1; sized++) {
        const struct second_version caller = {sized ? sizeof caller : 0, 1, 2, 3, "four"};
        struct second_version mine;
        struct mmul_error err = {0};
        assert_int_equal(MMUL_OPTIONS_COPY(second_version, &caller, &mine, &err), MMUL_OK);
        assert_true(mine.count == 1 && mine.more == 2 && mine.factor == 3);
        assert_string_equal(mine.name, "four");
        assert_int_equal(mine.struct_bytes, sizeof mine);
    }
}

static void impossible_sizes_are_refused(void **state) {
    (void)state;
    static const struct {
        size_t bytes;
        const char *text, *hint;
    } cases[] = {
        {sizeof(struct second_version),
         "struct first_version is said to have 32 bytes, this library (" MMUL_VERSION ") knows 16",
         "the program was compiled for a newer mpimatmul than it runs with"},
        {1, "struct first_version has a size of 1 bytes, but its first field alone has 8", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct second_version caller = {cases[i].bytes, 1, 2, 3, "four"};
        struct first_version mine = {1, 1, 1};
        struct mmul_error err = {0};
        assert_int_equal(MMUL_OPTIONS_COPY(first_version, &caller, &mine, &err), MMUL_ERR_USAGE);
        assert_string_equal(err.text, cases[i].text);
        assert_string_equal(err.hint, cases[i].hint);
        assert_true(mine.struct_bytes == 0 && mine.count == 0 && mine.more == 0);
    }
}

// ------------------------------------------------------------------------------- public structs

// Every public struct, enlarged by one byte that is set.
#define LARGER(name)                                                          \
    struct {                                                                  \
        struct name options;                                                  \
        char more[16];                                                        \
    } given = {.options = {.struct_bytes = sizeof(struct name) + 1}};         \
    char expected[160];                                                       \
    assert_int_equal(offsetof(struct name, struct_bytes), 0);                 \
    snprintf(expected, sizeof expected,                                       \
             "struct " #name " is said to have %zu bytes, this library (%s) " \
             "knows %zu",                                                     \
             sizeof(struct name) + 1, MMUL_VERSION, sizeof(struct name))

#define REFUSED(call)                             \
    do {                                          \
        struct mmul_error err = {0};              \
        assert_int_equal((call), MMUL_ERR_USAGE); \
        assert_string_equal(err.text, expected);  \
    } while (0)

static void files_refuse_larger_structs(void **state) {
    (void)state;
    static const float ones[4] = {1, 1, 1, 1};
    struct mmul_output *output = NULL;
    struct mmul_matrix *matrix = NULL;
    struct mmul_error failure;
    int64_t overflows = -1;
    const struct mmul_shape shape = {1, 1, 2, 2};
    assert_int_equal(mmul_matrix_borrow(ones, shape, MMUL_F32, "ones", &matrix, &failure), MMUL_OK);
    {
        LARGER(mmul_output_request);
        REFUSED(mmul_output_create(&given.options, &output, &err));
        REFUSED(mmul_generate_file(MMUL_GENERATE_UNIFORM, 1, &given.options, &err));
        assert_null(output);
    }
    {
        LARGER(mmul_convert_options);
        REFUSED(mmul_convert(matrix, "never.bin", &given.options, &overflows, &err));
        assert_int_equal(overflows, -1);
    }
    {
        LARGER(mmul_split_options);
        REFUSED(mmul_split(matrix, &given.options, &err));
    }
    mmul_matrix_close(matrix);
    assert_int_equal(mmul_live_bytes(), 0);
}

static void machines_refuse_larger_structs(void **state) {
    (void)state;
    {
        LARGER(mmul_probe_options);
        struct mmul_probe *probe = NULL;
        REFUSED(mmul_probe_create(&given.options, &probe, &err));
        assert_null(probe);
    }
    {
        LARGER(mmul_tune_options);
        struct mmul_tune_result result;
        REFUSED(mmul_tune(&given.options, &result, &err));
    }
    {
        LARGER(mmul_doctor_options);
        struct mmul_diagnosis *diagnosis = NULL;
        REFUSED(mmul_diagnosis_create(&given.options, &diagnosis, &err));
        assert_null(diagnosis);
    }
    assert_int_equal(mmul_live_bytes(), 0);
}

static void products_refuse_larger_structs(void **state) {
    (void)state;
    LARGER(mmul_matmul);
    struct mmul_shape shape;
    enum mmul_dtype dtype;
    struct mmul_simulation *simulation = NULL;
    struct mmul_verdict verdict;
    REFUSED(mmul_matmul_result(&given.options, &shape, &dtype, &err));
    REFUSED(mmul_simulation_create("never.json", &given.options, &simulation, &err));
    REFUSED(mmul_verify(&given.options, NULL, &verdict, &err));
    assert_null(simulation);
    assert_int_equal(mmul_live_bytes(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_struct_gets_defaults_for_later_fields),
        cmocka_unit_test(a_current_struct_is_read_with_or_without_its_size),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(files_refuse_larger_structs),
        cmocka_unit_test(machines_refuse_larger_structs),
        cmocka_unit_test(products_refuse_larger_structs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
