// SPDX-License-Identifier: MIT
// Fingerprints: equal for equal bytes, whatever name and times; different for another length,
// header or sampled byte. Small files are compared as a whole.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "folder.h"
#include "io/fingerprint.h"

enum { HEADER = 20, BLOCKS = 64, BLOCK_BYTES = 4096, SMALL = HEADER + BLOCKS * BLOCK_BYTES };

static const struct mmul_file_range elements = {HEADER, INT64_MAX}; // to the end of the file

static const int64_t large = HEADER + (int64_t)BLOCKS * 10 * BLOCK_BYTES + 7;

static unsigned char *make_bytes(int64_t count) {
    unsigned char *bytes = malloc((size_t)count);
    assert_non_null(bytes);
    for (int64_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)((uint64_t)i * 2654435761U >> 13);
    return bytes;
}

static struct mmul_fingerprint take_fingerprint(const char *path, uint64_t seed) {
    struct mmul_fingerprint taken = {0};
    struct mmul_error err = {.text = ""};
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(mmul_fingerprint_compute(fd, path, elements, seed, &taken, &err), MMUL_OK);
    close(fd);
    return taken;
}

static bool is_same(const char *path, uint64_t seed, const struct mmul_fingerprint *expected) {
    struct mmul_fingerprint taken = take_fingerprint(path, seed);
    return taken.file_bytes == expected->file_bytes && taken.hash == expected->hash;
}

static void change_byte(const char *path, int64_t at) {
    unsigned char byte;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

// Every byte of a small file counts, including header and last byte.
static void small_files_are_compared_whole(void **state) {
    (void)state;
    static const int64_t sizes[] = {HEADER, HEADER + 1, HEADER + 63, HEADER + 5000, SMALL};
    struct folder folder;
    folder_create(&folder);
    const char *path = folder_path(&folder, "A.bin");
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        unsigned char *bytes = make_bytes(sizes[s]);
        file_store(path, bytes, (size_t)sizes[s]);
        struct mmul_fingerprint expected = take_fingerprint(path, s);
        int64_t step = sizes[s] > 6000 ? 997 : 1;
        for (int64_t at = 0; at < sizes[s]; at += step) {
            change_byte(path, at);
            assert_false(is_same(path, s, &expected));
            change_byte(path, at);
        }
        assert_true(is_same(path, s, &expected));
        free(bytes);
    }
    folder_destroy(&folder);
}

// A large file is ten times its sample: the seed selects one of ten blocks of each stretch.
static void large_files_are_sampled(void **state) {
    (void)state;
    struct folder folder;
    folder_create(&folder);
    const char *path = folder_path(&folder, "A.bin");
    unsigned char *bytes = make_bytes(large);
    int64_t stretch = (large - HEADER) / BLOCKS;
    file_store(path, bytes, (size_t)large);
    struct mmul_fingerprint expected = take_fingerprint(path, 5);
    for (int block = 0; block < BLOCKS; block++) {
        int noticed = 0;
        for (int64_t at = 0; at < stretch; at += BLOCK_BYTES) {
            change_byte(path, HEADER + block * stretch + at);
            noticed += !is_same(path, 5, &expected);
            change_byte(path, HEADER + block * stretch + at);
        }
        assert_int_equal(noticed, 1);
    }
    for (int64_t at = 0; at < HEADER; at++) {
        change_byte(path, at);
        assert_false(is_same(path, 5, &expected));
        change_byte(path, at);
    }
    assert_true(is_same(path, 5, &expected));
    assert_false(is_same(path, 6, &expected));
    file_store(path, bytes, (size_t)large - 1);
    assert_false(is_same(path, 5, &expected));
    free(bytes);
    folder_destroy(&folder);
}

static void opening_a_file_compares_its_fingerprint(void **state) {
    (void)state;
    struct folder folder;
    folder_create(&folder);
    char path[512], other[512];
    snprintf(path, sizeof path, "%s", folder_path(&folder, "A.bin"));
    snprintf(other, sizeof other, "%s", folder_path(&folder, "B.bin"));
    unsigned char *bytes = make_bytes(SMALL);
    struct mmul_error err = {.text = ""};
    int fd = -1;
    file_store(path, bytes, SMALL);
    file_store(other, bytes, SMALL);
    struct mmul_fingerprint expected = take_fingerprint(path, 1);
    assert_int_equal(mmul_fingerprint_open(other, elements, 1, &expected, &fd, &err), MMUL_OK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    fd = -1;
    change_byte(other, 1000);
    assert_failure(mmul_fingerprint_open(other, elements, 1, &expected, &fd, &err),
                   MMUL_ERR_NO_INPUT, err, "B.bin' is not the file that root reads: other bytes");
    file_store(other, bytes, SMALL - 1);
    assert_failure(mmul_fingerprint_open(other, elements, 1, &expected, &fd, &err),
                   MMUL_ERR_NO_INPUT, err,
                   "B.bin' is not the file that root reads: 262163 bytes, expected 262164");
    unlink(other);
    assert_failure(mmul_fingerprint_open(other, elements, 1, &expected, &fd, &err),
                   MMUL_ERR_NO_INPUT, err, "B.bin': No such file or directory");
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_failure(mmul_fingerprint_open(other, elements, 1, &expected, &fd, &err),
                   MMUL_ERR_NO_INPUT, err, "B.bin': it is not a regular file");
    assert_int_equal(fd, -1);
    free(bytes);
    folder_destroy(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_files_are_compared_whole),
        cmocka_unit_test(large_files_are_sampled),
        cmocka_unit_test(opening_a_file_compares_its_fingerprint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
