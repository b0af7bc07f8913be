// SPDX-License-Identifier: MIT
//
// Is C = alpha op(A) op(B) + beta C_in, row by row, without computing it again.
//
// Freivalds' test (Freivalds 1977) in double, with x_j of random sign and continuous size:
//     | sum_j C_ij x_j  -  (alpha a_i . (B x) + beta sum_j Cin_ij x_j) |  <=  tolerance_i
//     tolerance_i = (G sqrt(k) + F) u (|alpha| ||a_i|| ||B X||_F + |beta| ||cin_i X||) + own_i + flush_i
// with X = diag(x), u = 2^-24 (of products in float64 2^-53), G = 0.25, F = 4; own_i are the errors of the
// check's own sums, flush_i covers devices that take numbers below the type's smallest normal one as 0. When C
// was rounded to 16 bits, its own unit u_c adds F u_c ||c_i X||.
// |x_j| is in [0.5, 1] times a power of two that makes columns of B of different size count alike
// (not when beta is nonzero). Signs alone would miss swapped columns half the time; small x would
// hide an element.
// So that one pass over B is enough, the power is guessed from a sample of each column; the pass
// then gives the norms, and is repeated with exact powers when a guess leaves a column's weighted
// norm below a quarter of the largest. The tolerance is made of the norms, not of the guesses.
//
// This is the statistical size of rounding errors, not the worst case k u |A||B||x|, which is so
// loose that it passes a totally wrong element. A row beyond it gets a second look: 32 random
// elements of it are computed in double. It is wrong when one of them is beyond its own worst case,
// or when their errors do not explain what the sum showed (up to four rows per B are then compared
// whole, which also shows where to sample). So numbers that round alike again and again (all
// elements 0.1) are no alarm. For n <= 32 the second look is a comparison of all elements. Why the
// constants hold is written in check.c.
//
// Products in float64 are checked by the same sums, which are as inexact there as what they check: own_i, of
// no account beside float32's errors, is about as large as the rest of the tolerance then (check.c). The second
// look, at half as many elements, adds up in long double. Rows of A and C_in and columns of B whose squares are
// beyond double (numbers above 2^511) have no norms: of what they meet eight to fifteen elements of each row, evenly
// spread, are computed again in long double and judged by their own worst case.
//
// Products are checked by rows. Where A stays and B comes in panels, check the transposed product
// (mmul_product_transpose), whose B is op(A)^T: it is begun once, and each panel's columns of C are
// rows. C is read in the order in which it is stored either way.
//
// Where the inner range has at most four terms every element is computed again instead, in double, and judged
// by its own worst case: that is cheaper than drawing x.
//
// NaN and Inf are compared by class (NaN, +Inf, -Inf), element by element, where A's row, B's
// column or C_in's element holds one; these elements take no part in the sums. Where
// max(1, |alpha|) ||a_i|| ||b_j|| + |beta cin_ij| > FLT_MAX / 2 an intermediate result may overflow,
// so Inf and NaN are legal there (the half leaves room for rounding).
#pragma once

#include "base/parallel.h"
#include "model/product.h"

// What is computed once per B: x, B x, norms. Opaque.
struct mmul_check;

// Room for products up to (n, k), whatever their m; reused from product to product.
enum mmul_status mmul_check_create(int64_t n_max, int64_t k_max, struct mmul_check **check,
                                   struct mmul_error *err);
void mmul_check_destroy(struct mmul_check *check);

// Room of so many bytes, at least mmul_check_bytes of whatever it will be fitted to: for products up to (n, k) from
// then on. What was begun is forgotten, who shares in its passes is not.
enum mmul_status mmul_check_create_room(int64_t bytes, struct mmul_check **check,
                                        struct mmul_error *err);
void mmul_check_fit(struct mmul_check *check, int64_t n_max, int64_t k_max);

// Passes over matrices are shared among threads from now on; without this the caller works alone.
// The verdict is the same.
void mmul_check_share(struct mmul_check *check, struct mmul_parallel parallel);

// A matrix as it is stored, lines of `length` elements each, `ld` between them, and what is wanted of it: sums of the
// weighted elements, and of their squares, of every line and of every place in the lines.
struct mmul_check_request {
    const void *data;
    enum mmul_dtype dtype;
    int64_t lines, length, ld;
    const double *along,
        *across; // weights of places, and of lines: for the sums of lines, and of places
    double *line_sums, *line_squares, *place_sums, *place_squares; // written; NULL: not wanted
};

// Who may know a matrix from elsewhere, a device that has it: fills in what is wanted, finite numbers all of them.
// False: it does not know it, or not so, and the check reads it.
struct mmul_check_source {
    bool (*project)(void *context, const struct mmul_check_request *request);
    void *context;
};

// Is asked before a matrix is read from now on. What was begun with its help is judged by sums alone: there is no
// second look, so a row that is called wrong is to be checked without it. project NULL: nobody.
void mmul_check_ask(struct mmul_check *check, struct mmul_check_source source);

// Has it helped since the last begin?
bool mmul_check_was_helped(const struct mmul_check *check);

// Bytes mmul_check_create allocates, for the plan.
int64_t mmul_check_bytes(int64_t n_max, int64_t k_max);

// Draws x from `seed` and computes B x, ||B X||_F, column norms and the columns with NaN or Inf, in
// one pass over B; in two where a sample does not show the size of a column, or with NaN or Inf.
// Only n, k, transpose_b, b, b_dtype, ldb and whether beta is 0 are read; products with alpha = 0
// need no b (NULL). Fails with MMUL_ERR_INTERNAL when n or k is larger than the room.
enum mmul_status mmul_check_begin(struct mmul_check *check, const struct mmul_product *product,
                                  uint64_t seed, struct mmul_error *err);

// What a begin has found out about B, for other products with the same one: so many numbers. False: B holds NaN
// or Inf, or others' sums are in it (mmul_check_ask), and nothing is saved. Resuming with it is as good as a begin with
// the same B, seed and whether beta is 0.
int64_t mmul_check_saved_count(int64_t n, int64_t k);
bool mmul_check_save(const struct mmul_check *check, double *saved);
void mmul_check_resume(struct mmul_check *check, const struct mmul_product *product, uint64_t seed,
                       const double *saved);

// Checks rows [row_begin, row_end) of the product begun with the same B (A, C and m may be others);
// writes 1 for a wrong row and 0
// for a right one to wrong[0 .. row_end - row_begin) and returns how many are wrong.
// With alpha = 0 every element is compared with beta C_in, which is one rounding.
int64_t mmul_check_rows(struct mmul_check *check, const struct mmul_product *product,
                        int64_t row_begin, int64_t row_end, unsigned char *wrong);

// ------------------------------------------------------------------------------- one of many blocks
//
// C_ij = A_i B_j on a mesh of ranks, alpha = 1, beta = 0. Each of them reads, beside its block of C, a part of its
// rows of A (some columns) and a part of its columns of B (some rows); over the ranks these make up all of A
// and B once. What they find is added up over all ranks (whoever has nothing gives zeros), and what comes next
// is made of the sums:
//     sizes      of B's columns, by a sample: how large x is
//     bx         B x, and the squares of B's columns
//     residuals  of rows of C: sum_j C_ij x_j - a_i . (B x), and the squares of A's rows
// Each rank then judges its own block by the block's own tolerance, or rather half of it (why is written in
// check.c); a row that is beyond is to be checked as above by everybody who has a block of it. So is a block
// for whose columns x does not fit, and what meets NaN or Inf.

// Which block of which product; vectors are those of the whole product, (n).
struct mmul_check_part {
    int64_t n, k;                  // of the whole product
    int64_t begin;                 // of the block's columns
    uint64_t seed;                 // one for every column of the mesh
    const double *sizes, *squares; // the sums; squares NULL: not yet known
};

// `part` is here: n, the block's columns; k, the part's rows of B; b. Writes sizes (n).
void mmul_check_part_sizes(struct mmul_check *check, const struct mmul_product *part,
                           double *sizes);

// Writes bx (part's k) and squares (n).
void mmul_check_part_project(struct mmul_check *check, const struct mmul_product *part,
                             const struct mmul_check_part *of, double *bx, double *squares);

// Before the next two, with squares. False: nothing can be said about this block.
bool mmul_check_part_begin(struct mmul_check *check, const struct mmul_product *part,
                           const struct mmul_check_part *of);

// `part`: m, the rows of A; k, the part's columns of A; n and c, the block. bx: of these k. Writes residuals
// and squares (m).
void mmul_check_part_rows(struct mmul_check *check, const struct mmul_product *part,
                          const double *bx, double *residuals, double *squares);

// The verdict on a row; false: look at it. product: the block's, whole.
bool mmul_check_part_is_right(const struct mmul_check *check, const struct mmul_product *product,
                              double residual, double squares);
