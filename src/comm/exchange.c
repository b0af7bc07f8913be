// SPDX-License-Identifier: MIT
// Scatter and gather: MPI_Iscatterv and MPI_Igatherv of one chunk per lane. A chunk carries at most
// buffer_bytes in all, so counts and displacements in bytes fit MPI's int whatever the matrix. The
// trailers (checksums) go by a collective of their own right behind. Root's own bytes never pass
// through here.
#include "base/hash.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "comm/channel.h"

enum { ALIGNMENT = 64 }; // chunks never cut an element

// ------------------------------------------------------------------------------ start and end

static bool is_inward(const struct mmul_channel *x) {
    return x->kind == MMUL_CHANNEL_GATHER;
}

static enum mmul_status lane_init(struct mmul_channel *x, struct mmul_lane *lane,
                                  struct mmul_error *err) {
    int64_t size = x->transport->size;
    enum mmul_status status = MMUL_ALLOCATE(lane->counts, size, "traffic", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(lane->displacements, size, "traffic", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(lane->trailers, size, "traffic", err);
    if (status == MMUL_OK && x->transport->rank == 0)
        status = MMUL_ALLOCATE_RAW(lane->data, x->buffer_bytes, "traffic", err);
    return status;
}

enum mmul_status mmul_exchange_init(struct mmul_channel *channel, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < MMUL_CHANNEL_LANES && status == MMUL_OK; i++)
        status = lane_init(channel, &channel->chunks.lanes[i], err);
    return status;
}

// What MPI may still read and write stays.
void mmul_exchange_fini(struct mmul_channel *channel) {
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

// All members compute the same chunks.
void mmul_exchange_begin(struct mmul_channel *channel) {
    const struct mmul_transport *t = channel->transport;
    int64_t longest = 0, members = mmul_larger(t->size - 1, 1);
    for (int member = 1; member < t->size; member++)
        longest = mmul_larger(longest, channel->cargo.node_bytes[t->members.nodes[member]]);
    channel->chunks.bytes =
        mmul_larger(channel->buffer_bytes / members / ALIGNMENT * ALIGNMENT, ALIGNMENT);
    channel->chunks.count = mmul_divide_up(longest, channel->chunks.bytes);
    channel->chunks.begun = channel->chunks.ended = 0;
}

// ---------------------------------------------------------------------------------- one chunk

static struct mmul_lane *lane_of(struct mmul_channel *x, int64_t chunk) {
    return &x->chunks.lanes[chunk % MMUL_CHANNEL_LANES];
}

static bool is_void(const struct mmul_channel *x) {
    return mmul_failure_is_void(x->transport->failure);
}

// A member's own.
static struct mmul_trailer *trailer_of(const struct mmul_channel *x, const struct mmul_lane *lane) {
    return &lane->trailers[x->transport->rank];
}

static int64_t chunk_begin(const struct mmul_channel *x, int64_t chunk, int member) {
    return mmul_smaller(chunk * x->chunks.bytes,
                        x->cargo.node_bytes[x->transport->members.nodes[member]]);
}

static void lay_out(struct mmul_channel *x, struct mmul_lane *lane, int64_t chunk) {
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

// Root fills the lane, member after member, and hashes each piece.
static void produce(struct mmul_channel *x, struct mmul_lane *lane, int64_t chunk) {
    struct mmul_error err;
    for (int member = 1; member < x->transport->size; member++) {
        char *piece = lane->data + lane->displacements[member];
        int64_t begin = chunk_begin(x, chunk, member), end = begin + lane->counts[member];
        if (begin == end)
            continue;
        if (!is_void(x) && x->end->produce(x->cargo.context, x->transport->members.nodes[member],
                                           begin, end, piece, &err) != MMUL_OK)
            mmul_failure_keep(x->transport->failure, &err);
        lane->trailers[member] =
            (struct mmul_trailer){.hash = is_void(x) ? 0 : mmul_hash(piece, (size_t)(end - begin)),
                                  .is_void = is_void(x)};
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
}

static void begin_gather(struct mmul_channel *x, struct mmul_lane *lane, char *mine) {
    const struct mmul_transport *t = x->transport;
    bool root = t->rank == 0;
    const int each = (int)sizeof(struct mmul_trailer);
    int count = lane->counts[t->rank];
    if (!root)
        *trailer_of(x, lane) = (struct mmul_trailer){
            .hash = is_void(x) || count == 0 ? 0 : mmul_hash(mine, (size_t)count),
            .is_void = is_void(x)};
    int code = MPI_Igatherv(root ? MPI_IN_PLACE : mine, count, MPI_BYTE, lane->data, lane->counts,
                            lane->displacements, MPI_BYTE, 0, t->inward, &lane->requests[0]);
    if (code == MPI_SUCCESS)
        code = MPI_Igather(root ? MPI_IN_PLACE : (void *)trailer_of(x, lane), each, MPI_BYTE,
                           lane->trailers, each, MPI_BYTE, 0, t->inward, &lane->requests[1]);
    mmul_peers_check(&t->members, code, "gather");
}

// Where an alarm was raised chunks come and go without MPI, and what it holds is left alone.
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
    lay_out(x, lane, x->chunks.begun - 1);
    if (root && !is_inward(x))
        produce(x, lane, x->chunks.begun - 1);
    if (is_inward(x))
        begin_gather(x, lane, mine);
    else
        begin_scatter(x, lane, mine);
}

// A member got a piece: is it what root sent?
static void check_piece(struct mmul_channel *x, const struct mmul_lane *lane, int64_t chunk) {
    struct mmul_error err;
    int count = lane->counts[x->transport->rank];
    if (count == 0)
        return;
    if (trailer_of(x, lane)->is_void != 0)
        mmul_failure_void(x->transport->failure);
    if (is_void(x))
        return;
    const char *mine = x->cargo.memory + chunk_begin(x, chunk, x->transport->rank);
    if (mmul_hash(mine, (size_t)count) == trailer_of(x, lane)->hash)
        return;
    mmul_fail_changed(0, x->transport->members.nodes[x->transport->rank], &err);
    mmul_failure_keep(x->transport->failure, &err);
}

// Root checks each piece of a chunk and hands it to the sink.
static void consume(struct mmul_channel *x, const struct mmul_lane *lane, int64_t chunk) {
    struct mmul_error err;
    for (int member = 1; member < x->transport->size; member++) {
        const char *piece = lane->data + lane->displacements[member];
        int64_t begin = chunk_begin(x, chunk, member), end = begin + lane->counts[member];
        int node = x->transport->members.nodes[member];
        if (begin == end)
            continue;
        if (lane->trailers[member].is_void != 0)
            mmul_failure_void(x->transport->failure);
        if (is_void(x))
            continue;
        enum mmul_status status =
            mmul_hash(piece, (size_t)(end - begin)) != lane->trailers[member].hash
                ? mmul_fail_changed(node, 0, &err)
                : x->end->consume(x->cargo.context, node, begin, end, piece, &err);
        if (status != MMUL_OK)
            mmul_failure_keep(x->transport->failure, &err);
    }
}

static void end_chunk(struct mmul_channel *x) {
    const struct mmul_lane *lane = lane_of(x, x->chunks.ended);
    bool root = x->transport->rank == 0;
    if (root && is_inward(x))
        consume(x, lane, x->chunks.ended);
    if (!root && !is_inward(x))
        check_piece(x, lane, x->chunks.ended);
    x->chunks.ended++;
}

bool mmul_exchange_advance(struct mmul_channel *channel) {
    struct mmul_channel *x = channel;
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
    int code = MPI_Testall(2, lane_of(x, x->chunks.ended)->requests, &over, MPI_STATUSES_IGNORE);
    mmul_peers_check(members, code, is_inward(x) ? "gather" : "scatter");
    if (!over && !mmul_peers_is_broken(members))
        return happened;
    end_chunk(x);
    if (x->chunks.ended == x->chunks.count)
        x->arrived = x->left = x->cargo.mark;
    return true;
}
