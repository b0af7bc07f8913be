// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// Streams between leaders when every rank is a node of its own: odd sizes, tiny rounds, members
// without bytes, and sources and sinks that fail half-way (everybody must get to the end).
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/panels.h"
#include "tap.h"

enum { LONGEST = 5000, ROUND = 640 };

static struct mmul_comm world;
static unsigned char received[16 * LONGEST]; // root's sink, by node
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

static const struct mmul_stream_end stream_end = {.produce = produce, .consume = consume};

static bool holds_stream(const unsigned char *bytes, int node, int64_t count) {
    for (int64_t at = 0; at < count; at++)
        if (bytes[at] != byte_at(node, at))
            return false;
    return true;
}

// Every member's stream has another size; node 1 has none.
static void fill_sizes(int64_t *bytes) {
    for (int node = 0; node < world.size; node++)
        bytes[node] = node == 1 ? 0 : LONGEST - 991 * node % LONGEST;
}

static void make_world(void) {
    MPI_Comm_dup(MPI_COMM_WORLD, &world.world);
    world.leaders = world.world;
    MPI_Comm_rank(world.world, &world.rank);
    MPI_Comm_size(world.world, &world.size);
    world.node_index = world.rank;
    world.node_count = world.size;
}

static void test_streams(const char *name, int64_t fail_from) {
    struct mmul_team team;
    struct mmul_error err = {.status = MMUL_OK};
    int64_t bytes[16];
    bool works[16];
    unsigned char mine[LONGEST] = {0}, round[ROUND];
    char what[96];
    fill_sizes(bytes);
    for (int node = 0; node < world.size; node++)
        works[node] = bytes[node] > 0;
    fail_at = fail_from;
    memset(received, 0, sizeof received);
    tap_ok(mmul_team_create(&world, works, &team, &err) == MMUL_OK, "team");
    bool member = team.mpi != MPI_COMM_NULL;
    struct mmul_stream_args args = {.team = &team,
                                    .bytes = bytes,
                                    .mine = mine,
                                    .end = &stream_end,
                                    .round = round,
                                    .round_bytes = ROUND};
    enum mmul_status status = mmul_panels_scatter(&args, &err);
    bool failed = fail_from >= 0 && world.rank == 0;
    snprintf(what, sizeof what, "scatter, %s", name);
    tap_ok(failed ? status == MMUL_ERR_NO_INPUT
                  : status == MMUL_OK &&
                        (fail_from >= 0 || holds_stream(mine, world.rank, bytes[world.rank])),
           what);
    for (int64_t at = 0; at < bytes[world.rank]; at++)
        mine[at] = byte_at(world.rank, at);
    status = mmul_panels_gather(&args, &err);
    bool all = true;
    for (int node = 0; world.rank == 0 && fail_from < 0 && node < world.size; node++)
        all = all && holds_stream(received + node * LONGEST, node, bytes[node]);
    snprintf(what, sizeof what, "gather, %s", name);
    tap_ok(failed ? status == MMUL_ERR_IO : status == MMUL_OK && all, what);
    bytes[0] = LONGEST;
    memset(mine, 0, sizeof mine);
    status = mmul_panels_broadcast(&args, &err);
    snprintf(what, sizeof what, "broadcast, %s", name);
    tap_ok(failed ? status == MMUL_ERR_NO_INPUT
                  : status == MMUL_OK &&
                        (!member || fail_from >= 0 || holds_stream(mine, -1, LONGEST)),
           what);
    mmul_team_destroy(&team);
}

static void test_root_that_only_passes_on(void) {
    struct mmul_team team;
    struct mmul_error err;
    int64_t bytes[16] = {LONGEST};
    bool works[16];
    unsigned char mine[LONGEST] = {0}, round[ROUND];
    for (int node = 0; node < world.size; node++)
        works[node] = node > 0;
    fail_at = -1;
    mmul_team_create(&world, works, &team, &err);
    struct mmul_stream_args args = {.team = &team,
                                    .bytes = bytes,
                                    .mine = world.rank == 0 ? NULL : mine,
                                    .end = &stream_end,
                                    .round = round,
                                    .round_bytes = ROUND};
    enum mmul_status status = mmul_panels_broadcast(&args, &err);
    tap_ok(status == MMUL_OK && (world.rank == 0 || holds_stream(mine, -1, LONGEST)),
           "broadcast past a root that keeps nothing");
    mmul_team_destroy(&team);
}

// The lowest failing rank's words become everybody's.
static void test_agreement(void) {
    struct mmul_error err = {.status = MMUL_OK};
    tap_ok(mmul_agree(MPI_COMM_WORLD, &err) == MMUL_OK, "nobody failed");
    for (int first = 0; first < world.size; first++) {
        char expected[32];
        err.status = MMUL_OK;
        if (world.rank >= first)
            mmul_fail(&err, MMUL_ERR_DATA, "rank %d failed", world.rank);
        snprintf(expected, sizeof expected, "rank %d failed", first);
        tap_ok(mmul_agree(MPI_COMM_WORLD, &err) == MMUL_ERR_DATA && strcmp(err.text, expected) == 0,
               expected);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    make_world();
    test_streams("all is well", -1);
    test_streams("failing at once", 0);
    test_streams("failing half-way", LONGEST / 2);
    test_root_that_only_passes_on();
    test_agreement();
    MPI_Comm_free(&world.world);
    int status = tap_end();
    MPI_Finalize();
    return status;
}
