// SPDX-License-Identifier: MIT
// Channels between ranks that are nodes of their own. Each byte they carry is known, sizes are odd,
// and packets and chunks are tiny.
#pragma once

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/channel.h"
#include "tap.h"

enum { LONGEST = 5000, LANE = 640, CARGOES = 5 };

static struct mmul_comm world;
static int rank_node[16];
static const bool all_work[16] = {true, true, true, true, true, true, true, true};
static unsigned char received[16 * LONGEST]; // received by root's sink, by node
static int64_t fail_at; // produce and consume fail from this byte on; -1: never

static unsigned char byte_at(int node, int64_t at) {
    return (unsigned char)(node * 31 + at * 7 + 1);
}

static enum mmul_status produce(void *context, int node, int64_t begin, int64_t end, void *to,
                                struct mmul_error *err) {
    (void)context;
    for (int64_t at = begin; at < end; at++)
        ((unsigned char *)to)[at - begin] = byte_at(node, at);
    return fail_at >= 0 && end > fail_at ? mmul_fail(err, MMUL_ERR_NO_INPUT, "source failed")
                                         : MMUL_OK;
}

static enum mmul_status consume(void *context, int node, int64_t begin, int64_t end,
                                const void *from, struct mmul_error *err) {
    (void)context;
    memcpy(received + node * LONGEST + begin, from, (size_t)(end - begin));
    return fail_at >= 0 && end > fail_at ? mmul_fail(err, MMUL_ERR_IO, "sink failed") : MMUL_OK;
}

static const struct mmul_channel_end line_end = {.produce = produce, .consume = consume};

static inline bool holds_stream(const unsigned char *bytes, int node, int64_t count) {
    for (int64_t at = 0; at < count; at++)
        if (bytes[at] != byte_at(node, at))
            return false;
    return true;
}

static inline void make_world(void) {
    static struct mmul_alarm alarm;
    static bool members[16];
    static struct mmul_traffic_comms directions;
    struct mmul_error err;
    world = (struct mmul_comm){0};
    MPI_Comm_dup(MPI_COMM_WORLD, &world.world);
    MPI_Comm_set_errhandler(world.world, MPI_ERRORS_RETURN);
    world.leaders = world.world;
    MPI_Comm_rank(world.world, &world.rank);
    MPI_Comm_size(world.world, &world.size);
    world.node_index = world.rank;
    world.node_count = world.size;
    for (int rank = 0; rank < world.size; rank++)
        rank_node[rank] = rank;
    world.rank_node = rank_node;
    world.alarm = &alarm;
    directions = (struct mmul_traffic_comms){.members = members};
    world.directions = &directions;
    mmul_alarm_begin(&alarm, world.world, &err);
}

static inline void end_world(void) {
    mmul_alarm_end(world.alarm);
    if (mmul_comm_is_broken(&world))
        return;
    if (world.directions->are_created)
        mmul_traffic_comms_free(world.directions);
    MPI_Comm_free(&world.world);
}

static inline void init_transport(struct mmul_transport *t, const bool *works,
                                  struct mmul_failure *failure) {
    struct mmul_error err;
    *failure = (struct mmul_failure){0};
    tap_ok(mmul_transport_init(&world, works, failure, t, &err) == MMUL_OK,
           "the transport is set up");
}

static inline void open_channel(struct mmul_channel *line, enum mmul_channel_kind kind,
                                const struct mmul_transport *t) {
    struct mmul_error err;
    bool has_end = world.rank == 0 || (kind != MMUL_CHANNEL_SCATTER && kind != MMUL_CHANNEL_GATHER);
    mmul_channel_init(line, kind, t, has_end ? &line_end : NULL, LANE, &err);
}

static inline void finish_channel(struct mmul_channel *line) {
    while (!mmul_channel_is_idle(line))
        if (!mmul_channel_advance(line))
            sched_yield();
}

// Runs two transfers in a row, so that lanes are reused.
static inline bool run_exchange(struct mmul_channel *line, const int64_t *bytes,
                                unsigned char *mine) {
    bool good = true;
    for (int64_t i = 1; i <= 2; i++) {
        mmul_channel_begin(line, &(struct mmul_cargo){
                                     .node_bytes = bytes, .memory = (char *)mine, .mark = 10 * i});
        finish_channel(line);
        good = good && line->arrived == 10 * i && line->left == 10 * i;
    }
    return good;
}

// Relays `count` cargoes from `origin` through all ranks and checks them; every second cargo skips
// node 1. Sizes differ, and several packets are in flight. The data are in memory or produced on
// demand.
static inline bool run_relay(struct mmul_channel *line, int origin, int count, bool in_memory,
                             unsigned char *mine) {
    bool good = true;
    int place = (world.rank - origin + world.size) % world.size;
    for (int i = 0; i < count; i++) {
        int64_t bytes = 1 + (i * 1777 + 640) % LONGEST;
        int previous = -1, next = -1;
        for (int other = 0; other < world.size; other++) { // index: place in the relay
            int node = (origin + other) % world.size;
            if (node == 1 && i % 2 == 1 && node != origin)
                continue;
            if (other < place)
                previous = node;
            if (other > place && next < 0)
                next = node;
        }
        if ((world.rank == 1 && i % 2 == 1 && origin != 1) || (place == 0 && next < 0))
            continue;
        char *memory = (char *)mine + i * LONGEST;
        for (int64_t at = 0; place == 0 && at < bytes; at++)
            memory[at] = (char)byte_at(-1, at);
        while (!mmul_channel_is_free(line))
            mmul_channel_advance(line);
        mmul_channel_begin(line,
                           &(struct mmul_cargo){.bytes = bytes,
                                                .from = previous,
                                                .to = next,
                                                .memory = place == 0 && !in_memory ? NULL : memory,
                                                .mark = i + 1});
        good = good && line->arrived <= i && line->left <= line->arrived;
    }
    finish_channel(line);
    for (int i = 0; place > 0 && !mmul_failure_is_void(line->transport->failure) && i < count; i++)
        if (world.rank != 1 || i % 2 == 0 || origin == 1)
            good = good && holds_stream(mine + i * LONGEST, -1, 1 + (i * 1777 + 640) % LONGEST);
    return good && (world.size == 1 || line->arrived >= count - 1);
}
