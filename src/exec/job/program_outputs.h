// SPDX-License-Identifier: MIT
//
// What a program writes, root's files and kept sets on all ranks, as one list with one order of commit:
//
// 1. What can run out does so while nothing has changed: every file and every shard is packed and on its disk, under
//    its temporary name, on all ranks. Who fails here leaves all files and all sets as they were.
// 2. Names. First the sets, whose descriptions are still to be written, on several machines; then standard output,
//    which nobody can take back; then the files, each of which is a rename and nothing else. Of equals the order is
//    the program's.
//
// A failure in 2 ends it: what has its name keeps it, all else is discarded, and the hint of the error says which is
// which, where there are several. A set that fails half-way says so of itself (exec/memory/kept.h).
#pragma once

#include "exec/memory/values.h"

// Collective over world. `status`, the same on all ranks, is that of the program until here: not MMUL_OK discards all.
// values: NULL where they were not made. Root's outputs are used up either way. Fails as that, as mmul_output_commit
// and as mmul_kept_commit, everywhere alike.
enum mmul_status mmul_program_end_outputs(struct mmul_context *context,
                                          struct mmul_program_plan *plan,
                                          struct mmul_values *values, enum mmul_status status,
                                          struct mmul_error *err);
