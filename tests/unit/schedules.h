// SPDX-License-Identifier: MIT
// Shared by the tests of src/plan.
#pragma once

#include "plan/product/schedule_make.h"

static inline struct mmul_schedule *plan_or_die(const struct mmul_schedule_request *request) {
    struct mmul_schedule *schedule = NULL;
    struct mmul_error err = {.text = ""};
    if (mmul_schedule_make(request, &schedule, &err) != MMUL_OK)
        fail_msg("%s", err.text);
    return schedule;
}

// Teardown: fails if the test left memory allocated.
static inline int assert_no_live_bytes(void **state) {
    (void)state;
    return mmul_live_bytes() == 0 ? 0 : -1;
}
