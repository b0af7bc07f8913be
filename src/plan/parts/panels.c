// SPDX-License-Identifier: MIT
// Makes the cuts of the whole operand. Sizes follow from shapes alone; ranks, links and speeds are
// not used here.
#include "plan/parts/panels.h"

#include "base/integer.h"

enum { ALIGNMENT = 64 };

static struct mmul_cut make_cut(const struct mmul_problem *problem, enum mmul_axis axis,
                                int64_t panel_units, int64_t panel_matrices) {
    int64_t width = mmul_problem_result_width(problem, axis);
    return (struct mmul_cut){
        .rounds = 1,
        .panels = mmul_divide_up(mmul_problem_whole_matrices(problem, axis), panel_matrices) *
                  mmul_divide_up(width, panel_units),
        .panel_units = panel_units,
        .panel_matrices = panel_matrices,
        .whole_stays = true};
}

struct mmul_cut mmul_panels_single(const struct mmul_problem *problem, enum mmul_axis axis) {
    return make_cut(problem, axis, mmul_problem_result_width(problem, axis),
                    mmul_problem_whole_matrices(problem, axis));
}

// Returns the units of a panel if a matrix of `width` units of `each` bytes is cut into at least
// `pieces`.
static int64_t panel_width(int64_t width, int64_t pieces, int64_t each) {
    int64_t most = each > 0 ? mmul_max(1, MMUL_PANEL_BYTES_MOST / each) : width;
    if (most >= ALIGNMENT)
        most = most / ALIGNMENT * ALIGNMENT;
    // Equal pieces avoid a thin last one.
    pieces = mmul_max(pieces, mmul_divide_up(width, most));
    int64_t units = mmul_divide_up(mmul_divide_up(width, pieces), ALIGNMENT) * ALIGNMENT;
    return mmul_min(mmul_min(units, most), width);
}

struct mmul_cut mmul_panels_cut(const struct mmul_problem *problem, enum mmul_axis axis,
                                int64_t wanted) {
    int64_t width = mmul_problem_result_width(problem, axis),
            each = mmul_problem_whole_unit_bytes(problem, axis),
            matrices = mmul_problem_whole_matrices(problem, axis);
    int64_t group = matrices / wanted;
    if (each > 0)
        group = mmul_min(group, MMUL_PANEL_BYTES_MOST / each / width);
    if (group > 1)
        return make_cut(problem, axis, width, group);
    return make_cut(problem, axis, panel_width(width, mmul_divide_up(wanted, matrices), each), 1);
}

int mmul_panels_candidates(const struct mmul_problem *problem, enum mmul_axis axis,
                           struct mmul_cut cuts[static MMUL_PANEL_CANDIDATES]) {
    int count = 0;
    for (int i = 0; i < MMUL_PANEL_CANDIDATES; i++) {
        struct mmul_cut cut = mmul_panels_cut(problem, axis, (int64_t)1 << i);
        if (count == 0 || cut.panels > cuts[count - 1].panels)
            cuts[count++] = cut;
    }
    return count;
}

int64_t mmul_panels_bytes(const struct mmul_problem *problem, enum mmul_axis axis,
                          const struct mmul_cut *cut) {
    return cut->panel_matrices * cut->panel_units * mmul_problem_whole_unit_bytes(problem, axis);
}

int64_t mmul_panels_units_at_once(const struct mmul_problem *problem, enum mmul_axis axis,
                                  int64_t panel_units, unsigned maps) {
    unsigned wide = MMUL_MAPS_C | mmul_maps_whole_operand(axis);
    return (maps & wide) == wide ? mmul_problem_result_width(problem, axis) : panel_units;
}

bool mmul_check_projects_whole(const struct mmul_problem *problem, enum mmul_axis axis,
                               int64_t units_at_once, int64_t rounds, bool by_lines) {
    bool repeats = mmul_shape_matrices(problem->c) > mmul_problem_whole_matrices(problem, axis);
    return units_at_once == mmul_problem_result_width(problem, axis) &&
           (repeats || by_lines || rounds > 1);
}
