// SPDX-License-Identifier: MIT
// From a region of a value to regions of the files that it comes from. Keeps nothing.
#include "exec/traffic/loads.h"

#include "base/integer.h"
#include "base/status.h"
#include "exec/steps/maps.h"
#include "model/dtype.h"
#include "model/matrix.h"

static const struct mmul_operation *find_maker(const struct mmul_program *program, int value) {
    const struct mmul_operation *maker = program->operations;
    while (maker->result != value)
        maker++;
    return maker;
}

static enum mmul_status read_slice(const struct mmul_program *program,
                                   const struct mmul_operation *slice, struct mmul_region region,
                                   void *to, struct mmul_error *err) {
    const struct mmul_shape have = program->values[slice->operands[0]].shape,
                            made = program->values[slice->result].shape;
    const int64_t *begin = slice->with.begin;
    const int64_t batch = region.matrix / made.depth + begin[0],
                  depth = region.matrix % made.depth + begin[1];
    const struct mmul_region from = {batch * have.depth + depth, region.row_begin + begin[2],
                                     region.row_end + begin[2], region.col_begin + begin[3],
                                     region.col_end + begin[3]};
    return mmul_loads_read(program, slice->operands[0], from, to, err);
}

// Rows of one matrix of the result are looked up by elements of one row of indices; runs of rows that follow each
// other in the table are read at once.
static enum mmul_status look_up(const struct mmul_program *program,
                                const struct mmul_operation *take, struct mmul_region region,
                                void *to, struct mmul_error *err) {
    enum { MOST = 256 };
    const struct mmul_value *table = &program->values[take->operands[0]];
    const struct mmul_shape ids = program->values[take->operands[1]].shape;
    const int64_t cols = region.col_end - region.col_begin, row = region.matrix % ids.rows;
    const int64_t row_bytes = cols * (int64_t)mmul_dtype_bytes(table->dtype);
    double at[MOST]; // room for either type
    const enum mmul_dtype ids_dtype = program->values[take->operands[1]].dtype;
    char *next = to;
    enum mmul_status status = MMUL_OK;
    for (int64_t i = region.row_begin, end; status == MMUL_OK && i < region.row_end; i = end) {
        end = mmul_smaller(i + MOST, region.row_end);
        const struct mmul_region wanted = {region.matrix / ids.rows, row, row + 1, i, end};
        status = mmul_loads_read(program, take->operands[1], wanted, at, err);
        if (status == MMUL_OK)
            status = mmul_maps_check_rows(at, ids_dtype, 1, end - i, table, err);
        for (int64_t j = 0, n = 1; status == MMUL_OK && j < end - i; j += n) {
            const int64_t first = (int64_t)mmul_dtype_real(ids_dtype, at, j);
            for (n = 1;
                 j + n < end - i && mmul_dtype_real(ids_dtype, at, j + n) == (double)(first + n);)
                n++;
            const struct mmul_region rows = {0, first, first + n, region.col_begin, region.col_end};
            status = mmul_loads_read(program, take->operands[0], rows, next, err);
            next += n * row_bytes;
        }
    }
    return status;
}

enum mmul_status mmul_loads_read(const struct mmul_program *program, int value,
                                 struct mmul_region region, void *to, struct mmul_error *err) {
    const struct mmul_operation *maker = find_maker(program, value);
    switch (maker->kind) {
    case MMUL_SLICE:
        return read_slice(program, maker, region, to, err);
    case MMUL_TAKE:
        return look_up(program, maker, region, to, err);
    default:
        return program->values[value].dtype == MMUL_F64
                   ? mmul_matrix_read_double(maker->matrix, region, 0, mmul_region_count(region),
                                             to, err)
                   : mmul_matrix_read_float(maker->matrix, region, 0, mmul_region_count(region), to,
                                            err);
    }
}
