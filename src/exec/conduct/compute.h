// SPDX-License-Identifier: MIT
// The compute thread of a rank: stage after stage; of a product its tasks, one after the other, then
// others'.
#pragma once

#include <stdbool.h>

struct mmul_run;

// Waits for what each stage and task needs, multiplies, checks, and counts what is done. Local; makes no
// MPI call. A failure goes to run->site.failure and cancels the node's other work.
void mmul_run_compute(struct mmul_run *run);

// This rank will compute nothing: the others need not wait for it. Local.
void mmul_run_cancel(struct mmul_run *run);

// Main thread: a device that has not ended its product in time is abandoned and replaced; true: then
// mmul_run_compute has to be called again, on another thread, and goes on with what is at hand.
bool mmul_run_give_up_device(struct mmul_run *run);
