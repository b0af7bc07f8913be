// SPDX-License-Identifier: MIT
// Input files shared by several matrices: one version of each file per set, and detection of files
// that change in place.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "folder.h"
#include "io/input_file.h"
#include "sentences.h"

// Stores a .bin file of one row of 4 equal numbers.
static void store(const char *path, float value) {
    struct {
        int32_t header[5];
        float data[4];
    } file = {{4, 1, 1, 1, 4}, {value, value, value, value}};
    file_store(path, &file, sizeof file);
}

// Replaces the file by rename, as careful writers do.
static void replace_file(struct folder *folder, const char *name, float value) {
    char old[512];
    snprintf(old, sizeof old, "%s", folder_path(folder, name));
    store(folder_path(folder, "new"), value);
    assert_int_equal(rename(folder->file, old), 0);
}

static float first_of(struct mmul_matrix *matrix) {
    struct mmul_error err;
    float found = 0;
    const struct mmul_region row = {.row_end = 1, .col_end = 4};
    assert_int_equal(mmul_matrix_read_float(matrix, row, 0, 1, &found, &err), MMUL_OK);
    return found;
}

static float element_of(struct mmul_matrix *matrix) {
    struct mmul_error err;
    float found = 0;
    const struct mmul_region whole = {.row_end = 1, .col_end = 1};
    assert_int_equal(mmul_matrix_read_float(matrix, whole, 0, 1, &found, &err), MMUL_OK);
    return found;
}

static void a_set_reads_one_version_of_each_file(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    struct mmul_inputs *inputs = NULL;
    struct mmul_matrix *first, *again, *link, *alone;
    char linked[512];
    folder_create(&folder);
    store(folder_path(&folder, "A.bin"), 1);
    snprintf(linked, sizeof linked, "%s/link", folder.path);
    assert_int_equal(symlink(folder.file, linked), 0);
    assert_int_equal(mmul_inputs_create(&inputs, &err), MMUL_OK);
    assert_int_equal(mmul_inputs_open_matrix(inputs, folder_path(&folder, "A.bin"), &first, &err),
                     MMUL_OK);
    replace_file(&folder, "A.bin", 2);
    assert_int_equal(mmul_inputs_open_matrix(inputs, folder_path(&folder, "A.bin"), &again, &err),
                     MMUL_OK);
    assert_int_equal(mmul_inputs_open_matrix(inputs, linked, &link, &err), MMUL_OK);
    assert_int_equal(mmul_matrix_open(folder_path(&folder, "A.bin"), &alone, &err), MMUL_OK);
    mmul_inputs_destroy(inputs); // matrices keep their file open
    assert_true(first_of(first) == 1);
    assert_true(first_of(again) == 1);
    assert_true(first_of(link) == 1);
    assert_true(first_of(alone) == 2);
    // another file took over the name; the old one was not written to
    assert_false(mmul_matrix_was_written(first));
    mmul_matrix_close(first);
    mmul_matrix_close(again);
    mmul_matrix_close(link);
    mmul_matrix_close(alone);
    folder_destroy(&folder);
}

// Changes the content and resets the times, as if the file system's clock had not advanced.
static void write_unseen(const char *path, float value) {
    struct stat before;
    assert_int_equal(stat(path, &before), 0);
    store(path, value);
    const struct timespec times[] = {before.st_atim, before.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void set_age(const char *path, int64_t seconds) {
    struct stat now;
    assert_int_equal(stat(path, &now), 0);
    const struct timespec times[] = {now.st_atim, {.tv_sec = now.st_mtim.tv_sec - seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void writes_in_place_are_detected(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool is_old, is_unseen, is_seen;
    } cases[] = {
        {"nothing happens", false, false, false},
        {"a later time", true, false, true},
        {"within a step of the clock of files", false, true, true},
        // undetected: old files are not read again
        {"an old file whose times are set back", true, true, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct folder folder;
        struct mmul_error err;
        struct mmul_matrix *matrix;
        folder_create(&folder);
        store(folder_path(&folder, "A.bin"), 1);
        if (cases[c].is_old)
            set_age(folder.file, 100);
        assert_int_equal(mmul_matrix_open(folder.file, &matrix, &err), MMUL_OK);
        if (cases[c].is_unseen)
            write_unseen(folder.file, 2);
        else if (cases[c].is_seen)
            store(folder.file, 2);
        if (mmul_matrix_was_written(matrix) != cases[c].is_seen)
            fail_msg("%s", cases[c].name);
        mmul_matrix_close(matrix);
        folder_destroy(&folder);
    }
}

static void a_detached_matrix_needs_no_file(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    struct mmul_matrix *matrix;
    folder_create(&folder);
    store(folder_path(&folder, "A.bin"), 3);
    assert_int_equal(mmul_matrix_open(folder.file, &matrix, &err), MMUL_OK);
    assert_int_equal(mmul_matrix_detach(matrix, &err), MMUL_OK);
    store(folder.file, 4);
    assert_true(first_of(matrix) == 3);
    assert_false(mmul_matrix_was_written(matrix));
    mmul_matrix_close(matrix);
    assert_int_equal(mmul_matrix_open(folder.file, &matrix, &err), MMUL_OK);
    store(folder.file, 5);
    assert_failure(mmul_matrix_detach(matrix, &err), MMUL_ERR_DATA, err,
                   "A.bin' was written to while it was read");
    mmul_matrix_close(matrix);
    folder_destroy(&folder);
}

static void a_file_changed_after_opening_is_an_error(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    struct mmul_inputs *inputs = NULL;
    char path[512];
    int fd = -1;
    folder_create(&folder);
    store(folder_path(&folder, "A.bin"), 1);
    snprintf(path, sizeof path, "%s", folder.file);
    assert_int_equal(mmul_inputs_create(&inputs, &err), MMUL_OK);
    assert_int_equal(mmul_inputs_open_file(inputs, path, &fd, &err), MMUL_OK);
    assert_int_equal(mmul_inputs_check_file(inputs, path, &err), MMUL_OK);
    store(path, 2);
    assert_failure(mmul_inputs_check_file(inputs, path, &err), MMUL_ERR_DATA, err,
                   "A.bin' was written to after it was opened");
    file_store(folder_path(&folder, "empty"), "", 0);
    assert_failure(mmul_inputs_open_file(inputs, folder.file, &fd, &err), MMUL_ERR_NO_INPUT, err,
                   "empty': it is empty");
    assert_failure(mmul_inputs_open_file(inputs, folder.path, &fd, &err), MMUL_ERR_NO_INPUT, err,
                   "': it is a folder");
    mmul_inputs_destroy(inputs);
    folder_destroy(&folder);
}

// Two matrices of one element, 1 and 2, as tensors a and b of one file.
static void store_tensors(const char *path) {
    static const float values[] = {1, 2};
    struct mmul_output *outputs[2] = {NULL};
    struct mmul_error err;
    for (int t = 0; t < 2; t++) {
        const struct mmul_output_request request = {.path = path,
                                                    .tensor = t == 0 ? "a" : "b",
                                                    .shape = {1, 1, 1, 1},
                                                    .dtype = MMUL_F32,
                                                    .beside = outputs[0]};
        assert_int_equal(mmul_output_create(&request, &outputs[t], &err), MMUL_OK);
    }
    for (int t = 0; t < 2; t++)
        assert_int_equal(mmul_output_write_float(outputs[t],
                                                 (struct mmul_region){.row_end = 1, .col_end = 1},
                                                 0, 1, &values[t], &err),
                         MMUL_OK);
    for (int t = 0; t < 2; t++)
        assert_int_equal(mmul_output_commit(outputs[t], &err), MMUL_OK);
}

// Overwrites bytes from `begin` on (negative: from the end) and resets the file's times.
static void overwrite_bytes(const char *path, int64_t begin, int64_t bytes) {
    unsigned char junk[64];
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    memset(junk, 0xFF, sizeof junk);
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, junk, (size_t)bytes, begin >= 0 ? begin : found.st_size + begin),
                     bytes);
    const struct timespec times[] = {found.st_atim, found.st_mtim};
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(close(fd), 0);
}

// Reading a file with thousands of tensors must not take time quadratic in their number.
static void a_set_lists_the_tensors_of_a_file_once(void **state) {
    (void)state;
    static const struct {
        const char *file;
        int64_t spoilt; // position of the list of tensors
    } rows[] = {{"m.safetensors", 8}, {"m.npz", -22}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct folder folder;
        struct mmul_error err;
        struct mmul_inputs *inputs = NULL;
        struct mmul_tensors *tensors = NULL;
        struct mmul_matrix *a, *b, *by_list, *alone;
        char path[512], name[516];
        folder_create(&folder);
        snprintf(path, sizeof path, "%s", folder_path(&folder, rows[r].file));
        store_tensors(path);
        set_age(path, 60);
        assert_int_equal(mmul_inputs_create(&inputs, &err), MMUL_OK);
        snprintf(name, sizeof name, "%s:a", path);
        assert_int_equal(mmul_inputs_open_matrix(inputs, name, &a, &err), MMUL_OK);
        overwrite_bytes(path, rows[r].spoilt, 20);
        assert_int_equal(mmul_matrix_open(name, &alone, &err), MMUL_ERR_DATA);
        snprintf(name, sizeof name, "%s:b", path);
        assert_int_equal(mmul_inputs_open_matrix(inputs, name, &b, &err), MMUL_OK);
        assert_int_equal(mmul_inputs_open_tensors(inputs, path, &tensors, &err), MMUL_OK);
        mmul_inputs_destroy(inputs); // the list keeps its file open
        assert_int_equal(mmul_tensors_info(tensors).count, 2);
        assert_int_equal(mmul_tensors_open_matrix(tensors, 1, &by_list, &err), MMUL_OK);
        mmul_tensors_close(tensors);
        assert_true(element_of(a) == 1 && element_of(b) == 2 && element_of(by_list) == 2);
        mmul_matrix_close(a);
        mmul_matrix_close(b);
        mmul_matrix_close(by_list);
        folder_destroy(&folder);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_reads_one_version_of_each_file),
        cmocka_unit_test(writes_in_place_are_detected),
        cmocka_unit_test(a_detached_matrix_needs_no_file),
        cmocka_unit_test(a_file_changed_after_opening_is_an_error),
        cmocka_unit_test(a_set_lists_the_tensors_of_a_file_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
