// SPDX-License-Identifier: MIT
//
// What expressions are while a program is read: numbers, strings and tuples are known then; a matrix is a value of the
// program that is being built, and the number of axes that numpy would say it has (the engine has four).
#pragma once

#include "tensor/tree.h"

enum { MMUL_AXES_MOST = 4 };

enum mmul_object_kind {
    MMUL_OBJECT_NONE,
    MMUL_OBJECT_BOOL, // .integer: 0 or 1
    MMUL_OBJECT_INTEGER,
    MMUL_OBJECT_REAL,
    MMUL_OBJECT_STRING,
    MMUL_OBJECT_TUPLE,
    MMUL_OBJECT_FORMAT, // a string with matrices of one element in it, which print alone shows
    MMUL_OBJECT_MATRIX,
    MMUL_OBJECT_FUNCTION,
    MMUL_OBJECT_TOKENS, // a text of numbers (tensor/builtins_data.c)
};

struct mmul_script_text;

struct mmul_object {
    enum mmul_object_kind kind;
    int64_t integer;
    double real;
    const char *text;                // string; of the arena
    const struct mmul_object *items; // tuple, format; of the arena
    int count;                       // the same
    int value, axes;                 // matrix
    struct mmul_shape shape;         // matrix
    int job;                         // matrix: that `value` is of (tensor/jobs.h)
    int64_t held;  // matrix: where that has ended, the number under which ranks hold it
    bool is_whole; // matrix: it is held so on every node
    const double *
        parts; // matrix: each node's part in the mean of what every node has for itself; NULL: it is one
    bool is_unknown; // none: a name that has been one, of a turn of a loop that is over
    bool is_row;     // matrix: it has one axis in numpy, and is shown as a row (1, n) here
    bool
        are_pairs; // matrix: made of differences of all pairs, of a column and a row of as many elements
    struct mmul_span at; // matrix in a string: its expression in the text
    const char *
        format; // the same: how its number is written (tensor/number_format.h); NULL: as print does
    const struct mmul_node *function;
    const struct mmul_script_text
        *tokens; // of the script; of a matrix in a format: it is shown as the letters of its ids
};

// "a matrix", "a whole number".
const char *mmul_object_name(const struct mmul_object *object);

// bool, integer or real.
bool mmul_object_is_number(const struct mmul_object *object);
bool mmul_object_is_whole(const struct mmul_object *object); // bool or integer
bool mmul_object_is_one(const struct mmul_object *object);   // a matrix with one element
double mmul_object_number(const struct mmul_object *object);
struct mmul_object mmul_object_from_integer(int64_t integer);
struct mmul_object mmul_object_from_real(double real);
struct mmul_object mmul_object_from_bool(bool is_true);

// Sizes of a matrix by the engine's axes, of which the last `axes` are numpy's.
void mmul_object_sizes(const struct mmul_object *matrix, int64_t sizes[static MMUL_AXES_MOST]);

// "8 x 4096 x 64": as many sizes as there are axes. Returns `text`.
char *mmul_object_shape(const struct mmul_object *matrix, char text[static 96]);

// As str() of Python: 0.1, 1e-05, 3, True. Appends to `text`, at most to its capacity.
void mmul_object_format(const struct mmul_object *object, char *text, size_t capacity);

// x OPERATOR y of numbers, as Python: whole numbers stay whole but for /, // and % round down. Returns NULL, or what is
// wrong ("division by zero").
const char *mmul_object_calculate(const char *operator, const struct mmul_object * x,
                                  const struct mmul_object *y, struct mmul_object *result);
