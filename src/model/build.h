// SPDX-License-Identifier: MIT
//
// Builder of operations out of others, for composites (model/composite.h) and gradients
// (model/gradient.h). Each call adds an operation to the program and returns its value. The first
// failure is kept; every later call does nothing and returns MMUL_NO_VALUE.
#pragma once

#include "model/program.h"

enum { MMUL_NO_VALUE = -1 };

struct mmul_build {
    struct mmul_program *program;
    const char *origin;     // source position of the operations, for run-time errors; "": not known
    struct mmul_error *err; // its status: MMUL_OK until the first failure
    int operations, values; // counts of the program before the build
};

// An operand: a value or, where the operation takes one, a number.
struct mmul_term {
    int value; // or MMUL_NUMBER
    double number;
};

struct mmul_build mmul_build_begin(struct mmul_program *program, const char *origin,
                                   struct mmul_error *err);

// Ends a build; after a failure the program is as before. Returns the status.
enum mmul_status mmul_build_end(struct mmul_build *b);

enum mmul_status mmul_build_fail(struct mmul_build *b, enum mmul_status status, const char *format,
                                 ...) __attribute__((format(printf, 3, 4)));

struct mmul_term mmul_value_term(int value);
struct mmul_term mmul_number_term(double number);
struct mmul_shape mmul_build_shape(const struct mmul_build *b, int value);

int mmul_build_apply(struct mmul_build *b, enum mmul_operation_kind kind,
                     const struct mmul_term *operands, int count,
                     const struct mmul_parameters *with); // NULL: none
int mmul_build_unary(struct mmul_build *b, enum mmul_operation_kind kind, int x);
int mmul_build_binary(struct mmul_build *b, enum mmul_operation_kind kind, struct mmul_term x,
                      struct mmul_term y);

// Apply kind to two values, or to a value and a number.
int mmul_build_binary_values(struct mmul_build *b, enum mmul_operation_kind kind, int x, int y);
int mmul_build_binary_number(struct mmul_build *b, enum mmul_operation_kind kind, int x,
                             double number);

// Adds: x where the condition is not 0, else y.
int mmul_build_where(struct mmul_build *b, int condition, struct mmul_term x, struct mmul_term y);

// Reduces along axis -4 to -1. Rows and columns are operations of their own. For depth or batch,
// the sizes behind the axis become one first, which costs nothing.
int mmul_build_reduce(struct mmul_build *b, enum mmul_operation_kind kind, int x, int axis);
int mmul_build_reshape(struct mmul_build *b, int x,
                       struct mmul_shape shape); // returns x itself if it has this shape
int mmul_build_slice(struct mmul_build *b, int x, const int64_t begin[4], const int64_t end[4]);
int mmul_build_slice_columns(struct mmul_build *b, int x, int64_t begin, int64_t end);

// Reverses the elements along an axis (0: batch).
int mmul_build_flip(struct mmul_build *b, int x, int axis);

// Append `other` to `one` along an axis (0: batch), either of which may be MMUL_NO_VALUE; append
// `many` zeros to `to`, with the other sizes of `like`.
int mmul_build_concat(struct mmul_build *b, int one, int other, int axis);
int mmul_build_concat_zeros(struct mmul_build *b, int to, int like, int axis, int64_t many);

// Pads a value with zeros to `size` along an axis; the value begins at `begin`.
int mmul_build_pad(struct mmul_build *b, int value, int axis, int64_t begin, int64_t size);

// Inserts step - 1 zeros between neighbouring elements along an axis.
int mmul_build_dilate(struct mmul_build *b, int value, int axis, int64_t step);

// Generates numbers from a seed and their positions. They take the type of their readers.
int mmul_build_generate(struct mmul_build *b, struct mmul_shape shape, enum mmul_generator kind,
                        uint64_t seed);
// Fills a value with ones or zeros.
int mmul_build_fill(struct mmul_build *b, struct mmul_shape shape, bool with_ones);

// Returns (1, before, size, behind): the sizes before an axis (0: batch) as one, its own, and those
// behind it as one.
struct mmul_shape mmul_build_shape_around(const int64_t sizes[static 4], int axis);
