// SPDX-License-Identifier: MIT
// The check of products with a short inner range, k <= MMUL_CHECK_DIRECT. Each element of C is
// computed again in double and judged by its own worst case. Projections would cost more here: they
// need a random number, a norm and a guess per column of B, 32 bytes for each, and save no more
// than k additions per element. (2^26 x 1) by (1 x 1): 0.4 s against 5.5 s.
//
// The elements are visited along the stored lines of C, CHUNK at a time. A chunk passes when every
// element is within (k + 4) u of what its terms add up to in size (Higham 2002, 3.5), computed in
// double. The elements of a chunk that does not pass are judged one by one in long double, with
// NaN, Inf, overflow, subnormal numbers and results rounded to 16 bits.
#include "model/check_state.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    CHUNK = 256,
    SPAN = 8, // distance of neighbours, in elements, up to which their memory is read whole
    PART_ELEMENTS_LEAST = 1 << 16, // elements that are worth a thread
};

// C seen along its stored lines: `across` counts the lines, `along` the places of one.
struct view {
    struct mmul_check_operand c, c_in; // element (across, along)
    struct mmul_check_operand across;  // op(A) or op(B)^T: element (line, p)
    struct mmul_check_operand along;   // op(B) or op(A)^T: element (p, place)
    int64_t lines, length;
    bool rows_lie_along; // the places of a line are rows of C
};

struct job {
    const struct mmul_product *product;
    struct view view;
    bool splits_lines;
    int parts;
    unsigned char *wrong; // flags of the rows, zeroed
};

static struct mmul_check_operand flip(struct mmul_check_operand x) {
    x.transposed = !x.transposed;
    return x;
}

static struct view view_of(const struct mmul_product *p) {
    // Lines of one element that lie together are one line of the transposed matrix.
    const bool is_one_line =
        p->ldc == 1 && (p->transpose_c ? p->m : p->n) == 1 && (p->beta == 0 || p->ldc_in == 1);
    const struct mmul_check_operand a = mmul_check_operand_a(p), b = mmul_check_operand_b(p),
                                    c = mmul_check_operand_c(p), c_in = mmul_check_operand_c_in(p);
    if (p->transpose_c == is_one_line)
        return (struct view){c, c_in, a, b, p->m, p->n, false};
    return (struct view){flip(c), flip(c_in), flip(b), flip(a), p->n, p->m, true};
}

// Elements (line, begin .. begin + count) of `x` as doubles.
static void read_places(struct mmul_check_operand x, int64_t line, int64_t begin, int64_t count,
                        double *to) {
    if (!x.transposed) {
        mmul_check_read(x, line, begin, count, to);
    } else if (x.ld <= SPAN) {
        double span[CHUNK * SPAN];
        x.data = (const char *)x.data + (size_t)(begin * x.ld + line) * mmul_dtype_bytes(x.dtype);
        mmul_check_read(x, 0, 0, (count - 1) * x.ld + 1, span);
        for (int64_t e = 0; e < count; e++)
            to[e] = span[e * x.ld];
    } else {
        for (int64_t e = 0; e < count; e++)
            to[e] = mmul_check_element(x, line, begin + e);
    }
}

// One chunk of a line of C and everything that it is made of.
struct chunk {
    double across[MMUL_CHECK_DIRECT];       // elements of the line
    double along[MMUL_CHECK_DIRECT][CHUNK]; // elements of the places
    double c[CHUNK], c_in[CHUNK];
    int64_t count;
};

static bool passes(const struct mmul_product *product, const struct chunk *x) {
    double sums[CHUNK] = {0}, sizes[CHUNK] = {0};
    for (int64_t p = 0; p < product->k; p++) {
        for (int64_t e = 0; e < x->count; e++) {
            const double term = x->across[p] * x->along[p][e];
            sums[e] += term;
            sizes[e] += fabs(term);
        }
    }
    const double alpha = product->alpha, beta = product->beta,
                 unit = ((double)product->k + 4) * mmul_check_type_limits(product).unit,
                 narrow = 2 * mmul_check_narrowing(product).unit;
    int far = 0;
    for (int64_t e = 0; e < x->count; e++) {
        const double added = beta * x->c_in[e], error = x->c[e] - (alpha * sums[e] + added);
        const double bound = unit * (fabs(alpha) * sizes[e] + fabs(added)) + narrow * fabs(x->c[e]);
        far |= !(fabs(error) <= bound && bound <= DBL_MAX);
    }
    return far == 0;
}

// Judges an element that is not finite, or is expected not to be. `either`: an Inf meets a
// subnormal number, which a device may take as 0.
static bool class_is_right(double c, long double expected, bool either, bool may_overflow) {
    if (isnan(expected) ? isnan(c) : (long double)c == expected)
        return true;
    return !isfinite(c) && (may_overflow || (either && isnan(c)));
}

static bool element_is_right(const struct mmul_product *product, const struct chunk *x, int64_t e) {
    const struct mmul_check_type_limits type = mmul_check_type_limits(product);
    const struct mmul_check_narrowing narrow = mmul_check_narrowing(product);
    const long double added = product->beta != 0 ? (long double)product->beta * x->c_in[e] : 0;
    const long double alpha = fabs(product->alpha), most = fmax(1, fabs(product->alpha));
    struct mmul_check_terms terms = {.sum = 0};
    for (int64_t p = 0; p < product->k; p++)
        mmul_check_add_term(&terms, type.smallest, x->across[p], x->along[p][e]);
    const long double expected = (long double)product->alpha * terms.sum + added,
                      added_size = isfinite(added) ? fabsl(added) : 0,
                      bound = alpha * terms.size + added_size;
    const double c = x->c[e];
    if (!isfinite(c) || !isfinite(expected))
        return class_is_right(c, expected, terms.meets_flushed,
                              most * terms.size + added_size > narrow.largest / 2);
    const long double tolerance =
        ((long double)product->k + 4) * type.unit * bound + 2 * narrow.unit * fabs(c) +
        narrow.tiny + most * terms.flushed +
        type.smallest * (2 * most * (long double)product->k + 2 + fabs(product->beta));
    return fabsl(c - expected) <= tolerance;
}

static void judge_chunk(const struct job *job, const struct chunk *x, int64_t line, int64_t begin) {
    if (passes(job->product, x))
        return;
    for (int64_t e = 0; e < x->count; e++)
        if (!element_is_right(job->product, x, e))
            __atomic_store_n(&job->wrong[job->view.rows_lie_along ? begin + e : line], 1,
                             __ATOMIC_RELAXED);
}

// Judges lines [line, line_end) at the places [begin, begin + x->count).
static void judge_lines(const struct job *job, struct chunk *x, int64_t line, int64_t line_end,
                        int64_t begin) {
    const int64_t k = job->product->k;
    for (int64_t p = 0; p < k; p++)
        read_places(job->view.along, p, begin, x->count, x->along[p]);
    for (; line < line_end; line++) {
        for (int64_t p = 0; p < k; p++)
            x->across[p] = mmul_check_element(job->view.across, line, p);
        read_places(job->view.c, line, begin, x->count, x->c);
        if (job->product->beta != 0)
            read_places(job->view.c_in, line, begin, x->count, x->c_in);
        judge_chunk(job, x, line, begin);
    }
}

// Parts of a split into lines share no line, others no chunk.
static void judge_part(void *context, int part) {
    const struct job *job = context;
    const struct view *view = &job->view;
    const int64_t chunks = (view->length + CHUNK - 1) / CHUNK;
    const int64_t line = job->splits_lines ? view->lines * part / job->parts : 0,
                  line_end =
                      job->splits_lines ? view->lines * (part + 1) / job->parts : view->lines;
    const int64_t chunk = job->splits_lines ? 0 : chunks * part / job->parts,
                  chunk_end = job->splits_lines ? chunks : chunks * (part + 1) / job->parts;
    struct chunk x;
    memset(x.c_in, 0, sizeof x.c_in);
    for (int64_t i = chunk; i < chunk_end; i++) {
        const int64_t begin = i * CHUNK;
        x.count = view->length - begin < CHUNK ? view->length - begin : CHUNK;
        judge_lines(job, &x, line, line_end, begin);
    }
}

int64_t mmul_check_direct_rows(struct mmul_check *check, const struct mmul_product *product,
                               int64_t row_begin, int64_t row_end, unsigned char *wrong) {
    const struct mmul_product rows = mmul_product_rows(product, row_begin, row_end);
    struct job job = {.product = &rows, .view = view_of(&rows), .wrong = wrong};
    const int64_t elements = rows.m * rows.n, most = elements / PART_ELEMENTS_LEAST;
    const int threads =
        check->parallel.threads < MMUL_CHECK_PARTS ? check->parallel.threads : MMUL_CHECK_PARTS;
    job.parts = threads < most ? threads : (int)most;
    job.splits_lines = job.view.lines >= job.view.length;
    memset(wrong, 0, (size_t)rows.m);
    if (job.parts > 1) {
        check->parallel.run(job.parts, judge_part, &job);
    } else {
        job.parts = 1;
        judge_part(&job, 0);
    }
    int64_t wrong_count = 0;
    for (int64_t i = 0; i < rows.m; i++)
        wrong_count += wrong[i];
    return wrong_count;
}
