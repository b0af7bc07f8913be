// SPDX-License-Identifier: MIT
// The list of unfinished outputs. A handler gets no argument of ours, so the list is a mutable
// global. Ownership of a file changes only by its place's state: the thread or handler that moves
// it on from OPEN owns the file. A handler only calls unlink here.
//
// The list only grows, by one place if all are taken, up to the largest number of outputs open at
// once. A complete place is put in front in one atomic step. Later only its state changes and,
// while it is TAKEN, its path. Nothing is freed. So any walk, even by a handler in mid-walk, sees
// complete places and every place entered before it began.
#include "io/unfinished_files.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/memory.h"
#include "base/stall.h"
#include "base/text.h"

enum state { FREE, TAKEN, OPEN };

struct mmul_unfinished_file {
    _Atomic int state;
    struct mmul_unfinished_file *next;
    char path[PATH_MAX]; // longer paths cannot be opened
};

static _Atomic(struct mmul_unfinished_file *) first_place;
static _Atomic int64_t finished_count;
static _Atomic int making;    // threads creating a file that is not entered yet
static _Atomic bool ends_now; // ending with the launcher: no more files are created

_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_POINTER_LOCK_FREE == 2,
               "a signal handler may only use atomics without locks");

static bool change_state(struct mmul_unfinished_file *place, int from, int to) {
    return atomic_compare_exchange_strong(&place->state, &from, to);
}

static enum mmul_status add_taken_place(struct mmul_unfinished_file **place,
                                        struct mmul_error *err) {
    struct mmul_unfinished_file *added;
    enum mmul_status status = MMUL_ALLOCATE(added, 1, "the name of an output", err);
    if (status != MMUL_OK)
        return status;
    mmul_abandon(added); // a handler may walk it at any time, so it is never freed
    atomic_store(&added->state, TAKEN);
    added->next = atomic_load(&first_place);
    while (!atomic_compare_exchange_weak(&first_place, &added->next, added))
        ; // another thread was faster: its place comes next
    *place = added;
    return MMUL_OK;
}

void mmul_unfinished_begin_creation(void) {
    // Increment first: either this thread sees the end, or the end sees this thread.
    atomic_fetch_add(&making, 1);
    if (!atomic_load(&ends_now))
        return;
    atomic_fetch_sub(&making, 1);
    for (;;)
        mmul_clock_sleep(1);
}

void mmul_unfinished_end_creation(void) {
    atomic_fetch_sub(&making, 1);
}

enum mmul_status mmul_unfinished_add(const char *path, struct mmul_unfinished_file **place,
                                     struct mmul_error *err) {
    struct mmul_unfinished_file *taken = atomic_load(&first_place);
    while (taken != NULL && !change_state(taken, FREE, TAKEN))
        taken = taken->next;
    if (taken == NULL && add_taken_place(&taken, err) != MMUL_OK)
        return err->status;
    mmul_text_copy(taken->path, sizeof taken->path, path);
    atomic_store(&taken->state, OPEN);
    *place = taken;
    return MMUL_OK;
}

bool mmul_unfinished_remove(struct mmul_unfinished_file *place, bool finished) {
    if (finished && mmul_ending_has_begun()) {
        if (place != NULL && change_state(place, OPEN, FREE))
            (void)unlink(place->path); // the lock is still held, so the file is ours
        return false;
    }
    atomic_fetch_add(&finished_count, finished); // first: a handler sees list or count
    if (place == NULL || change_state(place, OPEN, FREE))
        return true;
    atomic_fetch_sub(&finished_count, finished);
    return false;
}

enum mmul_abandoned mmul_outputs_abandon(void) {
    enum mmul_abandoned result = MMUL_ABANDONED_NONE;
    for (struct mmul_unfinished_file *place = atomic_load(&first_place); place != NULL;
         place = place->next) {
        if (!change_state(place, OPEN, TAKEN)) // stays taken: nothing will be finished any more
            continue;
        (void)unlink(place->path);
        result = MMUL_ABANDONED_SOME;
    }
    if (atomic_load(&finished_count) > 0)
        return result == MMUL_ABANDONED_NONE ? MMUL_ABANDONED_FINISHED : MMUL_ABANDONED_REST;
    return result;
}

void mmul_outputs_end(void) {
    mmul_ending_begin();
}

// Runs on a thread of its own, which ends with the process.
static void abandon_all(void) {
    static const double most_seconds = 0.02; // another job may hold a file that is to be created
    const double begin = mmul_clock_now();
    atomic_store(&ends_now, true);
    while (atomic_load(&making) > 0 && mmul_clock_now() - begin < most_seconds)
        mmul_clock_sleep(20e-6);
    (void)mmul_outputs_abandon();
}

void mmul_process_end_with_launcher(void) {
    mmul_ending_watch(abandon_all);
}

void mmul_process_watch_stalls(double seconds) {
    mmul_stall_watch(seconds, abandon_all);
}

bool mmul_process_was_stopped(void) {
    return mmul_stall_was_stopped();
}

static pid_t owner; // process that owns the outputs: a child of it has none
static struct sigaction before[NSIG];

static void abandon_and_raise(int number) {
    if (getpid() == owner)
        (void)mmul_outputs_abandon();
    sigaction(number, &before[number], NULL);
    raise(number); // delivered as soon as this handler returns
}

void mmul_outputs_abandon_on_signal(int number) {
    const struct sigaction ours = {.sa_handler = abandon_and_raise, .sa_flags = SA_RESTART};
    struct sigaction found;
    owner = getpid();
    if (sigaction(number, NULL, &found) != 0 || found.sa_handler == SIG_IGN ||
        found.sa_handler == abandon_and_raise)
        return;
    before[number] = found;
    sigaction(number, &ours, NULL);
}
