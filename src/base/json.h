// SPDX-License-Identifier: MIT
// The one door to JSON: jansson's own types are used, files and texts go through here.
#pragma once

#include <jansson.h>

#include "mpimatmul_local.h"

// Reads a file; duplicate keys are refused. Fails with MMUL_ERR_NO_INPUT or MMUL_ERR_DATA.
enum mmul_status mmul_json_load(const char *path, json_t **value, struct mmul_error *err);

// The text of a file, zero-terminated, as it stands; released with mmul_free. Fails with MMUL_ERR_NO_INPUT or
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_text_load(const char *path, char **text, struct mmul_error *err);

// Of `count` bytes that are read from file `name`; duplicate keys are refused. Fails with
// MMUL_ERR_DATA.
enum mmul_status mmul_json_parse(const char *bytes, size_t count, const char *name, json_t **value,
                                 struct mmul_error *err);

// Serialises `value` (two blanks of indent, keys in insertion order, newline at the end); the text
// is released with mmul_free.
enum mmul_status mmul_json_format(const json_t *value, char **text, struct mmul_error *err);

// JSON has no NaN and no infinity: null, as most readers expect.
json_t *mmul_json_number(double x);

// A string of any bytes: those that are not valid UTF-8 become question marks.
json_t *mmul_json_text(const char *text);
