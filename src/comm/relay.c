// SPDX-License-Identifier: MIT
// Relay, and its two ends as channels of their own: a ring of packets with three counters. A packet is begun (made
// here, or awaited), is here, and has ended when it was passed on.
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "comm/channel.h"

enum { TAG_RELAY = 0, TAG_SEND = 64 };

// Panels go between members, all else between any leaders.
static const struct mmul_peers *peers_of(const struct mmul_channel *channel) {
    return channel->kind == MMUL_CHANNEL_RELAY ? &channel->transport->members
                                               : &channel->transport->talk;
}

static int tag_of(const struct mmul_channel *channel) {
    return channel->kind == MMUL_CHANNEL_RELAY ? TAG_RELAY : TAG_SEND;
}

// The peer that leads a node; -1: none.
static int leader_of(const struct mmul_channel *channel, int node) {
    int rank = 0;
    if (channel->kind == MMUL_CHANNEL_RELAY)
        return mmul_transport_member(channel->transport, node);
    while (node >= 0 && channel->transport->talk.nodes[rank] != node)
        rank++;
    return node >= 0 ? rank : -1;
}

enum mmul_status mmul_relay_init(struct mmul_channel *channel, struct mmul_error *err) {
    if (channel->end == NULL)
        return MMUL_OK;
    return MMUL_ALLOCATE_RAW(channel->packets.data, MMUL_CHANNEL_PACKETS * channel->buffer_bytes,
                             "traffic", err);
}

void mmul_relay_fini(struct mmul_channel *channel) {
    if (channel->packets.data != NULL && mmul_alarm_is_raised(peers_of(channel)->alarm))
        mmul_abandon(channel->packets.data); // MPI may still read it
    else
        mmul_free(channel->packets.data);
}

static struct mmul_packet *packet_of(struct mmul_channel *channel, int64_t packet) {
    return &channel->packets.ring[packet % MMUL_CHANNEL_PACKETS];
}

void mmul_relay_begin(struct mmul_channel *channel) {
    channel->packets.from = leader_of(channel, channel->cargo.from);
    channel->packets.to = leader_of(channel, channel->cargo.to);
}

static char *buffer_of(struct mmul_channel *channel) {
    return channel->packets.data +
           channel->packets.begun % MMUL_CHANNEL_PACKETS * channel->buffer_bytes;
}

// Bytes [at, end) of a cargo that begins here.
static char *make_packet(struct mmul_channel *channel, int64_t end) {
    const struct mmul_cargo *cargo = &channel->cargo;
    struct mmul_failure *failure = channel->transport->failure;
    struct mmul_error err;
    if (cargo->memory != NULL)
        return cargo->memory + channel->at;
    char *data = buffer_of(channel);
    if (!mmul_failure_is_void(failure) &&
        channel->end->produce(cargo->context, -1, channel->at, end, data, &err) != MMUL_OK)
        mmul_failure_keep(failure, &err);
    return data;
}

static void begin_packet(struct mmul_channel *channel) {
    const struct mmul_peers *peers = peers_of(channel);
    struct mmul_packet *p = packet_of(channel, channel->packets.begun);
    int64_t end = mmul_smaller(channel->at + channel->buffer_bytes, channel->cargo.bytes);
    *p = (struct mmul_packet){.to = channel->packets.to,
                              .bytes = end - channel->at,
                              .context = channel->cargo.context,
                              .ends = end == channel->cargo.bytes,
                              .mark = channel->cargo.mark};
    bool made = channel->packets.from < 0;
    p->is_taken = !made && channel->cargo.memory == NULL;
    p->data = made          ? make_packet(channel, end)
              : p->is_taken ? buffer_of(channel)
                            : channel->cargo.memory + channel->at;
    if (!made)
        mmul_message_receive(peers, channel->packets.from, tag_of(channel), p->data, p->bytes,
                             &p->receive);
    channel->packets.begun++;
    channel->at = end;
}

// The oldest packet that is still coming: when it is here, it is passed on. What is made here waits for its
// turn, too: the next member expects all packets in one order, whoever they are from.
static bool pass_on(struct mmul_channel *channel) {
    const struct mmul_peers *peers = peers_of(channel);
    struct mmul_failure *failure = channel->transport->failure;
    struct mmul_packet *p = packet_of(channel, channel->packets.here);
    struct mmul_error err;
    if (!mmul_message_is_over(peers, &p->receive))
        return false;
    if (p->is_taken && !mmul_failure_is_void(failure) &&
        channel->end->consume(p->context, -1, 0, p->bytes, p->data, &err) != MMUL_OK)
        mmul_failure_keep(failure, &err);
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

bool mmul_relay_advance(struct mmul_channel *channel) {
    const struct mmul_packets *packets = &channel->packets;
    bool moved = false;
    if (channel->at < channel->cargo.bytes &&
        packets->begun - packets->ended < MMUL_CHANNEL_PACKETS) {
        begin_packet(channel);
        moved = true;
    }
    if (packets->here < packets->begun)
        moved |= pass_on(channel);
    if (packets->ended < packets->here)
        moved |= end_packet(channel);
    return moved;
}
