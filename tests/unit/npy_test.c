// SPDX-License-Identifier: MIT
// .npy headers written by hand: numpy's own in all versions, other legal ones, and refused ones;
// Fortran order, byte order and float64 when reading; written headers equal numpy's.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "folder.h"
#include "io/npy.h"
#include "model/dtype.h"
#include "model/matrix.h"

enum { HEADER_MAX = 1024, DATA_MAX = 4096 };

// Makes a .npy file of a version with this dict, padded to 64 bytes as numpy does. Returns its
// length.
static size_t npy_bytes(int version, const char *dict, unsigned char bytes[HEADER_MAX]) {
    size_t prefix = version == 1 ? 10 : 12, length = strlen(dict);
    size_t total = (prefix + length + 1 + 63) / 64 * 64;
    assert_true(total <= HEADER_MAX);
    memset(bytes, ' ', total);
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (unsigned char)version;
    bytes[7] = 0;
    for (size_t b = 8; b < prefix; b++)
        bytes[b] = (unsigned char)((total - prefix) >> (8 * (b - 8)));
    memcpy(bytes + prefix, dict, length);
    bytes[total - 1] = '\n';
    return total;
}

static enum mmul_status parse(int version, const char *dict, struct mmul_npy_header *header,
                              struct mmul_error *err) {
    unsigned char bytes[HEADER_MAX];
    size_t total = npy_bytes(version, dict, bytes), length = 0;
    // A heap copy of exact length: a sanitizer detects reads beyond it.
    unsigned char *exact = malloc(total);
    assert_non_null(exact);
    memcpy(exact, bytes, total);
    enum mmul_status status = mmul_npy_header_bytes(exact, total, "x.npy", &length, err);
    assert_int_equal(status, MMUL_OK);
    assert_int_equal(length, total);
    status = mmul_npy_parse(exact, length, "x.npy", false, header, err);
    free(exact);
    return status;
}

static const struct {
    int version;
    const char *dict;
    struct mmul_shape shape;
    enum mmul_dtype dtype;
    bool fortran_order, big_endian;
} valid_cases[] = {
    {1,
     "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }",
     {1, 1, 3, 4},
     MMUL_F32,
     false,
     false},
    {2,
     "{'descr': '>f8', 'fortran_order': True, 'shape': (2, 3, 4), }",
     {1, 2, 3, 4},
     MMUL_F64,
     true,
     true},
    {3,
     "{'descr': '<f2', 'fortran_order': False, 'shape': (5, 2, 3, 4), }",
     {5, 2, 3, 4},
     MMUL_F16,
     false,
     false},
    {1,
     "{'descr': '=f4', 'fortran_order': False, 'shape': (7,), }",
     {1, 1, 1, 7},
     MMUL_F32,
     false,
     false},
    {1,
     "{\"shape\":(3,4),\"fortran_order\":False,\"descr\":\"<f4\"}",
     {1, 1, 3, 4},
     MMUL_F32,
     false,
     false},
    {1,
     "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4L), }",
     {1, 1, 3, 4},
     MMUL_F32,
     false,
     false},
    {1,
     " {\n'descr' : '<f4' , 'fortran_order':\tFalse, 'shape': ( 3 , 4 , ) } ",
     {1, 1, 3, 4},
     MMUL_F32,
     false,
     false},
    {1,
     "{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
     {1, 1, 1, 1},
     MMUL_F32,
     false,
     false},
    {1,
     "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 1), }",
     {1, 1, INT64_MAX, 1},
     MMUL_F32,
     false,
     false},
};

static void valid_headers_are_read(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof valid_cases / sizeof *valid_cases; c++) {
        struct mmul_error err;
        struct mmul_npy_header header;
        assert_int_equal(parse(valid_cases[c].version, valid_cases[c].dict, &header, &err),
                         MMUL_OK);
        assert_memory_equal(&header.shape, &valid_cases[c].shape, sizeof header.shape);
        assert_int_equal(header.dtype, valid_cases[c].dtype);
        assert_int_equal(header.version, valid_cases[c].version);
        assert_int_equal(header.fortran_order, valid_cases[c].fortran_order);
        assert_int_equal(header.big_endian, valid_cases[c].big_endian);
    }
}

#define F4      "'descr': '<f4', "
#define C_ORDER "'fortran_order': False, "

static void invalid_headers_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *dict, *text;
    } cases[] = {
        {"", "a dict"},
        {"[1]", "a dict"},
        {"{}", "the keys descr"},
        {"{" F4 C_ORDER "}", "the keys descr"},
        {"{" F4 C_ORDER "'shape': (3, 4), 'x': 1}", "the keys descr"},
        {"{" F4 F4 C_ORDER "'shape': (3, 4)}", "each key once"},
        {"{" F4 C_ORDER "'shape': (3, 4), 'shape': (3, 4)}", "each key once"},
        {"{" F4 C_ORDER "'shape': (3, 4)", "a comma between entries"},
        {"{" F4 C_ORDER "'shape': (3, 4)} + x", "nothing after the dict"},
        {"{" F4 C_ORDER "'shape': (3 4)}", "a comma between sizes"},
        {"{" F4 C_ORDER "'shape': (3)}", "a tuple of sizes"},
        {"{" F4 C_ORDER "'shape': (,)}", "a size"},
        {"{" F4 C_ORDER "'shape': [3, 4]}", "a tuple of sizes"},
        {"{" F4 C_ORDER "'shape': (-3, 4)}", "a size"},
        {"{" F4 C_ORDER "'shape': (3, 4", "a comma between sizes"},
        {"{" F4 C_ORDER "'shape': (3, ", "a size"},
        {"{" F4 C_ORDER "'shape': (9223372036854775808, 1)}", "sizes below 2^63"},
        {"{" F4 C_ORDER "'shape': (1, 1, 1, 1, 1)}", "has 5 dimensions, expected at most 4"},
        {"{" F4 C_ORDER "'shape': (4294967296, 4294967296)}", "too many to count"},
        {"{" F4 C_ORDER "'shape': (0, 4)}", "is empty"},
        {"{" F4 "'fortran_order': 0, 'shape': (3, 4)}", "True or False"},
        {"{" F4 "'fortran_order': true, 'shape': (3, 4)}", "True or False"},
        {"{'descr': '<u8', " C_ORDER "'shape': (3, 4)}", "numpy type '<u8'"},
        {"{'descr': '|i2', " C_ORDER "'shape': (3, 4)}", "numpy type '|i2'"},
        {"{'descr': '<f16', " C_ORDER "'shape': (3, 4)}", "numpy type '<f16'"},
        {"{'descr': '|f4', " C_ORDER "'shape': (3, 4)}", "numpy type '|f4'"},
        {"{'descr': 'f4', " C_ORDER "'shape': (3, 4)}", "numpy type 'f4'"},
        {"{'descr': '', " C_ORDER "'shape': (3, 4)}", "numpy type ''"},
        {"{'descr': [('a', '<f4')], " C_ORDER "'shape': (3, 4)}", "not records"},
        {"{'descr': <f4, " C_ORDER "'shape': (3, 4)}", "a string"},
        {"{'descr': '<f4, " C_ORDER "\"shape\": (3, 4)}", "a comma between entries"},
        {"{'descr': '\\x3cf4', " C_ORDER "'shape': (3, 4)}", "a plain string"},
        {"{'descr': '<f4'.upper(), " C_ORDER "'shape': (3, 4)}", "a comma between entries"},
        {"{'a key that is much too long for us': 1}", "a short string"},
        {"{'descr'", "a colon"},
        {"{'descr", "a short string"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        struct mmul_npy_header header;
        assert_failure(parse(1, cases[c].dict, &header, &err), MMUL_ERR_DATA, err, cases[c].text);
        assert_failure(err.status, MMUL_ERR_DATA, err, "'x.npy'");
    }
}

static void invalid_prefixes_are_refused(void **state) {
    (void)state;
    static const struct {
        unsigned char bytes[13];
        size_t count;
        const char *text;
    } cases[] = {
        {"\x93NUMPY\x01", 7, "7 bytes are too few for a header"},
        {"\x93NUMPY\x04\x00\x10\x00\x00\x00", 12, "version 4.0"},
        {"\x93NUMPY\x00\x00\x10\x00\x00\x00", 12, "version 0.0"},
        {"\x93NUMPY\x01\x01\x10\x00\x00\x00", 12, "version 1.1"},
        {"\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, "a header of 4294967307 bytes"},
        {"\x93NUMPY\x01\x00\x40\x00{}", 12, "12 bytes, but its header alone takes 74"},
    };
    struct folder folder;
    folder_create(&folder);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        struct mmul_matrix *matrix = NULL;
        const char *path = folder_path(&folder, "x.npy");
        file_store(path, cases[c].bytes, cases[c].count);
        enum mmul_status status = mmul_matrix_open(path, &matrix, &err);
        assert_failure(status, MMUL_ERR_DATA, err, cases[c].text);
    }
    folder_destroy(&folder);
}

// Element e in C order has the value e; `order` gives its position in the file.
static size_t put_values(enum mmul_dtype dtype, struct mmul_shape s, bool fortran_order,
                         bool big_endian, unsigned char *data) {
    size_t bytes_each = mmul_dtype_bytes(dtype), e = 0;
    for (int64_t b = 0; b < s.batch; b++) {
        for (int64_t d = 0; d < s.depth; d++) {
            for (int64_t i = 0; i < s.rows; i++) {
                for (int64_t j = 0; j < s.cols; j++, e++) {
                    int64_t fortran = b + s.batch * (d + s.depth * (i + s.rows * j));
                    unsigned char *at = data + (fortran_order ? (size_t)fortran : e) * bytes_each;
                    float value = (float)e;
                    mmul_dtype_narrow(dtype, &value, 1, at);
                    for (size_t x = 0; big_endian && x < bytes_each / 2; x++) {
                        unsigned char swapped = at[x];
                        at[x] = at[bytes_each - 1 - x];
                        at[bytes_each - 1 - x] = swapped;
                    }
                }
            }
        }
    }
    return e * bytes_each;
}

static void check_values(struct mmul_matrix *matrix) {
    struct mmul_error err;
    struct mmul_shape shape = mmul_matrix_info(matrix).shape;
    static float values[DATA_MAX], narrow[DATA_MAX];
    for (int64_t m = 0; m < mmul_shape_matrices(shape); m++) {
        struct mmul_region r = mmul_region_whole(shape, m);
        int64_t count = mmul_region_count(r);
        assert_int_equal(mmul_matrix_read_float(matrix, r, 0, count, values, &err), MMUL_OK);
        for (int64_t p = 0; p < count; p++)
            assert_true(values[p] == (float)(m * count + p));
        // A range that begins and ends inside rows of a region of some columns.
        r.col_begin = shape.cols > 1;
        int64_t width = r.col_end - r.col_begin, begin = width / 2;
        int64_t end = mmul_region_count(r) - width / 3;
        if (begin >= end)
            continue;
        assert_int_equal(mmul_matrix_read(matrix, r, begin, end, narrow, &err), MMUL_OK);
        mmul_dtype_widen(mmul_matrix_info(matrix).delivered, narrow, end - begin, values);
        for (int64_t p = begin; p < end; p++) {
            int64_t element = m * count + p / width * shape.cols + r.col_begin + p % width;
            assert_true(values[p - begin] == (float)element);
        }
    }
}

static void every_order_and_type_is_read(void **state) {
    (void)state;
    static const char *const types[] = {[MMUL_F32] = "f4", [MMUL_F16] = "f2", [MMUL_F64] = "f8"};
    static const struct {
        struct mmul_shape shape;
        const char *text;
    } shapes[] = {
        {{1, 1, 1, 7}, "7,"},        {{1, 1, 37, 53}, "37, 53"},     {{1, 1, 1, 1}, "1, 1"},
        {{1, 3, 5, 67}, "3, 5, 67"}, {{2, 3, 33, 5}, "2, 3, 33, 5"}, {{2, 1, 7, 1}, "2, 1, 7, 1"},
    };
    static unsigned char bytes[HEADER_MAX + DATA_MAX * 8];
    struct folder folder;
    folder_create(&folder);
    for (int c = 0; c < 6 * 3 * 4; c++) {
        static const enum mmul_dtype dtypes[] = {MMUL_F32, MMUL_F16, MMUL_F64};
        enum mmul_dtype dtype = dtypes[c / 4 % 3];
        bool fortran_order = c % 2 != 0, big_endian = c / 2 % 2 != 0;
        char dict[200];
        struct mmul_error err;
        struct mmul_matrix *matrix;
        snprintf(dict, sizeof dict, "{'descr': '%c%s', 'fortran_order': %s, 'shape': (%s), }",
                 big_endian ? '>' : '<', types[dtype], fortran_order ? "True" : "False",
                 shapes[c / 12].text);
        size_t header = npy_bytes(1 + c % 3, dict, bytes);
        size_t data =
            put_values(dtype, shapes[c / 12].shape, fortran_order, big_endian, bytes + header);
        const char *path = folder_path(&folder, "x.npy");
        file_store(path, bytes, header + data);
        assert_int_equal(mmul_matrix_open(path, &matrix, &err), MMUL_OK);
        struct mmul_matrix_info info = mmul_matrix_info(matrix);
        assert_memory_equal(&info.shape, &shapes[c / 12].shape, sizeof info.shape);
        assert_int_equal(info.stored, dtype);
        assert_int_equal(info.delivered, dtype == MMUL_F64 ? MMUL_F32 : dtype);
        assert_int_equal(info.format, MMUL_FORMAT_NPY);
        assert_int_equal(info.fortran_order, fortran_order);
        assert_int_equal(info.big_endian, big_endian);
        check_values(matrix);
        mmul_matrix_close(matrix);
        assert_int_equal(mmul_live_bytes(), 0);
        for (int change = -1; change <= 1; change += 2) {
            file_store(path, bytes, header + data + (size_t)change);
            enum mmul_status status = mmul_matrix_open(path, &matrix, &err);
            assert_failure(status, MMUL_ERR_DATA, err, change < 0 ? "is shorter" : "is longer");
        }
    }
    folder_destroy(&folder);
}

static void written_headers_equal_those_of_numpy(void **state) {
    (void)state;
    static const struct {
        struct mmul_shape shape;
        enum mmul_dtype dtype;
        const char *dict;
    } cases[] = {
        {{1, 1, 3, 4}, MMUL_F32, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"},
        {{1, 2, 3, 4}, MMUL_F16, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3, 4), }"},
        {{INT32_MAX, 1, INT32_MAX, 1},
         MMUL_F32,
         "{'descr': '<f4', 'fortran_order': False, 'shape': (2147483647, 1, 2147483647, 1), }"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        unsigned char bytes[MMUL_NPY_WRITTEN_MAX], expected[HEADER_MAX];
        size_t total = mmul_npy_format(cases[c].shape, 0, cases[c].dtype, bytes);
        assert_int_equal(total, npy_bytes(1, cases[c].dict, expected));
        assert_memory_equal(bytes, expected, total);
        assert_int_equal(total % 64, 0);
    }
    unsigned char bytes[MMUL_NPY_WRITTEN_MAX], row[HEADER_MAX];
    const size_t total =
        npy_bytes(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }", row);
    assert_int_equal(mmul_npy_format((struct mmul_shape){1, 1, 1, 7}, 1, MMUL_F32, bytes), total);
    assert_memory_equal(bytes, row, total);
    struct mmul_shape largest = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    assert_true(mmul_npy_format(largest, 0, MMUL_F32, bytes) <= sizeof bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_headers_are_read),
        cmocka_unit_test(invalid_headers_are_refused),
        cmocka_unit_test(invalid_prefixes_are_refused),
        cmocka_unit_test(every_order_and_type_is_read),
        cmocka_unit_test(written_headers_equal_those_of_numpy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
