// SPDX-License-Identifier: MIT
// SIGINT, SIGTERM and SIGHUP: one line, no temporary file, exit code 75.
#pragma once

#include <stdbool.h>

// From here on they end the process so. Those that were ignored stay ignored. is_first: this is the process that says
// so; where it is one of several it stays 0.5 seconds longer, and the others leave two seconds later, unless the job
// has ended by then. A result that has been put in its place is kept, and its process left time to end by itself.
void mmul_interrupt_begin(bool is_first, bool is_several);

// Is more to come than the outputs at hand: turns of a loop? Then those that are in their places are not all.
void mmul_interrupt_goes_on(bool does);

// What is going to be said has been said: from here on they leave the process two seconds to end.
void mmul_interrupt_end(void);
