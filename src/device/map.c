// SPDX-License-Identifier: MIT
// Where the matrices of a stack are.
#include "device/map.h"

#include "base/integer.h"

static int64_t place(const struct mmul_map *map, struct mmul_stack stack, int64_t matrix) {
    const int64_t depth = mmul_larger(map->shape.depth, 1);
    return matrix / depth * stack.batch_step +
           matrix % depth / mmul_larger(stack.shared, 1) * stack.depth_step;
}

int64_t mmul_stack_offset(const struct mmul_map *map, struct mmul_stack stack, int64_t t) {
    return place(map, stack, map->matrix + t) - place(map, stack, map->matrix);
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

bool mmul_map_carries(enum mmul_operation_kind kind) {
    return mmul_operation_row(kind)->class != MMUL_CLASS_REDUCE;
}
