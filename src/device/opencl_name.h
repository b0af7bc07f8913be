// SPDX-License-Identifier: MIT
// Names of OpenCL devices, for builds with and without OpenCL.
#pragma once

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>

#define MMUL_OPENCL_NAMES "P:D (platform:device as clinfo numbers them)"

// Skips one to four digits. Returns the position after them, or NULL.
static inline const char *mmul_opencl_skip_number(const char *text) {
    const char *end = text;
    while (isdigit((unsigned char)*end))
        end++;
    return end > text && end - text <= 4 ? end : NULL;
}

// Returns true for "P:D".
static inline bool mmul_opencl_is_name(const char *text) {
    const char *colon = mmul_opencl_skip_number(text);
    const char *end = colon != NULL && *colon == ':' ? mmul_opencl_skip_number(colon + 1) : NULL;
    return end != NULL && *end == '\0';
}
