// SPDX-License-Identifier: MIT
// What one machine's BLAS does alone: the other side of a speed-up.
#pragma once

#include "exec/setup/context.h"

// As mmul_baseline_measure in mpimatmul.h. Collective.
enum mmul_status mmul_baseline_run(struct mmul_context *context,
                                   const struct mmul_baseline *baseline, double *seconds,
                                   int *threads, struct mmul_error *err);
