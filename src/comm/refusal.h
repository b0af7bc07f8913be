// SPDX-License-Identifier: MIT
//
// A collective that MPI refuses on one rank. The other ranks wait in it for ever, and no agreement
// can follow. The refused rank sends its error to all others, and each wait of comm.h looks for
// it. From then on every collective of the process fails at once with this error, on all ranks.
//
// MPI_Finalize would wait for unfinished collectives, so the process ends with _exit
// (mmul_process_has_lost_mpi). Transfers have a remedy of their own: the alarm.
#pragma once

#include <mpi.h>

#include "mpimatmul_local.h"

// Starts to listen to the ranks of `world`, which must outlive the watch. *begun: false if the
// process listens to a communicator already, or is alone. Local. Returns MPI's code.
int mmul_refusal_watch(MPI_Comm world, bool *begun);
// Does nothing if the process does not listen to `world`.
void mmul_refusal_unwatch(MPI_Comm world);

// Returns true if a collective was refused here, or on another rank and its message has come.
// Local, never waits. For the thread that calls MPI.
bool mmul_refusal_poll(void);

// Writes the error that every collective fails with, if there is one. Returns true then.
bool mmul_refusal_get(struct mmul_error *err);

// Returns MMUL_OK, or fails like mmul_comm_check and notifies the other ranks. For the code of a
// collective over `mpi`. A rank that is alone in `mpi` notifies no other.
enum mmul_status mmul_refusal_check(MPI_Comm mpi, int code, const char *what,
                                    struct mmul_error *err);
