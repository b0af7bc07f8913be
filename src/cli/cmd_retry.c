// SPDX-License-Identifier: MIT
// retry: starts a job again after its death, without the hosts that do not answer. The job itself
// continues from its checkpoints. This process starts no MPI: it waits for the command, judges its
// exit code and asks the hosts.
//
// The command runs in the foreground. A signal of the terminal reaches it directly, since it is in
// the same process group. Signals sent to this process alone are passed on.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/failure.h"
#include "cli/launcher.h"
#include "cli/print.h"

// ----------------------------------------------------------------------------------------- signals

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP};
enum { PASSED_ON_COUNT = sizeof passed_on / sizeof *passed_on };

static volatile pid_t child; // 0: none
static volatile sig_atomic_t has_signal;

static void handle_signal(int number, siginfo_t *info, void *context) {
    (void)context;
    const int errnum = errno;
    has_signal = 1;
    if (child > 0 && info->si_code <= 0) // sent by a process, not by the terminal
        kill(child, number);
    errno = errnum;
}

// Ignored signals stay ignored, as under nohup. An ignored SIGCHLD would lose the exit code of the
// command.
static void install_handlers(void) {
    struct sigaction ours = {.sa_sigaction = handle_signal, .sa_flags = SA_SIGINFO}, before;
    sigfillset(&ours.sa_mask);
    signal(SIGCHLD, SIG_DFL);
    for (int i = 0; i < PASSED_ON_COUNT; i++)
        if (sigaction(passed_on[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(passed_on[i], &ours, NULL);
}

// ------------------------------------------------------------------------------------------- a try

// Runs in the child: the command gets the signals as this program found them. It gets SIGTERM if
// this process is killed.
_Noreturn static void exec_command(char *const *words, pid_t parent, const sigset_t *mask) {
    static const char failed[] = "mpimatmul: retry: cannot start the command: ";
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(126);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(words[0], words);
    const char *reason = strerror(errno);
    (void)!write(STDERR_FILENO, failed, sizeof failed - 1);
    (void)!write(STDERR_FILENO, reason, strlen(reason));
    (void)!write(STDERR_FILENO, "\n", 1);
    _exit(127);
}

// Runs the command until it ends. Returns its exit code, 128 + N after signal N.
static int run_command(char *const *words, struct mmul_error *err) {
    int wait_status = 0;
    const pid_t parent = getpid();
    sigset_t all, before;
    fflush(stdout);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    const pid_t pid = fork();
    if (pid == 0)
        exec_command(words, parent, &before);
    const int errnum = errno;
    child = pid;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return (int)mmul_cli_fail(err, MMUL_ERR_SYSTEM, "retry: cannot start '%s': %s", words[0],
                                  strerror(errnum));
    while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR)
        ;
    child = 0;
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// ------------------------------------------------------------------------------------------- codes

enum verdict {
    PERMANENT,      // another try ends the same way
    IF_HOST_SILENT, // continues if a host does not answer
    TRANSIENT,
};

// 205: mpirun has lost a host. Other codes of mpirun, and 71, have many causes, a lost host among
// them. After a lost host its ranks may still hold the outputs for some seconds (73).
static enum verdict judge_code(int code, int tries_done) {
    enum { LOST_HOST = 205, SIGNALS_MOST = 64 };
    static const int permanent[] = {
        MMUL_ERR_USAGE,
        MMUL_ERR_DATA,
        MMUL_ERR_NO_INPUT,
        MMUL_ERR_UNAVAILABLE,
        MMUL_ERR_INTERNAL,
        MMUL_ERR_IO,
        MMUL_ERR_CONFIG,
        MMUL_ERR_WRONG,
        126,
        127,
    };
    for (size_t i = 0; i < sizeof permanent / sizeof *permanent; i++)
        if (code == permanent[i])
            return PERMANENT;
    if (code == MMUL_ERR_CREATE)
        return tries_done == 1 ? PERMANENT : TRANSIENT;
    const bool is_killed = code > 128 && code <= 128 + SIGNALS_MOST;
    return code == MMUL_ERR_STOPPED || code == LOST_HOST || is_killed ? TRANSIENT : IF_HOST_SILENT;
}

// The end of the tries: the last exit code of the command becomes that of this program.
static enum mmul_status give_up(struct mmul_error *err, int code, const char *reason) {
    return mmul_cli_fail(err, (enum mmul_status)code, "retry: the command ended with %d%s", code,
                         reason);
}

// ------------------------------------------------------------------------------------------- tries

// Sleeps, at most until a signal.
static void pause_before(int tries_done) {
    enum { DOUBLINGS_MOST = 5, SECONDS_MOST = 30 };
    const int seconds = tries_done > DOUBLINGS_MOST ? SECONDS_MOST : 1 << (tries_done - 1);
    const struct timespec pause = {.tv_sec = seconds};
    if (!has_signal)
        nanosleep(&pause, NULL);
}

// Decides after a try that ended with `code`. Returns MMUL_OK if another one follows, after a line
// and a pause. `*remaining`, owned by the caller, is then its command without some hosts, or NULL
// for the same command.
static enum mmul_status prepare_try(const struct call *call, int code, int tries_done,
                                    struct mmul_remaining_command **remaining,
                                    struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const int tries = (int)values[OPT_TRIES].number;
    const enum verdict verdict = judge_code(code, tries_done);
    int silent_count = 0, host_count = 0;
    const char *silent = "";
    char path[PATH_MAX];
    struct mmul_error failed = {0};
    if (verdict == PERMANENT || has_signal)
        return give_up(err, code, ": no further try");
    if (tries_done == tries)
        return give_up(err, code, " in the last try");
    if (mmul_remaining_command_create((const char *const *)call->operands,
                                      mmul_launcher_program_name(path), values[OPT_TIMEOUT].real,
                                      remaining, &failed) == MMUL_OK)
        silent = mmul_remaining_command_silent(*remaining, &silent_count, &host_count);
    else
        mmul_print_remark(call, "retry: cannot ask the hosts: %s", failed.text);
    if (silent_count > 0 && host_count == 0)
        return give_up(err, code, ": no host answers");
    if ((silent_count == 0 && verdict == IF_HOST_SILENT) || has_signal)
        return give_up(err, code, ": no further try");
    if (silent_count > 0)
        mmul_print_remark(call, "retry: %s do%s not answer; try %d of %d goes on with %d host%s",
                          silent, silent_count == 1 ? "es" : "", tries_done + 1, tries, host_count,
                          host_count == 1 ? "" : "s");
    else
        mmul_print_remark(call, "retry: the command ended with %d; try %d of %d", code,
                          tries_done + 1, tries);
    pause_before(tries_done);
    return has_signal ? give_up(err, code, ": no further try") : MMUL_OK;
}

static enum mmul_status run_retry(const struct call *call, struct mmul_error *err) {
    struct mmul_remaining_command *remaining = NULL;
    char *const *words = call->operands;
    int code = 0, tries_done = 0;
    install_handlers();
    do {
        code = run_command(words, err);
        mmul_remaining_command_destroy(remaining);
        remaining = NULL;
        tries_done++;
        if (code != 0 && err->status == MMUL_OK)
            prepare_try(call, code, tries_done, &remaining, err);
        words = remaining != NULL ? mmul_remaining_command_words(remaining) : NULL;
        if (words == NULL)
            words = call->operands;
    } while (code != 0 && err->status == MMUL_OK);
    mmul_remaining_command_destroy(remaining);
    return err->status;
}

// --------------------------------------------------------------------------------------- command

static enum mmul_status check_retry(const struct call *call, struct mmul_error *err) {
    (void)call;
    if (mmul_launcher_find().is_present) {
        mmul_cli_fail(err, MMUL_ERR_USAGE, "retry: is itself started by mpirun or srun");
        return mmul_cli_hint(err, "mpimatmul retry -- mpirun ...");
    }
    return MMUL_OK;
}

static const enum option_id options[] = {OPT_TRIES, OPT_TIMEOUT, OPT_QUIET, OPT_HELP, OPT_END};

const struct command mmul_command_retry = {
    .name = "retry",
    .operands = "-- COMMAND",
    .operands_min = 1,
    .operands_max = 65536,
    .summary = "start a job again after its death, without lost hosts",
    .notes =
        "COMMAND is a whole command line, such as mpirun with its options; those of retry come\n"
        "before it. A job that continues from its checkpoints loses little. Another try follows\n"
        "a job that was stopped (75), a killed process (129 to 192) and a lost host (205). After\n"
        "71, and codes of other programs, it follows only if a host does not answer.\n"
        "Errors of the input and other permanent ones end the tries, and so does a signal to\n"
        "retry. The exit code is that of the last try.\n"
        "Before a try, retry asks the hosts of mpirun's --hostfile and --host as doctor does,\n"
        "always all of them: one that is back is used again. The others are left out, and a\n"
        "number of ranks (-n) above the remaining slots is lowered. Hosts of Slurm, and those\n"
        "in rank files, are not asked. The pause before a try doubles, from 1 s to 30 s.\n"
        "\n"
        "  mpimatmul retry -- mpirun -q --hostfile hosts mpimatmul run train.py\n",
    .options = options,
    .check = check_retry,
    .run = run_retry,
};
