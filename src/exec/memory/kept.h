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
#include "io/shard_map.h"
#include "io/shard_set.h"

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

// ------------------------------------------------------------------- of one set, as the above has it

// Shard `rank`, in the folder of that rank: mmul_kept_share_folders was called.
struct mmul_kept_shard {
    const char *name; // of the set
    int rank;
    struct mmul_shape shape; // [1, 1, rows, cols], either of which may be 0
    enum mmul_dtype dtype;
    bool is_made; // else it is read
};

// Local; agree afterwards. Begins a shard of this rank's, under a temporary name. Fails as mmul_output_create.
enum mmul_status mmul_kept_begin_shard(const struct mmul_context *context,
                                       const struct mmul_kept_shard *shard,
                                       struct mmul_output **output, struct mmul_error *err);

// Local; agree afterwards. Maps one that is there, or that was begun. Fails as mmul_shard_map_open.
enum mmul_status mmul_kept_map_shard(const struct mmul_context *context,
                                     const struct mmul_kept_shard *shard,
                                     struct mmul_shard_map *map, struct mmul_error *err);

// Local. A description with the hosts of the ranks and everything else zero. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_kept_create_set(const struct mmul_context *context,
                                      struct mmul_shard_set **set, struct mmul_error *err);

// Collective over world, after all have written theirs into `map`. Gives the shards their names. The set, which says
// how the whole is cut, gets checksums and the rest. *output: used up. Fails with MMUL_ERR_CREATE, MMUL_ERR_IO.
enum mmul_status mmul_kept_publish(struct mmul_context *context, const char *name,
                                   struct mmul_shard_set *set, const struct mmul_shard_map *map,
                                   struct mmul_output **output, struct mmul_error *err);

// Collective over world. mmul_keep_part: a set of what the ranks have in their memory. kept_part.c.
enum mmul_status mmul_kept_make(struct mmul_context *context, const char *name,
                                const struct mmul_local_part *part, struct mmul_error *err);
