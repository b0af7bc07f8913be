// SPDX-License-Identifier: MIT
//
// A channel carries cargo after cargo in one order that all who take part know, beside other work:
//
//     scatter   root's bytes, to each member its own      MPI_Iscatterv, in chunks
//     gather    each member's own, to root                MPI_Igatherv, in chunks
//     relay     one member's bytes, from one to the next  messages, in packets
//     send      to a node's leader                        messages; what it receives in the same order
//     load      from the channel's end into memory           no network
//     store     from memory to the channel's end             no network
//
// The channel's end makes bytes or takes them, stretch by stretch: root's files. Whatever crosses the
// network has a checksum made at one end and compared at the other. Nothing here blocks, and nothing
// stops when something fails (comm/failure.h): the others wait for it. But where MPI fails they would
// wait in vain: after an alarm (comm/comm.h) cargoes come and go at once, on all members, and no byte
// moves.
#pragma once

#include "comm/transport.h"

// Bytes [begin, end) of what belongs to `node` (of a relay: of all, node -1).
struct mmul_channel_end {
    enum mmul_status (*produce)(void *context, int node, int64_t begin, int64_t end, void *to,
                                struct mmul_error *err);
    enum mmul_status (*consume)(void *context, int node, int64_t begin, int64_t end,
                                const void *from, struct mmul_error *err);
};

struct mmul_cargo {
    int64_t bytes;             // relay, load, store: how many; the same on all members
    const int64_t *node_bytes; // scatter, gather: per node index, the same on all; borrowed
    int from,
        to; // relay, send, receive: nodes it comes from and goes to; -1: begins here, ends here
    char *
        memory; // borrowed; where they lie or go to. NULL at a relay's beginning, of what is sent or received: the
    // channel's end makes or takes them, where cargoes are no larger than its buffer; of a store: they are
    // where they belong; of a load: its end brings them there
    void *context; // of the channel's end; borrowed
    int64_t mark;  // what `arrived` and `left` become
};

enum mmul_channel_kind {
    MMUL_CHANNEL_SCATTER,
    MMUL_CHANNEL_GATHER,
    MMUL_CHANNEL_RELAY,
    MMUL_CHANNEL_SEND,
    MMUL_CHANNEL_RECEIVE,
    MMUL_CHANNEL_LOAD,
    MMUL_CHANNEL_STORE
};

// Chunks, and packets, that are under way at a time: enough for a link of 10 Gbit/s through one nap.
enum { MMUL_CHANNEL_LANES = 2, MMUL_CHANNEL_PACKETS = 4 };

// Scatter, gather: the cargo under way goes in chunks of all members.
struct mmul_lane {
    MPI_Request requests[2];
    char *data;                    // root: owned
    int *counts, *displacements;   // per member, owned
    struct mmul_trailer *trailers; // per member, owned; of others than root only its own
};
struct mmul_chunks {
    struct mmul_lane lanes[MMUL_CHANNEL_LANES];
    int64_t bytes; // of a chunk and member, at most
    int64_t count, begun, ended;
};

// Relay, send, receive: every cargo goes in packets, each passed on as soon as it is here, so a long chain delays a
// cargo by packets. Those of several may be under way.
struct mmul_packet {
    struct mmul_message receive, send;
    char *data; // where it was made, or goes to
    int64_t bytes;
    int to;        // member; -1: it ends here
    bool is_taken; // by the channel's end, when it is here:
    void *context; // that one's
    bool ends;     // its cargo ends with it ...
    int64_t mark;  // ... whose mark this is
};
struct mmul_packets {
    struct mmul_packet ring[MMUL_CHANNEL_PACKETS];
    char *data;                 // who makes or takes bytes: a packet each, owned
    int64_t begun, here, ended; // ever
    int from, to;               // members, of the cargo that was begun last
};

struct mmul_channel {
    enum mmul_channel_kind kind;
    const struct mmul_transport *transport; // borrowed
    const struct mmul_channel_end *end;     // borrowed
    int64_t buffer_bytes;
    struct mmul_cargo cargo; // the one that was begun last ...
    int64_t at;              // ... so many bytes of it are begun (relay) or through (load, store)
    int64_t arrived, left;   // marks of the last cargo that is here; that needs its memory no more
    struct mmul_chunks chunks;
    struct mmul_packets packets;
};

// Local. `end`: of channels that begin or end in files or values, and NULL elsewhere. buffer_bytes <= 1 GiB, the same
// on all members: of a chunk of all members, of a packet, of a stretch. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_channel_init(struct mmul_channel *channel, enum mmul_channel_kind kind,
                                   const struct mmul_transport *transport,
                                   const struct mmul_channel_end *end, int64_t buffer_bytes,
                                   struct mmul_error *err);
void mmul_channel_fini(struct mmul_channel *channel);

// May the next cargo begin? Local.
bool mmul_channel_is_free(const struct mmul_channel *channel);
// All members that a cargo concerns begin it, in the same order, each when it is ready. Local.
void mmul_channel_begin(struct mmul_channel *channel, const struct mmul_cargo *cargo);
// Begins and ends what it can; true when something happened. Local.
bool mmul_channel_advance(struct mmul_channel *channel);
bool mmul_channel_is_idle(const struct mmul_channel *channel);
