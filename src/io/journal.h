// SPDX-License-Identifier: MIT
//
// A journal: a text file that only grows, in which a job records its finished work. A later job
// with the same header continues from it. A line is its content, a tab, and the lower 32 bits of
// the content's XXH3 as 8 hexadecimal digits:
//
//     mpimatmul journal 1      7d0f3c51
//     program: mul             ...         the header: a field and its value per line. The caller
//     alpha: 1                 ...         chooses the fields, which tell the job.
//     .                        ...         end of the header
//     done 0 0 512 0 1024 ...  ...         entries; the caller gives them a meaning
//
// A job that dies may leave a torn last line. It is cut off and is no damage. All other damage is
// refused. A journal without entries gets the header of the job that opens it.
#pragma once

#include "mpimatmul_local.h"

struct mmul_journal;

// A field of the header. Messages use its name: "its journal has another alpha".
struct mmul_journal_field {
    const char *name;  // one line without tabs and ": "
    const char *value; // one line without tabs
};

// Opens the journal at `path`, or creates it with this header, and locks it. Waits two seconds for
// a rank of a killed job that still has the lock. `output` names the result in messages. The
// entries that it holds are then there.
// Fails with MMUL_ERR_DATA (damaged, or of another job: the text names the first field that
// differs), MMUL_ERR_CREATE (cannot be created, another user's, has several names, is no file, is
// in use) and MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_journal_open(const char *path, const char *output,
                                   const struct mmul_journal_field *fields, int field_count,
                                   struct mmul_journal **journal, struct mmul_error *err);

// Returns the number of entries, and an entry's content; lives as long as the journal.
int64_t mmul_journal_count(const struct mmul_journal *journal);
const char *mmul_journal_entry(const struct mmul_journal *journal, int64_t index);

// Adds an entry: one line without tabs, written by one call. It does not wait for the disk. Entries
// added are counted, but not kept in memory. Not thread-safe. Fails with MMUL_ERR_IO.
enum mmul_status mmul_journal_add(struct mmul_journal *journal, const char *content,
                                  struct mmul_error *err);

// Removes the file, which has served its purpose. The journal stays valid.
void mmul_journal_remove(struct mmul_journal *journal);

// Closes the file, which stays. NULL is legal.
void mmul_journal_close(struct mmul_journal *journal);
