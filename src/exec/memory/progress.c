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

// Interval between looks at the traffic when this thread moves it itself and no bell rings.
static const double NAP_SECONDS = 5e-5;

static struct mmul_bell *bell_of(struct mmul_run_progress *progress, int rank) {
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
        moved = waits->meanwhile(waits->context);
    return atomic_load(counter) >= goal || is_cancelled(progress);
}

bool mmul_progress_wait(struct mmul_run_progress *progress, int rank,
                        const _Atomic int64_t *counter, int64_t goal, struct mmul_waits *waits) {
    struct mmul_bell *bell = bell_of(progress, rank);
    if (atomic_load(counter) >= goal)
        return !is_cancelled(progress);
    waits->count++;
    if (waits->meanwhile != NULL && move_traffic_until(progress, counter, goal, waits))
        return !is_cancelled(progress);
    const double begin = mmul_clock_now();
    do
        sched_yield();
    while (atomic_load(counter) < goal && !is_cancelled(progress) &&
           mmul_clock_now() - begin < LOOK_SECONDS);
    atomic_store(&waits->for_traffic, rank == MMUL_TRAFFIC);
    for (;;) {
        const uint32_t heard = mmul_bell_heard(bell);
        if (atomic_load(counter) >= goal || is_cancelled(progress))
            break;
        if (waits->meanwhile != NULL && waits->meanwhile(waits->context))
            continue;
        waits->sleeps++;
        mmul_bell_sleep(bell, heard, waits->meanwhile != NULL ? NAP_SECONDS : SLEEP_SECONDS);
    }
    atomic_store(&waits->for_traffic, false);
    return !is_cancelled(progress);
}

void mmul_progress_raise(struct mmul_run_progress *progress, int rank, _Atomic int64_t *counter,
                         int64_t value, int64_t stages) {
    int64_t now = atomic_load(counter);
    while (now < value && !atomic_compare_exchange_weak(counter, &now, value))
        ;
    if (now >= value)
        return;
    mmul_bell_ring(bell_of(progress, rank));
    if (rank != MMUL_TRAFFIC && stages >= atomic_load(&progress->news_from))
        mmul_bell_ring(&progress->ranks[0].attending);
}

void mmul_progress_rouse(struct mmul_run_progress *progress) {
    mmul_bell_ring(&progress->moved);
    for (int i = 0; i < progress->rank_count; i++) {
        mmul_bell_ring(&progress->ranks[i].counted);
        mmul_bell_ring(&progress->ranks[i].attending);
    }
}
