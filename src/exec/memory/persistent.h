// SPDX-License-Identifier: MIT
//
// Persistent values, kept from job to job as sets of shards (io/shard_set.h). Rank i has shard i in
// the shard folder of its machine. A place of such a value has no memory in the segment: its memory
// is the shards, mapped by all ranks of their node.
//
// Reading: every rank finds the set by itself, and the checksum of the description proves that all
// found the same one. A shard is accepted if its size and the kernel's modification time are as
// described, which costs nothing. If only the time differs (in a copied folder, for example) the
// shard's checksum decides, which costs reading it.
//
// Making: the ranks compute into shards with temporary names. When the whole program has run, all
// ranks know that every shard is complete. Then the description is marked half-written, the shards
// get their names, and the final description is written. A job killed before the first of these
// steps leaves the previous set, one killed later leaves none.
#pragma once

#include "exec/memory/values.h"

// Shares the shard folders, which each rank chooses itself. Collective over world. Fails with
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_persistent_share_folders(struct mmul_context *context,
                                               struct mmul_error *err);

// Returns true on the one rank that maintains this folder, of those of its node that have the same
// one. Call it after mmul_persistent_share_folders.
bool mmul_persistent_owns_folder(const struct mmul_context *context);

// Completes the sets that a program reads, on all ranks. Collective over world. Fails with
// MMUL_ERR_NO_INPUT (set not found), MMUL_ERR_DATA (not as described, or of another job),
// MMUL_ERR_CREATE (untrusted folder).
enum mmul_status mmul_persistent_find_sets(struct mmul_context *context,
                                           struct mmul_program *program, struct mmul_error *err);

// Sets `weights` to those of the largest set that is read, so that the plan splits values the same
// way. Leaves them as they are if no set is read. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_persistent_choose_weights(const struct mmul_program *program, int size,
                                                double *weights, struct mmul_error *err);

// Checks weights that the user gave. Fails with MMUL_ERR_USAGE if a set was split by other weights.
enum mmul_status mmul_persistent_check_weights(const struct mmul_program *program, int size,
                                               const double *weights, struct mmul_error *err);

// Maps the sets that are read and begins those that are made. Collective over world. Fails with
// MMUL_ERR_CREATE, MMUL_ERR_IO (no space), and as mmul_persistent_find_sets.
enum mmul_status mmul_persistent_open_sets(struct mmul_context *context, struct mmul_values *values,
                                           struct mmul_error *err);

// Checks that all mapped data could be read. Local; agree afterwards. Fails with MMUL_ERR_DATA.
enum mmul_status mmul_persistent_check_mapped(const struct mmul_values *values,
                                              struct mmul_error *err);

// Flushes this rank's shard of a new set to disk, so that only its name is missing. Local; agree
// afterwards. Fails as mmul_output_finish.
enum mmul_status mmul_persistent_flush_set(const struct mmul_values *values, int kept,
                                           struct mmul_error *err);

// Gives a new set its names. Collective over world. Fails with MMUL_ERR_CREATE, MMUL_ERR_IO.
enum mmul_status mmul_persistent_commit_set(struct mmul_context *context,
                                            struct mmul_values *values, int kept,
                                            struct mmul_error *err);

// Unmaps all sets and removes new ones that were not committed. Local.
void mmul_persistent_close_sets(struct mmul_values *values);

// Implements mmul_keep_part: makes a set of parts that the ranks have in their memory. Collective
// over world.
enum mmul_status mmul_persistent_make_set(struct mmul_context *context, const char *name,
                                          const struct mmul_local_part *part,
                                          struct mmul_error *err);
