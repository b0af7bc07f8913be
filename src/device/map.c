// SPDX-License-Identifier: MIT
// Positions of the matrices of a stack, and the parts of operands that a block depends on.
#include "device/map.h"

#include "base/integer.h"

static int64_t matrix_offset(const struct mmul_map *map, struct mmul_stack stack, int64_t matrix) {
    const int64_t depth = mmul_max(map->shape.depth, 1);
    return matrix / depth * stack.batch_step +
           matrix % depth / mmul_max(stack.shared, 1) * stack.depth_step;
}

int64_t mmul_stack_offset(const struct mmul_map *map, struct mmul_stack stack, int64_t t) {
    return matrix_offset(map, stack, map->matrix + t) - matrix_offset(map, stack, map->matrix);
}

struct mmul_map mmul_map_matrix(const struct mmul_map *map, int64_t t) {
    struct mmul_map one = *map;
    for (int i = 0; i < map->operand_count; i++)
        one.operands[i].offset += mmul_stack_offset(map, map->operands[i].stack, t);
    one.result.offset += t * map->result_step;
    one.matrix += t;
    one.matrices = 1;
    return one;
}

bool mmul_map_reduces_columns(const struct mmul_map *map) {
    return mmul_operation_row(map->kind)->class == MMUL_CLASS_REDUCE && map->with->axis == -2;
}

struct mmul_map_part mmul_map_operand_part(const struct mmul_map *map, int operand,
                                           struct mmul_map_part of) {
    const enum mmul_operation_class class = mmul_operation_row(map->kind)->class;
    const bool is_alike = class == MMUL_CLASS_ELEMENTS || class == MMUL_CLASS_COPY;
    const bool by_row = class == MMUL_CLASS_ROWS && operand < mmul_operation_row(map->kind)->by_row;
    const bool is_lookup = class == MMUL_CLASS_LOOKUP, is_first = operand == 0;
    const bool is_attention = class == MMUL_CLASS_ATTENTION,
               is_down = mmul_map_reduces_columns(map);
    const char needed = is_attention ? mmul_operation_row(map->kind)->parts[operand] : 0;
    struct mmul_map_part part = {0, -1, 0, -1};
    if (is_lookup && operand == 1) // one index per row, stored in a row
        return (struct mmul_map_part){0, -1, of.row, of.rows};
    if (needed == 'i')
        return (struct mmul_map_part){0, -1, of.row, of.rows};
    if (is_alike || by_row || (is_first && !is_lookup && !is_down && !is_attention) ||
        needed == 'r') {
        part.row = of.row;
        part.rows = of.rows;
    }
    if (is_alike || (is_first && (is_lookup || is_down)) || needed == 'c') {
        part.col = of.col;
        part.cols = of.cols;
    }
    return part;
}

bool mmul_map_supports_checksum(enum mmul_operation_kind kind) {
    return mmul_operation_row(kind)->class != MMUL_CLASS_REDUCE;
}

bool mmul_map_has_doubles(const struct mmul_map *map) {
    bool has = ((const struct mmul_buffer_head *)map->result.buffer)->dtype == MMUL_F64;
    for (int i = 0; i < map->operand_count; i++) {
        const struct mmul_buffer_head *head = (const void *)map->operands[i].buffer;
        has |= head != NULL && head->dtype == MMUL_F64;
    }
    return has;
}
