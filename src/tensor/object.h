// SPDX-License-Identifier: MIT
//
// Values of expressions during evaluation. Numbers, strings and tuples are known at that time. A
// matrix is only a reference to a value of the program, with the number of axes that numpy would
// report. The engine itself always has four axes.
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
    MMUL_OBJECT_FORMAT, // a string with one-element matrices in it; only print accepts it
    MMUL_OBJECT_MATRIX,
    MMUL_OBJECT_FUNCTION,
    MMUL_OBJECT_TOKENS, // a text of tokens (tensor/builtins_data.c)
};

struct mmul_token_text;

struct mmul_object {
    enum mmul_object_kind kind;
    int64_t integer;
    double real;
    const char *text;                // string: its text, in the arena
    const struct mmul_object *items; // tuple, format: the elements, in the arena
    int count;                       // tuple, format: number of elements
    int value, axes;                 // matrix
    struct mmul_shape shape;         // matrix
    // Matrix: the job (tensor/jobs.h) that `value` belongs to.
    int job;
    int64_t held;  // matrix of an ended job: number under which the ranks hold it
    bool is_whole; // matrix: held whole on every node
    // Matrix that differs per node: the weight of each node in the mean. NULL if it is the same
    // everywhere.
    const double *parts;
    bool is_unknown; // none: the name belonged to a loop iteration that is over
    bool is_row;     // matrix: has one axis in numpy; stored here as a row (1, n)
    // Matrix: differences of all pairs of a column and a row of equal length.
    bool are_pairs;
    struct mmul_span at; // matrix in a string: its expression in the text
    // Matrix in a string: format of its number (tensor/number_format.h). NULL for the default of
    // print.
    const char *format;
    const struct mmul_node *function;
    // Matrix in a format: vocabulary to decode its ids; belongs to the script.
    const struct mmul_token_text *tokens;
};

// Returns the kind for messages: "a matrix", "a whole number".
const char *mmul_object_name(const struct mmul_object *object);

// Returns true for bool, integer or real.
bool mmul_object_is_number(const struct mmul_object *object);
// Returns true for bool or integer.
bool mmul_object_is_integer(const struct mmul_object *object);
// Returns true for a matrix with one element.
bool mmul_object_is_one_element(const struct mmul_object *object);
double mmul_object_number(const struct mmul_object *object);
struct mmul_object mmul_object_from_integer(int64_t integer);
struct mmul_object mmul_object_from_real(double real);
struct mmul_object mmul_object_from_bool(bool is_true);

// Returns the sizes of the engine's four axes. The last `axes` of them are numpy's.
void mmul_object_sizes(const struct mmul_object *matrix, int64_t sizes[static MMUL_AXES_MOST]);

// Counts the matrices in nested tuples.
int mmul_object_count_matrices(const struct mmul_object *x);

// Formats a shape such as "8 x 4096 x 64", one size per axis. Returns `text`.
char *mmul_object_shape(const struct mmul_object *matrix, char text[static 96]);

// Appends the object as Python's str() shows it: 0.1, 1e-05, 3, True. Never exceeds the capacity.
void mmul_object_format(const struct mmul_object *object, char *text, size_t capacity);

// Computes x OPERATOR y of numbers with Python's rules: integers stay integers except for /, and //
// and % round down. Returns NULL, or the problem ("division by zero").
const char *mmul_number_calculate(const char *symbol, const struct mmul_object *x,
                                  const struct mmul_object *y, struct mmul_object *result);
