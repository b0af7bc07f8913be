// SPDX-License-Identifier: MIT
// Verdict of the check. mmul_check_begin draws x and projects B once. Then each row of C costs one
// pass over the row and one over its row of A, many rows at a time. Passes are in check_sums.c, NaN
// and Inf in check_classes.c. The caller decides what to do with a wrong row.
//
// Reason for the tolerance. Rounding gives C_ij an error t_ij u ||a_i|| ||b_j||. The signs of x are
// random, so a row's sum is off by about t u ||a_i|| ||B X||_F, with t the root mean square of t_ij
// over j. Measured t, as root mean square (largest of thousands of rows):
//     [-1, 1) and normal: OpenBLAS 0.16 (0.8) at 1000^3, 0.09 (0.4) at 4096^3; one float32
//         accumulator 0.3 (1.6) at any k;
//     [0, 1): OpenBLAS 1.7 (6.6) at 1000^3, 1.2 (5.1) at 4096^3; one accumulator 0.17 sqrt(k)
//         (0.75 sqrt(k)), that is 15 (58) at k = 8192;
//     all equal: OpenBLAS 14 (23) at 4096^3, one accumulator 2600 (4600) at k = 20000.
// G sqrt(k) + F is 12 at k = 1000, 20 at 4096 and 27 at 8192. For data of random signs this is
// above every measured kernel. There an element that is off by 10 % of the root mean square of C
// must stand out. Its contribution is at least 0.05 / (u sqrt(n k)) (100 at 8192^3; 27 is reached
// at n = 120000). For data of one sign the bound is about 1.5 sigma of the roughest kernel. A row
// beyond it costs a second look, about 45 microseconds at k = 4096.
//
// Errors of the check's own sums, in double, of n and k terms. Their terms have the random signs of
// x (so does B x), so partial sums are random walks of at most the size of the terms' norm. Adding
// n of them in one accumulator is off by about sqrt(n / 2) u of that norm, in the eight lanes of
// check_sums.c by sqrt(n / 16) u. The norms are at most those of the tolerance (Cauchy and Schwarz:
// |C_ij x_j| <= ||a_i|| ||b_j x_j||). Therefore
//     own_i = (H (sqrt(n) + sqrt(k)) + F) 2^-53 (|alpha| ||a_i|| ||B X||_F + |beta| ||cin_i X||),
// with H = 2, leaves room for sums in one accumulator that walk far. (H = 0.5 rejected one in 1000
// correct products of 350 x 1 by 1 x 64.) With float32, own_i is 2^-29 of the rest. With float64
// the two add up, to 400 units at 8192^3. An element stands out there that is off by 800 u sqrt(n
// k), 7e-10, of the root mean square of C; a row computed in float32 is a million times as far off.
// More precise sums would reach 1e-10. Squares of numbers below 2^-537 are 0 in double, so norms
// include sqrt(k) 2^-536 more.
//
// Blocks of one product. A row's sum covers all blocks of the row, so it includes the rounding
// errors of the other Q - 1 blocks: about t u ||a_i|| ||B X||_F of all their columns, sqrt(Q) times
// that of one block. A block's own tolerance is (G sqrt(k) + F) of the same unit. A row beyond half
// of it is checked as if its block were alone. An element that this check would find is missed here
// only if the errors of the others compensate more than the other half. With data of random signs
// and the worst kernel (t = 0.3), that half is 3 sigma for 64 blocks at k = 1000 and 13 for 100 at
// k = 65536; for OpenBLAS it is three times as many. With data of one sign, the errors of the
// others often exceed that half. Then nearly every row is checked alone, with the cost and the
// result of checking a single block.
#include "model/check_state.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "model/dtype.h"

#define DOUBLE_UNIT 0x1p-53
#define OWN         2.0  // H
#define GROWTH      0.25 // G of the header
#define FLOOR       4.0  // F

enum {
    ROWS_AT_ONCE = MMUL_CHECK_ROWS_AT_ONCE,
    // limit of the power of two in x: columns below 2^-40 of the largest weigh less
    EXPONENT_LIMIT = 40,
};

static int64_t round_up(int64_t bytes) {
    return (bytes + 63) & ~INT64_C(63);
}

// Returns the bytes of a row of `count` float64; see struct mmul_check_gathered_rows for the gap.
static int64_t line_bytes(int64_t count) {
    return round_up(count * (int64_t)sizeof(double)) + 64;
}

// Sizes of the parts of one allocation, in bytes.
struct layout {
    int64_t head, per_col, nonfinite, per_row, sample, row_lines, col_lines, partial;
};

// Returns the number of sampled columns, which fit in the same room for any type.
static int64_t sample_columns_most(int64_t n_max, size_t bytes_each) {
    int64_t count = n_max < 2 ? 2 : n_max < MMUL_CHECK_SAMPLE ? n_max : MMUL_CHECK_SAMPLE;
    return count * (int64_t)sizeof(float) / (int64_t)bytes_each;
}

static struct layout layout_for(int64_t n_max, int64_t k_max) {
    int64_t sample_count = sample_columns_most(n_max, sizeof(float));
    return (struct layout){
        .head = round_up(sizeof(struct mmul_check)),
        .per_col = round_up(n_max * (int64_t)sizeof(double)),
        .nonfinite = round_up(n_max * (int64_t)sizeof(struct mmul_check_nonfinite)),
        .per_row = round_up(k_max * (int64_t)sizeof(double)),
        .sample = round_up(k_max * sample_count * (int64_t)sizeof(float)),
        .row_lines = MMUL_CHECK_LINES * line_bytes(k_max),
        .col_lines = MMUL_CHECK_LINES * line_bytes(n_max),
        .partial = round_up(mmul_check_partial_count(n_max, k_max) * (int64_t)sizeof(double)),
    };
}

int64_t mmul_check_bytes(int64_t n_max, int64_t k_max) {
    struct layout parts = layout_for(n_max, k_max);
    return parts.head + 3 * parts.per_col + parts.nonfinite + 2 * parts.per_row + parts.sample +
           parts.row_lines + 2 * parts.col_lines + parts.partial;
}

void mmul_check_fit(struct mmul_check *check, int64_t n_max, int64_t k_max) {
    struct layout parts = layout_for(n_max, k_max);
    const struct mmul_parallel parallel = check->parallel;
    char *at = (char *)check;
    *check = (struct mmul_check){.n_max = n_max, .k_max = k_max, .parallel = parallel};
    check->x = (double *)(at += parts.head);
    check->column_squares = (double *)(at += parts.per_col);
    check->errors = (double *)(at += parts.per_col);
    check->nonfinite = (struct mmul_check_nonfinite *)(at += parts.per_col);
    check->bx = (double *)(at += parts.nonfinite);
    check->row = (double *)(at += parts.per_row);
    check->sample_columns = at += parts.per_row;
    check->a_lines.data = (double *)(at += parts.sample);
    check->c_lines.data = (double *)(at += parts.row_lines);
    check->c_in_lines.data = (double *)(at += parts.col_lines);
    check->partial = (double *)(at + parts.col_lines);
    check->a_lines.stride = line_bytes(k_max) / (int64_t)sizeof(double);
    check->c_lines.stride = line_bytes(n_max) / (int64_t)sizeof(double);
    check->c_in_lines.stride = check->c_lines.stride;
}

enum mmul_status mmul_check_create_room(int64_t bytes, struct mmul_check **check,
                                        struct mmul_error *err) {
    struct mmul_check *fresh = mmul_allocate_raw(bytes, 1, "the check of results", err);
    if (fresh == NULL)
        return err->status;
    *fresh = (struct mmul_check){.n_max = 0};
    *check = fresh;
    return MMUL_OK;
}

enum mmul_status mmul_check_create(int64_t n_max, int64_t k_max, struct mmul_check **check,
                                   struct mmul_error *err) {
    enum mmul_status status = mmul_check_create_room(mmul_check_bytes(n_max, k_max), check, err);
    if (status == MMUL_OK)
        mmul_check_fit(*check, n_max, k_max);
    return status;
}

void mmul_check_destroy(struct mmul_check *check) {
    mmul_free(check);
}

void mmul_check_set_parallel(struct mmul_check *check, struct mmul_parallel parallel) {
    check->parallel = parallel;
}

void mmul_check_set_source(struct mmul_check *check, struct mmul_check_source source) {
    check->source = source;
}

bool mmul_check_used_source(const struct mmul_check *check) {
    return check->used_source;
}

// -------------------------------------------------------------------------------------- once per B

// Returns the power of two that scales a column up to the largest one.
static int column_exponent(double squares, double largest) {
    if (squares == 0)
        return 0;
    int exponent = ilogb(largest / squares) / 2;
    return exponent < EXPONENT_LIMIT ? exponent : EXPONENT_LIMIT;
}

static double find_largest(const double *squares, int64_t count) {
    double largest = 0;
    for (int64_t j = 0; j < count; j++)
        if (isfinite(squares[j]))
            largest = fmax(largest, squares[j]);
    return largest;
}

// Draws x for column_squares. With even weights, small and large columns show errors equally. With
// beta, C's columns have other sizes than B's, so x has no powers then.
static void draw_x(struct mmul_check *check, double largest, bool even_weight) {
    check->has_nonfinite = false;
    for (int64_t j = 0; j < check->n; j++) {
        uint64_t bits = mmul_random_at(check->seed, (uint64_t)j);
        double squares = check->column_squares[j], size = 0.5 + (double)(bits >> 11) * 0x1p-54;
        if (!isfinite(squares)) {
            check->has_nonfinite = true;
            check->x[j] = 0;
            continue;
        }
        if (even_weight)
            size = ldexp(size, column_exponent(squares, largest));
        check->x[j] = bits & 1 ? -size : size;
    }
}

// Returns true if x, drawn before column_squares were known, suits them.
static bool x_suits_columns(const struct mmul_check *check, bool even_weight) {
    const double spread = 16; // ratio of squares; exact powers reach 4
    double least = INFINITY, most = 0;
    for (int64_t j = 0; j < check->n; j++) {
        double squares = check->column_squares[j];
        int exponent = ilogb(check->x[j]) + 1;
        if (!isfinite(squares) || check->x[j] == 0)
            return false;
        double weighted = ldexp(squares, 2 * exponent);
        most = weighted > most ? weighted : most;
        if (weighted > 0 && exponent < EXPONENT_LIMIT)
            least = weighted < least ? weighted : least;
    }
    return !even_weight || most <= spread * least;
}

static void sum_scale(struct mmul_check *check, const struct mmul_product *product) {
    double scale_squares = 0;
    check->reach = 0;
    for (int64_t j = 0; j < check->n; j++) {
        double size = fabs(check->x[j]);
        check->reach += size;
        if (size > 0)
            scale_squares += check->column_squares[j] * size * size;
    }
    check->scale = sqrt(scale_squares) +
                   check->reach * mmul_check_type_limits(product).square_underflow_limit *
                       sqrt((double)check->k);
}

// Computes B x and the squares of B's columns in one pass over B. Both are NaN or Inf for lines
// with such elements.
static void project_b(struct mmul_check *check, const struct mmul_product *product) {
    mmul_check_project(check,
                       &(struct mmul_check_projection){.x = mmul_check_operand_b(product),
                                                       .row_end = check->k,
                                                       .cols = check->n,
                                                       .v = check->x,
                                                       .sums = check->bx,
                                                       .col_squares = check->column_squares});
}

static void start_product(struct mmul_check *check, const struct mmul_product *product,
                          uint64_t seed) {
    check->n = product->n;
    check->k = product->k;
    check->used_source = false;
    check->seed = seed;
    check->draws = (uint64_t)product->n; // the first n numbers are x
    check->sample_most =
        sample_columns_most(check->n_max, mmul_dtype_bytes(mmul_product_dtype(product)));
}

enum mmul_status mmul_check_begin(struct mmul_check *check, const struct mmul_product *product,
                                  uint64_t seed, struct mmul_error *err) {
    if (product->n > check->n_max || product->k > check->k_max) {
        return mmul_fail(err, MMUL_ERR_INTERNAL,
                         "cannot check a product with n = %lld, k = %lld: room for %lld and %lld",
                         (long long)product->n, (long long)product->k, (long long)check->n_max,
                         (long long)check->k_max);
    }
    start_product(check, product, seed);
    check->is_direct = product->b != NULL && product->k > 0 && product->k <= MMUL_CHECK_DIRECT &&
                       check->source.project == NULL;
    if (product->b == NULL || check->is_direct)
        return MMUL_OK;
    bool even_weight = product->beta == 0;
    mmul_check_sample_columns(check, product);
    draw_x(check, find_largest(check->column_squares, check->n), even_weight);
    project_b(check, product);
    bool once = x_suits_columns(check, even_weight);
    if (!once)
        draw_x(check, find_largest(check->column_squares, check->n), even_weight);
    if (check->has_nonfinite)
        mmul_check_find_nonfinite(check, product);
    sum_scale(check, product);
    mmul_check_recheck_begin(check);
    if (!once)
        mmul_check_project(check,
                           &(struct mmul_check_projection){.x = mmul_check_operand_b(product),
                                                           .row_end = check->k,
                                                           .cols = check->n,
                                                           .v = check->x,
                                                           .sums = check->bx});
    return MMUL_OK;
}

int64_t mmul_check_saved_count(int64_t n, int64_t k) {
    return 2 * n + k;
}

bool mmul_check_save(const struct mmul_check *check, double *saved) {
    if (check->has_nonfinite || check->used_source || check->is_direct)
        return false;
    memcpy(saved, check->x, (size_t)check->n * sizeof *saved);
    memcpy(saved + check->n, check->column_squares, (size_t)check->n * sizeof *saved);
    memcpy(saved + 2 * check->n, check->bx, (size_t)check->k * sizeof *saved);
    return true;
}

void mmul_check_resume(struct mmul_check *check, const struct mmul_product *product, uint64_t seed,
                       const double *saved) {
    start_product(check, product, seed);
    check->is_direct = false;
    check->has_nonfinite = false;
    memcpy(check->x, saved, (size_t)check->n * sizeof *saved);
    memcpy(check->column_squares, saved + check->n, (size_t)check->n * sizeof *saved);
    memcpy(check->bx, saved + 2 * check->n, (size_t)check->k * sizeof *saved);
    sum_scale(check, product);
    mmul_check_recheck_begin(check);
}

// ------------------------------------------------------------------------------------ once per row

// Results of the passes for some rows.
struct row_sums {
    double projection[ROWS_AT_ONCE], a_squares[ROWS_AT_ONCE]; // a_i . (B x), ||a_i||^2
    double c[ROWS_AT_ONCE], c_squares[ROWS_AT_ONCE];          // c_i . x, ||c_i X||^2 when narrow
    double c_in[ROWS_AT_ONCE], c_in_squares[ROWS_AT_ONCE];    // zeros without beta
};

// Clears the sums that a product need not have. Clearing all of the room would take longer than a
// small block does.
static void clear_sums(struct row_sums *sums, int64_t rows) {
    const size_t bytes = (size_t)rows * sizeof *sums->c;
    memset(sums->c, 0, bytes);
    memset(sums->c_squares, 0, bytes);
    memset(sums->c_in, 0, bytes);
    memset(sums->c_in_squares, 0, bytes);
}

static void sum_rows(struct mmul_check *check, const struct mmul_product *product, int64_t begin,
                     int64_t end, struct row_sums *sums) {
    const bool is_narrow = mmul_check_narrowing(product).unit != 0;
    double *const c_squares = is_narrow ? sums->c_squares : NULL;
    const struct mmul_check_operand a = mmul_check_operand_a(product),
                                    c = mmul_check_operand_c(product),
                                    c_in = mmul_check_operand_c_in(product);
    const struct mmul_check_projection
        of_a = {a, begin, end, check->k, check->bx, sums->projection, sums->a_squares, NULL, false},
        of_c = {c, begin, end, check->n, check->x, sums->c, c_squares, NULL, is_narrow},
        of_c_in = {c_in, begin, end, check->n, check->x, sums->c_in, sums->c_in_squares,
                   NULL, true};
    mmul_check_project(check, &of_a);
    if (check->has_nonfinite)
        return; // rows of C are read element by element then
    mmul_check_project(check, &of_c);
    if (product->beta != 0)
        mmul_check_project(check, &of_c_in);
}

// Returns a float32 value as a file of C's type holds it.
static double round_to_stored(const struct mmul_product *product, double value) {
    const float computed = (float)value;
    uint16_t stored;
    float read;
    if (product->c_dtype != MMUL_F16 && product->c_dtype != MMUL_BF16)
        return (double)computed;
    mmul_dtype_narrow(product->c_dtype, &computed, 1, &stored);
    mmul_dtype_widen(product->c_dtype, &stored, 1, &read);
    return (double)read;
}

// Checks a row with alpha = 0: one rounding, which a device may flush to 0, and that of a file.
static bool scaled_row_is_right(struct mmul_check *check, const struct mmul_product *product,
                                int64_t index) {
    struct mmul_check_row row = {.index = index};
    const bool is_double = mmul_product_dtype(product) == MMUL_F64;
    const double flushed = mmul_check_type_limits(product).smallest * fmax(1, fabs(product->beta));
    mmul_check_load_row(check, product, &row);
    for (int64_t j = 0; j < product->n; j++) {
        const double exact = product->beta != 0 ? product->beta * row.c_in[j] : 0;
        // product of two float32, so rounded once
        const double expected = is_double ? exact : round_to_stored(product, exact);
        bool same = isnan(expected) ? isnan(row.c[j]) : row.c[j] == expected;
        if (!same && !(row.c[j] == 0 && fabs(exact) < flushed))
            return false;
    }
    return true;
}

struct mmul_check_type_limits mmul_check_type_limits(const struct mmul_product *product) {
    static const struct mmul_check_type_limits single = {0x1p-24, (double)FLT_MIN, (double)FLT_MAX,
                                                         0};
    static const struct mmul_check_type_limits twofold = {DOUBLE_UNIT, DBL_MIN, DBL_MAX, 0x1p-536};
    return mmul_product_dtype(product) == MMUL_F64 ? twofold : single;
}

double mmul_check_norm(const struct mmul_product *product, double squares, int64_t count) {
    return sqrt(squares) +
           mmul_check_type_limits(product).square_underflow_limit * sqrt((double)count);
}

// Sums the numbers that may be flushed: k products, k sums, the result, beta C_in, and k inputs on
// either side, which count times their partners.
double mmul_check_flush_error(const struct mmul_product *product, double norm, double column_norm,
                              double weight) {
    double alpha = fmax(1, fabs(product->alpha)), root = sqrt((double)product->k);
    double numbers = alpha * (2 * (double)product->k + root * norm) + 2 + fabs(product->beta);
    return mmul_check_type_limits(product).smallest *
           (numbers * weight + alpha * root * column_norm);
}

struct mmul_check_narrowing mmul_check_narrowing(const struct mmul_product *product) {
    if (product->c_dtype == MMUL_F16)
        return (struct mmul_check_narrowing){0x1p-11, 0x1p-25, 65504};
    if (product->c_dtype == MMUL_BF16)
        return (struct mmul_check_narrowing){0x1p-8, 0x1p-134, 0x1.FEp127};
    return (struct mmul_check_narrowing){0, 0, mmul_check_type_limits(product).largest};
}

// Returns tolerance_i; `own` are the rounding errors of the check itself.
static double tolerance_of(const struct mmul_check *check, const struct mmul_product *product,
                           const struct mmul_check_row *row) {
    double growth = GROWTH * sqrt((double)check->k) + FLOOR;
    double alpha_norm = fabs(product->alpha) * row->norm;
    double added = fabs(product->beta) * row->c_in_norm;
    double size = alpha_norm * row->scale + added;
    double passes = OWN * (sqrt((double)check->n) + sqrt((double)check->k)) + FLOOR;
    double own = passes * DOUBLE_UNIT * (alpha_norm * check->scale + added);
    double column_norms = sqrt((double)check->n) * check->scale;
    struct mmul_check_narrowing narrow = mmul_check_narrowing(product);
    double narrowed = narrow.unit > 0 ? FLOOR * narrow.unit * row->c_norm : 0; // may overflow
    return growth * mmul_check_type_limits(product).unit * size + own + narrowed +
           narrow.tiny * check->reach +
           mmul_check_flush_error(product, row->norm, column_norms, check->reach);
}

// Checks one row; `at` is the row's place in the sums.
static bool row_is_right(struct mmul_check *check, const struct mmul_product *product,
                         int64_t index, const struct row_sums *sums, int64_t at) {
    double expected = product->alpha * sums->projection[at] + product->beta * sums->c_in[at];
    struct mmul_check_row row = {
        .index = index,
        .projection = sums->projection[at],
        .norm = mmul_check_norm(product, sums->a_squares[at], check->k),
        .finite = isfinite(sums->a_squares[at]),
        .scale = check->scale,
        .c_in_norm = mmul_check_norm(product, sums->c_in_squares[at], check->n),
        .c_norm = sqrt(sums->c_squares[at]),
        .residual = sums->c[at] - expected,
    };
    bool plain =
        row.finite && !check->has_nonfinite && isfinite(row.residual) && isfinite(row.c_in_norm);
    if (check->used_source)
        return plain && fabs(row.residual) <= tolerance_of(check, product, &row);
    if (!plain && !mmul_check_compare_classes(check, product, &row))
        return false;
    if (!row.finite || !isfinite(row.norm) || !isfinite(row.c_in_norm))
        return true; // sums are useless: classes and a sample of elements have decided
    return fabs(row.residual) <= tolerance_of(check, product, &row) ||
           mmul_check_recheck_row(check, product, &row);
}

int64_t mmul_check_rows(struct mmul_check *check, const struct mmul_product *product,
                        int64_t row_begin, int64_t row_end, unsigned char *wrong) {
    struct row_sums sums;
    int64_t wrong_count = 0;
    if (check->is_direct && product->alpha != 0)
        return mmul_check_direct_rows(check, product, row_begin, row_end, wrong);
    check->a_lines.end = check->c_lines.end = check->c_in_lines.end = 0; // lines of earlier calls
    clear_sums(&sums, mmul_min(row_end - row_begin, ROWS_AT_ONCE));
    for (int64_t begin = row_begin; begin < row_end; begin += ROWS_AT_ONCE) {
        int64_t end = row_end - begin < ROWS_AT_ONCE ? row_end : begin + ROWS_AT_ONCE;
        if (product->alpha != 0)
            sum_rows(check, product, begin, end, &sums);
        for (int64_t i = begin; i < end; i++) {
            bool right = product->alpha == 0 ? scaled_row_is_right(check, product, i)
                                             : row_is_right(check, product, i, &sums, i - begin);
            wrong[i - row_begin] = !right;
            wrong_count += !right;
        }
    }
    return wrong_count;
}

// ------------------------------------------------------------------------------ one of many blocks

void mmul_check_part_sizes(struct mmul_check *check, const struct mmul_product *part,
                           double *sizes) {
    if (part->n == 0 || part->k == 0)
        return;
    check->n = part->n;
    check->k = part->k;
    mmul_check_sample_columns(check, part);
    memcpy(sizes, check->column_squares, (size_t)part->n * sizeof *sizes);
}

void mmul_check_part_project(struct mmul_check *check, const struct mmul_product *part,
                             const struct mmul_check_part *of, double *bx, double *squares) {
    if (part->n == 0 || part->k == 0)
        return;
    mmul_check_part_begin(check, part, of);
    check->k = part->k;
    project_b(check, part);
    memcpy(bx, check->bx, (size_t)part->k * sizeof *bx);
    memcpy(squares, check->column_squares, (size_t)part->n * sizeof *squares);
}

bool mmul_check_part_begin(struct mmul_check *check, const struct mmul_product *part,
                           const struct mmul_check_part *of) {
    check->n = part->n;
    check->k = of->k;
    check->seed = of->seed;
    memcpy(check->column_squares, of->sizes + of->begin, (size_t)part->n * sizeof *of->sizes);
    draw_x(check, find_largest(of->sizes, of->n), true);
    if (of->squares == NULL)
        return true;
    memcpy(check->column_squares, of->squares + of->begin, (size_t)part->n * sizeof *of->squares);
    sum_scale(check, part);
    return !check->has_nonfinite && x_suits_columns(check, true);
}

void mmul_check_part_rows(struct mmul_check *check, const struct mmul_product *part,
                          const double *bx, double *residuals, double *squares) {
    struct row_sums sums = {0};
    for (int64_t begin = 0; begin < part->m; begin += ROWS_AT_ONCE) {
        int64_t end = part->m - begin < ROWS_AT_ONCE ? part->m : begin + ROWS_AT_ONCE;
        const struct mmul_check_operand a = mmul_check_operand_a(part),
                                        c = mmul_check_operand_c(part);
        mmul_check_project(check, &(struct mmul_check_projection){a, begin, end, part->k, bx,
                                                                  sums.projection, sums.a_squares,
                                                                  NULL, false});
        mmul_check_project(check, &(struct mmul_check_projection){c, begin, end, part->n, check->x,
                                                                  sums.c, NULL, NULL, false});
        for (int64_t i = begin; i < end; i++) {
            residuals[i] = sums.c[i - begin] - sums.projection[i - begin];
            squares[i] = sums.a_squares[i - begin];
        }
    }
}

bool mmul_check_part_is_right(const struct mmul_check *check, const struct mmul_product *product,
                              double residual, double squares) {
    const struct mmul_check_row row = {.norm = mmul_check_norm(product, squares, check->k),
                                       .scale = check->scale};
    return isfinite(squares) && fabs(residual) <= tolerance_of(check, product, &row) / 2;
}
