// SPDX-License-Identifier: MIT
//
// Measured rates as JSON, the same in profiles, in what calibrate prints and in tests of devices.
#pragma once

#include "base/json.h"

// A rate per second; null: not known, or no transfer is needed.
json_t *mmul_rate_json(double rate);

// {"size", "flops_per_second", "unstable"} for each of the first `count` squares, whose sides are
// `smallest` << i, that was measured; bit i of `unstable`: its times did not agree.
json_t *mmul_rates_json(const double *flops, int count, int smallest, unsigned unstable);
