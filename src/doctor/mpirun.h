// SPDX-License-Identifier: MIT
// mpirun's own verdict on a hostfile and this environment. mpirun prepares a job of one rank but
// launches nothing and contacts no machine.
#pragma once

#include "mpimatmul_local.h"

enum mmul_mpirun_verdict {
    MMUL_MPIRUN_SILENT, // not asked: not installed, or this process is a rank
    MMUL_MPIRUN_ACCEPTS,
    MMUL_MPIRUN_REFUSES,
};

struct mmul_mpirun_result {
    enum mmul_mpirun_verdict verdict;
    char words[256];  // reason of a refusal, on one line: mpirun's text, or how it ended
    bool is_crash;    // mpirun ended by a signal
    bool has_no_home; // HOME is not set and the user has no passwd entry
};

// Asks mpirun. `hostfile`, `tune`: NULL for none. mpirun gets `limit_seconds` and some time to
// start. The caller must ignore SIGPIPE. Fails with MMUL_ERR_SYSTEM if the process cannot be
// started.
enum mmul_status mmul_mpirun_dry_run(const char *hostfile, const char *tune, double limit_seconds,
                                     struct mmul_mpirun_result *answer, struct mmul_error *err);

// Derives the verdict from mpirun's output on stderr.
void mmul_mpirun_parse_output(const char *said, struct mmul_mpirun_result *answer);
