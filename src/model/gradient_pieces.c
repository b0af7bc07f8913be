// SPDX-License-Identifier: MIT
#include "model/gradient_pieces.h"

enum { AXES = 4 };

// ---------------------------------------------------------------------------------------- joining

// One behind the other; MMUL_NO_VALUE is nothing.
static int append(struct mmul_build *b, int one, int other, int axis) {
    const struct mmul_parameters with = {.axis = axis - AXES};
    const struct mmul_term pair[] = {mmul_value_term(one), mmul_value_term(other)};
    return one == MMUL_NO_VALUE ? other : mmul_build_apply(b, MMUL_CONCAT, pair, 2, &with);
}

// `many` zeros behind what there is, which has the same other sizes as `like`.
static int append_zeros(struct mmul_build *b, int to, int like, int axis, int64_t many) {
    int64_t sizes[AXES];
    if (many == 0)
        return to;
    mmul_build_sizes(mmul_build_shape(b, like), sizes);
    sizes[axis] = many;
    return append(b, to, mmul_build_filled(b, mmul_build_of_sizes(sizes), false), axis);
}

int mmul_pad(struct mmul_build *b, int value, int axis, int64_t begin, int64_t size) {
    int64_t sizes[AXES];
    mmul_build_sizes(mmul_build_shape(b, value), sizes);
    int made = append_zeros(b, MMUL_NO_VALUE, value, axis, begin);
    made = append(b, made, value, axis);
    return append_zeros(b, made, value, axis, size - begin - sizes[axis]);
}

// What lies behind the axis is one row, which zeros make longer; those behind the last one go again.
int mmul_spread(struct mmul_build *b, int value, int axis, int64_t step) {
    int64_t sizes[AXES], before = 1, behind = 1, begin[AXES] = {0};
    mmul_build_sizes(mmul_build_shape(b, value), sizes);
    if (sizes[axis] == 1)
        return value;
    for (int s = 0; s < AXES; s++)
        *(s < axis ? &before : &behind) *= s == axis ? 1 : sizes[s];
    const int rows =
        mmul_build_reshape(b, value, (struct mmul_shape){1, 1, before * sizes[axis], behind});
    const int longer = append_zeros(b, rows, rows, AXES - 1, (step - 1) * behind);
    int64_t end[] = {1, before, sizes[axis] * step, behind};
    const int apart = mmul_build_reshape(b, longer, mmul_build_of_sizes(end));
    end[2] -= step - 1;
    sizes[axis] = end[2];
    return mmul_build_reshape(b, mmul_build_slice(b, apart, begin, end),
                              mmul_build_of_sizes(sizes));
}

// ----------------------------------------------------------------------------------------- pieces

// The first one of a value that has not been joined, or NULL.
static struct mmul_piece *next_of(struct mmul_pieces *all, int of) {
    struct mmul_piece *first = NULL;
    for (struct mmul_piece *p = all->pieces; p < all->pieces + all->count; p++)
        if (p->of == of && (first == NULL || p->begin < first->begin))
            first = p;
    return first;
}

static struct mmul_piece take(struct mmul_pieces *all, struct mmul_piece *piece) {
    const struct mmul_piece taken = *piece;
    *piece = all->pieces[--all->count];
    return taken;
}

// Where they all are, else where the value is.
static int team_of(const struct mmul_program *p, const struct mmul_pieces *all, int of) {
    int team = -1;
    for (const struct mmul_piece *piece = all->pieces; piece < all->pieces + all->count; piece++) {
        if (piece->of != of)
            continue;
        const int its = p->values[piece->gradient].team;
        team = team < 0 || team == its ? its : p->values[of].team;
    }
    return team;
}

void mmul_join_pieces(struct mmul_backward *w, int of) {
    struct mmul_program *p = w->b->program;
    struct mmul_piece *next = next_of(w->pieces, of);
    int64_t sizes[AXES], at = 0;
    int made = MMUL_NO_VALUE, like = MMUL_NO_VALUE, axis = 0;
    if (next == NULL)
        return;
    const int team = p->team;
    p->team = team_of(p, w->pieces, of);
    mmul_build_sizes(p->values[of].shape, sizes);
    for (; next != NULL; next = next_of(w->pieces, of)) {
        const struct mmul_piece piece = take(w->pieces, next);
        axis = piece.axis;
        like = piece.gradient;
        made = append_zeros(w->b, made, like, axis, piece.begin - at);
        made = append(w->b, made, piece.gradient, axis);
        at = piece.end;
    }
    made = append_zeros(w->b, made, like, axis, sizes[axis] - at);
    p->team = team;
    mmul_give_to(w, of, made);
}

void mmul_give_piece(struct mmul_backward *w, int operand, int axis, int64_t begin, int gradient) {
    const int of = w->operation.operands[operand];
    int64_t sizes[AXES];
    if (gradient == MMUL_NO_VALUE)
        return;
    mmul_build_sizes(mmul_build_shape(w->b, gradient), sizes);
    const struct mmul_piece given = {of, axis, begin, begin + sizes[axis], gradient};
    for (int i = 0; i < w->pieces->count; i++) {
        const struct mmul_piece *p = &w->pieces->pieces[i];
        if (p->of == of && (p->axis != axis || (p->begin < given.end && begin < p->end))) {
            mmul_join_pieces(w, of);
            break;
        }
    }
    w->pieces->pieces[w->pieces->count++] = given;
}
