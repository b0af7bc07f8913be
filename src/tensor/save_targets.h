// SPDX-License-Identifier: MIT
//
// Destinations of saved values, shared by save (builtins_files.c) and checkpoint
// (builtins_checkpoint.c).
#pragma once

#include "tensor/script.h"

struct mmul_save_target {
    // `path` as the user spelled it, `file` the real path, `tensor` "" if the file holds one
    // matrix.
    const char *path, *file, *tensor;
    struct mmul_output *beside; // another output in the same file; NULL for none
    enum mmul_dtype dtype;      // element type in the file
    // Only for the first output of a file (mmul_output_request); NULL for none.
    const char *const *metadata;
};

// Resolves a path to one canonical name, copied into the job's memory. Follows links, also those of
// the folder of a file that does not exist yet.
enum mmul_status mmul_save_target_resolve(struct mmul_evaluator *e, const char *path, size_t length,
                                          const char **file);

// Copies *text into the script's memory, which outlives the current job.
enum mmul_status mmul_script_copy_text(struct mmul_evaluator *e, const char **text);

// Returns the type in which x is computed.
enum mmul_dtype mmul_save_target_dtype(struct mmul_evaluator *e, const struct mmul_object *x);

// Begins the output file. If the text is only checked, no file is created.
enum mmul_status mmul_save_target_create(struct mmul_evaluator *e, const struct mmul_node *at,
                                         const struct mmul_save_target *target,
                                         const struct mmul_object *x, struct mmul_output **output);
