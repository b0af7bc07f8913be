// SPDX-License-Identifier: MIT
// Matrices and outputs that can be used in place, and the errors for a mapped file that changed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "folder.h"
#include "io/file_mapping.h"
#include "io/output_file.h"
#include "model/matrix.h"

static const struct mmul_shape shape = {1, 1, 3, 5};

// Makes a .npy file of 3 x 5, version 1.0, with a header of `header_bytes`. Returns its length.
static size_t npy_file(const char *descr, bool fortran, int header_bytes, size_t element_bytes,
                       unsigned char bytes[static 512]) {
    int prefix = 10, text = header_bytes - prefix;
    memset(bytes, 0, 512);
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = (unsigned char)text;
    memset(bytes + prefix, ' ', (size_t)text);
    int length =
        sprintf((char *)bytes + prefix, "{'descr': '%s', 'fortran_order': %s, 'shape': (3, 5), }",
                descr, fortran ? "True" : "False");
    bytes[prefix + length] = ' ';
    bytes[header_bytes - 1] = '\n';
    return (size_t)header_bytes + 15 * element_bytes;
}

static void check_matrix(const char *path, bool usable, int64_t offset, int64_t bytes) {
    struct mmul_error err = {.text = ""};
    struct mmul_matrix *matrix = NULL;
    struct mmul_extent extent = {.fd = -7};
    assert_int_equal(mmul_matrix_open(path, &matrix, &err), MMUL_OK);
    assert_int_equal(mmul_matrix_extent(matrix, mmul_matrix_info(matrix).delivered, &extent),
                     usable);
    if (usable) {
        assert_null(extent.memory);
        assert_true(extent.fd >= 0);
        assert_int_equal(extent.offset, offset);
        assert_int_equal(extent.bytes, bytes);
    } else {
        assert_int_equal(extent.fd, -7);
    }
    mmul_matrix_close(matrix);
}

static void npy_inputs_are_mapped_if_row_major_and_native(void **state) {
    (void)state;
    static const struct {
        const char *descr;
        bool fortran;
        int header_bytes;
        size_t element_bytes;
        bool usable;
    } cases[] = {
        {"<f4", false, 128, 4, true},  {"<f2", false, 128, 2, true},  {"<f8", false, 128, 8, false},
        {"<f4", true, 128, 4, false},  {"<f2", true, 128, 2, false},  {">f4", false, 128, 4, false},
        {">f2", false, 128, 2, false}, {"<f4", false, 126, 4, false}, {"<f4", false, 124, 4, true},
        {"<f2", false, 126, 2, true},  {"<f2", false, 127, 2, false},
    };
    struct folder folder;
    folder_create(&folder);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        unsigned char bytes[512];
        size_t count = npy_file(cases[c].descr, cases[c].fortran, cases[c].header_bytes,
                                cases[c].element_bytes, bytes);
        file_store(folder_path(&folder, "A.npy"), bytes, count);
        check_matrix(folder.file, cases[c].usable, cases[c].header_bytes,
                     15 * (int64_t)cases[c].element_bytes);
    }
    folder_destroy(&folder);
}

static void bin_inputs_are_mapped_if_aligned_and_native(void **state) {
    (void)state;
    static const struct {
        int numbers;
        int32_t header[5];
        int64_t bytes;
    } cases[] = {
        {5, {4, 1, 1, 3, 5}, 60},  {4, {3, 1, 3, 5}, 60},     {3, {2, 3, 5}, 60},
        {5, {-2, 1, 1, 3, 5}, 30}, {5, {-3, 1, 1, 3, 5}, 30},
    };
    struct folder folder;
    folder_create(&folder);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        unsigned char bytes[128] = {0};
        size_t header_bytes = (size_t)cases[c].numbers * 4;
        memcpy(bytes, cases[c].header, header_bytes);
        file_store(folder_path(&folder, "A.bin"), bytes, header_bytes + (size_t)cases[c].bytes);
        check_matrix(folder.file, true, (int64_t)header_bytes, cases[c].bytes);
    }
    folder_destroy(&folder);
}

static void memory_is_used_in_place_if_type_and_alignment_fit(void **state) {
    (void)state;
    static const struct {
        enum mmul_dtype dtype, read, computed; // stored type, type wanted for A, type of C
        size_t at;
        bool input, output;
    } cases[] = {
        {MMUL_F32, MMUL_F32, MMUL_F32, 0, true, true},
        {MMUL_F32, MMUL_F32, MMUL_F32, 4, true, true},
        {MMUL_F32, MMUL_F32, MMUL_F32, 2, false, false},
        {MMUL_F32, MMUL_F64, MMUL_F64, 0, false, false},
        {MMUL_F16, MMUL_F16, MMUL_F32, 2, true, false},
        {MMUL_BF16, MMUL_BF16, MMUL_F32, 6, true, false},
        {MMUL_F16, MMUL_F16, MMUL_F32, 1, false, false},
        {MMUL_F64, MMUL_F32, MMUL_F32, 0, false, false},
        {MMUL_F64, MMUL_F64, MMUL_F64, 0, true, true},
        {MMUL_F64, MMUL_F64, MMUL_F64, 4, false, false},
    };
    _Alignas(8) char data[15 * 8 + 8];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err = {.text = ""};
        struct mmul_matrix *matrix = NULL;
        struct mmul_output *output = NULL;
        struct mmul_extent extent = {0};
        void *here = data + cases[c].at;
        assert_int_equal(mmul_matrix_borrow(here, shape, cases[c].dtype, "A", &matrix, &err), 0);
        assert_int_equal(mmul_output_borrow(here, shape, cases[c].dtype, &output, &err), 0);
        assert_int_equal(mmul_matrix_extent(matrix, cases[c].read, &extent), cases[c].input);
        assert_ptr_equal(extent.memory, cases[c].input ? here : NULL);
        extent.memory = NULL;
        assert_int_equal(mmul_output_extent(output, cases[c].computed, &extent), cases[c].output);
        assert_ptr_equal(extent.memory, cases[c].output ? here : NULL);
        if (cases[c].input)
            assert_int_equal(extent.bytes, 15 * (int64_t)mmul_dtype_bytes(cases[c].dtype));
        mmul_matrix_close(matrix);
        mmul_output_destroy(output);
    }
    assert_int_equal(mmul_live_bytes(), 0);
}

// A placeholder for a file in plans has no place in memory and accepts no data.
static void placeholders_of_outputs_have_no_mapping(void **state) {
    (void)state;
    const float element = 1;
    struct mmul_error err = {.text = ""};
    struct mmul_output *output = NULL;
    struct mmul_extent extent = {0};
    assert_int_equal(mmul_output_borrow(NULL, shape, MMUL_F32, &output, &err), MMUL_OK);
    assert_true(mmul_output_is_planned(output));
    assert_false(mmul_output_extent(output, MMUL_F32, &extent));
    assert_int_equal(
        mmul_output_write_float(output, mmul_region_whole(shape, 0), 2, 3, &element, &err),
        MMUL_ERR_IO);
    assert_string_equal(err.text, "cannot write an output that exists only for planning");
    mmul_output_destroy(output);
    assert_int_equal(mmul_live_bytes(), 0);
}

static void output_files_are_mapped_if_types_fit(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum mmul_dtype dtype, computed;
        bool usable;
        int64_t offset;
    } cases[] = {
        {"C.bin", MMUL_F32, MMUL_F32, true, 20},   {"C.npy", MMUL_F32, MMUL_F32, true, 128},
        {"C.bin", MMUL_F16, MMUL_F32, false, 0},   {"C.bin", MMUL_BF16, MMUL_F32, false, 0},
        {"C.npy", MMUL_BF16, MMUL_F32, true, 128}, // converted to float32
        {"C.npy", MMUL_F64, MMUL_F64, true, 128},  {"C.npy", MMUL_F32, MMUL_F64, false, 0},
    };
    struct folder folder;
    folder_create(&folder);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err = {.text = ""};
        struct mmul_output *output = NULL;
        struct mmul_extent extent = {0};
        const char *path = folder_path(&folder, cases[c].name);
        const struct mmul_output_request request = {
            .path = path, .shape = shape, .dtype = cases[c].dtype};
        assert_int_equal(mmul_output_create(&request, &output, &err), MMUL_OK);
        assert_true(output->is_reserved);
        assert_int_equal(mmul_output_extent(output, cases[c].computed, &extent), cases[c].usable);
        assert_int_equal(extent.offset, cases[c].offset);
        output->is_reserved = false; // as on a file system that cannot reserve space
        assert_false(mmul_output_extent(output, cases[c].computed, &extent));
        mmul_output_destroy(output);
    }
    folder_destroy(&folder);
}

static void only_regular_files_are_mapped(void **state) {
    (void)state;
    struct folder folder;
    folder_create(&folder);
    file_store(folder_path(&folder, "A.bin"), "x", 1);
    int directory = open(folder.path, O_RDONLY), writable = open(folder.file, O_WRONLY);
    assert_true(mmul_file_can_map(writable, false));
    assert_true(mmul_file_can_map(writable, true));
    assert_false(mmul_file_can_map(directory, false));
    assert_false(mmul_file_can_map(-1, false));
    close(directory);
    close(writable);
    folder_destroy(&folder);
}

static void an_input_written_to_meanwhile_is_an_error(void **state) {
    (void)state;
    static const struct timespec later[2] = {{1000, 1}, {1000, 1}};
    struct folder folder;
    struct mmul_error err = {.text = ""};
    folder_create(&folder);
    file_store(folder_path(&folder, "file"), "0123", 4);
    int fd = open(folder.file, O_RDONLY);
    struct mmul_mapped_file file = {
        .name = "A.bin", .fd = fd, .end = 4, .modified_ns = mmul_file_modified_ns(fd)};
    assert_int_equal(mmul_mapped_check_same(&file, &err), MMUL_OK);
    assert_failure(mmul_mapped_check(&file, true, &err), MMUL_ERR_NO_INPUT, err, "cannot read");
    assert_int_equal(futimens(fd, later), 0);
    assert_int_equal(mmul_mapped_check(&file, false, &err), MMUL_OK);
    assert_failure(mmul_mapped_check_same(&file, &err), MMUL_ERR_DATA, err,
                   "'A.bin' was written to while it was used");
    // Shorter for a while: pages have failed, although the length is right again.
    assert_failure(mmul_mapped_check(&file, true, &err), MMUL_ERR_DATA, err, "was written to");
    file.is_output = true;
    assert_int_equal(mmul_mapped_check_same(&file, &err), MMUL_OK);
    close(fd);
    folder_destroy(&folder);
}

static void a_changed_file_gives_its_error(void **state) {
    (void)state;
    static const struct {
        size_t bytes;
        bool is_output, has_failed, has_fd;
        enum mmul_status status;
        const char *text;
    } cases[] = {
        {80, false, false, true, MMUL_OK, ""},
        {81, false, false, true, MMUL_OK, ""},
        {79, false, false, true, MMUL_ERR_DATA,
         "'A.bin' has become shorter than its header says: it ends at byte 79, expected 80"},
        {0, false, true, true, MMUL_ERR_DATA, "it ends at byte 0, expected 80"},
        {80, false, true, true, MMUL_ERR_NO_INPUT, "cannot read 'A.bin': Input/output error"},
        {79, false, true, false, MMUL_ERR_NO_INPUT, "cannot read 'A.bin': Input/output error"},
        {79, false, false, false, MMUL_OK, ""},
        {80, true, false, true, MMUL_OK, ""},
        {79, true, false, true, MMUL_ERR_IO,
         "cannot write 'A.bin': its temporary file has become shorter: 79 bytes, expected 80"},
        {80, true, true, true, MMUL_ERR_IO, "cannot write 'A.bin': Input/output error"},
    };
    static const char bytes[81];
    struct folder folder;
    folder_create(&folder);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err = {.text = ""};
        file_store(folder_path(&folder, "file"), bytes, cases[c].bytes);
        int fd = open(folder.file, O_RDONLY);
        const struct mmul_mapped_file file = {.name = "A.bin",
                                              .fd = cases[c].has_fd ? fd : -1,
                                              .end = 80,
                                              .modified_ns = mmul_file_modified_ns(fd),
                                              .is_output = cases[c].is_output};
        enum mmul_status status = mmul_mapped_check(&file, cases[c].has_failed, &err);
        if (cases[c].status == MMUL_OK)
            assert_int_equal(status, MMUL_OK);
        else
            assert_failure(status, cases[c].status, err, cases[c].text);
        close(fd);
    }
    folder_destroy(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_inputs_are_mapped_if_row_major_and_native),
        cmocka_unit_test(bin_inputs_are_mapped_if_aligned_and_native),
        cmocka_unit_test(memory_is_used_in_place_if_type_and_alignment_fit),
        cmocka_unit_test(placeholders_of_outputs_have_no_mapping),
        cmocka_unit_test(output_files_are_mapped_if_types_fit),
        cmocka_unit_test(only_regular_files_are_mapped),
        cmocka_unit_test(an_input_written_to_meanwhile_is_an_error),
        cmocka_unit_test(a_changed_file_gives_its_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
