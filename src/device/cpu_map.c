// SPDX-License-Identifier: MIT
// What operations of both types share: pieces of work that threads claim, so that a thread that is late, or on a slow
// core, does less; and casts from one type to the other.
#include "device/cpu_map.h"

#include <stdatomic.h>

#include "base/integer.h"
#include "device/host_buffer.h"
#include "device/reference_map.h"

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

// ----------------------------------------------------------------------------------------- casts

enum { CAST = 4096 }; // elements of a row at a time

static void cast_run(const struct mmul_map *map, int64_t i, int64_t j, int64_t count) {
    const struct mmul_map_operand *x = &map->operands[0];
    const int64_t step = x->col_step, from = x->offset + i * x->row_step + j * step;
    const int64_t to = i * map->result.ld + j;
    if (map->result.buffer->head.dtype == MMUL_F64) {
        double *out = mmul_host_doubles(map->result) + to;
        for (int64_t c = 0; c < count; c++)
            out[c] = (double)x->buffer->data[from + c * step];
    } else {
        float *out = mmul_host_address(map->result) + to;
        for (int64_t c = 0; c < count; c++)
            out[c] = (float)x->buffer->doubles[from + c * step];
    }
}

static void cast(void *context, int part, int64_t t, int64_t begin, int64_t end) {
    const struct mmul_map one = mmul_map_matrix(context, t);
    const int64_t along = (one.cols + CAST - 1) / CAST;
    (void)part;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t j = unit % along * CAST;
        cast_run(&one, unit / along, j, mmul_smaller(CAST, one.cols - j));
    }
}

static void cast_all(const struct mmul_map *map) {
    const int64_t units = map->rows * ((map->cols + CAST - 1) / CAST);
    const double cost = 2 * (double)map->rows * (double)map->cols / (double)units;
    mmul_cpu_share(map, mmul_cpu_parts(map, units, cost), units, cast, (void *)(uintptr_t)map);
}

enum mmul_status mmul_cpu_map(void *self, const struct mmul_map *map, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (map->kind == MMUL_CAST &&
        map->operands[0].buffer->head.dtype != map->result.buffer->head.dtype)
        cast_all(map);
    else if (mmul_map_has_doubles(map))
        status = mmul_cpu_map_class_f64(self, map, err);
    else
        status = mmul_cpu_map_class(self, map, err);
    if (status == MMUL_OK)
        mmul_reference_carry(map);
    return status;
}
