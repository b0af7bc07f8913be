// SPDX-License-Identifier: MIT
// Rounds of MPI_Scatterv, MPI_Gatherv and MPI_Bcast among node leaders. Every round carries at most
// round_bytes in all, so counts and displacements in bytes fit MPI's int whatever the matrix.
// Overlaps nothing: produce, send, produce, send.
#include "comm/panels.h"

#include <string.h>

#include "base/hash.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"

enum { ALIGNMENT = 64 }; // chunks never cut an element

static enum mmul_status team_allocate(struct mmul_team *team, struct mmul_error *err) {
    const struct {
        size_t each;
        void **memory;
    } blocks[] = {
        {sizeof *team->nodes, (void **)&team->nodes},
        {sizeof *team->counts, (void **)&team->counts},
        {sizeof *team->displacements, (void **)&team->displacements},
        {sizeof *team->hashes, (void **)&team->hashes},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        enum mmul_status status =
            mmul_allocate(team->size, blocks[i].each, "team", blocks[i].memory, err);
        if (status != MMUL_OK)
            return status;
    }
    return MMUL_OK;
}

enum mmul_status mmul_team_create(const struct mmul_comm *comm, const bool *works,
                                  struct mmul_team *team, struct mmul_error *err) {
    *team = (struct mmul_team){.mpi = MPI_COMM_NULL};
    if (comm->leaders == MPI_COMM_NULL)
        return MMUL_OK;
    bool member = comm->rank == 0 || works[comm->node_index];
    int code = MPI_Comm_split(comm->leaders, member ? 0 : MPI_UNDEFINED, comm->rank, &team->mpi);
    if (code != MPI_SUCCESS || !member)
        return mmul_comm_check(code, "communicator set-up", err);
    MPI_Comm_rank(team->mpi, &team->rank);
    MPI_Comm_size(team->mpi, &team->size);
    enum mmul_status status = team_allocate(team, err);
    int members = 0;
    for (int node = 0; status == MMUL_OK && node < comm->node_count; node++)
        if (node == 0 || works[node])
            team->nodes[members++] = node;
    return status;
}

void mmul_team_destroy(struct mmul_team *team) {
    if (team->mpi != MPI_COMM_NULL)
        MPI_Comm_free(&team->mpi);
    mmul_free(team->nodes);
    mmul_free(team->counts);
    mmul_free(team->displacements);
    mmul_free(team->hashes);
    *team = (struct mmul_team){.mpi = MPI_COMM_NULL};
}

// ------------------------------------------------------------------------------------ the rounds

// Everything one round of scatter or gather needs.
struct rounds {
    const struct mmul_stream_args *args;
    int64_t chunk, count;    // bytes per member and round; number of rounds
    enum mmul_status status; // the first failure; kept while the rounds go on
    struct mmul_error *err;
};

// Bytes of `member` in round `r`, and where they begin in its stream.
static int64_t round_begin(const struct rounds *rounds, int64_t r, int member) {
    return mmul_smaller(r * rounds->chunk, rounds->args->bytes[rounds->args->team->nodes[member]]);
}

// All members compute the same chunk and number of rounds.
static struct rounds rounds_make(const struct mmul_stream_args *args, struct mmul_error *err) {
    struct rounds rounds = {.args = args, .err = err};
    int size = args->team->size;
    int64_t remote = size > 1 ? size - 1 : 1, longest = 0;
    rounds.chunk = args->round_bytes / remote / ALIGNMENT * ALIGNMENT;
    if (rounds.chunk < ALIGNMENT)
        rounds.chunk = ALIGNMENT;
    for (int member = 1; member < size; member++) {
        int64_t bytes = args->bytes[args->team->nodes[member]];
        longest = bytes > longest ? bytes : longest;
    }
    rounds.count = (longest + rounds.chunk - 1) / rounds.chunk;
    return rounds;
}

static void keep_first(struct rounds *rounds, enum mmul_status status,
                       const struct mmul_error *err) {
    if (rounds->status != MMUL_OK || status == MMUL_OK)
        return;
    rounds->status = status;
    *rounds->err = *err;
}

// Counts and displacements of round r; member 0 (root) takes no part.
static void lay_out(struct rounds *rounds, int64_t r) {
    int64_t at = 0;
    const struct mmul_team *team = rounds->args->team;
    team->counts[0] = team->displacements[0] = 0;
    for (int member = 1; member < team->size; member++) {
        int64_t bytes = round_begin(rounds, r + 1, member) - round_begin(rounds, r, member);
        team->counts[member] = (int)bytes;
        team->displacements[member] = (int)at;
        at += bytes;
    }
}

static enum mmul_status changed(const struct mmul_stream_args *args, int member,
                                struct mmul_error *err) {
    mmul_fail(err, MMUL_ERR_SYSTEM, "bytes changed on the way between root and node %d",
              args->team->nodes[member]);
    mmul_hint(err, "checksums differ: suspect the network card or memory of that machine");
    return MMUL_ERR_SYSTEM;
}

// ------------------------------------------------------------------------------------- scatter

// Root fills the round's buffer, member after member, and hashes each piece.
static void produce_round(struct rounds *rounds, int64_t r) {
    const struct mmul_stream_args *args = rounds->args;
    struct mmul_error err;
    for (int member = 1; member < args->team->size; member++) {
        char *piece = (char *)args->round + rounds->args->team->displacements[member];
        int64_t begin = round_begin(rounds, r, member);
        int64_t end = begin + rounds->args->team->counts[member];
        if (begin == end)
            continue;
        if (rounds->status == MMUL_OK)
            keep_first(rounds,
                       args->end->produce(args->end->context, args->team->nodes[member], begin, end,
                                          piece, &err),
                       &err);
        rounds->args->team->hashes[member] = mmul_hash(piece, (size_t)(end - begin));
    }
}

static void scatter_round(struct rounds *rounds, int64_t r) {
    const struct mmul_stream_args *args = rounds->args;
    const struct mmul_team *team = args->team;
    bool root = team->rank == 0;
    char *mine = root ? MPI_IN_PLACE : (char *)args->mine + round_begin(rounds, r, team->rank);
    int bytes = rounds->args->team->counts[team->rank];
    uint64_t hash = 0;
    struct mmul_error err;
    int code =
        MPI_Scatterv(args->round, rounds->args->team->counts, rounds->args->team->displacements,
                     MPI_BYTE, mine, bytes, MPI_BYTE, 0, team->mpi);
    keep_first(rounds, mmul_comm_check(code, "scatter", &err), &err);
    code = MPI_Scatter(rounds->args->team->hashes, 1, MPI_UINT64_T,
                       root ? MPI_IN_PLACE : (void *)&hash, 1, MPI_UINT64_T, 0, team->mpi);
    keep_first(rounds, mmul_comm_check(code, "scatter", &err), &err);
    if (!root && bytes > 0 && rounds->status == MMUL_OK && mmul_hash(mine, (size_t)bytes) != hash)
        keep_first(rounds, changed(args, team->rank, &err), &err);
}

// Root's own stream, straight from the source or to the sink, in pieces so that progress can be
// told.
static void pass_own(struct rounds *rounds, bool out) {
    const struct mmul_stream_args *args = rounds->args;
    const struct mmul_stream_end *end = args->end;
    int64_t bytes = args->bytes[0];
    struct mmul_error err;
    for (int64_t at = 0; at < bytes && rounds->status == MMUL_OK; at += args->round_bytes) {
        int64_t to = mmul_smaller(at + args->round_bytes, bytes);
        char *memory = (char *)args->mine + at;
        keep_first(rounds,
                   out ? end->produce(end->context, 0, at, to, memory, &err)
                       : end->consume(end->context, 0, at, to, memory, &err),
                   &err);
    }
}

enum mmul_status mmul_panels_scatter(const struct mmul_stream_args *args, struct mmul_error *err) {
    if (args->team->mpi == MPI_COMM_NULL)
        return MMUL_OK;
    struct rounds rounds = rounds_make(args, err);
    for (int64_t r = 0; r < rounds.count; r++) {
        lay_out(&rounds, r);
        if (args->team->rank == 0)
            produce_round(&rounds, r);
        scatter_round(&rounds, r);
    }
    if (args->team->rank == 0)
        pass_own(&rounds, true);
    return rounds.status;
}

// -------------------------------------------------------------------------------------- gather

static void gather_round(struct rounds *rounds, int64_t r) {
    const struct mmul_stream_args *args = rounds->args;
    const struct mmul_team *team = args->team;
    bool root = team->rank == 0;
    char *mine = root ? MPI_IN_PLACE : (char *)args->mine + round_begin(rounds, r, team->rank);
    int bytes = rounds->args->team->counts[team->rank];
    uint64_t hash = root || bytes == 0 ? 0 : mmul_hash(mine, (size_t)bytes);
    struct mmul_error err;
    int code = MPI_Gatherv(mine, bytes, MPI_BYTE, args->round, rounds->args->team->counts,
                           rounds->args->team->displacements, MPI_BYTE, 0, team->mpi);
    keep_first(rounds, mmul_comm_check(code, "gather", &err), &err);
    code = MPI_Gather(root ? MPI_IN_PLACE : (void *)&hash, 1, MPI_UINT64_T,
                      rounds->args->team->hashes, 1, MPI_UINT64_T, 0, team->mpi);
    keep_first(rounds, mmul_comm_check(code, "gather", &err), &err);
}

// Root checks each piece of the round and hands it to the sink.
static void consume_round(struct rounds *rounds, int64_t r) {
    const struct mmul_stream_args *args = rounds->args;
    struct mmul_error err;
    for (int member = 1; member < args->team->size; member++) {
        const char *piece = (char *)args->round + rounds->args->team->displacements[member];
        int64_t begin = round_begin(rounds, r, member);
        int64_t end = begin + rounds->args->team->counts[member];
        if (begin == end || rounds->status != MMUL_OK)
            continue;
        if (mmul_hash(piece, (size_t)(end - begin)) != rounds->args->team->hashes[member])
            keep_first(rounds, changed(args, member, &err), &err);
        else
            keep_first(rounds,
                       args->end->consume(args->end->context, args->team->nodes[member], begin, end,
                                          piece, &err),
                       &err);
    }
}

enum mmul_status mmul_panels_gather(const struct mmul_stream_args *args, struct mmul_error *err) {
    if (args->team->mpi == MPI_COMM_NULL)
        return MMUL_OK;
    struct rounds rounds = rounds_make(args, err);
    if (args->team->rank == 0)
        pass_own(&rounds, false);
    for (int64_t r = 0; r < rounds.count; r++) {
        lay_out(&rounds, r);
        gather_round(&rounds, r);
        if (args->team->rank == 0)
            consume_round(&rounds, r);
    }
    return rounds.status;
}

// ----------------------------------------------------------------------------------- broadcast

static void broadcast_panel(struct rounds *rounds, int64_t begin, int64_t end, char *panel) {
    const struct mmul_stream_args *args = rounds->args;
    bool root = args->team->rank == 0;
    struct mmul_error err;
    uint64_t hash = 0;
    if (root && rounds->status == MMUL_OK)
        keep_first(rounds, args->end->produce(args->end->context, -1, begin, end, panel, &err),
                   &err);
    if (args->team->size == 1)
        return;
    if (root)
        hash = mmul_hash(panel, (size_t)(end - begin));
    int code = MPI_Bcast(panel, (int)(end - begin), MPI_BYTE, 0, args->team->mpi);
    if (code == MPI_SUCCESS)
        code = MPI_Bcast(&hash, 1, MPI_UINT64_T, 0, args->team->mpi);
    keep_first(rounds, mmul_comm_check(code, "broadcast", &err), &err);
    if (!root && rounds->status == MMUL_OK && mmul_hash(panel, (size_t)(end - begin)) != hash)
        keep_first(rounds, changed(args, args->team->rank, &err), &err);
}

enum mmul_status mmul_panels_broadcast(const struct mmul_stream_args *args,
                                       struct mmul_error *err) {
    struct rounds rounds = {.args = args, .err = err};
    if (args->team->mpi == MPI_COMM_NULL)
        return MMUL_OK;
    for (int64_t at = 0; at < args->bytes[0]; at += args->round_bytes) {
        int64_t end = mmul_smaller(at + args->round_bytes, args->bytes[0]);
        char *panel = args->mine != NULL ? (char *)args->mine + at : args->round;
        broadcast_panel(&rounds, at, end, panel);
    }
    return rounds.status;
}
