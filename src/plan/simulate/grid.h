// SPDX-License-Identifier: MIT
//
// Costs of other ways to cut a product, on the same nodes and links, for comparison. The closed
// formulas favour them: perfect overlap, perfect balance except for the slowest node, no cost of
// steps. Pure. There are p nodes, s_A, s_B bytes per element of A and B, and C in float32. The p
// nodes are root's and then the fastest. B_min is the slowest link, l the largest latency, F_min
// the operations per second of the slowest node, which all nodes wait for, because blocks are
// equal.
//
//   1-D      every node holds m/p rows and receives all of B:
//              bytes = k n s_B (1 - 1/p),   seconds = max(2 m n k / (p F_min), bytes / B_min)
//   SUMMA    an r x c grid of nodes, panels of A along rows, of B along columns (van de Geijn &
//            Watts, SUMMA: scalable universal matrix multiplication algorithm, Concurrency:
//            Practice and Experience 9(4), 1997):
//              bytes = m k s_A / r (1 - 1/c) + k n s_B / c (1 - 1/r)
//              seconds = max(2 m n k / (p F_min), bytes / B_min + (k / 256 + r + c) l)
//   2.5-D    c copies of a q x q grid, p = c q^2, where memory holds them (Solomonik & Demmel,
//            Communication-optimal parallel 2.5D matrix multiplication and LU factorization
//            algorithms, Euro-Par 2011):
//              bytes = (m k s_A + k n s_B) / sqrt(c p) + [c > 1] (m k s_A + k n s_B + 4 m n) c / p
//              seconds = max(2 m n k / (p F_min), bytes / B_min + (sqrt(p / c^3) + log2 c) l)
//
// From root: (1 - 1/p) of A and B leave through root's link while the nodes compute. Afterwards the
// same part of C, which is complete only at the end, returns. Each node has its link's rate.
#pragma once

#include "model/cluster.h"
#include "model/problem.h"

struct mmul_grid {
    int rows, cols, copies; // nodes used: their product
    double bytes;           // in and out of each node while it computes
    double seconds;
};

// The shapes with the least seconds. Other nodes are idle.
struct mmul_grids {
    const char *name; // static
    struct mmul_grid in_place, from_root;
};

// Evaluates the three algorithms. Fails with MMUL_ERR_SYSTEM (memory for work space) only.
enum { MMUL_GRIDS = 3 };
enum mmul_status mmul_grids(const struct mmul_problem *problem, const struct mmul_cluster *cluster,
                            struct mmul_grids grids[static MMUL_GRIDS], struct mmul_error *err);
