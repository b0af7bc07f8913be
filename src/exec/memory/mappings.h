// SPDX-License-Identifier: MIT
//
// Matrices of one job that the ranks of a node use in place: mapped input files, the mapped output
// file, and the caller's memory if a rank is alone on its node. All other data goes through the
// node's segment (exec/conduct/run).
//
// A, B and C_in can be mapped on any node that sees root's files, C only on root's node. A file's
// element type must be usable as stored (io/file_mapping.h), and C_in must have the type of C.
//
// Give mapped memory to the CPU only, not to MPI or system calls. If a file has become shorter,
// those fail with their own error, while a plain access only sets a mark (base/guard.h).
#pragma once

#include "base/guard.h"
#include "comm/shared_memory.h"
#include "exec/setup/context.h"

// Files of a product, root's, borrowed. NULL on other ranks, for operands that are values, and for
// operands that are not read (alpha or beta is 0).
struct mmul_product_files {
    struct mmul_matrix *a, *b, *c_in;
    struct mmul_output *output;
    bool c_in_is_broadcast; // C_in is broadcast: it has fewer elements than C
    enum mmul_dtype dtype;  // type of the computation
};

// Origin of a view; all zero if nothing is mapped.
struct mmul_mapping_origin {
    struct mmul_guard *guard; // owned
    char *name;               // owned
    int64_t end;              // byte that the file must reach
    int64_t modified_ns;      // last modification of the file
};

// Mapped matrices. `data` is the first stored element; NULL if this rank cannot use the matrix in
// place.
struct mmul_mappings {
    struct mmul_shared a, b, c_in, c; // a, b and c_in are read-only
    struct mmul_mapping_origin origins[4];
    bool writes_back; // c is a file, and the commit will wait until it is on disk
};

// Finds out which matrices each node can map: node_maps[node_count] of enum mmul_maps, the same on
// all ranks. Collective over world. Other nodes open root's files under the same name or under
// root's full path, and compare fingerprints. Without an output no node maps C. Fails with
// MMUL_ERR_NO_INPUT (MMUL_IO_SHARED, and a node does not see a file that root can map),
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_mappings_find(struct mmul_context *context,
                                    const struct mmul_product_files *files, enum mmul_io io,
                                    unsigned *node_maps, struct mmul_error *err);

// Maps the matrices that node_maps names, the same on all ranks; it may name fewer than were found.
// Collective over world. Reads nothing: pages are loaded on first access, which is cheapest. The
// matrices and the output must stay open until the views are closed, but the output may be
// committed before. On failure nothing is left. Fails with MMUL_ERR_NO_INPUT (another node sees a
// different file now), MMUL_ERR_SYSTEM (also: node_maps names a matrix that cannot be mapped).
enum mmul_status mmul_mappings_open(struct mmul_context *context,
                                    const struct mmul_product_files *files,
                                    const unsigned *node_maps, struct mmul_mappings *views,
                                    struct mmul_error *err);

// Checks that everything read and written so far was really there. Until then numbers may be zeros.
// Call it after the last read and before the output is committed. Local; agree over world
// afterwards. Fails with MMUL_ERR_DATA (an input has become shorter), MMUL_ERR_NO_INPUT (an input
// could not be read), MMUL_ERR_IO (the output could not be written).
enum mmul_status mmul_mappings_check(const struct mmul_mappings *views, struct mmul_error *err);

// Checks the same, and also that no input was modified meanwhile. For results that cannot be right.
// Local. Fails as mmul_mappings_check does, and with MMUL_ERR_DATA for a modified input.
enum mmul_status mmul_mappings_check_unmodified(const struct mmul_mappings *views,
                                                struct mmul_error *err);

// Unmaps everything. Local. Views that are {0} are legal.
void mmul_mappings_close(struct mmul_mappings *views);
