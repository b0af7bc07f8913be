// SPDX-License-Identifier: MIT
// Entries of an output: recorded regions come back as stored ones, of selections too, and only
// while their bytes are in the file.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "folder.h"
#include "io/output_journal.h"
#include "io/selection.h"
#include "model/matrix.h"

enum { MATRICES = 3, ROWS = 7, COLS = 5, EACH = ROWS * COLS };

static const struct mmul_shape stored = {1, MATRICES, ROWS, COLS};
static const struct mmul_journal_field fields[] = {{"operation", "mul"}};

static const struct {
    enum mmul_selection_axis axis;
    int64_t count; // 0: all is selected
    struct mmul_segment segments[3];
} cases[] = {
    {MMUL_SELECT_ROWS, 0, {{0, 0}}},
    {MMUL_SELECT_ROWS, 2, {{1, 3}, {5, 7}}},
    {MMUL_SELECT_ROWS, 1, {{2, 6}}},
    {MMUL_SELECT_COLS, 2, {{0, 2}, {3, 4}}},
    {MMUL_SELECT_COLS, 3, {{0, 1}, {2, 3}, {4, 5}}},
    {MMUL_SELECT_COLS, 1, {{1, 4}}},
    {MMUL_SELECT_MATRICES, 2, {{2, 3}, {0, 1}}},
};
enum { CASES = sizeof cases / sizeof *cases };

static bool yes(void *context) {
    (void)context;
    return true;
}

static bool no(void *context) {
    (void)context;
    return false;
}

// Opens C.npy in the folder with its journal, which is then new or has entries.
static struct mmul_output *open_output(struct folder *folder, struct mmul_error *err) {
    char path[512];
    struct mmul_output *output = NULL;
    struct mmul_journal *journal = NULL;
    snprintf(path, sizeof path, "%s", folder_path(folder, "C.npy"));
    const struct mmul_output_request request = {.path = path, .shape = stored, .journal = ""};
    assert_int_equal(mmul_output_create(&request, &output, err), MMUL_OK);
    assert_int_equal(mmul_journal_open(output->journal_path, "C.npy", fields, 1, &journal, err),
                     MMUL_OK);
    assert_int_equal(mmul_output_set_journal(output, journal, err), MMUL_OK);
    mmul_output_set_sync(output, false);
    return output;
}

static void select_case(struct mmul_output *output, int c) {
    struct mmul_selection *selection = NULL;
    struct mmul_error err;
    if (cases[c].count == 0)
        return;
    assert_int_equal(mmul_selection_create(cases[c].axis, stored, cases[c].segments, cases[c].count,
                                           &selection, &err),
                     MMUL_OK);
    mmul_output_select(output, selection);
}

// Marks the stored elements of a selected region, by counting.
static void mark_expected(int c, struct mmul_region r, bool expected[MATRICES][ROWS][COLS]) {
    int64_t lines[ROWS + COLS + MATRICES], count = 0;
    for (int64_t i = 0; i < cases[c].count; i++)
        for (int64_t at = cases[c].segments[i].begin; at < cases[c].segments[i].end; at++)
            lines[count++] = at;
    for (int64_t row = r.row_begin; row < r.row_end; row++)
        for (int64_t col = r.col_begin; col < r.col_end; col++) {
            const bool is_all = cases[c].count == 0;
            expected[!is_all && cases[c].axis == MMUL_SELECT_MATRICES ? lines[r.matrix] : r.matrix]
                    [!is_all && cases[c].axis == MMUL_SELECT_ROWS ? lines[row] : row]
                    [!is_all && cases[c].axis == MMUL_SELECT_COLS ? lines[col] : col] = true;
        }
}

// Recalls the entries. Returns their number; found: the elements of their regions.
static int64_t recall(const struct mmul_output *output, bool found[MATRICES][ROWS][COLS],
                      int64_t *dropped) {
    struct mmul_recorded recorded;
    struct mmul_error err;
    assert_int_equal(mmul_output_recall(output, &recorded, &err), MMUL_OK);
    for (int64_t i = 0; i < recorded.count; i++)
        for (int64_t row = recorded.regions[i].row_begin; row < recorded.regions[i].row_end; row++)
            for (int64_t col = recorded.regions[i].col_begin; col < recorded.regions[i].col_end;
                 col++)
                found[recorded.regions[i].matrix][row][col] = true;
    *dropped = recorded.dropped_elements;
    mmul_free(recorded.regions);
    return recorded.count;
}

// Writes numbers, records the region, opens all again, and compares what is recalled.
static void check_region(struct folder *folder, int c, struct mmul_region r) {
    bool expected[MATRICES][ROWS][COLS] = {{{false}}}, found[MATRICES][ROWS][COLS] = {{{false}}};
    float values[EACH];
    int64_t dropped;
    struct mmul_error err;
    struct mmul_output *output = open_output(folder, &err);
    select_case(output, c);
    for (int i = 0; i < EACH; i++)
        values[i] = (float)(i + 1);
    assert_int_equal(mmul_output_write_float(output, r, 0, mmul_region_count(r), values, &err),
                     MMUL_OK);
    assert_int_equal(mmul_output_record(output, r, yes, NULL, &err), MMUL_OK);
    mmul_output_destroy(output);
    output = open_output(folder, &err);
    mark_expected(c, r, expected);
    assert_in_range(recall(output, found, &dropped), 1, 3);
    assert_int_equal(dropped, 0);
    assert_memory_equal(found, expected, sizeof found);
    assert_int_equal(mmul_output_commit(output, &err), MMUL_OK);
    assert_int_equal(folder_count(folder), 1); // the journal has served
}

static void recorded_regions_come_back(void **state) {
    (void)state;
    struct folder folder;
    folder_create(&folder);
    for (int c = 0; c < CASES; c++) {
        int64_t lines = 0;
        for (int64_t i = 0; i < cases[c].count; i++)
            lines += cases[c].segments[i].end - cases[c].segments[i].begin;
        const bool by_rows = lines > 0 && cases[c].axis == MMUL_SELECT_ROWS,
                   by_cols = lines > 0 && cases[c].axis == MMUL_SELECT_COLS,
                   by_matrices = lines > 0 && cases[c].axis == MMUL_SELECT_MATRICES;
        const int64_t rows = by_rows ? lines : ROWS, cols = by_cols ? lines : COLS;
        struct mmul_region r;
        for (r.matrix = 0; r.matrix < (by_matrices ? lines : MATRICES); r.matrix++)
            for (r.row_begin = 0; r.row_begin < rows; r.row_begin += 3)
                for (r.row_end = r.row_begin + 1; r.row_end <= rows; r.row_end += 2)
                    for (r.col_begin = 0; r.col_begin < cols; r.col_begin++)
                        for (r.col_end = r.col_begin + 1; r.col_end <= cols; r.col_end++)
                            check_region(&folder, c, r);
    }
    folder_destroy(&folder);
}

static void changed_bytes_are_dropped(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    folder_create(&folder);
    char part[512];
    snprintf(part, sizeof part, "%s", folder_path(&folder, "C.npy.part"));
    const struct mmul_region rows = {.matrix = 1, .row_begin = 2, .row_end = 4, .col_end = COLS},
                             other = {.matrix = 2, .row_end = 1, .col_begin = 1, .col_end = 3};
    struct mmul_output *output = open_output(&folder, &err);
    const int64_t begin = output->data_offset + 4 * (EACH + 2 * COLS);
    const float values[EACH] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    assert_int_equal(mmul_output_write_float(output, rows, 0, 2 * COLS, values, &err), MMUL_OK);
    assert_int_equal(mmul_output_write_float(output, other, 0, 2, values, &err), MMUL_OK);
    assert_int_equal(mmul_output_record(output, rows, yes, NULL, &err), MMUL_OK);
    assert_int_equal(mmul_output_record(output, other, yes, NULL, &err), MMUL_OK);
    assert_int_equal(mmul_output_record(output, rows, no, NULL, &err), MMUL_OK);
    assert_int_equal(mmul_journal_count(output->journal), 2);
    mmul_output_destroy(output);
    for (int64_t at = begin - 1; at <= begin + 8 * COLS; at++) {
        bool found[MATRICES][ROWS][COLS] = {{{false}}};
        const bool is_inside = begin <= at && at < begin + 8 * COLS;
        int64_t dropped;
        char byte;
        const int fd = open(part, O_RDWR);
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        output = open_output(&folder, &err);
        assert_int_equal(recall(output, found, &dropped), is_inside ? 1 : 2);
        assert_int_equal(dropped, is_inside ? 2 * COLS : 0);
        assert_int_equal(found[1][2][0], !is_inside);
        assert_true(found[2][0][2] && !found[2][0][3]);
        mmul_output_destroy(output);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
    }
    folder_destroy(&folder);
}

// Lines with the right checksum, but of another result, or with a text behind them.
static void other_entries_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"done 0 0 8 0 5 00",  "done 3 0 1 0 1 00",
                                        "done 0 0 1 0 6 00",  "done -1 0 1 0 1 00",
                                        "done 0 2 1 0 1 00",  "done 0 0 1 0 1 00 more",
                                        "done 0 0 1 0 00",    "made 0 0 1 0 1 00",
                                        "done 0 -1 1 0 1 00", ""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct folder folder;
        struct mmul_recorded recorded;
        struct mmul_error err;
        char expected[128];
        folder_create(&folder);
        struct mmul_output *output = open_output(&folder, &err);
        assert_int_equal(mmul_journal_add(output->journal, texts[i], &err), MMUL_OK);
        mmul_output_destroy(output);
        output = open_output(&folder, &err);
        snprintf(expected, sizeof expected, "C.npy': '%s' in '", texts[i]);
        assert_failure(mmul_output_recall(output, &recorded, &err), MMUL_ERR_DATA, err, expected);
        mmul_output_destroy(output);
        assert_int_equal(folder_count(&folder), 2); // as they were
        folder_destroy(&folder);
    }
}

// Another job under the temporary name may have left a longer file.
static void a_longer_file_is_cut(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    size_t before, after;
    folder_create(&folder);
    struct mmul_output *output = open_output(&folder, &err);
    const struct mmul_region first = {.row_end = 1, .col_end = 1};
    assert_int_equal(mmul_output_record(output, first, yes, NULL, &err), MMUL_OK);
    mmul_output_destroy(output);
    char part[512];
    snprintf(part, sizeof part, "%s", folder_path(&folder, "C.npy.part"));
    free(file_load(part, &before));
    assert_int_equal(truncate(part, (off_t)before + 1000), 0);
    output = open_output(&folder, &err);
    assert_int_equal(mmul_output_commit(output, &err), MMUL_OK);
    free(file_load(folder_path(&folder, "C.npy"), &after));
    assert_int_equal(after, before);
    folder_destroy(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_regions_come_back),
        cmocka_unit_test(changed_bytes_are_dropped),
        cmocka_unit_test(other_entries_are_refused),
        cmocka_unit_test(a_longer_file_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
