// SPDX-License-Identifier: MIT
//
// The cut of a job into rounds and panels (plan/lists/schedule.h walks it). Pure. This file makes
// the candidate cuts; the cost model chooses among them.
//
// Narrow panels start the devices earlier and hide more of the transfers. Wide panels need fewer
// passes and run faster gemms.
//
// plan/product/schedule_choose.c chooses rounds and panels. plan/lists/transfers.c orders them, and
// decides which transfer waits for which.
#pragma once

#include "model/cluster.h"
#include "model/problem.h"

#define MMUL_PANEL_BYTES_MOST ((int64_t)1 << 30)

// Largest packet on a link: small enough to stay in a cache and to be forwarded soon, large enough
// to hide the cost of a message. MMUL_PACKETS_IN_FLIGHT packets of panels are in flight at a time,
// enough for a 10 Gbit/s link while the main thread sleeps once.
enum { MMUL_PACKET_BYTES = 1 << 20, MMUL_PACKETS_IN_FLIGHT = 4 };

// Rounds of scatter, and of gather, in flight at a time.
enum { MMUL_ROUNDS_IN_FLIGHT = 2 };

struct mmul_cut {
    int64_t rounds;
    int64_t panels; // per round
    int64_t panel_units, panel_matrices;
    bool whole_stays; // panels cross the network once, not in every round
};

// Returns the cut of one round of one panel.
struct mmul_cut mmul_panels_single(const struct mmul_problem *problem, enum mmul_axis axis);

// Returns a cut of one round of about `wanted` panels. It has more panels if one would exceed
// MMUL_PANEL_BYTES_MOST, which a single unit may exceed. Several matrices share a panel, or else
// every matrix is cut alike, into multiples of 64 units if it is large enough.
struct mmul_cut mmul_panels_cut(const struct mmul_problem *problem, enum mmul_axis axis,
                                int64_t wanted);

// Writes the different cuts of 1, 2, 4, ... 64 panels, fewest first, and returns their number.
enum { MMUL_PANEL_CANDIDATES = 7 };
int mmul_panels_candidates(const struct mmul_problem *problem, enum mmul_axis axis,
                           struct mmul_cut cuts[static MMUL_PANEL_CANDIDATES]);

// Returns the bytes of the largest panel of a cut; 0 if alpha is 0.
int64_t mmul_panels_bytes(const struct mmul_problem *problem, enum mmul_axis axis,
                          const struct mmul_cut *cut);

// Returns the units of the whole operand that a rank multiplies by at once. If its node maps both
// that operand and C (`maps`: enum mmul_maps), the panels of a matrix lie side by side.
int64_t mmul_panels_units_at_once(const struct mmul_problem *problem, enum mmul_axis axis,
                                  int64_t panel_units, unsigned maps);

// Returns true if the check projects the whole operand, false if it projects a rank's pieces. The
// check projects one side of a product once and passes over the other (exec/worker/verify.h). The
// whole operand is projected if several pieces meet all of it at once: pieces of several rounds or
// matrices, or pieces of one rank if blocks are cut along their lines (plan/lists/tasks.h).
bool mmul_check_projects_whole(const struct mmul_problem *problem, enum mmul_axis axis,
                               int64_t units_at_once, int64_t rounds, bool by_lines);
