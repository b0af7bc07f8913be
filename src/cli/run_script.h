// SPDX-License-Identifier: MIT
// A program as a text, carried out with a command's options: of `run`, and of commands that are a text of one line.
#pragma once

#include "cli/command.h"

// Options that all of these take, and those of mul that none of them has.
#define MMUL_RUN_OPTIONS                                                                           \
    OPT_COMPUTED, OPT_MISSING, OPT_CHECK, OPT_SHARD_DIR, OPT_TRACE, OPT_REPORT, OPT_HTML,          \
        OPT_WEIGHTS, OPT_DEVICE, OPT_IO, OPT_TAIL, OPT_REPRODUCIBLE, OPT_MEMORY,                   \
        OPT_DEVICE_MEMORY, OPT_VERIFYING, OPT_SYNC, OPT_NO_FALLBACK, OPT_DEVICE_TIMEOUT, OPT_JSON, \
        OPT_PROGRESS, OPT_THREADS, OPT_BIND, OPT_QUIET, OPT_VERBOSE, OPT_HELP
extern const struct option_refusal mmul_run_refused[];

// Collective. Of the request path, text and settings are taken, on root. An error that root has already ends it.
enum mmul_status mmul_run_script(const struct call *call, const struct mmul_script_request *request,
                                 struct mmul_error *err);
