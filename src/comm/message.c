// SPDX-License-Identifier: MIT
// Two MPI messages each: the bytes where they lie, and the trailer.
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

enum mmul_status mmul_message_send(MPI_Comm mpi, int peer, int tag, const void *data, int64_t bytes,
                                   bool failed, struct mmul_message *message,
                                   struct mmul_error *err) {
    *message = (struct mmul_message){.data = data, .bytes = bytes};
    message->trailer.failed = failed;
    message->trailer.hash = failed ? 0 : mmul_hash(data, (size_t)bytes);
    int code = MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, mpi, &message->requests[0]);
    if (code == MPI_SUCCESS)
        code = MPI_Isend(&message->trailer, (int)sizeof message->trailer, MPI_BYTE, peer, tag + 1,
                         mpi, &message->requests[1]);
    message->active = code == MPI_SUCCESS;
    return mmul_comm_check(code, "send", err);
}

enum mmul_status mmul_message_receive(MPI_Comm mpi, int peer, int tag, void *data, int64_t bytes,
                                      struct mmul_message *message, struct mmul_error *err) {
    *message = (struct mmul_message){.data = data, .bytes = bytes, .receives = true};
    int code = MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, tag, mpi, &message->requests[0]);
    if (code == MPI_SUCCESS)
        code = MPI_Irecv(&message->trailer, (int)sizeof message->trailer, MPI_BYTE, peer, tag + 1,
                         mpi, &message->requests[1]);
    message->active = code == MPI_SUCCESS;
    return mmul_comm_check(code, "receive", err);
}

enum mmul_status mmul_message_test(struct mmul_message *message, bool *done, bool *failed,
                                   struct mmul_error *err) {
    int over = 1;
    *failed = false;
    *done = true;
    if (!message->active)
        return MMUL_OK;
    int code = MPI_Testall(2, message->requests, &over, MPI_STATUSES_IGNORE);
    *done = over || code != MPI_SUCCESS;
    if (*done)
        message->active = false;
    if (code != MPI_SUCCESS || !over || !message->receives)
        return mmul_comm_check(code, "transfer", err);
    *failed = message->trailer.failed != 0;
    if (*failed || mmul_hash(message->data, (size_t)message->bytes) == message->trailer.hash)
        return MMUL_OK;
    return mmul_fail_changed(message->from_node, message->to_node, err);
}
