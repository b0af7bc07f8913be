// SPDX-License-Identifier: MIT
#pragma once

// Returns the median of `count` >= 1 numbers, the lower one of the middle two. Sorts x.
double mmul_median(double *x, int count);
