// SPDX-License-Identifier: MIT
// Packs a program into blocks of fixed size and unpacks it. Format: counts, then the arrays, then,
// if elements are included, for each matrix its description and its elements. Each item begins on a
// block.
#include "exec/job/program_pack.h"

#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "io/matrix_file.h"
#include "model/dtype.h"
#include "model/matrix.h"

struct counts {
    int64_t values, operations, kept, rank_groups, only_float32, has_elements;
};

struct numbers {
    struct mmul_shape shape;
    int64_t dtype, bytes;
};

// Position of the next bytes. to NULL: only counts them.
struct cursor {
    char *to;
    const char *from;
    int64_t at;
};

static void write_item(struct cursor *c, const void *bytes, int64_t count) {
    if (c->to != NULL && count > 0)
        memcpy(c->to + c->at, bytes, (size_t)count);
    c->at += mmul_divide_up(count, MMUL_PACK_BYTES) * MMUL_PACK_BYTES;
}

static const void *read_item(struct cursor *c, int64_t count) {
    const char *at = c->from + c->at;
    c->at += mmul_divide_up(count, MMUL_PACK_BYTES) * MMUL_PACK_BYTES;
    return at;
}

static void read_array(struct cursor *c, void *array, int64_t bytes) {
    memcpy(array, read_item(c, bytes), (size_t)bytes);
}

static void write_matrix(struct cursor *c, const struct mmul_matrix *matrix) {
    const struct mmul_matrix_info info = mmul_matrix_info(matrix);
    struct numbers numbers = {.shape = info.shape, .dtype = (int64_t)info.stored};
    int64_t count = 0;
    mmul_shape_count(info.shape, &count);
    numbers.bytes = count * (int64_t)mmul_dtype_bytes(info.stored);
    write_item(c, &numbers, sizeof numbers);
    write_item(c, matrix->memory, numbers.bytes);
}

static void write_program(struct cursor *c, const struct mmul_program *p, bool has_elements) {
    const struct counts counts = {p->value_count,      p->operation_count, p->persistent_count,
                                  p->rank_group_count, p->only_float32,    has_elements};
    write_item(c, &counts, sizeof counts);
    write_item(c, p->values, counts.values * (int64_t)sizeof *p->values);
    write_item(c, p->operations, counts.operations * (int64_t)sizeof *p->operations);
    write_item(c, p->kept, counts.kept * (int64_t)sizeof *p->kept);
    write_item(c, p->rank_groups, counts.rank_groups * (int64_t)sizeof *p->rank_groups);
    for (int i = 0; has_elements && i < p->operation_count; i++)
        if (p->operations[i].kind == MMUL_LOAD)
            write_matrix(c, p->operations[i].matrix);
}

int64_t mmul_program_packed_bytes(const struct mmul_program *program, bool has_elements) {
    struct cursor c = {.to = NULL};
    write_program(&c, program, has_elements);
    return c.at;
}

void mmul_program_pack(const struct mmul_program *program, bool has_elements, char *bytes) {
    write_program(&(struct cursor){.to = bytes}, program, has_elements);
}

static enum mmul_status read_matrix(struct cursor *c, struct mmul_matrix **matrix,
                                    struct mmul_error *err) {
    const struct numbers *numbers = read_item(c, sizeof *numbers);
    const void *elements = read_item(c, numbers->bytes);
    return mmul_matrix_borrow(elements, numbers->shape, (enum mmul_dtype)numbers->dtype, "batch",
                              matrix, err);
}

enum mmul_status mmul_program_unpack(const char *bytes, struct mmul_program **program,
                                     struct mmul_error *err) {
    struct cursor c = {.from = bytes};
    struct mmul_program *made = NULL;
    const struct counts *counts = read_item(&c, sizeof *counts);
    if (mmul_program_create(&made, err) != MMUL_OK)
        return err->status;
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "a program", err, MMUL_ARRAY(made->values, counts->values),
        MMUL_ARRAY(made->operations, counts->operations), MMUL_ARRAY(made->kept, counts->kept),
        MMUL_ARRAY(made->rank_groups, counts->rank_groups));
    if (status != MMUL_OK) {
        mmul_program_destroy(made);
        return status;
    }
    made->only_float32 = counts->only_float32 != 0;
    made->value_count = (int)counts->values;
    made->operation_count = made->capacity = (int)counts->operations;
    made->persistent_count = (int)counts->kept;
    made->rank_group_count = (int)counts->rank_groups;
    read_array(&c, made->values, counts->values * (int64_t)sizeof *made->values);
    read_array(&c, made->operations, counts->operations * (int64_t)sizeof *made->operations);
    read_array(&c, made->kept, counts->kept * (int64_t)sizeof *made->kept);
    read_array(&c, made->rank_groups, counts->rank_groups * (int64_t)sizeof *made->rank_groups);
    for (int i = 0; counts->has_elements && i < made->operation_count; i++)
        made->operations[i].matrix = NULL;
    for (int i = 0; counts->has_elements && status == MMUL_OK && i < made->operation_count; i++)
        if (made->operations[i].kind == MMUL_LOAD)
            status = read_matrix(&c, &made->operations[i].matrix, err);
    if (status == MMUL_OK)
        *program = made;
    else
        mmul_program_destroy_unpacked(made);
    return status;
}

void mmul_program_destroy_unpacked(struct mmul_program *program) {
    for (int i = 0; program != NULL && i < program->operation_count; i++)
        mmul_matrix_close(program->operations[i].matrix);
    mmul_program_destroy(program);
}
