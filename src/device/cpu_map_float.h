// SPDX-License-Identifier: MIT
//
// exp, log, tanh, ... of floats without branches or calls, so that loops over them become vector code. Errors
// are those of tests/unit/cpu_map_float_test, in units of the last place (ulp) of a float. All take and
// give NaN, infinities, zeros and subnormal numbers as the C library's functions do.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#define MMUL_INLINE static inline __attribute__((always_inline))

MMUL_INLINE float mmul_from_bits(int32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

MMUL_INLINE int32_t mmul_to_bits(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// x 2^k, |k| < 252: in two steps, because 2^k alone may be no normal number.
MMUL_INLINE float mmul_scale(float x, int32_t k) {
    const int32_t half = k >> 1;
    return x * mmul_from_bits((int32_t)((uint32_t)(half + 127) << 23)) *
           mmul_from_bits((int32_t)((uint32_t)(k - half + 127) << 23));
}

// 2^k e^r with r = x - k log 2 in two parts (Cody, Waite, "Software Manual for the Elementary Functions",
// 1980); e^r by the polynomial of Moshier's Cephes library (expf): 2 ulp. Adding 1.5 2^23 rounds to whole
// numbers, which are then the last bits.
MMUL_INLINE float mmul_expf(float x) {
    const float magic = 12582912.0f;
    x = x > 89.0f ? 89.0f : x; // beyond: infinity, and below -104: 0, all the same
    x = x < -104.0f ? -104.0f : x;
    const float shifted = x * 1.44269504f + magic, k = shifted - magic;
    const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return mmul_scale(p, mmul_to_bits(shifted) - mmul_to_bits(magic));
}

// x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2); x > 0, finite.
MMUL_INLINE float mmul_split_float(float x, float *f) {
    const int32_t root = 0x3f3504f3; // sqrt(1/2)
    const float wide = x < 0x1p-126f ? x * 0x1p24f : x;
    const int32_t from_root = (int32_t)((uint32_t)mmul_to_bits(wide) - (uint32_t)root);
    *f = mmul_from_bits((from_root & 0x7fffff) + root) - 1.0f;
    return (float)(from_root >> 23) - (x < 0x1p-126f ? 24.0f : 0.0f);
}

// e log 2 + log(1 + f), that by Cephes's polynomial (logf): 2 ulp.
MMUL_INLINE float mmul_logf(float x) {
    float f;
    const float e = mmul_split_float(x, &f), square = f * f;
    float p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    float y = p * f * square - e * 2.12194440e-4f;
    y = (y - 0.5f * square) + f + e * 0.693359375f;
    y = x <= 3.40282347e38f ? y : x; // infinity, NaN
    y = x == 0.0f ? -INFINITY : y;
    return x < 0.0f ? NAN : y;
}

// e^-|x| does not overflow: 1 / (1 + it), or it / (1 + it) where x is negative: 4 ulp.
MMUL_INLINE float mmul_sigmoidf(float x) {
    const float power = mmul_expf(-fabsf(x));
    return (x < 0.0f ? power : 1.0f) / (1.0f + power);
}

// Near 0 by Cephes's polynomial (tanhf), else 1 - 2 / (e^2|x| + 1): 3 ulp.
MMUL_INLINE float mmul_tanhf(float x) {
    const float size = fabsf(x), square = x * x;
    float p = -5.70498872745e-3f;
    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    const float near = p * square * x + x;
    const float far = 1.0f - 2.0f / (mmul_expf(2.0f * size) + 1.0f);
    return size < 0.625f ? near : copysignf(far, x);
}

// x times the part of a normal distribution below x, which is erfc(|x| / sqrt 2) / 2 or 1 less it; erfc by the
// formula in Press et al., "Numerical Recipes in C", 1992, 6.2, which is good to 1.2e-7 of its value: 8 ulp
// above -2; below, where exp(-x^2 / 2) has the rounding of its argument, 2 x^2 more.
MMUL_INLINE float mmul_geluf(float x) {
    const float z = fabsf(x) * 0.707106781f, t = 1.0f / (1.0f + 0.5f * z);
    float p = 0.17087277f;
    p = p * t - 0.82215223f;
    p = p * t + 1.48851587f;
    p = p * t - 1.13520398f;
    p = p * t + 0.27886807f;
    p = p * t - 0.18628806f;
    p = p * t + 0.09678418f;
    p = p * t + 0.37409196f;
    p = p * t + 1.00002368f;
    const float half = 0.5f * t * mmul_expf(p * t - 1.26551223f - z * z);
    return x * (x < 0.0f ? half : 1.0f - half);
}

// 0.5 (1 + tanh u) is the sigmoid of 2 u.
MMUL_INLINE float mmul_gelu_tanhf(float x) {
    return x * mmul_sigmoidf(x * (1.59576912f + 0.0713548163f * x * x));
}

// log2 of x > 0, finite, in double: log(1 + f) = 2 artanh(f / (2 + f)) as a series; f / (2 + f) is at most
// 0.172, so that what is left out is below 0.172^17 / 17, 1e-14.
MMUL_INLINE double mmul_log2_double(float x) {
    float fraction;
    const double e = (double)mmul_split_float(x, &fraction), f = (double)fraction;
    const double s = f / (2.0 + f), z = s * s;
    double p = 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    p = p * z + 1.0;
    return e + p * s * 2.8853900817779268; // 2 / log 2
}

// 2^t as a float: e^(r log 2), |r| <= 1/2, by its series up to the 9th power (error 7e-12), scaled.
MMUL_INLINE float mmul_exp2_double(double t) {
    const double magic = 6755399441055744.0;
    t = t < 160.0 ? t : 160.0; // NaN, too
    t = t > -160.0 ? t : -160.0;
    const double k = (t + magic) - magic, r = (t - k) * 0.69314718055994531;
    double p = 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return mmul_scale((float)p, (int32_t)k);
}

// How far y is from a whole number; all are whole that are so large that this cannot be said of them.
MMUL_INLINE double mmul_rest(double y) {
    const double magic = 6755399441055744.0;
    y = y < 0x1p50 ? y : 0x1p50;
    y = y > -0x1p50 ? y : -0x1p50;
    return y - ((y + magic) - magic);
}

// What mmul_powf does not do: NaN, infinite powers, and no whole power of what is negative. Choices are between
// numbers that are there: of others compilers make branches.
MMUL_INLINE int32_t mmul_is_odd_power(float x, float y) {
    const double rest = mmul_rest((double)y), negative = x < 0.0f ? 1.0 : 0.0;
    return (negative * rest + (double)(y - y) != 0.0) | (x != x);
}

// As the C library's powf but for those: 1 ulp.
MMUL_INLINE float mmul_powf(float x, float y) {
    const float size = fabsf(x);
    double log = mmul_log2_double(size);
    log += size > 0.0f ? 0.0 : -1e60; // then nothing but the sign of y counts
    log += size <= 3.40282347e38f ? 0.0 : 1e60;
    const float power = mmul_exp2_double((double)y * log);
    // Of an odd number half of it is half from a whole number.
    const int32_t is_odd = fabs(mmul_rest(0.5 * (double)y)) == 0.5 ? INT32_MIN : 0;
    return mmul_from_bits(mmul_to_bits(power) ^ (is_odd & mmul_to_bits(x)));
}
