// SPDX-License-Identifier: MIT
// The table of operations: the rules, and the macros of the rows, which are in operations.def.
// Shapes, and the conditions of rules, are in operation_shapes.c. The plan chooses among the rules.
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
#define CYCLIC   MMUL_PLACE_CYCLIC

static const struct mmul_rule LOAD[] = {{{0}, FILED}};
static const struct mmul_rule GENERATE[] = {{{0}, ROWS}, {{0}, COLS}, {{0}, GRID}, {{0}, WHOLE}};
static const struct mmul_rule MATMUL[] = {{{ROWS, WHOLE}, ROWS},    {{WHOLE, COLS}, COLS},
                                          {{COLS, ROWS}, SUMMANDS}, {{WHOLE, WHOLE}, ROWS},
                                          {{WHOLE, WHOLE}, COLS},   {{WHOLE, WHOLE}, WHOLE},
                                          {{GROWS, GCOLS}, GRID},   {{ROWS, ROWS}, ROWS},
                                          {{WHOLE, ROWS}, ROWS},    {{WHOLE, CYCLIC}, CYCLIC}};
static const struct mmul_rule TRANSPOSE[] = {
    {{ROWS}, COLS}, {{COLS}, ROWS}, {{WHOLE}, WHOLE}, {{SUMMANDS}, SUMMANDS}, {{ROWS}, ROWS}};
static const struct mmul_rule SAVE[] = {{{FILED}, FILED}};
static const struct mmul_rule KEPT[] = {{{0}, ROWS}, {{0}, COLS}, {{0}, WHOLE}, {{0}, SUMMANDS}};
static const struct mmul_rule KEEP[] = {{{ROWS}, ROWS}, {{COLS}, COLS}, {{WHOLE}, WHOLE}};

static const struct mmul_rule SAME[] = {
    {{ROWS}, ROWS},     {{COLS}, COLS},         {{GRID}, GRID},   {{WHOLE}, WHOLE},
    {{CYCLIC}, CYCLIC}, {{SUMMANDS}, SUMMANDS}, {{GROWS}, GROWS}, {{GCOLS}, GCOLS}};
enum { SAME_COMPUTED = 5, SAME_ALL = 8 }; // computing skips summands, copies

// Rules for two values; the last row is for linear operations: add, subtract.
static const struct mmul_rule PAIR[] = {
    {{ROWS, ROWS}, ROWS},      {{COLS, COLS}, COLS},      {{GRID, GRID}, GRID},
    {{WHOLE, WHOLE}, WHOLE},   {{ROWS, WHOLE}, ROWS},     {{WHOLE, ROWS}, ROWS},
    {{COLS, WHOLE}, COLS},     {{WHOLE, COLS}, COLS},     {{GRID, WHOLE}, GRID},
    {{WHOLE, GRID}, GRID},     {{WHOLE, WHOLE}, ROWS},    {{CYCLIC, CYCLIC}, CYCLIC},
    {{CYCLIC, WHOLE}, CYCLIC}, {{WHOLE, CYCLIC}, CYCLIC}, {{SUMMANDS, SUMMANDS}, SUMMANDS}};
enum { PAIR_COMPUTED = 14, PAIR_ALL = 15 };

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

// Macros of the rows (operations.def). MADE: an operation with a result; its rules and other
// members follow the named ones.
#define OPERATION(KIND, ...) [MMUL_##KIND] = {__VA_ARGS__},
#define MADE(KIND, NAME, CLASS, LEAST, MOST, SHAPE, FLOPS, ACCURACY, ...)                          \
    OPERATION(KIND, .name = (NAME), .class = MMUL_CLASS_##CLASS, .least = (LEAST), .most = (MOST), \
              .has_result = true, .accuracy = MMUL_##ACCURACY, .shape = (SHAPE),                   \
              .flops_each = (FLOPS), __VA_ARGS__)
#define UNARY(KIND, NAME, FLOPS, ACCURACY, ...)                                               \
    MADE(KIND, #NAME, ELEMENTS, 1, 1, mmul_shape_of_elements, FLOPS, ACCURACY, .rules = SAME, \
         .rule_count = SAME_COMPUTED)
#define FUNCTION UNARY
#define BINARY(KIND, NAME, COUNT, FLOPS, ACCURACY, ...)                                       \
    MADE(KIND, #NAME, ELEMENTS, 2, 2, mmul_shape_of_elements, FLOPS, ACCURACY, .rules = PAIR, \
         .rule_count = (COUNT))
#define BINARY_OWN BINARY
#define ROW(KIND, NAME, MOST, SHAPE, FLOPS, ACCURACY) \
    MADE(KIND, NAME, ROWS, 1, MOST, SHAPE, FLOPS, ACCURACY, .by_row = 1, RULES(BY_ROW))
// Operands: x, the result's gradient, weights.
#define ROW_BACKWARD(KIND, NAME, MOST, FLOPS, ACCURACY)                                        \
    MADE(KIND, NAME, ROWS, 2, MOST, mmul_shape_of_rows_backward, FLOPS, ACCURACY, .by_row = 2, \
         RULES(BY_TWO_ROWS))
#define PICK(KIND, NAME, SHAPE)                                                              \
    MADE(KIND, NAME, ROWS, 1, 1, SHAPE, 1, EXACT, .by_row = 1, RULES(BY_ROW), .picks = true, \
         .has_integers = true)
#define REDUCTION(KIND, NAME, TABLE, ACCURACY) \
    MADE(KIND, NAME, REDUCE, 1, 1, mmul_shape_of_reduction, 1, ACCURACY, RULES(TABLE))
// Operands: q, k, v, the result's gradient, attention_sums, the mask.
#define ATTENTION_BACKWARD(KIND, NAME, PRODUCTS, PARTS, TABLE)                    \
    MADE(KIND, NAME, ATTENTION, 5, 6, mmul_shape_of_attention_backward, PRODUCTS, \
         CANCELS_IN_ATTENTION, RULES(TABLE), .parts = (PARTS))
#define COPIED(KIND, NAME, MOST, SHAPE, TABLE) \
    MADE(KIND, NAME, COPY, MOST, MOST, SHAPE, 1, EXACT, RULES(TABLE))

static const struct mmul_operation_row TABLE[] = {
#include "model/operations.def"
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
