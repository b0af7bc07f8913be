// SPDX-License-Identifier: MIT
// A temporary folder for each test that writes files, and whole files in one call. Include it after
// cmocka.h. Every failure fails the running test.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpimatmul_local.h"

struct folder {
    char path[256];
    char file[512]; // the path returned last
};

static inline void folder_create(struct folder *folder) {
    const char *parent = getenv("TMPDIR");
    snprintf(folder->path, sizeof folder->path, "%s/mpimatmul-test-XXXXXX",
             parent != NULL ? parent : "/tmp");
    assert_non_null(mkdtemp(folder->path));
}

// Returns <folder>/<name>, valid until the next call.
static inline const char *folder_path(struct folder *folder, const char *name) {
    snprintf(folder->file, sizeof folder->file, "%s/%s", folder->path, name);
    return folder->file;
}

static inline int folder_count(const struct folder *folder) {
    DIR *list = opendir(folder->path);
    assert_non_null(list);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(list)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(list);
    return count;
}

// Removes a folder with its files and one level of subfolders.
static inline void remove_tree(const char *path, int depth) {
    DIR *list = opendir(path);
    assert_non_null(list);
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
        char *inner;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        assert_true(asprintf(&inner, "%s/%s", path, entry->d_name) > 0);
        struct stat found;
        assert_int_equal(lstat(inner, &found), 0);
        if (S_ISDIR(found.st_mode) && depth > 0)
            remove_tree(inner, depth - 1);
        else
            assert_int_equal(unlink(inner), 0);
        free(inner);
    }
    closedir(list);
    assert_int_equal(rmdir(path), 0);
}

static inline void folder_destroy(struct folder *folder) {
    remove_tree(folder->path, 1);
    assert_int_equal(mmul_live_bytes(), 0);
}

static inline enum mmul_status file_generate(const char *path, enum mmul_generator kind,
                                             uint64_t seed, struct mmul_shape shape,
                                             enum mmul_dtype dtype, struct mmul_error *err) {
    const struct mmul_output_request request = {.path = path, .shape = shape, .dtype = dtype};
    return mmul_generate_file(kind, seed, &request, err);
}

static inline enum mmul_status file_convert(const char *in, const char *out,
                                            const struct mmul_convert_options *options,
                                            int64_t *overflows, struct mmul_error *err) {
    struct mmul_matrix *matrix = NULL;
    enum mmul_status status = mmul_matrix_open(in, &matrix, err);
    if (status == MMUL_OK)
        status = mmul_convert(matrix, out, options, overflows, err);
    mmul_matrix_close(matrix);
    return status;
}

static inline void file_store(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

// Returns the whole file; release it with free.
static inline unsigned char *file_load(const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long length = ftell(file);
    assert_true(length >= 0);
    rewind(file);
    unsigned char *bytes = malloc((size_t)length + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)length, file), length);
    assert_int_equal(fclose(file), 0);
    bytes[length] = '\0';
    *count = (size_t)length;
    return bytes;
}

static inline void assert_same_files(const char *x, const char *y) {
    size_t x_count, y_count;
    unsigned char *x_bytes = file_load(x, &x_count), *y_bytes = file_load(y, &y_count);
    assert_int_equal(x_count, y_count);
    assert_memory_equal(x_bytes, y_bytes, x_count);
    free(x_bytes);
    free(y_bytes);
}

// Expects a failure with this status and a text that contains `part`.
static inline void check_failure(enum mmul_status status, enum mmul_status expected,
                                 const struct mmul_error *err, const char *part, int line) {
    if (status != expected || err->status != expected || strstr(err->text, part) == NULL) {
        fail_msg("line %d: status %d '%s', expected %d '%s'", line, (int)status, err->text,
                 (int)expected, part);
    }
}
#define assert_failure(status, expected, err, part) \
    check_failure(status, expected, &(err), part, __LINE__)
