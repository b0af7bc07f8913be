// SPDX-License-Identifier: MIT
// Runs a program given as text with a command's options. Used by `run`, and by commands that are
// programs of one line.
#pragma once

#include "cli/command.h"

// Options that all these commands take. mmul_run_refused lists options of mul that none of them
// has.
#define MMUL_RUN_OPTIONS                                                                          \
    OPT_COMPUTED, OPT_MISSING, OPT_CHECK, OPT_SHARD_DIR, OPT_TRACE, OPT_REPORT, OPT_HTML,         \
        OPT_WEIGHTS, OPT_DEVICE, OPT_IO, OPT_TAIL, OPT_REPRODUCIBLE, OPT_MEMORY,                  \
        OPT_DEVICE_MEMORY, OPT_VERIFYING, OPT_SYNC, OPT_NO_FALLBACK, OPT_DEVICE_TIMEOUT,          \
        OPT_STALL_TIMEOUT, OPT_JSON, OPT_PROGRESS, OPT_THREADS, OPT_BIND, OPT_QUIET, OPT_VERBOSE, \
        OPT_HELP
extern const struct option_refusal mmul_run_refused[];

// Runs the script. Collective. Takes path, text and settings from the request on root. A failure
// that root already has in `err` ends it.
enum mmul_status mmul_run_script(const struct call *call, const struct mmul_script_request *request,
                                 struct mmul_error *err);
