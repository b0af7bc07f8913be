// SPDX-License-Identifier: MIT
// Decoders of packed blocks. A block packs small numbers of 1, 2 or 4 bits into bytes; `bit_field`
// extracts one element's number. Types of 256 elements have a scale for each 16 or 32 of them. A
// product and the sum with it are separate statements: a fused multiply-add would round once
// instead of twice. gguf.c reads the files.
#include "io/gguf_types.h"

#include <string.h>

#include "model/dtype.h"

// Returns field `i` of fields of `bits` bits each. Fields lie in runs of `run` bytes. The lowest
// bits of a run's bytes are its first `run` fields, the next higher bits the next ones.
static inline int bit_field(const unsigned char *bytes, unsigned i, unsigned run, unsigned bits) {
    const unsigned each = run * (8 / bits), within = i % each;
    const unsigned byte = bytes[i / each * run + within % run];
    return (int)(byte >> within / run * bits & ((1U << bits) - 1));
}

static float read_half(const unsigned char *bytes) {
    float value;
    mmul_dtype_widen(MMUL_F16, bytes, 1, &value);
    return value;
}

// ------------------------------------------------------------------------------------- 32 elements

enum { SMALL = 32, LARGE = 256 };

// d, 16 bytes of 4 bits: d (q - 8).
static void decode_q4_0(const unsigned char *block, float *values) {
    const float d = read_half(block);
    for (int i = 0; i < SMALL; i++)
        values[i] = d * (float)(bit_field(block + 2, i, 16, 4) - 8);
}

// d, m, 16 bytes of 4 bits: d q + m.
static void decode_q4_1(const unsigned char *block, float *values) {
    const float d = read_half(block), m = read_half(block + 2);
    for (int i = 0; i < SMALL; i++) {
        const float product = d * (float)bit_field(block + 4, i, 16, 4);
        values[i] = product + m;
    }
}

// d, 4 bytes of the highest bits, 16 bytes of 4 bits: d (q - 16).
static void decode_q5_0(const unsigned char *block, float *values) {
    const float d = read_half(block);
    for (int i = 0; i < SMALL; i++) {
        const int q = bit_field(block + 6, i, 16, 4) | bit_field(block + 2, i, 1, 1) << 4;
        values[i] = d * (float)(q - 16);
    }
}

// d, m, 4 bytes of the highest bits, 16 bytes of 4 bits: d q + m.
static void decode_q5_1(const unsigned char *block, float *values) {
    const float d = read_half(block), m = read_half(block + 2);
    for (int i = 0; i < SMALL; i++) {
        const int q = bit_field(block + 8, i, 16, 4) | bit_field(block + 4, i, 1, 1) << 4;
        const float product = d * (float)q;
        values[i] = product + m;
    }
}

// d, 32 signed bytes: d q.
static void decode_q8_0(const unsigned char *block, float *values) {
    const float d = read_half(block);
    for (int i = 0; i < SMALL; i++)
        values[i] = d * (float)(int8_t)block[2 + i];
}

// Values of the 4-bit codes in IQ4_NL and IQ4_XS.
static const int8_t nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

// d, 16 bytes of 4 bits.
static void decode_iq4_nl(const unsigned char *block, float *values) {
    const float d = read_half(block);
    for (int i = 0; i < SMALL; i++)
        values[i] = d * (float)nonlinear[bit_field(block + 2, i, 16, 4)];
}

// An exponent e, 16 bytes of 4 bits. The 4 bits are floats with 2 bits of exponent and 1 of
// mantissa (OCP Microscaling Formats 1.0). Twice such a float is a whole number, so the factor d is
// half of 2^(e - 127).
static void decode_mxfp4(const unsigned char *block, float *values) {
    static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const uint32_t e = block[0], bits = e < 2 ? UINT32_C(0x200000) << e : (e - 1) << 23;
    float d;
    memcpy(&d, &bits, sizeof d);
    for (int i = 0; i < SMALL; i++)
        values[i] = d * (float)doubled[bit_field(block + 1, i, 16, 4)];
}

// ------------------------------------------------------------------------------------ 256 elements

// 16 bytes of scale and minimum, 4 bits each, 64 bytes of 2 bits, d, dmin:
// (d scale) q - dmin minimum.
static void decode_q2_k(const unsigned char *block, float *values) {
    const float d = read_half(block + 80), least = read_half(block + 82);
    for (int i = 0; i < LARGE; i++) {
        const int scale = block[i / 16];
        const float factor = d * (float)(scale & 15), minimum = least * (float)(scale >> 4);
        const float product = factor * (float)bit_field(block + 16, i, 32, 2);
        values[i] = product - minimum;
    }
}

// 32 bytes of the highest bits, 64 of 2 bits, 12 of 16 scales, d: (d (scale - 32)) (q - 4). Scales
// have 6 bits: 4 in 8 bytes, the upper 2 in the other 4.
static void decode_q3_k(const unsigned char *block, float *values) {
    const unsigned char *scales = block + 96;
    const float d = read_half(block + 108);
    for (int i = 0; i < LARGE; i++) {
        const int scale = bit_field(scales, i / 16, 8, 4) | bit_field(scales + 8, i / 16, 4, 2)
                                                                << 4;
        const int q = bit_field(block + 32, i, 32, 2) | bit_field(block, i, 32, 1) << 2;
        values[i] = d * (float)(scale - 32) * (float)(q - 4);
    }
}

// Computes factor d scale and minimum dmin m for each 32 elements, from d, dmin and 12 bytes of
// 6-bit numbers. Bytes 0 to 3 hold scales 0 to 3, bytes 4 to 7 minima 0 to 3, in their lower 6
// bits. Bytes 8 to 11 hold the lower 4 bits of scales (low) and minima (high) 4 to 7. Their upper 2
// bits are the upper bits of bytes 0 to 7.
static void decode_scales(const unsigned char *block, float factors[8], float minima[8]) {
    const unsigned char *bytes = block + 4;
    const float d = read_half(block), least = read_half(block + 2);
    for (int j = 0; j < 4; j++) {
        factors[j] = d * (float)(bytes[j] & 63);
        minima[j] = least * (float)(bytes[j + 4] & 63);
        factors[j + 4] = d * (float)((bytes[j + 8] & 15) | bytes[j] >> 6 << 4);
        minima[j + 4] = least * (float)(bytes[j + 8] >> 4 | bytes[j + 4] >> 6 << 4);
    }
}

// Scales, 128 bytes of 4 bits: factor q - minimum.
static void decode_q4_k(const unsigned char *block, float *values) {
    float factors[8], minima[8];
    decode_scales(block, factors, minima);
    for (int i = 0; i < LARGE; i++) {
        const float product = factors[i / 32] * (float)bit_field(block + 16, i, 32, 4);
        values[i] = product - minima[i / 32];
    }
}

// Scales, 32 bytes of the highest bits, 128 bytes of 4 bits: factor q - minimum.
static void decode_q5_k(const unsigned char *block, float *values) {
    float factors[8], minima[8];
    decode_scales(block, factors, minima);
    for (int i = 0; i < LARGE; i++) {
        const int q = bit_field(block + 48, i, 32, 4) | bit_field(block + 16, i, 32, 1) << 4;
        const float product = factors[i / 32] * (float)q;
        values[i] = product - minima[i / 32];
    }
}

// 128 bytes of 4 bits, 64 of the upper 2 bits, 16 signed scales, d: (d scale) (q - 32).
static void decode_q6_k(const unsigned char *block, float *values) {
    const float d = read_half(block + 208);
    for (int i = 0; i < LARGE; i++) {
        const int q = bit_field(block, i, 64, 4) | bit_field(block + 128, i, 32, 2) << 4;
        values[i] = d * (float)(int8_t)block[192 + i / 16] * (float)(q - 32);
    }
}

// d, 2 bytes of the upper 2 bits of 8 scales, 4 of their lower 4 bits, 128 bytes of 4 bits:
// (d (scale - 32)) q.
static void decode_iq4_xs(const unsigned char *block, float *values) {
    const float d = read_half(block);
    for (int i = 0; i < LARGE; i++) {
        const int scale = bit_field(block + 4, i / 32, 1, 4) | bit_field(block + 2, i / 32, 1, 2)
                                                                   << 4;
        values[i] = d * (float)(scale - 32) * (float)nonlinear[bit_field(block + 8, i, 16, 4)];
    }
}

// ------------------------------------------------------------------------------------------- table

// Missing numbers belong to types that were removed from ggml.
static const struct mmul_gguf_type types[] = {
    [0] = {"F32", 1, 4, MMUL_F32, NULL},
    [1] = {"F16", 1, 2, MMUL_F16, NULL},
    [2] = {"Q4_0", 32, 18, MMUL_F32, decode_q4_0},
    [3] = {"Q4_1", 32, 20, MMUL_F32, decode_q4_1},
    [6] = {"Q5_0", 32, 22, MMUL_F32, decode_q5_0},
    [7] = {"Q5_1", 32, 24, MMUL_F32, decode_q5_1},
    [8] = {"Q8_0", 32, 34, MMUL_F32, decode_q8_0},
    [9] = {"Q8_1", 32, 36, MMUL_F32, NULL},
    [10] = {"Q2_K", 256, 84, MMUL_F32, decode_q2_k},
    [11] = {"Q3_K", 256, 110, MMUL_F32, decode_q3_k},
    [12] = {"Q4_K", 256, 144, MMUL_F32, decode_q4_k},
    [13] = {"Q5_K", 256, 176, MMUL_F32, decode_q5_k},
    [14] = {"Q6_K", 256, 210, MMUL_F32, decode_q6_k},
    [15] = {"Q8_K", 256, 292, MMUL_F32, NULL},
    [16] = {"IQ2_XXS", 256, 66, MMUL_F32, NULL},
    [17] = {"IQ2_XS", 256, 74, MMUL_F32, NULL},
    [18] = {"IQ3_XXS", 256, 98, MMUL_F32, NULL},
    [19] = {"IQ1_S", 256, 50, MMUL_F32, NULL},
    [20] = {"IQ4_NL", 32, 18, MMUL_F32, decode_iq4_nl},
    [21] = {"IQ3_S", 256, 110, MMUL_F32, NULL},
    [22] = {"IQ2_S", 256, 82, MMUL_F32, NULL},
    [23] = {"IQ4_XS", 256, 136, MMUL_F32, decode_iq4_xs},
    [24] = {"I8", 1, 1, MMUL_I8, NULL},
    [25] = {"I16", 1, 2, MMUL_I16, NULL},
    [26] = {"I32", 1, 4, MMUL_I32, NULL},
    [27] = {"I64", 1, 8, MMUL_I64, NULL},
    [28] = {"F64", 1, 8, MMUL_F64, NULL},
    [29] = {"IQ1_M", 256, 56, MMUL_F32, NULL},
    [30] = {"BF16", 1, 2, MMUL_BF16, NULL},
    [34] = {"TQ1_0", 256, 54, MMUL_F32, NULL},
    [35] = {"TQ2_0", 256, 66, MMUL_F32, NULL},
    [39] = {"MXFP4", 32, 17, MMUL_F32, decode_mxfp4},
    [40] = {"NVFP4", 64, 36, MMUL_F32, NULL},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

const struct mmul_gguf_type *mmul_gguf_type_get(uint32_t number) {
    return number < TYPE_COUNT && types[number].name != NULL ? &types[number] : NULL;
}

bool mmul_gguf_type_is_readable(const struct mmul_gguf_type *type) {
    return type->elements == 1 || type->decode != NULL;
}
