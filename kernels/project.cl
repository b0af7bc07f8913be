// SPDX-License-Identifier: MIT
//
// Sums along the rows and columns of a matrix, in one pass over it, for the check of products.
//
//   row_parts[(2 g + 0) rows + r] = sum of x(r, c) along[c]     over the columns c of strip g
//   row_parts[(2 g + 1) rows + r] = sum of x(r, c)^2
//   col_parts[(2 h + 0) cols + c] = sum of x(r, c) across[r]    over the rows r of block h
//   col_parts[(2 h + 1) cols + c] = sum of x(r, c)^2
//   bit_parts[h groups + g]       = sum of mix_bits(bits(x(r, c)), index + r cols + c)
//   project_add: to[i] = sum over p of from[p count + i]
//
// A number is a double. With PAIRS = 1, for devices without double, it is the sum of two floats:
// products are made exact by Dekker's splitting, and sums follow Knuth (Dekker 1971, A
// floating-point technique for extending the available precision). The compiler must not contract
// or reorder these operations.
// Storage: x is float32, row-major, element (r, c) at x_at.x + r x_at.y + c. Indices are 32-bit.
// Work: groups of SIDE work-items. Group (g, h) has rows [h SIDE, ..) and `tiles` tiles of SIDE
// columns from g tiles SIDE on. A tile goes through local memory (17 KiB): work-item t first loads
// column t, then sums row t.
// `wanted`: bit 0 row sums, 1 row squares, 2 column sums, 3 column squares, 4 bits. Sums and
// squares share their array of parts: if either is wanted, both have parts, and the unwanted ones
// are 0.
// Tunables: -D PAIRS, 0 or 1. SIDE is 64, a group size that every GPU supports.
// Must equal: mmul_matrix_sums_compute (device/matrix_sums.c).

#pragma OPENCL FP_CONTRACT OFF

#define SIDE 64

#if PAIRS
typedef float2 number;
#define ZERO ((float2)(0.0f, 0.0f))

// Returns sum + p + e; e must be much smaller than p.
number plus_pair(const number sum, const float p, const float e) {
    const float t = sum.x + p, z = t - sum.x;
    const float rest = ((sum.x - (t - z)) + (p - z)) + (sum.y + e);
    const float high = t + rest;
    return (number)(high, rest - (high - t));
}

number plus(const number a, const number b) {
    return plus_pair(a, b.x, b.y);
}

// Returns sum + x w.
number plus_product(const number sum, const float x, const number w) {
    const float p = x * w.x, a = 4097.0f * x, b = 4097.0f * w.x;
    const float x_high = a - (a - x), x_low = x - x_high;
    const float w_high = b - (b - w.x), w_low = w.x - w_high;
    const float e = ((x_high * w_high - p) + x_high * w_low + x_low * w_high) + x_low * w_low;
    return plus_pair(sum, p, e + x * w.y);
}

number square_added(const number sum, const float x) {
    return plus_product(sum, x, (number)(x, 0.0f));
}
#else
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double number;
#define ZERO 0.0

number plus(const number a, const number b) {
    return a + b;
}

number plus_product(const number sum, const float x, const number w) {
    return sum + (double)x * w;
}

number square_added(const number sum, const float x) {
    return sum + (double)x * (double)x;
}
#endif

__kernel __attribute__((reqd_work_group_size(SIDE, 1, 1))) void project(
    const uint rows, const uint cols, __global const float *x, const uint2 x_at,
    __global const number *along, __global const number *across, const uint wanted,
    const uint tiles, const uint index, __global number *row_parts, __global number *col_parts,
    __global uint *bit_parts) {
    __local float tile[SIDE][SIDE + 1]; // the extra column spreads a column over different banks
    __local number weights[SIDE], row_weights[SIDE];
    __local uint bits[SIDE];
    const uint id = get_local_id(0), strip = get_group_id(0), block = get_group_id(1);
    const uint top = block * SIDE, height = min((uint)SIDE, rows - top);
    const uint begin = strip * tiles * SIDE, end = min(cols, begin + tiles * SIDE);
    number sum = ZERO, squares = ZERO;
    uint mine = 0;
    row_weights[id] = (wanted & 4u) != 0u && id < height ? across[top + id] : ZERO;
    for (uint left = begin; left < end; left += SIDE) {
        const uint width = min((uint)SIDE, end - left);
        weights[id] = (wanted & 1u) != 0u && id < width ? along[left + id] : ZERO;
        for (uint r = 0; r < height; r++) {
            const float value = id < width ? x[x_at.x + (top + r) * x_at.y + left + id] : 0.0f;
            tile[r][id] = value;
            if (id < width)
                mine += mix_bits(as_uint(value), index + (top + r) * cols + left + id);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (id < height && (wanted & 1u) != 0u)
            for (uint c = 0; c < width; c++)
                sum = plus_product(sum, tile[id][c], weights[c]);
        if (id < height && (wanted & 2u) != 0u)
            for (uint c = 0; c < width; c++)
                squares = square_added(squares, tile[id][c]);
        if (id < width && (wanted & 12u) != 0u) {
            number down = ZERO, down_squares = ZERO;
            for (uint r = 0; r < ((wanted & 4u) != 0u ? height : 0u); r++)
                down = plus_product(down, tile[r][id], row_weights[r]);
            for (uint r = 0; r < ((wanted & 8u) != 0u ? height : 0u); r++)
                down_squares = square_added(down_squares, tile[r][id]);
            col_parts[2u * block * cols + left + id] = down;
            col_parts[(2u * block + 1u) * cols + left + id] = down_squares;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (id < height && (wanted & 3u) != 0u) {
        row_parts[2u * strip * rows + top + id] = sum;
        row_parts[(2u * strip + 1u) * rows + top + id] = squares;
    }
    bits[id] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id == 0 && (wanted & 16u) != 0u) {
        uint all = 0;
        for (uint t = 0; t < SIDE; t++)
            all += bits[t];
        bit_parts[block * get_num_groups(0) + strip] = all;
    }
}

__kernel __attribute__((reqd_work_group_size(SIDE, 1, 1))) void project_add(
    const uint parts, const uint count, __global const number *from, __global number *to) {
    const uint i = get_global_id(0);
    if (i >= count)
        return;
    number sum = ZERO;
    for (uint p = 0; p < parts; p++)
        sum = plus(sum, from[p * count + i]);
    to[i] = sum;
}
