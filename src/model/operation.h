// SPDX-License-Identifier: MIT
//
// The operations of programs, one row each: name, how many operands, the shape of the result, the
// work, and the rules: which placements of the operands give which placement of the result without
// moving anything. A new operation is a row here and a kernel in exec. Pure.
//
//     load       a file (or memory) of root's: the value is there, until a reader wants it elsewhere
//     generate   by position: whoever holds a part makes it
//     matmul     rows x replicate -> rows, replicate x cols -> cols, cols x rows -> partial; where
//                both are whole, any of rows, cols, replicate; grid rows x grid cols -> grid: what
//                a grid of operands moves is theirs, along the rows and columns of the mesh (SUMMA)
//     transpose  rows <-> cols: nothing moves, the part is read the other way round
//     add        same x same -> same; what repeats is replicated
//     relu       same -> same; sums that are not added up yet (partial) first
//     place      same -> same: a wish of the program's
//     save       a move to a file of root's
#pragma once

#include "model/placement.h"

enum mmul_operation_kind {
    MMUL_LOAD,
    MMUL_GENERATE,
    MMUL_MATMUL,
    MMUL_TRANSPOSE,
    MMUL_ADD,
    MMUL_RELU,
    MMUL_PLACE,
    MMUL_SAVE,
    MMUL_OPERATION_KINDS
};

enum { MMUL_OPERANDS = 2 };

// What an operation sees of an operand.
struct mmul_operand_info {
    const char *name;
    struct mmul_shape shape;
};

struct mmul_rule {
    enum mmul_placement_kind operands[MMUL_OPERANDS], result;
};

struct mmul_operation_row {
    const char *name;
    int arity;
    bool has_result;
    bool is_view; // the result is its operand's memory: nothing is computed
    // NULL: the operand's. Fails with MMUL_ERR_DATA, naming operands and sizes.
    enum mmul_status (*shape)(const struct mmul_operand_info *operands, struct mmul_shape *shape,
                              struct mmul_error *err);
    // Floating-point operations; NULL: none.
    double (*flops)(const struct mmul_operand_info *operands, struct mmul_shape result);
    const struct mmul_rule *rules;
    int rule_count;
};

const struct mmul_operation_row *mmul_operation_row(enum mmul_operation_kind kind);

// Whether a rule holds for these sizes: an operand that is split has the result's stack (matmul) or
// all of its sizes (add), because what repeats is needed by every part of the result.
bool mmul_rule_fits(enum mmul_operation_kind kind, const struct mmul_rule *rule,
                    const struct mmul_operand_info *operands, struct mmul_shape result);
