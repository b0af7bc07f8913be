// SPDX-License-Identifier: MIT
// The interactive screen of `top`: redraws jobs twice a second until `q` is pressed. The only file
// that uses ncurses is its implementation.
#pragma once

#include "mpimatmul_local.h"

// Shows jobs. `id`: job to show first; NULL for any. A job that ends stays on the screen, marked as
// ended. Fails as mmul_jobs_find, and with MMUL_ERR_SYSTEM for an unknown terminal type.
enum mmul_status mmul_top_screen(const char *id, struct mmul_error *err);
