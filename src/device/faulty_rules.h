// SPDX-License-Identifier: MIT
//
// The rules of a faulty device's name, "faulty:RULE[,RULE...]:NAME":
//   delay=5ms        every operation (a multiplication or another) waits first (us, ms or s)
//   clock=5ms        every operation takes that much longer by the device's own clock, which is what it is
//                    measured by: nobody waits for that
//   repeat=N         every operation does its work N times: honestly N times slower
//   from=N           delay, clock, repeat and the * of other rules begin with the N-th operation: a
//                    device that becomes slow, or begins to err, in mid-run
//   fail=N           the N-th operation (from 1) spoils its result and loses the device; fail=* any does
//   hang=N           the N-th operation never returns; hang=* the first does not. Such a device
//                    has memory of its own, as those that hang have
//   wake=2s          it does return, so much later
//   fail-open        it cannot be opened
//   fail-alloc=N     the N-th buffer cannot be had; fail-upload=N and fail-download=N likewise
//   corrupt=N        the N-th operation leaves one wrong element; corrupt=* every one
//   garble=N         the N-th operation leaves something wrong in every row and column
//   lie=N            the N-th sum of the check (device/project.h) has one wrong number; lie=* every one
//   spoil-upload=N   the N-th upload leaves one wrong element; spoil-download=N likewise
//   no-float64       it computes in float32 alone, as many cards do
//   everywhere       the device that takes over has the same rules
#pragma once

#include "mpimatmul_local.h"

// Which call of its kind a rule strikes, counted from 1.
enum { MMUL_STRIKE_NEVER = 0, MMUL_STRIKE_EVERY = -1 };

struct mmul_faulty_rules {
    double delay_seconds, clock_seconds;
    double wake_seconds;  // 0: never
    int64_t repeat, from; // >= 1
    // A call's number or MMUL_STRIKE_*.
    int64_t fail, fail_alloc, fail_upload, fail_download, hang, corrupt, garble, lie;
    int64_t spoil_upload, spoil_download;
    bool fail_open, no_float64, everywhere;
};

// Whether a rule strikes at call number `call`.
static inline bool mmul_faulty_strikes(int64_t rule, int64_t call) {
    return rule == MMUL_STRIKE_EVERY || rule == call;
}

// Reads the rules of `text`, which begins with "faulty:"; `*inner` is the NAME within `text`.
// Does not look at NAME. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_faulty_rules_parse(const char *text, struct mmul_faulty_rules *rules,
                                         const char **inner, struct mmul_error *err);
