// SPDX-License-Identifier: MIT
// Waiting for counters and waking the waiters. The callers decide which counter to wait for.
#include "exec/memory/progress.h"

#include <sched.h>

#include "base/clock.h"

// Polling time before a sleep, about as long as a wake-up takes (src/NOTES.md, "Waiting, waking and
// threads"). Polling yields the core, so that a rank that shares it can go on.
static const double LOOK_SECONDS = 50e-6;

// Limit of a sleep. A ring cannot be missed, but a rank killed before it rang would leave the
// sleeper waiting.
static const double SLEEP_SECONDS = 0.1;

// Interval between looks at the traffic when this thread moves it itself and no eventcount is
// notified.
static const double NAP_SECONDS = 5e-5;

static struct mmul_eventcount *eventcount_of(struct mmul_run_progress *progress, int rank) {
    return rank == MMUL_TRAFFIC ? &progress->moved : &progress->ranks[rank].counted;
}

static bool is_cancelled(const struct mmul_run_progress *progress) {
    return atomic_load(&progress->cancelled) != 0;
}

// Moves the traffic as long as anything moves. Returns true if the counter has reached the goal or
// the run was cancelled.
static bool move_traffic_until(const struct mmul_run_progress *progress,
                               const _Atomic int64_t *counter, int64_t goal,
                               const struct mmul_waits *waits) {
    bool moved = true;
    while (moved && atomic_load(counter) < goal && !is_cancelled(progress))
        moved = waits->poll_traffic(waits->context);
    return atomic_load(counter) >= goal || is_cancelled(progress);
}

bool mmul_progress_wait(struct mmul_run_progress *progress, int rank,
                        const _Atomic int64_t *counter, int64_t goal, struct mmul_waits *waits) {
    struct mmul_eventcount *eventcount = eventcount_of(progress, rank);
    if (atomic_load(counter) >= goal)
        return !is_cancelled(progress);
    waits->count++;
    if (waits->poll_traffic != NULL && move_traffic_until(progress, counter, goal, waits))
        return !is_cancelled(progress);
    const double begin = mmul_clock_now();
    do
        sched_yield();
    while (atomic_load(counter) < goal && !is_cancelled(progress) &&
           mmul_clock_now() - begin < LOOK_SECONDS);
    atomic_store(&waits->is_waiting_for_traffic, rank == MMUL_TRAFFIC);
    for (;;) {
        const uint32_t seen = mmul_eventcount_read(eventcount);
        if (atomic_load(counter) >= goal || is_cancelled(progress))
            break;
        if (waits->poll_traffic != NULL && waits->poll_traffic(waits->context))
            continue;
        waits->sleeps++;
        mmul_eventcount_wait(eventcount, seen,
                             waits->poll_traffic != NULL ? NAP_SECONDS : SLEEP_SECONDS);
    }
    atomic_store(&waits->is_waiting_for_traffic, false);
    return !is_cancelled(progress);
}

void mmul_progress_raise(struct mmul_run_progress *progress, int rank, _Atomic int64_t *counter,
                         int64_t value, int64_t stages) {
    int64_t now = atomic_load(counter);
    while (now < value && !atomic_compare_exchange_weak(counter, &now, value))
        ;
    if (now >= value)
        return;
    mmul_eventcount_notify(eventcount_of(progress, rank));
    if (rank != MMUL_TRAFFIC && stages >= atomic_load(&progress->wake_from_stage))
        mmul_eventcount_notify(&progress->ranks[0].main_thread_eventcount);
}

void mmul_progress_wake_all(struct mmul_run_progress *progress) {
    mmul_eventcount_notify(&progress->moved);
    for (int i = 0; i < progress->rank_count; i++) {
        mmul_eventcount_notify(&progress->ranks[i].counted);
        mmul_eventcount_notify(&progress->ranks[i].main_thread_eventcount);
    }
}
