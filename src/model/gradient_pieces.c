// SPDX-License-Identifier: MIT
#include "model/gradient_pieces.h"

#include "model/matrix.h"

enum { AXES = 4 };

// ------------------------------------------------------------------------------------------ pieces

// Returns the first piece of a value that has not been joined, or NULL.
static struct mmul_piece *find_first_piece(struct mmul_pieces *all, int of) {
    struct mmul_piece *first = NULL;
    for (struct mmul_piece *p = all->pieces; p < all->pieces + all->count; p++)
        if (p->of == of && (first == NULL || p->begin < first->begin))
            first = p;
    return first;
}

// Returns the group of the pieces if all have the same, else the value's.
static int choose_group(const struct mmul_program *p, const struct mmul_pieces *all, int of) {
    int rank_group = -1;
    for (const struct mmul_piece *piece = all->pieces; piece < all->pieces + all->count; piece++) {
        if (piece->of != of)
            continue;
        const int its = p->values[piece->gradient].rank_group;
        rank_group = rank_group < 0 || rank_group == its ? its : p->values[of].rank_group;
    }
    return rank_group;
}

void mmul_gradient_join_pieces(struct mmul_gradient_traversal *w, int of) {
    struct mmul_program *p = w->b->program;
    struct mmul_piece *next = find_first_piece(w->pieces, of);
    int64_t sizes[AXES], at = 0;
    int made = MMUL_NO_VALUE, like = MMUL_NO_VALUE, axis = 0;
    if (next == NULL)
        return;
    const int rank_group = p->rank_group;
    p->rank_group = choose_group(p, w->pieces, of);
    mmul_shape_to_sizes(p->values[of].shape, sizes);
    for (; next != NULL; next = find_first_piece(w->pieces, of)) {
        const struct mmul_piece piece = *next;
        *next = w->pieces->pieces[--w->pieces->count];
        axis = piece.axis;
        like = piece.gradient;
        made = mmul_build_concat_zeros(w->b, made, like, axis, piece.begin - at);
        made = mmul_build_concat(w->b, made, piece.gradient, axis);
        at = piece.end;
    }
    made = mmul_build_concat_zeros(w->b, made, like, axis, sizes[axis] - at);
    p->rank_group = rank_group;
    mmul_gradient_add_to(w, of, made);
}

void mmul_gradient_add_piece(struct mmul_gradient_traversal *w, int operand, int axis,
                             int64_t begin, int gradient) {
    const int of = w->operation.operands[operand];
    int64_t sizes[AXES];
    if (gradient == MMUL_NO_VALUE)
        return;
    mmul_shape_to_sizes(mmul_build_shape(w->b, gradient), sizes);
    const struct mmul_piece given = {of, axis, begin, begin + sizes[axis], gradient};
    for (int i = 0; i < w->pieces->count; i++) {
        const struct mmul_piece *p = &w->pieces->pieces[i];
        if (p->of == of && (p->axis != axis || (p->begin < given.end && begin < p->end))) {
            mmul_gradient_join_pieces(w, of);
            break;
        }
    }
    w->pieces->pieces[w->pieces->count++] = given;
}
