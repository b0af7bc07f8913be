// SPDX-License-Identifier: MIT
// Selects the file for each class of operations; implements table look-ups.
#include "device/cpu_map.h"

static void look_up(void *context, int part, int64_t t, int64_t begin, int64_t end) {
    const struct mmul_map *map = context;
    const struct mmul_strided table = mmul_cpu_operand(map, 0, t),
                              ids = mmul_cpu_operand(map, 1, t);
    mmul_real *out = mmul_cpu_result(map, t);
    (void)part;
    for (int64_t i = begin; i < end; i++)
        mmul_cpu_pack(mmul_cpu_strided_at(table, (int64_t)ids.at[i * ids.col_step], 0), 1,
                      map->cols, out + i * map->result.ld, map->cols);
}

static void look_up_all(const struct mmul_map *map) {
    mmul_cpu_run_parts(map, mmul_cpu_count_parts(map, map->rows, (double)map->cols), map->rows,
                       look_up, (void *)(uintptr_t)map);
}

enum mmul_status mmul_cpu_map_by_class(void *self, const struct mmul_map *map,
                                       struct mmul_error *err) {
    switch (mmul_operation_row(map->kind)->class) {
    case MMUL_CLASS_ROWS:
        return mmul_cpu_map_rows(map, err);
    case MMUL_CLASS_REDUCE:
        return mmul_cpu_map_reduce(map, err);
    case MMUL_CLASS_LOOKUP:
        look_up_all(map);
        return MMUL_OK;
    case MMUL_CLASS_ATTENTION:
        return map->kind == MMUL_ATTENTION || map->kind == MMUL_ATTENTION_SUMS
                   ? mmul_cpu_map_attention(self, map, err)
                   : mmul_cpu_map_attention_backward(self, map, err);
    default:
        mmul_cpu_map_elements(map);
        return MMUL_OK;
    }
}
