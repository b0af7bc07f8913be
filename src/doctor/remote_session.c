// SPDX-License-Identifier: MIT
// Lines to and from a program on another machine. The only words that a shell sees are the host's
// name, which the hostfile's reader has checked, and the program's name in quotes.
#include "doctor/remote_session.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"

const char mmul_remote_session_mark[] = "mpimatmul-doctor: ";

enum { HEARD_MAX = 4 << 20, CONVERSATIONS_MAX = 1024 };

// ------------------------------------------------------------------------------------------- agent

static void split_words(struct mmul_rsh_agent *agent) {
    agent->count = 0;
    for (char *rest = agent->text, *word; (word = strsep(&rest, " \t")) != NULL;)
        if (*word != '\0' && agent->count < MMUL_AGENT_WORDS - 8)
            agent->words[agent->count++] = word;
}

void mmul_rsh_agent_choose(const char *setting, double seconds, struct mmul_rsh_agent *agent) {
    char alternatives[MMUL_AGENT_LENGTH], path[1024];
    mmul_text_copy(alternatives, sizeof alternatives, setting);
    *agent = (struct mmul_rsh_agent){.count = 0};
    for (char *rest = alternatives, *one; (one = strsep(&rest, ":")) != NULL;) {
        mmul_text_copy(agent->shown, sizeof agent->shown, one + strspn(one, " \t"));
        for (size_t end = strlen(agent->shown); end > 0 && agent->shown[end - 1] == ' ';)
            agent->shown[--end] = '\0';
        mmul_text_copy(agent->text, sizeof agent->text, agent->shown);
        split_words(agent);
        if (agent->count > 0 && mmul_executable_find(agent->words[0], "", path, sizeof path))
            break;
        agent->count = 0;
    }
    if (agent->count == 0)
        return;
    const char *slash = strrchr(agent->words[0], '/');
    agent->is_ssh = strcmp(slash != NULL ? slash + 1 : agent->words[0], "ssh") == 0;
    if (!agent->is_ssh)
        return;
    snprintf(agent->option, sizeof agent->option, "ConnectTimeout=%d", (int)(seconds + 0.999));
    agent->words[agent->count++] = "-o";
    agent->words[agent->count++] = "BatchMode=yes";
    agent->words[agent->count++] = "-o";
    agent->words[agent->count++] = agent->option;
}

// ----------------------------------------------------------------------------------------- opening

// Adds a word in quotes that every shell accepts.
static void add_quoted(const char *word, struct mmul_text *text) {
    mmul_text_add(text, "'");
    for (; *word != '\0'; word++)
        mmul_text_add(text, *word == '\'' ? "'\\''" : "%c", *word);
    mmul_text_add(text, "'");
}

enum mmul_status mmul_remote_session_open(const struct mmul_rsh_agent *agent, const char *host,
                                          const char *program,
                                          struct mmul_remote_session *conversation,
                                          struct mmul_error *err) {
    const char *argv[MMUL_AGENT_WORDS + 4] = {"/proc/self/exe", "doctor", "--probe", NULL};
    struct mmul_text command = {0};
    *conversation = (struct mmul_remote_session){.ended = false};
    if (host != NULL) {
        add_quoted(program, &command);
        mmul_text_add(&command, " doctor --probe");
        memcpy(argv, agent->words, sizeof agent->words);
        argv[agent->count] = host;
        argv[agent->count + 1] = mmul_text_get(&command);
        argv[agent->count + 2] = NULL;
    }
    enum mmul_status status = mmul_process_start(argv, &conversation->program, err);
    mmul_text_fini(&command);
    return status;
}

void mmul_remote_session_ask(struct mmul_remote_session *conversation, const char *format, ...) {
    struct mmul_text question = {0};
    va_list arguments;
    va_start(arguments, format);
    mmul_text_add_va(&question, format, arguments);
    va_end(arguments);
    mmul_text_add(&question, "\n");
    // The question fits in a pipe's buffer, which the other side emptied before its last answer.
    (void)!write(conversation->program.input, mmul_text_get(&question), question.length);
    mmul_text_fini(&question);
}

// --------------------------------------------------------------------------------------- listening

// Reads the bytes that have arrived. Returns false at the end of the stream, or if there are too
// many.
static bool read_available(int fd, struct mmul_text *text) {
    char block[4096];
    for (;;) {
        ssize_t got = read(fd, block, sizeof block - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 && errno == EAGAIN;
        block[got] = '\0';
        for (char *c = block; c < block + got; c++)
            *c = *c == '\0' ? '?' : *c;
        mmul_text_add(text, "%s", block);
        if (text->length > HEARD_MAX)
            return false;
    }
}

void mmul_remote_sessions_wait(struct mmul_remote_session *const *conversations, int count,
                               double deadline) {
    struct pollfd *ready = calloc((size_t)count * 2 + 1, sizeof *ready);
    if (ready == NULL)
        return mmul_clock_sleep(0.01);
    for (int c = 0; c < count; c++) {
        const struct mmul_remote_session *one = conversations[c];
        bool listens = one != NULL && !one->ended;
        ready[2 * c] = (struct pollfd){.fd = listens ? one->program.output : -1, .events = POLLIN};
        ready[2 * c + 1] =
            (struct pollfd){.fd = listens ? one->program.errors : -1, .events = POLLIN};
    }
    double left = deadline - mmul_clock_now();
    (void)poll(ready, (nfds_t)count * 2, left > 0.0 ? (int)(left * 1000.0) + 1 : 0);
    for (int c = 0; c < count; c++) {
        struct mmul_remote_session *one = conversations[c];
        if (ready[2 * c].fd >= 0 && ready[2 * c].revents != 0)
            one->ended = !read_available(one->program.output, &one->heard);
        if (ready[2 * c + 1].fd >= 0 && ready[2 * c + 1].revents != 0 &&
            !read_available(one->program.errors, &one->other_output))
            // errors are closed before the output: avoid polling without pause
            mmul_clock_sleep(0.001);
    }
    free(ready);
}

// Replaces control characters, also those of two bytes, by question marks, since a terminal will
// show texts of another machine.
static void mask_controls(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c != '\0'; c++) {
        bool is_double = c[0] == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0;
        if (is_double)
            *c++ = '?';
        if (is_double || *c < 0x20 || *c == 0x7F)
            *c = '?';
    }
}

static void mask_strings(json_t *value) {
    const char *key;
    json_t *inner;
    size_t at;
    void *next;
    char *copy = json_is_string(value) ? strdup(json_string_value(value)) : NULL;
    if (copy != NULL) {
        mask_controls(copy);
        json_string_set(value, copy);
        free(copy);
    }
    json_array_foreach(value, at, inner) {
        mask_strings(inner);
    }
    json_object_foreach_safe(value, next, key, inner) {
        mask_strings(inner);
    }
}

json_t *mmul_remote_session_next_answer(struct mmul_remote_session *conversation) {
    struct mmul_text *heard = &conversation->heard;
    const size_t mark = strlen(mmul_remote_session_mark);
    for (char *end; heard->length > 0 && (end = strchr(heard->data, '\n')) != NULL;) {
        json_t *answer = NULL;
        size_t length = (size_t)(end - heard->data) + 1;
        if (strncmp(heard->data, mmul_remote_session_mark, mark) == 0)
            answer = json_loadb(heard->data + mark, length - mark, JSON_REJECT_DUPLICATES, NULL);
        if (answer != NULL)
            mask_strings(answer);
        else
            mmul_text_add(&conversation->other_output, "%.*s", (int)length, heard->data);
        heard->length -= length;
        memmove(heard->data, heard->data + length, heard->length + 1);
        if (answer != NULL)
            return answer;
    }
    return NULL;
}

// ------------------------------------------------------------------------------------------ ending

void mmul_remote_session_close(struct mmul_remote_session *conversation, double patience_seconds) {
    if (conversation->program.pid == 0)
        return;
    (void)read_available(conversation->program.errors, &conversation->other_output);
    conversation->end =
        mmul_process_finish(&conversation->program, patience_seconds, &conversation->detail);
}

char *mmul_remote_session_last_line(const struct mmul_remote_session *conversation,
                                    char words[static 200]) {
    const char *text = mmul_text_get(&conversation->other_output);
    size_t end = conversation->other_output.length;
    while (end > 0 && strchr("\r\n\t ", text[end - 1]) != NULL)
        end--;
    size_t begin = end;
    while (begin > 0 && text[begin - 1] != '\n')
        begin--;
    mmul_text_copy(words, end - begin + 1 < 200 ? end - begin + 1 : 200, text + begin);
    mask_controls(words);
    return words;
}

void mmul_remote_session_fini(struct mmul_remote_session *conversation) {
    mmul_text_fini(&conversation->heard);
    mmul_text_fini(&conversation->other_output);
}
