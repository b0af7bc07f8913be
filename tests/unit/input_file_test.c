// SPDX-License-Identifier: MIT
// Input files that several matrices share: one version of a file, and files that change in place.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "folder.h"
#include "io/input_file.h"
#include "sentences.h"

// A .bin file of one row of 4 equal numbers.
static void store(const char *path, float value) {
    struct {
        int32_t header[5];
        float data[4];
    } file = {{4, 1, 1, 1, 4}, {value, value, value, value}};
    file_store(path, &file, sizeof file);
}

// Replaces the file by another one, as every careful writer does.
static void replace(struct folder *folder, const char *name, float value) {
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

static void a_set_has_one_version(void **state) {
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
    replace(&folder, "A.bin", 2);
    assert_int_equal(mmul_inputs_open_matrix(inputs, folder_path(&folder, "A.bin"), &again, &err),
                     MMUL_OK);
    assert_int_equal(mmul_inputs_open_matrix(inputs, linked, &link, &err), MMUL_OK);
    assert_int_equal(mmul_matrix_open(folder_path(&folder, "A.bin"), &alone, &err), MMUL_OK);
    mmul_inputs_destroy(inputs); // matrices keep their file
    assert_true(first_of(first) == 1);
    assert_true(first_of(again) == 1);
    assert_true(first_of(link) == 1);
    assert_true(first_of(alone) == 2);
    assert_false(
        mmul_matrix_was_written(first)); // another file has its name: nothing was written to it
    mmul_matrix_close(first);
    mmul_matrix_close(again);
    mmul_matrix_close(link);
    mmul_matrix_close(alone);
    folder_destroy(&folder);
}

// Changes the content and sets the times back, as if the clock of files had not moved meanwhile.
static void write_unseen(const char *path, float value) {
    struct stat before;
    assert_int_equal(stat(path, &before), 0);
    store(path, value);
    const struct timespec times[] = {before.st_atim, before.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void age(const char *path, int64_t seconds) {
    struct stat now;
    assert_int_equal(stat(path, &now), 0);
    const struct timespec times[] = {now.st_atim, {.tv_sec = now.st_mtim.tv_sec - seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void writes_in_place(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool is_old, is_unseen, is_seen;
    } cases[] = {
        {"nothing happens", false, false, false},
        {"a later time", true, false, true},
        {"within a step of the clock of files", false, true, true},
        {"an old file whose times are set back", true, true, false}, // the price of asking no more
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct folder folder;
        struct mmul_error err;
        struct mmul_matrix *matrix;
        folder_create(&folder);
        store(folder_path(&folder, "A.bin"), 1);
        if (cases[c].is_old)
            age(folder.file, 100);
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

static void plain_files(void **state) {
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_has_one_version),
        cmocka_unit_test(writes_in_place),
        cmocka_unit_test(a_detached_matrix_needs_no_file),
        cmocka_unit_test(plain_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
