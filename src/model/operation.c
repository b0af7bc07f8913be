// SPDX-License-Identifier: MIT
// The table of operations. Shapes, and the conditions of rules, are in operation_shapes.c. The plan
// chooses among the rules.
#include "model/operation.h"

#include <string.h>

#include "model/matrix.h"

#define FILED    MMUL_PLACE_FILE
#define ROWS     MMUL_PLACE_ROWS
#define COLS     MMUL_PLACE_COLS
#define GRID     MMUL_PLACE_GRID
#define WHOLE    MMUL_PLACE_REPLICATE
#define SUMMANDS MMUL_PLACE_PARTIAL
#define GROWS    MMUL_PLACE_GRID_ROWS
#define GCOLS    MMUL_PLACE_GRID_COLS

static const struct mmul_rule LOAD[] = {{{0}, FILED}};
static const struct mmul_rule GENERATE[] = {{{0}, ROWS}, {{0}, COLS}, {{0}, GRID}, {{0}, WHOLE}};
static const struct mmul_rule MATMUL[] = {
    {{ROWS, WHOLE}, ROWS},  {{WHOLE, COLS}, COLS},  {{COLS, ROWS}, SUMMANDS},
    {{WHOLE, WHOLE}, ROWS}, {{WHOLE, WHOLE}, COLS}, {{WHOLE, WHOLE}, WHOLE},
    {{GROWS, GCOLS}, GRID}, {{ROWS, ROWS}, ROWS},   {{WHOLE, ROWS}, ROWS}};
static const struct mmul_rule TRANSPOSE[] = {
    {{ROWS}, COLS}, {{COLS}, ROWS}, {{WHOLE}, WHOLE}, {{SUMMANDS}, SUMMANDS}, {{ROWS}, ROWS}};
static const struct mmul_rule SAVE[] = {{{FILED}, FILED}};
static const struct mmul_rule KEPT[] = {{{0}, ROWS}, {{0}, COLS}, {{0}, WHOLE}, {{0}, SUMMANDS}};
static const struct mmul_rule KEEP[] = {{{ROWS}, ROWS}, {{COLS}, COLS}, {{WHOLE}, WHOLE}};

static const struct mmul_rule SAME[] = {{{ROWS}, ROWS},   {{COLS}, COLS},         {{GRID}, GRID},
                                        {{WHOLE}, WHOLE}, {{SUMMANDS}, SUMMANDS}, {{GROWS}, GROWS},
                                        {{GCOLS}, GCOLS}};
enum { SAME_COMPUTED = 4, SAME_ALL = 7 }; // computing skips summands, copies

// Rules for two values; the last row is for linear operations: add, subtract.
static const struct mmul_rule PAIR[] = {
    {{ROWS, ROWS}, ROWS},    {{COLS, COLS}, COLS},   {{GRID, GRID}, GRID},
    {{WHOLE, WHOLE}, WHOLE}, {{ROWS, WHOLE}, ROWS},  {{WHOLE, ROWS}, ROWS},
    {{COLS, WHOLE}, COLS},   {{WHOLE, COLS}, COLS},  {{GRID, WHOLE}, GRID},
    {{WHOLE, GRID}, GRID},   {{WHOLE, WHOLE}, ROWS}, {{SUMMANDS, SUMMANDS}, SUMMANDS}};
enum { PAIR_COMPUTED = 11, PAIR_ALL = 12 };

#define THREE(KIND)                                                                                \
    {{KIND, KIND, KIND}, KIND}, {{KIND, KIND, WHOLE}, KIND}, {{KIND, WHOLE, KIND}, KIND},          \
        {{KIND, WHOLE, WHOLE}, KIND}, {{WHOLE, KIND, KIND}, KIND}, {{WHOLE, KIND, WHOLE}, KIND}, { \
        {WHOLE, WHOLE, KIND}, KIND                                                                 \
    }
static const struct mmul_rule TRIPLE[] = {
    THREE(ROWS), THREE(COLS), {{WHOLE, WHOLE, WHOLE}, WHOLE}, {{WHOLE, WHOLE, WHOLE}, ROWS}};

static const struct mmul_rule BY_ROW[] = {{{ROWS, WHOLE, WHOLE, WHOLE}, ROWS},
                                          {{WHOLE, WHOLE, WHOLE, WHOLE}, WHOLE},
                                          {{WHOLE, WHOLE, WHOLE, WHOLE}, ROWS}};
static const struct mmul_rule BY_TWO_ROWS[] = {
    {{ROWS, ROWS, WHOLE}, ROWS}, {{WHOLE, WHOLE, WHOLE}, WHOLE}, {{WHOLE, WHOLE, WHOLE}, ROWS}};
static const struct mmul_rule BY_THREE_ROWS[] = {
    {{ROWS, ROWS, ROWS}, ROWS}, {{WHOLE, WHOLE, WHOLE}, WHOLE}, {{WHOLE, WHOLE, WHOLE}, ROWS}};
// Rules along an axis; summands if the axis is split.
static const struct mmul_rule ALONG_AXIS[] = {
    {{ROWS}, ROWS}, {{COLS}, COLS}, {{WHOLE}, WHOLE}, {{WHOLE}, ROWS}};
static const struct mmul_rule SUM_ALONG_AXIS[] = {
    {{ROWS}, ROWS},     {{COLS}, COLS},     {{WHOLE}, WHOLE},      {{WHOLE}, ROWS},
    {{ROWS}, SUMMANDS}, {{COLS}, SUMMANDS}, {{SUMMANDS}, SUMMANDS}};
static const struct mmul_rule SUM_AT[] = {{{ROWS, ROWS}, SUMMANDS},
                                          {{COLS, WHOLE}, COLS},
                                          {{WHOLE, WHOLE}, WHOLE},
                                          {{WHOLE, WHOLE}, ROWS}};
static const struct mmul_rule COPY[] = {{{ROWS, ROWS}, ROWS},
                                        {{WHOLE, WHOLE}, WHOLE},
                                        {{WHOLE, WHOLE}, ROWS},
                                        {{SUMMANDS, SUMMANDS}, SUMMANDS}};
// From a file only the requested elements are read.
static const struct mmul_rule SLICE[] = {
    {{ROWS}, ROWS}, {{WHOLE}, WHOLE}, {{WHOLE}, ROWS}, {{SUMMANDS}, SUMMANDS}, {{FILED}, FILED}};
static const struct mmul_rule LOOKUP[] = {{{WHOLE, ROWS}, ROWS},
                                          {{WHOLE, COLS}, ROWS},
                                          {{WHOLE, WHOLE}, WHOLE},
                                          {{WHOLE, WHOLE}, ROWS},
                                          {{FILED, FILED}, FILED}};
static const struct mmul_rule ATTENTION[] = {
    {{ROWS, ROWS, ROWS, WHOLE}, ROWS},     {{ROWS, ROWS, ROWS, ROWS}, ROWS},
    {{ROWS, WHOLE, WHOLE, WHOLE}, ROWS},   {{ROWS, WHOLE, WHOLE, ROWS}, ROWS},
    {{WHOLE, WHOLE, WHOLE, WHOLE}, WHOLE}, {{WHOLE, WHOLE, WHOLE, WHOLE}, ROWS}};

// Rules by rows of queries: attention_sums (q, k, y, dy, mask), gradients by q and the mask (q, k,
// v, dy, sums, mask). Rules by rows of keys: gradients by k and v.
static const struct mmul_rule QUERY_SUMS[] = {
    {{ROWS, ROWS, ROWS, ROWS, WHOLE}, ROWS},      {{ROWS, ROWS, ROWS, ROWS, ROWS}, ROWS},
    {{ROWS, WHOLE, ROWS, ROWS, WHOLE}, ROWS},     {{ROWS, WHOLE, ROWS, ROWS, ROWS}, ROWS},
    {{WHOLE, WHOLE, WHOLE, WHOLE, WHOLE}, WHOLE}, {{WHOLE, WHOLE, WHOLE, WHOLE, WHOLE}, ROWS}};
#define IN_GROUPS                                    \
    {{ROWS, ROWS, ROWS, ROWS, ROWS, WHOLE}, ROWS}, { \
        {ROWS, ROWS, ROWS, ROWS, ROWS, ROWS}, ROWS   \
    }
#define ALL_WHOLE                                          \
    {{WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, WHOLE}, WHOLE}, { \
        {WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, WHOLE}, ROWS   \
    }
static const struct mmul_rule BY_QUERY[] = {IN_GROUPS,
                                            {{ROWS, WHOLE, WHOLE, ROWS, ROWS, WHOLE}, ROWS},
                                            {{ROWS, WHOLE, WHOLE, ROWS, ROWS, ROWS}, ROWS},
                                            ALL_WHOLE};
static const struct mmul_rule BY_KEY[] = {
    IN_GROUPS, {{WHOLE, ROWS, ROWS, WHOLE, WHOLE, WHOLE}, ROWS}, ALL_WHOLE};

static const struct mmul_rule SEARCH[] = {
    {{ROWS, WHOLE}, ROWS}, {{WHOLE, WHOLE}, WHOLE}, {{WHOLE, WHOLE}, ROWS}};

#define RULES(table) .rules = (table), .rule_count = (int)(sizeof(table) / sizeof *(table))

// Row of an operation with a result; its rules and other members follow the named ones.
#define MADE(KIND, NAME, CLASS, LEAST, MOST, SHAPE, FLOPS, ACCURACY, ...) \
    [KIND] = {.name = (NAME),                                             \
              .class = (CLASS),                                           \
              .least = (LEAST),                                           \
              .most = (MOST),                                             \
              .has_result = true,                                         \
              .accuracy = (ACCURACY),                                     \
              .shape = (SHAPE),                                           \
              .flops_each = (FLOPS),                                      \
              __VA_ARGS__}
#define ONE(KIND, NAME, FLOPS, ACCURACY)                                                 \
    MADE(KIND, NAME, MMUL_CLASS_ELEMENTS, 1, 1, mmul_shape_of_elements, FLOPS, ACCURACY, \
         .rules = SAME, .rule_count = SAME_COMPUTED)
#define TWO(KIND, NAME, COUNT, ACCURACY)                                             \
    MADE(KIND, NAME, MMUL_CLASS_ELEMENTS, 2, 2, mmul_shape_of_elements, 1, ACCURACY, \
         .rules = PAIR, .rule_count = (COUNT))
#define ROW(KIND, NAME, MOST, SHAPE, FLOPS, ACCURACY) \
    MADE(KIND, NAME, MMUL_CLASS_ROWS, 1, MOST, SHAPE, FLOPS, ACCURACY, .by_row = 1, RULES(BY_ROW))
// Operands: x, the result's gradient, weights.
#define ROW_BACKWARD(KIND, NAME, MOST, FLOPS, ACCURACY)                                      \
    MADE(KIND, NAME, MMUL_CLASS_ROWS, 2, MOST, mmul_shape_of_rows_backward, FLOPS, ACCURACY, \
         .by_row = 2, RULES(BY_TWO_ROWS))
#define PICK(KIND, NAME, SHAPE)                                                               \
    MADE(KIND, NAME, MMUL_CLASS_ROWS, 1, 1, SHAPE, 1, MMUL_EXACT, .by_row = 1, RULES(BY_ROW), \
         .picks = true, .has_integers = true)
#define REDUCTION(KIND, NAME, TABLE, ACCURACY) \
    MADE(KIND, NAME, MMUL_CLASS_REDUCE, 1, 1, mmul_shape_of_reduction, 1, ACCURACY, RULES(TABLE))
// Operands: q, k, v, the result's gradient, attention_sums, the mask.
#define ATTENTION_BACKWARD(KIND, NAME, PRODUCTS, PARTS, TABLE)                               \
    MADE(KIND, NAME, MMUL_CLASS_ATTENTION, 5, 6, mmul_shape_of_attention_backward, PRODUCTS, \
         MMUL_CANCELS_IN_ATTENTION, RULES(TABLE), .parts = (PARTS))
#define COPIED(KIND, NAME, MOST, SHAPE, TABLE) \
    MADE(KIND, NAME, MMUL_CLASS_COPY, MOST, MOST, SHAPE, 1, MMUL_EXACT, RULES(TABLE))

static const struct mmul_operation_row TABLE[] = {
    [MMUL_LOAD] = {.name = "load", .has_result = true, RULES(LOAD)},
    [MMUL_GENERATE] = {.name = "generate", .has_result = true, .flops_each = 1, RULES(GENERATE)},
    MADE(MMUL_MATMUL, "matmul", MMUL_CLASS_OWN, MMUL_FACTORS, MMUL_FACTORS, mmul_shape_of_matmul, 2,
         MMUL_UNCHECKED, RULES(MATMUL)),
    MADE(MMUL_TRANSPOSE, "transpose", MMUL_CLASS_OWN, 1, 1, mmul_shape_of_transpose, 0,
         MMUL_UNCHECKED, RULES(TRANSPOSE), .is_view = true),
    MADE(MMUL_PLACE, "place", MMUL_CLASS_OWN, 1, 1, NULL, 0, MMUL_UNCHECKED, .rules = SAME,
         .rule_count = SAME_ALL, .is_view = true),
    [MMUL_SAVE] = {.name = "save", .least = 1, .most = 1, RULES(SAVE)},
    [MMUL_LOAD_PERSISTENT] = {.name = "kept", .has_result = true, RULES(KEPT)},
    [MMUL_SAVE_PERSISTENT] = {.name = "keep", .least = 1, .most = 1, RULES(KEEP)},
    ONE(MMUL_NEGATE, "neg", 1, MMUL_EXACT),
    ONE(MMUL_EXP, "exp", 10, MMUL_ROUNDED),
    ONE(MMUL_LOG, "log", 10, MMUL_ROUNDED),
    ONE(MMUL_LOG1P, "log1p", 12, MMUL_ROUNDED),
    ONE(MMUL_SQRT, "sqrt", 1, MMUL_ROUNDED),
    ONE(MMUL_RSQRT, "rsqrt", 2, MMUL_ROUNDED),
    ONE(MMUL_ABS, "abs", 1, MMUL_EXACT),
    ONE(MMUL_RELU, "relu", 1, MMUL_EXACT),
    ONE(MMUL_SIGMOID, "sigmoid", 12, MMUL_ROUNDED),
    ONE(MMUL_TANH, "tanh", 15, MMUL_ROUNDED),
    ONE(MMUL_SILU, "silu", 13, MMUL_ROUNDED),
    ONE(MMUL_GELU, "gelu", 20, MMUL_CANCELS),
    ONE(MMUL_GELU_TANH, "gelu_tanh", 20, MMUL_CANCELS),
    ONE(MMUL_SIN, "sin", 15, MMUL_CANCELS),
    ONE(MMUL_COS, "cos", 15, MMUL_CANCELS),
    ONE(MMUL_ERF, "erf", 20, MMUL_ROUNDED),
    ONE(MMUL_ARCTAN, "arctan", 12, MMUL_ROUNDED),
    ONE(MMUL_EXPM1, "expm1", 12, MMUL_ROUNDED),
    ONE(MMUL_FLOOR, "floor", 1, MMUL_EXACT),
    ONE(MMUL_ROUND, "round", 1, MMUL_EXACT),
    TWO(MMUL_ADD, "add", PAIR_ALL, MMUL_ROUNDED),
    TWO(MMUL_SUBTRACT, "subtract", PAIR_ALL, MMUL_ROUNDED),
    TWO(MMUL_MULTIPLY, "multiply", PAIR_COMPUTED, MMUL_ROUNDED),
    TWO(MMUL_DIVIDE, "divide", PAIR_COMPUTED, MMUL_ROUNDED),
    TWO(MMUL_FLOOR_DIVIDE, "floor_divide", PAIR_COMPUTED, MMUL_ROUNDED),
    TWO(MMUL_REMAINDER, "remainder", PAIR_COMPUTED, MMUL_ROUNDED),
    TWO(MMUL_POWER, "power", PAIR_COMPUTED, MMUL_ROUNDED),
    TWO(MMUL_MAXIMUM, "maximum", PAIR_COMPUTED, MMUL_EXACT),
    TWO(MMUL_MINIMUM, "minimum", PAIR_COMPUTED, MMUL_EXACT),
    TWO(MMUL_EQUAL, "equal", PAIR_COMPUTED, MMUL_EXACT),
    TWO(MMUL_NOT_EQUAL, "not_equal", PAIR_COMPUTED, MMUL_EXACT),
    TWO(MMUL_LESS, "less", PAIR_COMPUTED, MMUL_EXACT),
    TWO(MMUL_LESS_EQUAL, "less_equal", PAIR_COMPUTED, MMUL_EXACT),
    TWO(MMUL_GREATER, "greater", PAIR_COMPUTED, MMUL_EXACT),
    TWO(MMUL_GREATER_EQUAL, "greater_equal", PAIR_COMPUTED, MMUL_EXACT),
    TWO(MMUL_SILU_BACKWARD, "silu_backward", PAIR_COMPUTED, MMUL_CANCELS),
    TWO(MMUL_GELU_BACKWARD, "gelu_backward", PAIR_COMPUTED, MMUL_CANCELS),
    TWO(MMUL_GELU_TANH_BACKWARD, "gelu_tanh_backward", PAIR_COMPUTED, MMUL_CANCELS),
    TWO(MMUL_MULTIPLY_BACKWARD, "multiply_backward", PAIR_COMPUTED, MMUL_ROUNDED),
    TWO(MMUL_DIVIDE_BACKWARD, "divide_backward", PAIR_COMPUTED, MMUL_ROUNDED),
    MADE(MMUL_WHERE, "where", MMUL_CLASS_ELEMENTS, 3, 3, mmul_shape_of_elements, 1, MMUL_EXACT,
         RULES(TRIPLE)),
    ROW(MMUL_SOFTMAX, "softmax", 1, NULL, 12, MMUL_ROUNDED_EXP),
    ROW(MMUL_RMS_NORM, "rms_norm", 2, mmul_shape_of_norm, 4, MMUL_ROUNDED),
    ROW(MMUL_LAYER_NORM, "layer_norm", 3, mmul_shape_of_norm, 6, MMUL_CANCELS_IN_NORMS),
    ROW(MMUL_NORMALIZE, "normalize", 1, NULL, 3, MMUL_ROUNDED),
    MADE(MMUL_TOPK, "topk", MMUL_CLASS_ROWS, 1, 1, mmul_shape_of_topk, 4, MMUL_EXACT, .by_row = 1,
         RULES(BY_ROW), .picks = true),
    PICK(MMUL_ARGMAX, "argmax", mmul_shape_of_argmax),
    PICK(MMUL_ARGMIN, "argmin", mmul_shape_of_argmax),
    ROW(MMUL_SORT, "sort", 1, mmul_shape_of_sort, 20, MMUL_EXACT),
    MADE(MMUL_ARGSORT, "argsort", MMUL_CLASS_ROWS, 1, 1, mmul_shape_of_argmax, 20, MMUL_EXACT,
         .by_row = 1, RULES(BY_ROW), .has_integers = true),
    ROW(MMUL_ROPE, "rope", 1, mmul_shape_of_rope, 8, MMUL_ROUNDED),
    ROW(MMUL_CUMSUM, "cumsum", 1, NULL, 1, MMUL_CANCELS_IN_SUMS),
    MADE(MMUL_ONE_HOT, "one_hot", MMUL_CLASS_ROWS, 1, 1, mmul_shape_of_one_hot, 1, MMUL_EXACT,
         .by_row = 1, RULES(BY_ROW), .picks = true, .indices = 1),
    MADE(MMUL_CROSS_ENTROPY, "cross_entropy", MMUL_CLASS_ROWS, 2, 2, mmul_shape_of_cross_entropy,
         12, MMUL_CANCELS, .by_row = 2, RULES(BY_TWO_ROWS), .picks = true, .indices = 2),
    MADE(MMUL_SORT_BACKWARD, "sort_backward", MMUL_CLASS_ROWS, 2, 2, mmul_shape_of_rows_backward, 1,
         MMUL_EXACT, .by_row = 2, RULES(BY_TWO_ROWS), .indices = 2),
    ROW_BACKWARD(MMUL_SOFTMAX_BACKWARD, "softmax_backward", 2, 4, MMUL_CANCELS_IN_SUMS),
    MADE(MMUL_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward", MMUL_CLASS_ROWS, 3, 3,
         mmul_shape_of_cross_entropy, 14, MMUL_CANCELS, .by_row = 3, RULES(BY_THREE_ROWS),
         .indices = 2),
    ROW_BACKWARD(MMUL_RMS_NORM_BACKWARD, "rms_norm_backward", 3, 8, MMUL_CANCELS_IN_NORMS),
    ROW_BACKWARD(MMUL_LAYER_NORM_BACKWARD, "layer_norm_backward", 3, 12, MMUL_CANCELS_IN_NORMS),
    REDUCTION(MMUL_SUM, "sum", SUM_ALONG_AXIS, MMUL_CANCELS_IN_SUMS),
    REDUCTION(MMUL_MEAN, "mean", SUM_ALONG_AXIS, MMUL_CANCELS),
    REDUCTION(MMUL_MAX, "max", ALONG_AXIS, MMUL_EXACT),
    REDUCTION(MMUL_MIN, "min", ALONG_AXIS, MMUL_EXACT),
    MADE(MMUL_SUM_AT, "sum_at", MMUL_CLASS_REDUCE, 2, 2, mmul_shape_of_sum_at, 1,
         MMUL_CANCELS_IN_SUMS, RULES(SUM_AT), .indices = 2),
    COPIED(MMUL_SLICE, "slice", 1, mmul_shape_of_slice, SLICE),
    COPIED(MMUL_RESHAPE, "reshape", 1, mmul_shape_of_reshape, COPY),
    COPIED(MMUL_PERMUTE, "permute", 1, mmul_shape_of_permute, COPY),
    COPIED(MMUL_CONCAT, "concat", 2, mmul_shape_of_concat, COPY),
    MADE(MMUL_TAKE, "take", MMUL_CLASS_LOOKUP, 2, 2, mmul_shape_of_take, 1, MMUL_EXACT,
         RULES(LOOKUP)),
    MADE(MMUL_ATTENTION, "attention", MMUL_CLASS_ATTENTION, 3, 4, mmul_shape_of_attention, 2,
         MMUL_ROUNDED_EXP, RULES(ATTENTION), .parts = "racr"),
    MADE(MMUL_ATTENTION_SUMS, "attention_sums", MMUL_CLASS_ATTENTION, 4, 5,
         mmul_shape_of_attention_sums, 1, MMUL_CANCELS_IN_ATTENTION, RULES(QUERY_SUMS),
         .parts = "rarrr"),
    ATTENTION_BACKWARD(MMUL_ATTENTION_BACKWARD_Q, "attention_backward_q", 3, "raarrr", BY_QUERY),
    ATTENTION_BACKWARD(MMUL_ATTENTION_BACKWARD_K, "attention_backward_k", 3, "arraai", BY_KEY),
    ATTENTION_BACKWARD(MMUL_ATTENTION_BACKWARD_V, "attention_backward_v", 2, "arraai", BY_KEY),
    ATTENTION_BACKWARD(MMUL_ATTENTION_BACKWARD_MASK, "attention_backward_mask", 2, "raarrr",
                       BY_QUERY),
    MADE(MMUL_FUSED_TOPK, "matmul + topk", MMUL_CLASS_OWN, 2, 2, NULL, 2, MMUL_UNCHECKED,
         RULES(SEARCH)),
    ONE(MMUL_CAST, "cast", 1, MMUL_EXACT),
};

const struct mmul_operation_row *mmul_operation_row(enum mmul_operation_kind kind) {
    return &TABLE[kind];
}

static bool has_builder(enum mmul_operation_kind kind) {
    return kind == MMUL_LOAD || kind == MMUL_GENERATE || kind == MMUL_PLACE || kind == MMUL_SAVE ||
           kind == MMUL_CAST || kind == MMUL_FUSED_TOPK || kind == MMUL_LOAD_PERSISTENT ||
           kind == MMUL_SAVE_PERSISTENT;
}

const struct mmul_operation_row *mmul_operation_find(const char *name,
                                                     enum mmul_operation_kind *kind) {
    for (int k = 0; k < MMUL_OPERATION_KINDS; k++) {
        *kind = (enum mmul_operation_kind)k;
        if (!has_builder(*kind) && strcmp(TABLE[k].name, name) == 0)
            return &TABLE[k];
    }
    return NULL;
}

double mmul_operation_flops(enum mmul_operation_kind kind, const struct mmul_operation_call *call,
                            struct mmul_shape result) {
    const struct mmul_operation_row *row = &TABLE[kind];
    switch (row->class) {
    case MMUL_CLASS_REDUCE:
        return row->flops_each * mmul_shape_elements(call->operands[0].shape);
    // products of all queries by all keys: of q and k, or of v and a matrix like it
    case MMUL_CLASS_ATTENTION:
        return row->flops_each * mmul_shape_elements(call->operands[0].shape) *
               (double)call->operands[1].shape.rows *
               (1 + (double)call->operands[2].shape.cols / (double)call->operands[0].shape.cols);
    default:
        if (kind == MMUL_MATMUL || kind == MMUL_FUSED_TOPK) // includes the product
            result.cols = call->operands[1].shape.cols;
        return row->flops_each * mmul_shape_elements(result) *
               (kind == MMUL_MATMUL || kind == MMUL_FUSED_TOPK
                    ? (double)call->operands[0].shape.cols
                    : 1);
    }
}
