// SPDX-License-Identifier: MIT
//
// Operations row by row: softmax, norms, topk, argmax, rope, prefix sums, losses, and their
// gradients.
//
//   map_softmax      exp(x - max) / sum of these    whole: columns of x, causal, columns of row 0
//   map_rms_norm     x / sqrt(mean(x^2) + real.x) y    whole.x: columns; whole.w bit 0: y exists
//   map_layer_norm   (x - mean) / sqrt(variance + real.x) y + z; whole.w bit 1: z exists
//   map_normalize    x / max(|x|, 1e-12)
//   map_topk         the whole.y largest, then their columns; map_topk_many: for large whole.y
//   map_argmax       column of the largest element
//   map_argmin       column of the smallest element
//   map_sort         sorted row, NaN last; whole.y: descending
//   map_argsort      columns of the sorted row; of equal elements the lower column first
//   map_cumsum       sums of all elements up to this one
//   map_one_hot      1 in column x(i, 0)
//   map_cross_entropy           log sum exp(x) - x(i, y(i, 0))
//   map_cross_entropy_backward  (softmax(x) - 1 in column y(i, 0)) z(i, 0)
//   map_sort_backward           element y(i, j) of row i of x
//   map_softmax_backward        x (y - sum(x y)); x is the softmax
//   map_rms_norm_backward,
//   map_layer_norm_backward     f (g - mean(g) - n mean(g n)), g = y z; n, f of x as above
//   map_rope         pairs of columns rotated by (whole.y + i) m[p] / 2^64 of a circle;
//                    whole.z: interleaved
//
// Storage: as in map.cl; m of rope holds one 64-bit number per pair. Work: one group per row, with
// work-items reading neighbouring columns; rope: one work-item per pair. A sum is computed in GROUP
// parts, which are added as a tree. Tunables: none. Must equal: make_rows (device/reference_map.c).

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

// Computes the largest element and its sum of exponentials in one pass: a new largest element
// rescales the sum so far. A work-item that has seen only -inf has no sum; for a whole row of -inf
// the quotient is NaN, as required.
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

// Computes the sum of the squares of a row, each multiplied by scale^2. scale is below 1 only if
// the sum would overflow otherwise.
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

// The rounding error of the mean equals the mean of the deviations and is subtracted as well.
// Squares that overflow float are computed from scaled numbers, as in SQUARES.
#define MOMENTS(mean, rest, factor, scale)                            \
    float sum = 0.0f, squares = 0.0f;                                 \
    for (uint j = id; j < cols; j += GROUP)                           \
        sum += OPERAND(x, i, j) / (float)cols;                        \
    const float mean = group_sum(sum, scratch);                       \
    sum = 0.0f;                                                       \
    for (uint j = id; j < cols; j += GROUP) {                         \
        const float off = OPERAND(x, i, j) - mean;                    \
        sum += off;                                                   \
        squares += off * off;                                         \
    }                                                                 \
    float scale = 1.0f;                                               \
    squares = group_sum(squares, scratch);                            \
    if (isinf(squares)) {                                             \
        scale = 0x1p-80f;                                             \
        squares = 0.0f;                                               \
        for (uint j = id; j < cols; j += GROUP) {                     \
            const float off = (OPERAND(x, i, j) - mean) * scale;      \
            squares += off * off;                                     \
        }                                                             \
        squares = group_sum(squares, scratch);                        \
    }                                                                 \
    const float rest = group_sum(sum, scratch) / (float)cols * scale; \
    const float variance = squares / (float)cols - rest * rest;       \
    const float factor = 1.0f / sqrt(larger(variance, 0.0f) + real.x * scale * scale);

MAP_KERNEL(map_layer_norm) {
    CARRY
    __local float scratch[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0);
    MOMENTS(mean, rest, factor, scale)
    for (uint j = id; j < cols; j += GROUP) {
        const float off = (OPERAND(x, i, j) - mean) * scale - rest;
        const float weight = (whole.w & 1) != 0 ? OPERAND(y, 0u, j) : 1.0f;
        WRITE(i, j, off * factor * weight + ((whole.w & 2) != 0 ? OPERAND(z, 0u, j) : 0.0f))
    }
    CARRY_END
}

// ------------------------------------------------------------------------------------- in order

#define NONE   0xffffffffu
#define DIGITS 16u // values of a four-bit digit

// Orders larger values first, NaN before all, then lower columns. NONE comes last.
bool comes_before(const float a, const uint j, const float b, const uint l) {
    if (j == NONE || l == NONE)
        return j != NONE;
    if (isnan(a) || isnan(b))
        return isnan(a) && (!isnan(b) || j < l);
    return a > b || (a == b && j < l);
}

// Reduces the group's candidates; the first in order ends at place 0 of both arrays.
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

// Maps a float to bits that are larger for earlier places: NaN first, then falling values. Zeros of
// either sign are equal.
uint bits_in_order(const float a) {
    const uint bits = as_uint(a == 0.0f ? 0.0f : a);
    return isnan(a) ? 0xffffffffu : bits >> 31 != 0u ? ~bits : bits | 0x80000000u;
}

// Returns the p-th pair of places in a step of Batcher's bitonic sort. The first step of a merge
// compares a block from both ends, so that all exchanges have one direction. Elements past the end
// would therefore never move.
uint2 pair_of(const uint p, const uint step, const uint half_block) {
    const uint block = p / step * 2u * step, a = block + p % step;
    return (uint2)(a, step == half_block ? block + 2u * step - 1u - p % step : a + step);
}

// Sorts k values together with their columns.
void put_in_order(__global float *values, __global float *columns, const uint k) {
    for (uint half_block = 1u; half_block < k; half_block *= 2u)
        for (uint step = half_block; step > 0u; step /= 2u) {
            for (uint p = get_local_id(0); p / step * 2u * step < k; p += GROUP) {
                const uint2 pair = pair_of(p, step, half_block);
                const uint a = pair.x, b = pair.y;
                if (b < k &&
                    comes_before(values[b], (uint)columns[b], values[a], (uint)columns[a])) {
                    const float value = values[a], column = columns[a];
                    values[a] = values[b];
                    columns[a] = columns[b];
                    values[b] = value;
                    columns[b] = column;
                }
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
        }
}

// Returns true if a comes before b in a sorted row.
bool is_first(const float a, const float b, const int falls) {
    return isnan(a) || isnan(b) ? !isnan(a) : falls != 0 ? a > b : a < b;
}

// Sorts a row in place: values, or with `are_columns` columns of x (elements `x_step` apart).
void sort_row(__global float *row, const uint count, const int falls, const bool are_columns,
              __global const float *x, const uint x_step) {
    for (uint half_block = 1u; half_block < count; half_block *= 2u)
        for (uint step = half_block; step > 0u; step /= 2u) {
            for (uint p = get_local_id(0); p / step * 2u * step < count; p += GROUP) {
                const uint2 pair = pair_of(p, step, half_block);
                if (pair.y >= count)
                    continue;
                const float here = row[pair.x], there = row[pair.y];
                const float a = are_columns ? x[(uint)here * x_step] : here;
                const float b = are_columns ? x[(uint)there * x_step] : there;
                if (is_first(b, a, falls) ||
                    (are_columns && there < here && !is_first(a, b, falls))) {
                    row[pair.x] = there;
                    row[pair.y] = here;
                }
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
        }
}

uint sum_up(__local const uint *x, const uint count) {
    uint sum = 0u;
    for (uint c = 0; c < count; c++)
        sum += x[c];
    return sum;
}

// For small whole.y: every work-item holds the best of its own columns. Only the owner of the
// column just taken searches for its next one, which costs its share of a pass over the row.
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

// For large whole.y: a radix search finds the last selected element, first by the digits of its
// value, then by those of ~column if not all equal values are wanted. Each digit takes a pass over
// the row that counts the digits of elements with the same prefix. The selected elements are then
// sorted in place.
MAP_KERNEL(map_topk_many) {
    CARRY
    __local uint counts[DIGITS * GROUP], totals[DIGITS], found[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0), width = (uint)whole.x;
    const uint k = (uint)whole.y;
    uint column_digits = 1u, wanted = k, mine = 0u, total = 0u;
    // known digits of the last selected element
    uint high = 0u, high_mask = 0u, low = 0u, low_mask = 0u;
    while (column_digits < 8u && (width - 1u) >> (4u * column_digits) != 0u)
        column_digits++;
    for (uint d = column_digits + 8u; d > 0u && total != wanted; d--) {
        const bool is_value = d > column_digits;
        const uint shift = 4u * (is_value ? d - column_digits - 1u : d - 1u);
        for (uint c = 0; c < DIGITS; c++)
            counts[c * GROUP + id] = 0u;
        for (uint j = id; j < width; j += GROUP) {
            const uint bits = bits_in_order(OPERAND(x, i, j));
            if ((bits & high_mask) == high && (~j & low_mask) == low)
                counts[((is_value ? bits : ~j) >> shift & (DIGITS - 1u)) * GROUP + id]++;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (id < DIGITS)
            totals[id] = sum_up(&counts[id * GROUP], GROUP);
        barrier(CLK_LOCAL_MEM_FENCE);
        uint digit = DIGITS - 1u;
        for (; totals[digit] < wanted; digit--) {
            wanted -= totals[digit];
            mine += counts[digit * GROUP + id];
        }
        total = totals[digit];
        if (total == wanted)
            mine += counts[digit * GROUP + id];
        if (is_value) {
            high |= digit << shift;
            high_mask |= (DIGITS - 1u) << shift;
        } else {
            low |= digit << shift;
            low_mask |= (DIGITS - 1u) << shift;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    found[id] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint place = sum_up(found, id);
    for (uint j = id; j < width; j += GROUP) {
        const float a = OPERAND(x, i, j);
        const uint bits = bits_in_order(a) & high_mask;
        if (bits > high || (bits == high && (~j & low_mask) >= low)) {
            RESULT(i, place) = a;
            RESULT(i, k + place) = (float)j;
            place++;
        }
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    put_in_order(&RESULT(i, 0u), &RESULT(i, k), k);
    for (uint n = id; n < 2u * k; n += GROUP)
        WRITE(i, n, RESULT(i, n))
    CARRY_END
}

// Column of the first in order of `sign x`.
#define FIRST(name, sign)                                                            \
    MAP_KERNEL(name) {                                                               \
        CARRY                                                                        \
        __local float values[GROUP];                                                 \
        __local uint columns[GROUP];                                                 \
        const uint i = get_group_id(0), id = get_local_id(0), width = (uint)whole.x; \
        float best = 0.0f;                                                           \
        uint column = NONE;                                                          \
        for (uint j = id; j < width; j += GROUP) {                                   \
            const float a = sign OPERAND(x, i, j);                                   \
            if (comes_before(a, j, best, column)) {                                  \
                best = a;                                                            \
                column = j;                                                          \
            }                                                                        \
        }                                                                            \
        find_first(best, column, values, columns);                                   \
        if (id == 0)                                                                 \
            WRITE(i, 0u, (float)columns[0])                                          \
        CARRY_END                                                                    \
    }

FIRST(map_argmax, +)
FIRST(map_argmin, -)

#define SORTED(name, are_columns)                                                              \
    MAP_KERNEL(name) {                                                                         \
        CARRY                                                                                  \
        const uint i = get_group_id(0), id = get_local_id(0);                                  \
        for (uint j = id; j < cols; j += GROUP)                                                \
            RESULT(i, j) = are_columns ? (float)j : OPERAND(x, i, j);                          \
        barrier(CLK_GLOBAL_MEM_FENCE);                                                         \
        sort_row(&RESULT(i, 0u), cols, whole.y, are_columns, x + x_at.x + i * x_at.y, x_at.z); \
        for (uint j = id; j < cols; j += GROUP)                                                \
            WRITE(i, j, RESULT(i, j))                                                          \
        CARRY_END                                                                              \
    }

SORTED(map_sort, false)
SORTED(map_argsort, true)

// -------------------------------------------------------------------- sums so far, indices, losses

// Each work-item sums a contiguous part of the row and starts from the sum of the parts before it.
MAP_KERNEL(map_cumsum) {
    CARRY
    __local float sums[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0);
    const uint length = (cols + GROUP - 1u) / GROUP, begin = min(cols, id * length);
    const uint end = min(cols, begin + length);
    float sum = 0.0f;
    for (uint j = begin; j < end; j++)
        sum += OPERAND(x, i, j);
    sums[id] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = 0.0f;
    for (uint c = 0; c < id; c++)
        sum += sums[c];
    for (uint j = begin; j < end; j++) {
        sum += OPERAND(x, i, j);
        WRITE(i, j, sum)
    }
    CARRY_END
}

MAP_KERNEL(map_one_hot) {
    CARRY
    const uint i = get_group_id(0);
    const float at = OPERAND(x, i, 0u);
    for (uint j = get_local_id(0); j < cols; j += GROUP)
        WRITE(i, j, (float)j == at ? 1.0f : 0.0f)
    CARRY_END
}

// Computes the largest element of a row of x and the sum of exp(element - largest).
#define POWERS(most, all, width)               \
    float most = -INFINITY, all = 0.0f;        \
    for (uint j = id; j < width; j += GROUP)   \
        most = larger(most, OPERAND(x, i, j)); \
    most = group_most(most, scratch);          \
    for (uint j = id; j < width; j += GROUP)   \
        all += exp(OPERAND(x, i, j) - most);   \
    all = group_sum(all, scratch);

MAP_KERNEL(map_cross_entropy) {
    CARRY
    __local float scratch[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0), width = (uint)whole.x;
    POWERS(most, all, width)
    if (id == 0)
        WRITE(i, 0u, log(all) - (OPERAND(x, i, (uint)OPERAND(y, i, 0u)) - most))
    CARRY_END
}

MAP_KERNEL(map_cross_entropy_backward) {
    CARRY
    __local float scratch[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0), at = (uint)OPERAND(y, i, 0u);
    const float times = OPERAND(z, i, 0u);
    POWERS(most, all, cols)
    for (uint j = id; j < cols; j += GROUP)
        WRITE(i, j, (exp(OPERAND(x, i, j) - most) / all - (j == at ? 1.0f : 0.0f)) * times)
    CARRY_END
}

MAP_KERNEL(map_sort_backward) {
    CARRY
    const uint i = get_group_id(0);
    for (uint j = get_local_id(0); j < cols; j += GROUP)
        WRITE(i, j, OPERAND(x, i, (uint)OPERAND(y, i, j)))
    CARRY_END
}

MAP_KERNEL(map_softmax_backward) {
    CARRY
    __local float scratch[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0);
    float sum = 0.0f;
    for (uint j = id; j < cols; j += GROUP)
        sum += OPERAND(x, i, j) * OPERAND(y, i, j);
    sum = group_sum(sum, scratch);
    for (uint j = id; j < cols; j += GROUP)
        WRITE(i, j, OPERAND(x, i, j) * (OPERAND(y, i, j) - sum))
    CARRY_END
}

// The weight is the third operand here.
#define GRADIENT (OPERAND(y, i, j) * ((whole.w & 2) != 0 ? OPERAND(z, 0u, j) : 1.0f))

MAP_KERNEL(map_rms_norm_backward) {
    CARRY
    __local float scratch[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0);
    SQUARES(squares, scale)
    const float factor = scale / sqrt(squares / (float)cols + real.x * scale * scale);
    float along = 0.0f;
    for (uint j = id; j < cols; j += GROUP)
        along += GRADIENT * (OPERAND(x, i, j) * factor);
    along = group_sum(along, scratch) / (float)cols;
    for (uint j = id; j < cols; j += GROUP)
        WRITE(i, j, factor * (GRADIENT - OPERAND(x, i, j) * factor * along))
    CARRY_END
}

MAP_KERNEL(map_layer_norm_backward) {
    CARRY
    __local float scratch[GROUP];
    const uint i = get_group_id(0), id = get_local_id(0);
    MOMENTS(mean, rest, factor, scale)
    float all = 0.0f, along = 0.0f;
    for (uint j = id; j < cols; j += GROUP) {
        const float off = (OPERAND(x, i, j) - mean) * scale - rest;
        all += GRADIENT;
        along += GRADIENT * (off * factor);
    }
    all = group_sum(all, scratch) / (float)cols;
    along = group_sum(along, scratch) / (float)cols;
    for (uint j = id; j < cols; j += GROUP) {
        const float off = (OPERAND(x, i, j) - mean) * scale - rest;
        WRITE(i, j, factor * scale * (GRADIENT - all - off * factor * along))
    }
    CARRY_END
}

// ------------------------------------------------------------------------------------- positions

// The angle as a fraction of a circle: bits above 64 are whole circles at any position.
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
