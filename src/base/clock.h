// SPDX-License-Identifier: MIT
#pragma once

// Seconds on the monotonic clock.
double mmul_clock_now(void);

// Sleeps; returns early on a signal.
void mmul_clock_nap(double seconds);
