// SPDX-License-Identifier: MIT
//
// result = softmax(real.x x y^T + m) z: x are the queries, y the keys, z their values, m the mask.
//
// whole: columns of x and y; causal; keys that take part in row 0; keys. m_at.w = 2: there is no
// mask. Storage: as in map.cl. The matrix of scores never exists as a whole, only a tile of it in
// local memory. Work: group (g, h) computes QUERIES rows of the result from g QUERIES on and DEPTH
// columns from h DEPTH on. Each work-item keeps 2 x 8 results in registers. The group loops over
// the keys, KEYS at a time:
//   1. scores of the tile, in parts of DEPTH columns of x and y
//   2. with 4 work-items per row, the largest score so far, which rescales earlier sums
//   3. weighted values
// Local memory: 15 KiB. A row is zeros if no key takes part, or if each score is -inf: the sum of
// its weights is 0 then. Tunables: none. The three sizes give each of GROUP work-items 2 x 4 scores
// and 2 x 8 results. Must equal: make_attention (device/reference_map.c). Each build contains one
// kernel, selected by a macro defined before this text (device/opencl_map.c).

#define QUERIES 16u
#define KEYS    32u
#define DEPTH   64u
#define SHARE   (GROUP / QUERIES) // work-items of a row

// Loads the next rows of an operand, DEPTH columns from `col` on. Elements outside are zero and not
// used later.
#define FILL(tile, size, o, first, end, col, col_end)              \
    for (uint t = get_local_id(0); t < (size)*DEPTH; t += GROUP) { \
        const uint r = t / DEPTH, c = t % DEPTH;                   \
        if ((first) + r < (end) && (col) + c < (col_end))          \
            tile[r][c] = OPERAND(o, (first) + r, (col) + c);       \
        else                                                       \
            tile[r][c] = 0.0f;                                     \
    }

// Adds `depth` (at most DEPTH) columns to this work-item's 2 x 4 scores.
void add_products(float products[2][4], __local const float (*queries)[DEPTH + 1],
                  __local const float (*tile)[DEPTH + 1], const uint depth) {
    const uint tx = get_local_id(0) % 8, ty = get_local_id(0) / 8;
    for (uint d = 0; d < depth; d++)
        for (uint a = 0; a < 2; a++)
            for (uint b = 0; b < 4; b++)
                products[a][b] += queries[2 * ty + a][d] * tile[tx + 8 * b][d];
}

// Converts this work-item's share of a row's `count` scores into weights, relative to the row's
// largest score so far, and adds them to its sum. Returns the factor by which earlier sums must be
// scaled.
float weigh(__local float *scores, const uint count, float *most, float *sum,
            __local float *scratch) {
    const uint id = get_local_id(0), first = id / SHARE * SHARE;
    float all = *most;
    for (uint j = id - first; j < count; j += SHARE)
        all = larger(all, scores[j]);
    scratch[id] = all;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint s = 0; s < SHARE; s++)
        all = larger(all, scratch[first + s]);
    const float scale = *most == -INFINITY ? 0.0f : exp(*most - all);
    *most = all;
    *sum *= scale;
    for (uint j = id - first; j < count; j += SHARE) {
        scores[j] = all == -INFINITY ? 0.0f : exp(scores[j] - all);
        *sum += scores[j];
    }
    return scale;
}

// Updates this work-item's 2 x 8 results.
void add_values(float sums[2][8], __local const float (*weights)[KEYS + 1], const uint counts[2],
                __local const float *scales, __local const float (*tile)[DEPTH + 1]) {
    const uint tx = get_local_id(0) % 8, ty = get_local_id(0) / 8;
    for (uint a = 0; a < 2; a++) {
        const uint r = 2 * ty + a;
        for (uint b = 0; b < 8; b++)
            sums[a][b] *= scales[r];
        for (uint j = 0; j < counts[a]; j++)
            for (uint b = 0; b < 8; b++)
                sums[a][b] += weights[r][j] * tile[j][tx + 8 * b];
    }
}

// The number of keys from `key` on that take part in row i, at most KEYS.
#define COUNTED(i) min(KEYS, max(counted(whole.y, whole.z, min(i, last), keys), key) - key)

#ifdef ATTENTION
MAP_KERNEL(map_attention) {
    CARRY
    __local float queries[QUERIES][DEPTH + 1], tile[KEYS][DEPTH + 1], scores[QUERIES][KEYS + 1];
    __local float scratch[GROUP], scales[QUERIES];
    const uint id = get_local_id(0), tx = id % 8, ty = id / 8, row = id / SHARE;
    const uint first = get_group_id(0) * QUERIES, left = get_group_id(1) * DEPTH;
    const uint depth = (uint)whole.x, keys = (uint)whole.w;
    const uint last = min(first + QUERIES, rows) - 1;
    const uint until = counted(whole.y, whole.z, last, keys);
    float most = -INFINITY, sum = 0.0f, sums[2][8] = {{0.0f}};
    for (uint key = 0; key < until; key += KEYS) {
        const uint counts[2] = {COUNTED(first + 2 * ty), COUNTED(first + 2 * ty + 1)};
        float products[2][4] = {{0.0f}};
        for (uint col = 0; col < depth; col += DEPTH) {
            if (key == 0 || depth > DEPTH)
                FILL(queries, QUERIES, x, first, rows, col, depth)
            FILL(tile, KEYS, y, key, keys, col, depth)
            barrier(CLK_LOCAL_MEM_FENCE);
            add_products(products, queries, tile, min(DEPTH, depth - col));
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        for (uint a = 0; a < 2; a++)
            for (uint b = 0; b < 4; b++) {
                const uint i = min(first + 2 * ty + a, last), j = key + tx + 8 * b;
                const float mask = m_at.w != 2u && j < keys ? OPERAND(m, i, j) : 0.0f;
                scores[2 * ty + a][tx + 8 * b] = real.x * products[a][b] + mask;
            }
        FILL(tile, KEYS, z, key, keys, left, cols)
        barrier(CLK_LOCAL_MEM_FENCE);
        const float scale = weigh(scores[row], COUNTED(first + row), &most, &sum, scratch);
        if (id % SHARE == 0)
            scales[row] = scale;
        barrier(CLK_LOCAL_MEM_FENCE);
        add_values(sums, scores, counts, scales, tile);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    scratch[id] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint a = 0; a < 2; a++) {
        const uint r = 2 * ty + a, i = first + r;
        float all = 0.0f;
        for (uint s = 0; s < SHARE; s++)
            all += scratch[r * SHARE + s];
        for (uint b = 0; b < 8; b++)
            if (i < rows && left + tx + 8 * b < cols)
                WRITE(i, left + tx + 8 * b, all == 0.0f ? 0.0f : sums[a][b] / all)
    }
    CARRY_END
}
#endif

// --------------------------------------------------------------------------------------- gradients
//
// attention_sums (q, k, y, dy, mask): for every row, log(sum(exp)) of its scores and the sum of
// products of y and dy. The log of a sum of 0 is stored as +inf, so that each exponential below is
// 0.
//
// attention_backward_* (q, k, v, dy, sums, mask): row r of the result is a query, or for k and v a
// key. It loops over all others (keys or queries), KEYS at a time: the exponentials exp(score -
// sums 0), multiplied by (dy v^T - sums 1) if slopes are wanted, multiplied by rows of the others.
//
// whole: columns of q and k; columns of v; others that take part in row 0, or for k and v the first
// other that row 0 takes part in; number of others.
// Must equal: attention_sums, attend_backward (device/reference_map.c).

// Adds x y^T for the group's rows and the next others, which have `depth` columns.
#define ADD_ALL_PRODUCTS(products, x, y, depth)                         \
    for (uint col = 0; col < (depth); col += DEPTH) {                   \
        FILL(queries, QUERIES, x, first, rows, col, depth)              \
        FILL(tile, KEYS, y, other, others, col, depth)                  \
        barrier(CLK_LOCAL_MEM_FENCE);                                   \
        add_products(products, queries, tile, min(DEPTH, (depth)-col)); \
        barrier(CLK_LOCAL_MEM_FENCE);                                   \
    }

#define LOCALS                                                                           \
    __local float queries[QUERIES][DEPTH + 1], tile[KEYS][DEPTH + 1];                    \
    __local float scores[QUERIES][KEYS + 1];                                             \
    const uint id = get_local_id(0), tx = id % 8, ty = id / 8;                           \
    const uint first = get_group_id(0) * QUERIES, last = min(first + QUERIES, rows) - 1; \
    const uint depth = (uint)whole.x, values = (uint)whole.y, others = (uint)whole.w;

#ifdef SUMS
MAP_KERNEL(map_attention_sums) {
    CARRY
    LOCALS
    __local float scratch[GROUP];
    const uint row = id / SHARE, until = counted(1, whole.z, last, others), i = first + row;
    float most = -INFINITY, sum = 0.0f, along = 0.0f;
    for (uint other = 0; other < until; other += KEYS) {
        float products[2][4] = {{0.0f}};
        ADD_ALL_PRODUCTS(products, x, y, depth)
        for (uint a = 0; a < 2; a++)
            for (uint b = 0; b < 4; b++) {
                const uint q = min(first + 2 * ty + a, last), j = other + tx + 8 * b;
                const float mask = fifth_at.w != 2u && j < others ? OPERAND(fifth, q, j) : 0.0f;
                scores[2 * ty + a][tx + 8 * b] = real.x * products[a][b] + mask;
            }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint count = counted(1, whole.z, min(i, last), others);
        weigh(scores[row], min(KEYS, max(count, other) - other), &most, &sum, scratch);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint j = id % SHARE; i < rows && j < values; j += SHARE)
        along += OPERAND(z, i, j) * OPERAND(m, i, j);
    scratch[id] = sum;
    scores[row][id % SHARE] = along;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id % SHARE == 0 && i < rows) {
        for (uint s = 1; s < SHARE; s++) {
            sum += scratch[id + s];
            along += scores[row][s];
        }
        WRITE(i, 0, sum == 0.0f ? INFINITY : most + log(sum))
        WRITE(i, 1, along)
    }
    CARRY_END
}
#endif

// Computes this work-item's 2 x 4 scores of result rows by others, as exponentials or slopes.
#define MAKE_SLOPES(own, own_value, by_other, other_value, BY_KEY, ARE_SLOPES)                \
    {                                                                                         \
        float products[2][4] = {{0.0f}}, slopes[2][4] = {{0.0f}};                             \
        ADD_ALL_PRODUCTS(products, own, by_other, depth)                                      \
        if (ARE_SLOPES)                                                                       \
            ADD_ALL_PRODUCTS(slopes, own_value, other_value, values)                          \
        for (uint a = 0; a < 2; a++)                                                          \
            for (uint b = 0; b < 4; b++) {                                                    \
                const uint r = first + 2 * ty + a, o = other + tx + 8 * b;                    \
                const uint i = BY_KEY ? o : r, p = BY_KEY ? r : o;                            \
                const bool counts =                                                           \
                    BY_KEY ? (int)o >= whole.z + (int)r : o < counted(1, whole.z, r, others); \
                float power = 0.0f;                                                           \
                if (r < rows && o < others && counts) {                                       \
                    const float mask = sixth_at.w != 2u ? OPERAND(sixth, i, p) : 0.0f;        \
                    power = exp(real.x * products[a][b] + mask - OPERAND(fifth, i, 0));       \
                    if (ARE_SLOPES)                                                           \
                        power *= slopes[a][b] - OPERAND(fifth, i, 1);                         \
                }                                                                             \
                scores[2 * ty + a][tx + 8 * b] = power;                                       \
            }                                                                                 \
    }

// Multiplies them by rows of `added` and writes the sums.
#define GO_THROUGH(own, own_value, by_other, other_value, added, BY_KEY, ARE_SLOPES, factor) \
    CARRY                                                                                    \
    LOCALS                                                                                   \
    __local float scales[QUERIES];                                                           \
    const uint left = get_group_id(1) * DEPTH;                                               \
    const uint from = BY_KEY ? (uint)max(0, whole.z + (int)first) : 0u;                      \
    const uint until = BY_KEY ? others : counted(1, whole.z, last, others);                  \
    float sums[2][8] = {{0.0f}};                                                             \
    if (id < QUERIES)                                                                        \
        scales[id] = 1.0f;                                                                   \
    for (uint other = from; other < until; other += KEYS) {                                  \
        const uint count = min(KEYS, until - other), counts[2] = {count, count};             \
        MAKE_SLOPES(own, own_value, by_other, other_value, BY_KEY, ARE_SLOPES)               \
        FILL(tile, KEYS, added, other, others, left, cols)                                   \
        barrier(CLK_LOCAL_MEM_FENCE);                                                        \
        add_values(sums, scores, counts, scales, tile);                                      \
        barrier(CLK_LOCAL_MEM_FENCE);                                                        \
    }                                                                                        \
    for (uint a = 0; a < 2; a++)                                                             \
        for (uint b = 0; b < 8; b++)                                                         \
            if (first + 2 * ty + a < rows && left + tx + 8 * b < cols)                       \
                WRITE(first + 2 * ty + a, left + tx + 8 * b, (factor)*sums[a][b])            \
    CARRY_END

#ifdef BACKWARD_Q
MAP_KERNEL(map_attention_backward_q){GO_THROUGH(x, m, y, z, y, false, true, real.x)}
#endif

#ifdef BACKWARD_K
MAP_KERNEL(map_attention_backward_k){GO_THROUGH(y, z, x, m, x, true, true, real.x)}
#endif

#ifdef BACKWARD_V
MAP_KERNEL(map_attention_backward_v){GO_THROUGH(y, z, x, m, m, true, false, 1.0f)}
#endif

#ifdef BACKWARD_MASK
MAP_KERNEL(map_attention_backward_mask) {
    CARRY
    LOCALS
    const uint left = get_group_id(1) * DEPTH;
    for (uint other = left; other < min(left + DEPTH, cols); other += KEYS) {
        MAKE_SLOPES(x, m, y, z, false, true)
        for (uint a = 0; a < 2; a++) // each work-item writes its own scores
            for (uint b = 0; b < 4; b++)
                if (first + 2 * ty + a <= last && other + tx + 8 * b < cols)
                    WRITE(first + 2 * ty + a, other + tx + 8 * b, scores[2 * ty + a][tx + 8 * b])
    }
    CARRY_END
}
#endif
