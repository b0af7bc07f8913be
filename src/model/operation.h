// SPDX-License-Identifier: MIT
//
// The operations of programs. model/operations.def has one row each: name, number of operands,
// shape of the result, work, and rules. A rule gives the placement of the result for placements of
// the operands, without any move. Pure.
//
//     load       a file (or memory) of root's: the value stays there until a reader needs it
//     generate   by position: every owner of a part makes it
//     matmul     rows x replicate -> rows, replicate x cols -> cols, cols x rows -> partial; any of
//                rows, cols, replicate if both are whole; grid rows x grid cols -> grid: moves of
//                such operands go along the rows and columns of the mesh (SUMMA); replicate x
//                cyclic -> cyclic; for stacks in groups rows x rows -> rows; C_in is in a file
//     transpose  rows <-> cols: nothing moves, the part is read in the other orientation; in groups
//                rows -> rows
//     place      same -> same: a placement request of the program
//     save       a move to a file of root's
//     cast       same -> same: between types that meet (model/program_rewrite.c)
//     kept       a set of shards that an earlier job has left on these ranks: rows or columns;
//                or a value that an earlier program holds in memory, perhaps whole on every node
//     keep       left on the ranks as such a set, or held
//     elements   (add, exp, where, ...) same x same -> same; operands that repeat are replicated,
//                beside cyclic ones only numbers and columns
//     rows       (softmax, layer_norm, topk, ...) rows -> rows; vectors are replicated
//     reduce     along a whole axis rows -> rows, cols -> cols; sums along a split axis -> partial
//                (sum_at: indices are split as their rows are)
//     copy       (reshape, permute, slice, concat) rows -> rows, if rows stay or in groups
//     take       the table replicated, indices rows (or cols) -> rows
//                (slice, take: of files -> file: read when needed elsewhere)
//     search     (a product's topk) rows x replicate -> rows
//     attention  q rows, k and v replicated, or in groups rows -> rows; gradients of k and v: rows
//                of these
//
// Groups: a plan may split all values between groups of consecutive matrices, such as the texts of
// a batch. Operations on one matrix alone then stay on its rank.
//
// To add an elementwise operation:
//   1. its row in operations.def; formulas of several lines in element_formulas.h.
//   2. its kernels: a function of floats in device/cpu_map_float.h, kernels/map_elements.cl.
//   3. its gradient in gradient_rules.c.
//   4. its function in tests/reference.py.
// No other file changes: programs, Python, `map`, the reference device and the tests of devices,
// gradients and rules read the table. A function of two values also needs a row of
// tensor/builtins.c, a function of Python's _operations.py and a case of tests/gradients.py. A
// difficult function needs more: its vector form in double (device/cpu_map_double.h), its ranges
// and tolerances in tests/unit/cpu_map_double_test.c and cpu_map_float_test.c.
// To add another operation:
//   1. its row in operations.def (class, flops, accuracy, rules).
//   2. its shape, and the axes that may be split, in operation_shapes.c.
//   3. its computation in device/reference_map.c, then in faster devices (device/cpu_map_*.c,
//      kernels/map_*.cl).
//   4. a line among the operations of include/mpimatmul_local.h.
//   5. its gradient in gradient_rules.c.
//   6. of a new class: device/map.h and map.c (extents of operands), cpu_map_by_class.c,
//      opencl_map.c and opencl_device.h (its kernel file), exec/worker/host_map.c,
//      exec/steps/map_blocks.c and map_check.c; mmul_operation_flops in operation.c.
//      The ranks of a node split a result by rows: plan/lists/blocks.c, program_choose.c.
//      `grep -r MMUL_CLASS_` finds the remaining places.
// A sequence of existing operations is a row of composite.c, and an elementwise one also a
// COMPOSITE row of operations.def. A new rule of an operation is a line among the rules in
// operation.c.
// To add a factorisation or a triangular solve:
//   1. the factorisation of one block, and a solve with one block, as operations.
//   2. the loop over blocks, of these and of products: composite_functions.c, a row of composite.c.
//   3. for values of placement cyclic (plan/parts/deal.h): their owners follow from the number of
//      columns alone (find_offsets in plan/program/program_make.c). Columns from a multiple of the
//      block to the end keep their owners: rules of slice and concat in operation.c; cyclic_fits in
//      operation_shapes.c, which needs the size of a block; columns in exec/steps/map_blocks.c.
//   4. one panel alone: a move with a window. A field of the step (plan/lists/program_plan.h),
//      find_window in transfers.c, program_cost.c. is_worth_trying in program_choose.c admits
//      cyclic only if the program requests it.
//   5. a block without a factor gives NaN, and map_blocks.c reports it, as check_indices does: a
//      device that returns an error is lost.
#pragma once

#include "model/placement.h"

enum mmul_operation_kind {
#define OPERATION(KIND, ...) MMUL_##KIND,
#include "model/operations.def"
    MMUL_OPERATION_KINDS
};

// Dependence of the elements of a result on those of the operands.
enum mmul_operation_class {
    // specific to each: load, generate, matmul, search, transpose, place, save, kept, keep
    MMUL_CLASS_OWN,
    MMUL_CLASS_ELEMENTS, // (i, j) on (i, j) of all operands; sizes of 1 repeat
    MMUL_CLASS_ROWS, // row i on row i of the first `by_row`, and on the others, which are vectors
    // each element on a row (axis -1) or column (axis -2) of the operand, or on some elements of it
    MMUL_CLASS_REDUCE,
    MMUL_CLASS_COPY,   // each on one element in another place
    MMUL_CLASS_LOOKUP, // row i on the row of the first operand given by element i of the second
    // row i on the parts given by `parts`; an operand beyond the least is the mask: rows by keys
    MMUL_CLASS_ATTENTION
};

enum { MMUL_FACTORS = 2 }; // operands of a product

// An operand as seen by an operation. A number has shape 1 x 1.
struct mmul_operand_info {
    const char *name;
    struct mmul_shape shape;
    bool is_integer;
    bool is_number; // a number instead of a value
    enum mmul_dtype dtype;
};

struct mmul_rule {
    enum mmul_placement_kind operands[MMUL_OPERANDS], result;
};

// A call of an operation: operands and parameters, as in the public struct mmul_call.
struct mmul_operation_call {
    const struct mmul_operand_info *operands;
    int operand_count;
    const struct mmul_parameters *with;
};

// Allowed difference between correct results; the tolerance is relative to the element and to its
// row.
enum mmul_accuracy {
    MMUL_UNCHECKED,   // not made by the `map` of devices, or checked in another way (products)
    MMUL_EXACT,       // no rounding: positions, copies, comparisons
    MMUL_ROUNDED,     // 1e-3 in float32
    MMUL_ROUNDED_EXP, // 1e-2: exponentials of large numbers carry these numbers' rounding
    MMUL_CANCELS, // also the rounding of the largest term, if terms are large and the result is not
    MMUL_CANCELS_IN_SUMS,      // ... for the number of terms in the sum
    MMUL_CANCELS_IN_NORMS,     // ... times the factor of the row's norm
    MMUL_CANCELS_IN_ATTENTION, // exponentials, and differences of products
};

struct mmul_operation_row {
    const char *name; // name in programs
    enum mmul_operation_class class;
    int least, most; // bounds of the number of operands
    bool has_result;
    bool is_view;      // the result is its operand's memory: nothing is computed
    bool has_integers; // the result is whole numbers: indices
    bool picks;        // for the class of rows: the result has other columns than its operand
    int by_row; // for that class: leading operands of which row i needs row i; others are vectors
    // For the class of attention, the part of each operand that row i needs: row i (r), all (a),
    // all in the columns of the block (c), column i (i).
    const char *parts;
    int indices; // operand, from 1, that holds indices, which the run checks first; 0: none
    // Computes the result's shape; NULL: the first operand's. Fails with MMUL_ERR_DATA, naming
    // operands and sizes, or MMUL_ERR_USAGE (parameters).
    enum mmul_status (*shape)(const struct mmul_operation_row *row,
                              const struct mmul_operation_call *call, struct mmul_shape *shape,
                              struct mmul_error *err);
    enum mmul_accuracy accuracy;
    double flops_each; // per element of the result (matmul: and of the inner range)
    const struct mmul_rule *rules;
    int rule_count;
};

const struct mmul_operation_row *mmul_operation_row(enum mmul_operation_kind kind);

// Finds an operation by its name; NULL: none. Operations with their own builder (load, ...) are not
// found.
const struct mmul_operation_row *mmul_operation_find(const char *name,
                                                     enum mmul_operation_kind *kind);

// Returns the floating-point operations; 0: nothing is computed.
double mmul_operation_flops(enum mmul_operation_kind kind, const struct mmul_operation_call *call,
                            struct mmul_shape result);

// ------------------------------------------------------------------------------ operation_shapes.c

// Return, for slice along an axis (0: batch), the distance in the operand of neighbouring elements
// of the result, and their number.
int64_t mmul_slice_step(const struct mmul_parameters *with, int axis);
int64_t mmul_slice_size(const struct mmul_parameters *with, int axis);

// Returns the number of groups of equally many rows into which the result can be cut such that each
// needs only the corresponding group of an operand. MMUL_ROW_BY_ROW: row i needs only row i of the
// operand.
enum { MMUL_ROW_BY_ROW = 0 };
int64_t mmul_operation_row_groups(enum mmul_operation_kind kind,
                                  const struct mmul_operation_call *call, int operand,
                                  struct mmul_shape result);

// Returns true if a rule holds for these sizes. Values split by rows are split between this many
// groups of equally many rows, if they have them (1: anywhere; MMUL_ONE_RANK: not at all). Every
// part of the result needs all of an operand that repeats.
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

// Returns the number of counted or indexed items, the limit of the indices.
int64_t mmul_operation_index_limit(enum mmul_operation_kind kind,
                                   const struct mmul_operation_call *call);
