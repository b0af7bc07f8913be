// SPDX-License-Identifier: MIT
// Tables of numbers as text: cells between commas (.csv) or tabs (.tsv), also between semicolons or
// blanks. A line is a row, and all rows have equally many cells. A first line is a header if each
// of its cells begins with a letter or is text in quotes. Blank lines and lines that begin with #
// are skipped. A cell may stand in double quotes. A cell that is no number is refused with its line
// and column.
#pragma once

#include "io/decoded.h"
#include "io/output_file.h"

// Reads the open file `fd`, called `name`, to its end, and appends its numbers to `to` as float64,
// in C order. Empty cells, NA and N/A are NaN if `missing_is_nan`, else refused. Sets shape, stored
// and has_header of *info. Fails with MMUL_ERR_DATA, MMUL_ERR_NO_INPUT, MMUL_ERR_IO and
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_csv_decode(int fd, const char *name, bool missing_is_nan,
                                 struct mmul_decoded *to, struct mmul_matrix_info *info,
                                 struct mmul_error *err);

// Functions `load` and `pack` of the format's row (io/formats.h).
enum mmul_status mmul_csv_load(struct mmul_matrix *matrix, const unsigned char *start, size_t count,
                               bool empty_allowed, struct mmul_error *err);
enum mmul_status mmul_csv_pack(const struct mmul_output *output, int to, struct mmul_error *err);

// Return true if text that begins so can be a table: the first line that is not skipped has a
// separator, or it or the next one begins with a number. mmul_is_tsv requires tabs as separators.
bool mmul_is_csv(const unsigned char *start, size_t count);
bool mmul_is_tsv(const unsigned char *start, size_t count);
