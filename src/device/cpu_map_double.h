// SPDX-License-Identifier: MIT
// The functions of cpu_map_float.h for double. They are the C library's; in loops its vector
// functions are used where they exist (glibc's libmvec: up to 4 units of the last place).
#pragma once

#include <float.h>

#include "device/cpu_map_float.h"

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#if __GLIBC_PREREQ(2, 35)
#pragma omp declare simd notinbranch
extern double exp(double);
#pragma omp declare simd notinbranch
extern double log(double);
#pragma omp declare simd notinbranch
extern double log1p(double);
#pragma omp declare simd notinbranch
extern double tanh(double);
#pragma omp declare simd notinbranch
extern double erfc(double);
#pragma omp declare simd notinbranch
extern double erf(double);
#pragma omp declare simd notinbranch
extern double atan(double);
#pragma omp declare simd notinbranch
extern double expm1(double);
#pragma omp declare simd notinbranch
extern double pow(double, double);
#pragma omp declare simd notinbranch
extern double sin(double);
#pragma omp declare simd notinbranch
extern double cos(double);
#endif
#endif

MMUL_INLINE double mmul_exp(double x) {
    return exp(x);
}
MMUL_INLINE double mmul_log(double x) {
    return log(x);
}
MMUL_INLINE double mmul_log1p(double x) {
    return log1p(x);
}
MMUL_INLINE double mmul_sqrt(double x) {
    return sqrt(x);
}
MMUL_INLINE double mmul_abs(double x) {
    return fabs(x);
}
MMUL_INLINE double mmul_tanh(double x) {
    return tanh(x);
}
MMUL_INLINE double mmul_expm1(double x) {
    return expm1(x);
}
MMUL_INLINE double mmul_erf(double x) {
    return erf(x);
}
MMUL_INLINE double mmul_atan(double x) {
    return atan(x);
}
MMUL_INLINE double mmul_floor(double x) {
    return floor(x);
}
MMUL_INLINE double mmul_rint(double x) {
    return rint(x);
}
MMUL_INLINE double mmul_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
// Same as in cpu_map_float.h.
MMUL_INLINE double mmul_finite_below(double x) {
    return x < -DBL_MAX ? -DBL_MAX : x;
}
MMUL_INLINE double mmul_gelu(double x) {
    return 0.5 * mmul_finite_below(x) * erfc(-x * 0.70710678118654752);
}

// 0.5 (1 + tanh u) is the sigmoid of 2 u.
MMUL_INLINE double mmul_gelu_tanh(double x) {
    return mmul_finite_below(x) *
           mmul_sigmoid(x * (1.5957691216057308 + 0.071354816272600246 * x * x));
}

MMUL_INLINE double mmul_slope_range(double x) {
    x = x > 1000 ? 1000 : x;
    return x < -1000 ? -1000 : x;
}

MMUL_INLINE double mmul_silu_slope(double x) {
    x = mmul_slope_range(x);
    const double s = mmul_sigmoid(x);
    return s * (1 + x * (1 - s));
}

MMUL_INLINE double mmul_gelu_slope(double x) {
    x = mmul_slope_range(x);
    return 0.5 * erfc(-x * 0.70710678118654752) + x * (0.39894228040143268 * exp(-0.5 * x * x));
}

MMUL_INLINE double mmul_gelu_tanh_slope(double x) {
    x = mmul_slope_range(x);
    const double s = mmul_sigmoid(x * (1.5957691216057308 + 0.071354816272600246 * x * x));
    return s * (1 + x * (1 - s) * (1.5957691216057308 + 0.21406444881780074 * x * x));
}

// libmvec itself passes large angles to the C library.
MMUL_INLINE double mmul_sin(double x) {
    return sin(x);
}

MMUL_INLINE double mmul_cos(double x) {
    return cos(x);
}

MMUL_INLINE int32_t mmul_is_far(double x) {
    (void)x;
    return 0;
}

MMUL_INLINE int32_t mmul_has_far(const double *x, int64_t n) {
    (void)x;
    (void)n;
    return 0;
}

MMUL_INLINE double mmul_pow(double x, double y) {
    return pow(x, y);
}

// Two loops: sine and cosine of the same angle would become one call, which has no vector form.
MMUL_INLINE void mmul_sincos_pairs(double position, const double *restrict frequencies,
                                   int64_t pairs, double *restrict sines,
                                   double *restrict cosines) {
    for (int64_t p = 0; p < pairs; p++)
        sines[p] = sin(position * frequencies[p]);
    for (int64_t p = 0; p < pairs; p++)
        cosines[p] = cos(position * frequencies[p]);
}

// A sum of squares in double is always accepted, because no wider type exists.
MMUL_INLINE int mmul_is_accurate_sum(double squares, int64_t n) {
    (void)squares;
    (void)n;
    return 1;
}

// Same as in cpu_map_float.h.
struct mmul_quotient_double {
    double quotient, left;
};

MMUL_INLINE int32_t mmul_is_long_division(double x, double y) {
    return !(fabs(x / y) < 0x1p51) | (y - y != 0);
}

MMUL_INLINE struct mmul_quotient_double mmul_divide(double x, double y) {
    const double ratio = x / y, magic = 6755399441055744.0, nearest = (ratio + magic) - magic;
    const double below = nearest - (nearest > ratio ? 1.0 : 0.0), left = fma(-below, y, x);
    const double high = ((left < 0) ^ (y < 0)) & (left != 0) ? 1.0 : 0.0;
    const double quotient = below - high;
    return (struct mmul_quotient_double){quotient == 0 ? copysign(0.0, ratio) : quotient,
                                         copysign(left + high * y, y)};
}
