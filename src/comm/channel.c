// SPDX-License-Identifier: MIT
// Which part a channel's kind is done by; load and store, which need no other member, are done here.
#include "comm/channel.h"

#include "base/integer.h"
#include "base/status.h"

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
        return mmul_exchange_init(channel, err);
    return is_of_packets(channel) ? mmul_relay_init(channel, err) : MMUL_OK;
}

void mmul_channel_fini(struct mmul_channel *channel) {
    mmul_exchange_fini(channel);
    mmul_relay_fini(channel);
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
    if (is_exchange(channel))
        mmul_exchange_begin(channel);
    else if (is_of_packets(channel))
        mmul_relay_begin(channel);
    if (mmul_channel_is_idle(channel))
        channel->arrived = channel->left = cargo->mark; // nothing to carry
}

// Load, store: the next stretch.
static bool pass_stretch(struct mmul_channel *channel) {
    const struct mmul_cargo *cargo = &channel->cargo;
    struct mmul_failure *failure = channel->transport->failure;
    struct mmul_error err;
    if (channel->at == cargo->bytes)
        return false;
    int64_t begin = channel->at;
    int64_t end = mmul_smaller(begin + channel->buffer_bytes, cargo->bytes);
    char *memory = cargo->memory;
    enum mmul_status status = MMUL_OK;
    if (memory == NULL)
        end = cargo->bytes;
    else
        memory += begin;
    if (!mmul_failure_is_void(failure)) // of root's own node
        status = channel->kind == MMUL_CHANNEL_LOAD
                     ? channel->end->produce(cargo->context, 0, begin, end, memory, &err)
                     : channel->end->consume(cargo->context, 0, begin, end, memory, &err);
    if (status != MMUL_OK)
        mmul_failure_keep(failure, &err);
    channel->at = end;
    if (end == cargo->bytes)
        channel->arrived = channel->left = cargo->mark;
    return true;
}

bool mmul_channel_advance(struct mmul_channel *channel) {
    if (is_exchange(channel))
        return mmul_exchange_advance(channel);
    return is_of_packets(channel) ? mmul_relay_advance(channel) : pass_stretch(channel);
}
