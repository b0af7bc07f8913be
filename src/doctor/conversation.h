// SPDX-License-Identifier: MIT
//
// The near side of a conversation with `mpimatmul doctor --probe` on another machine, through ssh or
// what stands for it. Questions and answers are lines; an answer begins with a mark, so that what
// login scripts print is not taken for one.
//
//   (at the start)                       {"hello": VERSION}
//   facts FOLDER                         facts.h
//   listen TOKEN SECONDS                 {"token", "port"}, then {"token", "received", "bytes_per_second"}
//   (an empty line)                      none; a listener waits no longer
//   connect TOKEN PORT ADDRESS SECONDS   {"token", "errno", "connect_seconds", "local", "interface"}
#pragma once

#include "base/child.h"
#include "base/json.h"
#include "base/text.h"
#include "mpimatmul_local.h"

extern const char mmul_conversation_mark[];

enum { MMUL_AGENT_WORDS = 24, MMUL_AGENT_LENGTH = 512 };

// What starts programs on other machines: the words of "ssh -p 2222", and options of our own.
struct mmul_agent {
    char text[MMUL_AGENT_LENGTH];  // what words point into
    char shown[MMUL_AGENT_LENGTH]; // as set: "ssh -p 2222"
    const char *words[MMUL_AGENT_WORDS];
    int count; // 0: none is installed
    char option[32];
    bool is_ssh;
};

// The first of the alternatives of plm_rsh_agent ("ssh : rsh") that is installed; ssh never asks for
// a password and gives up connecting after `seconds`.
void mmul_agent_choose(const char *setting, double seconds, struct mmul_agent *agent);

struct mmul_conversation {
    struct mmul_program program;
    struct mmul_text heard;   // of its output, from the last whole line on
    struct mmul_text grumble; // what it said besides answers
    bool ended;               // its output did
    enum mmul_child_end end;  // how it ended, once it is closed
    int detail;
};

// Starts `program` doctor --probe on `host`; NULL: this program here. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_conversation_open(const struct mmul_agent *agent, const char *host,
                                        const char *program, struct mmul_conversation *conversation,
                                        struct mmul_error *err);

// One question; whether it can be heard shows in the answer.
void mmul_conversation_ask(struct mmul_conversation *conversation, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Waits until one of `count` conversations (NULL: left out) says something or the clock reaches
// `deadline`, and takes in what has come.
void mmul_conversations_wait(struct mmul_conversation *const *conversations, int count,
                             double deadline);

// The next answer that has come; NULL: none yet. The caller's.
json_t *mmul_conversation_answer(struct mmul_conversation *conversation);

// Ends it: at once when `patience_seconds` is 0. One that was never opened is legal.
void mmul_conversation_close(struct mmul_conversation *conversation, double patience_seconds);

// The last line that was no answer, control characters masked; "" when there is none.
char *mmul_conversation_last_words(const struct mmul_conversation *conversation,
                                   char words[static 200]);
void mmul_conversation_fini(struct mmul_conversation *conversation);
