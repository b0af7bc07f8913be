// SPDX-License-Identifier: MIT
// The kernels of the CPU's BLAS library: the active set, and the speed of others. The library
// chooses its kernels when it is loaded. Others are therefore tried in a child process, which loads
// it again with other settings.
#pragma once

#include "model/kernel_set.h"

// Reports the active kernels of this process and measures nothing.
void mmul_kernels_identify(struct mmul_kernel_comparison *c);

// Does mmul_kernels_identify and, if the active set is doubtful (model/kernel_set.h), measures the
// speed of a float32 product on one core. It compares the active kernels, those that the library
// chooses without settings, and those for the widest vectors of this processor. Takes some seconds
// at most, and almost none without doubt. A speed that cannot be measured stays 0.
void mmul_kernels_compare(struct mmul_kernel_comparison *c);
