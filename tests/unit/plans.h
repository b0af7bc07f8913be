// SPDX-License-Identifier: MIT
// What the tests of src/plan share.
#pragma once

#include "plan/product/plan_make.h"

static inline struct mmul_plan *plan_or_die(const struct mmul_plan_request *request) {
    struct mmul_plan *plan = NULL;
    struct mmul_error err = {.text = ""};
    if (mmul_plan_make(request, &plan, &err) != MMUL_OK)
        fail_msg("%s", err.text);
    return plan;
}

// Teardown: whatever the test made is gone.
static inline int assert_no_live_bytes(void **state) {
    (void)state;
    return mmul_live_bytes() == 0 ? 0 : -1;
}
