// SPDX-License-Identifier: MIT
// Element types: names, sizes, and conversions in software, the same on every machine. The
// conversions work on bit patterns without tables and branches, so that the compiler vectorises the
// loops. The one float addition in each 16-bit direction rounds subnormals and sees normal numbers
// only, so flush-to-zero modes do not change it. They assume the default rounding mode. Formulas:
// F. Giesen, "float to half variants" (2012).
#include "model/dtype.h"

#include <math.h>
#include <string.h>

#include "base/status.h"

static const struct {
    const char *name, *short_name;
    size_t bytes;
    double least, most; // range of whole numbers; 0 for other types
} dtypes[] = {
    [MMUL_F32] = {"float32", "f32", 4, 0, 0},
    [MMUL_F16] = {"float16", "f16", 2, 0, 0},
    [MMUL_BF16] = {"bfloat16", "bf16", 2, 0, 0},
    [MMUL_F64] = {"float64", "f64", 8, 0, 0},
    [MMUL_I32] = {"int32", "i32", 4, INT32_MIN, INT32_MAX},
    [MMUL_I64] = {"int64", "i64", 8, -0x1p63, 0x1p63},
    [MMUL_U8] = {"uint8", "u8", 1, 0, UINT8_MAX},
    [MMUL_I8] = {"int8", "i8", 1, INT8_MIN, INT8_MAX},
    [MMUL_I16] = {"int16", "i16", 2, INT16_MIN, INT16_MAX},
    [MMUL_U16] = {"uint16", "u16", 2, 0, UINT16_MAX},
    [MMUL_U32] = {"uint32", "u32", 4, 0, UINT32_MAX},
    [MMUL_BOOL] = {"bool", "bool", 1, 0, 1},
};

const char *mmul_dtype_name(enum mmul_dtype dtype) {
    return dtypes[dtype].name;
}

size_t mmul_dtype_bytes(enum mmul_dtype dtype) {
    return dtypes[dtype].bytes;
}

enum mmul_dtype mmul_dtype_of_product(enum mmul_dtype a, enum mmul_dtype b) {
    return a == MMUL_F64 && b == MMUL_F64 ? MMUL_F64 : MMUL_F32;
}

enum mmul_status mmul_dtype_parse(const char *text, enum mmul_dtype *dtype,
                                  struct mmul_error *err) {
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        if (strcmp(text, dtypes[d].name) == 0 || strcmp(text, dtypes[d].short_name) == 0) {
            *dtype = (enum mmul_dtype)d;
            return MMUL_OK;
        }
    }
    return mmul_fail(
        err, MMUL_ERR_USAGE,
        "unknown element type '%s': expected float32, float16, bfloat16, float64, int32, "
        "int64, uint8, int8, int16, uint16, uint32 or bool",
        text);
}

static inline uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Returns all bits if `condition` holds, else none.
static inline uint32_t mask_if(bool condition) {
    return condition ? UINT32_MAX : 0;
}

static inline uint32_t select_bits(uint32_t all_or_none, uint32_t yes, uint32_t no) {
    return (yes & all_or_none) | (no & ~all_or_none);
}

// binary16 is 1 sign, 5 exponent (bias 15), 10 fraction bits.
static inline uint32_t half_to_bits(uint32_t half) {
    uint32_t shifted = (half & 0x7FFF) << 13;
    uint32_t exponent = shifted & 0x0F800000;
    uint32_t normal = shifted + ((127 - 15) << 23);
    uint32_t special = normal + ((128 - 16) << 23); // Inf, NaN: exponent 255
    // A subnormal f * 2^-24 is (2^-14 + f * 2^-24) - 2^-14, exact in float32.
    uint32_t subnormal = float_bits(bits_float(normal + (1 << 23)) - bits_float(113U << 23));
    uint32_t finite = select_bits(mask_if(exponent == 0), subnormal, normal);
    return select_bits(mask_if(exponent == 0x0F800000), special, finite) | (half & 0x8000) << 16;
}

static inline uint32_t bits_to_half(uint32_t bits) {
    const uint32_t inf = 255U << 23, too_large = 143U << 23, least_normal = 113U << 23;
    const uint32_t magic = (127U - 15 + 23 - 10 + 1) << 23; // 2^-1: its last place is 2^-24
    uint32_t size = bits & 0x7FFFFFFF;
    uint32_t odd = (size >> 13) & 1;
    uint32_t normal = (size - ((127U - 15) << 23) + 0xFFF + odd) >> 13; // may carry into Inf
    uint32_t subnormal = float_bits(bits_float(size) + bits_float(magic)) - magic;
    uint32_t payload = (size >> 13) & 0x3FF;
    uint32_t nan = 0x7C00 | payload | (mask_if(payload == 0) & 0x200);
    uint32_t finite = select_bits(mask_if(size < least_normal), subnormal, normal);
    uint32_t half = select_bits(mask_if(size >= too_large),
                                select_bits(mask_if(size > inf), nan, 0x7C00), finite);
    return half | (bits >> 16 & 0x8000);
}

// bfloat16 is the upper half of a float32.
static inline uint32_t bits_to_bfloat(uint32_t bits) {
    uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    uint32_t nan = bits >> 16;
    nan |= mask_if((nan & 0x7F) == 0) & 0x40;
    return select_bits(mask_if((bits & 0x7FFFFFFF) > 255U << 23), nan, rounded);
}

bool mmul_dtype_is_integer(enum mmul_dtype dtype) {
    return dtypes[dtype].most > 0;
}

int64_t mmul_dtype_get_integer(enum mmul_dtype dtype, const void *src, int64_t index) {
    const size_t bytes = dtypes[dtype].bytes;
    const unsigned char *at = (const unsigned char *)src + bytes * (size_t)index;
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (bytes) {
    case 1:
        return dtype == MMUL_BOOL ? *at != 0 : dtype == MMUL_I8 ? (int8_t)*at : *at;
    case 2:
        memcpy(&two, at, sizeof two);
        return dtype == MMUL_I16 ? (int16_t)two : two;
    case 4:
        memcpy(&four, at, sizeof four);
        return dtype == MMUL_I32 ? (int32_t)four : (int64_t)four;
    default:
        memcpy(&eight, at, sizeof eight);
        return (int64_t)eight;
    }
}

double mmul_dtype_get_real(enum mmul_dtype dtype, const void *src, int64_t index) {
    return dtype == MMUL_F64 ? ((const double *)src)[index] : (double)((const float *)src)[index];
}

void mmul_dtype_set_real(enum mmul_dtype dtype, void *dst, int64_t index, double value) {
    if (dtype == MMUL_F64)
        ((double *)dst)[index] = value;
    else
        ((float *)dst)[index] = (float)value;
}

// Converts each element of `src`, at any address, as `x` of that type -> dst.
#define WIDEN(type, value)                                              \
    for (int64_t e = 0; e < count; e++) {                               \
        type x;                                                         \
        memcpy(&x, (const char *)src + (size_t)e * sizeof x, sizeof x); \
        dst[e] = (value);                                               \
    }

void mmul_dtype_widen(enum mmul_dtype dtype, const void *src, int64_t count, float *dst) {
    if (count == 0)
        return;
    switch (dtype) {
    case MMUL_F32:
        memcpy(dst, src, (size_t)count * sizeof *dst);
        break;
    case MMUL_F16:
        WIDEN(uint16_t, bits_float(half_to_bits(x)))
        break;
    case MMUL_BF16:
        WIDEN(uint16_t, bits_float((uint32_t)x << 16))
        break;
    case MMUL_F64:
        WIDEN(double, (float)x)
        break;
    default:
        for (int64_t e = 0; e < count; e++)
            dst[e] = (float)mmul_dtype_get_integer(dtype, src, e);
        break;
    }
}

// Rounds to the nearest whole number of the type, ties to even; 0 for NaN.
static int64_t nearest_integer(double value, enum mmul_dtype dtype) {
    const double least = dtypes[dtype].least, most = dtypes[dtype].most;
    double whole = rint(value);
    if (isnan(whole))
        return 0;
    if (whole >= most)
        return dtype == MMUL_I64 ? INT64_MAX : (int64_t)most;
    return (int64_t)(whole < least ? least : whole);
}

bool mmul_dtype_holds(enum mmul_dtype dtype, double value) {
    const double whole = rint(value), most = dtypes[dtype].most;
    return whole >= dtypes[dtype].least && (dtype == MMUL_I64 ? whole < most : whole <= most);
}

// Stores to each element of `dst`, at any address, the first `bytes` of a value `x` of that type.
#define NARROW(type, value, bytes)                            \
    for (int64_t e = 0; e < count; e++) {                     \
        const type x = (value);                               \
        memcpy((char *)dst + (size_t)e * (bytes), &x, bytes); \
    }

void mmul_dtype_narrow(enum mmul_dtype dtype, const float *src, int64_t count, void *dst) {
    const size_t each = mmul_dtype_bytes(dtype);
    if (count == 0)
        return;
    switch (dtype) {
    case MMUL_F32:
        memcpy(dst, src, (size_t)count * sizeof *src);
        break;
    case MMUL_F16:
        NARROW(uint16_t, (uint16_t)bits_to_half(float_bits(src[e])), sizeof x)
        break;
    case MMUL_BF16:
        NARROW(uint16_t, (uint16_t)bits_to_bfloat(float_bits(src[e])), sizeof x)
        break;
    case MMUL_F64:
        NARROW(double, src[e], sizeof x)
        break;
    default: // little-endian: the low bytes come first
        NARROW(int64_t, nearest_integer((double)src[e], dtype), each)
        break;
    }
}

// Rounds to odd: a value that float32 does not hold becomes the neighbour with last bit 1. A second
// rounding, to a type with at least two bits less, then gives the same as one rounding of the
// double (Boldo and Melquiond 2008).
static float round_to_odd(double value) {
    const float nearest = (float)value;
    uint32_t bits = float_bits(nearest);
    if ((double)nearest == value || isnan(value))
        return nearest;
    if (fabs((double)nearest) > fabs(value))
        bits--; // towards 0
    return bits_float(bits | 1);
}

void mmul_dtype_narrow_double(enum mmul_dtype dtype, const double *src, int64_t count, void *dst) {
    const size_t each = mmul_dtype_bytes(dtype);
    unsigned char *bytes = dst;
    for (int64_t e = 0; e < count; e++) {
        const float value = each == 2 ? round_to_odd(src[e]) : (float)src[e];
        const int64_t whole = mmul_dtype_is_integer(dtype) ? nearest_integer(src[e], dtype) : 0;
        if (mmul_dtype_is_integer(dtype))
            memcpy(bytes + (size_t)e * each, &whole, each);
        else if (dtype == MMUL_F64)
            memcpy(bytes + (size_t)e * each, &src[e], each);
        else
            mmul_dtype_narrow(dtype, &value, 1, bytes + (size_t)e * each);
    }
}

// ---------------------------------------------------------------------------------------- overflow

// Returns the least value that rounds to infinity: half a last place beyond the largest finite one.
static double overflow_limit(enum mmul_dtype dtype) {
    return dtype == MMUL_F16    ? 65520
           : dtype == MMUL_BF16 ? 0x1.FFp127
           : dtype == MMUL_F32  ? 0x1.FFFFFFp127
                                : (double)INFINITY;
}

int64_t mmul_dtype_overflows(enum mmul_dtype dtype, const float *values, int64_t count) {
    const float limit = dtype == MMUL_F32 ? INFINITY : (float)overflow_limit(dtype);
    int64_t found = 0;
    for (int64_t e = 0; e < count; e++)
        found += fabsf(values[e]) >= limit && fabsf(values[e]) < INFINITY;
    return found;
}

int64_t mmul_dtype_overflows64(enum mmul_dtype dtype, const void *values, int64_t count) {
    const double limit = overflow_limit(dtype);
    int64_t found = 0;
    for (int64_t e = 0; e < count; e++) {
        double value;
        memcpy(&value, (const char *)values + 8 * e, sizeof value);
        found += fabs(value) >= limit && fabs(value) < (double)INFINITY;
    }
    return found;
}
