// SPDX-License-Identifier: MIT
// By position, whoever makes it; doubles are the floats of the same places.
#include "exec/steps/generate_blocks.h"

#include "base/integer.h"
#include "exec/setup/pipeline.h"

struct generating {
    const struct mmul_operation *operation;
    const struct mmul_view *view;
    struct mmul_shape shape;
    struct mmul_region block;
    int64_t rows_each;
};

static void generate_run(const struct generating *g, int64_t begin, int64_t end, void *to) {
    enum { MOST = 1024 };
    const struct mmul_operation *o = g->operation;
    float made[MOST];
    double *doubles = to;
    if (g->view->dtype == MMUL_F32) {
        mmul_generate(o->generator, o->seed, g->shape, begin, end, to);
        return;
    }
    for (int64_t e = begin, next; e < end; e = next) {
        next = mmul_smaller(e + MOST, end);
        mmul_generate(o->generator, o->seed, g->shape, e, next, made);
        for (int64_t i = e; i < next; i++)
            doubles[i - begin] = (double)made[i - e];
    }
}

static void generate_part(void *context, int index) {
    const struct generating *g = context;
    const struct mmul_region b = g->block;
    int64_t begin = b.row_begin + index * g->rows_each;
    int64_t end = mmul_smaller(begin + g->rows_each, b.row_end);
    for (int64_t i = begin; i < end; i++) {
        int64_t first = (b.matrix * g->shape.rows + i) * g->shape.cols + b.col_begin;
        generate_run(g, first, first + b.col_end - b.col_begin,
                     mmul_view_element(g->view, i, b.col_begin));
    }
}

void mmul_blocks_generate(const struct mmul_operation *operation, struct mmul_shape shape,
                          const struct mmul_view *view, struct mmul_region block, int threads) {
    enum { ROWS_LEAST = 16 };
    const int64_t rows = block.row_end - block.row_begin;
    const int64_t parts = mmul_smaller(threads, rows / ROWS_LEAST);
    struct generating g = {.operation = operation,
                           .view = view,
                           .shape = shape,
                           .block = block,
                           .rows_each = parts > 1 ? (rows + parts - 1) / parts : rows};
    if (parts > 1)
        mmul_pipeline_share((int)parts, generate_part, &g);
    else
        generate_part(&g, 0);
}
