// SPDX-License-Identifier: MIT
//
// Formulas of elementwise operations that need more than the C library: the functions in the
// formula column of operations.def. Together they are the specification of these operations.
//
// They are written in a real type that the including file may choose: double, unless FORMULA_REAL
// is defined. Tests define it as long double and include <tgmath.h> first, so that every function
// of the C library is the one of that type. Loops over them are vectorised (cpu_map_elements.c).
#pragma once

#include <float.h>
#include <math.h>

#ifndef FORMULA_REAL
#define FORMULA_REAL double
#endif

#define MMUL_FORMULA static inline __attribute__((always_inline)) FORMULA_REAL

MMUL_FORMULA mmul_sigmoid(FORMULA_REAL x) {
    return 1 / (1 + exp(-x));
}

// Returns x, or the lowest double for -infinity: the limit of x times a function that goes to 0
// there is 0.
MMUL_FORMULA mmul_finite_below(FORMULA_REAL x) {
    return x < -DBL_MAX ? -DBL_MAX : x;
}

// 0.5 x (1 + erf(x / sqrt 2)): Hendrycks, Gimpel, "Gaussian Error Linear Units", 2016. 1 + erf z is
// computed as erfc(-z), which does not cancel.
MMUL_FORMULA mmul_gelu(FORMULA_REAL x) {
    return mmul_finite_below(x) / 2 * erfc(-x / (FORMULA_REAL)1.41421356237309504880L);
}

// The approximation of gelu from the same paper, torch's approximate="tanh". 0.5 (1 + tanh u) is
// the sigmoid of 2 u, which does not cancel. This is 2 u for u = sqrt(2 / pi) (x + 0.044715 x^3).
MMUL_FORMULA mmul_gelu_tanh_angle(FORMULA_REAL x) {
    const FORMULA_REAL root = (FORMULA_REAL)1.59576912160573071176L;
    return root * x * (1 + (FORMULA_REAL)0.044715L * x * x);
}

MMUL_FORMULA mmul_gelu_tanh(FORMULA_REAL x) {
    return mmul_finite_below(x) * mmul_sigmoid(mmul_gelu_tanh_angle(x));
}

// Clamps the argument of the derivatives below: they are 0 or 1 far from 0, infinities included.
MMUL_FORMULA mmul_slope_range(FORMULA_REAL x) {
    x = x > 1000 ? 1000 : x;
    return x < -1000 ? -1000 : x;
}

MMUL_FORMULA mmul_silu_slope(FORMULA_REAL x) {
    x = mmul_slope_range(x);
    const FORMULA_REAL s = mmul_sigmoid(x);
    return s * (1 + x * (1 - s));
}

// The part of the normal distribution below x, plus x times its density.
MMUL_FORMULA mmul_gelu_slope(FORMULA_REAL x) {
    x = mmul_slope_range(x);
    const FORMULA_REAL below = erfc(-x / (FORMULA_REAL)1.41421356237309504880L) / 2;
    return below + x * ((FORMULA_REAL)0.39894228040143267794L * exp(-x * x / 2));
}

MMUL_FORMULA mmul_gelu_tanh_slope(FORMULA_REAL x) {
    x = mmul_slope_range(x);
    const FORMULA_REAL root = (FORMULA_REAL)1.59576912160573071176L;
    const FORMULA_REAL s = mmul_sigmoid(mmul_gelu_tanh_angle(x));
    return s * (1 + x * (1 - s) * root * (1 + (FORMULA_REAL)0.134145L * x * x));
}

// The inverse of erf. The start is that of Winitzki, "A handy approximation for the error function
// and its inverse", 2008, within 2e-3. Each of three steps of Halley gives three times as many
// digits. 1 - |x| is exact from 1/2 on, where erfc has the digits that erf lacks.
static inline FORMULA_REAL mmul_erfinv(FORMULA_REAL x) {
    const FORMULA_REAL size = fabs(x), tail = 1 - size, a = (FORMULA_REAL)0.147;
    if (!(size < 1))
        return size == 1 ? copysign((FORMULA_REAL)INFINITY, x) : (FORMULA_REAL)NAN;
    const FORMULA_REAL found = log1p(-size) + log1p(size), log_square = found < 0 ? found : 0;
    const FORMULA_REAL t = (FORMULA_REAL)4.33074 + log_square / 2; // 2 / (pi a)
    FORMULA_REAL y = sqrt(-log_square / a / (sqrt(t * t - log_square / a) + t));
    for (int i = 0; i < 3; i++) {
        const FORMULA_REAL off = size < (FORMULA_REAL)0.5 ? erf(y) - size : tail - erfc(y);
        const FORMULA_REAL step = off * (FORMULA_REAL)0.88622692545275801365L * exp(y * y);
        y -= step / (1 + y * step);
    }
    return copysign(y, x);
}

// numpy's floor_divide and remainder, from its npy_divmod (numpy/core/src/npymath). The remainder
// has the sign of y. It is subtracted before the division, so that the quotient is a whole number
// up to rounding. Zeros have the sign of an exact result.
struct mmul_quotient_and_rest {
    FORMULA_REAL quotient, left;
};

static inline struct mmul_quotient_and_rest mmul_division(FORMULA_REAL x, FORMULA_REAL y) {
    struct mmul_quotient_and_rest d = {x / y, fmod(x, y)};
    if (y == 0)
        return d;
    d.quotient = (x - d.left) / y;
    if (d.left == 0)
        d.left = copysign((FORMULA_REAL)0, y);
    else if ((y < 0) != (d.left < 0)) {
        d.left += y;
        d.quotient -= 1;
    }
    if (d.quotient == 0)
        d.quotient = copysign((FORMULA_REAL)0, x / y);
    else
        d.quotient = floor(d.quotient) + (d.quotient - floor(d.quotient) > (FORMULA_REAL)0.5);
    return d;
}
