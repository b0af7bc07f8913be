// SPDX-License-Identifier: MIT
//
// Measured rates as JSON, the same in profiles, in the output of calibrate and in tests of devices.
#pragma once

#include "base/json.h"

// Formats a rate per second; null: not known, or no transfer is needed.
json_t *mmul_rate_json(double rate);

// Formats {"size", "flops_per_second", "unstable"} for each measured one of the first `count`
// squares, with sides `smallest` << i; bit i of `unstable`: its times did not agree.
json_t *mmul_rates_json(const double *flops, int count, int smallest, unsigned unstable);
