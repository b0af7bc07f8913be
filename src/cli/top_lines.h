// SPDX-License-Identifier: MIT
// Text about a job, shared by the screen and the table of `top`. Unknown values are "-".
#pragma once

#include "mpimatmul_local.h"

// Returns the place of a job in the list; -1: none.
int mmul_top_find_job(const struct mmul_jobs *jobs, const char *id);

// Formats "multiply 45 %, 350.2 GFLOP/s, 4 s left, 12 s so far", and the silence of a job that has
// not reported for long.
void mmul_top_state(const struct mmul_job_state *job, char text[static 256]);

// Formats "turn 7 of 2000, 0.85 turns/s, 13.6 windows/s"; "" outside of loops.
void mmul_top_turn(const struct mmul_job_state *job, char text[static 128]);

// Formats "loss 2.34567  accuracy 0.91"; "" if nothing was printed yet.
void mmul_top_numbers(const struct mmul_job_state *job, char text[static 1024]);

// One cell per column for each rank, with headings and column alignment ('l' or 'r').
enum top_column {
    TOP_RANK,
    TOP_HOST,
    TOP_DEVICE,
    TOP_COMPUTES,
    TOP_RATE,
    TOP_SHARE,
    TOP_DONE,
    TOP_MEMORY,
    TOP_TEMPERATURE,
    TOP_POWER,
    TOP_COLUMNS
};
extern const char *const mmul_top_headings[TOP_COLUMNS];
extern const char mmul_top_alignment[TOP_COLUMNS + 1];
struct top_cells {
    char text[TOP_COLUMNS][192];
};
void mmul_top_cells(const struct mmul_job_state *job, int rank, struct top_cells *cells);
