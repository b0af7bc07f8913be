// SPDX-License-Identifier: MIT
// Headers of .safetensors files written by hand: positions of their tensors, and every malformed
// header. Addresses of tensors and ranges of their first axis.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "folder.h"
#include "io/safetensors.h"

#define ENTRY(dtype, shape, offsets) \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static enum mmul_status parse(const char *json, int64_t data_bytes, struct mmul_tensors **tensors,
                              struct mmul_error *err) {
    size_t length = strlen(json);
    // A heap copy of exact length: a sanitizer detects reads beyond it.
    char *exact = malloc(length);
    assert_non_null(exact);
    memcpy(exact, json, length);
    enum mmul_status status =
        mmul_safetensors_parse(exact, length, 8 + (int64_t)length + data_bytes, "m", tensors, err);
    free(exact);
    return status;
}

static void tensors_are_listed_in_the_order_of_their_data(void **state) {
    (void)state;
    static const char json[] = "{\"b\":" ENTRY(
        "F16", "[3,2]", "[20,32]") ",\"__metadata__\":{\"format\":\"pt\"},"
                                   "\"a\":" ENTRY("F32", "[5]", "[0,20]") ",\"number\":" ENTRY(
                                       "I64", "[]", "[32,40]") ",\"none\":" ENTRY("F32",
                                                                                  "[0,"
                                                                                  "7]",
                                                                                  "[20,"
                                                                                  "20]") "}   ";
    struct mmul_tensors *tensors;
    struct mmul_error err;
    assert_int_equal(parse(json, 40, &tensors, &err), MMUL_OK);
    static const char *const names[] = {"a", "none", "b", "number"};
    static const int64_t bytes[] = {20, 0, 12, 8};
    int64_t offset = 8 + (int64_t)strlen(json);
    assert_int_equal(tensors->count, 4);
    for (int t = 0; t < 4; t++) {
        assert_string_equal(tensors->all[t].name, names[t]);
        assert_int_equal(tensors->all[t].offset, offset);
        assert_int_equal(tensors->all[t].bytes, bytes[t]);
        offset += bytes[t];
    }
    assert_int_equal(tensors->all[2].dtype, MMUL_F16);
    assert_int_equal(tensors->all[2].dimensions, 2);
    assert_int_equal(tensors->all[2].sizes[0], 3);
    assert_int_equal(tensors->all[3].dimensions, 0);
    mmul_tensors_close(tensors);
    assert_int_equal(mmul_live_bytes(), 0);
}

static void an_unknown_dtype_makes_its_own_tensor_unreadable(void **state) {
    (void)state;
    static const char json[] = "{\"a\":" ENTRY("F4", "[16]", "[0,8]") ",\"b\":" ENTRY(
        "F32", "[2]", "[8,16]") ",\"c\":" ENTRY("F6_E2M3", "[4]", "[16,19]") "}";
    struct mmul_tensors *tensors;
    const struct mmul_tensor_entry *entry;
    struct mmul_axis_range range;
    struct mmul_error err;
    assert_int_equal(parse(json, 19, &tensors, &err), MMUL_OK);
    assert_int_equal(tensors->count, 3);
    assert_string_equal(tensors->all[0].type, "F4");
    assert_int_equal(tensors->all[0].bytes, 8);
    assert_false(tensors->all[0].is_readable);
    assert_true(tensors->all[1].is_readable);
    assert_int_equal(mmul_tensors_find(tensors, "m", "b", &entry, &range, &err), MMUL_OK);
    assert_int_equal(mmul_tensors_find(tensors, "m", "c", &entry, &range, &err), MMUL_ERR_DATA);
    assert_string_equal(err.text,
                        "tensor 'c' of 'm' holds elements of type 'F6_E2M3', which is not read");
    mmul_tensors_close(tensors);
    assert_int_equal(mmul_live_bytes(), 0);
}

static void malformed_headers_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *json;
        int64_t data_bytes;
        const char *text;
    } cases[] = {
        {"", 0, "byte 0 of its JSON"},
        {"{", 0, "of its JSON"},
        {"[]", 0, "expected a JSON object"},
        {"{}x", 0, "of its JSON"},
        {"{\"a\":" ENTRY("F32", "[1]", "[0,4]") ",\"a\":" ENTRY("F32", "[1]", "[0,4]") "}", 4,
         "duplicate object key"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "duplicate object key"},
        {"{\"__metadata__\":\"text\"}", 0, "tensor '__metadata__': expected texts"},
        {"{\"__metadata__\":{\"x\":1}}", 0, "tensor '__metadata__': expected texts"},
        {"{\"a\":7}", 0, "tensor 'a': expected dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 0, "tensor 'a': expected dtype, shape and"},
        {"{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "expected a dtype"},
        {"{\"a\":" ENTRY("", "[1]", "[0,4]") "}", 4, "tensor 'a': expected a dtype"},
        {"{\"a\":" ENTRY("F32", "7", "[0,4]") "}", 4, "expected a shape"},
        {"{\"a\":" ENTRY("F32", "[1.0]", "[0,4]") "}", 4, "sizes that are whole numbers"},
        {"{\"a\":" ENTRY("F32", "[-1]", "[0,4]") "}", 4, "sizes that are whole numbers"},
        {"{\"a\":" ENTRY("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "more than 8 dimensions"},
        {"{\"a\":" ENTRY("F32", "[1]", "[0]") "}", 4, "expected two data_offsets"},
        {"{\"a\":" ENTRY("F32", "[1]", "[4,0]") "}", 4, "expected two data_offsets"},
        {"{\"a\":" ENTRY("F32", "[1]", "[-4,0]") "}", 4, "expected two data_offsets"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8]") "}", 4, "beyond the end of the file"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,4]") "}", 4, "do not match its data_offsets"},
        {"{\"a\":" ENTRY("F32", "[4611686018427387904,4]", "[0,0]") "}", 0, "do not match its"},
        {"{\"a\":" ENTRY("F32", "[1]", "[4,8]") "}", 8,
         "tensor 'a': there is a gap before its data"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8]") ",\"b\":" ENTRY("F32", "[1]", "[4,8]") "}", 8,
         "tensor 'b': its data overlap another tensor's"},
        {"{\"a\":" ENTRY("F32", "[1]", "[0,4]") ",\"b\":" ENTRY("F32", "[1]", "[8,12]") "}", 12,
         "tensor 'b': there is a gap before its data"},
        {"{\"a\":" ENTRY("F32", "[1]", "[0,4]") "}", 5, "longer than its header says"},
        {"{\"a\\u0000b\":" ENTRY("F32", "[1]", "[0,4]") "}", 4, "of its JSON"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_tensors *tensors = NULL;
        struct mmul_error err = {.text = ""};
        enum mmul_status status = parse(cases[c].json, cases[c].data_bytes, &tensors, &err);
        if (status == MMUL_OK)
            print_message("case %zu\n", c);
        assert_failure(status, MMUL_ERR_DATA, err, cases[c].text);
        assert_null(tensors);
    }
    assert_int_equal(mmul_live_bytes(), 0);
}

static void headers_have_a_maximum_length(void **state) {
    (void)state;
    struct mmul_error err;
    size_t bytes = 0;
    unsigned char prefix[8] = {0x00, 0xE1, 0xF5, 0x05}; // 100,000,000
    assert_int_equal(mmul_safetensors_json_bytes(prefix, 8, 100000008, "m", &bytes, &err), MMUL_OK);
    assert_int_equal(bytes, 100000000);
    assert_failure(mmul_safetensors_json_bytes(prefix, 8, 100000007, "m", &bytes, &err),
                   MMUL_ERR_DATA, err, "100000007 bytes, but its header alone takes 100000008");
    prefix[0] = 1;
    assert_failure(mmul_safetensors_json_bytes(prefix, 8, INT64_MAX, "m", &bytes, &err),
                   MMUL_ERR_DATA, err, "a header of 100000001 bytes, expected at most 100000000");
    assert_failure(mmul_safetensors_json_bytes(prefix, 7, 7, "m", &bytes, &err), MMUL_ERR_DATA, err,
                   "7 bytes are too few for a header");
}

static void ranges_follow_the_slices_of_numpy(void **state) {
    (void)state;
    static const struct {
        const char *text; // behind "x"
        bool is_range;
        int64_t begin, end; // range within 10; begin >= end: empty
    } cases[] = {
        {"[:]", true, 0, 10},
        {"[2:5]", true, 2, 5},
        {"[:3]", true, 0, 3},
        {"[7:]", true, 7, 10},
        {"[-3:]", true, 7, 10},
        {"[:-3]", true, 0, 7},
        {"[-30:30]", true, 0, 10},
        {"[5:5]", true, 5, 5},
        {"[12:20]", true, 10, 10},
        {"[0:-20]", true, 0, 0},
        {"[2]", false, 0, 0},
        {"", false, 0, 0},
        {"[a:b]", false, 0, 0},
        {"[1:2:3]", false, 0, 0},
        {"[1:2", false, 0, 0},
        {"[ 1:2]", false, 0, 0},
        {"[--1:2]", false, 0, 0},
        {"[1:2]x", false, 0, 0},
        {"[99999999999999999999:]", false, 0, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[64];
        size_t length = 0;
        int64_t begin = -1, end = -1;
        struct mmul_axis_range range;
        snprintf(text, sizeof text, "x%s", cases[c].text);
        assert_int_equal(mmul_address_range(text, &length, &range), cases[c].is_range);
        if (!cases[c].is_range)
            continue;
        assert_int_equal(length, 1);
        assert_int_equal(mmul_axis_range_resolve(&range, 10, &begin, &end),
                         cases[c].begin < cases[c].end);
        assert_int_equal(begin, cases[c].begin);
        assert_int_equal(end, cases[c].end);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_listed_in_the_order_of_their_data),
        cmocka_unit_test(an_unknown_dtype_makes_its_own_tensor_unreadable),
        cmocka_unit_test(malformed_headers_are_refused),
        cmocka_unit_test(headers_have_a_maximum_length),
        cmocka_unit_test(ranges_follow_the_slices_of_numpy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
