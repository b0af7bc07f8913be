// SPDX-License-Identifier: MIT
//
// Where values are saved to, for the files that do so (builtins_files.c).
#pragma once

#include "tensor/script.h"

struct mmul_target {
    const char *path, *file, *tensor; // as it is spelled; the file; "" where it holds one matrix
    struct mmul_output *beside;       // another one of the file; NULL: none
    enum mmul_dtype dtype;            // of its elements
    const char *const *metadata;      // of a file's first output (mmul_output_request); NULL: none
};

// One name for a file however it is spelled, in memory of the job: links are followed, also of the folder of a file
// that is not there yet.
enum mmul_status mmul_target_find_file(struct mmul_evaluator *e, const char *path, size_t length,
                                       const char **file);

// What outlives the job that asks for it.
enum mmul_status mmul_target_copy_text(struct mmul_evaluator *e, const char **text);

// Of x as it is computed.
enum mmul_dtype mmul_target_type(struct mmul_evaluator *e, const struct mmul_object *x);

// Begins the file, or, where the text is only checked, none.
enum mmul_status mmul_target_begin(struct mmul_evaluator *e, const struct mmul_node *at,
                                   const struct mmul_target *target, const struct mmul_object *x,
                                   struct mmul_output **output);
