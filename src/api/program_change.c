// SPDX-License-Identifier: MIT
// Changes leaves, held values and numbers of a built program: its structure stays, so the plan of
// the previous run fits it. First compares everything with the program, then changes everything.
#include <string.h>

#include "base/options.h"
#include "base/status.h"
#include "exec/memory/held.h"
#include "io/matrix_file.h"
#include "model/composite.h"
#include "model/matrix.h"
#include "model/rank_groups.h"
#include "mpimatmul.h"

static bool is_number(const struct mmul_program *program, const struct mmul_number_change *n) {
    const struct mmul_operation *o = mmul_program_find_maker(program, n->value);
    return o != NULL && n->operand >= 0 && n->operand < o->operand_count &&
           o->operands[n->operand] == MMUL_NUMBER;
}

static bool fits_matrix(const struct mmul_program *program, const struct mmul_matrix_change *m) {
    const struct mmul_operation *o = mmul_program_find_maker(program, m->value);
    if (o == NULL || o->kind != MMUL_LOAD)
        return false;
    const struct mmul_matrix_info info = mmul_matrix_info(m->matrix);
    return info.stored == o->dtype && mmul_shape_equal(info.shape, o->shape);
}

static bool fits_group(const struct mmul_program *program, const struct mmul_operation *o,
                       const struct mmul_rank_group *rank_group) {
    const struct mmul_rank_group *known = mmul_program_rank_group(program, o->rank_group);
    if (known == NULL || rank_group == NULL)
        return known == NULL && rank_group == NULL;
    return memcmp(known, rank_group, sizeof *rank_group) == 0;
}

static bool fits_held(const struct mmul_context *context, const struct mmul_program *program,
                      const struct mmul_held_change *h) {
    const struct mmul_operation *o = mmul_program_find_maker(program, h->value);
    const struct mmul_held *held = mmul_held_find(context, h->held);
    if (o == NULL || o->kind != MMUL_LOAD_PERSISTENT || held == NULL ||
        program->kept[o->kept].held == 0)
        return false;
    const struct mmul_held_info info = mmul_held_info(context, held);
    // The placement may differ: the next plan takes the value as it lies (mmul_program_prepare).
    return mmul_shape_equal(info.shape, o->shape) && info.dtype == o->dtype &&
           info.is_integer == o->is_integer && info.has_open_type == o->has_open_type &&
           info.is_exact_in_both_types == o->is_exact_in_both_types && info.is_bool == o->is_bool &&
           info.group_is_requested == o->group_is_requested &&
           fits_group(program, o, info.rank_group);
}

static bool changes_fit(const struct mmul_context *context, const struct mmul_program *program,
                        const struct mmul_program_changes *all) {
    bool fits = true;
    for (int i = 0; fits && i < all->number_count; i++)
        fits = is_number(program, &all->numbers[i]);
    for (int i = 0; fits && i < all->draw_count; i++)
        fits = mmul_composite_find_draw(program, all->draws[i].value) != NULL;
    for (int i = 0; fits && i < all->matrix_count; i++)
        fits = fits_matrix(program, &all->matrices[i]);
    for (int i = 0; fits && i < all->held_count; i++)
        fits = fits_held(context, program, &all->held[i]);
    return fits;
}

static void set_kept(struct mmul_persistent_value *kept, int64_t held) {
    kept->held = held;
    snprintf(kept->name, sizeof kept->name, "held %lld", (long long)held);
}

enum mmul_status mmul_program_change(struct mmul_program *program,
                                     const struct mmul_context *context,
                                     const struct mmul_program_changes *changes, bool *is_done,
                                     struct mmul_error *err) {
    struct mmul_program_changes all;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_program_changes, changes, &all, err);
    if (status != MMUL_OK)
        return status;
    int made = 0;
    for (int k = 0; k < program->persistent_count; k++)
        made += program->kept[k].is_made && program->kept[k].held > 0;
    *is_done = made == all.hold_count && changes_fit(context, program, &all);
    if (!*is_done)
        return MMUL_OK;
    for (int i = 0; i < all.number_count; i++)
        mmul_program_find_maker(program, all.numbers[i].value)
            ->with.numbers[all.numbers[i].operand] = all.numbers[i].number;
    for (int i = 0; i < all.draw_count; i++)
        mmul_composite_find_draw(program, all.draws[i].value)->seed =
            mmul_composite_draw_seed(all.draws[i].seed, all.draws[i].turn);
    for (int i = 0; i < all.matrix_count; i++)
        mmul_program_find_maker(program, all.matrices[i].value)->matrix = all.matrices[i].matrix;
    for (int i = 0; i < all.held_count; i++)
        set_kept(&program->kept[mmul_program_find_maker(program, all.held[i].value)->kept],
                 all.held[i].held);
    for (int k = 0; k < program->persistent_count; k++)
        if (program->kept[k].is_made && program->kept[k].held > 0) {
            set_kept(&program->kept[k], mmul_held_next_number());
            *all.holds++ = program->kept[k].held;
        }
    return MMUL_OK;
}
