// SPDX-License-Identifier: MIT
// The functions of cpu_map_float.h for double. Functions of elements are the formulas of
// model/operations.def; the others call the C library. In loops its vector functions are used where
// they exist (glibc's libmvec: up to 4 units of the last place).
#pragma once

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

#include "model/element_formulas.h"

MMUL_INLINE double mmul_exp(double x) {
    return exp(x);
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
