// SPDX-License-Identifier: MIT
// Positions of a region's elements in a stack. Shared by readers and writers of files. Fortran
// order is handled in matrix_read.c.
//
//   stack, C order      |..row 0..|..row 1..|..row 2..|    full width: one run
//   region, 2 columns       ##        ##        ##         narrower: one run per row
#include "io/region_runs.h"

#include "model/matrix.h"

struct mmul_run mmul_region_run_at(struct mmul_shape shape, struct mmul_region region,
                                   int64_t position, int64_t end) {
    int64_t width = region.col_end - region.col_begin;
    int64_t row = region.row_begin + position / width, col = region.col_begin + position % width;
    struct mmul_run run = {
        .element = (region.matrix * shape.rows + row) * shape.cols + col,
        .count = end - position,
    };
    int64_t in_row = region.col_end - col;
    if (width != shape.cols && run.count > in_row)
        run.count = in_row;
    return run;
}

bool mmul_region_fits(struct mmul_shape shape, struct mmul_region region, int64_t begin,
                      int64_t end) {
    return region.matrix >= 0 && region.matrix < mmul_shape_matrices(shape) &&
           region.row_begin >= 0 && region.row_begin <= region.row_end &&
           region.row_end <= shape.rows && region.col_begin >= 0 &&
           region.col_begin <= region.col_end && region.col_end <= shape.cols && begin >= 0 &&
           begin <= end && end <= mmul_region_count(region);
}
