// SPDX-License-Identifier: MIT
// The structure of an output, and the calls that only the library itself makes. Files of this
// folder create, write and commit outputs with it.
#pragma once

#include <sys/types.h>

#include "mpimatmul_local.h"

struct mmul_format_row;
struct mmul_journal;
struct mmul_selection;
struct mmul_unfinished_file;

struct mmul_output {
    struct mmul_shape shape;
    enum mmul_dtype dtype; // float32, float16, bfloat16; in memory also float64
    // Owned: the part of the file's stack that `shape` describes; NULL: all of it.
    struct mmul_selection *selection;
    int64_t data_offset;
    // Descriptor that elements are written to: the temporary file, locked, or an unnamed one. -1:
    // in memory.
    int fd;
    // Format that packs elements at the end, else NULL.
    const struct mmul_format_row *packed;
    int locked;   // packed: the temporary file; else -1
    char *memory; // borrowed; NULL: a file
    char *name;   // owned, as the caller gave it
    char *tensor; // owned: its name in a file that holds several
    // Owned: final name of the file, with symbolic links resolved. NULL: standard output.
    char *path;
    char *part; // owned, name of the temporary file; NULL: unnamed
    bool has_temporary_file;
    // Name of the journal and the journal itself; owned. NULL: none, or not opened yet.
    char *journal_path;
    struct mmul_journal *journal;
    // Work of an earlier run that this one need not do again (mmul_matmul_resume). NULL: none.
    const char *resumed_lines;
    int64_t resumed_complete, resumed_total;
    bool is_continued;                       // the temporary file is that of an earlier run
    bool replaces;                           // a file existed under `path` at the start,
    mode_t replaced_mode;                    // with these permissions, which the new one gets
    struct mmul_unfinished_file *unfinished; // entry in io/unfinished; NULL: none, or removed
    bool removed_leftover;                   // a killed run had left the temporary file
    bool is_reserved;                        // the file system has reserved all its space
    bool no_sync;                            // set by mmul_output_set_sync
    bool is_finished;                        // mmul_output_finish: only the rename is left
    int dimensions;                          // as requested; 0: by the shape
    // Outputs that share a file. `owner` is the one with the temporary file, itself included; NULL:
    // alone in its file. `next` links the outputs from the owner on. In the owner: open_count
    // counts outputs neither committed nor destroyed, finished_count those of them that are
    // finished, and is_void says that one was destroyed.
    struct mmul_output *owner, *next;
    int open_count, finished_count;
    bool is_void;
    // Owned, of the first output in the file: texts by name. NULL: none.
    struct json_t *metadata;
    // Changed by several threads at once: accessed only through __atomic builtins.
    int64_t overflows;
};

// Returns true if the output stands for a future file, in plans.
static inline bool mmul_output_is_planned(const struct mmul_output *output) {
    return output->fd < 0 && output->memory == NULL;
}

// Returns true if a commit would replace this matrix's file. For inputs opened after the output.
bool mmul_output_would_replace(const struct mmul_output *output, const struct mmul_matrix *matrix);

// Narrows the output to a selection of its stack, which it takes over: elements are written there
// from then on.
void mmul_output_select(struct mmul_output *output, struct mmul_selection *selection);

// Returns the shape of the stack in the file: that of the output without a selection.
struct mmul_shape mmul_output_stored_shape(const struct mmul_output *output);

// Packs the elements, all written by now, and waits for the disk as commit does. Afterwards commit
// needs no more space. In a file with several outputs the last call does the work. Fails as
// mmul_output_commit does; the output stays valid.
enum mmul_status mmul_output_finish(struct mmul_output *output, struct mmul_error *err);

// Returns true if commit will wait for a disk, so that starting write-back early helps.
bool mmul_output_needs_write_back(const struct mmul_output *output);

// Starts write-back of elements [begin, end), which are final. A hint. May block while the disk is
// busy.
void mmul_output_start_write_back(const struct mmul_output *output, int64_t begin, int64_t end);
