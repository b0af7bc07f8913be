// SPDX-License-Identifier: MIT
//
// The rules in a faulty device's name, "faulty:RULE[,RULE...]:NAME":
//
//   delay=5ms        every operation (a multiplication or another) waits first (us, ms or s)
//   clock=5ms        every operation takes longer by the device's own clock, which measures it;
//                    no time really passes
//   repeat=N         every operation does its work N times and is therefore N times slower
//   from=N           delay, clock, repeat and the * of other rules begin with the N-th operation: a
//                    device that becomes slow or faulty during a run
//   fail=N           the N-th operation (from 1) spoils its result and loses the device;
//                    fail=*: any
//   hang=N           the N-th operation never returns; hang=*: the first one. Such a device has
//                    memory of its own, like real devices that hang
//   wake=2s          a hanging operation returns after this time
//   fail-open        opening the device fails
//   fail-alloc=N     the N-th buffer fails; fail-upload=N and fail-download=N likewise
//   corrupt=N        the N-th operation leaves one wrong element; corrupt=*: every one
//   garble=N         the N-th operation leaves a wrong element in every row and column
//   lie=N            the N-th sum of the check (device/matrix_sums.h) has one wrong number;
//                    lie=*: every one
//   spoil-upload=N   the N-th upload leaves one wrong element; spoil-download=N likewise
//   no-float64       the device computes in float32 only, as many cards do
//   everywhere       the fallback device has the same rules
#pragma once

#include "mpimatmul_local.h"

// The call that a rule applies to, counted from 1 for each kind of call.
enum { MMUL_FAULTY_NEVER = 0, MMUL_FAULTY_EVERY = -1 };

struct mmul_faulty_rules {
    double delay_seconds, clock_seconds;
    double wake_seconds;  // 0: never
    int64_t repeat, from; // >= 1
    // Number of a call, or MMUL_FAULTY_*.
    int64_t fail, fail_alloc, fail_upload, fail_download, hang, corrupt, garble, lie;
    int64_t spoil_upload, spoil_download;
    bool fail_open, no_float64, everywhere;
};

// Returns true if a rule applies to call number `call`.
static inline bool mmul_faulty_rule_applies(int64_t rule, int64_t call) {
    return rule == MMUL_FAULTY_EVERY || rule == call;
}

// Parses the rules of `text`, which begins with "faulty:". `*inner` points to NAME within `text`,
// which is not checked. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_faulty_rules_parse(const char *text, struct mmul_faulty_rules *rules,
                                         const char **inner, struct mmul_error *err);
