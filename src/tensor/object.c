// SPDX-License-Identifier: MIT
// Python's arithmetic on numbers, and their text form. Integers have 64 bits; a result that does
// not fit is an error, where Python would switch to longer ones.
#include "tensor/object.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *mmul_object_name(const struct mmul_object *object) {
    static const char *const names[] = {"None",
                                        "True or False",
                                        "a whole number",
                                        "a number",
                                        "a string",
                                        "a tuple",
                                        "a string with a matrix in it",
                                        "a matrix",
                                        "a function",
                                        "a text of tokens"};
    return names[object->kind];
}

bool mmul_object_is_integer(const struct mmul_object *object) {
    return object->kind == MMUL_OBJECT_BOOL || object->kind == MMUL_OBJECT_INTEGER;
}

bool mmul_object_is_number(const struct mmul_object *object) {
    return mmul_object_is_integer(object) || object->kind == MMUL_OBJECT_REAL;
}

bool mmul_object_is_one_element(const struct mmul_object *object) {
    const struct mmul_shape s = object->shape;
    return object->kind == MMUL_OBJECT_MATRIX && s.batch == 1 && s.depth == 1 && s.rows == 1 &&
           s.cols == 1;
}

double mmul_object_number(const struct mmul_object *object) {
    return object->kind == MMUL_OBJECT_REAL ? object->real : (double)object->integer;
}

struct mmul_object mmul_object_from_integer(int64_t integer) {
    return (struct mmul_object){.kind = MMUL_OBJECT_INTEGER, .integer = integer};
}

struct mmul_object mmul_object_from_real(double real) {
    return (struct mmul_object){.kind = MMUL_OBJECT_REAL, .real = real};
}

struct mmul_object mmul_object_from_bool(bool is_true) {
    return (struct mmul_object){.kind = MMUL_OBJECT_BOOL, .integer = is_true};
}

void mmul_object_sizes(const struct mmul_object *matrix, int64_t sizes[static MMUL_AXES_MOST]) {
    sizes[0] = matrix->shape.batch;
    sizes[1] = matrix->shape.depth;
    sizes[2] = matrix->shape.rows;
    sizes[3] = matrix->shape.cols;
}

int mmul_object_count_matrices(const struct mmul_object *x) {
    int count = x->kind == MMUL_OBJECT_MATRIX;
    for (int i = 0; x->kind == MMUL_OBJECT_TUPLE && i < x->count; i++)
        count += mmul_object_count_matrices(&x->items[i]);
    return count;
}

char *mmul_object_shape(const struct mmul_object *matrix, char text[static 96]) {
    int64_t sizes[MMUL_AXES_MOST];
    int length = 0;
    mmul_object_sizes(matrix, sizes);
    text[0] = '\0';
    for (int s = MMUL_AXES_MOST - matrix->axes; s < MMUL_AXES_MOST; s++)
        length += snprintf(text + length, 96 - (size_t)length, length > 0 ? " x %lld" : "%lld",
                           (long long)sizes[s]);
    return text;
}

// Writes the shortest decimal text that reads back as the same double, as Python's repr.
static void format_real(double x, char text[static 40]) {
    int digits = 1, exponent = 0;
    if (!isfinite(x)) {
        snprintf(text, 40, "%s", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
        return;
    }
    for (; digits < 17; digits++) {
        snprintf(text, 40, "%.*e", digits - 1, x);
        if (strtod(text, NULL) == x)
            break;
    }
    snprintf(text, 40, "%.*e", digits - 1, x);
    exponent = atoi(strchr(text, 'e') + 1);
    if (exponent < -4 || exponent >= 16)
        return;
    int behind = digits - 1 - exponent;
    snprintf(text, 40, "%.*f", behind > 1 ? behind : 1, x);
}

void mmul_object_format(const struct mmul_object *object, char *text, size_t capacity) {
    char number[40];
    size_t length = strlen(text);
    switch (object->kind) {
    case MMUL_OBJECT_NONE:
        snprintf(text + length, capacity - length, "None");
        break;
    case MMUL_OBJECT_BOOL:
        snprintf(text + length, capacity - length, object->integer != 0 ? "True" : "False");
        break;
    case MMUL_OBJECT_INTEGER:
        snprintf(text + length, capacity - length, "%lld", (long long)object->integer);
        break;
    case MMUL_OBJECT_REAL:
        format_real(object->real, number);
        snprintf(text + length, capacity - length, "%s", number);
        break;
    case MMUL_OBJECT_STRING:
        snprintf(text + length, capacity - length, "%s", object->text);
        break;
    case MMUL_OBJECT_TUPLE:
        snprintf(text + length, capacity - length, "(");
        for (int i = 0; i < object->count; i++) {
            if (i > 0)
                snprintf(text + strlen(text), capacity - strlen(text), ", ");
            if (object->items[i].kind == MMUL_OBJECT_STRING)
                snprintf(text + strlen(text), capacity - strlen(text), "'%s'",
                         object->items[i].text);
            else if (object->items[i].kind != MMUL_OBJECT_TUPLE)
                mmul_object_format(&object->items[i], text, capacity);
        }
        snprintf(text + strlen(text), capacity - strlen(text), object->count == 1 ? ",)" : ")");
        break;
    default:
        snprintf(text + length, capacity - length, "%s", mmul_object_name(object));
    }
}

// -------------------------------------------------------------------------------------- arithmetic

static const char *const TOO_LARGE = "the result exceeds 64 bits";

static bool power(int64_t base, int64_t exponent, int64_t *result) {
    *result = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(*result, base, result))
            return false;
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
            return false;
    }
    return true;
}

static const char *calculate_whole(char symbol, int64_t x, int64_t y, struct mmul_object *result) {
    int64_t made = 0;
    bool fits = true;
    switch (symbol) {
    case '+':
        fits = !__builtin_add_overflow(x, y, &made);
        break;
    case '-':
        fits = !__builtin_sub_overflow(x, y, &made);
        break;
    case '*':
        fits = !__builtin_mul_overflow(x, y, &made);
        break;
    case 'p':
        fits = power(x, y, &made);
        break;
    default: // 'q' and '%': floor division
        fits = !(x == INT64_MIN && y == -1);
        if (fits) {
            int64_t left = x % y;
            bool is_below = left != 0 && (left < 0) != (y < 0);
            made = symbol == '%' ? left + (is_below ? y : 0) : x / y - is_below;
        }
    }
    *result = mmul_object_from_integer(made);
    return fits ? NULL : TOO_LARGE;
}

static double calculate_real(char symbol, double x, double y) {
    double left;
    switch (symbol) {
    case '+':
        return x + y;
    case '-':
        return x - y;
    case '*':
        return x * y;
    case '/':
        return x / y;
    case 'p':
        return pow(x, y);
    default:
        left = fmod(x, y);
        if (left != 0 && (left < 0) != (y < 0))
            left += y;
        return symbol == '%' ? (left != 0 ? left : copysign(0, y)) : round((x - left) / y);
    }
}

static bool compare(const char *symbol, double x, double y) {
    bool has_equal = symbol[1] == '=';
    switch (symbol[0]) {
    case '=':
        return x == y;
    case '!':
        return x != y;
    case '<':
        return has_equal ? x <= y : x < y;
    default:
        return has_equal ? x >= y : x > y;
    }
}

const char *mmul_number_calculate(const char *symbol, const struct mmul_object *x,
                                  const struct mmul_object *y, struct mmul_object *result) {
    bool whole = mmul_object_is_integer(x) && mmul_object_is_integer(y);
    double left = mmul_object_number(x), right = mmul_object_number(y);
    // Single letters for longer operators: p is power, q is floor division.
    char letter = strcmp(symbol, "**") == 0 ? 'p' : strcmp(symbol, "//") == 0 ? 'q' : symbol[0];
    if (strchr("=!<>", symbol[0]) != NULL) {
        bool is_true =
            whole ? compare(symbol, x->integer < y->integer ? -1 : x->integer > y->integer, 0)
                  : compare(symbol, left, right);
        *result = mmul_object_from_bool(is_true);
        return NULL;
    }
    if (right == 0 && (letter == '/' || letter == 'q' || letter == '%'))
        return "division by zero";
    if (letter == 'p' && left == 0 && right < 0)
        return "0 cannot be raised to a negative power";
    if (whole && letter != '/' && !(letter == 'p' && y->integer < 0))
        return calculate_whole(letter, x->integer, y->integer, result);
    *result = mmul_object_from_real(calculate_real(letter, left, right));
    if (letter == 'p' && isnan(result->real) && !isnan(left) && !isnan(right))
        return "the power of this negative number is not real";
    return NULL;
}
