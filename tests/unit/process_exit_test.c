// SPDX-License-Identifier: MIT
// Once the process has begun to end, no output is committed, open or new, and no report.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "folder.h"
#include "io/output_file.h"

static enum mmul_status create(const char *path, struct mmul_output **output,
                               struct mmul_error *err) {
    const struct mmul_output_request request = {
        .path = path, .shape = {1, 1, 3, 5}, .dtype = MMUL_F32};
    return mmul_output_create(&request, output, err);
}

static void expect_old(const char *path) {
    size_t count;
    char *bytes = (char *)file_load(path, &count);
    assert_int_equal(count, 3);
    assert_memory_equal(bytes, "old", 3);
    free(bytes);
}

static void no_output_is_committed_once_the_process_ends(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    struct mmul_output *open_before, *later;
    char result[600], report[600];
    folder_create(&folder);
    snprintf(result, sizeof result, "%s", folder_path(&folder, "C.bin"));
    snprintf(report, sizeof report, "%s", folder_path(&folder, "report.json"));
    file_store(result, "old", 3);
    file_store(report, "old", 3);
    assert_int_equal(create(result, &open_before, &err), MMUL_OK);
    mmul_outputs_end();
    assert_failure(mmul_output_commit(open_before, &err), MMUL_ERR_STOPPED, err,
                   "is not written: the run was stopped");
    assert_int_equal(create(result, &later, &err), MMUL_OK);
    assert_failure(mmul_output_commit(later, &err), MMUL_ERR_STOPPED, err,
                   "is not written: the run was stopped");
    assert_failure(mmul_text_store(report, "new", &err), MMUL_ERR_STOPPED, err,
                   "is not written: the run was stopped");
    expect_old(result);
    expect_old(report);
    assert_int_equal(folder_count(&folder), 2);
    folder_destroy(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_output_is_committed_once_the_process_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
