// SPDX-License-Identifier: MIT
// Sends and counts the farewell messages. The state belongs to the process, because the end does,
// too.
#include "exec/conduct/lost_ranks.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/ending.h"
#include "exec/setup/context.h"

static const double ANSWER_SECONDS = 0.4; // less than root stays for (cli/interrupt.c)

static struct {
    struct mmul_context *context; // borrowed; NULL: no checks
    double since;                 // clock: when this rank noticed the end; 0: not yet
    bool is_over;
} farewell;

// Returns the number of silent ranks and lists them in `text` as far as there is room. *host: the
// host of all of them; NULL: they are on several.
static int list_silent_ranks(char *text, size_t bytes, const char **host) {
    const struct mmul_comm *comm = farewell.context->comm;
    size_t length = 0;
    int count = 0;
    for (int rank = 1; rank < comm->size; rank++) {
        if (mmul_comm_has_farewell(comm, rank))
            continue;
        const char *silent_host = farewell.context->cluster->ranks[rank].host;
        const int more = snprintf(text + length, bytes - length, "%srank %d on %.64s",
                                  count > 0 ? ", " : "", rank, silent_host);
        if (more < 0 || (size_t)more >= bytes - length)
            text[length] = '\0';
        else
            length += (size_t)more;
        *host =
            count == 0 || (*host != NULL && strcmp(*host, silent_host) == 0) ? silent_host : NULL;
        count++;
    }
    return count;
}

static void explain_lost_ranks(void) {
    struct mmul_ending_note note = {{0}, {0}};
    char names[192] = "";
    const char *host = NULL;
    const int count = list_silent_ranks(names, sizeof names, &host);
    if (count == 0)
        return;
    snprintf(note.text, sizeof note.text, "%s %s ended or %s not answer", names,
             count > 1 ? "have" : "has", count > 1 ? "do" : "does");
    if (farewell.context->cluster->node_count == 1)
        snprintf(note.hint, sizeof note.hint,
                 "mpirun without -q names the signal; 'dmesg' shows if memory ran out");
    else
        snprintf(
            note.hint, sizeof note.hint,
            "remove %.64s from the hostfile or repair it; 'mpimatmul doctor --hostfile FILE' shows "
            "which hosts answer",
            host != NULL ? host : "their hosts");
    mmul_ending_explain(&note);
}

void mmul_lost_ranks_poll(void) {
    if (farewell.context == NULL || farewell.is_over || !mmul_ending_has_begun())
        return;
    const double now = mmul_clock_now();
    const bool is_root = farewell.context->comm->rank == 0;
    if (farewell.since == 0)
        farewell.since = now;
    if (is_root && now - farewell.since < ANSWER_SECONDS)
        return;
    farewell.is_over = true;
    if (is_root)
        explain_lost_ranks();
    else
        mmul_comm_send_farewell(farewell.context->comm);
}

void mmul_lost_ranks_begin(struct mmul_context *context) {
    if (farewell.context != NULL || context->comm->size == 1)
        return;
    farewell.context = context;
    mmul_comm_set_wait_callback(mmul_lost_ranks_poll);
}

void mmul_lost_ranks_end(const struct mmul_context *context) {
    if (farewell.context != context)
        return;
    mmul_comm_set_wait_callback(NULL);
    farewell.context = NULL;
}
