// SPDX-License-Identifier: MIT
// The thread looks at a table of calls in progress. Root's thread, and that of a process without
// ranks, ends the job. The thread of another rank leaves that to root, which gets the rank's
// heartbeats, and ends the job itself if root does not.
#include "base/stall.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/text.h"

enum { PLACES = 64 };
static const double LOOK_SECONDS = 0.25, AWAKE_SECONDS = 1, ROOT_SECONDS = 5;
// mpirun continues a stopped process one second before it ends it.
static const double ENDING_SECONDS = 3;

static _Atomic double limit;
static _Atomic bool has_begun;
static void (*before_exit)(void);
static _Atomic int calls[PLACES]; // fd + 1; 0: free
static _Atomic int64_t returned;  // number of calls that have returned
static _Atomic double stalled;    // seconds since one returned, while some are in progress
static _Atomic double looked_at, stopped_until;

double mmul_stall_limit(void) {
    return atomic_load(&limit);
}

// A thread without a free place is not watched.
int mmul_stall_enter(int fd) {
    for (int i = 0; atomic_load(&has_begun) && i < PLACES; i++) {
        int none = 0;
        if (atomic_load(&calls[i]) == 0 && atomic_compare_exchange_strong(&calls[i], &none, fd + 1))
            return i;
    }
    return -1;
}

void mmul_stall_leave(int place) {
    if (place < 0)
        return;
    atomic_store(&calls[place], 0);
    atomic_fetch_add(&returned, 1);
}

bool mmul_stall_is_in_call(void) {
    return atomic_load(&limit) > 0 && atomic_load(&stalled) >= atomic_load(&limit);
}

bool mmul_stall_was_stopped(void) {
    const double now = mmul_clock_now(), most = atomic_load(&limit);
    return most > 0 && atomic_load(&has_begun) &&
           (now - atomic_load(&looked_at) >= most / 2 || now < atomic_load(&stopped_until));
}

_Noreturn void mmul_stall_end_job(int rank, const char *host, const char *reason) {
    char line[1024];
    snprintf(
        line, sizeof line,
        "mpimatmul: rank %d on %.64s has made no progress for %g s: %.400s\n"
        "  hint: repair or leave out %.64s and start again; --stall-timeout 0 waits for ever\n",
        rank, host, atomic_load(&limit), reason, host);
    mmul_ending_begin();
    if (before_exit != NULL)
        before_exit();
    const ssize_t ignored = write(STDERR_FILENO, line, strlen(line));
    (void)ignored; // no way left to report an error
    _exit(MMUL_ERR_STOPPED);
}

static int own_rank(void) {
    const char *text = getenv("PMIX_RANK");
    return text != NULL ? atoi(text) : 0;
}

static void end_own_job(void) {
    char host[65] = "", link[32], path[256] = "", reason[320];
    int fd = -1;
    for (int i = 0; fd < 0 && i < PLACES; i++)
        fd = atomic_load(&calls[i]) - 1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    mmul_make_printable(path);
    const char *name = strrchr(path, '/');
    snprintf(reason, sizeof reason, "a read or write of '%s' does not return",
             name != NULL ? name + 1 : path);
    gethostname(host, sizeof host - 1);
    mmul_stall_end_job(own_rank(), host, reason);
}

static void look(int64_t *before) {
    const double now = mmul_clock_now(), passed = now - atomic_load(&looked_at);
    const int64_t count = atomic_load(&returned);
    bool any = false;
    for (int i = 0; !any && i < PLACES; i++)
        any = atomic_load(&calls[i]) != 0;
    if (passed >= atomic_load(&limit) / 2)
        atomic_store(&stopped_until, now + ENDING_SECONDS);
    atomic_store(&looked_at, now);
    const bool is_still = any && count == *before;
    atomic_store(&stalled, is_still ? atomic_load(&stalled) +
                                          (passed < AWAKE_SECONDS ? passed : AWAKE_SECONDS)
                                    : 0);
    *before = count;
}

static void *watch_calls(void *unused) {
    int64_t before = 0;
    for (;;) {
        mmul_clock_sleep(LOOK_SECONDS);
        if (atomic_load(&limit) <= 0)
            continue;
        look(&before);
        if (atomic_load(&stalled) >= atomic_load(&limit) + (own_rank() > 0 ? ROOT_SECONDS : 0))
            end_own_job();
    }
    return unused;
}

void mmul_stall_watch(double seconds, void (*last)(void)) {
    enum { STACK_BYTES = 256 << 10 }; // small, because the address space may be limited
    sigset_t all, before;
    pthread_attr_t small;
    pthread_t thread;
    atomic_store(&looked_at, mmul_clock_now());
    atomic_store(&limit, seconds);
    if (seconds <= 0 || atomic_exchange(&has_begun, true) || pthread_attr_init(&small) != 0)
        return;
    before_exit = last;
    pthread_attr_setstacksize(&small, STACK_BYTES);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); // this thread handles no signals
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, &small, watch_calls, NULL) != 0)
        atomic_store(&has_begun, false);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
}
