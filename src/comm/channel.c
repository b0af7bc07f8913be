// SPDX-License-Identifier: MIT
// Scatter and gather: MPI_Iscatterv and MPI_Igatherv of one chunk per lane. A chunk carries at most
// buffer_bytes in all, so counts and displacements in bytes fit MPI's int for any matrix. The
// trailers (checksums) travel in a second collective. Root's own bytes do not use the channel.
// Relay, send, receive: a ring of packets with three counters. A packet is begun (produced here, or
// expected), then here (arrived), then ended (forwarded).
// Load and store involve no other member.
#include "comm/channel.h"

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"

static bool is_void(const struct mmul_channel *x) {
    return mmul_failure_is_void(x->transport->failure);
}

// Calls the channel's end to produce, or consume, bytes [begin, end), unless traffic is void.
static void produce_bytes(const struct mmul_channel *x, int node, int64_t begin, int64_t end,
                          void *to) {
    struct mmul_error err;
    if (!is_void(x) && x->end->produce(x->cargo.context, node, begin, end, to, &err) != MMUL_OK)
        mmul_failure_keep(x->transport->failure, &err);
}

static void consume_bytes(const struct mmul_channel *x, void *context, int node, int64_t begin,
                          int64_t end, const void *from) {
    struct mmul_error err;
    if (!is_void(x) && x->end->consume(context, node, begin, end, from, &err) != MMUL_OK)
        mmul_failure_keep(x->transport->failure, &err);
}

// --------------------------------------------------------------------------- scatter and gather

enum { ALIGNMENT = 64 }; // alignment in bytes: chunks never split an element

static bool is_inward(const struct mmul_channel *x) {
    return x->kind == MMUL_CHANNEL_GATHER;
}

static enum mmul_status exchange_init(struct mmul_channel *x, struct mmul_error *err) {
    const int64_t size = x->transport->size;
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < MMUL_CHANNEL_LANES && status == MMUL_OK; i++) {
        struct mmul_lane *lane = &x->chunks.lanes[i];
        status = MMUL_ALLOCATE_ALL("traffic", err, MMUL_ARRAY(lane->counts, size),
                                   MMUL_ARRAY(lane->displacements, size),
                                   MMUL_ARRAY(lane->trailers, size));
        if (status == MMUL_OK && x->transport->rank == 0)
            status = MMUL_ALLOCATE_RAW(lane->data, x->buffer_bytes, "traffic", err);
    }
    return status;
}

// Does not free memory that MPI may still access.
static void exchange_fini(struct mmul_channel *channel) {
    bool is_broken =
        channel->transport != NULL && mmul_alarm_is_raised(channel->transport->members.alarm);
    void (*release)(void *) = is_broken ? mmul_abandon : mmul_free;
    for (int i = 0; i < MMUL_CHANNEL_LANES; i++) {
        const struct mmul_lane *lane = &channel->chunks.lanes[i];
        release(lane->data);
        release(lane->counts);
        release(lane->displacements);
        release(lane->trailers);
    }
}

// Computes the sizes of chunks, the same on all members.
static void exchange_begin(struct mmul_channel *channel) {
    const struct mmul_transport *t = channel->transport;
    int64_t longest = 0, members = mmul_max(t->size - 1, 1);
    for (int member = 1; member < t->size; member++)
        longest = mmul_max(longest, channel->cargo.node_bytes[t->members.nodes[member]]);
    channel->chunks.bytes =
        mmul_max(channel->buffer_bytes / members / ALIGNMENT * ALIGNMENT, ALIGNMENT);
    channel->chunks.count = mmul_divide_up(longest, channel->chunks.bytes);
    channel->chunks.begun = channel->chunks.ended = 0;
}

static struct mmul_lane *lane_of(struct mmul_channel *x, int64_t chunk) {
    return &x->chunks.lanes[chunk % MMUL_CHANNEL_LANES];
}

// Returns the trailer of this member.
static struct mmul_trailer *trailer_of(const struct mmul_channel *x, const struct mmul_lane *lane) {
    return &lane->trailers[x->transport->rank];
}

static int64_t chunk_begin(const struct mmul_channel *x, int64_t chunk, int member) {
    return mmul_min(chunk * x->chunks.bytes,
                    x->cargo.node_bytes[x->transport->members.nodes[member]]);
}

static void lay_out_chunk(struct mmul_channel *x, struct mmul_lane *lane, int64_t chunk) {
    int at = 0;
    for (int member = 0; member < x->transport->size; member++) {
        lane->displacements[member] = at;
        lane->counts[member] =
            member == 0 ? 0
                        : (int)(chunk_begin(x, chunk + 1, member) - chunk_begin(x, chunk, member));
        at += lane->counts[member];
        lane->trailers[member] = (struct mmul_trailer){0};
    }
}

// Root: fills the lane, member after member, and hashes each piece.
static void fill_chunk(struct mmul_channel *x, struct mmul_lane *lane, int64_t chunk) {
    for (int member = 1; member < x->transport->size; member++) {
        char *piece = lane->data + lane->displacements[member];
        int64_t begin = chunk_begin(x, chunk, member), end = begin + lane->counts[member];
        if (begin == end)
            continue;
        produce_bytes(x, x->transport->members.nodes[member], begin, end, piece);
        lane->trailers[member] = mmul_trailer_make(x->transport->failure, piece, end - begin);
    }
}

static void begin_scatter(struct mmul_channel *x, struct mmul_lane *lane, char *mine) {
    const struct mmul_transport *t = x->transport;
    bool root = t->rank == 0;
    const int each = (int)sizeof(struct mmul_trailer);
    int code = MPI_Iscatterv(lane->data, lane->counts, lane->displacements, MPI_BYTE,
                             root ? MPI_IN_PLACE : mine, lane->counts[t->rank], MPI_BYTE, 0,
                             t->outward, &lane->requests[0]);
    if (code == MPI_SUCCESS)
        code = MPI_Iscatter(lane->trailers, each, MPI_BYTE,
                            root ? MPI_IN_PLACE : (void *)trailer_of(x, lane), each, MPI_BYTE, 0,
                            t->outward, &lane->requests[1]);
    mmul_peers_check(&t->members, code, "scatter");
    for (int member = 1; root && member < t->size; member++)
        mmul_peers_count_sent(&t->members, member, lane->counts[member]);
}

static void begin_gather(struct mmul_channel *x, struct mmul_lane *lane, char *mine) {
    const struct mmul_transport *t = x->transport;
    bool root = t->rank == 0;
    const int each = (int)sizeof(struct mmul_trailer);
    int count = lane->counts[t->rank];
    if (!root && count > 0)
        *trailer_of(x, lane) = mmul_trailer_make(t->failure, mine, count);
    int code = MPI_Igatherv(root ? MPI_IN_PLACE : mine, count, MPI_BYTE, lane->data, lane->counts,
                            lane->displacements, MPI_BYTE, 0, t->inward, &lane->requests[0]);
    if (code == MPI_SUCCESS)
        code = MPI_Igather(root ? MPI_IN_PLACE : (void *)trailer_of(x, lane), each, MPI_BYTE,
                           lane->trailers, each, MPI_BYTE, 0, t->inward, &lane->requests[1]);
    mmul_peers_check(&t->members, code, "gather");
    if (!root)
        mmul_peers_count_sent(&t->members, 0, count);
}

// Begins a chunk. After an alarm chunks begin and end without MPI, and memory that MPI holds is not
// touched.
static void begin_chunk(struct mmul_channel *x) {
    struct mmul_lane *lane = lane_of(x, x->chunks.begun);
    bool root = x->transport->rank == 0;
    char *mine = root || x->cargo.memory == NULL
                     ? NULL
                     : x->cargo.memory + chunk_begin(x, x->chunks.begun, x->transport->rank);
    lane->requests[0] = lane->requests[1] = MPI_REQUEST_NULL;
    x->chunks.begun++;
    if (mmul_peers_is_broken(&x->transport->members))
        return;
    lay_out_chunk(x, lane, x->chunks.begun - 1);
    if (root && !is_inward(x))
        fill_chunk(x, lane, x->chunks.begun - 1);
    if (is_inward(x))
        begin_gather(x, lane, mine);
    else
        begin_scatter(x, lane, mine);
}

// Root: checks each piece of a chunk and passes it to the channel's end.
static void check_chunk(struct mmul_channel *x, const struct mmul_lane *lane, int64_t chunk) {
    for (int member = 1; member < x->transport->size; member++) {
        const char *piece = lane->data + lane->displacements[member];
        int64_t begin = chunk_begin(x, chunk, member), end = begin + lane->counts[member];
        int node = x->transport->members.nodes[member];
        if (begin < end && !is_void(x) &&
            mmul_trailer_matches(&x->transport->members, &lane->trailers[member], piece,
                                 end - begin, node, 0))
            consume_bytes(x, x->cargo.context, node, begin, end, piece);
    }
}

// Ends a chunk that has arrived: a member compares its piece with root's checksum.
static void end_chunk(struct mmul_channel *x, const struct mmul_lane *lane, int64_t chunk) {
    const int rank = x->transport->rank, count = lane->counts[rank];
    if (rank == 0 && is_inward(x))
        check_chunk(x, lane, chunk);
    else if (rank > 0 && !is_inward(x) && count > 0 && !is_void(x))
        mmul_trailer_matches(&x->transport->members, trailer_of(x, lane),
                             x->cargo.memory + chunk_begin(x, chunk, rank), count, 0,
                             x->transport->members.nodes[rank]);
}

static bool exchange_advance(struct mmul_channel *x) {
    bool happened = false;
    if (x->chunks.begun < x->chunks.count &&
        x->chunks.begun - x->chunks.ended < MMUL_CHANNEL_LANES) {
        begin_chunk(x);
        happened = true;
    }
    if (x->chunks.ended == x->chunks.begun)
        return happened;
    const struct mmul_peers *members = &x->transport->members;
    int over = 0;
    struct mmul_lane *lane = lane_of(x, x->chunks.ended);
    int code = MPI_Testall(2, lane->requests, &over, MPI_STATUSES_IGNORE);
    mmul_peers_check(members, code, is_inward(x) ? "gather" : "scatter");
    if (!over && !mmul_peers_is_broken(members))
        return happened;
    end_chunk(x, lane, x->chunks.ended);
    if (++x->chunks.ended == x->chunks.count)
        x->arrived = x->left = x->cargo.mark;
    return true;
}

// ------------------------------------------------------------------------- relay, send, receive

enum { TAG_RELAY = 0, TAG_SEND = 64 };

// Returns the members for panels, and all leaders for other cargoes.
static const struct mmul_peers *peers_of(const struct mmul_channel *channel) {
    return channel->kind == MMUL_CHANNEL_RELAY ? &channel->transport->members
                                               : &channel->transport->talk;
}

static int tag_of(const struct mmul_channel *channel) {
    return channel->kind == MMUL_CHANNEL_RELAY ? TAG_RELAY : TAG_SEND;
}

// Returns the peer that leads a node, or -1.
static int leader_of(const struct mmul_channel *channel, int node) {
    int rank = 0;
    if (channel->kind == MMUL_CHANNEL_RELAY)
        return mmul_transport_member(channel->transport, node);
    while (node >= 0 && channel->transport->talk.nodes[rank] != node)
        rank++;
    return node >= 0 ? rank : -1;
}

static void relay_fini(struct mmul_channel *channel) {
    if (channel->packets.data != NULL && mmul_alarm_is_raised(peers_of(channel)->alarm))
        mmul_abandon(channel->packets.data); // MPI may still read it
    else
        mmul_free(channel->packets.data);
}

static struct mmul_packet *packet_of(struct mmul_channel *channel, int64_t packet) {
    return &channel->packets.ring[packet % MMUL_CHANNEL_PACKETS];
}

static void begin_packet(struct mmul_channel *channel) {
    const struct mmul_cargo *cargo = &channel->cargo;
    struct mmul_packets *packets = &channel->packets;
    struct mmul_packet *p = packet_of(channel, packets->begun);
    char *buffer = packets->data + packets->begun % MMUL_CHANNEL_PACKETS * channel->buffer_bytes;
    const int64_t begin = channel->at, end = mmul_min(begin + channel->buffer_bytes, cargo->bytes);
    const bool made = packets->from < 0;
    *p = (struct mmul_packet){.data = cargo->memory != NULL ? cargo->memory + begin : buffer,
                              .to = packets->to,
                              .bytes = end - begin,
                              .is_taken = !made && cargo->memory == NULL,
                              .context = cargo->context,
                              .ends = end == cargo->bytes,
                              .mark = cargo->mark};
    if (made && cargo->memory == NULL)
        produce_bytes(channel, -1, begin, end, p->data);
    if (!made)
        mmul_message_receive(peers_of(channel), packets->from, tag_of(channel), p->data, p->bytes,
                             &p->receive);
    packets->begun++;
    channel->at = end;
}

// Forwards the oldest packet that has not arrived, once it has. Packets produced here wait for
// their turn, too: the next member expects all packets in one order, regardless of their source.
static bool forward_packet(struct mmul_channel *channel) {
    const struct mmul_peers *peers = peers_of(channel);
    struct mmul_packet *p = packet_of(channel, channel->packets.here);
    if (!mmul_message_is_over(peers, &p->receive))
        return false;
    if (p->is_taken)
        consume_bytes(channel, p->context, -1, 0, p->bytes, p->data);
    channel->packets.here++;
    if (p->ends)
        channel->arrived = p->mark;
    if (p->to >= 0)
        mmul_message_send(peers, p->to, tag_of(channel), p->data, p->bytes, &p->send);
    return true;
}

static bool end_packet(struct mmul_channel *channel) {
    struct mmul_packet *p = packet_of(channel, channel->packets.ended);
    if (!mmul_message_is_over(peers_of(channel), &p->send))
        return false;
    channel->packets.ended++;
    if (p->ends)
        channel->left = p->mark;
    return true;
}

static bool relay_advance(struct mmul_channel *channel) {
    const struct mmul_packets *packets = &channel->packets;
    bool moved = false;
    if (channel->at < channel->cargo.bytes &&
        packets->begun - packets->ended < MMUL_CHANNEL_PACKETS) {
        begin_packet(channel);
        moved = true;
    }
    if (packets->here < packets->begun)
        moved |= forward_packet(channel);
    if (packets->ended < packets->here)
        moved |= end_packet(channel);
    return moved;
}

// --------------------------------------------------------------------------------- all channels

static bool is_of_packets(const struct mmul_channel *channel) {
    return channel->kind == MMUL_CHANNEL_RELAY || channel->kind == MMUL_CHANNEL_SEND ||
           channel->kind == MMUL_CHANNEL_RECEIVE;
}

static bool is_exchange(const struct mmul_channel *channel) {
    return channel->kind == MMUL_CHANNEL_SCATTER || channel->kind == MMUL_CHANNEL_GATHER;
}

enum mmul_status mmul_channel_init(struct mmul_channel *channel, enum mmul_channel_kind kind,
                                   const struct mmul_transport *transport,
                                   const struct mmul_channel_end *end, int64_t buffer_bytes,
                                   struct mmul_error *err) {
    *channel = (struct mmul_channel){
        .kind = kind, .transport = transport, .end = end, .buffer_bytes = buffer_bytes};
    if (is_exchange(channel))
        return exchange_init(channel, err);
    if (!is_of_packets(channel) || end == NULL)
        return MMUL_OK;
    return MMUL_ALLOCATE_RAW(channel->packets.data, MMUL_CHANNEL_PACKETS * buffer_bytes, "traffic",
                             err);
}

void mmul_channel_fini(struct mmul_channel *channel) {
    exchange_fini(channel);
    relay_fini(channel);
    *channel = (struct mmul_channel){0};
}

bool mmul_channel_is_idle(const struct mmul_channel *channel) {
    if (is_exchange(channel))
        return channel->chunks.ended == channel->chunks.count;
    return channel->at == channel->cargo.bytes && channel->packets.ended == channel->packets.begun;
}

bool mmul_channel_is_free(const struct mmul_channel *channel) {
    if (!is_of_packets(channel))
        return mmul_channel_is_idle(channel);
    return channel->at == channel->cargo.bytes &&
           channel->packets.begun - channel->packets.ended < MMUL_CHANNEL_PACKETS;
}

void mmul_channel_begin(struct mmul_channel *channel, const struct mmul_cargo *cargo) {
    channel->cargo = *cargo;
    channel->at = 0;
    if (is_exchange(channel)) {
        exchange_begin(channel);
    } else if (is_of_packets(channel)) {
        channel->packets.from = leader_of(channel, cargo->from);
        channel->packets.to = leader_of(channel, cargo->to);
    }
    if (mmul_channel_is_idle(channel))
        channel->arrived = channel->left = cargo->mark; // empty cargo
}

// Load, store: transfers the next stretch, on root's own node.
static bool transfer_stretch(struct mmul_channel *channel) {
    const struct mmul_cargo *cargo = &channel->cargo;
    const int64_t begin = channel->at;
    if (begin == cargo->bytes)
        return false;
    const bool is_there = cargo->memory == NULL;
    char *memory = is_there ? NULL : cargo->memory + begin;
    channel->at = is_there ? cargo->bytes : mmul_min(begin + channel->buffer_bytes, cargo->bytes);
    if (channel->kind == MMUL_CHANNEL_LOAD)
        produce_bytes(channel, 0, begin, channel->at, memory);
    else
        consume_bytes(channel, cargo->context, 0, begin, channel->at, memory);
    if (channel->at == cargo->bytes)
        channel->arrived = channel->left = cargo->mark;
    return true;
}

bool mmul_channel_advance(struct mmul_channel *channel) {
    if (is_exchange(channel))
        return exchange_advance(channel);
    return is_of_packets(channel) ? relay_advance(channel) : transfer_stretch(channel);
}
