// SPDX-License-Identifier: MIT
//
// Random numbers for the tests of the check's false alarms: of any size, among them subnormal ones,
// some near overflow, NaN and Inf.
#pragma once

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "model/dtype.h"

// UNIT: [0, 1). SIGNED: [-1, 1). WIDE: 1e-30 to 1e30 in size (float64: 1e-150 to 1e150). HUGE_ONES:
// products near the largest number. SPECIAL: some NaN and Inf, also rows full of them. CANCELLING:
// every second term nearly cancels the one before. OFFSET: nearly equal ones in a row, of any size.
// ALIKE: the same number in a row.
enum numbers {
    UNIT,
    SIGNED,
    NORMAL,
    WHOLE,
    WIDE,
    SUBNORMAL,
    HUGE_ONES,
    LARGEST,
    SPECIAL,
    CANCELLING,
    CONSTANT,
    SPARSE,
    ROWS_SCALED,
    COLS_SCALED,
    OFFSET,
    ALIKE,
    NUMBERS
};
static const char *const numbers_names[NUMBERS] = {
    "unit",        "signed",         "normal",        "whole",      "wide",     "subnormal",
    "huge",        "largest",        "with specials", "cancelling", "constant", "sparse",
    "rows scaled", "columns scaled", "offset",        "alike"};

// A source of random numbers.
struct draws {
    uint64_t seed, count;
};

static inline double draw_unit(struct draws *d) {
    return (double)(mmul_random_at(d->seed, d->count++) >> 11) * 0x1p-53;
}

static inline int64_t draw_below(struct draws *d, int64_t bound) {
    return (int64_t)(draw_unit(d) * (double)bound);
}

static inline double draw_sign(struct draws *d) {
    return draw_below(d, 2) == 0 ? -1 : 1;
}

static inline double draw_normal(struct draws *d) {
    const double radius = sqrt(-2 * log(draw_unit(d) + 0x1p-60));
    return radius * cos(6.283185307179586 * draw_unit(d));
}

// Draws a size of up to `most`; small and large ones are equally frequent.
static inline int64_t draw_size(struct draws *d, int64_t most) {
    return (int64_t)exp(draw_unit(d) * log((double)most + 0.99));
}

// Limits of a type: exponents of two. Products of two HUGE_ONES overflow now and then.
struct range {
    int wide, subnormal, huge, largest;
};

static inline struct range range_of(enum mmul_dtype dtype) {
    switch (dtype) {
    case MMUL_F64:
        return (struct range){498, -1022, 510, 1023};
    case MMUL_F16:
        return (struct range){14, -14, 12, 15};
    default: // float32 and bfloat16
        return (struct range){99, -126, 62, 127};
    }
}

static inline double draw_special(struct draws *d) {
    static const double specials[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0};
    return specials[draw_below(d, 5)];
}

// `line` is a number drawn for the row or column of the element.
static inline double draw_number(struct draws *d, enum numbers numbers, struct range range,
                                 double line) {
    switch (numbers) {
    case UNIT:
        return draw_unit(d);
    case SIGNED:
        return 2 * draw_unit(d) - 1;
    case WHOLE:
        return (double)(draw_below(d, 9) - 4);
    case WIDE:
        return draw_sign(d) * exp2((2 * draw_unit(d) - 1) * range.wide);
    case SUBNORMAL:
        return draw_normal(d) * exp2(range.subnormal - (double)draw_below(d, 12));
    case HUGE_ONES:
        return draw_normal(d) * exp2(range.huge);
    case LARGEST:
        return draw_sign(d) * (1 + 0.99 * draw_unit(d)) * exp2(range.largest);
    case SPECIAL:
        return line < 0.05 || draw_unit(d) < 0.002 ? draw_special(d) : draw_normal(d);
    case CONSTANT:
        return 0.1;
    case SPARSE:
        return draw_unit(d) < 0.05 ? draw_normal(d) : 0;
    case ROWS_SCALED:
    case COLS_SCALED:
        return draw_normal(d) * exp2((2 * line - 1) * range.wide / 3);
    case OFFSET:
        return (1 + draw_unit(d) * 0x1p-10) * exp2((2 * line - 1) * range.wide / 3);
    case ALIKE:
        return (0.5 + line) * exp2((2 * line - 1) * range.wide / 3);
    default:
        return draw_normal(d);
    }
}

static inline int64_t number_from(const char *name, int64_t usual) {
    const char *const text = getenv(name);
    return text != NULL ? atoll(text) : usual;
}
