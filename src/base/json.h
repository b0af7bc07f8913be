// SPDX-License-Identifier: MIT
// JSON files and texts. Callers use jansson's types directly, but read and write files only through
// this header.
#pragma once

#include <jansson.h>

#include "mpimatmul_local.h"

// Reads a file and rejects duplicate keys. Fails with MMUL_ERR_NO_INPUT, MMUL_ERR_DATA or
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_json_load(const char *path, json_t **value, struct mmul_error *err);

// Reads the unchanged text of a file, zero-terminated. The caller releases it with mmul_free. Fails
// with MMUL_ERR_NO_INPUT or MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_text_load(const char *path, char **text, struct mmul_error *err);

// Parses `count` bytes that were read from file `name`; rejects duplicate keys. Fails with
// MMUL_ERR_DATA or MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_json_parse(const char *bytes, size_t count, const char *name, json_t **value,
                                 struct mmul_error *err);

// Serialises `value` with an indent of two blanks, keys in insertion order and a newline at the
// end. The caller releases the text with mmul_free.
enum mmul_status mmul_json_format(const json_t *value, char **text, struct mmul_error *err);

// Returns the text member `name`, or "" if it is absent or no text.
const char *mmul_json_get_text(const json_t *object, const char *name);

// Copies the text member `name`. Returns false if it is absent, no text or too long.
bool mmul_json_copy_text(const json_t *object, const char *name, char *target, size_t capacity);

// Makes a number; NaN and infinity, which JSON lacks, become null, as most readers expect.
json_t *mmul_json_from_double(double x);

// Makes a string of any bytes. In a text that is not valid UTF-8, non-ASCII bytes become '?'.
json_t *mmul_json_from_text(const char *text);
