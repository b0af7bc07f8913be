// SPDX-License-Identifier: MIT
//
// Common part of all kernels except products. The host puts this text before each map_*.cl.
//
//   element (i, j) of operand x = x[x_at.x + i * x_at.y + j * x_at.z], or x_number if x_at.w != 0
//   element (i, j) of the result = result[result_at.x + i * result_at.y + j]
//
// Storage: float32 with any steps; a step of 0 repeats elements. Indices are 32-bit: a buffer has
// fewer than 2^31 elements.
// Work: every group has GROUP work-items. A kernel makes no assumption about how many run in
// lockstep.
// All kernels have the same arguments, so that device/opencl_map.c sets them in one way:
//   rows, cols          shape of the result block (reductions: results, elements of each)
//   x, y, z, m,         operands and their positions; a missing operand is never read
//   fifth, sixth
//   whole, real         further parameters, documented at each operation
//   carried, carrying   checksums of the written elements, see CARRY
// Needs no double, no half, no atomics, and nothing beyond OpenCL C 1.1.
// Tunables: none. GROUP is 64, a size that every GPU supports.

#define GROUP 64

#define MAP_ARGUMENTS                                                                              \
    const uint rows, const uint cols, __global const float *x, const uint4 x_at,                   \
        const float x_number, __global const float *y, const uint4 y_at, const float y_number,     \
        __global const float *z, const uint4 z_at, const float z_number, __global const float *m,  \
        const uint4 m_at, const float m_number, __global const float *fifth, const uint4 fifth_at, \
        const float fifth_number, __global const float *sixth, const uint4 sixth_at,               \
        const float sixth_number, __global float *result, const uint2 result_at, const int4 whole, \
        const float4 real, __global uint *carried, const uint4 carrying

#define MAP_KERNEL(name) \
    __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void name(MAP_ARGUMENTS)

#define OPERAND(o, i, j) element(o, o##_at, o##_number, i, j)
#define RESULT(i, j)     result[result_at.x + (i)*result_at.y + (j)]

// Checksum of written elements: each work-item adds the terms of its elements, where index is an
// element's position among all elements that the call writes. CARRY begins a kernel's body, WRITE
// replaces an assignment, and CARRY_END ends the body in all work-items. If carrying.x is set, the
// group's sum goes to carried[carrying.z + group].
#define CARRY        \
    uint carry = 0u; \
    __local uint carries[GROUP];

#define WRITE(i, j, value)                                                \
    {                                                                     \
        const float written = (value);                                    \
        RESULT(i, j) = written;                                           \
        carry += mix_bits(as_uint(written), carrying.y + (i)*cols + (j)); \
    }

#define CARRY_END                                                                              \
    if (carrying.x != 0u) {                                                                    \
        carries[get_local_id(0)] = carry;                                                      \
        barrier(CLK_LOCAL_MEM_FENCE);                                                          \
        if (get_local_id(0) == 0u) {                                                           \
            uint all = 0u;                                                                     \
            for (uint c = 0; c < GROUP; c++)                                                   \
                all += carries[c];                                                             \
            carried[carrying.z + get_group_id(1) * get_num_groups(0) + get_group_id(0)] = all; \
        }                                                                                      \
    }

float element(__global const float *data, const uint4 at, const float number, const uint i,
              const uint j) {
    return at.w != 0u ? number : data[at.x + i * at.y + j * at.z];
}

// Propagates a NaN of either argument.
float larger(const float x, const float y) {
    return x >= y || isnan(x) ? x : y;
}

float smaller(const float x, const float y) {
    return x <= y || isnan(x) ? x : y;
}

// Returns the number of elements of row i that take part: all, or with `causal` those up to a
// diagonal. In row 0 they are `first`.
uint counted(const int causal, const int first, const uint i, const uint all) {
    const int until = first + (int)i;
    return causal == 0 || until >= (int)all ? all : until > 0 ? (uint)until : 0u;
}
