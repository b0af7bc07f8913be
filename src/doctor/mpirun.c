// SPDX-License-Identifier: MIT
// Runs mpirun without launching a job. Open MPI 4.1 exits with 0 and prints "LAUNCH MSG RAW SIZE"
// if it could launch the job. It also exits with 0 if it refuses a hostfile, and reports an
// "internal error" of its own in both cases. So the verdict is derived from its text between two
// rules of dashes.
#include "doctor/mpirun.h"

#include <ctype.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/status.h"
#include "doctor/remote_session.h"

static const char ready_mark[] = "LAUNCH MSG RAW SIZE", rule[] = "----------";
static const char own_error[] = "An internal error has occurred";

// A busy machine may take a while to start mpirun. A killed mpirun leaves its session directory
// behind.
static const double START_SECONDS = 10, END_SECONDS = 3;

// Copies the first two paragraphs before a rule into one line, without control characters.
static void copy_paragraphs(const char *said, struct mmul_mpirun_result *answer) {
    size_t length = 0;
    int ended = 0; // paragraphs read
    said += strspn(said, " \t\r\n");
    while (*said != '\0' && ended < 2 && strncmp(said, rule, strlen(rule)) != 0) {
        said += strspn(said, " \t");
        size_t line = strcspn(said, "\n");
        if (length + line + 2 > sizeof answer->words)
            break;
        if (line > 0 && length > 0)
            answer->words[length++] = ' ';
        for (size_t c = 0; c < line; c++)
            if (said[c] != ' ' || answer->words[length - 1] != ' ')
                answer->words[length++] = iscntrl((unsigned char)said[c]) ? '?' : said[c];
        ended += line == 0;
        said += line + (said[line] == '\n');
    }
    answer->words[length] = '\0';
}

// Returns the first text between rules that is not mpirun's own internal error. NULL: none.
static const char *find_message(const char *said) {
    for (const char *at = said; (at = strstr(at, rule)) != NULL; at += strspn(at, "-")) {
        at += strspn(at, "-\n");
        if (strncmp(at, own_error, strlen(own_error)) != 0)
            return at;
        at += strcspn(at, "-");
    }
    return NULL;
}

void mmul_mpirun_parse_output(const char *said, struct mmul_mpirun_result *answer) {
    const char *text = find_message(said);
    copy_paragraphs(text != NULL ? text : said, answer);
    // The one rank may get a slot although mpirun could not read the whole file.
    const bool is_about_file = text != NULL && strstr(answer->words, "hostfile") != NULL;
    answer->verdict = strstr(said, ready_mark) != NULL && !is_about_file ? MMUL_MPIRUN_ACCEPTS
                                                                         : MMUL_MPIRUN_REFUSES;
}

static enum mmul_status start_mpirun(const char *hostfile, const char *tune,
                                     struct mmul_remote_session *talk, struct mmul_error *err) {
    const char *argv[16] = {"mpirun", "--allow-run-as-root"}; // findings.c handles root better
    int count = 2;
    if (hostfile != NULL) {
        argv[count++] = "--hostfile";
        argv[count++] = hostfile;
    }
    if (tune != NULL) {
        argv[count++] = "--tune";
        argv[count++] = tune;
    }
    argv[count++] = "-n"; // otherwise mpirun asks machines for their cores
    argv[count++] = "1";
    argv[count++] = "--oversubscribe";
    argv[count++] = "--do-not-launch";
    argv[count++] = "true";
    return mmul_process_start(argv, &talk->program, err);
}

enum mmul_status mmul_mpirun_dry_run(const char *hostfile, const char *tune, double limit_seconds,
                                     struct mmul_mpirun_result *answer, struct mmul_error *err) {
    struct mmul_remote_session talk = {.ended = false}, *const talks[] = {&talk};
    char path[1024];
    const double deadline = mmul_clock_now() + limit_seconds + START_SECONDS;
    *answer = (struct mmul_mpirun_result){.verdict = MMUL_MPIRUN_SILENT};
    answer->has_no_home = getenv("HOME") == NULL && getpwuid(geteuid()) == NULL;
    if (getenv("PMIX_NAMESPACE") != NULL || !mmul_executable_find("mpirun", "", path, sizeof path))
        return MMUL_OK;
    if (start_mpirun(hostfile, tune, &talk, err) != MMUL_OK)
        return err->status;
    while (!talk.ended && mmul_clock_now() < deadline &&
           strstr(mmul_text_get(&talk.other_output), ready_mark) == NULL)
        mmul_remote_sessions_wait(talks, 1, deadline);
    const bool is_late = mmul_clock_now() >= deadline;
    mmul_remote_session_close(&talk, is_late ? 0.0 : END_SECONDS);
    mmul_mpirun_parse_output(mmul_text_get(&talk.other_output), answer);
    if (answer->verdict == MMUL_MPIRUN_REFUSES && talk.end == MMUL_CHILD_CRASHED) {
        answer->is_crash = true;
        snprintf(answer->words, sizeof answer->words, "it crashed (signal %d)", talk.detail);
    } else if (answer->verdict == MMUL_MPIRUN_REFUSES && is_late) {
        snprintf(answer->words, sizeof answer->words, "it did not end within %g s",
                 limit_seconds + START_SECONDS);
    } else if (answer->words[0] == '\0' && talk.end == MMUL_CHILD_DONE) {
        answer->verdict = MMUL_MPIRUN_ACCEPTS;
    }
    mmul_remote_session_fini(&talk);
    return MMUL_OK;
}
