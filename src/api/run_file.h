// SPDX-License-Identifier: MIT
//
// A file that a run has left; its contents determine its kind.
#pragma once

#include "base/json.h"

enum mmul_run_file_kind {
    MMUL_RUN_FILE_REPORT,  // --report, mul --json
    MMUL_RUN_FILE_RUN,     // run --json
    MMUL_RUN_FILE_TRACE,   // --trace
    MMUL_RUN_FILE_METRICS, // --metrics
    MMUL_RUN_FILE_COMPARE, // compare --json
    MMUL_RUN_FILE_KINDS
};

struct mmul_run_file {
    enum mmul_run_file_kind kind;
    char *text;    // owned
    json_t *value; // owned; NULL: metrics, where every line is a value
};

// Loads a file. Fails with MMUL_ERR_NO_INPUT, MMUL_ERR_DATA (damaged, none of these, of another
// schema version) or MMUL_ERR_SYSTEM.
enum mmul_status mmul_run_file_load(const char *path, struct mmul_run_file *file,
                                    struct mmul_error *err);
void mmul_run_file_fini(struct mmul_run_file *file);

// Returns "a report", "a trace".
const char *mmul_run_file_name(enum mmul_run_file_kind kind);
