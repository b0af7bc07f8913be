// SPDX-License-Identifier: MIT
//
// A channel carries one cargo after the other, in an order that all members know, beside other
// work:
//
//     scatter   root's bytes, to each member its own      MPI_Iscatterv, in chunks
//     gather    each member's own bytes, to root          MPI_Igatherv, in chunks
//     relay     one member's bytes, from one to the next  messages, in packets
//     send      to a node's leader                        messages, received in the same order
//     load      from the channel's end into memory        no network
//     store     from memory to the channel's end          no network
//
// The channel's end, such as root's files, produces or consumes bytes, stretch by stretch. All
// bytes that cross the network have a checksum that is computed at one end and compared at the
// other.
// Nothing here blocks. After a failure the traffic continues, because other ranks wait for it
// (comm/failure.h). After an alarm, when MPI itself has failed (comm/comm.h), cargoes begin and end
// at once on all members, and no byte moves.
//
// To add an encoding of bytes, such as compression, change these.
//
//     choice                    an option in model/job_options.h, which root sends to all ranks.
//     length of a message       message.c: the trailer must carry the length.
//     length of a chunk         channel.c: MPI needs the lengths of all members beforehand.
//     relays                    channel.c: a packet of a cargo with `memory` is sent from its final
//                               memory and received into it. An encoded packet needs a buffer.
//     rows that are stolen      exec/tasks/steals.c sends chunks as messages, beside the channels.
//     size of buffers, chunks   plan/lists/footprint.c, plan/product/schedule_memory.c.
//     predicted rate of links   link.c measures it with equal bytes; use random ones.
//                               plan/cost/cost.c uses it, and program_cost.c for moves.
//                               exec/setup/traffic_cost.c: time that traffic takes from computing.
#pragma once

#include "comm/transport.h"

// Callbacks for bytes [begin, end) that belong to `node` (of a relay: to all, node -1).
struct mmul_channel_end {
    enum mmul_status (*produce)(void *context, int node, int64_t begin, int64_t end, void *to,
                                struct mmul_error *err);
    enum mmul_status (*consume)(void *context, int node, int64_t begin, int64_t end,
                                const void *from, struct mmul_error *err);
};

struct mmul_cargo {
    int64_t bytes; // relay, load, store: size, the same on all members
    // Scatter, gather: size by node index, the same on all members; borrowed.
    const int64_t *node_bytes;
    int from, to; // relay, send, receive: source and destination node; -1: this node
    // Address of the bytes; borrowed. NULL: the channel's end produces or consumes them, at the
    // source of a relay, or of sent and received cargoes no larger than its buffer. NULL for a
    // store: they are in place. NULL for a load: the channel's end brings them into place.
    char *memory;
    void *context; // argument of the channel's end; borrowed
    int64_t mark;  // new value of `arrived` and `left`
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

// Chunks, and packets, in flight at a time: enough to keep a link of 10 Gbit/s busy through one
// sleep.
enum { MMUL_CHANNEL_LANES = 2, MMUL_CHANNEL_PACKETS = 4 };

// Scatter, gather: the current cargo travels in chunks of all members.
struct mmul_lane {
    MPI_Request requests[2];
    char *data;                  // root: owned
    int *counts, *displacements; // per member, owned
    // Per member, owned; on other ranks than root only its own is used.
    struct mmul_trailer *trailers;
};
struct mmul_chunks {
    struct mmul_lane lanes[MMUL_CHANNEL_LANES];
    int64_t bytes; // most bytes of a chunk per member
    int64_t count, begun, ended;
};

// Relay, send, receive: a cargo travels in packets. Each is forwarded as soon as it has arrived, so
// a long chain delays a cargo by packets only. Packets of several cargoes may be in flight.
struct mmul_packet {
    struct mmul_message receive, send;
    char *data; // address of the produced or received bytes
    int64_t bytes;
    int to;        // member; -1: not forwarded
    bool is_taken; // the channel's end consumes it on arrival
    void *context; // context of the channel's end
    bool ends;     // the last packet of its cargo
    int64_t mark;  // mark of that cargo
};
struct mmul_packets {
    struct mmul_packet ring[MMUL_CHANNEL_PACKETS];
    // Owned: one packet each, for bytes that the channel's end produces or consumes.
    char *data;
    int64_t begun, here, ended; // totals: begun, arrived, finished
    int from, to;               // members, of the last cargo that has begun
};

struct mmul_channel {
    enum mmul_channel_kind kind;
    const struct mmul_transport *transport; // borrowed
    const struct mmul_channel_end *end;     // borrowed
    int64_t buffer_bytes;
    struct mmul_cargo cargo; // the last cargo that has begun
    // Bytes of the cargo that have begun (relay) or are finished (load, store).
    int64_t at;
    // Mark of the last cargo that has arrived; of the last one that releases its memory.
    int64_t arrived, left;
    struct mmul_chunks chunks;
    struct mmul_packets packets;
};

// Local. `end`: the end of a channel in files or values on this member, else NULL. buffer_bytes:
// size of a chunk of all members, of a packet, of a stretch; at most 1 GiB, the same on all
// members. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_channel_init(struct mmul_channel *channel, enum mmul_channel_kind kind,
                                   const struct mmul_transport *transport,
                                   const struct mmul_channel_end *end, int64_t buffer_bytes,
                                   struct mmul_error *err);
void mmul_channel_fini(struct mmul_channel *channel);

// Returns true if the next cargo may begin. Local.
bool mmul_channel_is_free(const struct mmul_channel *channel);
// Begins a cargo. All members that take part begin their cargoes in the same order, each when it is
// ready. Local.
void mmul_channel_begin(struct mmul_channel *channel, const struct mmul_cargo *cargo);
// advance: begins and ends operations without waiting, and returns true if there were any. is_idle:
// returns true if no cargo is in flight. Local.
bool mmul_channel_advance(struct mmul_channel *channel);
bool mmul_channel_is_idle(const struct mmul_channel *channel);
