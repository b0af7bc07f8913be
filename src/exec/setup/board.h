// SPDX-License-Identifier: MIT
// What root says of its jobs to others of this user on its machine (io/job_file.h): one board per context, from its
// first job to its end. A job never fails for it, and says nothing where it cannot.
#pragma once

#include "mpimatmul_local.h"

struct mmul_context;
struct mmul_board;

// May be written again: it is root's, and half a second is over since the context was made or it was written last.
bool mmul_board_is_due(const struct mmul_context *context, double now);

// What stands there, to be changed, with all ranks of the cluster; NULL: there is none here.
struct mmul_job_state *mmul_board_job(struct mmul_context *context);

// Writes it, whether or not it is due; the job of the board.
void mmul_board_post(struct mmul_context *context, double now);

// What root does before it has anything to tell of: "plan"; written where it is due.
void mmul_board_enter(struct mmul_context *context, const char *phase);

// Of the outermost loop of a text; NULL: none is at hand. `windows`: that its batches have taken so far.
void mmul_board_turn(struct mmul_context *context, const struct mmul_script_turn *turn);

// A number that a job has printed.
void mmul_board_number(struct mmul_context *context, const char *name, double value);

void mmul_board_destroy(struct mmul_context *context);
