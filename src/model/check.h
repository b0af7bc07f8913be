// SPDX-License-Identifier: MIT
//
// Checks C = alpha op(A) op(B) + beta C_in row by row, without computing it again.
//
// Freivalds' test (Freivalds 1977) in double, with x_j of random sign and continuous size:
//     | sum_j C_ij x_j  -  (alpha a_i . (B x) + beta sum_j Cin_ij x_j) |  <=  tolerance_i
//     tolerance_i = (G sqrt(k) + F) u (|alpha| ||a_i|| ||B X||_F + |beta| ||cin_i X||)
//                   + own_i + flush_i
// with X = diag(x), u = 2^-24 (2^-53 for float64 products), G = 0.25, F = 4. own_i are the errors
// of the check's own sums. flush_i covers devices that flush subnormal numbers to 0. If C was
// rounded to 16 bits, its own unit u_c adds F u_c ||c_i X||. check.c derives the constants.
// |x_j| is in [0.5, 1] times a power of two that makes columns of B of different size count alike
// (not if beta is nonzero). Signs alone would miss swapped columns half the time; a small x would
// hide an element.
// To need only one pass over B, the power is guessed from a sample of each column. The pass then
// gives the norms. It is repeated with exact powers if a guess leaves a column's weighted norm
// below a quarter of the largest. The tolerance uses the norms, not the guesses.
// Two passes instead of one take twice as long if B is 8192 x 8192 (bench/ledger.md).
//
// The tolerance is the statistical size of rounding errors. The worst case k u |A||B||x| is so
// loose that it passes a totally wrong element. A row beyond the tolerance gets a second look: 32
// random elements of it are computed in double. The row is wrong if one of them is beyond its own
// worst case, or if their errors do not explain the sum. (Up to four rows per B are then compared
// whole, which also shows where to sample.) Numbers that round alike again and again (all elements
// 0.1) thus cause no false alarm. For n <= 32 the second look compares all elements.
//
// Products in float64 are checked by the same sums, which are only as exact there as the checked
// result. own_i, negligible for float32, is then about as large as the rest of the tolerance
// (check.c). The second look, at half as many elements, adds in long double.
// Rows of A and C_in and columns of B have no norms if their squares overflow double (numbers above
// 2^511). Of the elements of C that depend on them, eight to fifteen per row, evenly spread, are
// computed again in long double and compared with their own worst case.
//
// Products are checked by rows. If A stays and B comes in panels, check the transposed product
// (mmul_product_transpose), with op(A)^T as B: it is begun once, and each panel's columns of C are
// rows. Either way C is read in storage order.
//
// If the inner range has at most four terms, every element is computed again in double instead and
// compared with its own worst case: that is cheaper than drawing x.
//
// NaN and Inf are compared by class (NaN, +Inf, -Inf), element by element, if A's row, B's column
// or C_in's element holds one; these elements take no part in the sums. If max(1, |alpha|) ||a_i||
// ||b_j|| + |beta cin_ij| > FLT_MAX / 2, an intermediate result may overflow, so Inf and NaN are
// legal there (the half leaves room for rounding).
#pragma once

#include "base/parallel.h"
#include "model/product.h"

// State computed once per B: x, B x, norms. Opaque.
struct mmul_check;

// Allocates room for products up to (n, k), with any m; reused from product to product.
enum mmul_status mmul_check_create(int64_t n_max, int64_t k_max, struct mmul_check **check,
                                   struct mmul_error *err);
void mmul_check_destroy(struct mmul_check *check);

// Create a check with `bytes` bytes of room, at least mmul_check_bytes of every later fit, and fit
// it to products up to (n, k). A fit discards the begun product, but keeps the threads of
// mmul_check_set_parallel.
enum mmul_status mmul_check_create_room(int64_t bytes, struct mmul_check **check,
                                        struct mmul_error *err);
void mmul_check_fit(struct mmul_check *check, int64_t n_max, int64_t k_max);

// Shares passes over matrices among threads from now on; without it the caller works alone. The
// verdict is the same.
void mmul_check_set_parallel(struct mmul_check *check, struct mmul_parallel parallel);

// A stored matrix (lines of `length` elements each, `ld` apart) and the requested sums: of the
// weighted elements and of their squares, for every line and for every place in the lines.
struct mmul_check_request {
    const void *data;
    enum mmul_dtype dtype;
    int64_t lines, length, ld;
    const double *along,
        *across; // weights of places for the sums of lines, and of lines for the sums of places
    double *line_sums, *line_squares, *place_sums, *place_squares; // results; NULL: not requested
};

// Another source of these sums, such as a device that holds the matrix. project fills in the
// requested sums, all of them finite. It returns false if it does not know the matrix or a sum is
// not finite; the check then reads the matrix.
struct mmul_check_source {
    bool (*project)(void *context, const struct mmul_check_request *request);
    void *context;
};

// Sets a source to ask before every read of a matrix. A product begun with its help is judged by
// sums alone, without a second look, so check a row that is called wrong again without the source.
// project NULL: no source.
void mmul_check_set_source(struct mmul_check *check, struct mmul_check_source source);

// Returns true if the source has helped since the last begin.
bool mmul_check_used_source(const struct mmul_check *check);

// Returns the bytes that mmul_check_create allocates, for the plan.
int64_t mmul_check_bytes(int64_t n_max, int64_t k_max);

// Draws x from `seed` and computes B x, ||B X||_F, column norms and the columns with NaN or Inf, in
// one pass over B. It needs two if a sample misjudges the size of a column, or with NaN or Inf.
// Reads only n, k, transpose_b, b, b_dtype, ldb and whether beta is 0; products with alpha = 0 need
// no b (NULL). Fails with MMUL_ERR_INTERNAL if n or k is larger than the room.
enum mmul_status mmul_check_begin(struct mmul_check *check, const struct mmul_product *product,
                                  uint64_t seed, struct mmul_error *err);

// Save and resume the results of a begin for other products with the same B, as
// mmul_check_saved_count numbers. Saving returns false and saves nothing if B holds NaN or Inf, or
// if a source has helped (mmul_check_set_source). A resume equals a begin with the same B, seed and
// zeroness of beta.
int64_t mmul_check_saved_count(int64_t n, int64_t k);
bool mmul_check_save(const struct mmul_check *check, double *saved);
void mmul_check_resume(struct mmul_check *check, const struct mmul_product *product, uint64_t seed,
                       const double *saved);

// Checks rows [row_begin, row_end) of a product with the B of the begin (A, C and m may differ).
// Writes 1 for a wrong row and 0 for a right one to wrong[0 .. row_end - row_begin). Returns the
// number of wrong rows. With alpha = 0 every element is compared with beta C_in, rounded once, and
// once more if C was rounded to 16 bits.
int64_t mmul_check_rows(struct mmul_check *check, const struct mmul_product *product,
                        int64_t row_begin, int64_t row_end, unsigned char *wrong);

// ------------------------------------------------------------------------------ one of many blocks
//
// C_ij = A_i B_j on a mesh of ranks, alpha = 1, beta = 0. Each rank reads, beside its block of C, a
// part of its rows of A (some columns) and a part of its columns of B (some rows). Over the ranks
// these make up all of A and B once. The results are summed over all ranks (a rank without a part
// contributes zeros), and the next step uses the sums:
//     sizes      of B's columns, by a sample: determine the size of x
//     bx         B x, and the squares of B's columns
//     residuals  of rows of C: sum_j C_ij x_j - a_i . (B x), and the squares of A's rows
// Each rank then judges its own block by half of the block's own tolerance (check.c explains it).
// All ranks with a block of a row beyond it check that row as above. So they do for a block if x
// does not fit its columns, and for rows with NaN or Inf.

// The block of the product; vectors are those of the whole product, (n).
struct mmul_check_part {
    int64_t n, k;                  // sizes of the whole product
    int64_t begin;                 // first column of the block
    uint64_t seed;                 // one seed for each column of the mesh
    const double *sizes, *squares; // sums over all ranks; squares NULL: not yet known
};

// Writes sizes (n) of one rank. part: n, the block's columns; k, the rank's rows of B; b.
void mmul_check_part_sizes(struct mmul_check *check, const struct mmul_product *part,
                           double *sizes);

// Writes bx (part's k) and squares (n).
void mmul_check_part_project(struct mmul_check *check, const struct mmul_product *part,
                             const struct mmul_check_part *of, double *bx, double *squares);

// Prepares the next two, with squares. Returns false if nothing can be said about this block.
bool mmul_check_part_begin(struct mmul_check *check, const struct mmul_product *part,
                           const struct mmul_check_part *of);

// Writes residuals and squares (m). part: m, the rows of A; k, the rank's columns of A; n and c,
// the block. bx: for these k.
void mmul_check_part_rows(struct mmul_check *check, const struct mmul_product *part,
                          const double *bx, double *residuals, double *squares);

// Returns the verdict on a row; false: check it further. product: that of the block, whole.
bool mmul_check_part_is_right(const struct mmul_check *check, const struct mmul_product *product,
                              double residual, double squares);
