// SPDX-License-Identifier: MIT
// base: one-line errors, counted memory, growing text, tables, JSON, checksums, number parsing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "base/text.h"
#include "folder.h"

static void failures_are_one_line(void **state) {
    (void)state;
    struct mmul_error err;
    mmul_fail(&err, MMUL_ERR_DATA, "'%s' is bad", "a\nb\x1b");
    assert_string_equal(err.text, "'a?b?' is bad");
    assert_string_equal(err.hint, "");
    mmul_hint(&err, "try %d", 3);
    assert_string_equal(err.hint, "try 3");
    mmul_fail(&err, MMUL_ERR_SYSTEM, "rank 1: %s", err.text); // formats the text it overwrites
    assert_string_equal(err.text, "rank 1: 'a?b?' is bad");
    assert_int_equal(mmul_fail_errno(&err, MMUL_ERR_NO_INPUT, ENOENT, "cannot open '%s'", "x"),
                     MMUL_ERR_NO_INPUT);
    assert_string_equal(err.text, "cannot open 'x': No such file or directory");
}

static void long_failures_are_cut(void **state) {
    (void)state;
    struct mmul_error err;
    char name[3000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    mmul_fail_errno(&err, MMUL_ERR_DATA, ENOENT, "%s", name);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void memory_is_counted_and_aligned(void **state) {
    (void)state;
    struct mmul_error err;
    void *a = mmul_allocate(3, 5, "a", &err);
    assert_non_null(a);
    for (int i = 0; i < 15; i++)
        assert_int_equal(((unsigned char *)a)[i], 0);
    int64_t before = mmul_live_bytes();
    assert_true(before >= 15);
    void *b = mmul_allocate_raw(1000, 8, "b", &err);
    assert_non_null(b);
    assert_true(mmul_live_bytes() >= before + 8000);
    assert_int_equal((uintptr_t)a % 64, 0);
    assert_int_equal((uintptr_t)b % 64, 0);
    double *empty = NULL;
    assert_int_equal(MMUL_ALLOCATE(empty, 0, "nothing", &err), MMUL_OK);
    assert_non_null(empty);
    mmul_free(b);
    mmul_free(empty);
    assert_int_equal(mmul_live_bytes(), before);
    mmul_free(a);
    mmul_free(NULL);
    assert_int_equal(mmul_live_bytes(), 0);
}

static void an_impossible_allocation_is_an_error(void **state) {
    (void)state;
    struct mmul_error err;
    double *panel = NULL;
    enum mmul_status status = MMUL_ALLOCATE_RAW(panel, INT64_MAX / 2, "panel", &err);
    assert_failure(status, MMUL_ERR_SYSTEM, err, "cannot allocate 4611686018427387903 x 8 bytes");
    assert_null(panel);
    assert_null(mmul_allocate(INT64_MAX - 5, 1, "panel", &err));
    assert_failure(err.status, MMUL_ERR_SYSTEM, err, "cannot allocate 8.0 EiB for panel");
    assert_null(mmul_allocate(-1, 1, "panel", &err));
    assert_failure(err.status, MMUL_ERR_SYSTEM, err, "panel");
    int64_t product = 7;
    assert_false(mmul_multiply_sizes(INT64_C(1) << 32, INT64_C(1) << 31, &product));
    assert_false(mmul_multiply_sizes(-1, 1, &product));
    assert_int_equal(product, 7);
    assert_true(mmul_multiply_sizes(INT64_C(1) << 31, INT64_C(1) << 31, &product));
    assert_true(product == INT64_C(1) << 62);
}

static void texts_grow_as_needed(void **state) {
    (void)state;
    struct mmul_text text = {0};
    assert_string_equal(mmul_text_get(&text), "");
    for (int i = 0; i < 1000; i++)
        mmul_text_add(&text, "%d,", i);
    assert_int_equal(text.length, 3890);
    assert_int_equal(strlen(mmul_text_get(&text)), 3890);
    assert_memory_equal(mmul_text_get(&text), "0,1,2,3,", 8);
    assert_string_equal(mmul_text_get(&text) + 3886, "999,");
    mmul_text_fini(&text);
    char small[4];
    mmul_text_copy(small, sizeof small, "abcdef");
    assert_string_equal(small, "abc");
    assert_int_equal(mmul_live_bytes(), 0);
}

static void tables_are_aligned(void **state) {
    (void)state;
    static const struct {
        const char *tabbed, *printed;
    } cases[] = {
        {"rank\thost\tsize\n0\ta\t1.5 GiB\n10\tlonger\t20 B\n",
         "rank  host       size\n   0  a       1.5 GiB\n  10  longer     20 B\n"},
        {"id\tn\ncpu\t1\n0:1\t-\n", "id   n\ncpu  1\n0:1  -\n"},
        {"n\tname\n1\tZoë\n-2.5e3\tx\n", "     n  name\n     1  Zoë\n-2.5e3  x\n"},
        {"a\tb\n\tx\n", "a  b\n   x\n"},
        {"no newline", "no newline\n"},
        {"", ""},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char *printed = NULL;
        size_t length = 0;
        FILE *stream = open_memstream(&printed, &length);
        assert_non_null(stream);
        mmul_text_print_table(cases[c].tabbed, stream);
        assert_int_equal(fclose(stream), 0);
        assert_string_equal(printed, cases[c].printed);
        free(printed);
    }
}

static void only_whole_numbers_in_range_are_accepted(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool valid;
        int64_t value;
    } cases[] = {
        {"1", true, 1},     {"1024", true, 1024}, {"007", true, 7},
        {"0", false, 0},    {"1025", false, 0},   {"", false, 0},
        {" 1", false, 0},   {"1 ", false, 0},     {"+1", false, 0},
        {"0x10", false, 0}, {"1.0", false, 0},    {"x", false, 0},
        {"-", false, 0},    {"1-1", false, 0},    {"99999999999999999999", false, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        int64_t value = -7;
        enum mmul_status status =
            mmul_parse_int64(cases[c].text, "--threads", 1, 1024, &value, &err);
        assert_int_equal(status, cases[c].valid ? MMUL_OK : MMUL_ERR_USAGE);
        assert_int_equal(value, cases[c].valid ? cases[c].value : -7);
    }
    struct mmul_error err;
    int64_t value;
    enum mmul_status status = mmul_parse_int64("x", "--threads", 1, 1024, &value, &err);
    assert_failure(status, MMUL_ERR_USAGE, err,
                   "--threads: 'x' is not a whole number from 1 to 1024");
    assert_int_equal(mmul_parse_int64("-9223372036854775808", "n", INT64_MIN, 0, &value, &err), 0);
    assert_true(value == INT64_MIN);
}

static void only_plain_real_numbers_are_accepted(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool valid;
        double value;
    } cases[] = {
        {"1.5", true, 1.5},     {"-2e-3", true, -2e-3}, {".5", true, 0.5},   {"+3", true, 3},
        {"1e308", true, 1e308}, {"1e-400", true, 0},    {"1e999", false, 0}, {"nan", false, 0},
        {"inf", false, 0},      {"0x1p3", false, 0},    {" 1", false, 0},    {"1 ", false, 0},
        {"1e", false, 0},       {"", false, 0},         {"1,5", false, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        double value = -7;
        enum mmul_status status = mmul_parse_double(cases[c].text, "--alpha", &value, &err);
        assert_int_equal(status, cases[c].valid ? MMUL_OK : MMUL_ERR_USAGE);
        assert_true(value == (cases[c].valid ? cases[c].value : -7));
    }
}

static void sizes_with_units_become_bytes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes; // -1: refused
    } cases[] = {
        {"0", 0},
        {"20", 20},
        {"20B", 20},
        {"4K", 4096},
        {"4KiB", 4096},
        {"512M", 512 << 20},
        {"1.5GiB", INT64_C(3) << 29},
        {"2TiB", INT64_C(2) << 40},
        {"2T", INT64_C(2) << 40},
        {"", -1},
        {"GiB", -1},
        {"-1", -1},
        {"1 GiB", -1},
        {"1GB", -1},
        {"1g", -1},
        {".", -1},
        {"1..5K", -1},
        {"9223372036854775808", -1},
        {"99999999T", -1},
        {"1e3", -1},
        {" 1", -1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        int64_t bytes = -1;
        enum mmul_status status = mmul_parse_size(cases[c].text, "--memory", &bytes, &err);
        assert_int_equal(status, cases[c].bytes >= 0 ? MMUL_OK : MMUL_ERR_USAGE);
        assert_true(bytes == cases[c].bytes);
    }
}

static void byte_counts_are_printed_with_units(void **state) {
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {20, "20 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {INT64_C(3) << 29, "1.5 GiB"},
        {1048575, "1.0 MiB"},
        {INT64_MAX, "8.0 EiB"},
        {-2048, "-2.0 KiB"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[32];
        assert_string_equal(mmul_bytes_format(cases[c].bytes, text), cases[c].text);
    }
}

static void mistyped_words_have_a_nearest_word(void **state) {
    (void)state;
    static const char *const words[] = {"mul", "plan", "--weights", "--threads", "--trace", NULL};
    static const struct {
        const char *word, *nearest;
    } cases[] = {
        {"mul", "mul"},
        {"mlu", "mul"},
        {"mull", "mul"},
        {"--wieghts", "--weights"},
        {"--thread", "--threads"},
        {"--tracee", "--trace"},
        {"xyz", NULL},
        {"", NULL},
        {"m", NULL},
        {"completely-different-and-longer-than-sixty-three-characters-for-sure", NULL},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *nearest = mmul_nearest(cases[c].word, words);
        if (cases[c].nearest == NULL) {
            assert_null(nearest);
        } else {
            assert_non_null(nearest);
            assert_string_equal(nearest, cases[c].nearest);
        }
    }
}

// Expected values from xxHash 0.8: `printf abc | xxhsum -H3`.
static void checksums_equal_those_of_xxhash(void **state) {
    (void)state;
    struct mmul_error err;
    struct mmul_hasher *hasher;
    assert_true(mmul_hash("abc", 3) == UINT64_C(0x78af5f94892f3950));
    assert_int_equal(mmul_hasher_create(&hasher, &err), MMUL_OK);
    mmul_hasher_add(hasher, "a", 1);
    mmul_hasher_add(hasher, "bc", 2);
    assert_true(mmul_hasher_value(hasher) == mmul_hash("abc", 3));
    mmul_hasher_destroy(hasher);
    assert_int_equal(mmul_live_bytes(), 0);
}

static void naps_take_their_time_and_seeds_differ(void **state) {
    (void)state;
    double before = mmul_clock_now();
    mmul_clock_sleep(0.002);
    mmul_clock_sleep(-1);
    assert_true(mmul_clock_now() - before >= 0.002);
    assert_true(mmul_random_seed() != mmul_random_seed());
}

static void json_goes_through_a_file(void **state) {
    (void)state;
    struct mmul_error err;
    struct folder folder;
    folder_create(&folder);
    json_t *value = json_pack("{s:i, s:s}", "z", 1, "a", "x");
    char *text;
    assert_int_equal(mmul_json_format(value, &text, &err), MMUL_OK);
    assert_string_equal(text, "{\n  \"z\": 1,\n  \"a\": \"x\"\n}\n");
    const char *path = folder_path(&folder, "x.json");
    assert_int_equal(mmul_text_store(path, "old", &err), MMUL_OK);
    assert_int_equal(mmul_text_store(path, text, &err), MMUL_OK);
    assert_int_equal(folder_count(&folder), 1); // no temporary file left
    json_t *loaded;
    assert_int_equal(mmul_json_load(path, &loaded, &err), MMUL_OK);
    assert_true(json_equal(value, loaded));
    json_decref(value);
    json_decref(loaded);
    mmul_free(text);
    folder_destroy(&folder);
}

static void bad_json_is_refused(void **state) {
    (void)state;
    struct mmul_error err;
    struct folder folder;
    json_t *value;
    folder_create(&folder);
    const char *path = folder_path(&folder, "x.json");
    assert_int_equal(mmul_json_load(path, &value, &err), MMUL_ERR_NO_INPUT);
    assert_int_equal(mmul_json_load(folder.path, &value, &err), MMUL_ERR_NO_INPUT);
    assert_int_equal(mmul_text_store(path, "{\"a\": 1,\n \"a\": 2}", &err), MMUL_OK);
    assert_failure(mmul_json_load(path, &value, &err), MMUL_ERR_DATA, err, "line 2");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_failure(mmul_json_load(path, &value, &err), MMUL_ERR_NO_INPUT, err, "regular file");
    folder_destroy(&folder);
}

// A report to /dev/null or to a link must not replace it.
static void special_targets_are_not_replaced(void **state) {
    (void)state;
    struct mmul_error err;
    struct folder folder;
    struct stat found;
    char link[512];
    folder_create(&folder);
    snprintf(link, sizeof link, "%s/link", folder.path);
    assert_int_equal(symlink("target", link), 0);
    file_store(folder_path(&folder, "target"), "longer text", 11);
    assert_int_equal(mmul_text_store(link, "new", &err), MMUL_OK);
    assert_int_equal(lstat(link, &found), 0);
    assert_true(S_ISLNK(found.st_mode));
    assert_int_equal(stat(link, &found), 0);
    assert_int_equal(found.st_size, 3);
    assert_int_equal(mmul_text_store(folder.path, "x", &err), MMUL_ERR_CREATE);
    assert_int_equal(mmul_text_store(folder_path(&folder, "no/x"), "x", &err), MMUL_ERR_CREATE);
    assert_int_equal(mmul_text_store("/dev/null", "x", &err), MMUL_OK);
    assert_int_equal(stat("/dev/null", &found), 0);
    assert_true(S_ISCHR(found.st_mode));
    folder_destroy(&folder);
}

static void names_are_made_printable(void **state) {
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"plain name.bin", "plain name.bin"},
        {"\x1B[31mred\n\t\x7F", "?[31mred???"},
        {"r\xC3\xA9sum\xC3\xA9 \xF0\x9F\x98\x80", "r\xC3\xA9sum\xC3\xA9 \xF0\x9F\x98\x80"},
        {"\xC2\x9B"
         "2J",
         "?2J"}, // CSI as one character
        {"\xC2\xA0", "\xC2\xA0"},
        {"\x9B"
         "2J\xFF\xC3",
         "?2J??"},                         // invalid UTF-8
        {"\xED\xA0\x80\xC0\x80", "?????"}, // a surrogate, and zero in two bytes
        {"a\xE2\x80\xAEnib\xE2\x81\xA9",
         "a?nib?"}, // direction mark: right to left from there on; and its end
        {"\xE2\x80\x93", "\xE2\x80\x93"}, // a dash
        {"", ""},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[64];
        snprintf(text, sizeof text, "%s", cases[c].text);
        assert_ptr_equal(mmul_make_printable(text), text);
        assert_string_equal(text, cases[c].expected);
    }
}

static void make_sibling_name(const char *path, const char *suffix, char expected[static 600]) {
    struct mmul_text text = {0};
    mmul_text_add_sibling_path(&text, path, suffix);
    assert_false(text.failed);
    snprintf(expected, 600, "%s", mmul_text_get(&text));
    mmul_text_fini(&text);
}

static void names_beside_fit_the_file_system(void **state) {
    (void)state;
    char path[300] = "some/folder/", name[600], other[600];
    make_sibling_name("some/C.bin", ".part", name);
    assert_string_equal(name, "some/C.bin.part");
    size_t before = strlen(path);
    memset(path + before, 'n', 250);
    make_sibling_name(path, ".part", name);
    assert_int_equal(strlen(name), before + 255); // just fits
    assert_int_equal(strncmp(name, path, before + 250), 0);
    path[before + 250] = 'x';
    make_sibling_name(path, ".part", name);
    assert_int_equal(strlen(name), before + 255);
    assert_string_equal(name + before + 250, ".part");
    assert_int_equal(strncmp(name, path, before + 233), 0);
    path[before + 250] = 'y'; // a byte that is cut off still counts
    make_sibling_name(path, ".part", other);
    assert_string_not_equal(name, other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_are_one_line),
        cmocka_unit_test(long_failures_are_cut),
        cmocka_unit_test(memory_is_counted_and_aligned),
        cmocka_unit_test(an_impossible_allocation_is_an_error),
        cmocka_unit_test(texts_grow_as_needed),
        cmocka_unit_test(tables_are_aligned),
        cmocka_unit_test(only_whole_numbers_in_range_are_accepted),
        cmocka_unit_test(only_plain_real_numbers_are_accepted),
        cmocka_unit_test(sizes_with_units_become_bytes),
        cmocka_unit_test(byte_counts_are_printed_with_units),
        cmocka_unit_test(mistyped_words_have_a_nearest_word),
        cmocka_unit_test(checksums_equal_those_of_xxhash),
        cmocka_unit_test(naps_take_their_time_and_seeds_differ),
        cmocka_unit_test(names_are_made_printable),
        cmocka_unit_test(names_beside_fit_the_file_system),
        cmocka_unit_test(json_goes_through_a_file),
        cmocka_unit_test(bad_json_is_refused),
        cmocka_unit_test(special_targets_are_not_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
