// SPDX-License-Identifier: MIT
//
// What MPI refuses on one rank, others wait for and would wait for ever. An alarm tells all leaders,
// who carry what there is between nodes: from then on nothing moves any more, and whatever waits for
// traffic (messages, channels, links that are measured) is over at once. It does not say what happened:
// who raised it keeps the error, and an agreement over world makes it everybody's.
#pragma once

#include <mpi.h>

#include "mpimatmul_local.h"

struct mmul_alarm {
    MPI_Comm leaders;    // borrowed
    MPI_Request hearing; // a receive from anybody, open all the time
    bool is_raised;      // by this leader or, as far as it has listened, by another one
};

// Local; messages of the alarm's tag on `leaders`, which outlives it, are its own. Fails with
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_alarm_begin(struct mmul_alarm *alarm, MPI_Comm leaders,
                                  struct mmul_error *err);
void mmul_alarm_end(struct mmul_alarm *alarm);

// Local, never wait. `alarm` NULL: nobody is told, and nobody hears anything.
void mmul_alarm_raise(struct mmul_alarm *alarm);
// For who waits: looks whether one has come meanwhile.
bool mmul_alarm_listen(struct mmul_alarm *alarm);
bool mmul_alarm_is_raised(const struct mmul_alarm *alarm);
