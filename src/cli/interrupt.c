// SPDX-License-Identifier: MIT
// The signal handlers. mpirun turns a signal into SIGTERM for every rank. A second later, or as
// soon as the first rank ends, mpirun kills the others. So root prints the state of the output and
// stays for a moment. The other ranks remove their parts of persistent values, and one tick later
// those they were about to begin. Meanwhile root's other threads find out which ranks do not answer
// (exec/conduct/lost_ranks.h).
//
// A handler gets no argument of ours and may run on any thread. All data for it is in mutable
// globals, which are written before it is installed.
#include "cli/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "mpimatmul_local.h"

enum { GRACE_TICKS = 10 };
static const struct timeval TICK = {.tv_usec = 200 * 1000};
static const struct itimerval ROOT_STAYS = {.it_value = {.tv_usec = 500 * 1000}};

static const struct {
    int number;
    const char *text;
} interrupts[] = {
    {SIGINT, "mpimatmul: stopped by SIGINT"},
    {SIGTERM, "mpimatmul: stopped by SIGTERM"},
    {SIGHUP, "mpimatmul: stopped by SIGHUP"},
};

static pid_t owner;
static bool prints, has_others, has_bar;
static _Atomic int first; // signal that began the shutdown; 0 for none
static _Atomic int ticks; // timer ticks since then
static _Atomic bool has_ended, goes_on;
// A run with a journal records what is complete. It has asked for that, or ends after the work in
// flight.
static _Atomic bool records, finishes;
// Descriptor of the stream with the first message, -1 before it is printed.
static _Atomic int said_to = -1;

static void write_text(int stream, const char *before, const char *text, const char *after) {
    char line[512];
    snprintf(line, sizeof line, "%s%s%s", before, text, after);
    const ssize_t ignored = write(stream, line, strlen(line));
    (void)ignored; // no way left to report an error
}

// Called after root printed the state of the output. Redirects the streams of other threads to
// /dev/null; only the handler still prints.
static void silence_others(void) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    atomic_store(&said_to, dup(STDERR_FILENO));
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
}

// Ends root shortly after the first line and names the ranks that do not answer.
static void end_root(void) {
    const struct mmul_ending_note *note = mmul_ending_explanation();
    const int stream = atomic_load(&said_to);
    if (note != NULL) {
        write_text(stream, "mpimatmul: ", note->text, "\n");
        write_text(stream, "  hint: ", note->hint, "\n");
    }
    _exit(MMUL_ERR_STOPPED);
}

// Prints first: mpirun may kill the process at any time.
static void end_process(int number, enum mmul_abandoned abandoned) {
    char line[128] = "";
    if (!prints || atomic_load(&has_ended) || mmul_process_was_stopped())
        _exit(MMUL_ERR_STOPPED);
    if (atomic_load(&said_to) >= 0)
        end_root();
    if (has_bar)
        strcat(line, "\r\033[K");
    for (size_t i = 0; i < sizeof interrupts / sizeof *interrupts; i++)
        if (interrupts[i].number == number)
            strcat(line, interrupts[i].text);
    strcat(line, abandoned == MMUL_ABANDONED_SOME   ? ": no result was written\n"
                 : abandoned == MMUL_ABANDONED_REST ? ": not all results were written\n"
                                                    : "\n");
    write_text(STDERR_FILENO, line, "", "");
    if (*mmul_ending_kept() != '\0')
        write_text(STDERR_FILENO, "mpimatmul: ", mmul_ending_kept(), "\n");
    if (!has_others && (!atomic_load(&records) || atomic_load(&finishes)))
        _exit(MMUL_ERR_STOPPED);
    silence_others();
    setitimer(ITIMER_REAL, &ROOT_STAYS, NULL);
}

static void begin_grace(void) {
    const struct itimerval timer = {.it_interval = TICK, .it_value = TICK};
    setitimer(ITIMER_REAL, &timer, NULL);
}

// Asks a run with a journal to record what is complete. Returns true if it also ends by itself,
// after the work in flight: one process, and Ctrl-C. SIGKILL often follows other signals soon.
static bool ask_recorder(int number) {
    const bool ends = number == SIGINT && !has_others;
    atomic_store(&records, mmul_ending_request(ends ? MMUL_ENDING_FINISH : MMUL_ENDING_RECORD));
    atomic_store(&finishes, ends && atomic_load(&records));
    return atomic_load(&finishes);
}

static void handle_signal(int number) {
    int none = 0;
    if (getpid() != owner) { // a child inherits the handlers, but ends normally
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    bool is_first = atomic_compare_exchange_strong(&first, &none, number);
    if (is_first && ask_recorder(number))
        return;
    bool leaves = !is_first || !atomic_load(&has_ended);
    enum mmul_abandoned abandoned = leaves ? mmul_outputs_abandon() : MMUL_ABANDONED_FINISHED;
    if (atomic_load(&records) && abandoned == MMUL_ABANDONED_NONE)
        abandoned = MMUL_ABANDONED_SOME;
    if (leaves && atomic_load(&goes_on) && abandoned == MMUL_ABANDONED_FINISHED)
        abandoned = MMUL_ABANDONED_REST;
    if (abandoned != MMUL_ABANDONED_FINISHED)
        mmul_outputs_end(); // stops writes of other threads until the process ends
    if (is_first && (!prints || abandoned == MMUL_ABANDONED_FINISHED))
        begin_grace();
    else if (is_first || number != SIGALRM || atomic_load(&said_to) >= 0 ||
             atomic_fetch_add(&ticks, 1) + 1 == GRACE_TICKS)
        end_process(atomic_load(&first), abandoned);
}

static void install_handler(int number) {
    struct sigaction ours = {.sa_handler = handle_signal, .sa_flags = SA_RESTART}, before;
    sigfillset(&ours.sa_mask);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, &ours, NULL);
}

void mmul_interrupt_install(bool is_first, bool is_one_of_several) {
    owner = getpid();
    prints = is_first;
    has_others = is_one_of_several;
    has_bar = isatty(STDERR_FILENO);
    install_handler(SIGALRM);
    for (size_t i = 0; i < sizeof interrupts / sizeof *interrupts; i++)
        install_handler(interrupts[i].number);
}

void mmul_interrupt_finish(void) {
    while (atomic_load(&said_to) >= 0) // the handler is already ending the process
        pause();
    atomic_store(&has_ended, true);
}

void mmul_interrupt_expect_more(bool does) {
    atomic_store(&goes_on, does);
}
