// SPDX-License-Identifier: MIT
// What a fuzz target is: libFuzzer (make fuzz) or replay.c (make check) gives it any bytes, in memory that
// ends where they do. A finding ends the process.
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
