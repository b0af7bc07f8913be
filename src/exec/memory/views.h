// SPDX-License-Identifier: MIT
//
// Matrices of one job that the ranks of a node use where they lie: input files mapped for reading,
// the output file mapped for writing, the caller's memory where a rank is alone with it. What is
// not used so goes through the node's segment (exec/conduct/run).
//
// A, B and C_in on any node that sees root's files, C on root's node alone. Files need a type that
// is used as it is stored (io/mapping.h), and C_in that of C.
//
// Give mapped memory to the CPU, not to MPI and to system calls: when a file has become shorter
// they fail with an error of their own, while a plain access only sets a mark (base/guard.h).
#pragma once

#include "base/guard.h"
#include "comm/shared_window.h"
#include "exec/setup/context.h"

// The matrices of a product that are files of root's, borrowed; elsewhere, and of what is a value or is not read (alpha
// or beta of 0), NULL.
struct mmul_product_files {
    struct mmul_matrix *a, *b, *c_in;
    struct mmul_output *output;
    bool c_in_repeats;     // it has no place of its own for each element of C
    enum mmul_dtype dtype; // of what is computed
};

// Where a view comes from; nothing is in it where nothing is mapped.
struct mmul_view_origin {
    struct mmul_guard *guard; // owned
    char *name;               // owned
    int64_t end;              // byte the file has to reach
    int64_t stored_ns;        // when the file was last written to
};

// `data` is the first stored element; NULL where this rank cannot use the matrix so.
struct mmul_views {
    struct mmul_shared a, b, c_in, c; // a, b and c_in are not written to
    struct mmul_view_origin origins[4];
    bool writes_back; // c is a file that commit will wait for until the disk has it
};

// Collective over world. What each node can use: node_maps[node_count] of enum mmul_maps, the same
// on all ranks. Root's files are opened by the other nodes under the same name, or under
// root's full path, and compared by fingerprint. Without an output C is used by nobody.
// Fails with MMUL_ERR_NO_INPUT (MMUL_IO_SHARED, and a node does not see a file that root can map),
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_views_find(struct mmul_context *context,
                                 const struct mmul_product_files *files, enum mmul_io io,
                                 unsigned *node_maps, struct mmul_error *err);

// Collective over world. Opens what node_maps says, the same on all ranks; less than was found is
// legal. Costs no reading: pages come when they are touched, which is the cheapest way. The
// matrices and the output stay open until the views are closed, except that the output may be
// committed before. On failure nothing is left.
// Fails with MMUL_ERR_NO_INPUT (another node sees another file now), MMUL_ERR_USAGE (node_maps
// asks for what cannot be used so), MMUL_ERR_SYSTEM.
enum mmul_status mmul_views_open(struct mmul_context *context,
                                 const struct mmul_product_files *files, const unsigned *node_maps,
                                 struct mmul_views *views, struct mmul_error *err);

// Local; agree over world afterwards. Was everything there that was read and written so far? Ask
// when the reading is done and before the output is committed: until then numbers may be zeros.
// Fails with MMUL_ERR_DATA (an input has become shorter), MMUL_ERR_NO_INPUT (it could not be
// read), MMUL_ERR_IO (the same for the output).
enum mmul_status mmul_views_check(const struct mmul_views *views, struct mmul_error *err);

// Local. The same, for numbers that cannot be: has somebody written to an input meanwhile, too?
// Fails as mmul_views_check does, with MMUL_ERR_DATA for such an input.
enum mmul_status mmul_views_check_same(const struct mmul_views *views, struct mmul_error *err);

// Local. Views that are {0} are legal.
void mmul_views_close(struct mmul_views *views);
