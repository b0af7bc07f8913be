// SPDX-License-Identifier: MIT
//
// The names of ranks that have died. A launcher ends all ranks when it has lost one, and `mpirun -q` does not say which
// one. Each rank that is told to end tells root so, with an empty message; the ranks from which root gets none within
// 0.4 seconds have ended, or are on a host that does not answer. Root's line about its end names them.
#pragma once

struct mmul_context;

// Looks from now on whether the end has begun (mmul_outputs_end), in each wait for messages, and in
// mmul_farewell_attend. One context at a time; of a second one nothing is known. Local. `context` is borrowed until
// mmul_farewell_end.
void mmul_farewell_begin(struct mmul_context *context);

// Local, never waits, one system call. For the thread that calls MPI.
void mmul_farewell_attend(void);

// Nothing if `context` is not the one that has begun.
void mmul_farewell_end(const struct mmul_context *context);
