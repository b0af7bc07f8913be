// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// Traffic between leaders when every rank is a node of its own: odd sizes, tiny chunks, members
// without bytes, sources and sinks that fail half-way (everybody must get to the end), and messages
// along a chain.
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/exchange.h"
#include "comm/message.h"
#include "tap.h"

enum { LONGEST = 5000, LANE = 640 };

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

static void finish(struct mmul_exchange *x) {
    while (!mmul_exchange_is_idle(x))
        mmul_exchange_advance(x);
}

// Two transfers one after the other, so that lanes are used again.
static void run_transfers(struct mmul_exchange *x, const int64_t *bytes, unsigned char *mine) {
    for (int i = 0; i < 2; i++) {
        mmul_exchange_begin(x, (struct mmul_transfer){.bytes = bytes, .mine = (char *)mine});
        finish(x);
    }
}

static void test_streams(const char *name, int64_t fail_from) {
    struct mmul_team team;
    struct mmul_exchange scatter, gather;
    struct mmul_error err = {.status = MMUL_OK};
    int64_t bytes[16];
    bool works[16], fails = fail_from >= 0 && world.size > 1;
    unsigned char mine[LONGEST] = {0};
    char what[96];
    fill_sizes(bytes);
    for (int node = 0; node < world.size; node++)
        works[node] = bytes[node] > 0;
    fail_at = fail_from;
    memset(received, 0, sizeof received);
    tap_ok(mmul_team_create(&world, works, &team, &err) == MMUL_OK, "team");
    bool member = mmul_team_is_member(&team), root = world.rank == 0, all = true;
    if (member) {
        mmul_exchange_init(&scatter, &team, false, stream_end, LANE, &err);
        mmul_exchange_init(&gather, &team, true, stream_end, LANE, &err);
        run_transfers(&scatter, bytes, mine);
        if (fails && team.size > 1)
            all = root ? scatter.failed && scatter.err.status == MMUL_ERR_NO_INPUT
                       : scatter.peer_failed && !scatter.failed;
        else
            all = !scatter.failed && (root || holds_stream(mine, world.rank, bytes[world.rank]));
    }
    snprintf(what, sizeof what, "scatter, %s", name);
    tap_ok(all, what);
    for (int64_t at = 0; at < bytes[world.rank]; at++)
        mine[at] = byte_at(world.rank, at);
    if (member)
        run_transfers(&gather, bytes, mine);
    all = !member || !gather.failed || (root && gather.err.status == MMUL_ERR_IO && fails);
    for (int node = 1; root && fail_from < 0 && node < world.size; node++)
        all = all && holds_stream(received + node * LONGEST, node, bytes[node]);
    snprintf(what, sizeof what, "gather, %s", name);
    tap_ok(all && (!root || !fails || team.size == 1 || gather.failed), what);
    if (member) {
        mmul_exchange_fini(&scatter);
        mmul_exchange_fini(&gather);
    }
    mmul_team_destroy(&team);
}

// A member that gives up still takes part, and root learns that its bytes mean nothing.
static void test_cancelled_member(void) {
    struct mmul_team team;
    struct mmul_exchange gather;
    struct mmul_error err;
    int64_t bytes[16];
    bool works[16];
    unsigned char mine[LONGEST] = {0};
    for (int node = 0; node < world.size; node++) {
        bytes[node] = LONGEST;
        works[node] = true;
    }
    fail_at = -1;
    mmul_team_create(&world, works, &team, &err);
    mmul_exchange_init(&gather, &team, true, stream_end, LANE, &err);
    gather.cancelled = world.rank == world.size - 1 && world.rank > 0;
    run_transfers(&gather, bytes, mine);
    tap_ok(world.rank > 0 || gather.peer_failed == (world.size > 1), "a member gives up");
    tap_ok(!gather.failed, "which is no error of root's");
    mmul_exchange_fini(&gather);
    mmul_team_destroy(&team);
}

static bool wait_message(struct mmul_message *message, bool *failed) {
    struct mmul_error err;
    bool done = false, good = true;
    while (!done)
        good = mmul_message_test(message, &done, failed, &err) == MMUL_OK;
    return good;
}

// From rank to rank to the last one; `failed_at` says that its bytes mean nothing.
static void test_chain(int failed_at) {
    struct mmul_message in = {0}, out = {0};
    struct mmul_error err;
    unsigned char bytes[LONGEST] = {0};
    bool failed = false, ignored, good = true;
    for (int64_t at = 0; world.rank == 0 && at < LONGEST; at++)
        bytes[at] = byte_at(0, at);
    if (world.rank > 0) {
        mmul_message_receive(world.world, world.rank - 1, 0, bytes, LONGEST, &in, &err);
        good = wait_message(&in, &failed);
    }
    if (world.rank + 1 < world.size) {
        mmul_message_send(world.world, world.rank + 1, 0, bytes, LONGEST,
                          failed || world.rank == failed_at, &out, &err);
        good = wait_message(&out, &ignored) && good;
    }
    bool expected = failed_at >= 0 && world.rank > failed_at;
    tap_ok(good && failed == expected && (failed || holds_stream(bytes, 0, LONGEST)),
           failed_at < 0 ? "along the chain" : "failed in the chain");
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
    test_cancelled_member();
    test_chain(-1);
    test_chain(0);
    test_chain(1);
    test_agreement();
    MPI_Comm_free(&world.world);
    int status = tap_end();
    MPI_Finalize();
    return status;
}
