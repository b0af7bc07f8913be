// SPDX-License-Identifier: MIT
// The compute thread of a rank: its steps, one after the other.
#pragma once

#include "exec/run.h"

// Waits for what each step needs, multiplies, checks, and tells the board. Local; makes no MPI
// call. A failure goes to run->compute_error and cancels the node's other work.
void mmul_run_compute(struct mmul_run *run);

// This rank will compute nothing: the others need not wait for it. Local.
void mmul_run_cancel(struct mmul_run *run);
