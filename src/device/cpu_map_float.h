// SPDX-License-Identifier: MIT
// exp, log, tanh, ... of float without branches or calls, so that loops over them are vectorised.
// Error bounds are those tested by tests/unit/cpu_map_float_test, in units of the last place (ulp)
// of a float. All functions treat NaN, infinities, zeros and subnormal numbers like the C
// library's.
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

// Returns x if `first` is 1, y if it is 0. Works on bits: for a choice with a constant, compilers
// branch around the computation of the other side.
MMUL_INLINE float mmul_select(int32_t first, float x, float y) {
    return mmul_from_bits((mmul_to_bits(x) & -first) | (mmul_to_bits(y) & (first - 1)));
}

// x 2^k, |k| < 252: in two steps, because 2^k alone may not be a normal number.
MMUL_INLINE float mmul_scale(float x, int32_t k) {
    const int32_t half = k >> 1;
    return x * mmul_from_bits((int32_t)((uint32_t)(half + 127) << 23)) *
           mmul_from_bits((int32_t)((uint32_t)(k - half + 127) << 23));
}

// Returns e^r - 1 and k = `power`, so that e^x = 2^k e^r. r = x - k log 2 is computed in two parts
// (Cody, Waite, "Software Manual for the Elementary Functions", 1980), e^r by the polynomial of
// Moshier's Cephes library (expf): 2 ulp. Adding 1.5 2^23 rounds to whole numbers, which are then
// the last bits.
MMUL_INLINE float mmul_exp_rest(float x, int32_t *power) {
    const float magic = 12582912.0f;
    x = x > 89.0f ? 89.0f : x; // beyond: infinity; below -104: 0; the clamp changes neither
    x = x < -104.0f ? -104.0f : x;
    const float shifted = x * 1.44269504f + magic, k = shifted - magic;
    const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    *power = mmul_to_bits(shifted) - mmul_to_bits(magic);
    return p * (r * r) + r;
}

MMUL_INLINE float mmul_expf(float x) {
    int32_t power;
    const float rest = mmul_exp_rest(x, &power);
    return mmul_scale(rest + 1.0f, power);
}

// Does not add and subtract 1 if the power is 0, where the difference is small: 5 ulp.
MMUL_INLINE float mmul_expm1f(float x) {
    int32_t power;
    const float rest = mmul_exp_rest(x, &power);
    const float y = mmul_select(power == 0, rest, mmul_scale(rest + 1.0f, power) - 1.0f);
    return mmul_select(x == 0.0f, x, y); // keeps the sign of zero
}

// For |x| above tan(3 pi / 8), pi / 2 plus the arc tangent of -1 / |x|. Above tan(pi / 8), pi / 4
// plus that of (|x| - 1) / (|x| + 1). Uses Cephes's polynomial (atanf): 4 ulp.
MMUL_INLINE float mmul_arctanf(float x) {
    const float size = fabsf(x);
    const int32_t is_far = size > 2.41421356f, is_near = size <= 0.414213562f;
    const float above = mmul_select(is_far, -1.0f, mmul_select(is_near, size, size - 1.0f));
    const float below = mmul_select(is_far, size, mmul_select(is_near, 1.0f, size + 1.0f));
    const float base = mmul_select(is_far, 1.57079633f, mmul_select(is_near, 0.0f, 0.785398163f));
    const float t = above / below, square = t * t;
    float p = 8.05374449538e-2f;
    p = p * square - 1.38776856032e-1f;
    p = p * square + 1.99777106478e-1f;
    p = p * square - 3.33329491539e-1f;
    return copysignf(base + (p * square * t + t), x);
}

MMUL_INLINE float mmul_floorf(float x) {
    return floorf(x);
}

MMUL_INLINE float mmul_roundf(float x) {
    return rintf(x);
}

// Splits x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2). Requires x > 0, finite.
MMUL_INLINE float mmul_split_float(float x, float *f) {
    const int32_t root = 0x3f3504f3; // sqrt(1/2)
    const float wide = x < 0x1p-126f ? x * 0x1p24f : x;
    const int32_t from_root = (int32_t)((uint32_t)mmul_to_bits(wide) - (uint32_t)root);
    *f = mmul_from_bits((from_root & 0x7fffff) + root) - 1.0f;
    return (float)(from_root >> 23) - (x < 0x1p-126f ? 24.0f : 0.0f);
}

// e log 2 + log(1 + f), the latter by Cephes's polynomial (logf): 2 ulp.
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

// u = 1 + x is rounded; the factor x / (u - 1) corrects that (Higham, "Accuracy and Stability of
// Numerical Algorithms", 2002, section 1.14.1): 4 ulp. If u is 1, log(1 + x) is x.
MMUL_INLINE float mmul_log1pf(float x) {
    const float u = 1.0f + x, ratio = x / (u - 1.0f), log = mmul_logf(u);
    return u == 1.0f ? x : u > 3.40282347e38f ? u : log * ratio;
}

// Returns x, or the lowest float for -infinity. There x f(x) then becomes 0, its limit, if f(x) is
// 0.
MMUL_INLINE float mmul_finite_belowf(float x) {
    return x < -3.40282347e38f ? -3.40282347e38f : x;
}

// e^-|x| does not overflow. The result is 1 / (1 + e^-|x|), or e^-|x| / (1 + e^-|x|) for negative
// x: 4 ulp.
MMUL_INLINE float mmul_sigmoidf(float x) {
    const float power = mmul_expf(-fabsf(x));
    return (x < 0.0f ? power : 1.0f) / (1.0f + power);
}

MMUL_INLINE float mmul_siluf(float x) {
    return mmul_finite_belowf(x) * mmul_sigmoidf(x);
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

// Half of erfc(|x| / sqrt 2), times 2^32: the tail of the normal distribution. gelu is x times the
// part below x, this tail or 1 less it. Computed as e^(-x^2 / 2) times a polynomial in t = 1 / (1 +
// 0.27 |x|), with relative error 2.4e-8 (fitted like those for powers below). The exponential is
// 2^k 2^r with r between -1/2 and 1/2. The factor 2^32 avoids subnormal intermediate values. Errors
// of gelu: 8 ulp above -2, and 2 x^2 more below, from the rounding of x^2.
MMUL_INLINE float mmul_normal_tailf(float x) {
    const float magic = 12582912.0f, half_log2_e = 0.721347520f;
    const float t = 1.0f / (1.0f + 0.27f * fabsf(x));
    float q = 0.0289955214f;
    q = q * t - 0.126658738f;
    q = q * t + 0.170156255f;
    q = q * t - 0.0696508214f;
    q = q * t + 0.108142667f;
    q = q * t + 0.0719082803f;
    q = q * t + 0.101848572f;
    q = q * t + 0.10753727f;
    q = q * t + 0.107721001f;
    const float square = x * x < 208.0f ? x * x : 208.0f; // beyond: 0 in any case; also for NaN
    const float shifted = magic - square * half_log2_e, k = shifted - magic;
    const float r = -k - square * half_log2_e;
    float p = 1.32647133e-3f;
    p = p * r + 9.67152324e-3f;
    p = p * r + 5.55073395e-2f;
    p = p * r + 2.40222424e-1f;
    p = p * r + 6.93147004e-1f;
    p = p * r + 1.0f;
    const uint32_t exponent = (uint32_t)mmul_to_bits(shifted) - (uint32_t)mmul_to_bits(magic) + 32;
    const float power = mmul_from_bits((int32_t)((uint32_t)mmul_to_bits(p) + (exponent << 23)));
    return t * q * power;
}

// Up to 1 by Cephes's polynomial (erff), else 1 - erfc: 4 ulp.
MMUL_INLINE float mmul_erff(float x) {
    const float size = fabsf(x), square = x * x;
    float p = 7.853861353153693e-5f;
    p = p * square - 8.010193625184903e-4f;
    p = p * square + 5.188327685732524e-3f;
    p = p * square - 2.685381193529856e-2f;
    p = p * square + 1.128358514861418e-1f;
    p = p * square - 3.761262582423300e-1f;
    p = p * square + 1.128379165726710f;
    const float far = 1.0f - mmul_normal_tailf(size * 1.41421356f) * 0x1p-31f;
    return copysignf(mmul_select(size < 1.0f, p * size, far), x);
}

// Giles, "Approximating the erfinv function", GPU Computing Gems Jade Edition, 2012, in single
// precision: x times a polynomial in w = -log(1 - x^2) or its root: 6 ulp.
MMUL_INLINE float mmul_erfinvf(float x) {
    const float w = -mmul_logf((1.0f - x) * (1.0f + x));
    const int32_t is_near = w < 5.0f;
    const float v = mmul_select(is_near, w - 2.5f, sqrtf(w) - 3.0f);
    float p = mmul_select(is_near, 2.81022636e-8f, -2.00214257e-4f);
    p = p * v + mmul_select(is_near, 3.43273939e-7f, 1.00950558e-4f);
    p = p * v + mmul_select(is_near, -3.5233877e-6f, 1.34934322e-3f);
    p = p * v + mmul_select(is_near, -4.39150654e-6f, -3.67342844e-3f);
    p = p * v + mmul_select(is_near, 2.1858087e-4f, 5.73950773e-3f);
    p = p * v + mmul_select(is_near, -1.25372503e-3f, -7.6224613e-3f);
    p = p * v + mmul_select(is_near, -4.17768164e-3f, 9.43887047e-3f);
    p = p * v + mmul_select(is_near, 0.246640727f, 1.00167406f);
    p = p * v + mmul_select(is_near, 1.50140941f, 2.83297682f);
    return mmul_select(fabsf(x) == 1.0f, x * INFINITY, p * x);
}

MMUL_INLINE float mmul_geluf(float x) {
    const float half = mmul_normal_tailf(x);
    return mmul_finite_belowf(x) * (x < 0.0f ? half : 1.0f - half * 0x1p-32f) *
           (x < 0.0f ? 0x1p-32f : 1.0f);
}

// 0.5 (1 + tanh u) is the sigmoid of 2 u.
MMUL_INLINE float mmul_gelu_tanhf(float x) {
    return mmul_finite_belowf(x) * mmul_sigmoidf(x * (1.59576912f + 0.0713548163f * x * x));
}

// Derivatives, which are 0 or 1 far from 0, infinities included. For gelu: the part of the
// distribution below x, plus x times its density.
MMUL_INLINE float mmul_slope_rangef(float x) {
    x = x > 1000.0f ? 1000.0f : x;
    return x < -1000.0f ? -1000.0f : x;
}

MMUL_INLINE float mmul_silu_slopef(float x) {
    x = mmul_slope_rangef(x);
    const float s = mmul_sigmoidf(x);
    return s * (1.0f + x * (1.0f - s));
}

MMUL_INLINE float mmul_gelu_slopef(float x) {
    x = mmul_slope_rangef(x);
    const float half = mmul_normal_tailf(x) * 0x1p-32f;
    return (x < 0.0f ? half : 1.0f - half) + x * (0.398942280f * mmul_expf(-0.5f * x * x));
}

MMUL_INLINE float mmul_gelu_tanh_slopef(float x) {
    x = mmul_slope_rangef(x);
    const float s = mmul_sigmoidf(x * (1.59576912f + 0.0713548163f * x * x));
    return s * (1.0f + x * (1.0f - s) * (1.59576912f + 0.214064489f * x * x));
}

// log2 of x > 0, finite, in double. log2(1 + f) / f is a polynomial with relative error at most
// 1.1e-10 (least squares, reweighted until all errors are equal: Lawson, 1961). No step divides.
MMUL_INLINE double mmul_log2_double(float x) {
    float fraction;
    const double e = (double)mmul_split_float(x, &fraction), f = (double)fraction;
    double p = -0.08634483113700088;
    p = p * f + 0.15485674867839971;
    p = p * f - 0.15698242249424682;
    p = p * f + 0.15900167363285991;
    p = p * f - 0.17904695085892902;
    p = p * f + 0.20609624199169685;
    p = p * f - 0.24050417359790538;
    p = p * f + 0.28854064404451002;
    p = p * f - 0.36067280056551332;
    p = p * f + 0.48089832072346872;
    p = p * f - 0.7213475252130821;
    p = p * f + 1.4426950409393566;
    return e + p * f;
}

// 2^t as a float: 2^r, |r| <= 1/2, by a polynomial fitted likewise (error 1.9e-9), scaled.
MMUL_INLINE float mmul_exp2_double(double t) {
    const double magic = 6755399441055744.0;
    t = t < 160.0 ? t : 160.0; // also for NaN
    t = t > -160.0 ? t : -160.0;
    const double k = (t + magic) - magic, r = t - k;
    double p = 0.000153458076;
    p = p * r + 0.00133999312;
    p = p * r + 0.00961848897;
    p = p * r + 0.0555032878;
    p = p * r + 0.240226469;
    p = p * r + 0.693147206;
    p = p * r + 1.0;
    return mmul_scale((float)p, (int32_t)k);
}

// Returns the distance of y from the nearest whole number; 0 if y is too large to have a fraction.
MMUL_INLINE double mmul_fraction(double y) {
    const double magic = 6755399441055744.0;
    y = y < 0x1p50 ? y : 0x1p50;
    y = y > -0x1p50 ? y : -0x1p50;
    return y - ((y + magic) - magic);
}

// x|^y for finite y: 1 ulp, with the sign of x if `sign` has the sign bit.
MMUL_INLINE float mmul_power_of_size(float x, double y, int32_t sign) {
    const float size = fabsf(x);
    double log = mmul_log2_double(size);
    log += size > 0.0f ? 0.0 : -1e60; // only the sign of y matters then
    log += size <= 3.40282347e38f ? 0.0 : 1e60;
    return mmul_from_bits(mmul_to_bits(mmul_exp2_double(y * log)) ^ (sign & mmul_to_bits(x)));
}

// Returns the sign bit if y is odd: half of y is then half from a whole number.
MMUL_INLINE int32_t mmul_odd_sign(float y) {
    return fabs(mmul_fraction(0.5 * (double)y)) == 0.5 ? INT32_MIN : 0;
}

// Returns a nonzero value if x^y is undefined: x is negative and finite, and `rest`, the distance
// of y from a whole number, is not 0.
MMUL_INLINE float mmul_is_undefined_power(float x, float rest) {
    return ((x < 0.0f ? 1.0f : 0.0f) * (fabsf(x) <= 3.40282347e38f ? 1.0f : 0.0f)) * rest;
}

// Like the C library's powf. Cases that are 1 in any case: anything to the power 0, 1 to any power,
// and -1 to an infinite power.
MMUL_INLINE float mmul_powf(float x, float y) {
    const float power = mmul_power_of_size(x, (double)y, mmul_odd_sign(y));
    const float none = mmul_is_undefined_power(x, (float)mmul_fraction((double)y));
    const float large = fabsf(y) > 3.40282347e38f ? fabsf(x) : x;
    const int32_t is_none = (none != 0.0f) | (x != x) | (y != y);
    return mmul_select((y == 0.0f) | (large == 1.0f), 1.0f,
                       mmul_from_bits(mmul_to_bits(power) | (is_none ? 0x7fc00000 : 0)));
}

// x = q y + r with a whole q and r between 0 and y, as in numpy's floor_divide and remainder. The
// ratio may have been rounded up to a whole number, but never down past one. Its floor `below` is
// therefore q or q + 1. x - below y is then a float, computed by one fma, and adding y to it is
// exact, too.
struct mmul_quotient {
    float quotient, left;
};

// Returns nonzero if mmul_dividef is not valid: the ratio is too large, or y is not finite.
MMUL_INLINE int32_t mmul_is_long_divisionf(float x, float y) {
    return !(fabsf(x / y) < 0x1p22f) | (y - y != 0.0f);
}

MMUL_INLINE struct mmul_quotient mmul_dividef(float x, float y) {
    const float ratio = x / y, magic = 12582912.0f, nearest = (ratio + magic) - magic;
    const float below = nearest - (nearest > ratio ? 1.0f : 0.0f), left = fmaf(-below, y, x);
    const float high = (mmul_to_bits(left) ^ mmul_to_bits(y)) < 0 && left != 0.0f ? 1.0f : 0.0f;
    const float quotient = below - high;
    return (struct mmul_quotient){quotient == 0.0f ? copysignf(0.0f, ratio) : quotient,
                                  copysignf(left + high * y, y)};
}

// Sine and cosine of an angle in double: position times frequency exceeds a float's precision of
// one radian. Quarter circles are subtracted in double, and the rest goes to Cephes's polynomials
// (sinf, cosf): absolute error 1.2e-7.
MMUL_INLINE void mmul_sincosf(double angle, float *sine, float *cosine) {
    const double magic = 6755399441055744.0;
    const double k = (angle * 0.63661977236758134 + magic) - magic;
    const float r = (float)((angle - k * 1.5707963267341256) - k * 6.0771005065061922e-11);
    const int32_t quarter = (int32_t)k;
    const float z = r * r;
    const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
    const float c =
        ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z -
        0.5f * z + 1.0f;
    const float odd_s = quarter & 1 ? c : s, odd_c = quarter & 1 ? s : c;
    *sine = quarter & 2 ? -odd_s : odd_s;
    *cosine = (quarter + 1) & 2 ? -odd_c : odd_c;
}

MMUL_INLINE float mmul_sinf(float x) {
    float sine, cosine;
    mmul_sincosf((double)(fabsf(x) < 0x1p27f ? x : 0.0f), &sine, &cosine);
    return sine;
}

MMUL_INLINE float mmul_cosf(float x) {
    float sine, cosine;
    mmul_sincosf((double)(fabsf(x) < 0x1p27f ? x : 0.0f), &sine, &cosine);
    return cosine;
}

// Returns nonzero for angles beyond that limit and for NaN.
MMUL_INLINE int32_t mmul_is_farf(float x) {
    return !(fabsf(x) < 0x1p27f);
}

MMUL_INLINE int32_t mmul_has_farf(const float *x, int64_t n) {
    int32_t has = 0;
    for (int64_t j = 0; j < n; j++)
        has |= mmul_is_farf(x[j]);
    return has;
}

// Computes sine and cosine of all pairs at a position.
MMUL_INLINE void mmul_sincos_pairsf(double position, const double *restrict frequencies,
                                    int64_t pairs, float *restrict sines, float *restrict cosines) {
    for (int64_t p = 0; p < pairs; p++)
        mmul_sincosf(position * frequencies[p], &sines[p], &cosines[p]);
}

// Returns nonzero if a sum of n squares in float is accurate: none underflowed or overflowed.
MMUL_INLINE int mmul_is_accurate_sumf(double squares, int64_t n) {
    return squares < 1e36 && squares > 1e-28 * (double)n;
}

MMUL_INLINE float mmul_sqrtf(float x) {
    return sqrtf(x);
}

MMUL_INLINE float mmul_absf(float x) {
    return fabsf(x);
}

MMUL_INLINE float mmul_rsqrtf(float x) {
    return 1 / sqrtf(x);
}

MMUL_INLINE float mmul_negf(float x) {
    return -x;
}

MMUL_INLINE float mmul_reluf(float x) {
    return x < 0 ? 0 : x;
}
