// SPDX-License-Identifier: MIT
// Parses a format, lets the C library make the digits, then groups and pads them. Other number
// bases, locales and nested formats are refused.
#include "tensor/number_format.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct format {
    const char *fill; // one UTF-8 character of fill_bytes bytes
    int fill_bytes;
    char align;           // '<', '>', '^' or '=' (between sign and digits)
    char sign;            // '-': only negative numbers; '+' or ' ': all numbers
    char grouping;        // ',' or '_'; '\0': none
    char type;            // '\0': as str()
    int width, precision; // precision -1: not given
};

// ----------------------------------------------------------------------------------------- reading

static int count_character_bytes(const char *text) {
    int bytes = *text != '\0';
    while (bytes > 0 && ((unsigned char)text[bytes] & 0xC0) == 0x80)
        bytes++;
    return bytes;
}

static bool is_align(char c) {
    return c != '\0' && strchr("<>^=", c) != NULL;
}

// Returns false if the number is too large.
static bool read_whole(const char **at, int *number) {
    for (*number = 0; isdigit((unsigned char)**at); ++*at)
        if (*number <= MMUL_FORMAT_WIDTH_MOST)
            *number = 10 * *number + (**at - '0');
    return *number <= MMUL_FORMAT_WIDTH_MOST;
}

static const char *read_format(const char *at, bool is_text, struct format *f) {
    static const char too_wide[] = "width and precision of a format must be below 1000";
    const int first = count_character_bytes(at);
    *f = (struct format){.fill = " ", .fill_bytes = 1, .align = is_text ? '<' : '>', .sign = '-'};
    const bool has_fill = is_align(at[first]), has_align = has_fill || is_align(*at);
    f->precision = -1;
    if (has_fill) {
        f->fill = at;
        f->fill_bytes = first;
        at += first;
    }
    if (has_align)
        f->align = *at++;
    const bool has_sign = *at != '\0' && strchr("+- ", *at) != NULL;
    if (has_sign)
        f->sign = *at++;
    if (*at == '0') {
        f->fill = has_fill ? f->fill : "0";
        f->fill_bytes = has_fill ? f->fill_bytes : 1;
        f->align = has_align || is_text ? f->align : '=';
        at++;
    }
    if (!read_whole(&at, &f->width))
        return too_wide;
    if (*at == ',' || *at == '_')
        f->grouping = *at++;
    if (*at == '.') {
        if (!isdigit((unsigned char)*++at))
            return "a precision must follow '.'";
        if (!read_whole(&at, &f->precision))
            return too_wide;
    }
    if (isalpha((unsigned char)*at) || *at == '%')
        f->type = *at++;
    if (*at != '\0')
        return "expected a format [[fill]align][sign][0][width][,][.precision][type]";
    if (is_text && (has_sign || f->grouping != '\0' || f->align == '='))
        return "a format of a string cannot have a sign or grouping";
    return NULL;
}

// Returns NULL if the type fits the value, else the problem.
static const char *check_type(const struct format *f, const struct mmul_object *x) {
    const bool is_whole = mmul_object_is_integer(x);
    if (x->kind == MMUL_OBJECT_STRING)
        return f->type == '\0' || f->type == 's'
                   ? NULL
                   : "the format type of a string must be s or omitted";
    if (f->type != '\0' && strchr("deEfFgG%", f->type) == NULL)
        return "the format type of a number must be d, e, f, g, %, or omitted";
    if (f->type == 'd' && !is_whole)
        return "format type d needs an integer";
    if (is_whole && f->precision >= 0 && (f->type == '\0' || f->type == 'd'))
        return "an integer takes a precision only with type e, f, g or %";
    return NULL;
}

// ------------------------------------------------------------------------------------------ digits

// 309 digits before the point and 999 after it fit.
enum { DIGITS_MOST = 1400 };

// Writes like %g, but always with a point or an exponent. The exponent form starts one digit
// earlier.
static void write_general(double size, int precision, char digits[static DIGITS_MOST]) {
    precision = precision > 0 ? precision : 1;
    snprintf(digits, DIGITS_MOST, "%.*e", precision - 1, size);
    char *end = strchr(digits, 'e'), *last = end;
    if (atoi(end + 1) != precision - 1) {
        snprintf(digits, DIGITS_MOST, "%.*g", precision, size);
        if (strpbrk(digits, ".e") == NULL)
            strcat(digits, ".0");
        return;
    }
    while (precision > 1 && last[-1] == '0')
        last--;
    last -= last[-1] == '.';
    memmove(last, end, strlen(end) + 1);
}

static void write_typed(char type, double size, int precision, char digits[static DIGITS_MOST]) {
    switch (type) {
    case 'e':
        snprintf(digits, DIGITS_MOST, "%.*e", precision, size);
        break;
    case 'E':
        snprintf(digits, DIGITS_MOST, "%.*E", precision, size);
        break;
    case 'g':
        snprintf(digits, DIGITS_MOST, "%.*g", precision, size);
        break;
    case 'G':
        snprintf(digits, DIGITS_MOST, "%.*G", precision, size);
        break;
    case '%':
        snprintf(digits, DIGITS_MOST, "%.*f%%", precision, size * 100);
        break;
    default:
        snprintf(digits, DIGITS_MOST, "%.*f", precision, size);
    }
}

// Writes the digits of |x|.
static void write_digits(const struct format *f, const struct mmul_object *x,
                         char digits[static DIGITS_MOST]) {
    const double size = fabs(mmul_object_number(x));
    const int precision = f->precision >= 0 ? f->precision : 6;
    const bool is_upper = isupper((unsigned char)f->type) != 0;
    if (mmul_object_is_integer(x) && (f->type == '\0' || f->type == 'd')) {
        const uint64_t bits = (uint64_t)x->integer;
        snprintf(digits, DIGITS_MOST, "%llu",
                 (unsigned long long)(x->integer < 0 ? 0 - bits : bits));
    } else if (!isfinite(size)) {
        snprintf(digits, DIGITS_MOST, "%s%s",
                 isnan(size) ? is_upper ? "NAN" : "nan"
                 : is_upper  ? "INF"
                             : "inf",
                 f->type == '%' ? "%" : "");
    } else if (f->type == '\0' && f->precision < 0) {
        const struct mmul_object shown = mmul_object_from_real(size);
        digits[0] = '\0';
        mmul_object_format(&shown, digits, DIGITS_MOST);
    } else if (f->type == '\0') {
        write_general(size, precision, digits);
    } else {
        write_typed(f->type, size, precision, digits);
    }
}

// ------------------------------------------------------------------------------ groups and padding

struct pieces {
    const char *digits; // integer digits, followed by the rest of the number
    int whole, zeros;   // digits to group; zeros in front of them
    char grouping;
};

static int count_whole(const struct pieces *p) {
    const int digits = p->zeros + p->whole;
    return digits + (p->grouping != '\0' && p->whole > 0 ? (digits - 1) / 3 : 0);
}

static void write_pieces(const struct pieces *p, char *to) {
    const int digits = p->zeros + p->whole;
    for (int i = 0; i < digits; i++) {
        if (p->grouping != '\0' && i > 0 && (digits - i) % 3 == 0)
            *to++ = p->grouping;
        *to++ = '0';
        if (i >= p->zeros)
            to[-1] = p->digits[i - p->zeros];
    }
    strcpy(to, p->digits + p->whole);
}

static int count_characters(const char *text, int bytes) {
    int count = 0;
    for (int i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

// Appends all bytes, or none if they do not fit before `end`. Returns the new end of the text.
static char *append_bytes(const char *from, int bytes, char *to, const char *end) {
    if (bytes >= end - to)
        return to;
    memcpy(to, from, (size_t)bytes);
    to[bytes] = '\0';
    return to + bytes;
}

// Appends the sign and the first `bytes` of the body, padded to the width.
static void append_padded(const struct format *f, const char *sign, const char *body, int bytes,
                          char *text, size_t capacity) {
    const int length = count_characters(sign, (int)strlen(sign)) + count_characters(body, bytes);
    const int padding = f->width > length ? f->width - length : 0;
    const int left = f->align == '<' ? 0 : f->align == '^' ? padding / 2 : padding;
    const bool is_between = f->align == '=';
    const char *end = text + capacity;
    char *to = text + strlen(text);
    if (is_between)
        to = append_bytes(sign, (int)strlen(sign), to, end);
    for (int i = 0; i < left; i++)
        to = append_bytes(f->fill, f->fill_bytes, to, end);
    if (!is_between)
        to = append_bytes(sign, (int)strlen(sign), to, end);
    to = append_bytes(body, bytes, to, end);
    for (int i = left; i < padding; i++)
        to = append_bytes(f->fill, f->fill_bytes, to, end);
}

static void append_number(const struct format *f, const struct mmul_object *x, char *text,
                          size_t capacity) {
    char digits[DIGITS_MOST], body[2 * DIGITS_MOST];
    const double number = mmul_object_number(x);
    const bool is_negative = !isnan(number) && signbit(number);
    const char *sign = is_negative ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "";
    write_digits(f, x, digits);
    struct pieces p = {.digits = digits, .grouping = f->grouping};
    p.whole = (int)strspn(digits, "0123456789");
    const int others = (int)(strlen(sign) + strlen(digits)) - p.whole;
    // Zero padding takes part in the grouping.
    const bool has_zeros = f->align == '=' && f->fill_bytes == 1 && *f->fill == '0' && p.whole > 0;
    while (has_zeros && others + count_whole(&p) < f->width)
        p.zeros++;
    write_pieces(&p, body);
    append_padded(f, sign, body, (int)strlen(body), text, capacity);
}

static void append_string(const struct format *f, const char *string, char *text, size_t capacity) {
    int bytes = 0;
    for (int i = 0; string[bytes] != '\0' && (f->precision < 0 || i < f->precision); i++)
        bytes += count_character_bytes(string + bytes);
    append_padded(f, "", string, bytes, text, capacity);
}

const char *mmul_format_write(const char *spec, const struct mmul_object *x, char *text,
                              size_t capacity) {
    struct format f;
    const bool is_text = x->kind == MMUL_OBJECT_STRING;
    if (*spec == '\0') {
        mmul_object_format(x, text, capacity);
        return NULL;
    }
    if (!is_text && !mmul_object_is_number(x))
        return "a format needs a number or a string";
    const char *problem = read_format(spec, is_text, &f);
    if (problem == NULL)
        problem = check_type(&f, x);
    if (problem != NULL)
        return problem;
    if (is_text)
        append_string(&f, x->text, text, capacity);
    else
        append_number(&f, x, text, capacity);
    return NULL;
}
