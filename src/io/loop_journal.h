// SPDX-License-Identifier: MIT
//
// The journal of a program's loops: implements mmul_loop_journal of mpimatmul_local.h. An entry of
// the journal (io/journal.h) is one recorded state:
//
//     loop 2 state 7 91ab...  TEXT        state 7 is in NAME.journal.7.safetensors, with this XXH3
//     loop 3 state 8 -        TEXT        a state without matrices
//
// The two latest states of a loop stay: the last file may be damaged after a power failure.
#pragma once

#include "io/journal.h"
