// SPDX-License-Identifier: MIT
//
// The cost of one pass for one rank: predicted seconds by the units it has in a round. Pure.
//
// A pass multiplies x units by a panel of w units (mean of the round's panels), with inner size k.
// If the rank multiplies by all W panels at once (plan/parts/panels.h), the pass is the W-th part
// of one pass with the whole width as w:
//
//     seconds(x) = gemm + device + check + files + overhead
//     gemm       2 x w k / rate(s),  s = 3 / (1/x + 1/w + 1/k)
//     device     bytes of panel, block and a W-th of the piece (it stays there for the W panels of
//                a round) at the device's own transfer rates; 0 in host memory
//     check      bytes of panel, piece and block at the rank's own rate, or
//                MMUL_CHECK_BYTES_PER_SECOND
//     files      the first touch of a result that the node maps, unless that is a value
//
// s is the side of the cube that moves as many bytes per operation as the pass does. A narrow panel
// costs more than its share of operations (the surface-to-volume argument of Hong & Kung 1981).
// rate(s) was measured for sides 256 .. 4096 (struct mmul_speed). It is linear in log s between
// them, constant above and down to 64, and proportional to s below, where memory is the limit.
//
// With several whole matrices a unit meets only the panels of its own matrix. The formula then
// gives the mean over all panels of the round.
#pragma once

#include "model/cluster.h"
#include "plan/parts/panels.h"

// Assumed for every machine; to be calibrated.
#define MMUL_CHECK_BYTES_PER_SECOND       4e9 // until measured
#define MMUL_FILE_BYTES_PER_SECOND        1e9
#define MMUL_FIRST_TOUCH_SECONDS_PER_BYTE 0.35e-9
// Per element, until measured: a BLAS gathers rows of A (src/NOTES.md, "OpenBLAS").
#define MMUL_PACK_A_SECONDS 1.25e-9
#define MMUL_PACK_B_SECONDS 0.35e-9
#define MMUL_PASS_SECONDS   150e-6 // launch, waits and bookkeeping of a pass

struct mmul_pass_request {
    const struct mmul_problem *problem;
    enum mmul_axis axis;
    const struct mmul_cut *cut;
    const struct mmul_rank_info *rank;
    double assumed_flops; // used if the rank's speed is not measured; 0: no speed
    unsigned maps;        // maps of the rank's node
    unsigned value_maps;  // the maps that are values, whose memory is reused from step to step
};

// A pass cost is a rising function, linear between knots, with the last slope beyond them.
enum { MMUL_PASS_KNOTS = 10 };
struct mmul_pass_cost {
    int knots; // 0: no speed
    double units[MMUL_PASS_KNOTS], seconds[MMUL_PASS_KNOTS];
};

struct mmul_pass_cost mmul_pass_cost(const struct mmul_pass_request *request);

double mmul_pass_seconds(const struct mmul_pass_cost *cost, double units);

// Returns the units per second of long passes; 0: no speed.
double mmul_pass_rate(const struct mmul_pass_cost *cost);

// Returns the inverse; 0 if `seconds` is too short for any unit.
double mmul_pass_units(const struct mmul_pass_cost *cost, double seconds);

// Returns the operations per second of m x n x k products, in float32 or float64, on the rank's
// device. 0: not known. `assumed` is used like assumed_flops.
double mmul_product_rate(const struct mmul_rank_info *rank, enum mmul_dtype dtype, double assumed,
                         double m, double n, double k);

// Returns the bytes per second that the check of the rank reads.
double mmul_check_bytes_per_second(const struct mmul_rank_info *rank);

// Returns true if the rank's speed in that type was measured.
bool mmul_product_is_measured(const struct mmul_rank_info *rank, enum mmul_dtype dtype);
