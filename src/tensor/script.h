// SPDX-License-Identifier: MIT
//
// A text and what it has made: a program, the files that it reads and writes, and what it wants to be seen.
#pragma once

#include "tensor/evaluator.h"

// A matrix that was loaded, once however often the text asks for it.
struct mmul_script_file {
    const char *path;
    struct mmul_matrix *matrix; // owned; NULL: a kept set
    int value, axes;
    struct mmul_script_file *next;
};

// Where a value goes: a file or (path NULL) memory of ours.
struct mmul_script_output {
    const char *path, *file,
        *tensor; // as it is spelled; the file itself; which of its tensors, "": its only one
    struct mmul_object matrix;
    int line;
    struct mmul_output *output; // owned until the run has it; NULL: a set that is kept
    struct mmul_script_output *next;
};

enum mmul_script_view_kind { MMUL_VIEW_TEXT, MMUL_VIEW_MATRIX, MMUL_VIEW_CLOSE };

enum { MMUL_CORNER_ROWS = 4, MMUL_CORNER_COLS = 6, MMUL_STATISTICS = 3 };

// Something to be seen, or (close) to be so: values that come to root are small.
struct mmul_script_view {
    enum mmul_script_view_kind kind;
    const char *text;          // what is printed; of matrices what the text calls it
    struct mmul_object matrix; // MMUL_VIEW_MATRIX
    double *corner;            // of the first matrix: rows x cols
    int rows, cols;
    double *statistics;  // least, largest, mean; close: the largest difference
    double tolerance;    // close
    struct mmul_span at; // in the text
    struct mmul_script_view *next;
};

struct mmul_script {
    struct mmul_source source;
    char *text;                   // owned
    struct mmul_arena arena;      // owned: what follows, but for files and the program
    struct mmul_program *program; // owned
    struct mmul_script_file *files;
    struct mmul_script_output *outputs;
    struct mmul_script_view *views, *last_view;
    const char *shard_folder; // borrowed; NULL: the standard one
    bool only_checked, no_sync, common_types, is_handed_over, writes_stdout;
    enum mmul_dtype narrow; // as of the request
};

// ------------------------------------------------------------------------------------ settings.c

// Gives `text`, "NAME=VALUE", to the first line at the top that assigns a number or string to NAME. Fails with
// MMUL_ERR_USAGE.
enum mmul_status mmul_setting_apply(struct mmul_tree *tree, const char *text,
                                    struct mmul_error *err);
