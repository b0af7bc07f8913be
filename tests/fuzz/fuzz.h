// SPDX-License-Identifier: MIT
// Interface of a fuzz target: libFuzzer (make fuzz) or replay.c (make check) passes it any bytes,
// in memory that ends with the last byte. A finding ends the process.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_EXPECT(condition) \
    do {                       \
        if (!(condition))      \
            abort();           \
    } while (0)
