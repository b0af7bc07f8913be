// SPDX-License-Identifier: MIT
// NaN and Inf in a product. An element of C with a NaN among its terms is NaN. One with an Inf is
// the sum, by IEEE 754, of those of its k terms that hold the Inf; the finite terms change nothing.
// So positions of Infs are listed once per column of B and once per row of A, and a term is
// computed per listed position. Only the first few are listed. Beyond them the true class is the
// listed one or NaN, and both are accepted, which keeps a matrix full of Inf as cheap as any other.
// Numbers of float64 with squares that overflow double have no norms, and so no tolerance. Of the
// elements of C that depend on them, a few per row are computed again.
#include "model/check_state.h"

#include <float.h>
#include <math.h>

#include "base/random.h"

enum {
    LEFT_OUT_LIMIT = 8, // elements of a row that are taken out of a_i . (B x) one by one
    HUGE_SAMPLE = 8,    // elements of a row, of those without a norm, that are computed again
};

// One element of C, with its element of C_in.
struct element {
    int64_t col;
    double c, c_in; // c_in is 0 if beta is
};

static void record_nonfinite(struct mmul_check_nonfinite *nonfinite, int64_t position,
                             double value) {
    if (isnan(value))
        nonfinite->has_nan = true;
    else if (nonfinite->inf_count < MMUL_CHECK_INF_LISTED)
        nonfinite->inf[nonfinite->inf_count++] = position;
    else
        nonfinite->more = true;
}

void mmul_check_find_nonfinite(struct mmul_check *check, const struct mmul_product *product) {
    struct mmul_check_operand b = mmul_check_operand_b(product);
    int64_t lines = b.transposed ? check->n : check->k;
    int64_t length = b.transposed ? check->k : check->n;
    for (int64_t j = 0; j < check->n; j++) {
        if (isfinite(check->column_squares[j]))
            continue;
        check->nonfinite[j] = (struct mmul_check_nonfinite){0};
        check->column_squares[j] = 0;
    }
    for (int64_t line = 0; line < lines; line++) {
        for (int64_t at = 0; at < length; at++) {
            int64_t p = b.transposed ? at : line, j = b.transposed ? line : at;
            if (check->x[j] != 0)
                continue;
            double value = mmul_check_element(b, p, j);
            if (isfinite(value))
                check->column_squares[j] += value * value;
            else
                record_nonfinite(&check->nonfinite[j], p, value);
        }
    }
}

// Lists the NaN and Inf of the row of A in check->row; returns the squares of the rest.
static double list_row_nonfinite(const struct mmul_check *check,
                                 struct mmul_check_nonfinite *nonfinite) {
    double squares = 0;
    for (int64_t p = 0; p < check->k; p++) {
        double value = check->row[p];
        if (isfinite(value))
            squares += value * value;
        else
            record_nonfinite(nonfinite, p, value);
    }
    return squares;
}

// Returns the sum of the terms a_ip b_pj at the listed positions. Sets `either` if the sum may be
// NaN as well: unlisted Infs, or a subnormal number times Inf, which a device may take as 0 Inf.
static double sum_listed(const struct mmul_check *check, const struct mmul_product *product,
                         const struct mmul_check_nonfinite *listed, int64_t col, bool *either) {
    const struct mmul_check_operand b = mmul_check_operand_b(product);
    double sum = 0;
    for (int t = 0; t < listed->inf_count; t++) {
        double a_value = check->row[listed->inf[t]];
        double b_value = mmul_check_element(b, listed->inf[t], col);
        sum += a_value * b_value;
        *either |= fmin(fabs(a_value), fabs(b_value)) < mmul_check_type_limits(product).smallest;
    }
    *either |= listed->more;
    return sum;
}

static bool may_overflow(const struct mmul_check *check, const struct mmul_product *product,
                         double norm, struct element at) {
    double product_bound =
        fmax(1, fabs(product->alpha)) * norm * sqrt(check->column_squares[at.col]);
    double c_in_bound = isfinite(at.c_in) ? fabs(product->beta * at.c_in) : 0;
    return product_bound + c_in_bound > mmul_check_narrowing(product).largest / 2;
}

static bool is_empty(const struct mmul_check_nonfinite *nonfinite) {
    return !nonfinite->has_nan && nonfinite->inf_count == 0;
}

// Checks the class of an element against the NaN and Inf of its row (row_nonfinite) and of its
// column's list.
static bool class_is_right(const struct mmul_check *check, const struct mmul_product *product,
                           double norm, const struct mmul_check_nonfinite *row_nonfinite,
                           struct element at) {
    static const struct mmul_check_nonfinite none;
    const struct mmul_check_nonfinite *column =
        check->x[at.col] != 0 ? &none : &check->nonfinite[at.col];
    if (isfinite(at.c_in) && is_empty(row_nonfinite) && is_empty(column))
        return true; // the column's squares overflow double: see sample_is_right
    bool either = false;
    double sum = NAN;
    if (!row_nonfinite->has_nan && !column->has_nan) {
        sum = sum_listed(check, product, row_nonfinite, at.col, &either) +
              sum_listed(check, product, column, at.col, &either);
    }
    double expected = product->alpha * sum + product->beta * at.c_in;
    if (isnan(expected) ? isnan(at.c) : at.c == expected)
        return true;
    if (isfinite(at.c))
        return false;
    return (either && isnan(at.c)) || may_overflow(check, product, norm, at);
}

// Takes an element with infinite or NaN C or C_in out of the sum a_i . (B x).
static void exclude_element(const struct mmul_check *check, const struct mmul_product *product,
                            struct mmul_check_row *row, int64_t col) {
    if (++row->excluded_count > LEFT_OUT_LIMIT) {
        row->residual = NAN;
        return;
    }
    double sum = 0; // a_i . b_j for the row in check->row
    for (int64_t p = 0; p < check->k; p++)
        sum += check->row[p] * mmul_check_element(mmul_check_operand_b(product), p, col);
    row->residual += product->alpha * (sum * check->x[col]);
}

// Returns true if the element, of the row in check->row, is within the worst case of any order of
// its k terms: (k + 4) u times the sum of their absolute values (Higham 2002, 3.5). Also true if
// such sums may overflow.
static bool element_is_right(const struct mmul_check *check, const struct mmul_product *product,
                             struct element at) {
    const struct mmul_check_operand b = mmul_check_operand_b(product);
    const struct mmul_check_type_limits type = mmul_check_type_limits(product);
    const long double added = (long double)product->beta * at.c_in;
    struct mmul_check_terms terms = {.flushed = (long double)type.smallest * (2 * check->k + 2)};
    for (int64_t p = 0; p < check->k; p++)
        mmul_check_add_term(&terms, type.smallest, check->row[p], mmul_check_element(b, p, at.col));
    const long double alpha = fmax(1, fabs(product->alpha)), flushed = terms.flushed,
                      bound = alpha * terms.size + fabsl(added) + alpha * flushed;
    if (bound > type.largest / 2)
        return true;
    return fabsl(at.c - ((long double)product->alpha * terms.sum + added)) <=
           (check->k + 4) * (long double)type.unit * bound + alpha * flushed;
}

// Returns true if the column is finite but its squares overflow double.
static bool column_squares_overflow(const struct mmul_check *check, int64_t col) {
    return check->x[col] == 0 && is_empty(&check->nonfinite[col]);
}

// Checks a sample of a row's elements that no sum covers because squares overflow double. The row
// in check->row is finite. These elements are in such columns, or are all of the row if its own
// norms overflow.
static bool sample_is_right(const struct mmul_check *check, const struct mmul_product *product,
                            const struct mmul_check_row *row) {
    const bool all = !isfinite(row->norm) || !isfinite(row->c_in_norm);
    int64_t count = 0, index = 0;
    for (int64_t j = 0; j < check->n; j++)
        count += column_squares_overflow(check, j) || (all && check->x[j] != 0);
    if (count == 0)
        return true;
    const int64_t each = count > HUGE_SAMPLE ? count / HUGE_SAMPLE : 1,
                  first = (int64_t)(mmul_random_at(~check->seed, (uint64_t)row->index) %
                                    (uint64_t)each);
    for (int64_t j = 0; j < check->n; j++) {
        const struct element at = {j, row->c[j], row->c_in != NULL ? row->c_in[j] : 0};
        if ((column_squares_overflow(check, j) || (all && check->x[j] != 0)) &&
            index++ % each == first && isfinite(at.c_in) && !element_is_right(check, product, at))
            return false;
    }
    return true;
}

bool mmul_check_compare_classes(struct mmul_check *check, const struct mmul_product *product,
                                struct mmul_check_row *row) {
    struct mmul_check_nonfinite in_row = {0};
    mmul_check_gather_row(check, product, row->index);
    mmul_check_load_row(check, product, row);
    row->norm = mmul_check_norm(product, list_row_nonfinite(check, &in_row), check->k);
    row->finite = is_empty(&in_row);
    row->residual = row->finite ? -product->alpha * row->projection : 0;
    double c_in_squares = 0, scale_squares = 0, c_squares = 0;
    for (int64_t j = 0; j < check->n; j++) {
        struct element at = {j, row->c[j], row->c_in != NULL ? row->c_in[j] : 0};
        bool by_class = !row->finite || check->x[j] == 0 || !isfinite(at.c_in);
        if (by_class && !class_is_right(check, product, row->norm, &in_row, at))
            return false;
        if (!by_class && isfinite(at.c)) {
            double c_in_x = product->beta * at.c_in * check->x[j];
            row->residual += at.c * check->x[j] - c_in_x;
            scale_squares += check->column_squares[j] * check->x[j] * check->x[j];
            c_in_squares += at.c_in * at.c_in * check->x[j] * check->x[j];
            c_squares += at.c * at.c * check->x[j] * check->x[j];
        } else if (!by_class && !may_overflow(check, product, row->norm, at)) {
            return false;
        } else if (row->finite && check->x[j] != 0) {
            exclude_element(check, product, row, j);
        }
    }
    row->scale = sqrt(scale_squares) + check->reach *
                                           mmul_check_type_limits(product).square_underflow_limit *
                                           sqrt((double)check->k);
    row->c_in_norm = mmul_check_norm(product, c_in_squares, check->n);
    row->c_norm = sqrt(c_squares);
    return !row->finite || sample_is_right(check, product, row);
}
