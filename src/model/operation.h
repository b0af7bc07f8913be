// SPDX-License-Identifier: MIT
//
// The operations of programs, one row each: name, how many operands, the shape of the result, the
// work, and the rules: which placements of the operands give which placement of the result without
// moving anything. What an operation computes is written down in device/reference_map.c. A new
// operation is a row here, that, what faster devices have for it, and its gradient
// (model/gradient_rules.c). Pure.
//
//     load       a file (or memory) of root's: the value is there, until a reader wants it elsewhere
//     generate   by position: whoever holds a part makes it
//     matmul     rows x replicate -> rows, replicate x cols -> cols, cols x rows -> partial; where
//                both are whole, any of rows, cols, replicate; grid rows x grid cols -> grid: what
//                a grid of operands moves is theirs, along the rows and columns of the mesh (SUMMA);
//                of stacks in groups rows x rows -> rows; C_in is in a file
//     transpose  rows <-> cols: nothing moves, the part is read the other way round; in groups rows -> rows
//     place      same -> same: a wish of the program's
//     save       a move to a file of root's
//     cast       same -> same: between types that meet (model/program_rewrite.c)
//     kept       a set of shards that an earlier job has left on these ranks: rows or columns, as they are;
//                or what an earlier program holds in memory, which may be whole on every node
//     keep       left on the ranks as such a set, or held
//     elements   (add, exp, where, ...) same x same -> same; what repeats is replicated
//     rows       (softmax, layer_norm, topk, ...) rows -> rows; vectors are replicated
//     reduce     along what is whole rows -> rows, cols -> cols; sums along what is split -> partial
//                (sum_at: indices are split as the rows are that they say the place of)
//     copy       (reshape, permute, slice, concat) rows -> rows, where rows stay or in groups
//     take       the table replicated, indices rows (or cols) -> rows
//                (slice, take: of files -> file: it is read when somebody wants it elsewhere)
//     search     (a product's topk) rows x replicate -> rows
//     attention  q rows, k and v replicated, or in groups rows -> rows; gradients of k and v: rows of these
//
// Groups: a plan may split all values between groups of consecutive matrices, such as the texts of a batch, so
// that what has to do with one of them alone stays on its rank.
#pragma once

#include "model/placement.h"

enum mmul_operation_kind {
    MMUL_LOAD,
    MMUL_GENERATE,
    MMUL_MATMUL,
    MMUL_TRANSPOSE,
    MMUL_PLACE,
    MMUL_SAVE,
    MMUL_KEPT,
    MMUL_KEEP,
    // Element by element, of one value,
    MMUL_NEGATE,
    MMUL_EXP,
    MMUL_LOG,
    MMUL_LOG1P, // log(1 + x)
    MMUL_SQRT,
    MMUL_RSQRT,
    MMUL_ABS,
    MMUL_RELU,
    MMUL_SIGMOID,
    MMUL_TANH,
    MMUL_SILU,
    MMUL_GELU,
    MMUL_GELU_TANH,
    MMUL_SIN,
    MMUL_COS,
    MMUL_ERF,
    MMUL_ARCTAN,
    MMUL_EXPM1, // exp(x) - 1
    MMUL_FLOOR,
    MMUL_ROUND, // half to even
    // of two,
    MMUL_ADD,
    MMUL_SUBTRACT,
    MMUL_MULTIPLY,
    MMUL_DIVIDE,
    MMUL_FLOOR_DIVIDE,
    MMUL_REMAINDER,
    MMUL_POWER,
    MMUL_MAXIMUM,
    MMUL_MINIMUM,
    MMUL_EQUAL,
    MMUL_NOT_EQUAL,
    MMUL_LESS,
    MMUL_LESS_EQUAL,
    MMUL_GREATER,
    MMUL_GREATER_EQUAL,
    // (gradients: of x and that of the result)
    MMUL_SILU_BACKWARD,
    MMUL_GELU_BACKWARD,
    MMUL_GELU_TANH_BACKWARD,
    // (gradients: of the result's gradient and a factor; 0 where that gradient is 0)
    MMUL_MULTIPLY_BACKWARD,
    MMUL_DIVIDE_BACKWARD,
    // of three.
    MMUL_WHERE,
    // Row by row.
    MMUL_SOFTMAX,
    MMUL_RMS_NORM,
    MMUL_LAYER_NORM,
    MMUL_NORMALIZE,
    MMUL_TOPK,
    MMUL_ARGMAX,
    MMUL_ARGMIN,
    MMUL_SORT,
    MMUL_ARGSORT,
    MMUL_ROPE,
    MMUL_CUMSUM,
    MMUL_ONE_HOT,
    MMUL_CROSS_ENTROPY,
    // (gradients)
    MMUL_SORT_BACKWARD, // of the result, and of every element the place that it went to
    MMUL_SOFTMAX_BACKWARD,
    MMUL_CROSS_ENTROPY_BACKWARD,
    MMUL_RMS_NORM_BACKWARD,
    MMUL_LAYER_NORM_BACKWARD,
    // Along an axis.
    MMUL_SUM,
    MMUL_MEAN,
    MMUL_MAX,
    MMUL_MIN,
    MMUL_SUM_AT, // rows with the same index
    // Elements from elsewhere.
    MMUL_SLICE,
    MMUL_RESHAPE,
    MMUL_PERMUTE,
    MMUL_CONCAT,
    MMUL_TAKE,
    // More than one step.
    MMUL_ATTENTION,
    MMUL_ATTENTION_SUMS, // (gradients: of rows of scores and of the result; of its operands)
    MMUL_ATTENTION_BACKWARD_Q,
    MMUL_ATTENTION_BACKWARD_K,
    MMUL_ATTENTION_BACKWARD_V,
    MMUL_ATTENTION_BACKWARD_MASK,
    // Rows of a product, of each the largest elements: made of both by mmul_program_search.
    MMUL_SEARCH,
    // Element by element, between types: to that of the result.
    MMUL_CAST,
    MMUL_OPERATION_KINDS
};

// How the elements of a result depend on those of the operands.
enum mmul_operation_class {
    MMUL_CLASS_OWN, // in a way of its own: load, generate, matmul, search, transpose, place, save, kept, keep
    MMUL_CLASS_ELEMENTS, // (i, j) on (i, j) of all operands; sizes of 1 repeat
    MMUL_CLASS_ROWS,   // row i on row i of the first `by_row`, and on the others, which are vectors
    MMUL_CLASS_REDUCE, // on a row (axis -1) or a column (axis -2), or of that on some elements
    MMUL_CLASS_COPY,   // one on one that is elsewhere
    MMUL_CLASS_LOOKUP, // row i on any row of the first, which element i of the second says
    MMUL_CLASS_ATTENTION // row i on what `parts` says; an operand beyond the least is the mask: rows by keys
};

enum { MMUL_FACTORS = 2 }; // operands of a product

// What an operation sees of an operand. A number is one of shape 1 x 1.
struct mmul_operand_info {
    const char *name;
    struct mmul_shape shape;
    bool is_integer;
    bool is_number; // not a value
    enum mmul_dtype dtype;
};

struct mmul_rule {
    enum mmul_placement_kind operands[MMUL_OPERANDS], result;
};

// What is asked of an operation: operands and parameters, as in the public struct mmul_call.
struct mmul_operation_call {
    const struct mmul_operand_info *operands;
    int operand_count;
    const struct mmul_parameters *with;
};

// How far right results of an operation may be from each other; tolerance is relative to the element and to its row.
enum mmul_accuracy {
    MMUL_UNJUDGED,    // it is not made by devices' `map`, or has a check of its own (products)
    MMUL_EXACT,       // no rounding: places, copies, comparisons
    MMUL_ROUNDED,     // 1e-3 in float32
    MMUL_ROUNDED_EXP, // 1e-2: exponentials of large numbers carry these numbers' rounding
    MMUL_CANCELS, // and, where the terms are large and the result is not, rounding of the largest
    MMUL_CANCELS_IN_SUMS,      // ... of as many terms as are added up
    MMUL_CANCELS_IN_NORMS,     // ... over the root of epsilon
    MMUL_CANCELS_IN_ATTENTION, // exponentials, and differences of products
};

struct mmul_operation_row {
    const char *name; // as programs write it
    enum mmul_operation_class class;
    int least, most; // operands
    bool has_result;
    bool is_view;      // the result is its operand's memory: nothing is computed
    bool has_integers; // the result is whole numbers: indices
    bool picks;        // of the class of rows: the result has other columns than its operand
    int by_row; // of that class: operands of which row i is needed for row i; others are vectors
    // Of the class of attention, of each operand for row i: row i (r), all (a), all in the columns of the block (c),
    // column i (i).
    const char *parts;
    int indices; // which operand, from 1, holds indices, which the run checks before; 0: none
    // NULL: the first operand's. Fails with MMUL_ERR_DATA, naming operands and sizes, or MMUL_ERR_USAGE
    // (parameters).
    enum mmul_status (*shape)(const struct mmul_operation_row *row,
                              const struct mmul_operation_call *call, struct mmul_shape *shape,
                              struct mmul_error *err);
    enum mmul_accuracy accuracy;
    double flops_each; // per element of the result (matmul: and of the inner range)
    const struct mmul_rule *rules;
    int rule_count;
};

const struct mmul_operation_row *mmul_operation_row(enum mmul_operation_kind kind);

// By its name; NULL: there is none. Of what only has a builder of its own (load, ...) there is none.
const struct mmul_operation_row *mmul_operation_find(const char *name,
                                                     enum mmul_operation_kind *kind);

// Floating-point operations; 0: nothing is computed.
double mmul_operation_flops(enum mmul_operation_kind kind, const struct mmul_operation_call *call,
                            struct mmul_shape result);

// --------------------------------------------------------------------------- operation_shapes.c

// slice: elements that follow each other along an axis (0: batch) are so far apart in the operand; and how many there
// are.
int64_t mmul_slice_step(const struct mmul_parameters *with, int axis);
int64_t mmul_slice_size(const struct mmul_parameters *with, int axis);

// Into how many groups of as many rows each the result can be cut, such that each needs no more of an operand
// than the same one of as many groups of that; MMUL_ROW_BY_ROW: its rows are those of the operand, one by one.
enum { MMUL_ROW_BY_ROW = 0 };
int64_t mmul_operation_groups(enum mmul_operation_kind kind, const struct mmul_operation_call *call,
                              int operand, struct mmul_shape result);

// Whether a rule holds for these sizes, where what is split by rows is split between so many groups of as many
// rows each, if it has those (1: anywhere; MMUL_ONE_RANK: not at all). What repeats is needed by every part of
// the result.
enum { MMUL_ONE_RANK = 0 };
bool mmul_rule_fits(enum mmul_operation_kind kind, const struct mmul_rule *rule,
                    const struct mmul_operation_call *call, struct mmul_shape result,
                    int64_t groups);

// Shapes of the rows of the table.
#define MMUL_SHAPE_FUNCTION(name)                                                                  \
    enum mmul_status mmul_shape_of_##name(const struct mmul_operation_row *,                       \
                                          const struct mmul_operation_call *, struct mmul_shape *, \
                                          struct mmul_error *)
MMUL_SHAPE_FUNCTION(matmul);
MMUL_SHAPE_FUNCTION(transpose);
MMUL_SHAPE_FUNCTION(elements);
MMUL_SHAPE_FUNCTION(norm);
MMUL_SHAPE_FUNCTION(topk);
MMUL_SHAPE_FUNCTION(argmax);
MMUL_SHAPE_FUNCTION(sort);
MMUL_SHAPE_FUNCTION(rope);
MMUL_SHAPE_FUNCTION(reduction);
MMUL_SHAPE_FUNCTION(slice);
MMUL_SHAPE_FUNCTION(reshape);
MMUL_SHAPE_FUNCTION(permute);
MMUL_SHAPE_FUNCTION(concat);
MMUL_SHAPE_FUNCTION(take);
MMUL_SHAPE_FUNCTION(attention);
MMUL_SHAPE_FUNCTION(attention_sums);
MMUL_SHAPE_FUNCTION(attention_backward);
MMUL_SHAPE_FUNCTION(one_hot);
MMUL_SHAPE_FUNCTION(cross_entropy);
MMUL_SHAPE_FUNCTION(rows_backward);
MMUL_SHAPE_FUNCTION(sum_at);

// Of what is counted or looked up by indices: there are so many of it.
int64_t mmul_operation_index_limit(enum mmul_operation_kind kind,
                                   const struct mmul_operation_call *call);
