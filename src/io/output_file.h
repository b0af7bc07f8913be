// SPDX-License-Identifier: MIT
// What an output is made of, for the files of this folder.
#pragma once

#include <sys/types.h>

#include "mpimatmul_local.h"

struct mmul_format_row;
struct mmul_unfinished;

struct mmul_output {
    struct mmul_shape shape;
    enum mmul_dtype dtype; // float32, float16, bfloat16; in memory also float64
    int64_t data_offset;
    int fd; // what elements are written to: the temporary file, locked, or one without a name; -1: in memory
    const struct mmul_format_row
        *packed;  // a format whose elements are packed in the end; else NULL
    int locked;   // packed: the temporary file; else -1
    char *memory; // borrowed; NULL: a file
    char *name;   // owned, as the caller gave it
    char *tensor; // owned: its name in a file that holds several
    char *path;   // owned, what it becomes: a symbolic link is followed; NULL: standard output
    char *part;   // owned, the temporary file; NULL: it has no name
    bool has_part;
    bool replaces;                      // a file stood under `path` when it was begun,
    mode_t replaced_mode;               // with these permissions, which it gets
    struct mmul_unfinished *unfinished; // its place in io/unfinished; NULL: none, or no more
    bool took_over;                     // a run that was killed had left the temporary file
    bool is_reserved;                   // the file system keeps the space for all of it
    bool no_sync;                       // mmul_output_set_sync
    bool is_finished;                   // mmul_output_finish: it needs nothing but its name
    int dimensions;                     // as asked for; 0: by the shape
    // Of a file that has several outputs: the one that has the temporary file (itself too), and of that one the next
    // one, how many are neither committed nor destroyed, how many of these are finished, and whether one was
    // destroyed. NULL: alone in its file.
    struct mmul_output *owner, *next;
    int open_count, finished_count;
    bool is_void;
    struct json_t *metadata; // owned, of the first one: texts by name; NULL: none
    int64_t overflows;       // changed by several threads at once: only through __atomic builtins
};

// It stands for a file that is not there yet, in plans.
static inline bool mmul_output_is_expected(const struct mmul_output *output) {
    return output->fd < 0 && output->memory == NULL;
}

// Would a commit replace this matrix's file? For inputs that are opened after the output.
bool mmul_output_replaces(const struct mmul_output *output, const struct mmul_matrix *matrix);

// All elements are written: packs them and waits for the disk, as commit does, and leaves nothing to it that needs
// space. Of a file with several outputs the last one's call does so. Fails as mmul_output_commit; the output stays.
enum mmul_status mmul_output_finish(struct mmul_output *output, struct mmul_error *err);

// Is commit going to wait for a disk? Then it helps to begin writing before all is there.
bool mmul_output_writes_back(const struct mmul_output *output);

// Elements [begin, end) of the file are what they are going to be: the disk may begin with them. A
// hint; may wait while the disk has enough to do.
void mmul_output_write_back(const struct mmul_output *output, int64_t begin, int64_t end);
