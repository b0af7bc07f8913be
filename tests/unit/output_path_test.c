// SPDX-License-Identifier: MIT
// The temporary file of an output: existing files under its name, and permissions of a replaced
// file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "folder.h"
#include "io/output_file.h"

static const struct mmul_shape shape = {1, 2, 3, 5};

static enum mmul_status create(const char *path, enum mmul_dtype dtype, struct mmul_output **output,
                               struct mmul_error *err) {
    const struct mmul_output_request request = {.path = path, .shape = shape, .dtype = dtype};
    return mmul_output_create(&request, output, err);
}

// Another user may have the temporary file open for writing, directly or by another of its names.
// That user must not reach the result.
static void an_existing_temporary_file_is_replaced_or_refused(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    struct mmul_output *output;
    struct stat found;
    char part[700], other[600], path[600];
    folder_create(&folder);
    snprintf(path, sizeof path, "%s", folder_path(&folder, "C.bin"));
    snprintf(part, sizeof part, "%s.part", path);
    snprintf(other, sizeof other, "%s", folder_path(&folder, "other"));
    file_store(other, "precious", 8);
    assert_int_equal(link(other, part), 0);
    assert_failure(create(path, MMUL_F32, &output, &err), MMUL_ERR_CREATE, err,
                   "C.bin.part' has 2 names (hard links): not taken over");
    assert_int_equal(stat(other, &found), 0);
    assert_true(found.st_size == 8 && found.st_nlink == 2);
    assert_int_equal(unlink(other), 0);
    int held = open(part, O_RDWR); // our own file, but held open
    assert_true(held >= 0);
    assert_int_equal(create(path, MMUL_F32, &output, &err), MMUL_OK);
    assert_int_equal(pwrite(held, "tampered", 8, 0), 8);
    assert_int_equal(mmul_output_commit(output, &err), MMUL_OK);
    assert_int_equal(pwrite(held, "tampered", 8, 0), 8);
    assert_int_equal(close(held), 0);
    size_t count;
    char *bytes = (char *)file_load(path, &count);
    assert_true(count == 140 && bytes[0] == 4 && bytes[4] == 1);
    free(bytes);
    folder_destroy(&folder);
}

static void a_temporary_file_of_another_user_is_refused(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    struct mmul_output *output;
    char part[700], path[600], text[1400];
    if (geteuid() != 0) {
        print_message("# root: a file is given to another user\n");
        skip();
    }
    folder_create(&folder);
    snprintf(path, sizeof path, "%s", folder_path(&folder, "C.bin"));
    snprintf(part, sizeof part, "%s.part", path);
    file_store(part, "", 0);
    assert_int_equal(chmod(part, 0666), 0);
    assert_int_equal(chown(part, 54321, (gid_t)-1), 0);
    snprintf(text, sizeof text,
             "cannot create '%s': '%s' belongs to user 54321, not to user 0: not taken over", path,
             part);
    assert_int_equal(create(path, MMUL_F32, &output, &err), MMUL_ERR_CREATE);
    assert_string_equal(err.text, text);
    snprintf(text, sizeof text, "remove '%s', or give the output another name", part);
    assert_string_equal(err.hint, text);
    assert_int_equal(folder_count(&folder), 1);
    folder_destroy(&folder);
}

static void a_replaced_file_keeps_its_permissions(void **state) {
    (void)state;
    static const mode_t modes[] = {0600, 0644, 0664, 0666, 0444, 0755};
    struct folder folder;
    struct mmul_error err;
    struct mmul_output *output;
    struct stat found;
    char part[700], path[600];
    folder_create(&folder);
    snprintf(path, sizeof path, "%s", folder_path(&folder, "C.bin"));
    snprintf(part, sizeof part, "%s.part", path);
    const mode_t mask = umask(022);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        (void)unlink(path);
        file_store(path, "old", 3);
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(create(path, MMUL_F32, &output, &err), MMUL_OK);
        assert_int_equal(stat(part, &found), 0);
        assert_int_equal(found.st_mode & 0777, 0600); // never more open than the file it replaces
        assert_int_equal(mmul_output_commit(output, &err), MMUL_OK);
        assert_int_equal(stat(path, &found), 0);
        assert_int_equal(found.st_size, 140);
        assert_int_equal(found.st_mode & 0777, modes[i]);
    }
    umask(mask);
    folder_destroy(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_existing_temporary_file_is_replaced_or_refused),
        cmocka_unit_test(a_temporary_file_of_another_user_is_refused),
        cmocka_unit_test(a_replaced_file_keeps_its_permissions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
