// SPDX-License-Identifier: MIT
//
// One message between two ranks that is begun now and tested later: bytes with a checksum at both
// ends, or a few words; and sums over many ranks. Messages of one tag between the same two ranks arrive in
// the order they were begun. Nothing here blocks or returns an error: failures go to the peers's, and a
// message that could not be begun is over. When an alarm was raised, here or by another leader, all messages
// are over, and what they point to is still MPI's (mmul_comm_is_broken).
#pragma once

#include "comm/comm.h"
#include "comm/failure.h"

// Who can talk, and whose failure it is.
struct mmul_peers {
    MPI_Comm mpi;                 // borrowed
    struct mmul_failure *failure; // borrowed; NULL: what fails is silence
    const int *nodes;             // borrowed: node index of each rank of `mpi`
    int rank;                     // this one
    struct mmul_alarm *alarm;     // borrowed; raised by what MPI refuses here; NULL: nobody is told
    int64_t *sent_bytes; // borrowed: to each node, of messages that were begun; NULL: nobody counts
};

// What follows the bytes. Zeroed: void, they mean nothing, for something failed at the sender. A message that is given
// up may still leave, so what its trailer becomes has to be right: what it was, or zeros.
struct mmul_trailer {
    uint64_t hash;   // XXH3 of the bytes
    int64_t is_good; // 1: they mean something
};

struct mmul_message {        // zeroed: over
    MPI_Request requests[2]; // bytes, trailer
    struct mmul_trailer trailer;
    const char *data;
    int64_t bytes;
    int peer;
    bool active, receives;
};

// Local. MPI's error is the peers's failure, and raises its alarm.
bool mmul_peers_check(const struct mmul_peers *peers, int code, const char *what);
// Local. For who waits: an alarm makes the peers's failure void.
bool mmul_peers_is_broken(const struct mmul_peers *peers);

// Local. So many bytes more are on their way to a peer.
void mmul_peers_count(const struct mmul_peers *peers, int peer, int64_t bytes);

// Local. Where the failure is void, so are the bytes.
struct mmul_trailer mmul_trailer_make(const struct mmul_failure *failure, const void *data,
                                      int64_t bytes);
// Local. False: the bytes are void or not the sender's, and the failure is so or says so: "bytes changed on the way
// between root and node 1", MMUL_ERR_SYSTEM, with a hint.
bool mmul_trailer_fits(const struct mmul_peers *peers, const struct mmul_trailer *trailer,
                       const void *data, int64_t bytes, int from_node, int to_node);

// Local. `tag` and the one after it are used. `bytes` <= 1 GiB of `data`, borrowed (like `message`) until it is over;
// after an alarm `message` may be used again or zeroed, but stays until all ranks have agreed that they move nothing.
// Where the failure is void something is sent all the same, so that nobody waits, but it says that it means nothing.
void mmul_message_send(const struct mmul_peers *peers, int peer, int tag, const void *data,
                       int64_t bytes, struct mmul_message *message);
void mmul_message_receive(const struct mmul_peers *peers, int peer, int tag, void *data,
                          int64_t bytes, struct mmul_message *message);

// Local. After a receive that is over: the bytes are the sender's, or the failure is void.
bool mmul_message_is_over(const struct mmul_peers *peers, struct mmul_message *message);

// A few numbers, without a checksum.
enum { MMUL_WORDS = 16 };
struct mmul_words { // zeroed: over
    int64_t values[MMUL_WORDS];
    MPI_Request request;
    bool active;
    bool failed; // over without having come or left
};

// Local. `words` is borrowed until it is over. An alarm does not end them.
void mmul_words_send(const struct mmul_peers *peers, int peer, int tag, struct mmul_words *words);
void mmul_words_receive(const struct mmul_peers *peers, int peer, int tag,
                        struct mmul_words *words);
bool mmul_words_is_over(const struct mmul_peers *peers, struct mmul_words *words);

// Numbers that all ranks of a peers add up, in place, without a checksum.
struct mmul_sum { // zeroed: over
    MPI_Request request;
    bool active;
};

// Collective over peers->mpi, never waits: all begin the same sums in the same order. `at` is borrowed
// until it is over. Where the failure is void NaN is added, so that nobody waits, and nobody takes the
// sum for one.
void mmul_sum_begin(const struct mmul_peers *peers, double *at, int64_t count,
                    struct mmul_sum *sum);
bool mmul_sum_is_over(const struct mmul_peers *peers, struct mmul_sum *sum);
