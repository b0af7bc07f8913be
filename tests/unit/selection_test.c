// SPDX-License-Identifier: MIT
// Selections: every region of a selected stack is read from, and written to, the stored elements
// that plain loops find. Contiguous ones can be mapped.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "folder.h"
#include "io/file_mapping.h"
#include "io/matrix_file.h"
#include "io/output_file.h"
#include "model/matrix.h"

enum { MATRICES = 3, ROWS = 7, COLS = 5, EACH = ROWS * COLS, COUNT = MATRICES * EACH };

static const struct mmul_shape stored = {1, MATRICES, ROWS, COLS};

static const struct {
    enum mmul_selection_axis axis;
    int64_t count, first; // first: of a contiguous selection of the first matrix alone, else -1
    struct mmul_segment segments[3];
} cases[] = {
    {MMUL_SELECT_ROWS, 2, -1, {{1, 3}, {5, 7}}},
    {MMUL_SELECT_ROWS, 1, 10, {{2, 6}}},
    {MMUL_SELECT_COLS, 2, -1, {{0, 2}, {3, 4}}},
    {MMUL_SELECT_COLS, 1, -1, {{1, 4}}},
    {MMUL_SELECT_MATRICES, 3, -1, {{2, 3}, {0, 1}, {2, 3}}},
    {MMUL_SELECT_MATRICES, 1, 0, {{0, 1}}},
    {MMUL_SELECT_ROWS, 3, -1, {{0, 1}, {2, 3}, {6, 7}}},
};
enum { CASES = sizeof cases / sizeof *cases };

static struct mmul_selection *make_selection(int c, struct mmul_shape whole) {
    struct mmul_selection *made = NULL;
    struct mmul_error err;
    assert_int_equal(
        mmul_selection_create(cases[c].axis, whole, cases[c].segments, cases[c].count, &made, &err),
        MMUL_OK);
    return made;
}

// Returns the stored line of a selected one, by counting.
static int64_t stored_line(int c, int64_t line) {
    for (int64_t i = 0; i < cases[c].count; i++)
        for (int64_t at = cases[c].segments[i].begin; at < cases[c].segments[i].end; at++)
            if (line-- == 0)
                return at;
    fail();
    return -1;
}

// Returns the index in the stored stack of element `position` of a selected region.
static int64_t stored_element(int c, struct mmul_region r, int64_t position) {
    int64_t width = r.col_end - r.col_begin, t = r.matrix, row = r.row_begin + position / width,
            col = r.col_begin + position % width;
    int64_t *line = cases[c].axis == MMUL_SELECT_ROWS   ? &row
                    : cases[c].axis == MMUL_SELECT_COLS ? &col
                                                        : &t;
    *line = stored_line(c, *line);
    return (t * ROWS + row) * COLS + col;
}

// Calls `check` for every region of the selected stack, and every range of its elements.
typedef void check_range(void *context, int c, struct mmul_region r, int64_t begin, int64_t end);
static void walk_regions(int c, struct mmul_shape s, check_range *check, void *context) {
    struct mmul_region r;
    for (r.matrix = 0; r.matrix < mmul_shape_matrices(s); r.matrix++)
        for (r.row_begin = 0; r.row_begin < s.rows; r.row_begin++)
            for (r.row_end = r.row_begin + 1; r.row_end <= s.rows; r.row_end++)
                for (r.col_begin = 0; r.col_begin < s.cols; r.col_begin++)
                    for (r.col_end = r.col_begin + 1; r.col_end <= s.cols; r.col_end++)
                        for (int64_t begin = 0; begin < mmul_region_count(r); begin += 3)
                            for (int64_t end = begin; end <= mmul_region_count(r); end += 2)
                                check(context, c, r, begin, end);
}

static void check_read(void *context, int c, struct mmul_region r, int64_t begin, int64_t end) {
    float values[EACH];
    struct mmul_error err;
    assert_int_equal(mmul_matrix_read(context, r, begin, end, values, &err), MMUL_OK);
    for (int64_t p = begin; p < end; p++)
        assert_int_equal((int64_t)values[p - begin], stored_element(c, r, p));
}

// Stores a .npy in which the element with the index e in C order is e.
static void store_npy(const char *path, bool fortran) {
    char header[129];
    float elements[COUNT];
    snprintf(header, sizeof header,
             "{'descr': '<f4', 'fortran_order': %s, 'shape': (%d, %d, %d), }",
             fortran ? "True" : "False", MATRICES, ROWS, COLS);
    for (int e = 0; e < COUNT; e++) {
        const int t = e / EACH, row = e / COLS % ROWS, col = e % COLS;
        elements[fortran ? t + MATRICES * (row + ROWS * col) : e] = (float)e;
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
    fprintf(file, "%-117s\n", header);
    fwrite(elements, sizeof *elements, COUNT, file);
    assert_int_equal(fclose(file), 0);
}

static void every_region_is_read(void **state) {
    (void)state;
    struct folder folder;
    folder_create(&folder);
    const char *path = folder_path(&folder, "A.npy");
    for (int fortran = 0; fortran < 2; fortran++) {
        store_npy(path, fortran == 1);
        for (int c = 0; c < CASES; c++) {
            struct mmul_matrix *matrix;
            struct mmul_error err;
            assert_int_equal(mmul_matrix_open(path, &matrix, &err), MMUL_OK);
            mmul_matrix_select(matrix, make_selection(c, stored));
            assert_true(mmul_shape_equal(mmul_matrix_stored_shape(matrix), stored));
            walk_regions(c, mmul_matrix_info(matrix).shape, check_read, matrix);
            mmul_matrix_close(matrix);
        }
    }
    folder_destroy(&folder);
}

struct written {
    struct mmul_output *output;
    float expected[COUNT];
    enum mmul_dtype dtype;
    float next;
};

static void check_write(void *context, int c, struct mmul_region r, int64_t begin, int64_t end) {
    struct written *w = context;
    float values[EACH];
    double doubles[EACH];
    struct mmul_error err;
    for (int64_t p = begin; p < end; p++) {
        w->next = w->next < 2000 ? w->next + 1 : 1; // whole numbers that float16 holds
        values[p - begin] = w->expected[stored_element(c, r, p)] = w->next;
        doubles[p - begin] = w->next;
    }
    assert_int_equal((begin / 3) % 2 == 0
                         ? mmul_output_write_float(w->output, r, begin, end, values, &err)
                         : mmul_output_write_double(w->output, r, begin, end, doubles, &err),
                     MMUL_OK);
}

static void every_region_is_written(void **state) {
    (void)state;
    static const enum mmul_dtype dtypes[] = {MMUL_F32, MMUL_F16, MMUL_F64};
    struct folder folder;
    folder_create(&folder);
    const char *path = folder_path(&folder, "C.npy");
    for (int i = 0; i < 3 * CASES; i++) {
        const struct mmul_output_request request = {
            .path = path, .shape = stored, .dtype = dtypes[i % 3]};
        struct written w = {.dtype = dtypes[i % 3]};
        struct mmul_matrix *matrix;
        struct mmul_error err;
        float found[EACH];
        assert_int_equal(mmul_output_create(&request, &w.output, &err), MMUL_OK);
        mmul_output_select(w.output, make_selection(i / 3, stored));
        walk_regions(i / 3, mmul_output_shape(w.output), check_write, &w);
        assert_int_equal(mmul_output_commit(w.output, &err), MMUL_OK);
        assert_int_equal(mmul_matrix_open(path, &matrix, &err), MMUL_OK);
        for (int64_t t = 0; t < MATRICES; t++) {
            assert_int_equal(
                mmul_matrix_read_float(matrix, mmul_region_whole(stored, t), 0, EACH, found, &err),
                MMUL_OK);
            for (int e = 0; e < EACH; e++)
                assert_true(found[e] == w.expected[t * EACH + e]);
        }
        mmul_matrix_close(matrix);
    }
    folder_destroy(&folder);
}

// Selections of a single matrix, and of whole matrices, in one piece.
static void contiguous_selections_are_mapped(void **state) {
    (void)state;
    struct folder folder;
    folder_create(&folder);
    char in[512];
    const struct mmul_shape one = {1, 1, ROWS, COLS};
    struct mmul_error err;
    snprintf(in, sizeof in, "%s", folder_path(&folder, "A.bin"));
    const char *out = folder_path(&folder, "C.bin");
    assert_int_equal(file_generate(in, MMUL_GENERATE_UNIFORM, 1, one, MMUL_F32, &err), MMUL_OK);
    for (int c = 0; c < CASES; c++) {
        const struct mmul_output_request request = {.path = out, .shape = one};
        const bool is_one = cases[c].first >= 0;
        struct mmul_matrix *matrix;
        struct mmul_output *output;
        struct mmul_extent of_in = {.fd = -1}, of_out = {.fd = -1};
        assert_int_equal(mmul_matrix_open(in, &matrix, &err), MMUL_OK);
        assert_int_equal(mmul_output_create(&request, &output, &err), MMUL_OK);
        mmul_matrix_select(matrix, make_selection(c, one));
        mmul_output_select(output, make_selection(c, one));
        assert_int_equal(mmul_matrix_extent(matrix, MMUL_F32, &of_in), is_one);
        assert_int_equal(mmul_output_extent(output, MMUL_F32, &of_out), is_one);
        if (is_one) {
            const struct mmul_shape s = mmul_output_shape(output);
            assert_int_equal(of_in.offset, 20 + 4 * cases[c].first);
            assert_int_equal(of_out.offset, 20 + 4 * cases[c].first);
            assert_int_equal(of_in.bytes, 4 * s.rows * s.cols);
            assert_int_equal(of_out.bytes, 4 * s.rows * s.cols);
        }
        mmul_matrix_close(matrix);
        mmul_output_destroy(output);
    }
    folder_destroy(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_region_is_read),
        cmocka_unit_test(every_region_is_written),
        cmocka_unit_test(contiguous_selections_are_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
