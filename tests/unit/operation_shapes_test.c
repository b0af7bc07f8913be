// SPDX-License-Identifier: MIT
// Result sizes of operations on rows with further rows, columns or indices, and of composites that
// share a name. Other sizes are refused with a line, and the program stays unchanged. Results that
// hold only True and False.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "model/composite.h"
#include "model/matrix.h"
#include "model/program.h"
#include "schedules.h"

static void load(struct mmul_program *p, const char *name, struct mmul_shape shape) {
    struct mmul_error err;
    const struct mmul_operation load = {.kind = MMUL_LOAD, .shape = shape};
    assert_int_equal(mmul_program_append(p, &load, name, NULL, &err), MMUL_OK);
}

// An operation of the table or a composite, with operand sizes and the expected size or error.
struct shaping {
    const char *name;
    struct mmul_shape shapes[3]; // rows 0: not given
    struct mmul_parameters with;
    const char *expected; // sizes of the result, or the error line
};

// Adds the operation of the table, even if its name alone stands for a composite.
static enum mmul_status shape_row(struct mmul_program *p, const struct shaping *s, int count,
                                  int *value, struct mmul_error *err) {
    struct mmul_operation o = {.operands = {0, 1, 2}, .operand_count = count, .with = s->with};
    assert_non_null(mmul_operation_find(s->name, &o.kind));
    return mmul_program_append(p, &o, NULL, value, err);
}

static enum mmul_status shape_composite(struct mmul_program *p, const struct shaping *s, int count,
                                        int *value, struct mmul_error *err) {
    enum { DROPOUT_OPERANDS = 4 }; // a value, then numbers
    const bool takes_numbers = strcmp(s->name, "dropout") == 0;
    struct mmul_composite_call call = {
        .name = s->name, .operands = {0, 1, 2}, .operand_count = count, .with = &s->with};
    for (int i = count; takes_numbers && i < DROPOUT_OPERANDS; i++)
        call.operands[call.operand_count++] = MMUL_NUMBER;
    assert_true(mmul_is_composite(p, &call));
    return mmul_composite_append(p, &call, NULL, value, err);
}

static void check_shapings(const struct shaping *cases, size_t number,
                           enum mmul_status (*shape)(struct mmul_program *, const struct shaping *,
                                                     int, int *, struct mmul_error *)) {
    static const char *const names[] = {"x", "y", "z"};
    for (const struct shaping *s = cases; s < cases + number; s++) {
        struct mmul_program *p = NULL;
        struct mmul_error err = {.text = ""};
        assert_int_equal(mmul_program_create(&p, &err), MMUL_OK);
        char text[96] = "";
        int count = 0, value = -1;
        for (; count < 3 && s->shapes[count].rows > 0; count++)
            load(p, names[count], s->shapes[count]);
        const int operations = p->operation_count;
        if (shape(p, s, count, &value, &err) == MMUL_OK) {
            assert_string_equal(mmul_shape_format(p->values[value].shape, text), s->expected);
        } else {
            assert_string_equal(err.text, s->expected);
            assert_int_equal(p->value_count, count); // the failed call left no values behind
            assert_int_equal(p->operation_count, operations);
        }
        mmul_program_destroy(p);
    }
}

#define STACK \
    { 2, 3, 4, 6 }
#define COLUMN \
    { 2, 3, 4, 1 }
#define MATRIX \
    { 1, 1, 7, 6 }
#define BESIDE \
    { 1, 1, 7, 1 }
#define VECTOR \
    { 1, 1, 1, 6 }

static void row_operations_have_their_sizes_or_errors(void **state) {
    (void)state;
    static const struct shaping cases[] = {
        {"sin", {STACK}, {.axis = 0}, "2 x 3 x 4 x 6"},
        {"gelu_backward", {STACK, VECTOR}, {.axis = 0}, "2 x 3 x 4 x 6"},
        {"silu_backward",
         {STACK, BESIDE},
         {.axis = 0},
         "cannot silu_backward 'x' (2 x 3 x 4 x 6) and 'y' (7 x 1): rows 4 and 7 differ"},
        {"argmin", {STACK}, {.axis = 0}, "2 x 3 x 4 x 1"},
        {"argmin",
         {{1, 1, 1, 16777217}},
         {.axis = 0},
         "'x' has 16777217 columns: no more than 16777216 can be counted"},
        {"sort", {STACK}, {.axis = 0}, "2 x 3 x 4 x 6"},
        {"sort",
         {{1, 1, 1, INT64_C(4294967296)}},
         {.axis = 0},
         "cannot sort rows of 'x': they have 4294967296 elements, more than 4294967295"},
        {"argsort", {STACK}, {.axis = 0}, "2 x 3 x 4 x 6"},
        {"argsort",
         {{1, 1, 1, 16777217}},
         {.axis = 0},
         "'x' has 16777217 columns: no more than 16777216 can be counted"},
        {"cumsum", {STACK}, {.axis = 0}, "2 x 3 x 4 x 6"},
        {"rope", {MATRIX}, {.base = 10, .scale = -1}, "7 x 6"},
        {"one_hot", {COLUMN}, {.count = 9}, "2 x 3 x 4 x 9"},
        {"one_hot", {STACK}, {.count = 9}, "one_hot takes a column, 'x' has 6"},
        {"one_hot", {COLUMN}, {.count = 0}, "one_hot of 0 classes: expected 1 to 16777216"},
        {"one_hot",
         {COLUMN},
         {.count = 16777217},
         "one_hot of 16777217 classes: expected 1 to 16777216"},
        {"cross_entropy", {STACK, COLUMN}, {.axis = 0}, "2 x 3 x 4 x 1"},
        {"cross_entropy",
         {MATRIX, {1, 1, 1, 7}},
         {.axis = 0},
         "cannot apply cross_entropy to 'x' (7 x 6) and 'y' (1 x 7): the second must be a column "
         "beside it"},
        {"cross_entropy", {MATRIX}, {.axis = 0}, "cross_entropy takes 2 operands, not 1"},
        {"cross_entropy",
         {{1, 1, 1, 16777217}, {1, 1, 1, 1}},
         {.axis = 0},
         "'x' has 16777217 columns: no more than 16777216 can be counted"},
    };
    check_shapings(cases, sizeof cases / sizeof *cases, shape_row);
}

static void gradients_of_row_operations_have_their_sizes_or_errors(void **state) {
    (void)state;
    static const struct shaping cases[] = {
        {"cross_entropy_backward", {STACK, COLUMN, COLUMN}, {.axis = 0}, "2 x 3 x 4 x 6"},
        {"cross_entropy_backward",
         {MATRIX, BESIDE, VECTOR},
         {.axis = 0},
         "cannot apply cross_entropy_backward to 'x' (7 x 6) and 'z' (1 x 6): the second must be a "
         "column beside it"},
        {"sort_backward", {STACK, STACK}, {.axis = 0}, "2 x 3 x 4 x 6"},
        {"sort_backward",
         {STACK, VECTOR},
         {.axis = 0},
         "cannot apply sort_backward to 'x' (2 x 3 x 4 x 6) and 'y' (1 x 6): sizes differ"},
        {"softmax_backward", {STACK, STACK}, {.axis = 0}, "2 x 3 x 4 x 6"},
        {"softmax_backward",
         {STACK, MATRIX},
         {.axis = 0},
         "cannot apply softmax_backward to 'x' (2 x 3 x 4 x 6) and 'y' (7 x 6): sizes differ"},
        {"softmax_backward",
         {MATRIX, MATRIX, VECTOR},
         {.axis = 0},
         "softmax_backward takes 2 operands, not 3"},
        {"rms_norm_backward", {STACK, STACK}, {.axis = 0}, "2 x 3 x 4 x 6"},
        {"rms_norm_backward", {STACK, STACK, VECTOR}, {.axis = 0}, "2 x 3 x 4 x 6"},
        {"rms_norm_backward",
         {MATRIX, VECTOR},
         {.axis = 0},
         "cannot apply rms_norm_backward to 'x' (7 x 6) and 'y' (1 x 6): sizes differ"},
        {"layer_norm_backward",
         {MATRIX, MATRIX, BESIDE},
         {.axis = 0},
         "cannot apply layer_norm_backward to 'x' (7 x 6) and 'z' (7 x 1): 'z' must be 1 x 6"},
        {"sum_at", {MATRIX, BESIDE}, {.axis = -2, .count = 11}, "11 x 6"},
        {"sum_at",
         {MATRIX, VECTOR},
         {.axis = -2, .count = 11},
         "cannot sum_at 'x' (7 x 6) and 'y' (1 x 6): expected one matrix and a column beside it"},
        {"sum_at",
         {STACK, COLUMN},
         {.axis = -2, .count = 11},
         "cannot sum_at 'x' (2 x 3 x 4 x 6) and 'y' (2 x 3 x 4 x 1): expected one matrix and a "
         "column beside it"},
        {"sum_at",
         {MATRIX, BESIDE},
         {.axis = -1, .count = 11},
         "cannot sum_at 'x' (7 x 6) and 'y' (7 x 1): axis -2 and 1 to 16777216 rows are possible"},
        {"sum_at",
         {MATRIX, BESIDE},
         {.axis = -2},
         "cannot sum_at 'x' (7 x 6) and 'y' (7 x 1): axis -2 and 1 to 16777216 rows are possible"},
        {"sum", {STACK}, {.axis = -3}, "cannot sum 'x' along axis -3: expected -1 or -2"},
    };
    check_shapings(cases, sizeof cases / sizeof *cases, shape_row);
}

static void composites_have_their_sizes_or_errors(void **state) {
    (void)state;
    static const struct shaping cases[] = {
        {"sum", {STACK}, {.axis = -3}, "2 x 1 x 4 x 6"},
        {"max", {STACK}, {.axis = -4}, "3 x 4 x 6"},
        {"mean", {STACK}, {.axis = 0}, "1 x 1"},
        {"min", {STACK}, {.axis = -5}, "cannot min along axis -5: expected -4 to -1"},
        {"var", {STACK}, {.axis = -1}, "2 x 3 x 4 x 1"},
        {"std", {MATRIX}, {.axis = 0}, "1 x 1"},
        {"std", {MATRIX}, {.axis = 1}, "cannot std along axis 1: expected -4 to -1"},
        {"cumsum", {STACK}, {.axis = -4}, "2 x 3 x 4 x 6"},
        {"cumsum", {STACK}, {.axis = 0}, "cannot cumsum along axis 0: expected -4 to -1"},
        {"sort", {STACK}, {.axis = -3}, "2 x 3 x 4 x 6"},
        {"argsort", {MATRIX}, {.axis = -2, .descending = true}, "7 x 6"},
        {"argsort", {MATRIX}, {.axis = 1}, "cannot argsort along axis 1: expected -4 to -1"},
        {"one_hot", {{1, 2, 3, 4}}, {.count = 5}, "2 x 3 x 4 x 5"},
        {"one_hot", {MATRIX}, {.count = 5}, "7 x 6 x 5"},
        {"one_hot",
         {STACK},
         {.count = 5},
         "cannot one_hot 'x': it has four axes, expected 3 at most"},
        {"one_hot", {MATRIX}, {.count = 0}, "one_hot of 0 classes: expected 1 to 16777216"},
        {"cross_entropy", {STACK, {1, 2, 3, 4}}, {.axis = 0}, "1 x 1"},
        {"cross_entropy", {STACK, COLUMN}, {.axis = 0}, "1 x 1"},
        {"cross_entropy",
         {MATRIX, VECTOR},
         {.axis = 0},
         "cross_entropy of 'x' (7 x 6) by 'y' (1 x 6): expected an index per row"},
        {"cross_entropy", {MATRIX}, {.axis = 0}, "cross_entropy takes 2 operands, not 1"},
        {"add_at", {MATRIX, {1, 1, 1, 24}, {1, 1, 24, 6}}, {.axis = 0}, "7 x 6"},
        {"add_at", {MATRIX, {1, 2, 3, 4}, STACK}, {.axis = 0}, "7 x 6"},
        {"add_at",
         {MATRIX, BESIDE, STACK},
         {.axis = 0},
         "add_at of 'z' (2 x 3 x 4 x 6) by 'y' (7 x 1): expected an index per row"},
        {"add_at",
         {MATRIX, BESIDE, BESIDE},
         {.axis = 0},
         "cannot add rows of 'z' to 'x': expected one matrix with 1 columns"},
        {"mse", {STACK, STACK}, {.axis = 0}, "1 x 1"},
        {"mse",
         {MATRIX, VECTOR},
         {.axis = 0},
         "cannot apply mse to 'x' (7 x 6) and 'y' (1 x 6): sizes differ"},
        {"binary_cross_entropy", {MATRIX, MATRIX}, {.axis = 0}, "1 x 1"},
        {"binary_cross_entropy",
         {MATRIX, BESIDE},
         {.axis = 0},
         "cannot apply binary_cross_entropy to 'x' (7 x 6) and 'y' (7 x 1): sizes differ"},
        {"stop_gradient", {STACK}, {.axis = 0}, "2 x 3 x 4 x 6"},
        {"dropout", {STACK}, {.numbers = {0, 0.5, 1, 1}}, "2 x 3 x 4 x 6"},
        {"dropout", {STACK}, {.numbers = {0, 0, 1, 1}}, "2 x 3 x 4 x 6"},
        {"dropout",
         {STACK},
         {.numbers = {0, 1, 1, 1}},
         "dropout of 1: expected at least 0, and less than 1"},
        {"dropout",
         {STACK},
         {.numbers = {0, 0.5, -1, 1}},
         "dropout: seed and turn are whole numbers from 0 on"},
        {"dropout",
         {STACK},
         {.numbers = {0, 0.5, 1, 0.5}},
         "dropout: seed and turn are whole numbers from 0 on"},
        {"dropout", {STACK, STACK}, {.numbers = {0}}, "dropout takes a value, then numbers"},
    };
    check_shapings(cases, sizeof cases / sizeof *cases, shape_composite);
}

// Values of the program: bools, floats, indices.
enum { BOOLS, FLOATS, INDICES };

static void bools_stay_bools_in_some_operations(void **state) {
    (void)state;
    static const struct {
        const char *operation;
        int operands[3], count;
        struct mmul_parameters with;
        bool is_bool;
    } cases[] = {
        {"less", {FLOATS, FLOATS}, 2, {.axis = 0}, true},
        {"transpose", {BOOLS}, 1, {.axis = 0}, true},
        {"transpose", {FLOATS}, 1, {.axis = 0}, false},
        {"concat", {BOOLS, BOOLS}, 2, {.axis = -1}, true},
        {"concat", {BOOLS, FLOATS}, 2, {.axis = -1}, false},
        {"take", {BOOLS, INDICES}, 2, {.axis = 0}, true},
        {"take", {FLOATS, INDICES}, 2, {.axis = 0}, false},
        {"multiply", {BOOLS, BOOLS}, 2, {.axis = 0}, true},
        {"multiply", {BOOLS, FLOATS}, 2, {.axis = 0}, false},
        {"multiply", {BOOLS, MMUL_NUMBER}, 2, {.numbers = {0, 2}}, false},
        {"add", {BOOLS, BOOLS}, 2, {.axis = 0}, false},
        {"subtract", {MMUL_NUMBER, BOOLS}, 2, {.numbers = {1}}, true},
        {"subtract", {BOOLS, MMUL_NUMBER}, 2, {.numbers = {0, 1}}, false},
        {"where", {FLOATS, BOOLS, MMUL_NUMBER}, 3, {.numbers = {0, 0, 1}}, true},
        {"where", {BOOLS, MMUL_NUMBER, MMUL_NUMBER}, 3, {.numbers = {0, 0, 1}}, false},
        {"where", {BOOLS, FLOATS, BOOLS}, 3, {.axis = 0}, false},
        {"max", {BOOLS}, 1, {.axis = -1}, true},
        {"sum", {BOOLS}, 1, {.axis = -1}, false},
        {"stop_gradient", {BOOLS}, 1, {.axis = 0}, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mmul_program *p = NULL;
        struct mmul_error err;
        int value = -1;
        assert_int_equal(mmul_program_create(&p, &err), MMUL_OK);
        const struct mmul_operation bools = {
            .kind = MMUL_LOAD, .shape = {1, 1, 4, 4}, .is_integer = true, .is_bool = true};
        assert_int_equal(mmul_program_append(p, &bools, "bools", NULL, &err), MMUL_OK);
        load(p, "floats", (struct mmul_shape){1, 1, 4, 4});
        load(p, "indices", (struct mmul_shape){1, 1, 1, 4});
        struct mmul_call call = {.operation = cases[i].operation,
                                 .operand_count = cases[i].count,
                                 .with = cases[i].with};
        memcpy(call.operands, cases[i].operands, sizeof cases[i].operands);
        assert_int_equal(mmul_program_apply(p, &call, NULL, &value, &err), MMUL_OK);
        if (mmul_program_is_bool(p, value) != cases[i].is_bool)
            fail_msg("case %zu: %s", i, cases[i].operation);
        mmul_program_destroy(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(row_operations_have_their_sizes_or_errors, assert_no_live_bytes),
        cmocka_unit_test_teardown(gradients_of_row_operations_have_their_sizes_or_errors,
                                  assert_no_live_bytes),
        cmocka_unit_test_teardown(composites_have_their_sizes_or_errors, assert_no_live_bytes),
        cmocka_unit_test_teardown(bools_stay_bools_in_some_operations, assert_no_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
