// SPDX-License-Identifier: MIT
//
// Matrix Market files: text that says what it is in its first line (array or coordinate; real, integer or pattern;
// general, symmetric or skew-symmetric), sizes, and an entry a line: of an array column after column, of coordinates
// row and column from 1 before the value. Source: math.nist.gov/MatrixMarket/formats.html.
#pragma once

#include "io/decoded.h"
#include "io/output_file.h"

// Reads the open file `fd`, called `name`, to its end: all elements, zeros among them, to `to`; shape and type to
// `info`: float64 of real ones, int64 of integers, bool of patterns. Entries of one place are added up. Fails with
// MMUL_ERR_DATA (complex ones among it), MMUL_ERR_NO_INPUT, MMUL_ERR_IO and MMUL_ERR_SYSTEM.
enum mmul_status mmul_mtx_decode(int fd, const char *name, struct mmul_decoded *to,
                                 struct mmul_matrix_info *info, struct mmul_error *err);

// The row's functions (io/formats.h); an array is written.
enum mmul_status mmul_mtx_load(struct mmul_matrix *matrix, const unsigned char *start, size_t count,
                               bool empty_allowed, struct mmul_error *err);
enum mmul_status mmul_mtx_pack(const struct mmul_output *output, int to, struct mmul_error *err);
