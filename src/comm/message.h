// SPDX-License-Identifier: MIT
//
// One message between two ranks that is begun now and tested later, with a checksum at both ends.
// Messages of one tag between the same two ranks arrive in the order they were begun.
#pragma once

#include "comm/comm.h"

// What follows the bytes.
struct mmul_trailer {
    uint64_t hash;  // XXH3 of the bytes; 0 when failed
    int64_t failed; // the sender's bytes mean nothing: something failed there
};

struct mmul_message {
    MPI_Request requests[2]; // bytes, trailer
    struct mmul_trailer trailer;
    const char *data;
    int64_t bytes;
    int from_node, to_node; // for the text of a receive's error: set after it was begun
    bool active, receives;
};

// "bytes changed on the way between root and node 1", MMUL_ERR_SYSTEM, with a hint.
enum mmul_status mmul_fail_changed(int from_node, int to_node, struct mmul_error *err);

// Local. `tag` and the one after it are used. `bytes` <= 1 GiB of `data`, borrowed (like `message`)
// until it was tested done. `failed`: send something, so that nobody waits, but say that it means
// nothing.
// Fail with MMUL_ERR_SYSTEM (MPI); the message is not active then.
enum mmul_status mmul_message_send(MPI_Comm mpi, int peer, int tag, const void *data, int64_t bytes,
                                   bool failed, struct mmul_message *message,
                                   struct mmul_error *err);
enum mmul_status mmul_message_receive(MPI_Comm mpi, int peer, int tag, void *data, int64_t bytes,
                                      struct mmul_message *message, struct mmul_error *err);

// Local. Is it over? Not active: yes. After a receive *failed is the sender's word.
// Fails with MMUL_ERR_SYSTEM (MPI, or bytes that changed on the way): it is over then.
enum mmul_status mmul_message_test(struct mmul_message *message, bool *done, bool *failed,
                                   struct mmul_error *err);
