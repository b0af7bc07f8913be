// SPDX-License-Identifier: MIT
// The life cycle of MPI around a command on several ranks: device probe, MPI_Init, agreement,
// context, and the way back.
#pragma once

#include "cli/command.h"
#include "cli/launcher.h"

struct mmul_probe;

struct session {
    const struct launcher *launcher; // borrowed
    struct mmul_probe *probe;        // devices of this machine; owned
};

// Starts MPI and creates the context. Collective over all processes of the job, also with a failure
// in *err; all ranks leave with the same failure. Always sets call->is_root and call->ranks, and
// call->context only on success.
enum mmul_status mmul_session_begin(struct session *session, struct call *call,
                                    struct mmul_error *err);

// Agrees on a failure. Collective. Sets *err on all ranks to that of the lowest failing rank.
enum mmul_status mmul_session_agree(struct mmul_error *err);

// Destroys the context and ends MPI. Collective.
void mmul_session_end(struct session *session, struct call *call);
