// SPDX-License-Identifier: MIT
// The far side of a conversation: `mpimatmul doctor --probe`, started by ssh on another machine.
// Prints hello, then answers questions, one line each: facts about this machine, waiting for a
// connection, connecting to another machine. Each question has a time limit. The program ends with
// its input, after a time without questions, or after many questions, and leaves nothing behind.
#include "doctor/remote_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "doctor/machine_info.h"
#include "host/network_probe.h"

enum { IDLE_SECONDS = 120, QUESTIONS_MAX = 10000, QUESTION_LENGTH = 4096 + 64 };

// Prints an answer on one line: JSON text has newlines only between values.
static enum mmul_status print_answer(json_t *answer, struct mmul_error *err) {
    char *text = NULL;
    enum mmul_status status = mmul_json_format(answer, &text, err);
    json_decref(answer);
    if (status != MMUL_OK)
        return status;
    for (char *c = text; *c != '\0'; c++)
        *c = *c == '\n' ? ' ' : *c;
    printf("%s%s\n", mmul_remote_session_mark, text);
    mmul_free(text);
    if (fflush(stdout) != 0)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "the other side is gone");
    return MMUL_OK;
}

static enum mmul_status answer_listen(const char *token, double seconds, struct mmul_error *err) {
    struct mmul_listener listener;
    struct mmul_received received;
    enum mmul_status status = mmul_listener_open(&listener, err);
    if (status == MMUL_OK)
        status = print_answer(json_pack("{s:s,s:i}", "token", token, "port", listener.port), err);
    if (status != MMUL_OK)
        return status;
    mmul_listener_receive(&listener, token, seconds, STDIN_FILENO, &received);
    return print_answer(json_pack("{s:s,s:b,s:f}", "token", token, "received", received.connected,
                                  "bytes_per_second", received.bytes_per_second),
                        err);
}

static enum mmul_status answer_connect(const char *token, int port, const char *address,
                                       double seconds, struct mmul_error *err) {
    struct mmul_reach reach;
    mmul_network_probe_connect(address, port, token, seconds, &reach);
    return print_answer(json_pack("{s:s,s:i,s:f,s:s,s:s}", "token", token, "errno", reach.errnum,
                                  "connect_seconds", reach.connect_seconds, "local", reach.local,
                                  "interface", reach.interface),
                        err);
}

static enum mmul_status answer_question(const char *question, struct mmul_error *err) {
    char token[MMUL_TOKEN_LENGTH + 1], address[16];
    json_t *facts = NULL;
    int port;
    double seconds;
    if (question[0] == '\0')
        return MMUL_OK;
    if (strncmp(question, "facts ", 6) == 0)
        return mmul_machine_info_collect(question + 6, &facts, err) == MMUL_OK
                   ? print_answer(facts, err)
                   : err->status;
    if (sscanf(question, "listen %16s %lf", token, &seconds) == 2 &&
        strlen(token) == MMUL_TOKEN_LENGTH)
        return answer_listen(token, seconds < 30 ? seconds : 30, err);
    if (sscanf(question, "connect %16s %d %15s %lf", token, &port, address, &seconds) == 4 &&
        strlen(token) == MMUL_TOKEN_LENGTH && port > 0 && port < 65536)
        return answer_connect(token, port, address, seconds < 30 ? seconds : 30, err);
    return mmul_fail(err, MMUL_ERR_USAGE, "doctor --probe: unknown question '%s'", question);
}

enum mmul_status mmul_doctor_answer(struct mmul_error *err) {
    char question[QUESTION_LENGTH];
    enum mmul_status status = print_answer(json_pack("{s:s}", "hello", MMUL_VERSION), err);
    for (int count = 0; status == MMUL_OK && count < QUESTIONS_MAX; count++) {
        alarm(IDLE_SECONDS); // kills this process if it hangs
        if (fgets(question, sizeof question, stdin) == NULL)
            break;
        question[strcspn(question, "\n")] = '\0';
        status = answer_question(question, err);
    }
    alarm(0);
    return status;
}
