// SPDX-License-Identifier: MIT
//
// Operations row by row: softmax, norms, topk, argmax, rope.
//
//   map_softmax      exp(x - max) / sum of these           whole: columns of x, causal, columns of row 0
//   map_rms_norm     x / sqrt(mean(x^2) + real.x) y         whole.x: columns; whole.w: bit 0: y is there
//   map_layer_norm   (x - mean) / sqrt(variance + real.x) y + z; bit 1: z is there
//   map_normalize    x / max(|x|, 1e-12)
//   map_topk         the whole.y largest, then their columns
//   map_argmax       the column of the largest
//   map_rope         pairs of columns turned by (whole.y + i) m[p] / 2^64 of a circle; whole.z: interleaved
//
// Storage: as map.cl says; m of rope holds a number of 64 bits per pair.
// Work: one group per row, whose work-items read neighbouring columns; rope: one work-item per pair.
// Sums are those of GROUP parts, which are added up as a tree.
// Tunables: none. Must equal: make_rows (device/reference_map.c).

#define GROUP_COMBINED(name, combine)                                \
    float name(const float mine, __local float *scratch) {           \
        const uint id = get_local_id(0);                             \
        scratch[id] = mine;                                          \
        barrier(CLK_LOCAL_MEM_FENCE);                                \
        for (uint step = GROUP / 2; step > 0; step /= 2) {           \
            if (id < step) {                                         \
                const float a = scratch[id], b = scratch[id + step]; \
                scratch[id] = (combine);                             \
            }                                                        \
            barrier(CLK_LOCAL_MEM_FENCE);                            \
        }                                                            \
        const float all = scratch[0];                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                \
        return all;                                                  \
    }

GROUP_COMBINED(group_sum, a + b)
GROUP_COMBINED(group_most, larger(a, b))

// One reading of the row for the largest and the sum that goes with it: a larger one that is found scales the
// sum so far. What has only seen -inf has no sum; then the quotient is NaN, as it must be.
MAP_KERNEL(map_softmax) {
    CARRY
    __local float scratch[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0);
    const uint count = counted(whole.y, whole.z, i, cols);
    float most = -INFINITY, sum = 0.0f;
    for (uint j = id; j < count; j += GROUP) {
        const float a = OPERAND(x, i, j), before = most;
        most = larger(most, a);
        if (most != before && before != -INFINITY)
            sum *= exp(before - most);
        if (most != -INFINITY)
            sum += exp(a - most);
    }
    const float all_most = group_most(most, scratch);
    const float all =
        group_sum(most == -INFINITY && sum == 0.0f ? 0.0f : sum * exp(most - all_most), scratch);
    for (uint j = id; j < cols; j += GROUP)
        WRITE(i, j, j < count ? exp(OPERAND(x, i, j) - all_most) / all : 0.0f)
    CARRY_END
}

// The sum of the squares of a row, of which each is times scale^2; scale is less than 1 where the sum would not
// be a number otherwise.
#define SQUARES(squares, scale)                         \
    float squares = 0.0f, scale = 1.0f;                 \
    for (uint j = id; j < cols; j += GROUP)             \
        squares += OPERAND(x, i, j) * OPERAND(x, i, j); \
    squares = group_sum(squares, scratch);              \
    if (isinf(squares)) {                               \
        scale = 0x1p-80f;                               \
        squares = 0.0f;                                 \
        for (uint j = id; j < cols; j += GROUP) {       \
            const float a = OPERAND(x, i, j) * scale;   \
            squares += a * a;                           \
        }                                               \
        squares = group_sum(squares, scratch);          \
    }

MAP_KERNEL(map_rms_norm) {
    CARRY
    __local float scratch[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0);
    SQUARES(squares, scale)
    const float factor = 1.0f / sqrt(squares / (float)cols + real.x * scale * scale);
    for (uint j = id; j < cols; j += GROUP)
        WRITE(i, j,
              OPERAND(x, i, j) * scale * factor * ((whole.w & 1) != 0 ? OPERAND(y, 0u, j) : 1.0f))
    CARRY_END
}

MAP_KERNEL(map_normalize) {
    CARRY
    __local float scratch[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0);
    SQUARES(squares, scale)
    const float root = larger(sqrt(squares), 1e-12f * scale);
    for (uint j = id; j < cols; j += GROUP)
        WRITE(i, j, OPERAND(x, i, j) * scale / root)
    CARRY_END
}

// What the mean lacks of the true one is the mean of what is left, and is taken off as well.
MAP_KERNEL(map_layer_norm) {
    CARRY
    __local float scratch[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0);
    float sum = 0.0f, squares = 0.0f;
    for (uint j = id; j < cols; j += GROUP)
        sum += OPERAND(x, i, j) / (float)cols;
    const float mean = group_sum(sum, scratch);
    sum = 0.0f;
    for (uint j = id; j < cols; j += GROUP) {
        const float off = OPERAND(x, i, j) - mean;
        sum += off;
        squares += off * off;
    }
    float scale = 1.0f; // squares beyond float are those of smaller numbers, as in SQUARES
    squares = group_sum(squares, scratch);
    if (isinf(squares)) {
        scale = 0x1p-80f;
        squares = 0.0f;
        for (uint j = id; j < cols; j += GROUP) {
            const float off = (OPERAND(x, i, j) - mean) * scale;
            squares += off * off;
        }
        squares = group_sum(squares, scratch);
    }
    const float rest = group_sum(sum, scratch) / (float)cols * scale;
    const float variance = squares / (float)cols - rest * rest;
    const float factor = 1.0f / sqrt(larger(variance, 0.0f) + real.x * scale * scale);
    for (uint j = id; j < cols; j += GROUP) {
        const float off = (OPERAND(x, i, j) - mean) * scale - rest;
        const float weight = (whole.w & 1) != 0 ? OPERAND(y, 0u, j) : 1.0f;
        WRITE(i, j, off * factor * weight + ((whole.w & 2) != 0 ? OPERAND(z, 0u, j) : 0.0f))
    }
    CARRY_END
}

// ------------------------------------------------------------------------------------- in order

#define NONE 0xffffffffu

// The larger first, NaN before all, then the lower column; nothing comes last.
bool comes_before(const float a, const uint j, const float b, const uint l) {
    if (j == NONE || l == NONE)
        return j != NONE;
    if (isnan(a) || isnan(b))
        return isnan(a) && (!isnan(b) || j < l);
    return a > b || (a == b && j < l);
}

// The first of all of the group's, at place 0 of both.
void find_first(const float mine, const uint column, __local float *values, __local uint *columns) {
    const uint id = get_local_id(0);
    values[id] = mine;
    columns[id] = column;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = GROUP / 2; step > 0; step /= 2) {
        if (id < step &&
            comes_before(values[id + step], columns[id + step], values[id], columns[id])) {
            values[id] = values[id + step];
            columns[id] = columns[id + step];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

// The first of a work-item's columns that comes after its column `last`.
#define NEXT_OF_MINE(best, column, last_value, last)                               \
    best = 0.0f;                                                                   \
    column = NONE;                                                                 \
    for (uint j = id; j < width; j += GROUP) {                                     \
        const float a = OPERAND(x, i, j);                                          \
        if ((last == NONE || comes_before(last_value, last, a, j)) && j != last && \
            comes_before(a, j, best, column)) {                                    \
            best = a;                                                              \
            column = j;                                                            \
        }                                                                          \
    }

// Every work-item has the first of its own columns at hand; only whose column was taken looks for the next.
MAP_KERNEL(map_topk) {
    CARRY
    __local float values[GROUP];
    __local uint columns[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0), width = (uint)whole.x;
    const uint k = (uint)whole.y;
    float best;
    uint column;
    NEXT_OF_MINE(best, column, 0.0f, NONE)
    for (uint n = 0; n < k; n++) {
        find_first(best, column, values, columns);
        const float value = values[0];
        const uint taken = columns[0];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (id == 0) {
            WRITE(i, n, value)
            WRITE(i, k + n, (float)taken)
        }
        if (taken == column)
            NEXT_OF_MINE(best, column, value, taken)
    }
    CARRY_END
}

MAP_KERNEL(map_argmax) {
    CARRY
    __local float values[GROUP];
    __local uint columns[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0), width = (uint)whole.x;
    float best;
    uint column;
    NEXT_OF_MINE(best, column, 0.0f, NONE)
    find_first(best, column, values, columns);
    if (id == 0)
        WRITE(i, 0u, (float)columns[0])
    CARRY_END
}

// ------------------------------------------------------------------------------------- positions

// The angle as a part of a circle: what is above 64 bits are whole circles, whatever the position.
MAP_KERNEL(map_rope) {
    CARRY
    const uint half_cols = cols / 2, e = get_global_id(0), i = e / half_cols, p = e - i * half_cols;
    if (i < rows) {
        const ulong turns = ((__global const ulong *)m)[p] * (ulong)(uint)(whole.y + (int)i);
        const float angle = (float)(int)(uint)(turns >> 32) * 0x1p-31f; // in half circles, [-1, 1)
        const float sine = sinpi(angle), cosine = cospi(angle);
        const uint left = whole.z != 0 ? 2 * p : p,
                   right = whole.z != 0 ? 2 * p + 1 : p + half_cols;
        const float a = OPERAND(x, i, left), b = OPERAND(x, i, right);
        WRITE(i, left, a * cosine - b * sine)
        WRITE(i, right, a * sine + b * cosine)
    }
    CARRY_END
}
