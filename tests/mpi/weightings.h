// SPDX-License-Identifier: MIT
// Shares used by trials: equal, none for root, and 1 : 2 : ... : n. Include after trial.h.
#pragma once

#include <stdio.h>
#include <string.h>

enum weighting { EQUAL, ROOT_NONE, ONE_TO_N, WEIGHTINGS };

static const char *weights_text(enum weighting weighting, char text[static 64]) {
    text[0] = '\0';
    for (int i = 0; i < size; i++) {
        int weight = weighting == EQUAL ? 1 : weighting == ROOT_NONE ? i > 0 : i + 1;
        sprintf(text + strlen(text), "%s%d", i > 0 ? "," : "", size == 1 ? 1 : weight);
    }
    return text;
}
