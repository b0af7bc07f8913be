// SPDX-License-Identifier: MIT
// Sets of shards as places of values: who has what of them, against what the plan's shares would have. Moves nothing.
#include <string.h>

#include "base/integer.h"
#include "model/dtype.h"
#include "plan/program/program_planning.h"

static double bytes_of(const struct mmul_value *value) {
    const struct mmul_shape s = value->shape;
    return (double)s.batch * (double)s.depth * (double)s.rows * (double)s.cols *
           (double)mmul_dtype_bytes(value->dtype);
}

// Units of a range that one node has and another one wants.
static int64_t count_apart(const struct mmul_program_costs *costs, const int64_t *have,
                           const int64_t *want) {
    int64_t apart = 0;
    for (int i = 0, j = 0; i < costs->size && j < costs->size;) {
        int64_t begin = mmul_larger(have[i], want[j]), end = mmul_smaller(have[i + 1], want[j + 1]);
        if (begin < end && costs->rank_node[i] != costs->rank_node[j])
            apart += end - begin;
        if (have[i + 1] <= want[j + 1])
            i++;
        else
            j++;
    }
    return apart;
}

bool mmul_program_take_shards(const struct mmul_program_plan *plan, int kept,
                              struct mmul_program_place *place, double *network_bytes) {
    const struct mmul_kept *set = &plan->program->kept[kept];
    const int size = plan->costs.size;
    struct mmul_placement *p = &place->placement;
    const int64_t **offsets = p->kind == MMUL_PLACE_ROWS ? &p->row_offsets : &p->col_offsets;
    const int64_t *planned = *offsets;
    place->kept = kept;
    *offsets = set->offsets;
    *network_bytes = (double)count_apart(&plan->costs, set->offsets, planned) /
                     (double)planned[size] * bytes_of(&plan->program->values[place->value]);
    return memcmp(planned, set->offsets, (size_t)(size + 1) * sizeof *planned) == 0;
}
