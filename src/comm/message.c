// SPDX-License-Identifier: MIT
// Bytes travel as two MPI messages: the bytes, in place, and their trailer.
#include "comm/message.h"

#include <math.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/status.h"

static const char *node_name(int node, char text[static 32]) {
    if (node == 0)
        return "root";
    snprintf(text, 32, "node %d", node);
    return text;
}

static void fail_changed(int from_node, int to_node, struct mmul_error *err) {
    char from[32], to[32];
    bool inward = to_node == 0; // root is named first in either direction
    mmul_fail(err, MMUL_ERR_SYSTEM, "bytes changed in transit between %s and %s",
              node_name(inward ? to_node : from_node, from),
              node_name(inward ? from_node : to_node, to));
    mmul_hint(err, "checksums differ: suspect the network card or memory of that machine");
}

bool mmul_peers_check(const struct mmul_peers *peers, int code, const char *what) {
    struct mmul_error err;
    if (mmul_comm_check(code, what, &err) == MMUL_OK)
        return true;
    mmul_failure_keep(peers->failure, &err);
    mmul_alarm_raise(peers->alarm);
    return false;
}

bool mmul_peers_is_broken(const struct mmul_peers *peers) {
    if (!mmul_alarm_poll(peers->alarm))
        return false;
    mmul_failure_void_traffic(peers->failure);
    return true;
}

void mmul_peers_count_sent(const struct mmul_peers *peers, int peer, int64_t bytes) {
    if (peers->sent_bytes != NULL)
        peers->sent_bytes[peers->nodes[peer]] += bytes;
}

// ----------------------------------------------------------------------------------------- bytes

struct mmul_trailer mmul_trailer_make(const struct mmul_failure *failure, const void *data,
                                      int64_t bytes) {
    if (mmul_failure_is_void(failure))
        return (struct mmul_trailer){0};
    return (struct mmul_trailer){.hash = mmul_hash(data, (size_t)bytes), .is_good = 1};
}

bool mmul_trailer_matches(const struct mmul_peers *peers, const struct mmul_trailer *trailer,
                          const void *data, int64_t bytes, int from_node, int to_node) {
    struct mmul_error err;
    if (trailer->is_good == 0) {
        mmul_failure_void_traffic(peers->failure);
        return false;
    }
    if (mmul_hash(data, (size_t)bytes) == trailer->hash)
        return true;
    fail_changed(from_node, to_node, &err);
    mmul_failure_keep(peers->failure, &err);
    return false;
}

// Abandons a message. A pending receive of a trailer has arrived or can be cancelled. Sent bytes
// and trailers may still be in flight.
static void abandon_message(struct mmul_message *message) {
    for (int i = 0; i < 2; i++) {
        if (message->requests[i] == MPI_REQUEST_NULL)
            continue;
        if (message->receives)
            MPI_Cancel(&message->requests[i]);
        MPI_Request_free(&message->requests[i]);
    }
    message->active = false;
}

// Checks the code of both calls.
static void check_begun(const struct mmul_peers *peers, int code, struct mmul_message *message) {
    message->active = true;
    if (!mmul_peers_check(peers, code, message->receives ? "receive" : "send"))
        abandon_message(message);
}

void mmul_message_send(const struct mmul_peers *peers, int peer, int tag, const void *data,
                       int64_t bytes, struct mmul_message *message) {
    *message = (struct mmul_message){.requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL},
                                     .data = data,
                                     .bytes = bytes,
                                     .peer = peer};
    if (mmul_peers_is_broken(peers))
        return;
    message->trailer = mmul_trailer_make(peers->failure, data, bytes);
    int code = MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, peers->mpi, &message->requests[0]);
    if (code == MPI_SUCCESS)
        code = MPI_Isend(&message->trailer, (int)sizeof message->trailer, MPI_BYTE, peer, tag + 1,
                         peers->mpi, &message->requests[1]);
    check_begun(peers, code, message);
    mmul_peers_count_sent(peers, peer, bytes);
}

void mmul_message_receive(const struct mmul_peers *peers, int peer, int tag, void *data,
                          int64_t bytes, struct mmul_message *message) {
    *message = (struct mmul_message){.requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL},
                                     .data = data,
                                     .bytes = bytes,
                                     .peer = peer,
                                     .receives = true};
    if (mmul_peers_is_broken(peers))
        return;
    int code = MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, tag, peers->mpi, &message->requests[0]);
    if (code == MPI_SUCCESS)
        code = MPI_Irecv(&message->trailer, (int)sizeof message->trailer, MPI_BYTE, peer, tag + 1,
                         peers->mpi, &message->requests[1]);
    check_begun(peers, code, message);
}

bool mmul_message_is_over(const struct mmul_peers *peers, struct mmul_message *message) {
    int over = 0;
    if (!message->active)
        return true;
    int code = MPI_Testall(2, message->requests, &over, MPI_STATUSES_IGNORE);
    bool good = mmul_peers_check(peers, code, "transfer");
    if (!good || (!over && mmul_peers_is_broken(peers)))
        abandon_message(message);
    message->active = message->active && !over;
    if (!good || !over || !message->receives)
        return !message->active;
    mmul_trailer_matches(peers, &message->trailer, message->data, message->bytes,
                         peers->nodes[message->peer], peers->nodes[peers->rank]);
    return true;
}

// ----------------------------------------------------------------------------------------- words

void mmul_words_send(const struct mmul_peers *peers, int peer, int tag, struct mmul_words *words) {
    int code =
        MPI_Isend(words->values, MMUL_WORDS, MPI_INT64_T, peer, tag, peers->mpi, &words->request);
    words->active = mmul_peers_check(peers, code, "send");
    words->failed = !words->active;
}

void mmul_words_receive(const struct mmul_peers *peers, int peer, int tag,
                        struct mmul_words *words) {
    int code =
        MPI_Irecv(words->values, MMUL_WORDS, MPI_INT64_T, peer, tag, peers->mpi, &words->request);
    words->active = mmul_peers_check(peers, code, "receive");
    words->failed = !words->active;
}

bool mmul_words_is_over(const struct mmul_peers *peers, struct mmul_words *words) {
    int over = 0;
    if (!words->active)
        return true;
    int code = MPI_Test(&words->request, &over, MPI_STATUS_IGNORE);
    words->failed = !mmul_peers_check(peers, code, "transfer");
    if (words->failed && words->request != MPI_REQUEST_NULL) { // the caller may free `words`
        MPI_Cancel(&words->request);
        MPI_Request_free(&words->request);
    }
    words->active = !words->failed && !over;
    return !words->active;
}

// ------------------------------------------------------------------------------------------ sums

void mmul_sum_begin(const struct mmul_peers *peers, double *at, int64_t count,
                    struct mmul_sum *sum) {
    *sum = (struct mmul_sum){.request = MPI_REQUEST_NULL};
    if (mmul_peers_is_broken(peers))
        return;
    for (int64_t i = 0; i < count && mmul_failure_is_void(peers->failure); i++)
        at[i] = NAN;
    int code = MPI_Iallreduce(MPI_IN_PLACE, at, (int)count, MPI_DOUBLE, MPI_SUM, peers->mpi,
                              &sum->request);
    sum->active = mmul_peers_check(peers, code, "sum");
}

bool mmul_sum_is_over(const struct mmul_peers *peers, struct mmul_sum *sum) {
    int over = 0;
    if (!sum->active)
        return true;
    int code = MPI_Test(&sum->request, &over, MPI_STATUS_IGNORE);
    bool good = mmul_peers_check(peers, code, "sum");
    // MPI cannot cancel a collective: its memory stays MPI's.
    sum->active = good && !over && !mmul_peers_is_broken(peers);
    return !sum->active;
}
