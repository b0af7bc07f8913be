// SPDX-License-Identifier: MIT
// Reads and writes Matrix Market files. Each entry goes to its position in the mapped file of all
// elements. Files of symmetric matrices store the lower triangle, so entries also go to the
// mirrored position. Errors count lines from 1.
#include "io/mtx.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "io/matrix_file.h"
#include "io/number_reader.h"
#include "io/number_writer.h"
#include "io/tensors.h"
#include "model/dtype.h"
#include "model/matrix.h"

enum field { REAL, INTEGER, PATTERN, UNSIGNED };
enum symmetry { GENERAL, SYMMETRIC, SKEW, HERMITIAN };

struct mtx {
    struct mmul_number_reader reader;
    bool is_array;
    enum field field;
    enum symmetry symmetry;
    int64_t rows, cols, entries;
    void *elements;
};

static const bool word_ends[256] = {[' '] = true, ['\t'] = true, ['\r'] = true, ['\n'] = true};

// ------------------------------------------------------------------------------------------- words

static enum mmul_status fail_line(const struct mtx *mtx, const char *what, const char *begin,
                                  const char *end, struct mmul_error *err) {
    enum { SHOWN_MAX = 40 };
    if (begin == end)
        return mmul_fail(err, MMUL_ERR_DATA, "line %" PRId64 " of '%s': expected %s",
                         mtx->reader.line, mtx->reader.name, what);
    const char *control = mmul_find_control(begin, end);
    if (control != NULL) {
        mmul_fail(err, MMUL_ERR_DATA,
                  "line %" PRId64 " of '%s': expected %s, found the control byte 0x%02X",
                  mtx->reader.line, mtx->reader.name, what, (unsigned char)*control);
        mmul_hint(err, "%s", MMUL_HINT_CONTROL);
        return err->status;
    }
    const int length = end - begin < SHOWN_MAX ? (int)(end - begin) : SHOWN_MAX;
    return mmul_fail(err, MMUL_ERR_DATA, "line %" PRId64 " of '%s': expected %s, found '%.*s'",
                     mtx->reader.line, mtx->reader.name, what, length, begin);
}

static enum mmul_status skip_blanks(struct mtx *mtx, struct mmul_error *err) {
    enum mmul_status status;
    struct mmul_number_reader *reader = &mtx->reader;
    while (mmul_number_reader_has_byte(reader, &status, err) && *reader->at != '\n' &&
           word_ends[(unsigned char)*reader->at])
        reader->at++;
    return status;
}

// Reads the next word of the line, empty at its end. The word is valid until the next is read.
static enum mmul_status read_word(struct mtx *mtx, const char **begin, const char **end,
                                  struct mmul_error *err) {
    enum mmul_status status = skip_blanks(mtx, err);
    if (status == MMUL_OK)
        status = mmul_number_reader_find_stop(&mtx->reader, word_ends, end, err);
    *begin = mtx->reader.at;
    mtx->reader.at = status == MMUL_OK ? *end : mtx->reader.at;
    return status;
}

static enum mmul_status read_whole(struct mtx *mtx, const char *what, int64_t least, int64_t most,
                                   int64_t *value, struct mmul_error *err) {
    const char *begin, *end;
    enum mmul_status status = read_word(mtx, &begin, &end, err);
    if (status == MMUL_OK &&
        (!mmul_whole_number_parse(begin, end, value) || *value < least || *value > most))
        status = fail_line(mtx, what, begin, end, err);
    return status;
}

static enum mmul_status end_line(struct mtx *mtx, struct mmul_error *err) {
    const char *begin, *end;
    enum mmul_status status = read_word(mtx, &begin, &end, err);
    if (status == MMUL_OK && begin != end)
        status = fail_line(mtx, "the end of the line", begin, end, err);
    return status == MMUL_OK ? mmul_number_reader_skip_line(&mtx->reader, err) : status;
}

// Moves to the next line that is neither blank nor a comment. Returns false at the end of the file,
// or after an error, set in *status.
static bool find_line(struct mtx *mtx, enum mmul_status *status, struct mmul_error *err) {
    struct mmul_number_reader *reader = &mtx->reader;
    for (*status = skip_blanks(mtx, err); *status == MMUL_OK && reader->at < reader->end;
         *status = skip_blanks(mtx, err)) {
        if (*reader->at != '\n' && *reader->at != '%')
            return true;
        *status = mmul_number_reader_skip_line(reader, err);
        if (*status != MMUL_OK)
            return false;
    }
    return false;
}

// ------------------------------------------------------------------------------------------ header

// Reads a word and finds its index among `words`, which end with NULL.
static enum mmul_status read_choice(struct mtx *mtx, const char *const *words, const char *what,
                                    int *choice, struct mmul_error *err) {
    const char *begin, *end;
    enum mmul_status status = read_word(mtx, &begin, &end, err);
    if (status != MMUL_OK)
        return status;
    for (*choice = 0; words[*choice] != NULL; ++*choice)
        if (mmul_is_word(begin, end, words[*choice]))
            return MMUL_OK;
    if (mmul_is_word(begin, end, "complex")) {
        mmul_fail(err, MMUL_ERR_DATA, "'%s' holds complex numbers, which are not read",
                  mtx->reader.name);
        mmul_hint(err, "%s", MMUL_HINT_COMPLEX);
        return err->status;
    }
    return fail_line(mtx, what, begin, end, err);
}

static enum mmul_status read_header(struct mtx *mtx, struct mmul_error *err) {
    static const char *const
        banners[] = {"%%MatrixMarket", NULL},
        *const objects[] = {"matrix", NULL}, *const formats[] = {"coordinate", "array", NULL},
        *const fields[] = {"real", "integer", "pattern", "unsigned-integer", NULL},
        *const symmetries[] = {"general", "symmetric", "skew-symmetric", "hermitian", NULL};
    int banner, object, format, field, symmetry;
    enum mmul_status status = mmul_number_reader_skip_mark(&mtx->reader, err);
    if (status == MMUL_OK)
        status = read_choice(mtx, banners, "%%MatrixMarket", &banner, err);
    if (status == MMUL_OK)
        status = read_choice(mtx, objects, "matrix", &object, err);
    if (status == MMUL_OK)
        status = read_choice(mtx, formats, "coordinate or array", &format, err);
    if (status == MMUL_OK)
        status = read_choice(mtx, fields, "real, integer or pattern", &field, err);
    if (status == MMUL_OK)
        status =
            read_choice(mtx, symmetries, "general, symmetric or skew-symmetric", &symmetry, err);
    if (status != MMUL_OK)
        return status;
    mtx->is_array = format == 1;
    mtx->field = field == UNSIGNED ? INTEGER : (enum field)field;
    // equal for real numbers
    mtx->symmetry = symmetry == HERMITIAN ? SYMMETRIC : (enum symmetry)symmetry;
    if (mtx->field == PATTERN && (mtx->is_array || mtx->symmetry == SKEW))
        return mmul_fail(
            err, MMUL_ERR_DATA,
            "'%s' is not a valid .mtx file: a pattern must be general or symmetric, and in "
            "coordinates",
            mtx->reader.name);
    return end_line(mtx, err);
}

static enum mmul_status read_sizes(struct mtx *mtx, struct mmul_error *err) {
    const int64_t most = INT64_C(1) << 40; // the product of two such sizes can be counted
    enum mmul_status status;
    if (!find_line(mtx, &status, err))
        return status == MMUL_OK ? fail_line(mtx, "sizes", NULL, NULL, err) : status;
    status = read_whole(mtx, "a number of rows", 1, most, &mtx->rows, err);
    if (status == MMUL_OK)
        status = read_whole(mtx, "a number of columns", 1, most, &mtx->cols, err);
    if (status == MMUL_OK && mtx->symmetry != GENERAL && mtx->rows != mtx->cols)
        status = mmul_fail(err, MMUL_ERR_DATA,
                           "line %" PRId64 " of '%s': a matrix of %" PRId64 " x %" PRId64
                           " is not symmetric",
                           mtx->reader.line, mtx->reader.name, mtx->rows, mtx->cols);
    if (status == MMUL_OK && !mtx->is_array)
        status = read_whole(mtx, "a number of entries", 0, INT64_MAX, &mtx->entries, err);
    return status == MMUL_OK ? end_line(mtx, err) : status;
}

// ----------------------------------------------------------------------------------------- entries

struct entry {
    int64_t row, col;
    double real;
    int64_t whole;
};

// Adds a value to an element. Returns false if the sum exceeds int64.
static bool add_to_element(const struct mtx *mtx, int64_t row, int64_t col, const struct entry *e) {
    const int64_t at = row * mtx->cols + col;
    int64_t *whole = (int64_t *)mtx->elements + (mtx->field == INTEGER ? at : 0);
    if (mtx->field == INTEGER)
        return !__builtin_add_overflow(*whole, e->whole, whole);
    if (mtx->field == REAL)
        ((double *)mtx->elements)[at] += e->real;
    else
        ((bool *)mtx->elements)[at] = true;
    return true;
}

static enum mmul_status store_entry(const struct mtx *mtx, const struct entry *e,
                                    struct mmul_error *err) {
    struct entry mirrored = *e;
    bool fits = add_to_element(mtx, e->row, e->col, e);
    if (mtx->symmetry == SKEW) {
        mirrored.real = -e->real;
        fits = fits && !__builtin_sub_overflow(0, e->whole, &mirrored.whole);
    }
    if (fits && mtx->symmetry != GENERAL && e->row != e->col)
        fits = add_to_element(mtx, e->col, e->row, &mirrored);
    return fits ? MMUL_OK
                : mmul_fail(err, MMUL_ERR_DATA, "line %" PRId64 " of '%s': a sum beyond int64",
                            mtx->reader.line, mtx->reader.name);
}

static enum mmul_status read_position(struct mtx *mtx, struct entry *e, struct mmul_error *err) {
    enum mmul_status status = read_whole(mtx, "the number of a row", 1, mtx->rows, &e->row, err);
    if (status == MMUL_OK)
        status = read_whole(mtx, "the number of a column", 1, mtx->cols, &e->col, err);
    e->row--, e->col--;
    return status;
}

// Checks that an entry is in the lower triangle, the only part of a symmetric matrix that is
// stored. The diagonal of a skew-symmetric matrix is 0.
static enum mmul_status check_position(const struct mtx *mtx, const struct entry *e,
                                       struct mmul_error *err) {
    const bool is_zero = mtx->field == REAL ? e->real == 0 : e->whole == 0;
    if (mtx->is_array || mtx->symmetry == GENERAL || e->col < e->row ||
        (e->col == e->row && (mtx->symmetry == SYMMETRIC || is_zero)))
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA,
                     "line %" PRId64 " of '%s': entry (%" PRId64 ", %" PRId64
                     ") is not in the lower triangle",
                     mtx->reader.line, mtx->reader.name, e->row + 1, e->col + 1);
}

static bool has_digits_only(const char *begin, const char *end) {
    const char *first = begin + (begin < end && (*begin == '-' || *begin == '+')), *p = first;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p == end && p > first;
}

static enum mmul_status read_value(struct mtx *mtx, struct entry *e, struct mmul_error *err) {
    const char *begin, *end;
    enum mmul_status status = read_word(mtx, &begin, &end, err);
    if (status == MMUL_OK && mtx->field == REAL && !mmul_number_parse(begin, end, &e->real))
        status = fail_line(mtx, "a number", begin, end, err);
    if (status == MMUL_OK && mtx->field == INTEGER &&
        !mmul_whole_number_parse(begin, end, &e->whole))
        status =
            fail_line(mtx, has_digits_only(begin, end) ? "a number within int64" : "a whole number",
                      begin, end, err);
    return status;
}

// Moves to the next position of an array: down the column, which in a triangle starts on the
// diagonal, or below it if skew-symmetric.
static void advance_position(const struct mtx *mtx, struct entry *e) {
    if (++e->row < mtx->rows)
        return;
    e->col++;
    e->row = mtx->symmetry == GENERAL ? 0 : mtx->symmetry == SYMMETRIC ? e->col : e->col + 1;
}

static enum mmul_status read_entries(struct mtx *mtx, struct mmul_error *err) {
    struct entry e = {.row = mtx->symmetry == SKEW};
    enum mmul_status status = MMUL_OK;
    for (int64_t i = 0; i < mtx->entries; i++) {
        if (!find_line(mtx, &status, err))
            return status != MMUL_OK
                       ? status
                       : mmul_fail(err, MMUL_ERR_DATA,
                                   "'%s' ends after %" PRId64 " entries, expected %" PRId64,
                                   mtx->reader.name, i, mtx->entries);
        if (!mtx->is_array)
            status = read_position(mtx, &e, err);
        if (status == MMUL_OK && mtx->field != PATTERN)
            status = read_value(mtx, &e, err);
        if (status == MMUL_OK)
            status = check_position(mtx, &e, err);
        if (status == MMUL_OK)
            status = store_entry(mtx, &e, err);
        if (status == MMUL_OK)
            status = end_line(mtx, err);
        if (status != MMUL_OK)
            return status;
        if (mtx->is_array)
            advance_position(mtx, &e);
    }
    if (find_line(mtx, &status, err))
        status = mmul_fail(err, MMUL_ERR_DATA,
                           "line %" PRId64 " of '%s': expected no more than %" PRId64 " entries",
                           mtx->reader.line, mtx->reader.name, mtx->entries);
    return status;
}

// --------------------------------------------------------------------------------------- the whole

static enum mmul_status decode_file(struct mtx *mtx, struct mmul_decoded *to,
                                    struct mmul_matrix_info *info, struct mmul_error *err) {
    static const enum mmul_dtype types[] = {MMUL_F64, MMUL_I64, MMUL_BOOL};
    int64_t bytes = 0;
    enum mmul_status status = read_header(mtx, err);
    if (status == MMUL_OK)
        status = read_sizes(mtx, err);
    if (status != MMUL_OK)
        return status;
    info->shape = (struct mmul_shape){1, 1, mtx->rows, mtx->cols};
    info->stored = types[mtx->field];
    status = mmul_shape_bytes(info->shape, info->stored, &bytes, err);
    if (status == MMUL_OK)
        status = mmul_decoded_map(to, bytes, &mtx->elements, err);
    const int64_t n = mtx->rows;
    if (mtx->is_array)
        mtx->entries = mtx->symmetry == GENERAL     ? n * mtx->cols
                       : mtx->symmetry == SYMMETRIC ? n * (n + 1) / 2
                                                    : n * (n - 1) / 2;
    return status == MMUL_OK ? read_entries(mtx, err) : status;
}

enum mmul_status mmul_mtx_decode(int fd, const char *name, struct mmul_decoded *to,
                                 struct mmul_matrix_info *info, struct mmul_error *err) {
    struct mtx mtx = {.entries = 0};
    enum mmul_status status = mmul_number_reader_init(&mtx.reader, fd, name, 0, err);
    if (status == MMUL_OK)
        status = decode_file(&mtx, to, info, err);
    mmul_number_reader_fini(&mtx.reader);
    return status;
}

enum mmul_status mmul_mtx_load(struct mmul_matrix *matrix, const unsigned char *start, size_t count,
                               bool empty_allowed, struct mmul_error *err) {
    const int64_t file_bytes = matrix->info.file_bytes;
    struct mmul_decoded decoded;
    (void)start, (void)count, (void)empty_allowed; // shards are .bin and .npy files
    enum mmul_status status = mmul_decoded_init(&decoded, matrix->name, err);
    if (status == MMUL_OK)
        status = mmul_mtx_decode(matrix->fd, matrix->name, &decoded, &matrix->info, err);
    if (status == MMUL_OK)
        status = mmul_decoded_attach(&decoded, matrix, err);
    mmul_decoded_fini(&decoded);
    matrix->info.file_bytes = file_bytes;
    return status;
}

enum mmul_status mmul_mtx_pack(const struct mmul_output *output, int to, struct mmul_error *err) {
    const struct mmul_shape s = output->shape;
    struct mmul_number_writer writer;
    struct mmul_elements elements;
    char header[128];
    enum mmul_status status = mmul_elements_map(output, &elements, err);
    if (status != MMUL_OK)
        return status;
    snprintf(header, sizeof header,
             "%%%%MatrixMarket matrix array %s general\n%" PRId64 " %" PRId64 "\n",
             mmul_dtype_is_integer(output->dtype) ? "integer" : "real", s.rows, s.cols);
    status = mmul_number_writer_init(&writer, to, output->name, output->dtype, err);
    if (status == MMUL_OK)
        status = mmul_number_writer_put_text(&writer, header, err);
    for (int64_t j = 0; j < s.cols; j++)
        for (int64_t i = 0; status == MMUL_OK && i < s.rows; i++)
            status = mmul_number_writer_put(&writer, elements.all, i * s.cols + j, '\n', err);
    if (status == MMUL_OK)
        status = mmul_number_writer_flush(&writer, err);
    mmul_number_writer_fini(&writer);
    mmul_elements_unmap(&elements);
    return status;
}
