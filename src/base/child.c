// SPDX-License-Identifier: MIT
// Runs work in a child process and receives the result through a pipe as plain bytes. The child
// does nothing else and leaves with _exit: threads that existed at the fork (OpenBLAS's) do not
// exist in it, and our exit handlers must not run twice. Its output streams go to /dev/null. Other
// programs run the same way, with their output in a file or their streams connected to pipes of
// this process. The meaning of the work is left to callers.
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

// --------------------------------------------------------------------------------- in the child

static void redirect_to_null(void) {
    int null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
}

// Restores default signal handling. A crash must end the child instead of entering an inherited
// handler. It leaves no core file.
static void reset_signals(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGPIPE};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], SIG_DFL);
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
}

static bool write_all(int output, const void *bytes, size_t count) {
    const char *at = bytes;
    while (count > 0) {
        ssize_t written = write(output, at, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        at += written;
        count -= (size_t)written;
    }
    return true;
}

// Prepares every child: it dies with its parent, and a crash ends it.
static void begin_child(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    reset_signals();
}

_Noreturn static void work_and_exit(mmul_child_work *work, const void *argument, size_t bytes,
                                    int output, pid_t parent) {
    begin_child(parent);
    redirect_to_null();
    void *result = calloc(1, bytes);
    if (result == NULL)
        _exit(1);
    work(argument, result);
    _exit(write_all(output, result, bytes) ? 0 : 1);
}

// Replaces the process by another program. The streams stay as the caller has set them.
_Noreturn static void exec_program(const char *const *argv) {
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

// -------------------------------------------------------------------------------- in the parent

enum mmul_status mmul_child_start(mmul_child_work *work, const void *argument, size_t result_bytes,
                                  struct mmul_child *child, struct mmul_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot make a pipe");
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        work_and_exit(work, argument, result_bytes, ends[1], parent);
    }
    int errnum = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errnum, "cannot start a child process");
    }
    *child = (struct mmul_child){.pid = pid, .output = ends[0], .result_bytes = result_bytes};
    return MMUL_OK;
}

// Returns true if the child has ended, and then sets `wait_status`. If the caller's process ignores
// SIGCHLD, the system reaps the child: that counts as an end with status 0.
static bool try_reap(pid_t pid, int *wait_status) {
    pid_t reaped = waitpid(pid, wait_status, WNOHANG);
    if (reaped < 0 && errno == ECHILD) {
        *wait_status = 0;
        return true;
    }
    return reaped == pid;
}

// Reaps a child that is about to end. After `seconds` kills it first. Abandons a child that is
// stuck inside the kernel. Returns true if the child ended by itself.
static bool reap_or_kill(pid_t pid, double seconds, int *wait_status) {
    double patience = mmul_clock_now() + seconds;
    while (mmul_clock_now() < patience) {
        if (try_reap(pid, wait_status))
            return true;
        mmul_clock_sleep(0.002);
    }
    kill(pid, SIGKILL);
    patience = mmul_clock_now() + 2.0;
    while (!try_reap(pid, wait_status) && mmul_clock_now() < patience)
        mmul_clock_sleep(0.002);
    return false;
}

// Reads the bytes that are available. Returns the total number so far, or -1 at the end of the
// stream.
static ssize_t read_some(int input, void *bytes, size_t capacity, size_t have) {
    ssize_t got = read(input, (char *)bytes + have, capacity - have);
    if (got < 0 && errno == EINTR)
        return (ssize_t)have;
    return got > 0 ? (ssize_t)have + got : -1;
}

// Reads a whole result. Returns false if the stream ends, or if the deadline passes first
// (`*late`).
static bool read_result(const struct mmul_child *child, double deadline, void *result, bool *late) {
    size_t have = 0;
    *late = false;
    while (have < child->result_bytes) {
        double left = deadline - mmul_clock_now();
        int patience = left <= 0.0 ? 0 : left < 3600.0 ? (int)(left * 1000.0) + 1 : 3600000;
        struct pollfd ready = {.fd = child->output, .events = POLLIN};
        int count = poll(&ready, 1, patience);
        // poll comes first: a result that arrived in time is read even after the deadline
        if (count <= 0 && left <= 0.0) {
            *late = true;
            return false;
        }
        if (count <= 0)
            continue; // interrupted by a signal, or the time slice is over
        ssize_t now = read_some(child->output, result, child->result_bytes, have);
        if (now < 0)
            return false;
        have = (size_t)now;
    }
    return true;
}

// Classifies the end of a child; `ended` is false if it had to be killed.
static enum mmul_child_end classify_end(bool ended, int wait_status, int *detail) {
    *detail = 0;
    if (!ended)
        return MMUL_CHILD_HUNG;
    if (WIFSIGNALED(wait_status)) {
        *detail = WTERMSIG(wait_status);
        return MMUL_CHILD_CRASHED;
    }
    *detail = WEXITSTATUS(wait_status);
    return *detail == 0 ? MMUL_CHILD_DONE : MMUL_CHILD_EXITED;
}

enum mmul_child_end mmul_child_finish(struct mmul_child *child, double deadline, void *result,
                                      int *detail) {
    int wait_status = 0;
    bool late = false;
    bool complete = read_result(child, deadline, result, &late);
    close(child->output);
    bool ended = reap_or_kill(child->pid, late ? 0.0 : 2.0, &wait_status);
    child->pid = 0;
    enum mmul_child_end end = classify_end(ended && !late, wait_status, detail);
    return end == MMUL_CHILD_DONE && !complete ? MMUL_CHILD_EXITED : end;
}

// ---------------------------------------------------------------------------------- other programs

_Noreturn static void exec_in_folder(const char *folder, const char *const *argv, pid_t parent) {
    begin_child(parent);
    if (chdir(folder) != 0)
        _exit(126);
    redirect_to_null();
    int log = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log >= 0) {
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
    }
    exec_program(argv);
}

enum mmul_status mmul_child_run_executable(const char *const *argv, const char *folder,
                                           double seconds, enum mmul_child_end *end, int *detail,
                                           struct mmul_error *err) {
    int wait_status = 0;
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        exec_in_folder(folder, argv, parent);
    if (pid < 0)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot start a child process");
    bool ended = reap_or_kill(pid, seconds, &wait_status);
    *end = classify_end(ended, wait_status, detail);
    return MMUL_OK;
}

bool mmul_executable_find(const char *name, const char *more_folders, char *path, size_t capacity) {
    const char *set = getenv("PATH");
    char *folders = NULL;
    bool is_path = strchr(name, '/') != NULL;
    snprintf(path, capacity, "%s", name);
    bool found = is_path && access(path, X_OK) == 0;
    if (!is_path &&
        asprintf(&folders, "%s%s", set != NULL ? set : "/usr/bin:/bin", more_folders) > 0) {
        for (char *rest = folders, *folder; !found && (folder = strsep(&rest, ":")) != NULL;) {
            snprintf(path, capacity, "%s/%s", folder, name);
            found = access(path, X_OK) == 0;
        }
    }
    free(folders);
    if (!found)
        path[0] = '\0';
    return found;
}

// One pipe each for the program's stdin, stdout and stderr.
struct pipes {
    int ends[3][2];
    int made;
};

static bool make_pipes(struct pipes *pipes) {
    while (pipes->made < 3 && pipe2(pipes->ends[pipes->made], O_CLOEXEC) == 0)
        pipes->made++;
    return pipes->made == 3;
}

// Closes one end of every pipe that was made. End 0 reads and end 1 writes. Our end of stdin is the
// writing one, of stdout and stderr the reading one.
static void close_ends(const struct pipes *pipes, bool ours, bool theirs) {
    for (int p = 0; p < pipes->made; p++) {
        int our_end = p == STDIN_FILENO ? 1 : 0;
        if (ours)
            close(pipes->ends[p][our_end]);
        if (theirs)
            close(pipes->ends[p][1 - our_end]);
    }
}

_Noreturn static void exec_with_pipes(const struct pipes *pipes, const char *const *argv,
                                      pid_t parent) {
    begin_child(parent);
    dup2(pipes->ends[STDIN_FILENO][0], STDIN_FILENO);
    dup2(pipes->ends[STDOUT_FILENO][1], STDOUT_FILENO);
    dup2(pipes->ends[STDERR_FILENO][1], STDERR_FILENO);
    exec_program(argv);
}

enum mmul_status mmul_process_start(const char *const *argv, struct mmul_process *program,
                                    struct mmul_error *err) {
    struct pipes pipes = {.made = 0};
    pid_t parent = getpid();
    pid_t pid = make_pipes(&pipes) ? fork() : -1;
    if (pid == 0)
        exec_with_pipes(&pipes, argv, parent);
    int errnum = errno;
    close_ends(&pipes, pid < 0, true);
    if (pid < 0)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errnum, "cannot start '%s'", argv[0]);
    *program = (struct mmul_process){.pid = pid,
                                     .input = pipes.ends[STDIN_FILENO][1],
                                     .output = pipes.ends[STDOUT_FILENO][0],
                                     .errors = pipes.ends[STDERR_FILENO][0]};
    fcntl(program->input, F_SETFL, O_NONBLOCK);
    fcntl(program->output, F_SETFL, O_NONBLOCK);
    fcntl(program->errors, F_SETFL, O_NONBLOCK);
    return MMUL_OK;
}

enum mmul_child_end mmul_process_finish(struct mmul_process *program, double seconds, int *detail) {
    int wait_status = 0;
    close(program->input);
    bool ended = reap_or_kill(program->pid, seconds, &wait_status);
    close(program->output);
    close(program->errors);
    program->pid = 0;
    return classify_end(ended, wait_status, detail);
}
