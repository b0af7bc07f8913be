// SPDX-License-Identifier: MIT
//
// What a device is asked for beside products: one operation of a program on a block of its result
// (rows [row, row + rows) and columns [col, col + cols) of matrices [matrix, matrix + matrices) of a stack, each
// like the other). Operands are the parts that a matrix of the block depends on, by the class of the operation
// (model/operation.h):
//
//     elements   rows x cols of each; what repeats has steps of 0
//     rows       the same rows of the first ones, all their columns; vectors of 1 x all columns. The block has
//                all columns of the result
//     reduce     axis -1: the same rows, all columns; axis -2: all rows, the same columns (sum_at: and
//                the column of indices)
//     copy       rows x cols of the first: where they come from is in its steps
//     lookup     the table; 1 x rows whole numbers. The block has all columns of the result
//     attention  rows of q; all of k and v of its head; rows x keys of the mask. The block has all columns. Gradients:
//                rows of what is like the result, all of the others
//
// generate has no operands; `rows` of the matrix before the block count for its seed.
#pragma once

#include "base/parallel.h"
#include "device/device.h"
#include "model/operation.h"

// Where the matrices of an operand are: matrix t of the result's stack, which is t / depth in the batch and t % depth
// in depth, depends on what lies t / depth * batch_step + t % depth / shared * depth_step behind that of matrix 0.
// Steps are 0 where matrices repeat; `shared` matrices in depth depend on one (heads of attention; 0 counts as 1).
struct mmul_stack {
    int64_t batch_step, depth_step, shared;
};

// Element (i, j) of what the block's first matrix depends on is at offset + i * row_step + j * col_step of the buffer;
// without a buffer it is `number`. (One of float64 is in a buffer, its steps are 0.)
struct mmul_map_operand {
    struct mmul_buffer *buffer;
    float number;
    int64_t offset, row_step, col_step; // elements
    int64_t rows, cols;
    struct mmul_stack stack;
};

struct mmul_map {
    enum mmul_operation_kind kind;
    const struct mmul_parameters *with; // borrowed
    int64_t rows, cols;                 // of the block, >= 1
    int64_t row, col;                   // its place in its matrix ...
    struct mmul_shape shape;  // ... of this shape (softmax, rope, attention: causal, positions)
    int64_t matrix, matrices; // of the stack of that shape: from this one on, so many (>= 1)
    struct mmul_map_operand operands[MMUL_OPERANDS];
    int operand_count;
    struct mmul_operand result; // of the first matrix; ld >= cols; does not overlap with an operand
    int64_t result_step;        // from one matrix to the next
    struct mmul_parallel parallel; // threads of the rank, for devices that compute with them
    // In host memory, there when the call returns: the sum of the bits of what was written, added up while it was
    // (*bits of device/project.h, of the rows of all matrices as one matrix). NULL: not wanted. Float32.
    uint32_t *carried;
    // Of several that are made together: the result is read by later ones alone, and need not be there in the end.
    bool is_passing;
    int64_t
        cache_bytes; // the machine's: results of what is larger may be written past them; 0: not known
};

// So many are made together at most.
enum { MMUL_MAPS_TOGETHER = 16 };

// Is one of its buffers of float64? All are, but for casts. Only devices that work in host memory take such.
bool mmul_map_has_doubles(const struct mmul_map *map);

// Can such a sum be asked for? Of all but reductions.
bool mmul_map_carries(enum mmul_operation_kind kind);

// How far behind what the block's first matrix depends on that of its t-th one lies: elements, of either sign.
int64_t mmul_stack_offset(const struct mmul_map *map, struct mmul_stack stack, int64_t t);

// The t-th matrix of a block alone.
struct mmul_map mmul_map_matrix(const struct mmul_map *map, int64_t t);

// Rows [row, row + rows) and columns [col, col + cols) of a matrix.
struct mmul_map_part {
    int64_t row, rows, col, cols;
};

// Reduces along the columns.
bool mmul_map_is_down(const struct mmul_map *map);

// What of an operand such a part of the map's result depends on; rows or cols -1: all that there are.
struct mmul_map_part mmul_map_operand_part(const struct mmul_map *map, int operand,
                                           struct mmul_map_part of);
