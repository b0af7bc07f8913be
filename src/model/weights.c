// SPDX-License-Identifier: MIT
// Rule for valid weights, shared by the parser and the splitter.
#include "model/weights.h"

#include <math.h>

#include "base/status.h"

enum mmul_status mmul_weights_check(const double *weights, int count, enum mmul_status status,
                                    struct mmul_error *err) {
    bool any_positive = false;
    for (int w = 0; w < count; w++) {
        if (!isfinite(weights[w])) {
            return mmul_fail(err, status, "weight %d is %g: not a finite number", w + 1,
                             weights[w]);
        }
        if (weights[w] < 0) {
            return mmul_fail(err, status, "weight %d is %g: a weight is zero or more", w + 1,
                             weights[w]);
        }
        if (weights[w] > 0)
            any_positive = true;
    }
    if (any_positive)
        return MMUL_OK;
    if (count > 0)
        return mmul_fail(err, status, "all weights are zero: at least one must be positive");
    return mmul_fail(err, status, "no weights given: at least one is needed");
}
