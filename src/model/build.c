// SPDX-License-Identifier: MIT
// Adds the operations of composites and gradients one by one; removes them again after a failure.
#include "model/build.h"

#include <stdarg.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "model/matrix.h"

enum { AXES = 4 };

struct mmul_build mmul_build_begin(struct mmul_program *program, const char *origin,
                                   struct mmul_error *err) {
    err->status = MMUL_OK;
    return (struct mmul_build){program, origin != NULL ? origin : "", err, program->operation_count,
                               program->value_count};
}

enum mmul_status mmul_build_end(struct mmul_build *b) {
    if (b->err->status == MMUL_OK)
        return MMUL_OK;
    b->program->operation_count = b->operations;
    b->program->value_count = b->values;
    mmul_program_find_last_uses(b->program);
    return b->err->status;
}

enum mmul_status mmul_build_fail(struct mmul_build *b, enum mmul_status status, const char *format,
                                 ...) {
    char text[sizeof b->err->text];
    va_list more;
    if (b->err->status != MMUL_OK)
        return b->err->status;
    va_start(more, format);
    vsnprintf(text, sizeof text, format, more);
    va_end(more);
    return mmul_fail(b->err, status, "%s", text);
}

struct mmul_term mmul_value_term(int value) {
    return (struct mmul_term){value, 0};
}

struct mmul_term mmul_number_term(double number) {
    return (struct mmul_term){MMUL_NUMBER, number};
}

struct mmul_shape mmul_build_shape(const struct mmul_build *b, int value) {
    return value < 0 ? (struct mmul_shape){1, 1, 1, 1} : b->program->values[value].shape;
}

static int add_operation(struct mmul_build *b, struct mmul_operation *request) {
    int value = MMUL_NO_VALUE;
    if (b->err->status != MMUL_OK)
        return MMUL_NO_VALUE;
    mmul_text_copy(request->origin, sizeof request->origin, b->origin);
    return mmul_program_append(b->program, request, NULL, &value, b->err) == MMUL_OK
               ? value
               : MMUL_NO_VALUE;
}

int mmul_build_apply(struct mmul_build *b, enum mmul_operation_kind kind,
                     const struct mmul_term *operands, int count,
                     const struct mmul_parameters *with) {
    struct mmul_operation request = {.kind = kind, .operand_count = count};
    if (with != NULL)
        request.with = *with;
    for (int i = 0; i < count; i++) {
        request.operands[i] = operands[i].value;
        request.with.numbers[i] = operands[i].number;
    }
    return add_operation(b, &request);
}

int mmul_build_unary(struct mmul_build *b, enum mmul_operation_kind kind, int x) {
    const struct mmul_term operand = mmul_value_term(x);
    return mmul_build_apply(b, kind, &operand, 1, NULL);
}

int mmul_build_binary(struct mmul_build *b, enum mmul_operation_kind kind, struct mmul_term x,
                      struct mmul_term y) {
    const struct mmul_term operands[] = {x, y};
    return mmul_build_apply(b, kind, operands, 2, NULL);
}

int mmul_build_binary_values(struct mmul_build *b, enum mmul_operation_kind kind, int x, int y) {
    return mmul_build_binary(b, kind, mmul_value_term(x), mmul_value_term(y));
}

int mmul_build_binary_number(struct mmul_build *b, enum mmul_operation_kind kind, int x,
                             double number) {
    return mmul_build_binary(b, kind, mmul_value_term(x), mmul_number_term(number));
}

int mmul_build_where(struct mmul_build *b, int condition, struct mmul_term x, struct mmul_term y) {
    const struct mmul_term operands[] = {mmul_value_term(condition), x, y};
    return mmul_build_apply(b, MMUL_WHERE, operands, 3, NULL);
}

int mmul_build_reduce(struct mmul_build *b, enum mmul_operation_kind kind, int x, int axis) {
    int64_t sizes[AXES];
    const struct mmul_term operand = mmul_value_term(x);
    const struct mmul_parameters with = {.axis = axis};
    if (axis >= -2)
        return mmul_build_apply(b, kind, &operand, 1, &with);
    mmul_shape_to_sizes(mmul_build_shape(b, x), sizes);
    const int along = mmul_build_reshape(b, x, mmul_build_shape_around(sizes, AXES + axis));
    sizes[AXES + axis] = 1;
    return mmul_build_reshape(b, mmul_build_reduce(b, kind, along, -2), mmul_sizes_to_shape(sizes));
}

int mmul_build_reshape(struct mmul_build *b, int x, struct mmul_shape shape) {
    const struct mmul_term operand = mmul_value_term(x);
    const struct mmul_parameters with = {.shape = shape};
    if (mmul_shape_equal(mmul_build_shape(b, x), shape))
        return x;
    const int made = mmul_build_apply(b, MMUL_RESHAPE, &operand, 1, &with);
    if (made != MMUL_NO_VALUE) // for errors about these elements: the result keeps the name of x
        memcpy(b->program->values[made].name, b->program->values[x].name, MMUL_VALUE_NAME_BYTES);
    return made;
}

int mmul_build_slice(struct mmul_build *b, int x, const int64_t begin[4], const int64_t end[4]) {
    const struct mmul_term operand = mmul_value_term(x);
    struct mmul_parameters with = {0};
    memcpy(with.begin, begin, sizeof with.begin);
    memcpy(with.end, end, sizeof with.end);
    return mmul_build_apply(b, MMUL_SLICE, &operand, 1, &with);
}

int mmul_build_slice_columns(struct mmul_build *b, int x, int64_t begin, int64_t end) {
    int64_t from[AXES] = {0}, to[AXES];
    mmul_shape_to_sizes(mmul_build_shape(b, x), to);
    from[AXES - 1] = begin;
    to[AXES - 1] = end;
    return mmul_build_slice(b, x, from, to);
}

int mmul_build_flip(struct mmul_build *b, int x, int axis) {
    const struct mmul_term operand = mmul_value_term(x);
    struct mmul_parameters with = {0};
    mmul_shape_to_sizes(mmul_build_shape(b, x), with.end);
    with.begin[axis] = with.end[axis] - 1;
    with.end[axis] = with.step[axis] = -1;
    return mmul_build_apply(b, MMUL_SLICE, &operand, 1, &with);
}

int mmul_build_concat(struct mmul_build *b, int one, int other, int axis) {
    const struct mmul_parameters with = {.axis = axis - AXES};
    const struct mmul_term pair[] = {mmul_value_term(one), mmul_value_term(other)};
    return one == MMUL_NO_VALUE ? other : mmul_build_apply(b, MMUL_CONCAT, pair, 2, &with);
}

int mmul_build_concat_zeros(struct mmul_build *b, int to, int like, int axis, int64_t many) {
    int64_t sizes[AXES];
    if (many == 0)
        return to;
    mmul_shape_to_sizes(mmul_build_shape(b, like), sizes);
    sizes[axis] = many;
    return mmul_build_concat(b, to, mmul_build_fill(b, mmul_sizes_to_shape(sizes), false), axis);
}

int mmul_build_pad(struct mmul_build *b, int value, int axis, int64_t begin, int64_t size) {
    int64_t sizes[AXES];
    mmul_shape_to_sizes(mmul_build_shape(b, value), sizes);
    int made = mmul_build_concat_zeros(b, MMUL_NO_VALUE, value, axis, begin);
    made = mmul_build_concat(b, made, value, axis);
    return mmul_build_concat_zeros(b, made, value, axis, size - begin - sizes[axis]);
}

// Zeros are appended to rows, which are one element of the axis with everything behind it. The
// zeros behind the last element are removed again.
int mmul_build_dilate(struct mmul_build *b, int value, int axis, int64_t step) {
    int64_t sizes[AXES], begin[AXES] = {0};
    mmul_shape_to_sizes(mmul_build_shape(b, value), sizes);
    if (sizes[axis] == 1)
        return value;
    const struct mmul_shape s = mmul_build_shape_around(sizes, axis);
    const int rows =
        mmul_build_reshape(b, value, (struct mmul_shape){1, 1, s.depth * s.rows, s.cols});
    const int longer = mmul_build_concat_zeros(b, rows, rows, AXES - 1, (step - 1) * s.cols);
    int64_t end[] = {1, s.depth, s.rows * step, s.cols};
    const int apart = mmul_build_reshape(b, longer, mmul_sizes_to_shape(end));
    end[2] -= step - 1;
    sizes[axis] = end[2];
    return mmul_build_reshape(b, mmul_build_slice(b, apart, begin, end),
                              mmul_sizes_to_shape(sizes));
}

int mmul_build_generate(struct mmul_build *b, struct mmul_shape shape, enum mmul_generator kind,
                        uint64_t seed) {
    struct mmul_operation request = {
        .kind = MMUL_GENERATE, .shape = shape, .generator = kind, .seed = seed};
    return add_operation(b, &request);
}

int mmul_build_fill(struct mmul_build *b, struct mmul_shape shape, bool with_ones) {
    return mmul_build_generate(b, shape, with_ones ? MMUL_GENERATE_ONES : MMUL_GENERATE_ZEROS, 0);
}

struct mmul_shape mmul_build_shape_around(const int64_t sizes[static 4], int axis) {
    int64_t before = 1, behind = 1;
    for (int s = 0; s < AXES; s++)
        *(s < axis ? &before : &behind) *= s == axis ? 1 : sizes[s];
    return (struct mmul_shape){1, before, sizes[axis], behind};
}
