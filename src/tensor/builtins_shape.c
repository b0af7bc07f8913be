// SPDX-License-Identifier: MIT
// Functions that rearrange elements, and functions that generate matrices from positions or random
// numbers.
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "tensor/builtins.h"
#include "tensor/jobs.h"

// Converts sizes of numpy's axes to a shape of the engine.
static struct mmul_shape shape_of(const int64_t *sizes, int count) {
    int64_t all[MMUL_AXES_MOST] = {1, 1, 1, 1};
    memcpy(all + MMUL_AXES_MOST - count, sizes, (size_t)count * sizeof *sizes);
    return (struct mmul_shape){all[0], all[1], all[2], all[3]};
}

// Reads two to four sizes.
static enum mmul_status read_shape(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                   int64_t sizes[static MMUL_AXES_MOST], int *count) {
    enum mmul_status status = mmul_argument_get_sizes(e, argument, "shape", sizes, count);
    if (status == MMUL_OK && *count < 2)
        return mmul_evaluator_fail(e, argument->node,
                                   "shape has one size, expected 2 to %d: a row is (1, n)",
                                   MMUL_AXES_MOST);
    return status;
}

// Replaces numpy's -1 by the size that is left, and checks all sizes.
static enum mmul_status resolve_sizes(struct mmul_evaluator *e, const struct mmul_node *at,
                                      const struct mmul_object *x, int64_t *sizes, int count) {
    int64_t have[MMUL_AXES_MOST], all = 1, others = 1;
    int open = -1;
    char shape[96];
    mmul_object_sizes(x, have);
    for (int i = 0; i < MMUL_AXES_MOST; i++)
        all *= have[i]; // no overflow: the engine has checked the shape
    for (int i = 0; i < count; i++) {
        if (sizes[i] == -1 && open >= 0)
            return mmul_evaluator_fail(e, at, "only one size can be -1");
        if (sizes[i] < -1 || sizes[i] == 0)
            return mmul_evaluator_fail(e, at, "invalid size %lld", (long long)sizes[i]);
        if (sizes[i] == -1)
            open = i;
        else if (!mmul_multiply_sizes(others, sizes[i], &others))
            return mmul_evaluator_fail(e, at, "the number of elements exceeds 64 bits");
    }
    if (open >= 0 ? all % others != 0 : all != others)
        return mmul_evaluator_fail(e, at, "%s (%s) has %lld elements, which %s %lld",
                                   "what is reshaped", mmul_object_shape(x, shape), (long long)all,
                                   open >= 0 ? "is no multiple of" : "is not", (long long)others);
    if (open >= 0)
        sizes[open] = all / others;
    return MMUL_OK;
}

enum mmul_status mmul_builtin_reshape(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                      const struct mmul_node *call,
                                      const struct mmul_argument *arguments,
                                      struct mmul_object *result) {
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 1};
    const struct mmul_object *x = &arguments[0].object;
    int64_t sizes[MMUL_AXES_MOST];
    int count = 0;
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK)
        status = read_shape(e, &arguments[1], sizes, &count);
    if (status == MMUL_OK)
        status = resolve_sizes(e, call, x, sizes, count);
    if (status != MMUL_OK)
        return status;
    made.with.shape = shape_of(sizes, count);
    result->axes = count;
    return mmul_apply_operation(e, call, &made, x, result);
}

enum mmul_status mmul_builtin_permute(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                      const struct mmul_node *call,
                                      const struct mmul_argument *arguments,
                                      struct mmul_object *result) {
    struct mmul_call made = {
        .operation = builtin->operation, .operand_count = 1, .with = {.axes = {0, 1, 2, 3}}};
    const struct mmul_object *x = &arguments[0].object;
    int64_t axes[MMUL_AXES_MOST];
    int count = 0;
    unsigned seen = 0;
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK)
        status = mmul_argument_get_sizes(e, &arguments[1], "axes", axes, &count);
    if (status != MMUL_OK)
        return status;
    if (count != x->axes)
        return mmul_evaluator_fail(e, arguments[1].node, "%d axes are given, but x has %d", count,
                                   x->axes);
    for (int i = 0; i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + count : axes[i];
        if (axis < 0 || axis >= count || (seen >> axis & 1) != 0)
            return mmul_evaluator_fail(e, arguments[1].node, "axes must be 0 to %d, each once",
                                       count - 1);
        seen |= 1U << axis;
        made.with.axes[MMUL_AXES_MOST - count + i] = MMUL_AXES_MOST - count + (int)axis;
    }
    result->axes = count;
    return mmul_apply_operation(e, call, &made, x, result);
}

// Refuses rows of one numpy axis without axis=-1: numpy would join them along that axis, or refuse.
static enum mmul_status fail_row(struct mmul_evaluator *e, const struct mmul_node *at, int axis,
                                 const struct mmul_object *row) {
    mmul_evaluator_fail(
        e, at, "concat along axis %d of a one-axis array, which is stored as a row (1 x %lld)",
        axis, (long long)row->shape.cols);
    mmul_hint(e->err, "axis=-1 joins the elements, axis=-2 stacks the rows");
    return MMUL_ERR_DATA;
}

enum mmul_status mmul_builtin_concat(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    const struct mmul_object *all = &arguments[0].object;
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 2};
    struct mmul_object both[2], next;
    int axis = 0;
    if (all->kind != MMUL_OBJECT_TUPLE || all->count < 1)
        return mmul_evaluator_fail(e, arguments[0].node,
                                   "concat takes a tuple of matrices: (x, y)");
    for (int i = 0; i < all->count; i++) {
        if (all->items[i].kind != MMUL_OBJECT_MATRIX)
            return mmul_evaluator_fail(e, arguments[0].node, "element %d of the tuple is %s", i,
                                       mmul_object_name(&all->items[i]));
        if (all->items[i].axes != all->items[0].axes)
            return mmul_evaluator_fail(e, arguments[0].node, "matrices of %d and of %d axes",
                                       all->items[0].axes, all->items[i].axes);
    }
    bool are_rows = true;
    for (int i = 0; i < all->count; i++)
        are_rows &= all->items[i].is_row;
    both[0] = all->items[0];
    const bool is_given = arguments[1].node != NULL;
    if (is_given) {
        enum mmul_status status = mmul_argument_get_axis(e, &arguments[1], both[0].axes, &axis);
        if (status != MMUL_OK)
            return status;
    }
    for (int i = 0; i < all->count; i++)
        if (all->items[i].is_row && (!is_given || mmul_object_number(&arguments[1].object) >= 0))
            return fail_row(e, is_given ? arguments[1].node : arguments[0].node, axis,
                            &all->items[i]);
    made.with.axis = axis - both[0].axes;
    for (int i = 1; i < all->count; i++) {
        both[1] = all->items[i];
        next.axes = both[0].axes;
        enum mmul_status status = mmul_apply_operation(e, call, &made, both, &next);
        if (status != MMUL_OK)
            return status;
        both[0] = next;
    }
    *result = both[0];
    result->is_row = are_rows && made.with.axis == -1;
    return MMUL_OK;
}

// The shape is that of torch: the axes of the indices, then a row of the table.
enum mmul_status mmul_builtin_take(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 2};
    const struct mmul_object both[2] = {arguments[0].object, arguments[1].object};
    char shape[96];
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "table");
    if (status == MMUL_OK)
        status = mmul_argument_check_matrix(e, &arguments[1], "ids");
    if (status == MMUL_OK)
        status = mmul_argument_check_ids(e, &arguments[1]);
    if (status != MMUL_OK)
        return status;
    if (both[0].axes != 2)
        return mmul_evaluator_fail(e, arguments[0].node, "table has %d axes (%s), expected 2",
                                   both[0].axes, mmul_object_shape(&both[0], shape));
    result->axes = both[1].is_row ? 2 : both[1].axes + 1;
    return mmul_apply_operation(e, call, &made, both, result);
}

static enum mmul_status generate(struct mmul_evaluator *e, const struct mmul_node *call,
                                 struct mmul_generated generated, int axes,
                                 struct mmul_object *result) {
    int value = 0;
    char name[48];
    e->operations++;
    if (mmul_program_generate(e->program, generated, mmul_evaluator_name(e, call, name), &value,
                              e->err) != MMUL_OK)
        return mmul_evaluator_locate(e, call);
    *result = mmul_matrix_object(e, value, axes);
    return MMUL_OK;
}

static enum mmul_status draw(struct mmul_evaluator *e, const struct mmul_node *call,
                             enum mmul_generator kind, const struct mmul_argument *shape,
                             const struct mmul_argument *seeded, struct mmul_object *result) {
    int64_t sizes[MMUL_AXES_MOST], seed = 1;
    int count = 0;
    enum mmul_status status = read_shape(e, shape, sizes, &count);
    if (status == MMUL_OK && seeded->node != NULL)
        status = mmul_argument_get_integer(e, seeded, "seed", &seed);
    if (status == MMUL_OK && seed < 0)
        return mmul_evaluator_fail(e, seeded->node, "seed must be at least 0");
    if (status != MMUL_OK)
        return status;
    const struct mmul_generated generated = {
        .kind = kind, .seed = (uint64_t)seed, .shape = shape_of(sizes, count)};
    return generate(e, call, generated, count, result);
}

enum mmul_status mmul_builtin_generate(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                       const struct mmul_node *call,
                                       const struct mmul_argument *arguments,
                                       struct mmul_object *result) {
    static const char *const words[] = {"uniform", "normal", "integer", "identity",
                                        "zeros",   "ones",   "rand",    NULL};
    static const enum mmul_generator kinds[] = {
        MMUL_GENERATE_UNIFORM, MMUL_GENERATE_NORMAL, MMUL_GENERATE_INTEGER, MMUL_GENERATE_IDENTITY,
        MMUL_GENERATE_ZEROS,   MMUL_GENERATE_ONES,   MMUL_GENERATE_RAND};
    int choice = 0;
    (void)builtin;
    enum mmul_status status = mmul_argument_get_choice(e, &arguments[1], "kind", words, &choice);
    return status == MMUL_OK ? draw(e, call, kinds[choice], &arguments[0], &arguments[2], result)
                             : status;
}

// Draws from [0, 1), as torch's rand.
enum mmul_status mmul_builtin_rand(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    (void)builtin;
    return draw(e, call, MMUL_GENERATE_RAND, &arguments[0], &arguments[1], result);
}

enum mmul_status mmul_builtin_normal(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    (void)builtin;
    return draw(e, call, MMUL_GENERATE_NORMAL, &arguments[0], &arguments[1], result);
}

// low + (high - low) * rand
enum mmul_status mmul_builtin_uniform(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                      const struct mmul_node *call,
                                      const struct mmul_argument *arguments,
                                      struct mmul_object *result) {
    double low = 0, high = 1;
    struct mmul_argument terms[2] = {{.node = call}, {.node = call}};
    (void)builtin;
    enum mmul_status status = mmul_argument_get_real(e, &arguments[2], "low", 0, &low);
    if (status == MMUL_OK)
        status = mmul_argument_get_real(e, &arguments[3], "high", 1, &high);
    if (status == MMUL_OK && !(low <= high))
        return mmul_evaluator_fail(e, call, "uniform from %g to %g: expected low <= high", low,
                                   high);
    if (status == MMUL_OK)
        status = draw(e, call, MMUL_GENERATE_RAND, &arguments[0], &arguments[1], result);
    if (status == MMUL_OK && high - low != 1) {
        terms[0].object = *result;
        terms[1].object = mmul_object_from_real(high - low);
        status = mmul_apply_elements(e, call, "multiply", terms, 2, result);
    }
    if (status == MMUL_OK && low != 0) {
        terms[0].object = *result;
        terms[1].object = mmul_object_from_real(low);
        status = mmul_apply_elements(e, call, "add", terms, 2, result);
    }
    return status;
}

// n x m with ones on diagonal k, cut from a larger identity.
enum mmul_status mmul_builtin_eye(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                  const struct mmul_node *call,
                                  const struct mmul_argument *arguments,
                                  struct mmul_object *result) {
    static const char *const names[] = {"n", "m", "k"};
    int64_t numbers[3] = {1, 1, 0};
    (void)builtin;
    for (int i = 0; i < 3; i++) {
        if (arguments[i].object.kind == MMUL_OBJECT_NONE) {
            numbers[i] = i == 1 ? numbers[0] : numbers[i];
            continue;
        }
        if (mmul_argument_get_integer(e, &arguments[i], names[i], &numbers[i]) != MMUL_OK)
            return e->err->status;
    }
    const int64_t n = numbers[0], m = numbers[1], k = numbers[2];
    const bool is_none = k >= m || -k >= n;
    const int64_t down = k > 0 && !is_none ? k : 0, along = k < 0 && !is_none ? -k : 0;
    const struct mmul_generated generated = {.kind = is_none ? MMUL_GENERATE_ZEROS
                                                             : MMUL_GENERATE_IDENTITY,
                                             .shape = {1, 1, n + down, m + along}};
    struct mmul_call part = {
        .operation = "slice",
        .operand_count = 1,
        .with = {.begin = {0, 0, down, along}, .end = {1, 1, n + down, m + along}}};
    if (n < 1 || m < 1)
        return mmul_evaluator_fail(e, call, "cannot generate a matrix of %lld x %lld", (long long)n,
                                   (long long)m);
    enum mmul_status status = generate(e, call, generated, 2, result);
    const struct mmul_object all = *result;
    return status == MMUL_OK && down + along > 0
               ? mmul_apply_operation(e, call, &part, &all, result)
               : status;
}

// zeros and ones of numpy. A single size gives a row.
enum mmul_status mmul_builtin_filled(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    int64_t sizes[MMUL_AXES_MOST];
    int count = 0;
    enum mmul_status status = mmul_argument_get_sizes(e, &arguments[0], "shape", sizes, &count);
    if (status != MMUL_OK)
        return status;
    const struct mmul_generated generated = {
        .kind = strcmp(builtin->name, "ones") == 0 ? MMUL_GENERATE_ONES : MMUL_GENERATE_ZEROS,
        .shape = shape_of(sizes, count)};
    status = generate(e, call, generated, count == 1 ? 2 : count, result);
    result->is_row = count == 1;
    return status;
}

enum mmul_status mmul_builtin_len(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                  const struct mmul_node *call,
                                  const struct mmul_argument *arguments,
                                  struct mmul_object *result) {
    const struct mmul_object *x = &arguments[0].object;
    int64_t sizes[MMUL_AXES_MOST];
    (void)builtin;
    if (x->kind == MMUL_OBJECT_TUPLE) {
        *result = mmul_object_from_integer(x->count);
        return MMUL_OK;
    }
    if (x->kind == MMUL_OBJECT_STRING) { // counted in characters
        int64_t count = 0;
        for (const char *c = x->text; *c != '\0'; c++)
            count += ((unsigned char)*c & 0xC0) != 0x80;
        *result = mmul_object_from_integer(count);
        return MMUL_OK;
    }
    if (x->kind != MMUL_OBJECT_MATRIX)
        return mmul_evaluator_fail(e, arguments[0].node,
                                   "len needs a tuple, a string or a matrix, found %s",
                                   mmul_object_name(x));
    if (x->is_row) {
        mmul_evaluator_fail(e, call, "len of a one-axis array, which is stored as a row (1 x %lld)",
                            (long long)x->shape.cols);
        mmul_hint(e->err, "x.shape[1] is the number of elements");
        return MMUL_ERR_DATA;
    }
    mmul_object_sizes(x, sizes);
    *result = mmul_object_from_integer(sizes[MMUL_AXES_MOST - x->axes]);
    return MMUL_OK;
}
