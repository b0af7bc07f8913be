// SPDX-License-Identifier: MIT
// Baseline for a speed-up: the time that one machine's BLAS needs alone.
#pragma once

#include "exec/setup/context.h"

// Does the work of mmul_baseline_measure in mpimatmul.h. Collective.
enum mmul_status mmul_baseline_run(struct mmul_context *context,
                                   const struct mmul_baseline *baseline, double *seconds,
                                   int *threads, struct mmul_error *err);
