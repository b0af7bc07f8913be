// SPDX-License-Identifier: MIT
// Row by row. An operand that is transposed is read with the strides of that, one that repeats with
// steps of 0.
#include "exec/elements.h"

#include "base/integer.h"
#include "model/matrix.h"

// A row of an operand: element j is at[j * step].
struct row {
    const float *at;
    int64_t step;
};

static struct row row_of(const struct mmul_view *view, int64_t i, int64_t col) {
    const struct mmul_region *r = &view->region;
    int64_t row_step = view->transposed ? 1 : view->ld, step = view->transposed ? view->ld : 1;
    bool repeats = r->row_end - r->row_begin == 1 && r->row_begin == 0;
    int64_t down = repeats ? 0 : i - r->row_begin;
    if (r->col_end - r->col_begin == 1 && r->col_begin == 0)
        return (struct row){view->at + down * row_step, 0};
    return (struct row){view->at + down * row_step + (col - r->col_begin) * step, step};
}

static void make_row(const struct mmul_elements *e, int64_t i) {
    const struct mmul_region b = e->block;
    int64_t count = b.col_end - b.col_begin;
    float *to = e->result.at + (i - e->result.region.row_begin) * e->result.ld + b.col_begin -
                e->result.region.col_begin;
    struct row x, y;
    switch (e->operation->kind) {
    case MMUL_GENERATE: {
        int64_t begin = (b.matrix * e->shape.rows + i) * e->shape.cols + b.col_begin;
        mmul_generate(e->operation->generator, e->operation->seed, e->shape, begin, begin + count,
                      to);
        break;
    }
    case MMUL_ADD:
        x = row_of(&e->operands[0], i, b.col_begin);
        y = row_of(&e->operands[1], i, b.col_begin);
        for (int64_t j = 0; j < count; j++)
            to[j] = x.at[j * x.step] + y.at[j * y.step];
        break;
    case MMUL_RELU:
        x = row_of(&e->operands[0], i, b.col_begin);
        for (int64_t j = 0; j < count; j++) {
            float value = x.at[j * x.step];
            to[j] = value < 0 ? 0 : value; // NaN stays
        }
        break;
    default:
        break;
    }
}

enum { PARTS_ROWS_LEAST = 16 };

struct parts {
    const struct mmul_elements *elements;
    int64_t rows_each;
};

static void make_part(void *context, int part) {
    const struct parts *p = context;
    const struct mmul_region b = p->elements->block;
    int64_t begin = b.row_begin + part * p->rows_each;
    int64_t end = mmul_smaller(begin + p->rows_each, b.row_end);
    for (int64_t i = begin; i < end; i++)
        make_row(p->elements, i);
}

void mmul_elements_make(const struct mmul_elements *elements, struct mmul_parallel parallel) {
    int64_t rows = elements->block.row_end - elements->block.row_begin;
    int64_t parts = mmul_smaller(parallel.threads, rows / PARTS_ROWS_LEAST);
    struct parts work = {elements, parts > 1 ? (rows + parts - 1) / parts : rows};
    if (parts > 1)
        parallel.run((int)parts, make_part, &work);
    else
        make_part(&work, 0);
}
