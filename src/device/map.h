// SPDX-License-Identifier: MIT
//
// Operations other than products: one operation of a program on a block of its result. A block is
// rows [row, row + rows) and columns [col, col + cols) of matrices [matrix, matrix + matrices) of a
// stack, all alike. Operands are the parts that a matrix of the block depends on, by the class of
// the operation (model/operation.h):
//
//     elements   rows x cols of each operand; repeated elements have steps of 0
//     rows       the same rows of the first operands, all their columns; vectors of 1 x all
//                columns. The block has all columns of the result
//     reduce     axis -1: the same rows, all columns; axis -2: all rows, the same columns (sum_at:
//                also the column of indices)
//     copy       rows x cols of the first operand; its steps select the source elements
//     lookup     the table; 1 x rows whole numbers. The block has all columns of the result
//     attention  rows of q; all of k and v of its head; rows x keys of the mask. The block has all
//                columns. Gradients: rows of operands shaped like the result, all of the others
//
// generate has no operands; its seed depends on the rows of the matrix before the block.
//
// To add a user's own kernel, change these.
//
//     a class of its own   head of model/operation.h; parts of operands that a block needs: map.c.
//     call of the user     struct mmul_call of include/mpimatmul_local.h, Call of Python's
//                          _library.py; api/program_api.c, tensor/builtins.c, _functions.py.
//     its text             model/program.h and program.c (owner), exec/job/program_pack.c,
//                          plan_cache.c.
//     compiled programs    opencl_device.h has fixed arrays: a program per kernel file, a kernel
//                          per operation. Texts of users need a list that grows. opencl_program.c,
//                          opencl_map.c. A text that does not compile must end the job: today a
//                          failed build loses the device, and the next one goes on.
//     other devices        cpu_map_by_class.c, exec/worker/host_map.c. The check repeats samples by
//                          reference_map.c, so it needs a version for the CPU.
#pragma once

#include "base/parallel.h"
#include "device/device.h"
#include "model/operation.h"

// Positions of an operand's matrices. Matrix t of the result's stack is t / depth in the batch and
// t % depth in depth. Its operand lies t / depth * batch_step + t % depth / shared * depth_step
// behind that of matrix 0. Steps are 0 if matrices repeat. `shared` consecutive matrices in depth
// use the same one (heads of attention; 0 counts as 1).
struct mmul_stack {
    int64_t batch_step, depth_step, shared;
};

// An operand of the block's first matrix: element (i, j) is at offset + i * row_step + j * col_step
// of the buffer. Without a buffer every element is `number`. A float64 number is in a buffer with
// steps 0.
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
    int64_t rows, cols;                 // shape of the block, >= 1
    int64_t row, col;                   // position of the block in its matrix
    struct mmul_shape shape;  // shape of that matrix (softmax, rope, attention: causal, positions)
    int64_t matrix, matrices; // first matrix in the stack and number (>= 1)
    struct mmul_map_operand operands[MMUL_OPERANDS];
    int operand_count;
    // position of the first matrix; ld >= cols; must not overlap an operand
    struct mmul_operand result;
    int64_t result_step;           // from one matrix to the next
    struct mmul_parallel parallel; // threads of the rank, for devices that compute with them
    // Checksum of the written elements in host memory, complete when the call returns: *bits of
    // device/matrix_sums.h over the rows of all matrices as one matrix. NULL: not wanted. Float32
    // only.
    uint32_t *carried;
    // Set in a group of operations that are computed together if only later ones read the result.
    // The result may then be missing in the end.
    bool is_intermediate;
    // Cache size of the machine. Larger results may bypass the cache. 0: unknown.
    int64_t cache_bytes;
};

// Limit of operations that are computed together.
enum { MMUL_FUSED_MAPS_MAX = 16 };

// Returns true if any buffer is float64. All are then, except in casts. Only devices in host memory
// accept such operations.
bool mmul_map_has_doubles(const struct mmul_map *map);

// Returns true if `carried` is supported: for all operations except reductions.
bool mmul_map_supports_checksum(enum mmul_operation_kind kind);

// Returns the offset of the t-th matrix's operand from the first matrix's, in elements of either
// sign.
int64_t mmul_stack_offset(const struct mmul_map *map, struct mmul_stack stack, int64_t t);

// Returns the t-th matrix of a block as a block of its own.
struct mmul_map mmul_map_matrix(const struct mmul_map *map, int64_t t);

// Rows [row, row + rows) and columns [col, col + cols) of a matrix.
struct mmul_map_part {
    int64_t row, rows, col, cols;
};

// Returns true if the operation reduces along the columns.
bool mmul_map_reduces_columns(const struct mmul_map *map);

// Returns the part of an operand that part `of` of the map's result depends on. rows or cols -1:
// all of them.
struct mmul_map_part mmul_map_operand_part(const struct mmul_map *map, int operand,
                                           struct mmul_map_part of);
