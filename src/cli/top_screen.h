// SPDX-License-Identifier: MIT
// Jobs on a terminal, twice a second, until `q` is pressed; the door to ncurses.
#pragma once

#include "mpimatmul_local.h"

// `id`: of the job that is shown first; NULL: of any. A job that ends stays on the screen, and says so. Fails as
// mmul_jobs_find, with MMUL_ERR_SYSTEM (a terminal that nobody knows).
enum mmul_status mmul_top_screen(const char *id, struct mmul_error *err);
