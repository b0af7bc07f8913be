// SPDX-License-Identifier: MIT
//
// Sums and extremes along an axis in one pass over the operand, and sums of rows with equal index.
//
//   result[result_at.x + slab * rows + o * result_at.y] =
//       combine of x(o, p) over the slab's p, / real.x
//
// for each of `rows` results o. The range [0, cols) of p is cut into slabs of whole.y. x_at has the
// steps from result to result and along the axis. With several slabs, each writes a row of partial
// results, and the same kernel then reduces these.
//
//   map_sum_at: result(i, j) = sum of x(p, j) over the p of [0, whole.y) with y(p, 0) =
//   whole.x + i, in increasing p; one work-item per column
//
// Work: a group has whole.x neighbouring results (a power of 2). Neighbouring work-items take
// neighbouring results, and GROUP / whole.x work-items share one. Group (g, s): results from g
// whole.x on, slab s. Sums run over RUN elements at a time, so that long ones stay accurate.
// Tunables: RUN, 32. Must equal: make_reductions (device/reference_map.c).

#define RUN 32u

#define REDUCTION(name, neutral, combine)                                               \
    MAP_KERNEL(name) {                                                                  \
        __local float scratch[GROUP];                                                   \
        const uint id = get_local_id(0), wide = (uint)whole.x, length = (uint)whole.y;  \
        const uint o = get_group_id(0) * wide + id % wide, slab = get_group_id(1);      \
        const uint end = min(cols, (slab + 1u) * length);                               \
        float a = (neutral);                                                            \
        for (uint p = slab * length + id / wide; o < rows && p < end;) {                \
            float run = (neutral);                                                      \
            for (uint n = 0; n < RUN && p < end; n++, p += GROUP / wide) {              \
                const float b = OPERAND(x, o, p);                                       \
                run = combine(run, b);                                                  \
            }                                                                           \
            a = combine(a, run);                                                        \
        }                                                                               \
        scratch[id] = a;                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                   \
        for (uint step = GROUP / 2; step >= wide; step /= 2) {                          \
            if (id < step)                                                              \
                scratch[id] = combine(scratch[id], scratch[id + step]);                 \
            barrier(CLK_LOCAL_MEM_FENCE);                                               \
        }                                                                               \
        if (id < wide && o < rows)                                                      \
            result[result_at.x + slab * rows + o * result_at.y] = scratch[id] / real.x; \
    }

float sum_of(const float a, const float b) {
    return a + b;
}

REDUCTION(map_sum, 0.0f, sum_of)
REDUCTION(map_max, -INFINITY, larger)
REDUCTION(map_min, INFINITY, smaller)

MAP_KERNEL(map_sum_at) {
    const uint j = get_global_id(0);
    if (j < cols) {
        for (uint i = 0; i < rows; i++)
            RESULT(i, j) = 0.0f;
        for (uint p = 0; p < (uint)whole.y; p++) {
            const int i = (int)OPERAND(y, p, 0u) - whole.x;
            if (i >= 0 && i < (int)rows)
                RESULT((uint)i, j) += OPERAND(x, p, j);
        }
    }
}
