// SPDX-License-Identifier: MIT
// Opening and reading .bin files and borrowed memory: all headers, every malformed file, regions
// and ranges, statistics and differences, and shapes as text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "folder.h"
#include "model/dtype.h"
#include "model/matrix.h"

enum { DATA_MAX = 4096 };

struct bin_file {
    unsigned char bytes[20 + DATA_MAX];
    size_t count;
};

static struct bin_file bin_file(int numbers, const int32_t *header, size_t data_bytes) {
    struct bin_file file = {.count = (size_t)numbers * 4 + data_bytes};
    assert_true(data_bytes <= DATA_MAX);
    memcpy(file.bytes, header, (size_t)numbers * 4);
    for (size_t b = 0; b < data_bytes; b++)
        file.bytes[(size_t)numbers * 4 + b] = (unsigned char)(b * 7 + 1);
    return file;
}

static enum mmul_status open_bytes(struct folder *folder, const void *bytes, size_t count,
                                   struct mmul_matrix **matrix, struct mmul_error *err) {
    const char *path = folder_path(folder, "A.bin");
    file_store(path, bytes, count);
    return mmul_matrix_open(path, matrix, err);
}

static void valid_headers_are_read(void **state) {
    (void)state;
    static const struct {
        int numbers;
        int32_t header[5];
        struct mmul_shape shape;
        enum mmul_dtype dtype;
        int version;
    } cases[] = {
        {5, {4, 2, 3, 5, 7}, {2, 3, 5, 7}, MMUL_F32, 1},
        {4, {3, 2, 5, 7}, {2, 1, 5, 7}, MMUL_F32, 1},
        {3, {2, 5, 7}, {1, 1, 5, 7}, MMUL_F32, 1},
        {5, {-1, 1, 1, 5, 7}, {1, 1, 5, 7}, MMUL_F32, 2},
        {5, {-2, 2, 3, 5, 7}, {2, 3, 5, 7}, MMUL_F16, 2},
        {5, {-3, 2, 3, 5, 7}, {2, 3, 5, 7}, MMUL_BF16, 2},
        {5, {4, 1, 1, 1, 1}, {1, 1, 1, 1}, MMUL_F32, 1},
    };
    struct folder folder;
    folder_create(&folder);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        struct mmul_matrix *matrix;
        int64_t bytes, count;
        assert_int_equal(mmul_shape_bytes(cases[c].shape, cases[c].dtype, &bytes, &err), MMUL_OK);
        assert_true(mmul_shape_count(cases[c].shape, &count));
        struct bin_file file = bin_file(cases[c].numbers, cases[c].header, (size_t)bytes);
        assert_int_equal(open_bytes(&folder, file.bytes, file.count, &matrix, &err), MMUL_OK);
        struct mmul_matrix_info info = mmul_matrix_info(matrix);
        assert_memory_equal(&info.shape, &cases[c].shape, sizeof info.shape);
        assert_int_equal(info.stored, cases[c].dtype);
        assert_int_equal(info.delivered, cases[c].dtype);
        assert_int_equal(info.version, cases[c].version);
        assert_int_equal(info.format, MMUL_FORMAT_BIN);
        assert_int_equal(info.file_bytes, file.count);
        assert_string_equal(mmul_matrix_name(matrix), folder.file);
        // The last matrix of the stack ends at the end of the file.
        int64_t each = info.shape.rows * info.shape.cols;
        int64_t last = mmul_shape_matrices(info.shape) - 1;
        unsigned char read[DATA_MAX];
        assert_int_equal(
            mmul_matrix_read(matrix, mmul_region_whole(info.shape, last), 0, each, read, &err),
            MMUL_OK);
        size_t length = (size_t)each * mmul_dtype_bytes(info.stored);
        assert_memory_equal(read, file.bytes + file.count - length, length);
        mmul_matrix_close(matrix);
    }
    folder_destroy(&folder);
}

static void invalid_headers_are_refused(void **state) {
    (void)state;
    static const struct {
        size_t bytes; // Length of the file: these numbers, then zeros.
        int32_t header[5];
        const char *text;
    } cases[] = {
        {0, {0}, "it is empty"},
        {3, {4}, "3 bytes, but its header alone takes 12"},
        {19, {4, 1, 1, 1, 1}, "19 bytes, but its header alone takes 20"},
        {11, {2, 1, 1}, "11 bytes, but its header alone takes 12"},
        {24, {1, 1, 1, 1, 1}, "it starts with the number 1, expected 2, 3 or 4"},
        {24, {5, 1, 1, 1, 1}, "the number 5"},
        {24, {-4, 1, 1, 1, 1}, "the number -4"},
        {24, {0x04000000, 0x01000000, 0x01000000, 0x01000000, 0x01000000}, "looks big-endian"},
        {24, {-0x01000001, 1, 1, 1, 1}, "looks big-endian"}, // -2
        {24, {4, 1, 1, 0, 1}, "its sizes are 0 x 1, expected at least 1"},
        {24, {4, 0, 1, 1, 1}, "its sizes are 0 x 1 x 1 x 1"},
        {24, {4, 1, 1, 1, -1}, "its sizes are 1 x -1"},
        {24, {4, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX}, "too many to count"},
        {24, {4, 65536, 65536, 65536, 65536}, "too many to count"},
        // the elements can be counted, their bytes cannot
        {24, {4, 65536, 65536, 65536, 32767}, "are too many"},
        {159, {4, 1, 1, 5, 7}, "shorter than its header says: 159 bytes, expected 160 for 5 x 7"},
        {161, {4, 1, 1, 5, 7}, "longer than its header says: 161 bytes, expected 160"},
        {160, {-2, 1, 1, 5, 7}, "longer than its header says: 160 bytes, expected 90"},
        {20, {4, 1, 1, 40000, 40000}, "20 bytes, expected 6400000020"},
    };
    struct folder folder;
    folder_create(&folder);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        struct mmul_matrix *matrix = NULL;
        unsigned char bytes[256] = {0};
        memcpy(bytes, cases[c].header, sizeof cases[c].header);
        enum mmul_status status = open_bytes(&folder, bytes, cases[c].bytes, &matrix, &err);
        assert_failure(status, MMUL_ERR_DATA, err, cases[c].text);
        assert_failure(status, MMUL_ERR_DATA, err, folder.file);
        assert_null(matrix);
        assert_int_equal(mmul_live_bytes(), 0);
    }
    folder_destroy(&folder);
}

static void missing_and_special_files_are_refused(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    struct mmul_matrix *matrix = NULL;
    folder_create(&folder);
    const char *path = folder_path(&folder, "A.bin");
    enum mmul_status status = mmul_matrix_open(path, &matrix, &err);
    assert_failure(status, MMUL_ERR_NO_INPUT, err, "No such file");
    status = mmul_matrix_open(folder.path, &matrix, &err);
    assert_failure(status, MMUL_ERR_NO_INPUT, err, "it is a folder");
    assert_int_equal(mkfifo(path, 0600), 0);
    status = mmul_matrix_open(path, &matrix, &err);
    assert_failure(status, MMUL_ERR_NO_INPUT, err, "it is a FIFO");
    status = mmul_matrix_open("/dev/null", &matrix, &err);
    assert_failure(status, MMUL_ERR_NO_INPUT, err, "not a regular file");
    assert_null(matrix);
    folder_destroy(&folder);
}

// Reads all regions and ranges of a small stack; compares with indices computed one by one.
static void check_range(struct mmul_matrix *matrix, struct mmul_region region, int64_t begin,
                        int64_t end) {
    struct mmul_error err;
    struct mmul_shape shape = mmul_matrix_info(matrix).shape;
    int64_t width = region.col_end - region.col_begin;
    float read[64], guard = -1;
    for (int e = 0; e < 64; e++)
        read[e] = guard;
    assert_int_equal(mmul_matrix_read_float(matrix, region, begin, end, read, &err), MMUL_OK);
    for (int64_t p = begin; p < end; p++) {
        int64_t row = region.row_begin + p / width, col = region.col_begin + p % width;
        int64_t element = (region.matrix * shape.rows + row) * shape.cols + col;
        assert_true(read[p - begin] == (float)element);
    }
    assert_true(read[end - begin] == guard);
}

static void check_all_ranges(struct mmul_matrix *matrix) {
    struct mmul_shape shape = mmul_matrix_info(matrix).shape;
    struct mmul_region r = {0};
    for (r.matrix = 0; r.matrix < mmul_shape_matrices(shape); r.matrix++) {
        for (r.row_begin = 0; r.row_begin <= shape.rows; r.row_begin++) {
            for (r.row_end = r.row_begin; r.row_end <= shape.rows; r.row_end++) {
                for (r.col_begin = 0; r.col_begin <= shape.cols; r.col_begin++) {
                    for (r.col_end = r.col_begin; r.col_end <= shape.cols; r.col_end++) {
                        int64_t count = mmul_region_count(r);
                        for (int64_t begin = 0; begin <= count; begin++) {
                            check_range(matrix, r, begin, begin + (count - begin) / 2);
                            check_range(matrix, r, begin, count);
                        }
                    }
                }
            }
        }
    }
}

static void regions_and_ranges_are_read(void **state) {
    (void)state;
    static const struct mmul_shape shape = {1, 2, 3, 5};
    static const enum mmul_dtype dtypes[] = {MMUL_F32, MMUL_F16, MMUL_BF16, MMUL_F64};
    struct folder folder;
    folder_create(&folder);
    for (size_t d = 0; d < 4; d++) {
        struct mmul_error err;
        struct mmul_matrix *matrix;
        float values[30];
        struct {
            int32_t header[5];
            unsigned char data[30 * 8];
        } file = {{-1 - (int32_t)dtypes[d], 1, 2, 3, 5}, {0}};
        for (int e = 0; e < 30; e++)
            values[e] = (float)e;
        mmul_dtype_narrow(dtypes[d], values, 30, file.data);
        assert_int_equal(mmul_matrix_borrow(file.data, shape, dtypes[d], "memory", &matrix, &err),
                         MMUL_OK);
        assert_string_equal(mmul_matrix_name(matrix), "memory");
        check_all_ranges(matrix);
        mmul_matrix_close(matrix);
        if (dtypes[d] == MMUL_F64)
            continue; // no .bin has this type
        size_t bytes = 20 + 30 * mmul_dtype_bytes(dtypes[d]);
        assert_int_equal(open_bytes(&folder, &file, bytes, &matrix, &err), MMUL_OK);
        check_all_ranges(matrix);
        mmul_matrix_close(matrix);
    }
    folder_destroy(&folder);
}

// A file of 2^31 + 3 rows of a byte, of which only the header and the last rows are stored.
static void rows_beyond_int32_are_read(void **state) {
    (void)state;
    enum { HEADER = 128, LAST = 3, PREFIX = 10 };
    const int64_t rows = (INT64_C(1) << 31) + LAST;
    static const signed char last[LAST] = {5, -6, 7};
    char header[HEADER + 1];
    struct folder folder;
    struct mmul_error err;
    struct mmul_matrix *matrix;
    float found[LAST + 1];
    memcpy(header, "\x93NUMPY\1\0\x76\0", PREFIX);
    snprintf(header + PREFIX, sizeof header - PREFIX, "%-117s\n",
             "{'descr': '|i1', 'fortran_order': False, 'shape': (2147483651, 1), }");
    folder_create(&folder);
    const char *path = folder_path(&folder, "A.npy");
    file_store(path, header, HEADER);
    assert_int_equal(truncate(path, HEADER + rows), 0);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseeko(file, -LAST, SEEK_END), 0);
    assert_int_equal(fwrite(last, 1, LAST, file), LAST);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(mmul_matrix_open(path, &matrix, &err), MMUL_OK);
    assert_int_equal(mmul_matrix_info(matrix).shape.rows, rows);
    const struct mmul_region whole = mmul_region_whole(mmul_matrix_info(matrix).shape, 0);
    struct mmul_region end = whole;
    end.row_begin = rows - LAST - 1;
    assert_int_equal(mmul_matrix_read_float(matrix, end, 0, LAST + 1, found, &err), MMUL_OK);
    for (int i = 0; i <= LAST; i++)
        assert_true(found[i] == (i == 0 ? 0 : last[i - 1]));
    assert_int_equal(mmul_matrix_read_float(matrix, whole, rows - 1, rows, found, &err), MMUL_OK);
    assert_true(found[0] == 7);
    mmul_matrix_close(matrix);
    folder_destroy(&folder);
}

static void a_truncated_file_is_an_error(void **state) {
    (void)state;
    static const int32_t header[] = {4, 1, 1, 5, 7};
    struct folder folder;
    struct mmul_error err;
    struct mmul_matrix *matrix;
    float read[35];
    folder_create(&folder);
    struct bin_file file = bin_file(5, header, 140);
    assert_int_equal(open_bytes(&folder, file.bytes, file.count, &matrix, &err), MMUL_OK);
    struct mmul_region whole = mmul_region_whole(mmul_matrix_info(matrix).shape, 0);
    assert_int_equal(truncate(folder.file, 159), 0);
    assert_int_equal(mmul_matrix_read(matrix, whole, 0, 34, read, &err), MMUL_OK);
    enum mmul_status status = mmul_matrix_read(matrix, whole, 0, 35, read, &err);
    assert_failure(status, MMUL_ERR_DATA, err, "become shorter than its header says");
    assert_failure(status, MMUL_ERR_DATA, err, "ends at byte 159, expected 160");
    // The error names the end of the file, not the start of the read.
    assert_int_equal(truncate(folder.file, 50), 0);
    status = mmul_matrix_read(matrix, whole, 30, 35, read, &err);
    assert_failure(status, MMUL_ERR_DATA, err, "ends at byte 50, expected 160");
    mmul_matrix_close(matrix);
    mmul_matrix_close(NULL);
    folder_destroy(&folder);
}

static struct mmul_matrix *borrow(const float *data, int64_t rows, int64_t cols) {
    struct mmul_error err;
    struct mmul_matrix *matrix;
    struct mmul_shape shape = {1, 1, rows, cols};
    assert_int_equal(mmul_matrix_borrow(data, shape, MMUL_F32, "m", &matrix, &err), MMUL_OK);
    return matrix;
}

static void statistics_are_computed(void **state) {
    (void)state;
    static const float values[] = {3, -5, NAN, INFINITY, -INFINITY, 8};
    struct mmul_error err;
    struct mmul_statistics found;
    struct mmul_matrix *matrix = borrow(values, 2, 3);
    assert_int_equal(mmul_statistics(matrix, &found, &err), MMUL_OK);
    assert_int_equal(found.count, 6);
    assert_int_equal(found.nan_count, 1);
    assert_int_equal(found.inf_count, 2);
    assert_true(found.min == -5 && found.max == 8 && found.mean == 2);
    mmul_matrix_close(matrix);
    matrix = borrow(values + 2, 1, 3);
    assert_int_equal(mmul_statistics(matrix, &found, &err), MMUL_OK);
    assert_true(isnan(found.min) && isnan(found.max) && isnan(found.mean));
    mmul_matrix_close(matrix);
    assert_int_equal(mmul_live_bytes(), 0);
}

static void differences_are_counted(void **state) {
    (void)state;
    static const float x[] = {1, -20, NAN, INFINITY, -INFINITY, NAN, 0.0F, 3};
    static const float y[] = {1, -20.5F, NAN, INFINITY, INFINITY, 5, -0.0F, 2};
    struct mmul_error err;
    struct mmul_difference found;
    struct mmul_matrix *a = borrow(x, 2, 4), *b = borrow(y, 2, 4), *c = borrow(y, 4, 2);
    assert_int_equal(mmul_diff(a, b, 0.5, 0, &found, &err), MMUL_OK);
    assert_true(found.same_shape);
    assert_int_equal(found.count, 8);
    assert_int_equal(found.outside, 3); // -Inf by Inf, NaN by 5, 3 by 2
    assert_int_equal(found.first_outside, 4);
    assert_true(found.max_absolute == 1 && found.mean_absolute == 0.375);
    assert_true(found.max_reference == 20);
    assert_int_equal(mmul_diff(a, b, 0, 0, &found, &err), MMUL_OK);
    assert_int_equal(found.outside, 4);
    assert_int_equal(found.first_outside, 1);
    assert_int_equal(mmul_diff(a, a, 0, 0, &found, &err), MMUL_OK);
    assert_int_equal(found.outside, 0);
    assert_int_equal(found.first_outside, -1);
    assert_int_equal(mmul_diff(a, c, 0, 0, &found, &err), MMUL_OK);
    assert_false(found.same_shape);
    assert_int_equal(mmul_diff(a, b, NAN, 0, &found, &err), MMUL_ERR_USAGE);
    mmul_matrix_close(a);
    mmul_matrix_close(b);
    mmul_matrix_close(c);
    assert_int_equal(mmul_live_bytes(), 0);
}

static void shapes_are_parsed_and_formatted(void **state) {
    (void)state;
    static const struct {
        const char *text, *formatted; // formatted NULL: refused
    } cases[] = {
        {"4096x1024", "4096 x 1024"},
        {"2x3x4", "2 x 3 x 4"},
        {"1x3x4", "3 x 4"},
        {"2x1x3x4", "2 x 1 x 3 x 4"},
        {"1x1x1x1", "1 x 1"},
        {"2147483647x1", "2147483647 x 1"},
        {"2147483648x1", NULL},
        {"4096", NULL},
        {"0x5", NULL},
        {"-1x5", NULL},
        {"4x", NULL},
        {"x4", NULL},
        {"1x2x3x4x5", NULL},
        {"4 x 4", NULL},
        {"", NULL},
        {"4x4x", NULL},
        {"99999999999999999x1", NULL},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        struct mmul_shape shape = {0};
        char text[96];
        enum mmul_status status = mmul_shape_parse(cases[c].text, &shape, &err);
        assert_int_equal(status, cases[c].formatted != NULL ? MMUL_OK : MMUL_ERR_USAGE);
        if (cases[c].formatted != NULL)
            assert_string_equal(mmul_shape_format(shape, text), cases[c].formatted);
    }
    struct mmul_shape largest = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
    char text[96];
    assert_int_equal(strlen(mmul_shape_format(largest, text)), 89);
    int64_t bytes;
    struct mmul_error err;
    struct mmul_shape matrix = {1, 1, 20000, 20000};
    assert_int_equal(mmul_shape_bytes(matrix, MMUL_F32, &bytes, &err), MMUL_OK);
    assert_int_equal(bytes, 1600000000);
}

// Every first bytes that make a probe recognise a format, and shorter ones: read or refused with
// the file's name, never a crash.
static void first_bytes_of_other_formats_never_crash(void **state) {
    (void)state;
    static const char *const starts[] = {
        "PK\3\4",
        "PK\5\6",
        "\x89HDF\r\n\x1A\n",
        "MATLAB 5.0",
        "PAR1",
        "%%MatrixMarket",
        "GGUF",
        "\x1F\x8B",
        "\x28\xB5\x2F\xFD",
        "\xFD"
        "7zXZ",
        "BZh",
        "\x80\4\x95",
        "\x93NUMPY",
    };
    struct folder folder;
    folder_create(&folder);
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
        for (size_t count = 0; count <= 64; count++) {
            struct mmul_error err;
            struct mmul_matrix *matrix = NULL;
            unsigned char bytes[64];
            memset(bytes, 0xFF, sizeof bytes); // lengths in the file are as large as possible
            memcpy(bytes, starts[s], strlen(starts[s]));
            enum mmul_status status = open_bytes(&folder, bytes, count, &matrix, &err);
            assert_failure(status, MMUL_ERR_DATA, err, folder.file);
            assert_int_equal(mmul_live_bytes(), 0);
        }
    }
    folder_destroy(&folder);
}

static void doubles_are_read_without_rounding(void **state) {
    (void)state;
    static const double values[] = {1e39, -1e300, 0.1, 3};
    struct mmul_matrix *matrix;
    struct mmul_error err;
    double read[4];
    float floats[4];
    const struct mmul_shape shape = {1, 1, 2, 2};
    assert_int_equal(mmul_matrix_borrow(values, shape, MMUL_F64, "D", &matrix, &err), MMUL_OK);
    assert_int_equal(mmul_matrix_read_double(matrix, mmul_region_whole(shape, 0), 0, 4, read, &err),
                     MMUL_OK);
    assert_memory_equal(read, values, sizeof values);
    assert_int_equal(mmul_matrix_overflows(matrix), 0);
    assert_int_equal(
        mmul_matrix_read_float(matrix, mmul_region_whole(shape, 0), 0, 4, floats, &err), MMUL_OK);
    assert_true(isinf(floats[0]) && isinf(floats[1]) && floats[2] == 0.1F && floats[3] == 3);
    assert_int_equal(mmul_matrix_overflows(matrix), 2);
    mmul_matrix_close(matrix);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_bytes_of_other_formats_never_crash),
        cmocka_unit_test(doubles_are_read_without_rounding),
        cmocka_unit_test(valid_headers_are_read),
        cmocka_unit_test(invalid_headers_are_refused),
        cmocka_unit_test(missing_and_special_files_are_refused),
        cmocka_unit_test(regions_and_ranges_are_read),
        cmocka_unit_test(rows_beyond_int32_are_read),
        cmocka_unit_test(a_truncated_file_is_an_error),
        cmocka_unit_test(statistics_are_computed),
        cmocka_unit_test(differences_are_counted),
        cmocka_unit_test(shapes_are_parsed_and_formatted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
