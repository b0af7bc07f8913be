// SPDX-License-Identifier: MIT
//
// Values that stay from job to job: sets of shards (io/shard_set.h), of which rank i has shard i in the shard folder
// of its machine. Such a place of a program is no memory of the segment: it is the shards themselves, mapped by all
// ranks of their node.
//
// A set that is read was found by every rank for itself and is the same for all, by its description's checksum. A
// shard is taken for what it was when its size and the kernel's time of its last change are as described: that costs
// nothing. Where only the time differs (a folder that was copied, say) its checksum decides, which costs a reading.
//
// A set that is made is computed into shards under temporary names. When the whole program has run, every rank
// knows that all have theirs; then the description says half-written, the shards get their names, and the
// description says what they are: who is killed before that leaves the set that was there, and later none.
#pragma once

#include "exec/memory/values.h"

// Collective over world. Lets all know each other's folders, which are each rank's own. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_kept_share_folders(struct mmul_context *context, struct mmul_error *err);

// Is this the rank, of those of its node with the same folder, that sees to it? After that.
bool mmul_kept_has_folder(const struct mmul_context *context);

// Collective over world. Completes the sets that a program reads, on all ranks. Fails with MMUL_ERR_NO_INPUT (not
// there), MMUL_ERR_DATA (not what its description says, or of another job), MMUL_ERR_CREATE (a folder that is not
// to be trusted).
enum mmul_status mmul_kept_find(struct mmul_context *context, struct mmul_program *program,
                                struct mmul_error *err);

// The weights of the largest set that is read, so that it lies as the plan wants it; none is: they stay as they
// are. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_kept_weights(const struct mmul_program *program, int size, double *weights,
                                   struct mmul_error *err);

// Of weights that somebody has given. Fails with MMUL_ERR_USAGE: a set has other ones.
enum mmul_status mmul_kept_check_weights(const struct mmul_program *program, int size,
                                         const double *weights, struct mmul_error *err);

// Collective over world. Maps what is read, begins what is made. Fails with MMUL_ERR_CREATE, MMUL_ERR_IO (no
// space), and as mmul_kept_find.
enum mmul_status mmul_kept_open(struct mmul_context *context, struct mmul_values *values,
                                struct mmul_error *err);

// Local; agree afterwards. Has all that was read been there? Fails with MMUL_ERR_DATA.
enum mmul_status mmul_kept_check(const struct mmul_values *values, struct mmul_error *err);

// Local; agree afterwards. This rank's shard of a set that is made is on its disk, so that it needs nothing but its
// name. Fails as mmul_output_finish.
enum mmul_status mmul_kept_finish(const struct mmul_values *values, int kept,
                                  struct mmul_error *err);

// Collective over world. A set that was made gets its names. Fails with MMUL_ERR_CREATE, MMUL_ERR_IO.
enum mmul_status mmul_kept_commit(struct mmul_context *context, struct mmul_values *values,
                                  int kept, struct mmul_error *err);

// Local. What was made and not committed goes.
void mmul_kept_close(struct mmul_values *values);

// Collective over world. mmul_keep_part: a set of what the ranks have in their memory.
enum mmul_status mmul_kept_make(struct mmul_context *context, const char *name,
                                const struct mmul_local_part *part, struct mmul_error *err);
