// SPDX-License-Identifier: MIT
//
// Tables of numbers as text: cells between commas (.csv) or tabs (.tsv), also between semicolons or blanks; a row a
// line, all of as many cells. A first line is a header if each of its cells begins with a letter or is text in quotes.
// Lines that begin with #, and blank ones, do not count. A cell may stand in double quotes. A cell that is no number is
// refused with its line and column.
#pragma once

#include "io/decoded.h"
#include "io/output_file.h"

// Reads the open file `fd`, called `name`, to its end: its numbers as float64, in C order, to `to`. Empty cells, NA
// and N/A are NaN where `missing_is_nan`, else refused. Sets shape, stored and has_header of *info. Fails with
// MMUL_ERR_DATA, MMUL_ERR_NO_INPUT, MMUL_ERR_IO and MMUL_ERR_SYSTEM.
enum mmul_status mmul_csv_decode(int fd, const char *name, bool missing_is_nan,
                                 struct mmul_decoded *to, struct mmul_matrix_info *info,
                                 struct mmul_error *err);

// The row's functions (io/formats.h).
enum mmul_status mmul_csv_load(struct mmul_matrix *matrix, const unsigned char *start, size_t count,
                               bool empty_allowed, struct mmul_error *err);
enum mmul_status mmul_csv_pack(const struct mmul_output *output, int to, struct mmul_error *err);

// Could text that begins so be one: is a separator in its first line that counts, or is that, or the next one, a
// number? is_tsv: tabs are what separates cells.
bool mmul_is_csv(const unsigned char *start, size_t count);
bool mmul_is_tsv(const unsigned char *start, size_t count);
