// SPDX-License-Identifier: MIT
//
// Shares with which all ranks are predicted to finish together. Pure.
//
// For a finish time T and a sum S of what goes through root's link, cost.h says how many units each
// rank can take; more for a later T, fewer for a larger S. Two nested searches: for a given T the S
// that the shares themselves cause (as far as the way back holds it too), then the T at which the
// shares add up to the total. What couples weakly (CPU seconds of traffic) is settled by repeating.
#pragma once

#include "plan/cost/cost.h"

// Writes units per rank (fractions, sum `total`) and returns the seconds at which all end that have
// any; ranks whose first bytes would come too late have none. `capacity`: most units per node;
// NULL: no limit. `cost` has been set; it is coupled and evaluated with the result.
// Returns 0, and writes nothing useful, when no shares reach the total: capacities too small, or
// nobody has a speed.
double mmul_balance(struct mmul_cost *cost, double total, const int64_t *capacity, double *units);
