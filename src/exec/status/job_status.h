// SPDX-License-Identifier: MIT
// Job status that root publishes for other processes of this user on its machine (io/job_file.h). A
// context has one job status, from its first job to its end. A failure here never fails
// a job: the status is then not published.
#pragma once

#include "mpimatmul_local.h"

struct mmul_context;
struct mmul_job_status;

// Returns true on root if the interval since the last write, or since the context was made, is
// over. The interval is half a second, longer with more than 250 ranks.
bool mmul_job_status_is_due(const struct mmul_context *context, double now);

// Returns the job's state, to be changed by the caller, with all ranks of the cluster. NULL: this
// rank publishes none.
struct mmul_job_state *mmul_job_status_get(struct mmul_context *context);

// Writes the job's state to its file, due or not.
void mmul_job_status_write(struct mmul_context *context, double now);

// Sets the phase of root before a run has progress to report, such as "plan". Writes the file if it
// is due.
void mmul_job_status_set_phase(struct mmul_context *context, const char *phase);

// Records the current iteration of a script's outermost loop, and derives its rate and remaining
// time. NULL: no loop is running.
void mmul_job_status_set_iteration(struct mmul_context *context,
                                   const struct mmul_script_turn *turn);

// Records a number that a job has printed.
void mmul_job_status_add_number(struct mmul_context *context, const char *name, double value);

void mmul_job_status_destroy(struct mmul_context *context);
