// SPDX-License-Identifier: MIT
// The deadline of a product, and the replacement of a device that exceeds it. Does not reset the
// caches that the worker and the check have of the device that is given up; the run does that.
#include "exec/worker/watchdog.h"

#include "base/clock.h"
#include "base/status.h"
#include "exec/setup/fallback.h"

void mmul_watchdog_init(struct mmul_watchdog *deadline, struct mmul_context *context,
                        double timeout_seconds, bool no_fallback) {
    *deadline = (struct mmul_watchdog){.context = context,
                                       .timeout_seconds = timeout_seconds,
                                       .no_fallback = no_fallback,
                                       .replacements_before = context->replacements,
                                       .replacements = context->replacements};
}

// Returns the deadline of a product, after which its device counts as hung: many times the
// predicted time. A device of unknown speed, such as a successor, counts as very slow.
static int64_t compute_deadline(const struct mmul_watchdog *deadline, double flops) {
    static const double slow_flops = 1e8, times = 20, least_seconds = 30;
    const struct mmul_context *context = deadline->context;
    const struct mmul_rank_info *info = &context->cluster->ranks[context->comm->rank];
    const double single = mmul_rank_flops(info, MMUL_F32),
                 twofold = mmul_rank_flops(info, MMUL_F64);
    double speed = twofold > 0 && (twofold < single || !(single > 0)) ? twofold : single;
    bool known = speed > 0 && deadline->replacements == deadline->replacements_before;
    double seconds = times * flops / (known ? speed : slow_flops);
    seconds = seconds > least_seconds ? seconds : least_seconds;
    if (deadline->timeout_seconds > 0)
        seconds = deadline->timeout_seconds;
    return (int64_t)((mmul_clock_now() + seconds) * 1e9);
}

void mmul_watchdog_begin(struct mmul_watchdog *deadline, double flops) {
    atomic_store(&deadline->flops, (int64_t)flops);
    atomic_store(&deadline->deadline_ns, compute_deadline(deadline, flops));
}

void mmul_watchdog_end(struct mmul_watchdog *deadline) {
    atomic_store(&deadline->deadline_ns, 0);
}

// Returns true if the deadline has passed. A device that has just taken over gets a new deadline.
// The caller holds the device.
static bool is_late(struct mmul_watchdog *deadline) {
    int64_t until = atomic_load(&deadline->deadline_ns);
    if (until == 0 || mmul_clock_now() * 1e9 < (double)until)
        return false;
    if (deadline->replacements == deadline->context->replacements)
        return true;
    deadline->replacements = deadline->context->replacements;
    mmul_watchdog_begin(deadline, (double)atomic_load(&deadline->flops));
    return false;
}

static enum mmul_status give_up_device(struct mmul_watchdog *deadline, struct mmul_error *err) {
    struct mmul_context *context = deadline->context;
    mmul_watchdog_end(deadline);
    deadline->has_abandoned = true;
    if (!deadline->no_fallback)
        return mmul_context_abandon_device(context, "it hangs", err);
    mmul_fail(err, MMUL_ERR_UNAVAILABLE, "rank %d: device '%.80s' hangs", context->comm->rank,
              context->device_name);
    mmul_hint(err, "leave out --no-fallback to let the CPU take over");
    return MMUL_ERR_UNAVAILABLE;
}

bool mmul_watchdog_poll(struct mmul_watchdog *deadline, enum mmul_status *status,
                        struct mmul_error *err) {
    if (atomic_load(&deadline->deadline_ns) == 0 || !mmul_context_lock_device(deadline->context))
        return false;
    bool is_given_up = is_late(deadline) && mmul_device_abandon(deadline->context->device);
    if (is_given_up)
        *status = give_up_device(deadline, err);
    mmul_context_unlock_device(deadline->context);
    return is_given_up;
}

bool mmul_watchdog_is_late(const struct mmul_watchdog *deadline) {
    const int64_t until = atomic_load(&deadline->deadline_ns);
    return until != 0 && mmul_clock_now() * 1e9 >= (double)until;
}
