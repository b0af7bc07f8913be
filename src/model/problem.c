// SPDX-License-Identifier: MIT
// Matching of shapes, and the one range that is split. Rows and columns differ only here: all
// callers use "the split operand", "the whole operand" and "units". Pure.
#include "model/problem.h"

#include <math.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "model/dtype.h"
#include "model/matrix.h"

static enum mmul_status shapes_differ(const struct mmul_problem_operand *a,
                                      const struct mmul_problem_operand *b, const char *what,
                                      int64_t left, int64_t right, struct mmul_error *err) {
    char a_text[96], b_text[96];
    return mmul_fail(err, MMUL_ERR_DATA,
                     "cannot multiply '%s' (%s) by '%s' (%s): %s %lld and %lld differ", a->name,
                     mmul_shape_format(a->shape, a_text), b->name,
                     mmul_shape_format(b->shape, b_text), what, (long long)left, (long long)right);
}

// Returns the common size of two stack dimensions, with 1 repeating; -1 if they do not fit.
static int64_t broadcast_size(int64_t left, int64_t right) {
    if (left == right || right == 1)
        return left;
    return left == 1 ? right : -1;
}

static enum mmul_status fit_stacks(const struct mmul_problem_operand *a,
                                   const struct mmul_problem_operand *b,
                                   struct mmul_problem *problem, struct mmul_error *err) {
    problem->c.batch = broadcast_size(a->shape.batch, b->shape.batch);
    if (problem->c.batch < 0)
        return shapes_differ(a, b, "batch sizes", a->shape.batch, b->shape.batch, err);
    problem->c.depth = broadcast_size(a->shape.depth, b->shape.depth);
    if (problem->c.depth < 0)
        return shapes_differ(a, b, "depths", a->shape.depth, b->shape.depth, err);
    return MMUL_OK;
}

// Hints that a file of one dimension is a row by default.
static void add_row_hint(const char *name, const char *letter, struct mmul_error *err) {
    mmul_hint(err,
              "'%.100s' has one dimension and counts as a row; --transpose-%s makes it a column",
              name, letter);
}

static enum mmul_status fit_inner(const struct mmul_problem_request *r,
                                  struct mmul_problem *problem, struct mmul_error *err) {
    const struct mmul_problem_operand *a = &r->a, *b = &r->b;
    int64_t a_inner = problem->transpose_a ? a->shape.rows : a->shape.cols;
    int64_t b_inner = problem->transpose_b ? b->shape.cols : b->shape.rows;
    if (a_inner != b_inner) {
        shapes_differ(a, b, "inner sizes", a_inner, b_inner, err);
        if (r->a_one_dimensional && !r->transpose_a)
            add_row_hint(a->name, "a", err);
        if (r->b_one_dimensional && !r->transpose_b)
            add_row_hint(b->name, "b", err);
        return err->status;
    }
    problem->m = problem->transpose_a ? a->shape.cols : a->shape.rows;
    problem->n = problem->transpose_b ? b->shape.rows : b->shape.cols;
    problem->k = a_inner;
    problem->c.rows = problem->m;
    problem->c.cols = problem->n;
    return MMUL_OK;
}

static enum mmul_status fit_c_in(struct mmul_problem *problem,
                                 const struct mmul_problem_operand *c_in, struct mmul_error *err) {
    if (c_in == NULL)
        return problem->beta == 0
                   ? MMUL_OK
                   : mmul_fail(err, MMUL_ERR_USAGE, "beta is %g but there is no C to add",
                               (double)problem->beta);
    struct mmul_shape s = c_in->shape, c = problem->c;
    problem->c_in_is_broadcast = !mmul_shape_equal(s, c);
    if ((s.batch == c.batch || s.batch == 1) && (s.depth == c.depth || s.depth == 1) &&
        (s.rows == c.rows || s.rows == 1) && (s.cols == c.cols || s.cols == 1))
        return MMUL_OK;
    char have[96], want[96];
    mmul_fail(err, MMUL_ERR_DATA, "cannot add '%s' (%s) to a result of %s: shapes differ",
              c_in->name, mmul_shape_format(s, have), mmul_shape_format(c, want));
    mmul_hint(err, "sizes of 1 are broadcast: a bias is 1 x %lld, a column %lld x 1",
              (long long)c.cols, (long long)c.rows);
    return err->status;
}

// Checks that the total range, and the elements of C, fit int64 with room for bytes.
static enum mmul_status check_sizes(const struct mmul_problem *problem, struct mmul_error *err) {
    int64_t area, elements, bytes;
    if (mmul_multiply_sizes(problem->m, problem->n, &area) &&
        mmul_multiply_sizes(area, problem->matrices, &elements) &&
        mmul_multiply_sizes(elements, 16, &bytes))
        return MMUL_OK;
    char text[96];
    return mmul_fail(err, MMUL_ERR_DATA, "result of %s has more elements than can be counted",
                     mmul_shape_format(problem->c, text));
}

// Returns the common 16-bit type if all inputs have it, else the type in which C is computed.
static enum mmul_dtype natural_dtype(enum mmul_dtype a, enum mmul_dtype b,
                                     const struct mmul_problem_operand *c_in) {
    bool common = a == b && (c_in == NULL || c_in->dtype == a);
    return common && (a == MMUL_F16 || a == MMUL_BF16) ? a : mmul_dtype_of_product(a, b);
}

enum mmul_status mmul_problem_init(const struct mmul_problem_request *r,
                                   struct mmul_problem *problem, struct mmul_error *err) {
    const struct mmul_problem_operand *a = &r->a, *b = &r->b;
    struct mmul_problem p = {.a = a->shape,
                             .b = b->shape,
                             .a_dtype = a->dtype,
                             .b_dtype = b->dtype,
                             .c_dtype = natural_dtype(a->dtype, b->dtype, r->c_in),
                             .transpose_a = r->transpose_a,
                             .transpose_b = r->transpose_b,
                             .alpha = r->alpha,
                             .beta = r->beta};
    if (mmul_problem_result_dtype(&p) == MMUL_F32) {
        p.alpha = (float)r->alpha;
        p.beta = (float)r->beta;
    }
    if (!isfinite(p.alpha) || !isfinite(p.beta))
        return mmul_fail(err, MMUL_ERR_USAGE, "%s is not a finite number",
                         isfinite(p.alpha) ? "beta" : "alpha");
    enum mmul_status status = fit_stacks(a, b, &p, err);
    if (status == MMUL_OK)
        status = fit_inner(r, &p, err);
    if (status == MMUL_OK)
        status = fit_c_in(&p, r->c_in, err);
    if (status != MMUL_OK)
        return status;
    p.matrices = mmul_shape_matrices(p.c);
    status = check_sizes(&p, err);
    if (status != MMUL_OK)
        return status;
    mmul_text_copy(p.a_name, sizeof p.a_name, a->name);
    mmul_text_copy(p.b_name, sizeof p.b_name, b->name);
    mmul_make_printable(p.a_name);
    mmul_make_printable(p.b_name);
    *problem = p;
    return MMUL_OK;
}

int64_t mmul_problem_a_matrix(const struct mmul_problem *problem, int64_t t) {
    return mmul_shape_stored_matrix(problem->a, problem->c, t);
}

int64_t mmul_problem_b_matrix(const struct mmul_problem *problem, int64_t t) {
    return mmul_shape_stored_matrix(problem->b, problem->c, t);
}

double mmul_problem_flops(const struct mmul_problem *problem) {
    return 2.0 * (double)problem->matrices * (double)problem->m * (double)problem->n *
           (double)problem->k;
}

int64_t mmul_problem_units(const struct mmul_problem *problem, enum mmul_axis axis) {
    return axis == MMUL_ROWS ? problem->m : problem->n;
}

int64_t mmul_problem_total(const struct mmul_problem *problem, enum mmul_axis axis) {
    return problem->matrices * mmul_problem_units(problem, axis);
}

int64_t mmul_problem_result_width(const struct mmul_problem *problem, enum mmul_axis axis) {
    return axis == MMUL_ROWS ? problem->n : problem->m;
}

enum mmul_dtype mmul_problem_result_dtype(const struct mmul_problem *problem) {
    return mmul_dtype_of_product(problem->a_dtype, problem->b_dtype);
}

int64_t mmul_problem_result_each(const struct mmul_problem *problem) {
    return (int64_t)mmul_dtype_bytes(mmul_problem_result_dtype(problem));
}

enum mmul_dtype mmul_problem_split_dtype(const struct mmul_problem *problem, enum mmul_axis axis) {
    return axis == MMUL_ROWS ? problem->a_dtype : problem->b_dtype;
}

enum mmul_dtype mmul_problem_whole_dtype(const struct mmul_problem *problem, enum mmul_axis axis) {
    return axis == MMUL_ROWS ? problem->b_dtype : problem->a_dtype;
}

struct mmul_shape mmul_problem_whole_shape(const struct mmul_problem *problem,
                                           enum mmul_axis axis) {
    return axis == MMUL_ROWS ? problem->b : problem->a;
}

int64_t mmul_problem_whole_matrix(const struct mmul_problem *problem, enum mmul_axis axis,
                                  int64_t t) {
    return axis == MMUL_ROWS ? mmul_problem_b_matrix(problem, t)
                             : mmul_problem_a_matrix(problem, t);
}

int64_t mmul_problem_whole_matrices(const struct mmul_problem *problem, enum mmul_axis axis) {
    return mmul_shape_matrices(mmul_problem_whole_shape(problem, axis));
}

int64_t mmul_problem_split_unit_bytes(const struct mmul_problem *problem, enum mmul_axis axis) {
    const size_t each = mmul_dtype_bytes(mmul_problem_split_dtype(problem, axis));
    return problem->alpha == 0 ? 0 : problem->k * (int64_t)each;
}

int64_t mmul_problem_whole_unit_bytes(const struct mmul_problem *problem, enum mmul_axis axis) {
    const size_t each = mmul_dtype_bytes(mmul_problem_whole_dtype(problem, axis));
    return problem->alpha == 0 ? 0 : problem->k * (int64_t)each;
}

int64_t mmul_problem_result_unit_bytes(const struct mmul_problem *problem, enum mmul_axis axis) {
    return mmul_problem_result_width(problem, axis) * mmul_problem_result_each(problem);
}

int64_t mmul_problem_whole_bytes(const struct mmul_problem *problem, enum mmul_axis axis) {
    return mmul_problem_whole_matrices(problem, axis) * mmul_problem_result_width(problem, axis) *
           mmul_problem_whole_unit_bytes(problem, axis);
}

int64_t mmul_matrix_range_count(const struct mmul_problem *problem, enum mmul_axis axis,
                                int64_t begin, int64_t end) {
    int64_t units = mmul_problem_units(problem, axis);
    return begin == end ? 0 : (end - 1) / units - begin / units + 1;
}

struct mmul_matrix_range mmul_matrix_range_at(const struct mmul_problem *problem,
                                              enum mmul_axis axis, int64_t begin, int64_t end,
                                              int64_t index) {
    int64_t units = mmul_problem_units(problem, axis);
    int64_t matrix = begin / units + index;
    int64_t from = matrix * units > begin ? matrix * units : begin;
    int64_t to = (matrix + 1) * units < end ? (matrix + 1) * units : end;
    return (struct mmul_matrix_range){
        .matrix = matrix, .begin = from - matrix * units, .end = to - matrix * units};
}

// Returns the rectangle of units [begin, end) along `axis`, in a matrix of rows x cols.
static struct mmul_region stripe_region(int64_t matrix, enum mmul_axis axis, int64_t begin,
                                        int64_t end, int64_t rows, int64_t cols) {
    return axis == MMUL_ROWS ? (struct mmul_region){matrix, begin, end, 0, cols}
                             : (struct mmul_region){matrix, 0, rows, begin, end};
}

struct mmul_region mmul_matrix_range_operand(const struct mmul_problem *problem,
                                             enum mmul_axis axis,
                                             struct mmul_matrix_range stretch) {
    bool rows = axis == MMUL_ROWS;
    struct mmul_shape stored = rows ? problem->a : problem->b;
    bool transposed = rows ? problem->transpose_a : problem->transpose_b;
    enum mmul_axis stored_axis = rows == transposed ? MMUL_COLS : MMUL_ROWS;
    int64_t matrix = rows ? mmul_problem_a_matrix(problem, stretch.matrix)
                          : mmul_problem_b_matrix(problem, stretch.matrix);
    return stripe_region(matrix, stored_axis, stretch.begin, stretch.end, stored.rows, stored.cols);
}

struct mmul_region mmul_matrix_range_result(const struct mmul_problem *problem, enum mmul_axis axis,
                                            struct mmul_matrix_range stretch) {
    return stripe_region(stretch.matrix, axis, stretch.begin, stretch.end, problem->m, problem->n);
}
