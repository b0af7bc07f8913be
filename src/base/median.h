// SPDX-License-Identifier: MIT
#pragma once

// The median of `count` >= 1 numbers, the lower one of the middle two; sorts x.
double mmul_median(double *x, int count);
