// SPDX-License-Identifier: MIT
// Matrix Market files. The first line gives format (array or coordinate), field (real, integer or
// pattern) and symmetry (general, symmetric or skew-symmetric). The sizes follow, then one entry a
// line: column by column for an array, row and column from 1 before the value for coordinates.
// Source: math.nist.gov/MatrixMarket/formats.html.
#pragma once

#include "io/decoded.h"
#include "io/output_file.h"

// Reads the open file `fd`, called `name`, to its end. Stores all elements, zeros too, in `to`, and
// shape and type in *info: float64 for real, int64 for integer, bool for pattern. Entries of one
// position are added up. Fails with MMUL_ERR_DATA (also for complex numbers), MMUL_ERR_NO_INPUT,
// MMUL_ERR_IO and MMUL_ERR_SYSTEM.
enum mmul_status mmul_mtx_decode(int fd, const char *name, struct mmul_decoded *to,
                                 struct mmul_matrix_info *info, struct mmul_error *err);

// Functions `load` and `pack` of the format's row (io/formats.h). Files are written as arrays.
enum mmul_status mmul_mtx_load(struct mmul_matrix *matrix, const unsigned char *start, size_t count,
                               bool empty_allowed, struct mmul_error *err);
enum mmul_status mmul_mtx_pack(const struct mmul_output *output, int to, struct mmul_error *err);
