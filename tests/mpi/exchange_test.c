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
static int rank_node[16];
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
    MPI_Comm_set_errhandler(world.world, MPI_ERRORS_RETURN);
    world.leaders = world.world;
    MPI_Comm_rank(world.world, &world.rank);
    MPI_Comm_size(world.world, &world.size);
    world.node_index = world.rank;
    world.node_count = world.size;
    for (int rank = 0; rank < world.size; rank++)
        rank_node[rank] = rank;
    world.rank_node = rank_node;
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
    struct mmul_failure failure = {0};
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
    tap_ok(mmul_team_create(&world, works, &failure, &team, &err) == MMUL_OK, "team");
    bool member = mmul_team_is_member(&team), root = world.rank == 0, all = true;
    if (member) {
        mmul_exchange_init(&scatter, &team, false, stream_end, LANE, &err);
        mmul_exchange_init(&gather, &team, true, stream_end, LANE, &err);
        run_transfers(&scatter, bytes, mine);
        if (fails && team.size > 1)
            all = mmul_failure_is_void(&failure) &&
                  failure.err.status == (root ? MMUL_ERR_NO_INPUT : MMUL_OK);
        else
            all = !mmul_failure_is_void(&failure) &&
                  (root || holds_stream(mine, world.rank, bytes[world.rank]));
    }
    snprintf(what, sizeof what, "scatter, %s", name);
    tap_ok(all, what);
    for (int64_t at = 0; at < bytes[world.rank]; at++)
        mine[at] = byte_at(world.rank, at);
    failure = (struct mmul_failure){0};
    if (member)
        run_transfers(&gather, bytes, mine);
    all = failure.err.status == (root && fails && team.size > 1 ? MMUL_ERR_IO : MMUL_OK);
    for (int node = 1; root && fail_from < 0 && node < world.size; node++)
        all = all && holds_stream(received + node * LONGEST, node, bytes[node]);
    snprintf(what, sizeof what, "gather, %s", name);
    tap_ok(all, what);
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
    struct mmul_failure failure = {0};
    struct mmul_error err;
    int64_t bytes[16];
    bool works[16];
    unsigned char mine[LONGEST] = {0};
    for (int node = 0; node < world.size; node++) {
        bytes[node] = LONGEST;
        works[node] = true;
    }
    fail_at = -1;
    mmul_team_create(&world, works, &failure, &team, &err);
    mmul_exchange_init(&gather, &team, true, stream_end, LANE, &err);
    if (world.rank == world.size - 1 && world.rank > 0)
        mmul_failure_void(&failure);
    run_transfers(&gather, bytes, mine);
    tap_ok(world.rank > 0 || mmul_failure_is_void(&failure) == (world.size > 1),
           "a member gives up");
    tap_ok(failure.err.status == MMUL_OK, "which is no error of root's");
    mmul_exchange_fini(&gather);
    mmul_team_destroy(&team);
}

static void wait_message(const struct mmul_channel *channel, struct mmul_message *message) {
    while (!mmul_message_is_over(channel, message))
        ;
}

static void wait_words(const struct mmul_channel *channel, struct mmul_words *words) {
    while (!mmul_words_is_over(channel, words))
        ;
}

// From rank to rank to the last one; `failed_at` says that its bytes mean nothing.
static void test_chain(int failed_at) {
    struct mmul_message in = {0}, out = {0};
    struct mmul_failure failure = {0};
    const struct mmul_channel channel = {world.world, &failure, world.rank_node, world.rank};
    unsigned char bytes[LONGEST] = {0};
    for (int64_t at = 0; world.rank == 0 && at < LONGEST; at++)
        bytes[at] = byte_at(0, at);
    if (world.rank > 0) {
        mmul_message_receive(&channel, world.rank - 1, 0, bytes, LONGEST, &in);
        wait_message(&channel, &in);
    }
    bool heard = mmul_failure_is_void(&failure),
         expected = failed_at >= 0 && world.rank > failed_at;
    if (world.rank == failed_at)
        mmul_failure_void(&failure);
    if (world.rank + 1 < world.size) {
        mmul_message_send(&channel, world.rank + 1, 0, bytes, LONGEST, &out);
        wait_message(&channel, &out);
    }
    tap_ok(failure.err.status == MMUL_OK && heard == expected &&
               (heard || holds_stream(bytes, 0, LONGEST)),
           failed_at < 0 ? "along the chain" : "failed in the chain");
}

// Everybody has a word for root, who answers each; then nobody speaks any more.
static void test_words(void) {
    struct mmul_words in = {0}, out = {0};
    struct mmul_failure failure = {0};
    const struct mmul_channel channel = {world.world, &failure, world.rank_node, world.rank};
    bool good = true;
    if (world.rank > 0) {
        out.values[0] = world.rank;
        mmul_words_receive(&channel, 0, 6, &in);
        mmul_words_send(&channel, 0, 5, &out);
        wait_words(&channel, &in);
        good = in.values[MMUL_WORDS - 1] == 100 + world.rank;
    }
    for (int i = 1; world.rank == 0 && i < world.size; i++) {
        mmul_words_receive(&channel, MMUL_ANYBODY, 5, &in);
        wait_words(&channel, &in);
        good = good && in.peer == in.values[0];
        wait_words(&channel, &out);
        out.values[MMUL_WORDS - 1] = 100 + in.peer;
        mmul_words_send(&channel, in.peer, 6, &out);
    }
    wait_words(&channel, &out);
    tap_ok(good && failure.err.status == MMUL_OK, "words from anybody are answered");
    mmul_words_receive(&channel, MMUL_ANYBODY, 5, &in);
    mmul_words_forget(&in);
    tap_ok(mmul_words_is_over(&channel, &in), "and no more are waited for");
}

// Words to a rank that does not exist: the one who said them fails, and nobody else.
static void test_impossible_message(void) {
    struct mmul_words words = {0};
    struct mmul_message message = {0};
    struct mmul_failure failure = {0};
    const struct mmul_channel channel = {world.world, &failure, world.rank_node, world.rank};
    mmul_words_send(&channel, world.size, 5, &words);
    tap_ok(mmul_words_is_over(&channel, &words) && mmul_failure_is_void(&failure) &&
               strncmp(failure.err.text, "MPI send failed: ", 17) == 0,
           "MPI's own errors are kept");
    mmul_message_receive(&channel, world.size, 5, &words, sizeof words, &message);
    tap_ok(mmul_message_is_over(&channel, &message) &&
               strncmp(failure.err.text, "MPI send failed: ", 17) == 0,
           "the first of them");
    const struct mmul_channel silent = {world.world, NULL, world.rank_node, world.rank};
    mmul_words_send(&silent, world.size, 5, &words);
    tap_ok(mmul_words_is_over(&silent, &words) && words.failed,
           "where nobody minds they are silence");
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
    test_words();
    test_impossible_message();
    test_agreement();
    MPI_Comm_free(&world.world);
    int status = tap_end();
    MPI_Finalize();
    return status;
}
