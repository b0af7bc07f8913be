// SPDX-License-Identifier: MIT
//
// Widens 16-bit floats to float32, bit for bit. Uses integers only: no half type is needed, and a
// device that flushes subnormal numbers to zero cannot change the result.
//
//   target[offset + r * ld + c] = widen(source[r * cols + c])     0 <= r < rows, 0 <= c < cols
//
// Storage: source is rows x cols, row-major, packed, 16-bit patterns. target holds float32 patterns
// in rows `ld` elements apart.
// Work: one work-item per element. The host may round the global size {cols, rows} up; surplus
// work-items return at once. Indices are 32-bit: the target has fewer than 2^31 elements.
// Tunables: none. Must equal: mmul_dtype_widen (model/dtype.h) in every pattern; a NaN stays some
// NaN.

// float16: sign 1, exponent 5 (bias 15), fraction 10. float32: 1, 8 (bias 127), 23.
uint float16_pattern(uint half_bits) {
    const uint sign = (half_bits & 0x8000u) << 16;
    const uint exponent = (half_bits >> 10) & 0x1fu;
    uint fraction = half_bits & 0x3ffu;
    if (exponent == 0x1fu) // infinity or NaN
        return sign | 0x7f800000u | (fraction << 13);
    if (exponent != 0u)
        return sign | ((exponent + 112u) << 23) | (fraction << 13);
    if (fraction == 0u)
        return sign;
    // Subnormal, fraction * 2^-24: move its leading one to bit 10, where it becomes implicit.
    const uint shift = clz(fraction) - 21u;
    fraction = (fraction << shift) & 0x3ffu;
    return sign | ((113u - shift) << 23) | (fraction << 13);
}

__kernel void widen_float16(const int rows, const int cols, __global const ushort *source,
                            __global uint *target, const uint offset, const uint ld) {
    const int c = get_global_id(0);
    const int r = get_global_id(1);
    if (r < rows && c < cols) {
        target[offset + (uint)r * ld + (uint)c] =
            float16_pattern(source[(uint)r * (uint)cols + (uint)c]);
    }
}

// bfloat16 is the upper half of a float32.
__kernel void widen_bfloat16(const int rows, const int cols, __global const ushort *source,
                             __global uint *target, const uint offset, const uint ld) {
    const int c = get_global_id(0);
    const int r = get_global_id(1);
    if (r < rows && c < cols) {
        target[offset + (uint)r * ld + (uint)c] = (uint)source[(uint)r * (uint)cols + (uint)c]
                                                  << 16;
    }
}
