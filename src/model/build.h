// SPDX-License-Identifier: MIT
//
// Operations that are made of others: what composites (model/composite.h) and gradients (model/gradient.h) are written
// with. Each call adds an operation to the program and gives its value; after the first one that fails, which is kept,
// all do nothing and give MMUL_NO_VALUE.
#pragma once

#include "model/program.h"

enum { MMUL_NO_VALUE = -1 };

struct mmul_build {
    struct mmul_program *program;
    const char *origin;     // of the operations, for errors of a run; "": not known
    struct mmul_error *err; // its status: MMUL_OK as long as all goes well
    int operations, values; // of the program before
};

// An operand: a value or, where the operation takes one, a number.
struct mmul_term {
    int value; // or MMUL_NUMBER
    double number;
};

struct mmul_build mmul_build_begin(struct mmul_program *program, const char *origin,
                                   struct mmul_error *err);

// Failed: the program is as before. Returns the status.
enum mmul_status mmul_build_end(struct mmul_build *b);

enum mmul_status mmul_build_fail(struct mmul_build *b, enum mmul_status status, const char *format,
                                 ...) __attribute__((format(printf, 3, 4)));

struct mmul_term mmul_value_term(int value);
struct mmul_term mmul_number_term(double number);
struct mmul_shape mmul_build_shape(const struct mmul_build *b, int value);

int mmul_build_apply(struct mmul_build *b, enum mmul_operation_kind kind,
                     const struct mmul_term *operands, int count,
                     const struct mmul_parameters *with); // NULL: none
int mmul_build_one(struct mmul_build *b, enum mmul_operation_kind kind, int x);
int mmul_build_two(struct mmul_build *b, enum mmul_operation_kind kind, struct mmul_term x,
                   struct mmul_term y);

// kind of value and value, of value and number.
int mmul_build_both(struct mmul_build *b, enum mmul_operation_kind kind, int x, int y);
int mmul_build_number(struct mmul_build *b, enum mmul_operation_kind kind, int x, double number);

// x where the condition is not 0, else y.
int mmul_build_where(struct mmul_build *b, int condition, struct mmul_term x, struct mmul_term y);

// Along axis -4 to -1. Rows and columns are the engine's; along depth or batch the sizes behind it become one, which
// costs nothing.
int mmul_build_reduce(struct mmul_build *b, enum mmul_operation_kind kind, int x, int axis);
int mmul_build_reshape(struct mmul_build *b, int x,
                       struct mmul_shape shape); // x itself, where it is so
int mmul_build_slice(struct mmul_build *b, int x, const int64_t begin[4], const int64_t end[4]);

// Its elements along an axis (0: batch), from the last to the first.
int mmul_build_flip(struct mmul_build *b, int x, int axis);

// One behind the other along an axis (0: batch); MMUL_NO_VALUE is nothing. `many` zeros behind what there is, which has
// the same other sizes as `like`.
int mmul_build_append(struct mmul_build *b, int one, int other, int axis);
int mmul_build_append_zeros(struct mmul_build *b, int to, int like, int axis, int64_t many);

// A value from `begin` on along an axis of that size, zeros before and behind it.
int mmul_build_pad(struct mmul_build *b, int value, int axis, int64_t begin, int64_t size);

// Along an axis of a value, step - 1 zeros between each element and the next one.
int mmul_build_spread(struct mmul_build *b, int value, int axis, int64_t step);

// Numbers by position, from a seed: they take the type of what reads them.
int mmul_build_generate(struct mmul_build *b, struct mmul_shape shape, enum mmul_generator kind,
                        uint64_t seed);
// One number.
int mmul_build_filled(struct mmul_build *b, struct mmul_shape shape, bool with_ones);

// Sizes by axis, batch first, and back.
void mmul_build_sizes(struct mmul_shape shape, int64_t sizes[static 4]);
struct mmul_shape mmul_build_of_sizes(const int64_t sizes[static 4]);
