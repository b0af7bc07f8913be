// SPDX-License-Identifier: MIT
//
// What a device is asked for beside products: one operation of a program on a block of its result
// (rows [row, row + rows) and columns [col, col + cols) of one matrix). Operands are the parts that the
// block depends on, by the class of the operation (model/operation.h):
//
//     elements   rows x cols of each; what repeats has steps of 0
//     rows       the same rows of the first, all its columns; vectors of 1 x all columns. The block has
//                all columns of the result
//     reduce     axis -1: the same rows, all columns; axis -2: all rows, the same columns
//     copy       rows x cols of the first: where they come from is in its steps
//     lookup     the table; 1 x rows whole numbers. The block has all columns of the result
//     attention  rows of q; all of k and v of its head; rows x keys of the mask. The block has all columns
//
// generate has no operands; `rows` of the matrix before the block count for its seed.
#pragma once

#include "base/parallel.h"
#include "device/device.h"
#include "model/operation.h"

// Element (i, j) is at offset + i * row_step + j * col_step of the buffer; without a buffer it is `number`.
struct mmul_map_operand {
    struct mmul_buffer *buffer;
    float number;
    int64_t offset, row_step, col_step; // elements
    int64_t rows, cols;
};

struct mmul_map {
    enum mmul_operation_kind kind;
    const struct mmul_parameters *with; // borrowed
    int64_t rows, cols;                 // of the block, >= 1
    int64_t row, col;                   // its place in its matrix ...
    struct mmul_shape shape; // ... of this shape (softmax, rope, attention: causal, positions)
    struct mmul_map_operand operands[MMUL_OPERANDS];
    int operand_count;
    struct mmul_operand result;    // ld >= cols; does not overlap with an operand
    struct mmul_parallel parallel; // threads of the rank, for devices that compute with them
};
