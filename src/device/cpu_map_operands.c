// SPDX-License-Identifier: MIT
// Positions of operands and results, and packing of strided operands, for all operations.
#include "device/cpu_map_loops.h"

#include <assert.h>
#include <string.h>

#include "base/integer.h"
#include "device/host_buffer.h"

// A float64 number is in a buffer (device/map.h), so that this address is never that of a float.
struct mmul_strided mmul_cpu_operand(const struct mmul_map *map, int operand, int64_t t) {
    const struct mmul_map_operand *o = &map->operands[operand];
    if (o->buffer == NULL) {
        assert(sizeof(mmul_real) == sizeof o->number);
        return (struct mmul_strided){(const void *)&o->number, 0, 0};
    }
    const mmul_real *data = o->buffer->memory;
    return (struct mmul_strided){data + o->offset + mmul_stack_offset(map, o->stack, t),
                                 o->row_step, o->col_step};
}

mmul_real *mmul_cpu_result(const struct mmul_map *map, int64_t t) {
    mmul_real *data = map->result.buffer->memory;
    return data + map->result.offset + t * map->result_step;
}

// ------------------------------------------------------------------------------------------ pack

typedef mmul_real four __attribute__((vector_size(4 * sizeof(mmul_real))));

// Transposes 4 x 4 elements in registers: a column of `from` becomes a row of `to`.
static inline void transpose_4x4(const mmul_real *from, int64_t step, mmul_real *to, int64_t ld) {
    four x[4], y[4];
    for (int i = 0; i < 4; i++)
        memcpy(&x[i], from + i * step, sizeof *x);
    const four ab = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
    const four cd = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
    const four AB = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
    const four CD = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
    y[0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    y[1] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    y[2] = __builtin_shufflevector(AB, CD, 0, 1, 4, 5);
    y[3] = __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
    for (int i = 0; i < 4; i++)
        memcpy(to + i * ld, &y[i], sizeof *y);
}

static void pack_one_by_one(struct mmul_strided from, int64_t rows, int64_t cols, mmul_real *to,
                            int64_t ld) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            to[i * ld + j] = from.at[i * from.row_step + j * from.col_step];
}

// Block sizes for operands stored by columns. Each column, and each row of the result, is on
// another memory page. A block takes enough of every page to make its address translation cheap,
// and still fits a second-level cache of at least 256 KiB. The hardware does not predict the next
// column, so the code prefetches as far ahead as elsewhere.
enum {
    BLOCK_ROWS = 128,                      // rows of a block
    BLOCK_COLS = 1024 / sizeof(mmul_real), // columns of a block
    BUFFER_LD =
        BLOCK_COLS + MMUL_CPU_CACHE_LINE, // a power of two would map all rows to few cache sets
    PREFETCH_COLS = MMUL_CPU_PREFETCH_DISTANCE / BLOCK_ROWS // columns
};

// Transposes `cols` of the `ahead` columns; prefetches up to all of them.
static void transpose_block(struct mmul_strided from, int64_t rows, int64_t cols, int64_t ahead,
                            mmul_real *to, int64_t ld) {
    const int64_t even = cols - cols % 4, even_end = rows - rows % 4;
    for (int64_t j = 0; j < even; j += 4) {
        const mmul_real *at = from.at + j * from.col_step;
        for (int64_t c = PREFETCH_COLS; c < PREFETCH_COLS + 4 && j + c < ahead; c++)
            for (int64_t i = 0; i < rows; i += MMUL_CPU_CACHE_LINE)
                __builtin_prefetch(at + i + c * from.col_step);
        for (int64_t i = 0; i < even_end; i += 4)
            transpose_4x4(at + i, from.col_step, to + i * ld + j, ld);
    }
    pack_one_by_one(mmul_cpu_strided_at(from, even_end, 0), rows - even_end, even,
                    to + even_end * ld, ld);
    pack_one_by_one(mmul_cpu_strided_at(from, 0, even), rows, cols - even, to + even, ld);
}

// Packs block by block through a contiguous buffer and copies each row from there at once: rows of
// `to` would evict each other from the cache between two columns.
static void pack_transposed(struct mmul_strided from, int64_t rows, int64_t cols, mmul_real *to,
                            int64_t ld) {
    mmul_real buffer[BLOCK_ROWS * BUFFER_LD];
    for (int64_t i = 0; i < rows; i += BLOCK_ROWS)
        for (int64_t j = 0; j < cols; j += BLOCK_COLS) {
            const int64_t down = mmul_min(BLOCK_ROWS, rows - i),
                          along = mmul_min(BLOCK_COLS, cols - j);
            if (ld <= MMUL_CPU_CACHE_LINE) {
                transpose_block(mmul_cpu_strided_at(from, i, j), down, along, cols - j,
                                to + i * ld + j, ld);
                continue;
            }
            transpose_block(mmul_cpu_strided_at(from, i, j), down, along, cols - j, buffer,
                            BUFFER_LD);
            for (int64_t r = 0; r < down; r++)
                memcpy(to + (i + r) * ld + j, buffer + r * BUFFER_LD, (size_t)along * sizeof *to);
        }
}

MMUL_TARGET_CLONES static void fill_constant(mmul_real *to, int64_t count, mmul_real x) {
    for (int64_t j = 0; j < count; j++)
        to[j] = x;
}

void mmul_cpu_pack(struct mmul_strided from, int64_t rows, int64_t cols, mmul_real *to,
                   int64_t ld) {
    if (from.row_step == 1 && from.col_step > 1) {
        pack_transposed(from, rows, cols, to, ld);
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        const mmul_real *at = from.at + i * from.row_step;
        if (from.col_step == 1)
            memcpy(to + i * ld, at, (size_t)cols * sizeof *to);
        else if (from.col_step == 0)
            fill_constant(to + i * ld, cols, *at);
        else
            for (int64_t j = 0; j < cols; j++)
                to[i * ld + j] = at[j * from.col_step];
    }
}
