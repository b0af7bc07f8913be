// SPDX-License-Identifier: MIT
// Sets of shards as places of values: who has what of them, against what the plan's shares would have. Moves nothing.
#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "model/dtype.h"
#include "plan/program_plan.h"

static double bytes_of(const struct mmul_value *value) {
    const struct mmul_shape s = value->shape;
    return (double)s.batch * (double)s.depth * (double)s.rows * (double)s.cols *
           (double)mmul_dtype_bytes(value->dtype);
}

// What is not where the plan's shares have it, to within a unit, is moved there.
double mmul_program_kept_seconds(const struct mmul_program_costs *costs,
                                 const struct mmul_program *program,
                                 const struct mmul_operation *operation) {
    const struct mmul_program_costs *c = costs;
    const struct mmul_kept *set = &program->kept[operation->kept];
    const struct mmul_value *value = &program->values[operation->result];
    const double total = (double)set->offsets[set->parts];
    double planned = 0, apart = 0, ignored;
    for (int rank = 0; rank + 1 < c->size; rank++) {
        planned += c->shares[rank] * total;
        apart += fmax(fabs((double)set->offsets[rank + 1] - planned) - 1, 0);
    }
    if (apart == 0)
        return 0;
    return mmul_program_move_seconds(c, value, operation->wish, operation->wish, &ignored) +
           (c->node_count > 1 ? apart / total * bytes_of(value) / c->bytes_per_second : 0);
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
