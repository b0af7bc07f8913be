// SPDX-License-Identifier: MIT
//
// Shares with which all ranks are predicted to finish together. Pure.
//
// For a finish time T and a sum S of the traffic through root's link, cost.h says how many units
// each rank can take: more for a later T, fewer for a larger S. Two nested searches solve for both.
// The inner one finds, for a given T, the S that the shares themselves cause, as far as the return
// link can carry it. The outer one finds the T at which the shares add up to the total. Weak
// couplings (CPU seconds of traffic) are settled by repetition.
#pragma once

#include "plan/cost/cost.h"

// Writes units per rank (fractions, sum `total`) and returns the time at which all ranks with units
// end. A rank gets none if its first bytes would arrive too late. `capacity`: most units per node;
// NULL: no limit. `cost` must be set; it is coupled and evaluated with the result. Returns 0, with
// undefined units, if no shares reach the total: capacities are too small, or no rank has a speed.
double mmul_balance(struct mmul_cost *cost, double total, const int64_t *capacity, double *units);
