// SPDX-License-Identifier: MIT
//
// mpirun's own verdict on a hostfile and on this environment. mpirun prepares a job of one rank and
// launches nothing: it contacts no machine.
#pragma once

#include "mpimatmul_local.h"

enum mmul_mpirun_verdict {
    MMUL_MPIRUN_SILENT, // not asked: it is not installed, or this process is a rank of a job
    MMUL_MPIRUN_ACCEPTS,
    MMUL_MPIRUN_REFUSES,
};

struct mmul_mpirun_answer {
    enum mmul_mpirun_verdict verdict;
    char words[256];  // of a refusal, on one line: mpirun's, or how it ended
    bool is_crash;    // it ended by a signal
    bool has_no_home; // neither HOME nor an entry of the user in the list of users
};

// `hostfile`, `tune`: NULL for none. mpirun has `limit_seconds` and some more. The caller ignores
// SIGPIPE. Fails with MMUL_ERR_SYSTEM: no process.
enum mmul_status mmul_mpirun_ask(const char *hostfile, const char *tune, double limit_seconds,
                                 struct mmul_mpirun_answer *answer, struct mmul_error *err);

// Takes the verdict from what mpirun has said on stderr.
void mmul_mpirun_read(const char *said, struct mmul_mpirun_answer *answer);
