// SPDX-License-Identifier: MIT
// Relay: a ring of packets with three counters. A packet is begun (made here, or awaited), is here,
// and has ended when it was passed on.
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "comm/line.h"

static const int TAG = 0;

enum mmul_status mmul_relay_init(struct mmul_line *line, struct mmul_error *err) {
    if (line->end == NULL)
        return MMUL_OK;
    return MMUL_ALLOCATE_RAW(line->packets.data, MMUL_LINE_PACKETS * line->buffer_bytes, "traffic",
                             err);
}

void mmul_relay_fini(struct mmul_line *line) {
    if (line->packets.data != NULL && mmul_alarm_is_raised(line->transport->members.alarm))
        mmul_abandon(line->packets.data); // MPI may still read it
    else
        mmul_free(line->packets.data);
}

static struct mmul_packet *packet_of(struct mmul_line *line, int64_t packet) {
    return &line->packets.ring[packet % MMUL_LINE_PACKETS];
}

void mmul_relay_begin(struct mmul_line *line) {
    line->packets.from = mmul_transport_member(line->transport, line->cargo.from);
    line->packets.to = mmul_transport_member(line->transport, line->cargo.to);
}

// Bytes [at, end) of a cargo that begins here.
static char *make_packet(struct mmul_line *line, int64_t end) {
    const struct mmul_cargo *cargo = &line->cargo;
    struct mmul_failure *failure = line->transport->failure;
    struct mmul_error err;
    if (cargo->memory != NULL)
        return cargo->memory + line->at;
    char *data = line->packets.data + line->packets.begun % MMUL_LINE_PACKETS * line->buffer_bytes;
    if (!mmul_failure_is_void(failure) &&
        line->end->produce(cargo->context, -1, line->at, end, data, &err) != MMUL_OK)
        mmul_failure_keep(failure, &err);
    return data;
}

static void begin_packet(struct mmul_line *line) {
    const struct mmul_channel *channel = &line->transport->members;
    struct mmul_packet *p = packet_of(line, line->packets.begun);
    int64_t end = mmul_smaller(line->at + line->buffer_bytes, line->cargo.bytes);
    *p = (struct mmul_packet){.to = line->packets.to,
                              .bytes = end - line->at,
                              .ends = end == line->cargo.bytes,
                              .mark = line->cargo.mark};
    bool made = line->packets.from < 0;
    p->data = made ? make_packet(line, end) : line->cargo.memory + line->at;
    if (!made)
        mmul_message_receive(channel, line->packets.from, TAG, p->data, p->bytes, &p->receive);
    line->packets.begun++;
    line->at = end;
}

// The oldest packet that is still coming: when it is here, it is passed on. What is made here waits for its
// turn, too: the next member expects all packets in one order, whoever they are from.
static bool pass_on(struct mmul_line *line) {
    const struct mmul_channel *channel = &line->transport->members;
    struct mmul_packet *p = packet_of(line, line->packets.here);
    if (!mmul_message_is_over(channel, &p->receive))
        return false;
    line->packets.here++;
    if (p->ends)
        line->arrived = p->mark;
    if (p->to >= 0)
        mmul_message_send(channel, p->to, TAG, p->data, p->bytes, &p->send);
    return true;
}

static bool end_packet(struct mmul_line *line) {
    struct mmul_packet *p = packet_of(line, line->packets.ended);
    if (!mmul_message_is_over(&line->transport->members, &p->send))
        return false;
    line->packets.ended++;
    if (p->ends)
        line->left = p->mark;
    return true;
}

bool mmul_relay_advance(struct mmul_line *line) {
    const struct mmul_packets *packets = &line->packets;
    bool moved = false;
    if (line->at < line->cargo.bytes && packets->begun - packets->ended < MMUL_LINE_PACKETS) {
        begin_packet(line);
        moved = true;
    }
    if (packets->here < packets->begun)
        moved |= pass_on(line);
    if (packets->ended < packets->here)
        moved |= end_packet(line);
    return moved;
}
