// SPDX-License-Identifier: MIT
//
// How a job is cut into rounds and panels (plan/lists/schedule.h walks the cut). Pure. Which cut is best
// is the cost model's question; this file makes those worth asking about.
//
// Narrow panels start the devices earlier and hide more of the transfers, wide ones have fewer
// passes and faster gemms.
#pragma once

#include "model/cluster.h"
#include "model/problem.h"

#define MMUL_PANEL_BYTES_MOST ((int64_t)1 << 30)

// What goes over one link at once, at most: small enough to stay in a cache and to be passed on
// soon, large enough that a message's own cost does not count. So many packets of panels are under
// way at a time, enough for a link of 10 Gbit/s through one nap of the main thread.
enum { MMUL_PACKET_BYTES = 1 << 20, MMUL_PACKETS_AHEAD = 4 };

// Rounds of scatter, and of gather, that are under way at a time.
enum { MMUL_ROUND_LANES = 2 };

struct mmul_cut {
    int64_t rounds;
    int64_t panels; // per round
    int64_t panel_units, panel_matrices;
    bool whole_stays; // panels cross the network once, not in every round
};

// One round of one panel.
struct mmul_cut mmul_panels_one(const struct mmul_problem *problem, enum mmul_axis axis);

// One round of about `wanted` panels; more where a panel would exceed MMUL_PANEL_BYTES_MOST (which
// a single unit may). Several matrices share a panel, or else each is cut alike, into multiples of
// 64 units where it is large enough.
struct mmul_cut mmul_panels_cut(const struct mmul_problem *problem, enum mmul_axis axis,
                                int64_t wanted);

// The different cuts of 1, 2, 4, ... 64 panels, fewest first. Returns how many.
enum { MMUL_PANEL_CANDIDATES = 7 };
int mmul_panels_candidates(const struct mmul_problem *problem, enum mmul_axis axis,
                           struct mmul_cut cuts[static MMUL_PANEL_CANDIDATES]);

// Bytes of the largest panel of a cut; 0 when alpha is 0.
int64_t mmul_panels_bytes(const struct mmul_problem *problem, enum mmul_axis axis,
                          const struct mmul_cut *cut);

// Units of the whole operand that a rank multiplies by at once: where its node maps both that
// operand and C (`maps`: enum mmul_maps), the panels of a matrix lie side by side.
int64_t mmul_panels_at_once(const struct mmul_problem *problem, enum mmul_axis axis,
                            int64_t panel_units, unsigned maps);

// The check projects one side of a product once and passes over the other (exec/worker/verify.h): the
// whole operand, where all of it is met at once by several pieces, which are those of several rounds
// or matrices or, where blocks are cut along their lines (plan/lists/tasks.h), one rank's; else a rank's
// pieces.
bool mmul_panels_check_whole(const struct mmul_problem *problem, enum mmul_axis axis,
                             int64_t units_at_once, int64_t rounds, bool by_lines);
