// SPDX-License-Identifier: MIT
// Term of a sum of bits: mmul_mix_bits of device/matrix_sums.h. It comes before map.cl and
// project.cl.

uint mix_bits(const uint bits, const uint index) {
    uint x = bits + index * 0x9e3779b1u;
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    return x ^ (x >> 15);
}
