// SPDX-License-Identifier: MIT
// MPI_Iscatterv and MPI_Igatherv of one chunk per lane. A chunk carries at most lane_bytes in all,
// so counts and displacements in bytes fit MPI's int whatever the matrix. The trailers (checksums)
// go by a collective of their own right behind.
#include "comm/exchange.h"

#include "base/hash.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"

enum { ALIGNMENT = 64 }; // chunks never cut an element

// ------------------------------------------------------------------------------ start and end

static enum mmul_status lane_init(struct mmul_exchange *x, struct mmul_exchange_lane *lane,
                                  struct mmul_error *err) {
    int64_t size = x->team->size;
    enum mmul_status status = MMUL_ALLOCATE(lane->counts, size, "traffic", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(lane->displacements, size, "traffic", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(lane->trailers, size, "traffic", err);
    if (status == MMUL_OK && x->team->rank == 0)
        status = MMUL_ALLOCATE_RAW(lane->data, x->lane_bytes, "traffic", err);
    return status;
}

enum mmul_status mmul_exchange_init(struct mmul_exchange *exchange, const struct mmul_team *team,
                                    bool inward, struct mmul_stream_end end, int64_t lane_bytes,
                                    struct mmul_error *err) {
    *exchange = (struct mmul_exchange){.team = team,
                                       .mpi = inward ? team->gather : team->scatter,
                                       .inward = inward,
                                       .end = end,
                                       .lane_bytes = lane_bytes};
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < MMUL_EXCHANGE_LANES && status == MMUL_OK; i++)
        status = lane_init(exchange, &exchange->lanes[i], err);
    return status;
}

void mmul_exchange_fini(struct mmul_exchange *exchange) {
    for (int i = 0; i < MMUL_EXCHANGE_LANES; i++) {
        mmul_free(exchange->lanes[i].data);
        mmul_free(exchange->lanes[i].counts);
        mmul_free(exchange->lanes[i].displacements);
        mmul_free(exchange->lanes[i].trailers);
    }
    *exchange = (struct mmul_exchange){0};
}

// All members compute the same chunks.
void mmul_exchange_begin(struct mmul_exchange *exchange, struct mmul_transfer transfer) {
    const struct mmul_team *team = exchange->team;
    int64_t longest = 0;
    exchange->transfer = transfer;
    for (int member = 1; member < team->size; member++)
        longest = mmul_larger(longest, transfer.bytes[team->nodes[member]]);
    exchange->chunk_bytes = mmul_larger(
        exchange->lane_bytes / mmul_larger(team->size - 1, 1) / ALIGNMENT * ALIGNMENT, ALIGNMENT);
    exchange->chunks = (longest + exchange->chunk_bytes - 1) / exchange->chunk_bytes;
    exchange->begun = exchange->ended = 0;
}

bool mmul_exchange_is_idle(const struct mmul_exchange *exchange) {
    return exchange->ended == exchange->chunks;
}

// ---------------------------------------------------------------------------------- one chunk

static struct mmul_exchange_lane *lane_of(struct mmul_exchange *x, int64_t chunk) {
    return &x->lanes[chunk % MMUL_EXCHANGE_LANES];
}

static bool is_void(const struct mmul_exchange *x) {
    return mmul_failure_is_void(x->team->failure);
}

static void keep_mpi(struct mmul_exchange *x, int code) {
    struct mmul_error err;
    if (mmul_comm_check(code, x->inward ? "gather" : "scatter", &err) != MMUL_OK)
        mmul_failure_keep(x->team->failure, &err);
}

static int64_t chunk_begin(const struct mmul_exchange *x, int64_t chunk, int member) {
    return mmul_smaller(chunk * x->chunk_bytes, x->transfer.bytes[x->team->nodes[member]]);
}

static void lay_out(struct mmul_exchange *x, struct mmul_exchange_lane *lane, int64_t chunk) {
    int at = 0;
    for (int member = 0; member < x->team->size; member++) {
        lane->displacements[member] = at;
        lane->counts[member] =
            member == 0 ? 0
                        : (int)(chunk_begin(x, chunk + 1, member) - chunk_begin(x, chunk, member));
        at += lane->counts[member];
        lane->trailers[member] = (struct mmul_trailer){0};
    }
}

// Root fills the lane, member after member, and hashes each piece.
static void produce(struct mmul_exchange *x, struct mmul_exchange_lane *lane, int64_t chunk) {
    struct mmul_error err;
    for (int member = 1; member < x->team->size; member++) {
        char *piece = lane->data + lane->displacements[member];
        int64_t begin = chunk_begin(x, chunk, member), end = begin + lane->counts[member];
        if (begin == end)
            continue;
        if (!is_void(x) && x->end.produce(x->transfer.context, x->team->nodes[member], begin, end,
                                          piece, &err) != MMUL_OK)
            mmul_failure_keep(x->team->failure, &err);
        lane->trailers[member] =
            (struct mmul_trailer){.hash = is_void(x) ? 0 : mmul_hash(piece, (size_t)(end - begin)),
                                  .is_void = is_void(x)};
    }
}

static void begin_scatter(struct mmul_exchange *x, struct mmul_exchange_lane *lane, char *mine) {
    bool root = x->team->rank == 0;
    const int each = (int)sizeof(struct mmul_trailer);
    int code = MPI_Iscatterv(lane->data, lane->counts, lane->displacements, MPI_BYTE,
                             root ? MPI_IN_PLACE : mine, lane->counts[x->team->rank], MPI_BYTE, 0,
                             x->mpi, &lane->requests[0]);
    keep_mpi(x, code);
    code =
        MPI_Iscatter(lane->trailers, each, MPI_BYTE, root ? MPI_IN_PLACE : (void *)&lane->trailer,
                     each, MPI_BYTE, 0, x->mpi, &lane->requests[1]);
    keep_mpi(x, code);
}

static void begin_gather(struct mmul_exchange *x, struct mmul_exchange_lane *lane, char *mine) {
    bool root = x->team->rank == 0;
    const int each = (int)sizeof(struct mmul_trailer);
    int count = lane->counts[x->team->rank];
    lane->trailer = (struct mmul_trailer){
        .hash = root || is_void(x) || count == 0 ? 0 : mmul_hash(mine, (size_t)count),
        .is_void = is_void(x)};
    int code = MPI_Igatherv(root ? MPI_IN_PLACE : mine, count, MPI_BYTE, lane->data, lane->counts,
                            lane->displacements, MPI_BYTE, 0, x->mpi, &lane->requests[0]);
    keep_mpi(x, code);
    code = MPI_Igather(root ? MPI_IN_PLACE : (void *)&lane->trailer, each, MPI_BYTE, lane->trailers,
                       each, MPI_BYTE, 0, x->mpi, &lane->requests[1]);
    keep_mpi(x, code);
}

static void begin_chunk(struct mmul_exchange *x) {
    struct mmul_exchange_lane *lane = lane_of(x, x->begun);
    bool root = x->team->rank == 0;
    char *mine = root || x->transfer.mine == NULL
                     ? NULL
                     : x->transfer.mine + chunk_begin(x, x->begun, x->team->rank);
    lane->requests[0] = lane->requests[1] = MPI_REQUEST_NULL;
    lay_out(x, lane, x->begun);
    if (root && !x->inward)
        produce(x, lane, x->begun);
    if (x->inward)
        begin_gather(x, lane, mine);
    else
        begin_scatter(x, lane, mine);
    x->begun++;
}

// A member got a piece: is it what root sent?
static void check_piece(struct mmul_exchange *x, const struct mmul_exchange_lane *lane,
                        int64_t chunk) {
    struct mmul_error err;
    int count = lane->counts[x->team->rank];
    if (count == 0)
        return;
    if (lane->trailer.is_void != 0)
        mmul_failure_void(x->team->failure);
    if (is_void(x))
        return;
    const char *mine = x->transfer.mine + chunk_begin(x, chunk, x->team->rank);
    if (mmul_hash(mine, (size_t)count) == lane->trailer.hash)
        return;
    mmul_fail_changed(0, x->team->nodes[x->team->rank], &err);
    mmul_failure_keep(x->team->failure, &err);
}

// Root checks each piece of a chunk and hands it to the sink.
static void consume(struct mmul_exchange *x, const struct mmul_exchange_lane *lane, int64_t chunk) {
    struct mmul_error err;
    for (int member = 1; member < x->team->size; member++) {
        const char *piece = lane->data + lane->displacements[member];
        int64_t begin = chunk_begin(x, chunk, member), end = begin + lane->counts[member];
        int node = x->team->nodes[member];
        if (begin == end)
            continue;
        if (lane->trailers[member].is_void != 0)
            mmul_failure_void(x->team->failure);
        if (is_void(x))
            continue;
        enum mmul_status status =
            mmul_hash(piece, (size_t)(end - begin)) != lane->trailers[member].hash
                ? mmul_fail_changed(node, 0, &err)
                : x->end.consume(x->transfer.context, node, begin, end, piece, &err);
        if (status != MMUL_OK)
            mmul_failure_keep(x->team->failure, &err);
    }
}

static void end_chunk(struct mmul_exchange *x) {
    const struct mmul_exchange_lane *lane = lane_of(x, x->ended);
    bool root = x->team->rank == 0;
    if (root && x->inward)
        consume(x, lane, x->ended);
    if (!root && !x->inward)
        check_piece(x, lane, x->ended);
    x->ended++;
}

bool mmul_exchange_advance(struct mmul_exchange *exchange) {
    struct mmul_exchange *x = exchange;
    bool happened = false;
    if (x->begun < x->chunks && x->begun - x->ended < MMUL_EXCHANGE_LANES) {
        begin_chunk(x);
        happened = true;
    }
    if (x->ended == x->begun)
        return happened;
    int over = 1;
    int code = MPI_Testall(2, lane_of(x, x->ended)->requests, &over, MPI_STATUSES_IGNORE);
    keep_mpi(x, code);
    if (!over && code == MPI_SUCCESS)
        return happened;
    end_chunk(x);
    return true;
}
