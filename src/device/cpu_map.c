// SPDX-License-Identifier: MIT
// The `map` entries of the device table: select the loops of the element type, and cast between
// types.
#include "device/cpu_map.h"

#include "base/integer.h"
#include "device/host_buffer.h"
#include "device/reference_map.h"

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
        float *out = mmul_host_floats(map->result) + to;
        for (int64_t c = 0; c < count; c++)
            out[c] = (float)x->buffer->doubles[from + c * step];
    }
}

static void cast_units(void *context, int part, int64_t t, int64_t begin, int64_t end) {
    const struct mmul_map one = mmul_map_matrix(context, t);
    const int64_t along = (one.cols + CAST - 1) / CAST;
    (void)part;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t j = unit % along * CAST;
        cast_run(&one, unit / along, j, mmul_min(CAST, one.cols - j));
    }
}

static void cast_all(const struct mmul_map *map) {
    const int64_t units = map->rows * ((map->cols + CAST - 1) / CAST);
    const double cost = 2 * (double)map->rows * (double)map->cols / (double)units;
    mmul_cpu_run_parts(map, mmul_cpu_count_parts(map, units, cost), units, cast_units,
                       (void *)(uintptr_t)map);
}

enum mmul_status mmul_cpu_map(void *self, const struct mmul_map *map, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (map->kind == MMUL_CAST &&
        map->operands[0].buffer->head.dtype != map->result.buffer->head.dtype)
        cast_all(map);
    else if (mmul_map_has_doubles(map))
        status = mmul_cpu_map_by_class_f64(self, map, err);
    else
        status = mmul_cpu_map_by_class(self, map, err);
    if (status == MMUL_OK)
        mmul_reference_compute_checksum(map);
    return status;
}

enum mmul_status mmul_cpu_map_fused(void *self, const struct mmul_map *maps, int count,
                                    struct mmul_error *err) {
    const bool is_done = mmul_map_has_doubles(&maps[0])
                             ? mmul_cpu_map_elements_fused_f64(maps, count)
                             : mmul_cpu_map_elements_fused(maps, count);
    enum mmul_status status = MMUL_OK;
    for (int i = 0; !is_done && status == MMUL_OK && i < count; i++)
        status = mmul_cpu_map(self, &maps[i], err);
    return status;
}
