// SPDX-License-Identifier: MIT
// The near side of a conversation with `mpimatmul doctor --probe` on another machine, through ssh
// or a replacement. Questions and answers are lines. An answer begins with a mark, which
// distinguishes it from output of login scripts.
//
//   (at the start)                       {"hello": VERSION}
//   facts FOLDER                         machine_info.h
//   listen TOKEN SECONDS                 {"token", "port"}, then {"token", "received",
//                                        "bytes_per_second"}
//   (an empty line)                      none; a listener stops waiting
//   connect TOKEN PORT ADDRESS SECONDS   {"token", "errno", "connect_seconds", "local",
//                                        "interface"}
#pragma once

#include "base/child.h"
#include "base/json.h"
#include "base/text.h"
#include "mpimatmul_local.h"

extern const char mmul_remote_session_mark[];

enum { MMUL_AGENT_WORDS = 24, MMUL_AGENT_LENGTH = 512 };

// The command that starts programs on other machines: the words of "ssh -p 2222" and our own
// options.
struct mmul_rsh_agent {
    char text[MMUL_AGENT_LENGTH];  // memory of `words`
    char shown[MMUL_AGENT_LENGTH]; // as set: "ssh -p 2222"
    const char *words[MMUL_AGENT_WORDS];
    int count; // 0: none is installed
    char option[32];
    bool is_ssh;
};

// Chooses the first alternative of plm_rsh_agent ("ssh : rsh") that is installed. ssh never asks
// for a password, and stops connecting after `seconds`.
void mmul_rsh_agent_choose(const char *setting, double seconds, struct mmul_rsh_agent *agent);

struct mmul_remote_session {
    struct mmul_process program;
    struct mmul_text heard;        // output not yet read as answers
    struct mmul_text other_output; // other output and errors
    bool ended;                    // the output has ended
    enum mmul_child_end end;       // result of the program, once closed
    int detail;
};

// Starts `program` doctor --probe on `host`. NULL: this program on this machine. Fails with
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_remote_session_open(const struct mmul_rsh_agent *agent, const char *host,
                                          const char *program,
                                          struct mmul_remote_session *conversation,
                                          struct mmul_error *err);

// Sends one question. A failure to send shows as a missing answer.
void mmul_remote_session_ask(struct mmul_remote_session *conversation, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Waits until one of `count` conversations (NULL: skipped) sends something or the clock reaches
// `deadline`, and reads all that has arrived.
void mmul_remote_sessions_wait(struct mmul_remote_session *const *conversations, int count,
                               double deadline);

// Returns the next answer that has arrived, owned by the caller. NULL: none yet.
json_t *mmul_remote_session_next_answer(struct mmul_remote_session *conversation);

// Ends the conversation, at once if `patience_seconds` is 0. Legal if it was never opened.
void mmul_remote_session_close(struct mmul_remote_session *conversation, double patience_seconds);

// Copies the last line that was not an answer, with control characters masked; "" if there is none.
char *mmul_remote_session_last_line(const struct mmul_remote_session *conversation,
                                    char words[static 200]);
void mmul_remote_session_fini(struct mmul_remote_session *conversation);
