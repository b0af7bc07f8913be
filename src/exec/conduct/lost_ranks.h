// SPDX-License-Identifier: MIT
//
// Finds the ranks that have died. A launcher ends all ranks when it has lost one, and `mpirun -q`
// does not name the lost rank. Each rank that is told to end sends root an empty message. A rank
// that root does not hear from within 0.4 seconds has ended, or its host does not answer. Root
// names these ranks in its last line.
#pragma once

struct mmul_context;

// Starts checking for the end (mmul_ending_has_begun) in each wait for messages and in
// mmul_lost_ranks_poll. Only one context at a time is covered; a second call does nothing. Local.
// `context` is borrowed until mmul_lost_ranks_end.
void mmul_lost_ranks_begin(struct mmul_context *context);

// Checks once for the end, and sends or evaluates the messages. Local, never waits, one system
// call. For the thread that calls MPI.
void mmul_lost_ranks_poll(void);

// Stops the checks. Does nothing if `context` is not the one that mmul_lost_ranks_begin took.
void mmul_lost_ranks_end(const struct mmul_context *context);
