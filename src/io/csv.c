// SPDX-License-Identifier: MIT
// Reads and writes tables of numbers as text. Cells are parsed in place in the reader's buffer. The
// first line decides the separator, the number of cells in a row, and whether there is a header.
// Parsing a number is number_reader.c's part.
#include "io/csv.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/format_probes.h"
#include "io/formats.h"
#include "io/matrix_file.h"
#include "io/number_reader.h"
#include "io/number_writer.h"

enum { SHOWN_MAX = 40 };

enum first_line { NOTHING_YET, IS_HEADER, IS_NUMBERS };

struct csv {
    struct mmul_number_reader reader;
    struct mmul_decoded *to;
    char separator; // ' ': any number of blanks
    bool stops[256];
    bool missing_is_nan;
    int64_t first_missing; // missing cells of the first line while its kind is unknown
    enum first_line first;
    int64_t first_row;         // its line
    char shown[SHOWN_MAX + 1]; // first cell of the header
    int64_t rows, cols;        // cols 0: not known yet
};

// ------------------------------------------------------------------------------------------- lines

// Returns the separator of a line's cells: outside quotes, tab before semicolon before comma, else
// blank.
static char find_separator(const char *at, const char *end) {
    static const char separators[] = "\t;,";
    bool found[sizeof separators] = {false}, is_quoted = false;
    for (; at < end && *at != '\n'; at++) {
        const char *one = *at != '\0' ? strchr(separators, *at) : NULL;
        is_quoted ^= *at == '"';
        if (one != NULL && !is_quoted)
            found[one - separators] = true;
    }
    for (size_t s = 0; s < sizeof separators - 1; s++)
        if (found[s])
            return separators[s];
    return ' ';
}

// Spreadsheets may write a first line "sep=;", which names the separator. Returns the begin of the
// next line and sets *separator. Returns `at` if the first line is any other.
static const char *skip_separator_line(const char *at, const char *end, char *separator) {
    static const char word[] = "sep=", no_separators[] = "+-.\"#\r\n";
    const bool is_quoted = at < end && *at == '"';
    const char *p = at + is_quoted;
    const size_t length = sizeof word - 1;
    if ((size_t)(end - p) <= length || strncasecmp(p, word, length) != 0)
        return at;
    const char named = p[length];
    p += length + 1;
    if (is_quoted && p < end && *p == '"')
        p++;
    if (p < end && *p == '\r')
        p++;
    const bool is_separator = (named == '\t' || (named >= ' ' && named < 0x7F)) &&
                              strchr(no_separators, named) == NULL && !isalnum(named);
    if (!is_separator || p == end || *p != '\n')
        return at;
    *separator = named;
    return p + 1;
}

// Returns true for blanks that may surround a number, unless they separate cells.
static bool is_blank(const struct csv *csv, char c) {
    return c == ' ' || c == '\r' || (c == '\t' && csv->separator != '\t');
}

static void set_separator(struct csv *csv, char separator) {
    csv->separator = separator;
    csv->stops[(unsigned char)separator] = csv->stops['\n'] = true;
    if (separator == ' ')
        csv->stops['\t'] = true;
}

// ------------------------------------------------------------------------------------------- cells

// Returns true for a cell without a number: empty, NA, N/A, or #N/A of spreadsheets.
static bool is_missing(const char *begin, const char *end) {
    static const char *const words[] = {"", "NA", "N/A", "#N/A"};
    const size_t length = (size_t)(end - begin);
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        if (length == strlen(words[w]) && strncasecmp(begin, words[w], length) == 0)
            return true;
    return false;
}

// Returns true for "1,5". With the comma as separator such a cell stands in quotes.
static bool has_decimal_comma(const char *text) {
    char changed[SHOWN_MAX + 1];
    double ignored;
    mmul_text_copy(changed, sizeof changed, text);
    char *comma = strchr(changed, ',');
    if (comma == NULL)
        return false;
    *comma = '.';
    return mmul_number_parse(changed, changed + strlen(changed), &ignored);
}

// Refuses a cell. `hint` is used unless the cell itself suggests a better one. NULL: none.
static enum mmul_status fail_cell(const struct csv *csv, int64_t column, const char *text,
                                  const char *hint, struct mmul_error *err) {
    if (*text == '\0')
        mmul_fail(err, MMUL_ERR_DATA, "line %lld of '%s': column %lld is empty, expected a number",
                  (long long)csv->reader.line, csv->reader.name, (long long)column);
    else
        mmul_fail(err, MMUL_ERR_DATA, "line %lld of '%s': column %lld is '%s', expected a number",
                  (long long)csv->reader.line, csv->reader.name, (long long)column, text);
    if (is_missing(text, text + strlen(text)))
        hint = "--missing nan reads empty cells, NA and N/A as NaN";
    else if (has_decimal_comma(text) && csv->separator == ',')
        hint = "numbers have a decimal comma there, expected a point: "
               "sed -E 's/\"([^\",]*),([^\",]*)\"/\\1.\\2/g'";
    else if (has_decimal_comma(text))
        hint = "numbers have a decimal comma there, expected a point: tr , .";
    if (hint != NULL)
        mmul_hint(err, "%s", hint);
    return err->status;
}

static void copy_shown(const char *begin, const char *end, char shown[static SHOWN_MAX + 1]) {
    const size_t length = (size_t)(end - begin);
    const bool is_cut = length > SHOWN_MAX;
    snprintf(shown, SHOWN_MAX + 1, "%.*s%s", (int)(is_cut ? SHOWN_MAX - 3 : length), begin,
             is_cut ? "..." : "");
}

// Returns true for an ASCII letter or the first byte of a UTF-8 letter. Signs of Latin-1, general
// punctuation (U+2212 is a minus), Arabic digits and full-width digits are not letters.
static bool is_letter(char c) {
    const unsigned char byte = (unsigned char)c;
    const bool is_latin = (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
    return is_latin ||
           (byte >= 0xC3 && byte != 0xD9 && byte != 0xDB && byte != 0xE2 && byte < 0xEF);
}

// Returns true if a header can have this cell. Only such lines are skipped as headers: numbers in
// an unusual form are refused.
static bool is_heading(const char *begin, const char *end, bool is_quoted) {
    if (!is_quoted)
        return begin < end && is_letter(*begin);
    while (begin < end && !is_letter(*begin))
        begin++;
    return begin < end;
}

// Checks that the cells of the first line are all numbers or all headings.
static enum mmul_status check_first_line_cell(struct csv *csv, int64_t column, bool is_number,
                                              bool is_heading, const char *shown,
                                              struct mmul_error *err) {
    if (csv->first == NOTHING_YET && (is_number || is_heading)) {
        csv->first = is_number ? IS_NUMBERS : IS_HEADER;
        mmul_text_copy(csv->shown, sizeof csv->shown, shown);
    }
    if (csv->first == IS_NUMBERS ? is_number : csv->first == IS_HEADER && is_heading)
        return MMUL_OK;
    // Name the column that does not fit: for a number among headings, the first heading.
    return fail_cell(csv, is_number ? 1 : column, is_number ? csv->shown : shown,
                     "a first line is a header if each cell begins with a letter or is text in "
                     "quotes; any other: tail -n +2",
                     err);
}

// Appends NaN for the missing cells at the start of the first line, now known to hold numbers.
static enum mmul_status append_missing(struct csv *csv, struct mmul_error *err) {
    const double nan = NAN;
    enum mmul_status status = MMUL_OK;
    for (; status == MMUL_OK && csv->first_missing > 0; csv->first_missing--)
        status = mmul_decoded_append(csv->to, &nan, sizeof nan, err);
    return status;
}

static enum mmul_status fail_carriage_returns(const struct csv *csv, struct mmul_error *err) {
    mmul_fail(err, MMUL_ERR_DATA,
              "'%s' ends its lines with a carriage return alone, which is not read",
              csv->reader.name);
    mmul_hint(err, "convert them to line feeds: tr '\\r' '\\n'");
    return err->status;
}

static enum mmul_status fail_control(const struct csv *csv, int64_t column, unsigned char byte,
                                     struct mmul_error *err) {
    mmul_fail(err, MMUL_ERR_DATA,
              "line %lld of '%s': column %lld has the control byte 0x%02X, expected a number",
              (long long)csv->reader.line, csv->reader.name, (long long)column, byte);
    mmul_hint(err, "%s", MMUL_HINT_CONTROL);
    return err->status;
}

// Refuses text in a line behind the first one. Names of columns take one line, and rows have none.
static enum mmul_status fail_text(const struct csv *csv, int64_t column, const char *shown,
                                  bool is_heading, struct mmul_error *err) {
    char hint[96] = "";
    const long long line = csv->reader.line;
    if (is_heading && csv->first == IS_HEADER && column == 1)
        snprintf(hint, sizeof hint,
                 "names take one line and no column: tail -n +%lld, or cut -d '%s' -f 2-", line,
                 csv->separator == '\t' ? "<tab>" : (char[]){csv->separator, '\0'});
    return fail_cell(csv, column, shown, hint[0] != '\0' ? hint : NULL, err);
}

static enum mmul_status read_cell(struct csv *csv, int64_t column, const char *begin,
                                  const char *end, struct mmul_error *err) {
    char shown[SHOWN_MAX + 1] = "";
    double value;
    while (end > begin && is_blank(csv, end[-1]))
        end--;
    const bool is_quoted = end - begin >= 2 && *begin == '"' && end[-1] == '"';
    if (!is_quoted && begin < end && memchr(begin, '\r', (size_t)(end - begin)) != NULL)
        return fail_carriage_returns(csv, err);
    begin += is_quoted;
    end -= is_quoted;
    bool is_number = mmul_number_parse(begin, end, &value);
    if (!is_number)
        copy_shown(begin, end, shown);
    if (!is_number && csv->missing_is_nan && is_missing(begin, end)) {
        // A missing cell in the first line fits both numbers and headings.
        if (csv->cols == 0 && csv->first != IS_NUMBERS) {
            csv->first_missing += csv->first == NOTHING_YET;
            return MMUL_OK;
        }
        value = NAN;
        is_number = true;
    }
    const bool is_header_cell = !is_number && is_heading(begin, end, is_quoted);
    const char *control = !is_number && !is_header_cell ? mmul_find_control(begin, end) : NULL;
    if (control != NULL)
        return fail_control(csv, column, (unsigned char)*control, err);
    if (csv->cols == 0 &&
        check_first_line_cell(csv, column, is_number, is_header_cell, shown, err) != MMUL_OK)
        return err->status;
    if (!is_number)
        return csv->cols == 0 ? MMUL_OK : fail_text(csv, column, shown, is_header_cell, err);
    enum mmul_status status = append_missing(csv, err);
    return status == MMUL_OK ? mmul_decoded_append(csv->to, &value, sizeof value, err) : status;
}

static enum mmul_status check_count(struct csv *csv, int64_t count, struct mmul_error *err) {
    if (csv->cols == 0) {
        csv->cols = count;
        csv->first_row = csv->reader.line;
    }
    if (count == csv->cols)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA,
                     "line %lld of '%s' has %lld column%s, expected %lld as in line %lld",
                     (long long)csv->reader.line, csv->reader.name, (long long)count,
                     count == 1 ? "" : "s", (long long)csv->cols, (long long)csv->first_row);
}

// Moves `at` to the next non-blank. Returns false at the end of the line or file, or after an
// error.
static bool skip_blanks(struct csv *csv, enum mmul_status *status, struct mmul_error *err) {
    while (mmul_number_reader_has_byte(&csv->reader, status, err) && is_blank(csv, *csv->reader.at))
        csv->reader.at++;
    return *status == MMUL_OK && csv->reader.at < csv->reader.end && *csv->reader.at != '\n';
}

// Reads a line that is not blank. `at` is at its first cell, and behind the line afterwards.
static enum mmul_status read_line(struct csv *csv, struct mmul_error *err) {
    struct mmul_number_reader *reader = &csv->reader;
    enum mmul_status status;
    const char *stop;
    int64_t column = 0;
    for (bool is_over = false; !is_over;) {
        const bool has_more = skip_blanks(csv, &status, err);
        if (status == MMUL_OK && !has_more && csv->separator == ' ')
            break; // blanks at the end of a line
        if (status == MMUL_OK)
            status = mmul_number_reader_find_stop(reader, csv->stops, &stop, err);
        if (status == MMUL_OK)
            status = read_cell(csv, ++column, reader->at, stop, err);
        if (status != MMUL_OK)
            return status;
        is_over = stop == reader->end || *stop == '\n';
        reader->at = is_over ? stop : stop + 1;
    }
    // A first line with only missing cells counts as numbers.
    if (csv->cols == 0 && csv->first == NOTHING_YET)
        csv->first = IS_NUMBERS;
    if (csv->first == IS_HEADER)
        csv->first_missing = 0;
    if (append_missing(csv, err) != MMUL_OK || check_count(csv, column, err) != MMUL_OK)
        return err->status;
    csv->rows += csv->first == IS_NUMBERS || csv->first_row < reader->line;
    if (reader->at < reader->end)
        reader->at++;
    reader->line++;
    return MMUL_OK;
}

// Returns true if a line that begins with '#' is a comment. Errors of spreadsheets begin so too,
// but are cells of a row.
static bool is_comment(struct csv *csv, enum mmul_status *status, struct mmul_error *err) {
    static const char *const errors[] = {"#N/A",  "#DIV/0!", "#REF!", "#VALUE!",
                                         "#NUM!", "#NAME?",  "#NULL!"};
    enum { LONGEST = 8 };
    struct mmul_number_reader *reader = &csv->reader;
    if (*reader->at != '#')
        return false;
    if (reader->end - reader->at < LONGEST && !reader->is_last)
        *status = mmul_number_reader_fill(reader, err);
    const size_t has = (size_t)(reader->end - reader->at);
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
        const size_t length = strlen(errors[e]);
        if (has >= length && memcmp(reader->at, errors[e], length) == 0 &&
            (has == length || strchr("\t;,\r\n", reader->at[length]) != NULL))
            return false;
    }
    return true;
}

static enum mmul_status read_lines(struct csv *csv, struct mmul_error *err) {
    struct mmul_number_reader *reader = &csv->reader;
    char named = '\0';
    enum mmul_status status = mmul_number_reader_skip_mark(reader, err);
    if (status == MMUL_OK)
        reader->at = skip_separator_line(reader->at, reader->end, &named);
    if (named != '\0') {
        set_separator(csv, named);
        reader->line++;
    }
    while (status == MMUL_OK) {
        const bool has_more = skip_blanks(csv, &status, err);
        if (status != MMUL_OK || (!has_more && reader->at == reader->end))
            break;
        const bool counts = has_more && !is_comment(csv, &status, err);
        if (status != MMUL_OK)
            break;
        if (!counts) {
            status = mmul_number_reader_skip_line(reader, err);
            continue;
        }
        // find_separator needs the whole first line in the buffer, as far as it fits.
        if (csv->cols == 0 && reader->at > reader->buffer)
            status = mmul_number_reader_fill(reader, err);
        if (status == MMUL_OK && csv->cols == 0 && named == '\0')
            set_separator(csv, find_separator(reader->at, reader->end));
        if (status == MMUL_OK)
            status = read_line(csv, err);
    }
    return status;
}

enum mmul_status mmul_csv_decode(int fd, const char *name, bool missing_is_nan,
                                 struct mmul_decoded *to, struct mmul_matrix_info *info,
                                 struct mmul_error *err) {
    // '\t' as separator keeps tabs from being skipped before the separator is known.
    struct csv csv = {.to = to, .separator = '\t', .missing_is_nan = missing_is_nan};
    enum mmul_status status = mmul_number_reader_init(&csv.reader, fd, name, 0, err);
    if (status == MMUL_OK)
        status = read_lines(&csv, err);
    if (status == MMUL_OK && csv.rows == 0)
        status = mmul_fail(err, MMUL_ERR_DATA, "'%s' holds no numbers%s", name,
                           csv.first == IS_HEADER ? ": its only line is a header" : "");
    if (status == MMUL_OK) {
        info->shape = (struct mmul_shape){1, 1, csv.rows, csv.cols};
        info->stored = MMUL_F64;
        info->has_header = csv.first == IS_HEADER;
    }
    mmul_number_reader_fini(&csv.reader);
    return status;
}

enum mmul_status mmul_csv_load(struct mmul_matrix *matrix, const unsigned char *start, size_t count,
                               bool empty_allowed, struct mmul_error *err) {
    const int64_t file_bytes = matrix->info.file_bytes;
    struct mmul_decoded decoded;
    (void)start, (void)count, (void)empty_allowed; // shards are .bin and .npy files
    enum mmul_status status = mmul_decoded_init(&decoded, matrix->name, err);
    if (status == MMUL_OK)
        status = mmul_csv_decode(matrix->fd, matrix->name, matrix->missing_is_nan, &decoded,
                                 &matrix->info, err);
    if (status == MMUL_OK)
        status = mmul_decoded_attach(&decoded, matrix, err);
    mmul_decoded_fini(&decoded);
    matrix->info.file_bytes = file_bytes;
    return status;
}

// ----------------------------------------------------------------------------------------- probing

// Returns true if the first cell of the line is a number.
static bool begins_with_number(const char *at, const char *end, char separator) {
    const char *stop = at;
    double ignored;
    while (stop < end && *stop != separator && *stop != '\n' && *stop != ' ')
        stop++;
    return mmul_number_parse(at, stop, &ignored);
}

static char probe_separator(const unsigned char *start, size_t count) {
    const char *at = (const char *)start, *end = at + count;
    char named = '\0';
    if (!mmul_is_mostly_text(start, count))
        return '\0';
    at += mmul_mark_bytes(start, count);
    at = skip_separator_line(at, end, &named);
    if (named != '\0')
        return named;
    for (int lines = 0; lines < 2 && at < end;) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        while (at < end && (*at == ' ' || *at == '\r'))
            at++;
        if (at < end && *at != '#' && *at != '\n') {
            const char separator = find_separator(at, end);
            if (separator != ' ' || begins_with_number(at, end, separator))
                return separator;
            lines++;
        }
        at = next != NULL ? next + 1 : end;
    }
    return '\0';
}

bool mmul_is_csv(const unsigned char *start, size_t count) {
    return probe_separator(start, count) != '\0';
}

bool mmul_is_tsv(const unsigned char *start, size_t count) {
    return probe_separator(start, count) == '\t';
}

// ----------------------------------------------------------------------------------------- writing

enum mmul_status mmul_csv_pack(const struct mmul_output *output, int to, struct mmul_error *err) {
    const char separator = output->packed->format == MMUL_FORMAT_TSV ? '\t' : ',';
    const struct mmul_shape s = output->shape;
    struct mmul_number_writer writer;
    struct mmul_elements elements;
    enum mmul_status status = mmul_elements_map(output, &elements, err);
    if (status != MMUL_OK)
        return status;
    status = mmul_number_writer_init(&writer, to, output->name, output->dtype, err);
    for (int64_t i = 0; i < s.rows; i++)
        for (int64_t j = 0; status == MMUL_OK && j < s.cols; j++)
            status = mmul_number_writer_put(&writer, elements.all, i * s.cols + j,
                                            j + 1 < s.cols ? separator : '\n', err);
    if (status == MMUL_OK)
        status = mmul_number_writer_flush(&writer, err);
    mmul_number_writer_fini(&writer);
    mmul_elements_unmap(&elements);
    return status;
}
