// SPDX-License-Identifier: MIT
// Bytes are two MPI messages: these where they lie, and the trailer.
#include "comm/message.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/status.h"

static const char *node_name(int node, char text[static 32]) {
    if (node == 0)
        return "root";
    snprintf(text, 32, "node %d", node);
    return text;
}

enum mmul_status mmul_fail_changed(int from_node, int to_node, struct mmul_error *err) {
    char from[32], to[32];
    bool inward = to_node == 0; // root is named first in either direction
    mmul_fail(err, MMUL_ERR_SYSTEM, "bytes changed on the way between %s and %s",
              node_name(inward ? to_node : from_node, from),
              node_name(inward ? from_node : to_node, to));
    mmul_hint(err, "checksums differ: suspect the network card or memory of that machine");
    return MMUL_ERR_SYSTEM;
}

static bool is_good(const struct mmul_channel *channel, int code, const char *what) {
    struct mmul_error err;
    if (mmul_comm_check(code, what, &err) != MMUL_OK)
        mmul_failure_keep(channel->failure, &err);
    return code == MPI_SUCCESS;
}

void mmul_message_send(const struct mmul_channel *channel, int peer, int tag, const void *data,
                       int64_t bytes, struct mmul_message *message) {
    bool is_void = mmul_failure_is_void(channel->failure);
    *message = (struct mmul_message){.data = data, .bytes = bytes, .peer = peer};
    message->trailer.is_void = is_void;
    message->trailer.hash = is_void ? 0 : mmul_hash(data, (size_t)bytes);
    int code =
        MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, channel->mpi, &message->requests[0]);
    if (code == MPI_SUCCESS)
        code = MPI_Isend(&message->trailer, (int)sizeof message->trailer, MPI_BYTE, peer, tag + 1,
                         channel->mpi, &message->requests[1]);
    message->active = is_good(channel, code, "send");
}

void mmul_message_receive(const struct mmul_channel *channel, int peer, int tag, void *data,
                          int64_t bytes, struct mmul_message *message) {
    *message = (struct mmul_message){.data = data, .bytes = bytes, .peer = peer, .receives = true};
    int code =
        MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, tag, channel->mpi, &message->requests[0]);
    if (code == MPI_SUCCESS)
        code = MPI_Irecv(&message->trailer, (int)sizeof message->trailer, MPI_BYTE, peer, tag + 1,
                         channel->mpi, &message->requests[1]);
    message->active = is_good(channel, code, "receive");
}

bool mmul_message_is_over(const struct mmul_channel *channel, struct mmul_message *message) {
    struct mmul_error err;
    int over = 1;
    if (!message->active)
        return true;
    int code = MPI_Testall(2, message->requests, &over, MPI_STATUSES_IGNORE);
    bool good = is_good(channel, code, "transfer");
    message->active = good && !over;
    if (!good || !over || !message->receives)
        return !message->active;
    if (message->trailer.is_void != 0) {
        mmul_failure_void(channel->failure);
    } else if (mmul_hash(message->data, (size_t)message->bytes) != message->trailer.hash) {
        mmul_fail_changed(channel->nodes[message->peer], channel->nodes[channel->rank], &err);
        mmul_failure_keep(channel->failure, &err);
    }
    return true;
}

void mmul_words_send(const struct mmul_channel *channel, int peer, int tag,
                     struct mmul_words *words) {
    int code =
        MPI_Isend(words->values, MMUL_WORDS, MPI_INT64_T, peer, tag, channel->mpi, &words->request);
    words->peer = peer;
    words->active = is_good(channel, code, "send");
    words->failed = !words->active;
}

void mmul_words_receive(const struct mmul_channel *channel, int peer, int tag,
                        struct mmul_words *words) {
    int from = peer == MMUL_ANYBODY ? MPI_ANY_SOURCE : peer;
    int code =
        MPI_Irecv(words->values, MMUL_WORDS, MPI_INT64_T, from, tag, channel->mpi, &words->request);
    words->peer = peer;
    words->active = is_good(channel, code, "receive");
    words->failed = !words->active;
}

bool mmul_words_is_over(const struct mmul_channel *channel, struct mmul_words *words) {
    MPI_Status from;
    int over = 1;
    if (!words->active)
        return true;
    bool good = is_good(channel, MPI_Test(&words->request, &over, &from), "transfer");
    words->active = good && !over;
    words->failed = !good;
    if (good && over && words->peer == MMUL_ANYBODY)
        words->peer = from.MPI_SOURCE;
    return !words->active;
}

void mmul_words_forget(struct mmul_words *words) {
    if (words->active && MPI_Cancel(&words->request) == MPI_SUCCESS)
        MPI_Wait(&words->request, MPI_STATUS_IGNORE);
    words->active = false;
}
