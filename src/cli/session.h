// SPDX-License-Identifier: MIT
// The life around a command on several ranks: probe, MPI_Init, agreement, context, and back.
#pragma once

#include "cli/command.h"
#include "cli/launcher.h"

struct mmul_probe;

struct session {
    const struct launcher *launcher; // borrowed
    struct mmul_probe *probe;        // devices of this machine, owned
};

// Collective over all processes of the job, whatever *err holds: comes with the failure this rank
// had so far (err->status MMUL_OK: none) and leaves with everybody's. Starts MPI and sets
// call->is_root and call->ranks in any case, call->context only on success.
enum mmul_status mmul_session_begin(struct session *session, struct call *call,
                                    struct mmul_error *err);

// Collective. Leaves *err the same on all ranks: the lowest failing rank's.
enum mmul_status mmul_session_agree(struct mmul_error *err);

// Collective. Destroys the context and ends MPI.
void mmul_session_end(struct session *session, struct call *call);
