// SPDX-License-Identifier: MIT
// Which operation is in which file, and what they share: operands without steps, and pieces of work that
// threads claim, so that a thread that is late, or on a slow core, does less.
#include "device/cpu_map.h"

#include <stdatomic.h>
#include <string.h>

#include "base/integer.h"
#include "device/host_buffer.h"
#include "device/reference_map.h"

struct mmul_strided mmul_cpu_operand(const struct mmul_map *map, int operand, int64_t t) {
    const struct mmul_map_operand *o = &map->operands[operand];
    if (o->buffer == NULL)
        return (struct mmul_strided){&o->number, 0, 0};
    return (struct mmul_strided){o->buffer->data + o->offset + mmul_stack_offset(map, o->stack, t),
                                 o->row_step, o->col_step};
}

float *mmul_cpu_result(const struct mmul_map *map, int64_t t) {
    return (float *)mmul_host_address(map->result) + t * map->result_step;
}

struct mmul_strided mmul_cpu_part(struct mmul_strided from, int64_t i, int64_t j) {
    from.at += i * from.row_step + j * from.col_step;
    return from;
}

// ------------------------------------------------------------------------------------------ pack

typedef float four __attribute__((vector_size(16)));

static four load(const float *at) {
    four x;
    memcpy(&x, at, sizeof x);
    return x;
}

static void store(float *at, four x) {
    memcpy(at, &x, sizeof x);
}

// Four rows of four, in registers: what is a column of `from` becomes a row of `to`.
static inline void turn_four(const float *from, int64_t step, float *to, int64_t ld) {
    const four a = load(from), b = load(from + step);
    const four c = load(from + 2 * step), d = load(from + 3 * step);
    const four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const four AB = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const four CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store(to, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
    store(to + ld, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
    store(to + 2 * ld, __builtin_shufflevector(AB, CD, 0, 1, 4, 5));
    store(to + 3 * ld, __builtin_shufflevector(AB, CD, 2, 3, 6, 7));
}

static void pack_one_by_one(struct mmul_strided from, int64_t rows, int64_t cols, float *to,
                            int64_t ld) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            to[i * ld + j] = from.at[i * from.row_step + j * from.col_step];
}

// A block of what is stored by columns. Each column is another page of memory, and so is each row of the result: of
// every page as much is taken at a time as lets finding it count little, while the block stays in a second cache, 256
// KiB at least. A processor does not foresee the next column: as much is asked for ahead as elsewhere.
enum {
    DOWN = 128,                      // rows of a block
    ALONG = 256,                     // columns of a block
    ROOM_LD = ALONG + MMUL_CPU_LINE, // a power of two would have few places of a cache for all rows
    ASKED = MMUL_CPU_AHEAD / DOWN    // columns
};

// As many columns as there are `ahead`, of which `cols` are turned.
static void turn_block(struct mmul_strided from, int64_t rows, int64_t cols, int64_t ahead,
                       float *to, int64_t ld) {
    const int64_t even = cols - cols % 4, even_end = rows - rows % 4;
    for (int64_t j = 0; j < even; j += 4) {
        const float *at = from.at + j * from.col_step;
        for (int64_t c = ASKED; c < ASKED + 4 && j + c < ahead; c++)
            for (int64_t i = 0; i < rows; i += MMUL_CPU_LINE)
                __builtin_prefetch(at + i + c * from.col_step);
        for (int64_t i = 0; i < even_end; i += 4)
            turn_four(at + i, from.col_step, to + i * ld + j, ld);
    }
    pack_one_by_one(mmul_cpu_part(from, even_end, 0), rows - even_end, even, to + even_end * ld,
                    ld);
    pack_one_by_one(mmul_cpu_part(from, 0, even), rows, cols - even, to + even, ld);
}

// Through a room where a block's rows follow each other, from which each is written at once: those of `to` push each
// other out of a cache between a column and the next.
static void pack_turned(struct mmul_strided from, int64_t rows, int64_t cols, float *to,
                        int64_t ld) {
    float room[DOWN * ROOM_LD];
    for (int64_t i = 0; i < rows; i += DOWN)
        for (int64_t j = 0; j < cols; j += ALONG) {
            const int64_t down = mmul_smaller(DOWN, rows - i),
                          along = mmul_smaller(ALONG, cols - j);
            if (ld <= MMUL_CPU_LINE) {
                turn_block(mmul_cpu_part(from, i, j), down, along, cols - j, to + i * ld + j, ld);
                continue;
            }
            turn_block(mmul_cpu_part(from, i, j), down, along, cols - j, room, ROOM_LD);
            for (int64_t r = 0; r < down; r++)
                memcpy(to + (i + r) * ld + j, room + r * ROOM_LD, (size_t)along * sizeof *to);
        }
}

MMUL_CLONES static void fill(float *to, int64_t count, float x) {
    for (int64_t j = 0; j < count; j++)
        to[j] = x;
}

void mmul_cpu_pack(struct mmul_strided from, int64_t rows, int64_t cols, float *to, int64_t ld) {
    if (from.row_step == 1 && from.col_step > 1) {
        pack_turned(from, rows, cols, to, ld);
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        const float *at = from.at + i * from.row_step;
        if (from.col_step == 1)
            memcpy(to + i * ld, at, (size_t)cols * sizeof *to);
        else if (from.col_step == 0)
            fill(to + i * ld, cols, *at);
        else
            for (int64_t j = 0; j < cols; j++)
                to[i * ld + j] = at[j * from.col_step];
    }
}

// --------------------------------------------------------------------------------------- threads

// To wake a thread that sleeps takes 5 to 50 us, in which one that is awake copies up to some 100,000 elements (16 GB/s
// and less, read and written): a part is worth more, so that a thread too many never costs as much as it can bring.
static const double PART_LEAST = 1 << 17;

int mmul_cpu_parts(const struct mmul_map *map, int64_t units, double cost) {
    const int64_t all = map->matrices * units;
    const double worth = (double)all * cost / PART_LEAST;
    const int64_t most = mmul_smaller(map->parallel.threads, all);
    const int64_t parts = worth < (double)most ? (int64_t)worth : most;
    return parts > 1 ? (int)parts : 1;
}

struct claims {
    mmul_cpu_work *work;
    void *context;
    int64_t units, all, each; // units of a matrix
    _Atomic int64_t next;
};

static void claim(void *context, int part) {
    struct claims *claims = context;
    const int64_t units = claims->units;
    int64_t begin;
    while ((begin = atomic_fetch_add(&claims->next, claims->each)) < claims->all)
        for (int64_t end = mmul_smaller(claims->all, begin + claims->each), n; begin < end;
             begin += n) {
            const int64_t first = begin % units;
            n = mmul_smaller(end - begin, units - first);
            claims->work(claims->context, part, begin / units, first, first + n);
        }
}

void mmul_cpu_share(const struct mmul_map *map, int parts, int64_t units, mmul_cpu_work *work,
                    void *context) {
    enum { CLAIMS_EACH = 16 };
    struct claims claims = {
        .work = work, .context = context, .units = units, .all = map->matrices * units};
    claims.each =
        parts > 1 ? mmul_larger(1, claims.all / ((int64_t)parts * CLAIMS_EACH)) : claims.all;
    if (parts > 1)
        map->parallel.run(parts, claim, &claims);
    else
        claim(&claims, 0);
}

// --------------------------------------------------------------------------------------- lookups

static void look_up(void *context, int part, int64_t t, int64_t begin, int64_t end) {
    const struct mmul_map *map = context;
    const struct mmul_strided table = mmul_cpu_operand(map, 0, t),
                              ids = mmul_cpu_operand(map, 1, t);
    (void)part;
    for (int64_t i = begin; i < end; i++)
        mmul_cpu_pack(mmul_cpu_part(table, (int64_t)ids.at[i * ids.col_step], 0), 1, map->cols,
                      mmul_cpu_result(map, t) + i * map->result.ld, map->cols);
}

void mmul_cpu_map_lookup(const struct mmul_map *map) {
    mmul_cpu_share(map, mmul_cpu_parts(map, map->rows, (double)map->cols), map->rows, look_up,
                   (void *)(uintptr_t)map);
}

static enum mmul_status make(void *self, const struct mmul_map *map, struct mmul_error *err) {
    if (mmul_map_has_doubles(map))
        return mmul_cpu_map_double(map, err);
    switch (mmul_operation_row(map->kind)->class) {
    case MMUL_CLASS_ROWS:
        return mmul_cpu_map_rows(map, err);
    case MMUL_CLASS_REDUCE:
        return mmul_cpu_map_reduce(map, err);
    case MMUL_CLASS_LOOKUP:
        mmul_cpu_map_lookup(map);
        return MMUL_OK;
    case MMUL_CLASS_ATTENTION:
        return mmul_cpu_map_attention(self, map, err);
    default:
        mmul_cpu_map_elements(map);
        return MMUL_OK;
    }
}

enum mmul_status mmul_cpu_map(void *self, const struct mmul_map *map, struct mmul_error *err) {
    enum mmul_status status = make(self, map, err);
    if (status == MMUL_OK)
        mmul_reference_carry(map);
    return status;
}
