// SPDX-License-Identifier: MIT
//
// Non-blocking messages between two ranks: bytes with a checksum at both ends, or a few words; and
// sums over many ranks. Messages of one tag between the same two ranks arrive in the order in which
// they began.
// Nothing here blocks or returns an error. Failures go to the failure of the peers, and a message
// that could not begin is over. After an alarm, raised here or by another leader, all messages are
// over, and MPI may still use their memory (mmul_comm_is_broken).
#pragma once

#include "comm/comm.h"
#include "comm/failure.h"

// A group of ranks that exchange messages, and the failure that they report to.
struct mmul_peers {
    MPI_Comm mpi;                 // borrowed
    struct mmul_failure *failure; // borrowed; NULL: failures are ignored
    const int *nodes;             // borrowed: node index of each rank of `mpi`
    int rank;                     // rank of this process in `mpi`
    // Borrowed; raised if MPI refuses a call here; NULL: no alarm is raised.
    struct mmul_alarm *alarm;
    // Borrowed: bytes sent to each node, counted when a message begins; NULL: not counted.
    int64_t *sent_bytes;
};

// Sent after the bytes. Zeroed: the bytes are void, because the sender has failed. An abandoned
// message may still leave, so its trailer must stay as it was or become zeros.
struct mmul_trailer {
    uint64_t hash;   // XXH3 of the bytes
    int64_t is_good; // 1: the bytes are valid
};

struct mmul_message {        // zeroed: over
    MPI_Request requests[2]; // bytes, trailer
    struct mmul_trailer trailer;
    const char *data;
    int64_t bytes;
    int peer;
    bool active, receives;
};

// Local. Reports an error of MPI to the peers' failure, and raises their alarm. Returns true if
// there is none.
bool mmul_peers_check(const struct mmul_peers *peers, int code, const char *what);
// Local. Returns true after an alarm, and makes the peers' failure void. Waiting loops must call
// it.
bool mmul_peers_is_broken(const struct mmul_peers *peers);

// Local. Adds bytes to the count of bytes sent to a peer.
void mmul_peers_count_sent(const struct mmul_peers *peers, int peer, int64_t bytes);

// Local. Returns a void trailer if the failure is void.
struct mmul_trailer mmul_trailer_make(const struct mmul_failure *failure, const void *data,
                                      int64_t bytes);
// Local. Returns false if the bytes are void or differ from the sender's. The failure is then void,
// or says "bytes changed in transit between root and node 1", MMUL_ERR_SYSTEM, with a hint.
bool mmul_trailer_matches(const struct mmul_peers *peers, const struct mmul_trailer *trailer,
                          const void *data, int64_t bytes, int from_node, int to_node);

// Local. Uses `tag` and the following one. `data` (`bytes` <= 1 GiB) and `message` are borrowed
// until the message is over. After an alarm `message` may be reused or zeroed, but must stay
// allocated until all ranks have agreed on the end of traffic. In a void run a message is sent all
// the same, so that no rank waits; its trailer says that the bytes are void.
void mmul_message_send(const struct mmul_peers *peers, int peer, int tag, const void *data,
                       int64_t bytes, struct mmul_message *message);
void mmul_message_receive(const struct mmul_peers *peers, int peer, int tag, void *data,
                          int64_t bytes, struct mmul_message *message);

// Local. Returns true when the message is over. After a receive, the bytes are the sender's, or the
// failure is void.
bool mmul_message_is_over(const struct mmul_peers *peers, struct mmul_message *message);

// A few numbers, without a checksum.
enum { MMUL_WORDS = 16 };
struct mmul_words { // zeroed: over
    int64_t values[MMUL_WORDS];
    MPI_Request request;
    bool active;
    bool failed; // over without being sent or received
};

// Local. `words` is borrowed until the transfer is over. An alarm does not end it.
void mmul_words_send(const struct mmul_peers *peers, int peer, int tag, struct mmul_words *words);
void mmul_words_receive(const struct mmul_peers *peers, int peer, int tag,
                        struct mmul_words *words);
bool mmul_words_is_over(const struct mmul_peers *peers, struct mmul_words *words);

// A sum over all ranks of the peers, in place, without a checksum.
struct mmul_sum { // zeroed: over
    MPI_Request request;
    bool active;
};

// Collective over peers->mpi, never waits. All ranks begin the same sums in the same order. `at` is
// borrowed until the sum is over. A rank with a void failure adds NaN, so that no rank waits and no
// rank uses the sum.
void mmul_sum_begin(const struct mmul_peers *peers, double *at, int64_t count,
                    struct mmul_sum *sum);
bool mmul_sum_is_over(const struct mmul_peers *peers, struct mmul_sum *sum);
