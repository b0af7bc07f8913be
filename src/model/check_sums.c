// SPDX-License-Identifier: MIT
// Reads for the check: elements and rows of A, B, C and C_in of any type in either orientation, and
// passes over whole matrices (matrix times vector, and row norms). Passes are memory-bound. Every
// stored element is read once for all requested sums, and the loops are plain enough for the
// compiler to vectorise. 16-bit elements are widened run by run into a buffer that stays in the
// first-level cache. Threads share a pass, but are created elsewhere. BLAS is not used: the check
// must not share its errors with the checked code.
#include "model/check_state.h"

#include <math.h>
#include <string.h>

#include "model/dtype.h"

enum {
    RUN = 1024,  // 16-bit elements widened at once
    LANES = 8,   // independent partial sums, so that additions do not wait for each other
    ABREAST = 4, // stored lines that are added together
    // places of a line at once: their sums stay in the second-level cache
    PLACES = 8 << 10,
    PART_BYTES_LEAST = 1 << 20, // smallest part that is worth a thread
};

// ------------------------------------------------------------------------------- elements and rows

// Returns `count` stored elements from place `at` of stored line `line`: in place if they are
// float32 or float64, else as float32 in `buffer`.
static const void *read_run(struct mmul_check_operand x, int64_t line, int64_t at, int64_t count,
                            float *buffer) {
    const size_t each = mmul_dtype_bytes(x.dtype);
    const char *begin = (const char *)x.data + (size_t)(line * x.ld + at) * each;
    if (each >= sizeof(float))
        return begin;
    mmul_dtype_widen(x.dtype, begin, count, buffer);
    return buffer;
}

// Copies such elements as double.
void mmul_check_read(struct mmul_check_operand x, int64_t line, int64_t at, int64_t count,
                     double *to) {
    enum { SHORT_RUN = 256 };
    float buffer[SHORT_RUN];
    if (x.dtype == MMUL_F64) {
        memcpy(to, read_run(x, line, at, count, NULL), (size_t)count * sizeof *to);
        return;
    }
    for (int64_t done = 0; done < count; done += SHORT_RUN) {
        const int64_t here = count - done < SHORT_RUN ? count - done : SHORT_RUN;
        const float *run = read_run(x, line, at + done, here, buffer);
        for (int64_t e = 0; e < here; e++)
            to[done + e] = (double)run[e];
    }
}

struct mmul_check_operand mmul_check_operand_a(const struct mmul_product *product) {
    return (struct mmul_check_operand){product->a, product->a_dtype, product->lda,
                                       product->transpose_a};
}

struct mmul_check_operand mmul_check_operand_b(const struct mmul_product *product) {
    return (struct mmul_check_operand){product->b, product->b_dtype, product->ldb,
                                       product->transpose_b};
}

struct mmul_check_operand mmul_check_operand_c(const struct mmul_product *product) {
    return (struct mmul_check_operand){product->c, mmul_product_dtype(product), product->ldc,
                                       product->transpose_c};
}

struct mmul_check_operand mmul_check_operand_c_in(const struct mmul_product *product) {
    return (struct mmul_check_operand){product->c_in, mmul_product_dtype(product), product->ldc_in,
                                       product->transpose_c};
}

double mmul_check_element(struct mmul_check_operand x, int64_t row, int64_t col) {
    double value;
    mmul_check_read(x, x.transposed ? col : row, x.transposed ? row : col, 1, &value);
    return value;
}

// Returns row `index` of op(X), (rows, cols), which stays in `lines` until the next load. A stored
// line of a transposed matrix holds neighbours of several rows, so these are gathered together.
static const double *load_row(struct mmul_check_gathered_rows *lines, struct mmul_check_operand x,
                              int64_t rows, int64_t cols, int64_t index) {
    if (!x.transposed) {
        mmul_check_read(x, index, 0, cols, lines->data);
        return lines->data;
    }
    if (index < lines->begin || index >= lines->end) {
        lines->begin = index - index % MMUL_CHECK_LINES;
        int64_t left = rows - lines->begin;
        int64_t count = left < MMUL_CHECK_LINES ? left : MMUL_CHECK_LINES;
        for (int64_t line = 0; line < cols; line++) {
            double run[MMUL_CHECK_LINES];
            mmul_check_read(x, line, lines->begin, count, run);
            for (int64_t l = 0; l < count; l++)
                lines->data[l * lines->stride + line] = run[l];
        }
        lines->end = lines->begin + count;
    }
    return lines->data + (index - lines->begin) * lines->stride;
}

void mmul_check_gather_row(struct mmul_check *check, const struct mmul_product *product,
                           int64_t index) {
    const double *row =
        load_row(&check->a_lines, mmul_check_operand_a(product), product->m, product->k, index);
    memcpy(check->row, row, (size_t)check->k * sizeof *row);
}

void mmul_check_load_row(struct mmul_check *check, const struct mmul_product *product,
                         struct mmul_check_row *row) {
    row->c = load_row(&check->c_lines, mmul_check_operand_c(product), product->m, product->n,
                      row->index);
    row->c_in = NULL;
    if (product->beta != 0)
        row->c_in = load_row(&check->c_in_lines, mmul_check_operand_c_in(product), product->m,
                             product->n, row->index);
}

// ------------------------------------------------------------------------------------------- loops

// Compiles the loops for several vector sets, of which the loader chooses that of the CPU: a tenth
// to a fifth faster than the set of every x86-64. The order of additions is the same, and so is
// every bit. Not with sanitizers: the loader chooses before they are ready.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTOR_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define VECTOR_CLONES
#endif

// Requested results of a pass: the sums of weighted elements and of their squares, for each line
// and for each place in the lines.
enum {
    LINE_SUMS = 1,
    LINE_SQUARES = 2,
    PLACE_SUMS = 4,
    PLACE_SQUARES = 8,
    WEIGHTED = 16, // squares are those of the terms of the sums
    DOUBLES = 32,  // elements are float64
};

// Stored lines that are processed together, so that values of places are loaded and stored less
// often.
struct quad {
    const void *run[ABREAST]; // float or double elements
    double v[ABREAST];        // weights of the lines
    double sums[ABREAST], squares[ABREAST];
};

// Values per place of a run; NULL if not requested.
struct places {
    const double *along; // weights
    double *sums, *squares;
};

static inline double element_at(const void *run, int64_t e, unsigned wanted) {
    return wanted & DOUBLES ? ((const double *)run)[e] : (double)((const float *)run)[e];
}

static inline double square_of(double element, double weight, unsigned wanted) {
    double term = wanted & WEIGHTED ? element * weight : element;
    return term * term;
}

static inline double add_lanes(const double *lanes) {
    double sum = 0;
    for (int l = 0; l < LANES; l++)
        sum += lanes[l];
    return sum;
}

// Inlined with a constant `wanted`, so that its tests are compiled away.
__attribute__((always_inline)) static inline void add_at_place(
    const void *const run[static ABREAST], const double v[static ABREAST], int64_t e,
    double *restrict sums, double *restrict squares, unsigned wanted) {
    double a0 = element_at(run[0], e, wanted), a1 = element_at(run[1], e, wanted),
           a2 = element_at(run[2], e, wanted), a3 = element_at(run[3], e, wanted);
    if (wanted & PLACE_SUMS)
        sums[e] += (a0 * v[0] + a1 * v[1]) + (a2 * v[2] + a3 * v[3]);
    if (wanted & PLACE_SQUARES)
        squares[e] += (square_of(a0, v[0], wanted) + square_of(a1, v[1], wanted)) +
                      (square_of(a2, v[2], wanted) + square_of(a3, v[3], wanted));
}

// Adds to the places alone.
__attribute__((always_inline)) static inline void add_places(const struct quad *q, int64_t count,
                                                             struct places places,
                                                             unsigned wanted) {
    const void *const run[] = {q->run[0], q->run[1], q->run[2], q->run[3]};
    const double v[] = {q->v[0], q->v[1], q->v[2], q->v[3]};
    double *restrict sums = places.sums, *restrict squares = places.squares;
    for (int64_t e = 0; e < count; e++)
        add_at_place(run, v, e, sums, squares, wanted);
}

// Adds to the places and the lines. `count` is a multiple of LANES.
__attribute__((always_inline)) static inline void add_lines(struct quad *q, int64_t count,
                                                            struct places places, unsigned wanted) {
    const void *const run[] = {q->run[0], q->run[1], q->run[2], q->run[3]};
    const double v[] = {q->v[0], q->v[1], q->v[2], q->v[3]};
    const double *restrict along = places.along;
    double *restrict place_sums = places.sums, *restrict place_squares = places.squares;
    double sums[ABREAST][LANES] = {0}, squares[ABREAST][LANES] = {0};
    for (int64_t e = 0; e < count; e += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            double x = wanted & LINE_SUMS ? along[e + lane] : 0;
            for (int l = 0; l < ABREAST; l++) {
                double a = element_at(run[l], e + lane, wanted);
                if (wanted & LINE_SUMS)
                    sums[l][lane] += a * x;
                if (wanted & LINE_SQUARES)
                    squares[l][lane] += square_of(a, x, wanted);
            }
            add_at_place(run, v, e + lane, place_sums, place_squares, wanted);
        }
    }
    for (int l = 0; l < ABREAST; l++) {
        q->sums[l] += add_lanes(sums[l]);
        q->squares[l] += add_lanes(squares[l]);
    }
}

// Selects the loop compiled for the requested combination.
VECTOR_CLONES
static void add_whole(struct quad *q, int64_t count, struct places places, unsigned wanted) {
#define LOOP(add, what)                     \
    case what:                              \
        return add(q, count, places, what); \
    case (what) | DOUBLES:                  \
        return add(q, count, places, (what) | DOUBLES)
    switch (wanted) {
        LOOP(add_lines, LINE_SUMS);
        LOOP(add_lines, LINE_SQUARES);
        LOOP(add_lines, LINE_SUMS | LINE_SQUARES);
        LOOP(add_lines, LINE_SUMS | LINE_SQUARES | WEIGHTED);
        LOOP(add_lines, LINE_SUMS | PLACE_SQUARES);
        LOOP(add_lines, LINE_SQUARES | PLACE_SUMS);
        LOOP(add_places, PLACE_SUMS);
        LOOP(add_places, PLACE_SQUARES);
        LOOP(add_places, PLACE_SUMS | PLACE_SQUARES);
        LOOP(add_places, PLACE_SUMS | PLACE_SQUARES | WEIGHTED);
    default:
        return add_lines(q, count, places, wanted);
    }
#undef LOOP
}

// Adds the last elements of a run, fewer than LANES, padded with zeros.
static void add_rest(struct quad *q, int64_t from, int64_t count, struct places places,
                     unsigned wanted) {
    double runs[ABREAST][LANES] = {0}; // room for either type; floats use half of it
    const size_t each = wanted & DOUBLES ? sizeof(double) : sizeof(float);
    double along[LANES] = {0}, sums[LANES] = {0}, squares[LANES] = {0};
    struct quad rest = *q;
    for (int l = 0; l < ABREAST; l++) {
        memcpy(runs[l], (const char *)q->run[l] + (size_t)from * each, (size_t)count * each);
        rest.run[l] = runs[l];
    }
    if (wanted & LINE_SUMS)
        memcpy(along, places.along + from, (size_t)count * sizeof(double));
    add_lines(&rest, LANES, (struct places){along, sums, squares}, wanted);
    for (int l = 0; l < ABREAST; l++) {
        q->sums[l] = rest.sums[l];
        q->squares[l] = rest.squares[l];
    }
    for (int64_t e = 0; e < count; e++) {
        if (wanted & PLACE_SUMS)
            places.sums[from + e] += sums[e];
        if (wanted & PLACE_SQUARES)
            places.squares[from + e] += squares[e];
    }
}

static void add_run(struct quad *q, int64_t count, struct places places, unsigned wanted) {
    int64_t whole = count - count % LANES;
    add_whole(q, whole, places, wanted);
    if (whole < count)
        add_rest(q, whole, count - whole, places, wanted);
}

static const double zeros[PLACES]; // zeros in float64 and in float32

// Adds to the lines. Terms of weight 0 are left out, since 0 Inf would be NaN. NaN and Inf are
// rare, so the fast loop goes first, and a finite result confirms it.
static void add_line_sums(struct quad *q, int64_t count, struct places places, unsigned wanted) {
    double before[ABREAST];
    memcpy(before, q->sums, sizeof before);
    add_run(q, count, places, wanted);
    for (int l = 0; l < ABREAST; l++) {
        if (isfinite(q->sums[l]) || (wanted & WEIGHTED))
            continue;
        q->sums[l] = before[l];
        for (int64_t e = 0; e < count; e++)
            if (places.along[e] != 0)
                q->sums[l] += element_at(q->run[l], e, wanted) * places.along[e];
    }
}

// Does the same for weights of lines: a line of weight 0 only adds squares.
static void add_place_sums(struct quad *q, int64_t count, struct places places, unsigned wanted) {
    struct quad summed = *q;
    bool any = false;
    for (int l = 0; l < ABREAST; l++) {
        if (q->v[l] != 0)
            continue;
        any = true;
        summed.run[l] = zeros;
    }
    if (!any) {
        add_run(q, count, places, wanted);
        return;
    }
    add_run(&summed, count, places, PLACE_SUMS | (wanted & DOUBLES));
    if (wanted & (LINE_SQUARES | PLACE_SQUARES))
        add_run(q, count, places, wanted & ~(unsigned)PLACE_SUMS);
}

// ------------------------------------------------------------------------------------------ passes

// One pass over a rectangle of a stored matrix: `lines` lines of `length` elements each, from
// element `at` of line `line` on.
struct pass {
    struct mmul_check_operand x;
    int64_t line, lines, at, length;
    unsigned wanted;
    const double *across;             // (lines), weights of lines, for PLACE_SUMS
    double *line_sums, *line_squares; // (lines)
    struct places places;             // (length)
};

static double *sums_from(double *values, int64_t at) {
    return values != NULL ? values + at : NULL;
}

static const double *weights_from(const double *values, int64_t at) {
    return values != NULL ? values + at : NULL;
}

static struct places places_from(struct places places, int64_t at) {
    return (struct places){weights_from(places.along, at), sums_from(places.sums, at),
                           sums_from(places.squares, at)};
}

// Passes over lines [line, line + there), places [begin, end).
static void sum_lines(const struct pass *pass, int64_t line, int there, int64_t begin,
                      int64_t end) {
    float buffers[ABREAST][RUN];
    struct quad q = {0};
    int64_t run = mmul_dtype_bytes(pass->x.dtype) >= sizeof(float) ? PLACES : RUN;
    for (int l = 0; l < there; l++)
        q.v[l] = pass->across != NULL ? pass->across[line + l] : 0;
    for (int64_t at = begin; at < end; at += run) {
        int64_t count = end - at < run ? end - at : run;
        struct places places = places_from(pass->places, at);
        for (int l = 0; l < ABREAST; l++)
            q.run[l] = l < there ? read_run(pass->x, pass->line + line + l, pass->at + at, count,
                                            buffers[l])
                                 : zeros;
        if (pass->wanted & LINE_SUMS)
            add_line_sums(&q, count, places, pass->wanted);
        else if (pass->wanted & PLACE_SUMS)
            add_place_sums(&q, count, places, pass->wanted);
        else
            add_run(&q, count, places, pass->wanted);
    }
    for (int l = 0; l < there; l++) {
        if (pass->line_sums != NULL)
            pass->line_sums[line + l] += q.sums[l];
        if (pass->line_squares != NULL)
            pass->line_squares[line + l] += q.squares[l];
    }
}

static void clear_results(double *values, int64_t count) {
    if (values != NULL)
        memset(values, 0, (size_t)count * sizeof *values);
}

static void run_pass(const struct pass *pass) {
    bool has_places = (pass->wanted & (PLACE_SUMS | PLACE_SQUARES)) != 0;
    int64_t width = has_places ? PLACES : pass->length;
    clear_results(pass->line_sums, pass->lines);
    clear_results(pass->line_squares, pass->lines);
    clear_results(pass->places.sums, pass->length);
    clear_results(pass->places.squares, pass->length);
    for (int64_t begin = 0; begin < pass->length; begin += width) {
        int64_t end = pass->length - begin < width ? pass->length : begin + width;
        for (int64_t line = 0; line < pass->lines; line += ABREAST) {
            int64_t left = pass->lines - line;
            sum_lines(pass, line, left < ABREAST ? (int)left : ABREAST, begin, end);
        }
    }
}

// --------------------------------------------------------------------------------- several threads

// A pass cut into ranges of lines, or of places if lines are longer than there are lines. Results
// across the parts are added up afterwards.
struct shared_pass {
    struct pass whole;
    bool by_lines;
    int parts;
    int64_t results; // results of each kind across the parts
    double *partial; // results of parts 1 .. parts - 1, two kinds each
};

// Returns the first line or place of a part: a multiple of the lines processed together, or a cache
// line.
static int64_t part_begin(const struct shared_pass *s, int part) {
    int64_t total = s->by_lines ? s->whole.lines : s->whole.length;
    int64_t grain = s->by_lines ? ABREAST : 64, grains = (total + grain - 1) / grain;
    int64_t begin = grains * part / s->parts * grain;
    return begin < total ? begin : total;
}

static struct pass part_of(const struct shared_pass *s, int part) {
    struct pass p = s->whole;
    int64_t begin = part_begin(s, part), count = part_begin(s, part + 1) - begin;
    double **sums = s->by_lines ? &p.places.sums : &p.line_sums;
    double **squares = s->by_lines ? &p.places.squares : &p.line_squares;
    double *partial = s->partial + (part - 1) * 2 * s->results;
    if (part > 0) {
        *sums = *sums != NULL ? partial : NULL;
        *squares = *squares != NULL ? partial + s->results : NULL;
    }
    if (s->by_lines) {
        p.line += begin;
        p.lines = count;
        p.across = weights_from(p.across, begin);
        p.line_sums = sums_from(p.line_sums, begin);
        p.line_squares = sums_from(p.line_squares, begin);
    } else {
        p.at += begin;
        p.length = count;
        p.places = places_from(p.places, begin);
    }
    return p;
}

static void run_part(void *context, int part) {
    const struct pass p = part_of(context, part);
    run_pass(&p);
}

// Adds the partial results; `kind`: 0 sums, 1 squares.
static void add_partial(const struct shared_pass *s, double *to, int kind) {
    for (int part = 1; to != NULL && part < s->parts; part++) {
        const double *partial = s->partial + ((part - 1) * 2 + kind) * s->results;
        for (int64_t i = 0; i < s->results; i++)
            to[i] += partial[i];
    }
}

// Asks the source for the sums; false if it does not know the matrix.
static bool ask_source(struct mmul_check *check, const struct pass *pass) {
    const struct mmul_check_operand *x = &pass->x;
    const int64_t offset = pass->line * x->ld + pass->at;
    if (check->source.project == NULL || (pass->wanted & WEIGHTED) != 0)
        return false;
    const struct mmul_check_request request = {.data = (const char *)x->data +
                                                       offset * (int64_t)mmul_dtype_bytes(x->dtype),
                                               .dtype = x->dtype,
                                               .lines = pass->lines,
                                               .length = pass->length,
                                               .ld = x->ld,
                                               .along = pass->places.along,
                                               .across = pass->across,
                                               .line_sums = pass->line_sums,
                                               .line_squares = pass->line_squares,
                                               .place_sums = pass->places.sums,
                                               .place_squares = pass->places.squares};
    const bool helps = check->source.project(check->source.context, &request);
    check->used_source |= helps;
    return helps;
}

static void run_shared_pass(struct mmul_check *check, const struct pass *pass) {
    if (ask_source(check, pass))
        return;
    int64_t bytes = pass->lines * pass->length * (int64_t)mmul_dtype_bytes(pass->x.dtype);
    int64_t most = bytes / PART_BYTES_LEAST;
    int threads = check->parallel.threads;
    struct shared_pass s = {.whole = *pass, .by_lines = pass->lines >= pass->length};
    s.parts = threads < MMUL_CHECK_PARTS ? threads : MMUL_CHECK_PARTS;
    s.parts = s.parts < most ? s.parts : (int)most;
    s.results = s.by_lines ? pass->length : pass->lines;
    s.partial = check->partial;
    if (s.parts <= 1) {
        run_pass(pass);
        return;
    }
    check->parallel.run(s.parts, run_part, &s);
    add_partial(&s, s.by_lines ? pass->places.sums : pass->line_sums, 0);
    add_partial(&s, s.by_lines ? pass->places.squares : pass->line_squares, 1);
}

int64_t mmul_check_partial_count(int64_t n_max, int64_t k_max) {
    int64_t few = n_max < k_max ? n_max : k_max, many = n_max < k_max ? k_max : n_max;
    int64_t rows = many < MMUL_CHECK_ROWS_AT_ONCE ? many : MMUL_CHECK_ROWS_AT_ONCE;
    return (MMUL_CHECK_PARTS - 1) * 2 * (few > rows ? few : rows);
}

// ------------------------------------------------------------------------------------ entry points

void mmul_check_project(struct mmul_check *check, const struct mmul_check_projection *p) {
    struct pass pass = {.x = p->x};
    const int64_t rows = p->row_end - p->row_begin;
    // Contiguous lines of one element are one line of the transposed matrix: loops run along it.
    const bool is_one_line = p->x.ld == 1 && (p->x.transposed ? rows : p->cols) == 1;
    if (p->x.transposed != is_one_line) {
        pass.at = p->row_begin;
        pass.length = rows;
        pass.lines = p->cols;
        pass.across = p->v;
        pass.places.sums = p->sums;
        pass.places.squares = p->squares;
        pass.line_squares = p->col_squares;
    } else {
        pass.line = p->row_begin;
        pass.lines = rows;
        pass.length = p->cols;
        pass.places.along = p->v;
        pass.line_sums = p->sums;
        pass.line_squares = p->squares;
        pass.places.squares = p->col_squares;
    }
    pass.wanted = (pass.line_sums ? LINE_SUMS : 0) | (pass.line_squares ? LINE_SQUARES : 0) |
                  (pass.places.sums ? PLACE_SUMS : 0) | (pass.places.squares ? PLACE_SQUARES : 0) |
                  (p->weighted ? WEIGHTED : 0) | (p->x.dtype == MMUL_F64 ? DOUBLES : 0);
    run_shared_pass(check, &pass);
}

void mmul_check_sample_columns(struct mmul_check *check, const struct mmul_product *product) {
    struct mmul_check_operand columns = mmul_check_operand_b(product);
    int64_t count = check->k < MMUL_CHECK_SIZE_SAMPLE ? check->k : MMUL_CHECK_SIZE_SAMPLE;
    int64_t step = check->k / count;
    if (columns.transposed) { // a column is a line: its middle, which is contiguous
        size_t first = (size_t)((check->k - count) / 2);
        columns.data = (const char *)columns.data + first * mmul_dtype_bytes(columns.dtype);
    } else {
        columns.ld *= step;
    }
    columns.transposed = !columns.transposed;
    mmul_check_project(check, &(struct mmul_check_projection){.x = columns,
                                                              .row_end = check->n,
                                                              .cols = count,
                                                              .squares = check->column_squares});
}
