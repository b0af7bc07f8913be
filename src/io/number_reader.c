// SPDX-License-Identifier: MIT
// Parses numbers. Most have few digits: the value is one product or quotient of two exact doubles.
// The single rounding is then correct (Clinger, How to read floating point numbers accurately,
// 1990). All others go to strtod in the C locale.
#include "io/number_reader.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/format_probes.h"
#include "io/transfer.h"

enum { BUFFER_BYTES = 1 << 20 };

// ----------------------------------------------------------------------------------------- reading

enum mmul_status mmul_number_reader_init(struct mmul_number_reader *reader, int fd,
                                         const char *name, int64_t offset, struct mmul_error *err) {
    *reader = (struct mmul_number_reader){.fd = fd, .name = name, .offset = offset, .line = 1};
    enum mmul_status status =
        MMUL_ALLOCATE_RAW(reader->buffer, BUFFER_BYTES, "a buffer for text", err);
    reader->at = reader->end = reader->buffer;
    return status;
}

void mmul_number_reader_fini(struct mmul_number_reader *reader) {
    mmul_free(reader->buffer);
}

enum mmul_status mmul_number_reader_fill(struct mmul_number_reader *reader,
                                         struct mmul_error *err) {
    const size_t kept = (size_t)(reader->end - reader->at);
    size_t got = 0;
    if (kept == BUFFER_BYTES)
        return mmul_fail(err, MMUL_ERR_DATA, "line %lld of '%s' has %d bytes without a separator",
                         (long long)reader->line, reader->name, BUFFER_BYTES);
    memmove(reader->buffer, reader->at, kept);
    reader->at = reader->buffer;
    int errnum = mmul_pread_all(reader->fd, reader->buffer + kept, BUFFER_BYTES - kept,
                                reader->offset, &got);
    reader->end = reader->buffer + kept + got;
    reader->offset += (int64_t)got;
    reader->is_last = got < BUFFER_BYTES - kept;
    return errnum == 0
               ? MMUL_OK
               : mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", reader->name);
}

enum mmul_status mmul_number_reader_skip_mark(struct mmul_number_reader *reader,
                                              struct mmul_error *err) {
    enum mmul_status status = mmul_number_reader_fill(reader, err);
    if (status == MMUL_OK)
        reader->at +=
            mmul_mark_bytes((const unsigned char *)reader->at, (size_t)(reader->end - reader->at));
    return status;
}

bool mmul_number_reader_has_byte(struct mmul_number_reader *reader, enum mmul_status *status,
                                 struct mmul_error *err) {
    *status = MMUL_OK;
    if (reader->at == reader->end && !reader->is_last)
        *status = mmul_number_reader_fill(reader, err);
    return *status == MMUL_OK && reader->at < reader->end;
}

enum mmul_status mmul_number_reader_find_stop(struct mmul_number_reader *reader,
                                              const bool stops[static 256], const char **stop,
                                              struct mmul_error *err) {
    const bool has_quotes = reader->at < reader->end && *reader->at == '"';
    bool is_quoted = false;
    for (size_t seen = 0;;) {
        const char *p = reader->at + seen;
        for (; p < reader->end; p++)
            if (has_quotes && *p == '"')
                is_quoted = !is_quoted;
            else if (stops[(unsigned char)*p] && (!is_quoted || *p == '\n'))
                break;
        *stop = p;
        if (p < reader->end || reader->is_last)
            return MMUL_OK;
        seen = (size_t)(reader->end - reader->at);
        if (mmul_number_reader_fill(reader, err) != MMUL_OK)
            return err->status;
    }
}

enum mmul_status mmul_number_reader_skip_line(struct mmul_number_reader *reader,
                                              struct mmul_error *err) {
    enum mmul_status status;
    while (mmul_number_reader_has_byte(reader, &status, err)) {
        const char *end = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
        reader->at = end != NULL ? end + 1 : reader->end;
        if (end != NULL)
            break;
    }
    reader->line++;
    return status;
}

// ----------------------------------------------------------------------------------------- numbers

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool mmul_is_word(const char *begin, const char *end, const char *word) {
    return (size_t)(end - begin) == strlen(word) &&
           strncasecmp(begin, word, (size_t)(end - begin)) == 0;
}

static bool parse_word(const char *begin, const char *end, double *value) {
    if (mmul_is_word(begin, end, "nan"))
        *value = NAN;
    else if (mmul_is_word(begin, end, "inf") || mmul_is_word(begin, end, "infinity"))
        *value = INFINITY;
    else
        return false;
    return true;
}

// A number without its sign: digits x 10^exponent.
struct decimal {
    uint64_t digits;
    int kept;         // significant digits in `digits`, at most 19
    bool has_more;    // more digits follow
    int64_t exponent; // of 10
};

static const char *add_digits(struct decimal *d, const char *p, const char *end,
                              bool are_fraction) {
    enum { MOST = 19 };
    for (; p < end && is_digit(*p); p++) {
        const bool is_kept = d->kept < MOST;
        if (is_kept) {
            d->digits = 10 * d->digits + (uint64_t)(*p - '0');
            d->kept += d->digits != 0;
        } else {
            d->has_more = true;
        }
        d->exponent += (is_kept ? 0 : 1) - (are_fraction ? 1 : 0);
    }
    return p;
}

// Fortran writes 'D' for double precision.
static bool is_exponent(char c) {
    return c == 'e' || c == 'E' || c == 'd' || c == 'D';
}

static bool scan_decimal(const char *begin, const char *end, struct decimal *d) {
    enum { EXPONENT_MOST = 100000000 }; // beyond the digits of any cell
    const char *p = add_digits(d, begin, end, false);
    int64_t digits = p - begin, exponent = 0;
    if (p < end && *p == '.') {
        const char *fraction = p + 1;
        p = add_digits(d, fraction, end, true);
        digits += p - fraction;
    }
    if (digits == 0)
        return false;
    if (p < end && is_exponent(*p)) {
        const bool is_negative = p + 1 < end && p[1] == '-';
        p += 1 + (p + 1 < end && (p[1] == '-' || p[1] == '+'));
        if (p == end)
            return false;
        for (; p < end && is_digit(*p); p++)
            exponent = exponent < EXPONENT_MOST ? 10 * exponent + (*p - '0') : exponent;
        d->exponent += is_negative ? -exponent : exponent;
    }
    return p == end;
}

// Converts the number as digits without a point, and an exponent. The midpoint of two doubles has
// at most 767 significant digits, so a single 1 can stand for all later digits unless they are 0.
static double parse_with_strtod(const struct decimal *d, const char *begin, const char *end) {
    enum { MOST = 800, EXPONENT_BYTES = 32 };
    char text[MOST + 1 + EXPONENT_BYTES];
    int count = 0;
    bool has_rest = false;
    for (const char *p = begin; p < end && !is_exponent(*p); p++) {
        if (*p == '.' || (*p == '0' && count == 0))
            continue;
        if (count < MOST)
            text[count++] = *p;
        else
            has_rest |= *p != '0';
    }
    if (has_rest)
        text[count++] = '1';
    // digits x 10^exponent, of which `d` has the first digits.
    snprintf(text + count, EXPONENT_BYTES, "e%lld", (long long)(d->exponent + d->kept - count));
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const double value = strtod_l(text, NULL, plain);
    freelocale(plain);
    return value;
}

const char *mmul_find_control(const char *begin, const char *end) {
    while (begin < end && ((unsigned char)*begin >= 0x20 || *begin == '\t' || *begin == '\r') &&
           *begin != 0x7F)
        begin++;
    return begin < end ? begin : NULL;
}

bool mmul_number_parse(const char *begin, const char *end, double *value) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    enum { POWER_MOST = 22 };
    const uint64_t exact = UINT64_C(1) << 53;
    struct decimal d = {.digits = 0};
    const bool is_signed = begin < end && (*begin == '-' || *begin == '+');
    const bool is_negative = is_signed && *begin == '-';
    const char *first = begin + is_signed;
    double found;
    if (first == end)
        return false;
    if (!is_digit(*first) && *first != '.') {
        if (!parse_word(first, end, &found))
            return false;
    } else if (!scan_decimal(first, end, &d)) {
        return false;
    } else if (d.digits == 0) {
        found = 0;
    } else if (!d.has_more && d.digits <= exact && d.exponent >= -POWER_MOST &&
               d.exponent <= POWER_MOST) {
        found = d.exponent < 0 ? (double)d.digits / powers[-d.exponent]
                               : (double)d.digits * powers[d.exponent];
    } else {
        found = parse_with_strtod(&d, first, end);
    }
    *value = is_negative ? -found : found;
    return true;
}

bool mmul_whole_number_parse(const char *begin, const char *end, int64_t *value) {
    const bool is_signed = begin < end && (*begin == '-' || *begin == '+');
    const bool is_negative = is_signed && *begin == '-';
    int64_t found = 0;
    if (begin + is_signed == end)
        return false;
    for (const char *p = begin + is_signed; p < end; p++)
        if (!is_digit(*p) || __builtin_mul_overflow(found, 10, &found) ||
            __builtin_add_overflow(found, is_negative ? '0' - *p : *p - '0', &found))
            return false;
    *value = found;
    return true;
}
