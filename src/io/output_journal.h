// SPDX-License-Identifier: MIT
//
// The journal of an output: regions that are complete in its temporary file, each with the XXH3 of
// its bytes there. A later run compares the bytes again, so that what a power failure has lost is
// computed anew.
#pragma once

#include "io/journal.h"
#include "io/output_file.h"

// Gives an output, created with the name of a journal, the open journal, which it takes over. Cuts
// the temporary file if that of an earlier run is longer. Fails with MMUL_ERR_IO.
enum mmul_status mmul_output_set_journal(struct mmul_output *output, struct mmul_journal *journal,
                                         struct mmul_error *err);

// Regions of the stack in the file.
struct mmul_recorded {
    struct mmul_region *regions; // owned by the caller: released with mmul_free
    int64_t count;
    int64_t dropped_elements; // elements in entries with other bytes, as far as recorded
};

// Reads the entries and compares the file with them. Entries that do not match are dropped. Fails
// with MMUL_ERR_DATA (an entry that is none of this output), MMUL_ERR_IO and MMUL_ERR_SYSTEM.
enum mmul_status mmul_output_recall(const struct mmul_output *output,
                                    struct mmul_recorded *recorded, struct mmul_error *err);

// Records a region of the output, or of its selection. Its elements are written. Reads them from
// the file, and does not wait for the disk. Calls is_final(context) when they are read: if they may
// have changed since the call, it returns false, and there is no entry. One thread at a time. Fails
// with MMUL_ERR_IO and MMUL_ERR_SYSTEM.
enum mmul_status mmul_output_record(struct mmul_output *output, struct mmul_region region,
                                    bool (*is_final)(void *context), void *context,
                                    struct mmul_error *err);
