// SPDX-License-Identifier: MIT
//
// The kernels of the CPU's library: which are in force, and how fast others are. They are chosen when the library is
// loaded, so others are tried in a child process that loads it once more, with other settings.
#pragma once

#include "model/kernel_set.h"

// What is in force in this process; nothing is measured.
void mmul_kernels_look(struct mmul_kernel_comparison *c);

// The same, and where that is doubtful (model/kernel_set.h) the speed of a product in float32 on one core with them,
// with those that the library chooses when nothing is set, and with those for the widest vectors of this processor.
// Takes some seconds at most, next to nothing where there is no doubt. What cannot be measured is left at 0.
void mmul_kernels_compare(struct mmul_kernel_comparison *c);
