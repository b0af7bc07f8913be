// SPDX-License-Identifier: MIT
// The SIGBUS handler. A handler gets no argument of ours, so its data are mutable globals: the
// guarded ranges and the previous handler. The handler reads the ranges without a lock; the lock
// only orders threads that create and destroy guards. The handler calls only mmap, sigaction and
// raise, which are single system calls on Linux.
#include "base/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/status.h"

enum { GUARDS = 4096 }; // a program may load or save as many tensors

// end 0 means unused. `begin` is written first and `end` last, and `end` is cleared first: in
// between, a handler sees an empty range.
struct mmul_guard {
    _Atomic uintptr_t begin, end;
    _Atomic bool has_failed;
};

_Static_assert(ATOMIC_POINTER_LOCK_FREE == 2 && ATOMIC_BOOL_LOCK_FREE == 2,
               "a signal handler may only use atomics without locks");

static struct mmul_guard guards[GUARDS];
static int guard_count;           // under the lock
static bool is_installed;         // under the lock
static struct sigaction previous; // written while our handler is not installed
static atomic_flag lock = ATOMIC_FLAG_INIT;

static void lock_guards(void) {
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        ; // held for a few instructions and a system call
}

static void unlock_guards(void) {
    atomic_flag_clear_explicit(&lock, memory_order_release);
}

static void call_previous_handler(int number, siginfo_t *info, void *context) {
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(number, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(number);
    } else if (info->si_code > 0 || previous.sa_handler == SIG_DFL) {
        // A real fault recurs when this handler returns. A signal that was sent is sent again.
        struct sigaction standard = {.sa_handler = SIG_DFL};
        sigaction(number, &standard, NULL);
        if (info->si_code <= 0)
            raise(number);
    }
}

static void handle_bus_error(int number, siginfo_t *info, void *context) {
    int saved = errno;
    uintptr_t address = (uintptr_t)info->si_addr;
    bool is_replaced = false;
    for (int i = 0; info->si_code > 0 && !is_replaced && i < GUARDS; i++) {
        uintptr_t begin = atomic_load(&guards[i].begin), end = atomic_load(&guards[i].end);
        if (address < begin || address >= end)
            continue;
        // Replaces the whole range at once: the numbers are wrong anyway, and this way it faults
        // only once.
        atomic_store(&guards[i].has_failed, true);
        is_replaced =
            mmap((void *)begin, end - begin, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
    }
    if (!is_replaced)
        call_previous_handler(number, info, context);
    errno = saved;
}

static int install_handler(void) {
    struct sigaction ours = {.sa_sigaction = handle_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    if (is_installed)
        return 0;
    if (sigaction(SIGBUS, NULL, &previous) != 0 || sigaction(SIGBUS, &ours, NULL) != 0)
        return errno;
    is_installed = true;
    return 0;
}

enum mmul_status mmul_guard_create(void *begin, int64_t bytes, struct mmul_guard **guard,
                                   struct mmul_error *err) {
    struct mmul_guard *taken = NULL;
    lock_guards();
    int code = install_handler();
    for (int i = 0; code == 0 && taken == NULL && i < GUARDS; i++)
        if (atomic_load(&guards[i].end) == 0)
            taken = &guards[i];
    if (taken != NULL) {
        atomic_store(&taken->has_failed, false);
        atomic_store(&taken->begin, (uintptr_t)begin);
        atomic_store(&taken->end, (uintptr_t)begin + (uintptr_t)bytes);
        guard_count++;
    }
    unlock_guards();
    if (code != 0)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, code, "cannot handle SIGBUS");
    if (taken == NULL)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot guard more than %d mapped files", GUARDS);
    *guard = taken;
    return MMUL_OK;
}

void mmul_guard_destroy(struct mmul_guard *guard) {
    struct sigaction now;
    if (guard == NULL)
        return;
    lock_guards();
    atomic_store(&guard->end, 0);
    // The last guard removes our handler. A handler that was installed later may pass signals on to
    // ours, so ours stays then.
    if (--guard_count == 0 && sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == handle_bus_error)
        is_installed = sigaction(SIGBUS, &previous, NULL) != 0;
    unlock_guards();
}

bool mmul_guard_has_failed(const struct mmul_guard *guard) {
    return atomic_load(&guard->has_failed);
}
