// SPDX-License-Identifier: MIT
// Relay: a ring of packets with three counters. A packet is begun (made here, or awaited), is here,
// and has ended when it was passed on.
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "comm/channel.h"

static const int TAG = 0;

enum mmul_status mmul_relay_init(struct mmul_channel *channel, struct mmul_error *err) {
    if (channel->end == NULL)
        return MMUL_OK;
    return MMUL_ALLOCATE_RAW(channel->packets.data, MMUL_CHANNEL_PACKETS * channel->buffer_bytes,
                             "traffic", err);
}

void mmul_relay_fini(struct mmul_channel *channel) {
    if (channel->packets.data != NULL && mmul_alarm_is_raised(channel->transport->members.alarm))
        mmul_abandon(channel->packets.data); // MPI may still read it
    else
        mmul_free(channel->packets.data);
}

static struct mmul_packet *packet_of(struct mmul_channel *channel, int64_t packet) {
    return &channel->packets.ring[packet % MMUL_CHANNEL_PACKETS];
}

void mmul_relay_begin(struct mmul_channel *channel) {
    channel->packets.from = mmul_transport_member(channel->transport, channel->cargo.from);
    channel->packets.to = mmul_transport_member(channel->transport, channel->cargo.to);
}

// Bytes [at, end) of a cargo that begins here.
static char *make_packet(struct mmul_channel *channel, int64_t end) {
    const struct mmul_cargo *cargo = &channel->cargo;
    struct mmul_failure *failure = channel->transport->failure;
    struct mmul_error err;
    if (cargo->memory != NULL)
        return cargo->memory + channel->at;
    char *data = channel->packets.data +
                 channel->packets.begun % MMUL_CHANNEL_PACKETS * channel->buffer_bytes;
    if (!mmul_failure_is_void(failure) &&
        channel->end->produce(cargo->context, -1, channel->at, end, data, &err) != MMUL_OK)
        mmul_failure_keep(failure, &err);
    return data;
}

static void begin_packet(struct mmul_channel *channel) {
    const struct mmul_peers *peers = &channel->transport->members;
    struct mmul_packet *p = packet_of(channel, channel->packets.begun);
    int64_t end = mmul_smaller(channel->at + channel->buffer_bytes, channel->cargo.bytes);
    *p = (struct mmul_packet){.to = channel->packets.to,
                              .bytes = end - channel->at,
                              .ends = end == channel->cargo.bytes,
                              .mark = channel->cargo.mark};
    bool made = channel->packets.from < 0;
    p->data = made ? make_packet(channel, end) : channel->cargo.memory + channel->at;
    if (!made)
        mmul_message_receive(peers, channel->packets.from, TAG, p->data, p->bytes, &p->receive);
    channel->packets.begun++;
    channel->at = end;
}

// The oldest packet that is still coming: when it is here, it is passed on. What is made here waits for its
// turn, too: the next member expects all packets in one order, whoever they are from.
static bool pass_on(struct mmul_channel *channel) {
    const struct mmul_peers *peers = &channel->transport->members;
    struct mmul_packet *p = packet_of(channel, channel->packets.here);
    if (!mmul_message_is_over(peers, &p->receive))
        return false;
    channel->packets.here++;
    if (p->ends)
        channel->arrived = p->mark;
    if (p->to >= 0)
        mmul_message_send(peers, p->to, TAG, p->data, p->bytes, &p->send);
    return true;
}

static bool end_packet(struct mmul_channel *channel) {
    struct mmul_packet *p = packet_of(channel, channel->packets.ended);
    if (!mmul_message_is_over(&channel->transport->members, &p->send))
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
