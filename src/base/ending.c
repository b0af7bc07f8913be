// SPDX-License-Identifier: MIT
// Finds the launcher among the process's ancestors and waits on a thread for its end. A
// parent-death signal (PR_SET_PDEATHSIG) is not enough: a script may stand between, and the signal
// also comes when the thread of mpirun that started the rank ends. Files that a rank leaves behind
// are not removed here.
#include "base/ending.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

static _Atomic bool has_begun;
static _Atomic int launcher = -1; // a pidfd; -1: no launcher is watched
static int wake_fd = -1; // an eventfd that asks for a look at the connection to mpirun; -1: none
static void (*before_exit)(void);

struct link {
    // is_there: a connection to mpirun exists. answers: one of them has no retransmissions.
    bool is_there, answers;
};

// ------------------------------------------------------------------------------------ the launcher

// Returns the parent of a process, or 0 if it has none or has ended.
static pid_t find_parent(pid_t pid) {
    char path[64], line[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    const char *name_end = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
    if (name_end == NULL || sscanf(name_end, ") %*c %d", &parent) != 1)
        parent = 0;
    fclose(file);
    return parent;
}

// Returns true if the process started with this environment variable, "NAME=VALUE". The process of
// another user cannot be read and is no script of this job.
static bool has_environment(pid_t pid, const char *variable) {
    char path[64], *entry = NULL;
    size_t capacity = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%lld/environ", (long long)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && getdelim(&entry, &capacity, '\0', file) > 0)
        found = strcmp(entry, variable) == 0;
    if (file != NULL)
        fclose(file);
    free(entry);
    return found;
}

static pid_t find_launcher(void) {
    const char *job = getenv("PMIX_NAMESPACE");
    char variable[512];
    if (job == NULL ||
        snprintf(variable, sizeof variable, "PMIX_NAMESPACE=%s", job) >= (int)sizeof variable)
        return 0;
    pid_t pid = getppid();
    while (pid > 1 && has_environment(pid, variable))
        pid = find_parent(pid);
    return pid;
}

static int open_pidfd(pid_t pid) {
    return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

// Looks twice: a process number may have been reused between the lookup and the open.
static int open_launcher(void) {
    pid_t found = find_launcher(), again;
    int fd = open_pidfd(found);
    while (fd >= 0 && (again = find_launcher()) != found) {
        close(fd);
        fd = open_pidfd(found = again);
    }
    return fd;
}

// -------------------------------------------------------------------------- mpirun on another host

// Returns true if `port` is mpirun's. `uri` is OMPI_MCA_orte_hnp_uri,
// "NUMBER;tcp://ADDRESS,...:PORT;tcp6://...:PORT". On more than 64 hosts, daemons are connected to
// each other instead.
static bool is_port_of(const char *uri, unsigned port) {
    for (const char *at = strstr(uri, "://"); at != NULL; at = strstr(at + 1, "://")) {
        size_t length = strcspn(at, ";");
        while (length > 0 && at[length - 1] != ':')
            length--;
        if (strtoul(at + length, NULL, 10) == port)
            return true;
    }
    return false;
}

// Searches /proc/net/tcp for connections from this host to mpirun, such as its local daemon has.
// `answers` stays false if the kernel has retransmitted data that mpirun's host has not
// acknowledged.
static void scan_tcp_table(const char *table, const char *uri, struct link *link) {
    char line[512];
    unsigned port, state, repeats;
    FILE *file = fopen(table, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        enum { ESTABLISHED = 1 };
        // Fields: number, addresses, state, bytes in queues, timer, retransmissions.
        if (sscanf(line, " %*d: %*[0-9A-F]:%*x %*[0-9A-F]:%x %x %*x:%*x %*x:%*x %x", &port, &state,
                   &repeats) == 3 &&
            state == ESTABLISHED && is_port_of(uri, port)) {
            link->is_there = true;
            link->answers |= repeats == 0;
        }
    }
    if (file != NULL)
        fclose(file);
}

static struct link find_link(void) {
    const char *uri = getenv("OMPI_MCA_orte_hnp_uri");
    struct link link = {false, false};
    if (uri == NULL)
        return link;
    scan_tcp_table("/proc/net/tcp", uri, &link);
    scan_tcp_table("/proc/net/tcp6", uri, &link);
    return link;
}

// Returns a keep-alive setting of Open MPI in seconds, or its default.
static double read_keepalive(const char *name, double standard) {
    const char *text = getenv(name);
    const double value = text != NULL ? strtod(text, NULL) : 0;
    return value > 0 ? value : standard;
}

// Returns the seconds after which Open MPI gives up a silent connection. Its keep-alive pauses
// while data is unacknowledged: the kernel then goes on for a quarter of an hour.
static double keepalive_timeout(void) {
    return read_keepalive("OMPI_MCA_oob_tcp_keepalive_time", 300) +
           read_keepalive("OMPI_MCA_oob_tcp_keepalive_intvl", 20) *
               read_keepalive("OMPI_MCA_oob_tcp_keepalive_probes", 9);
}

// ----------------------------------------------------------------------------------------- the end

bool mmul_ending_has_begun(void) {
    struct pollfd ended = {.fd = atomic_load(&launcher), .events = POLLIN};
    return atomic_load(&has_begun) || (ended.fd >= 0 && poll(&ended, 1, 0) > 0);
}

void mmul_ending_begin(void) {
    atomic_store(&has_begun, true);
}

// Returns true if mpirun on another host has been lost. Called after a SIGCONT of the daemon, and
// every other second.
static bool is_mpirun_lost(bool is_woken, double *silent_since) {
    const struct link link = find_link();
    if (link.answers || !link.is_there) {
        *silent_since = mmul_clock_now();
        return is_woken && !link.is_there;
    }
    return mmul_clock_now() - *silent_since > keepalive_timeout();
}

static void *wait_for_end(void *unused) {
    enum { LOOK_MS = 2000 };
    struct pollfd events[] = {{.fd = atomic_load(&launcher), .events = POLLIN},
                              {.fd = wake_fd, .events = POLLIN}};
    double silent_since = mmul_clock_now();
    uint64_t rung;
    while (events[0].revents == 0) {
        const int count = poll(events, 2, wake_fd >= 0 ? LOOK_MS : -1);
        const bool is_woken =
            count > 0 && events[1].revents != 0 && read(wake_fd, &rung, sizeof rung) > 0;
        if (count >= 0 && events[0].revents == 0 && wake_fd >= 0 &&
            is_mpirun_lost(is_woken, &silent_since))
            break;
    }
    mmul_ending_begin();
    before_exit();
    _exit(MMUL_ERR_STOPPED);
    return unused;
}

// A daemon of Open MPI sends its ranks SIGCONT as soon as it loses mpirun, and SIGTERM a second
// later.
static void handle_sigcont(int number) {
    const int errnum = errno;
    const uint64_t one = 1;
    (void)number;
    if (write(wake_fd, &one, sizeof one) < 0)
        errno = errnum;
}

static void watch_connection(void) {
    const struct sigaction ours = {.sa_handler = handle_sigcont, .sa_flags = SA_RESTART};
    struct sigaction before;
    if (sigaction(SIGCONT, NULL, &before) != 0 || before.sa_handler != SIG_DFL ||
        !find_link().is_there)
        return;
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd >= 0)
        sigaction(SIGCONT, &ours, NULL);
}

// ------------------------------------------------------------------------------------ explanations

// A signal handler reads these. They are written before they are published and never afterwards.
static struct mmul_ending_note explained;
static _Atomic bool is_explained;
static char kept[2][256];
static _Atomic int kept_at;

void mmul_ending_explain(const struct mmul_ending_note *note) {
    if (atomic_load(&is_explained))
        return;
    explained = *note;
    atomic_store(&is_explained, true);
}

const struct mmul_ending_note *mmul_ending_explanation(void) {
    return atomic_load(&is_explained) ? &explained : NULL;
}

void mmul_ending_keep(const char *text) {
    const int next = 1 - atomic_load(&kept_at);
    snprintf(kept[next], sizeof kept[next], "%s", text);
    atomic_store(&kept_at, next);
}

const char *mmul_ending_kept(void) {
    return kept[atomic_load(&kept_at)];
}

// ------------------------------------------------------------------------------ recorded work

static _Atomic bool has_recorder;
static _Atomic int wish;

void mmul_ending_set_recorded(bool is_recorded) {
    atomic_store(&wish, MMUL_ENDING_NONE);
    atomic_store(&has_recorder, is_recorded);
}

bool mmul_ending_request(enum mmul_ending_wish wished) {
    if (!atomic_load(&has_recorder))
        return false;
    atomic_store(&wish, wished);
    return true;
}

enum mmul_ending_wish mmul_ending_wish(void) {
    return (enum mmul_ending_wish)atomic_load(&wish);
}

// --------------------------------------------------------------------------------------- the watch

// If the thread cannot be created, the process ends when Open MPI ends it, and still replaces no
// file.
void mmul_ending_watch(void (*last)(void)) {
    enum { STACK_BYTES = 256 << 10 }; // small, because the address space may be limited
    sigset_t all, before;
    pthread_attr_t small;
    pthread_t thread;
    if (atomic_load(&launcher) >= 0 || pthread_attr_init(&small) != 0)
        return;
    before_exit = last;
    atomic_store(&launcher, open_launcher());
    pthread_attr_setstacksize(&small, STACK_BYTES);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); // this thread handles no signals
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (atomic_load(&launcher) >= 0) {
        watch_connection();
        (void)pthread_create(&thread, &small, wait_for_end, NULL);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
}
