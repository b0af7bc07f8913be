// SPDX-License-Identifier: MIT
// mpimatmul, the program: parses the command line, runs one command, prints a failure and exits
// with its status. No other file prints failures or exits.
//
// A command that needs MPI runs on every rank. The ranks agree on a failure of any rank, and root
// prints it before MPI ends, because mpirun may end the other ranks afterwards. Other commands run
// on root alone. The ranks still start MPI for them, to check that all were given the same command.
// A rank working alone would leave another one waiting forever. --help and --version are answered
// before all that.
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/failure.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/source_line.h"

// Reserves descriptors 0 to 2: a file opened while stdout is closed would otherwise get its number
// and receive our tables. Tables and help usually fit the buffer, so only the final write can
// report an error.
static void keep_standard_streams(void) {
    static char buffer[64 << 10];
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDONLY) == -1)
            abort();
    if (!isatty(STDOUT_FILENO))
        setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    // A closed pipe or a file limit becomes a write error with our exit code.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

// Raises the soft limit on open files. Open MPI prints a page of text and exits if files run out
// during its start. A program may load and save thousands of tensors.
static enum mmul_status check_open_files(struct mmul_error *err) {
    enum { NEEDED = 32, ENOUGH = 65536 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= ENOUGH)
        return MMUL_OK;
    limit.rlim_cur = limit.rlim_max < ENOUGH ? limit.rlim_max : ENOUGH;
    (void)setrlimit(RLIMIT_NOFILE, &limit); // the limit that is in effect is read below
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= NEEDED)
        return MMUL_OK;
    return mmul_cli_fail(err, MMUL_ERR_SYSTEM,
                         "%lld open files are allowed (ulimit -n), at least %d are needed",
                         (long long)limit.rlim_cur, NEEDED);
}

// Raises the soft stack limit. Threads get the limit from the start of the process, and a stack
// overflow ends the process without a message.
static enum mmul_status check_stack(struct mmul_error *err) {
    enum { NEEDED = 1 << 20, ENOUGH = 8 << 20 };
    struct rlimit limit;
    pthread_attr_t threads;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= NEEDED)
        return MMUL_OK;
    limit.rlim_cur = limit.rlim_max < ENOUGH ? limit.rlim_max : ENOUGH;
    (void)setrlimit(RLIMIT_STACK, &limit);
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur < NEEDED) {
        mmul_cli_fail(err, MMUL_ERR_SYSTEM,
                      "a stack of %lld KiB is allowed (ulimit -s), at least %d KiB are needed",
                      (long long)limit.rlim_cur >> 10, NEEDED >> 10);
        return mmul_cli_hint(err, "ulimit -s %d", ENOUGH >> 10);
    }
    int code = pthread_attr_init(&threads);
    if (code == 0)
        code = pthread_attr_setstacksize(&threads, limit.rlim_cur);
    if (code == 0)
        code = pthread_setattr_default_np(&threads);
    return code == 0 ? MMUL_OK
                     : mmul_cli_fail(err, MMUL_ERR_SYSTEM,
                                     "cannot enlarge the stack of threads: %s", strerror(code));
}

// Prints a failure and returns the exit code. call: NULL if there is none, and so no source line to
// show.
static int print_failure(const struct call *call, const struct mmul_error *err) {
    if (err->status == MMUL_OK)
        return EXIT_SUCCESS;
    fflush(stdout); // on a terminal the failure is the last line
    mmul_print_line(stderr, "mpimatmul: %s", err->text);
    if (call != NULL && call->command == &mmul_command_run && call->operand_count > 0)
        mmul_print_source_line(stderr, call->operands[0], err->text);
    if (err->hint[0] != '\0')
        mmul_print_line(stderr, "  hint: %s", err->hint);
    fflush(stderr);
    return (int)err->status;
}

// Returns true for "help" or --help before "--". Help takes precedence over any other error.
static bool asks_for_help(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "help") == 0)
        return true;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static bool asks_for_version(int argc, char **argv) {
    static const char *const words[] = {"version", "--version", "-V"};
    for (size_t w = 0; argc > 1 && w < sizeof words / sizeof *words; w++)
        if (strcmp(argv[1], words[w]) == 0)
            return true;
    return false;
}

// Prints help for "help", "help WORD" and "WORD --help", of a command or of the program. Only "help
// WORD" requires WORD to be a command.
static int print_help(int argc, char **argv) {
    bool is_command = strcmp(argv[1], "help") == 0;
    const char *word = argv[is_command ? 2 : 1];
    bool is_option = argc < 3 || word[0] == '-';
    const struct command *command = NULL;
    struct mmul_error err = {0};
    if (word != NULL && mmul_command_find(word, &command, &err) != MMUL_OK && is_command &&
        !is_option)
        return print_failure(NULL, &err);
    err = (struct mmul_error){0};
    if (command != NULL)
        mmul_help_print_command(command, stdout);
    else
        mmul_help_print_program(stdout);
    mmul_print_flush(&err);
    return print_failure(NULL, &err);
}

static int print_version(void) {
    struct mmul_error err = {0};
    printf("mpimatmul %s\n", MMUL_VERSION);
    mmul_print_flush(&err);
    return print_failure(NULL, &err);
}

// Runs a command with a progress display until the command ends the display to print its results.
static void run_command(struct call *call, struct mmul_error *err) {
    const struct command *command = call->command;
    const struct option_value *values = call->options.values;
    struct progress progress;
    bool has_progress = false;
    for (const enum option_id *o = command->options; *o != OPT_END; o++) {
        has_progress |= *o == OPT_PROGRESS;
        if (*o == OPT_STALL_TIMEOUT)
            mmul_process_watch_stalls(values[OPT_STALL_TIMEOUT].real);
    }
    enum { NONE = 3 };
    mmul_progress_init(&progress, has_progress ? (int)values[OPT_PROGRESS].number : NONE);
    call->progress = &progress;
    if (call->is_root && values[OPT_QUIET].number == 0)
        mmul_progress_start_thread(&progress,
                                   command->doing != NULL ? command->doing : "setting up");
    command->run(call, err);
    mmul_progress_fini(&progress);
    call->progress = NULL;
}

static int run_alone(struct call *call, struct mmul_error *err) {
    call->is_root = true;
    if (err->status == MMUL_OK)
        mmul_print_options(call);
    if (err->status == MMUL_OK)
        run_command(call, err);
    if (err->status == MMUL_OK)
        mmul_print_flush(err);
    mmul_interrupt_finish();
    return print_failure(call, err);
}

// Reports a failure of this rank where MPI cannot start, or has failed, so the ranks cannot agree
// on one message. Root prints at once and mpirun ends the others. If only another rank fails, it
// prints after a delay. call: NULL if there is no source line to show.
static int report_without_mpi(const struct launcher *launcher, const struct call *call, bool is_own,
                              const struct mmul_error *err) {
    const struct timespec later = {.tv_sec = 3}; // mpirun needs about one second to end them
    if (launcher->is_first || (nanosleep(&later, NULL) == 0 && is_own))
        print_failure(call, err);
    return (int)err->status;
}

static int run_on_all_ranks(const struct launcher *launcher, struct call *call,
                            struct mmul_error *err) {
    struct session session = {.launcher = launcher};
    struct mmul_error no_start = {0};
    bool is_own;
    call->is_root = launcher->is_first;
    if (mmul_process_check_files(&no_start) != MMUL_OK)
        return report_without_mpi(launcher, NULL, true, &no_start);
    if (launcher->nodes_without_barrier > 0) // before MPI starts, which may crash the job
        mmul_print_remark(
            call,
            "warning: the %d nodes of srun may start MPI without waiting for each other, "
            "and one start in many crashes then: export SLURM_PMIX_FENCE=ring first",
            launcher->nodes_without_barrier);
    if (mmul_session_begin(&session, call, err) == MMUL_OK &&
        (call->command->needs_mpi || call->is_root))
        run_command(call, err);
    if (err->status == MMUL_OK && call->is_root)
        mmul_print_flush(err);
    mmul_session_agree(err);
    mmul_interrupt_finish();
    if (mmul_process_has_lost_mpi(&is_own))
        return report_without_mpi(launcher, call, is_own, err);
    if (call->is_root)
        print_failure(call, err);
    mmul_session_end(&session, call);
    return (int)err->status;
}

static int run_call(int argc, char **argv, const struct launcher *launcher) {
    struct call call = {.begin_seconds = mmul_progress_now()};
    struct mmul_error err = {0};
    mmul_call_parse(argc, argv, &call, &err);
    if (call.options.values[OPT_PROBE].number != 0)
        return run_alone(&call, &err); // started by a doctor, which may itself be part of a job
    bool is_local = call.command != NULL && !call.command->needs_mpi;
    if (err.status == MMUL_OK && !is_local && check_open_files(&err) == MMUL_OK &&
        check_stack(&err) == MMUL_OK)
        err.status = mmul_process_check(&err);
    if (is_local && !launcher->is_one_of_several && !launcher->is_first)
        return EXIT_SUCCESS; // without MPI the ranks cannot compare their commands
    if ((is_local && !launcher->is_one_of_several) ||
        (err.status != MMUL_OK && !launcher->is_present))
        return run_alone(&call, &err);
    return run_on_all_ranks(launcher, &call, &err);
}

static enum mmul_status return_status(const struct call *call, struct mmul_error *err) {
    (void)call;
    return err->status;
}

// Answers a question at once, without MPI. If mpirun started several command lines, all ranks still
// compare theirs, so that the other processes report the mismatch.
static int answer_question(const char *question, int code, const struct launcher *launcher) {
    static const enum option_id no_options[] = {OPT_END};
    const struct command command = {.name = question, .options = no_options, .run = return_status};
    struct call call = {.command = &command, .options.accepted = no_options};
    struct mmul_error err = {0};
    return code == EXIT_SUCCESS && launcher->has_several_commands
               ? run_on_all_ranks(launcher, &call, &err)
               : code;
}

static int run_program(int argc, char **argv) {
    const struct launcher launcher = mmul_launcher_find();
    const bool is_asked = launcher.is_first || launcher.has_several_commands;
    mmul_process_end_with_launcher();
    mmul_interrupt_install(launcher.is_first, launcher.is_one_of_several);
    if (asks_for_help(argc, argv))
        return answer_question("--help", is_asked ? print_help(argc, argv) : EXIT_SUCCESS,
                               &launcher);
    if (asks_for_version(argc, argv))
        return answer_question("--version", is_asked ? print_version() : EXIT_SUCCESS, &launcher);
    return run_call(argc, argv, &launcher);
}

int main(int argc, char **argv) {
    struct mmul_error no_room;
    bool is_own;
    keep_standard_streams();
    int code = run_program(argc, argv);
    // Skips the exit handlers in three cases. A stuck thread of OpenBLAS would make its library
    // wait forever. A thread abandoned in a driver would crash in memory that the exit handlers
    // freed, or hold a stream's lock. MPI's handlers would wait for unfinished collectives.
    if (mmul_process_check(&no_room) != MMUL_OK || mmul_process_has_abandoned_threads() ||
        mmul_process_has_lost_mpi(&is_own)) {
        fflush(stdout);
        fflush(stderr);
        _exit(code);
    }
#ifdef MMUL_DEBUG
    assert(mmul_live_bytes() == 0); // also after failures
#endif
    return code;
}
