// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// The transport with every rank as a node of its own: channels with odd sizes, tiny chunks and
// members without bytes, relays from every rank, sources and sinks that fail half-way, bytes
// corrupted in flight (all members must get to the end), and messages.
#include "channels.h"

// Simulates a bad network card: flips one bit of the first large message that is sent.
static bool tampers;

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    if (tampers && count > 100 && type == MPI_BYTE) {
        ((unsigned char *)(uintptr_t)from)[count / 3] ^= 0x10;
        tampers = false;
    }
    return PMPI_Isend(from, count, type, to, tag, comm, request);
}

int MPI_Iscatterv(const void *from, const int counts[], const int displacements[],
                  MPI_Datatype from_type, void *to, int count, MPI_Datatype to_type, int root,
                  MPI_Comm comm, MPI_Request *request) {
    if (tampers)
        ((unsigned char *)(uintptr_t)from)[displacements[1] + counts[1] / 3] ^= 0x10;
    tampers = false;
    return PMPI_Iscatterv(from, counts, displacements, from_type, to, count, to_type, root, comm,
                          request);
}

int MPI_Igatherv(const void *from, int count, MPI_Datatype from_type, void *to, const int counts[],
                 const int displacements[], MPI_Datatype to_type, int root, MPI_Comm comm,
                 MPI_Request *request) {
    if (tampers)
        ((unsigned char *)(uintptr_t)from)[count / 3] ^= 0x10;
    tampers = false;
    return PMPI_Igatherv(from, count, from_type, to, counts, displacements, to_type, root, comm,
                         request);
}

// Every member's stream has another size; node 1 has none.
static void fill_sizes(int64_t *bytes) {
    for (int node = 0; node < world.size; node++)
        bytes[node] = node == 1 ? 0 : LONGEST - 991 * node % LONGEST;
}

static bool is_member(const struct mmul_transport *t) {
    return t->outward != MPI_COMM_NULL;
}

static void test_streams(const char *name, int64_t fail_from) {
    struct mmul_transport t;
    struct mmul_channel scatter, gather;
    struct mmul_failure failure;
    int64_t bytes[16];
    bool works[16], fails = fail_from >= 0;
    unsigned char mine[LONGEST] = {0};
    char what[96];
    fill_sizes(bytes);
    for (int node = 0; node < world.size; node++)
        works[node] = bytes[node] > 0;
    fail_at = fail_from;
    memset(received, 0, sizeof received);
    init_transport(&t, works, &failure);
    bool member = is_member(&t), root = world.rank == 0, good = true;
    fails = fails && member && t.size > 1;
    if (member) {
        open_channel(&scatter, MMUL_CHANNEL_SCATTER, &t);
        open_channel(&gather, MMUL_CHANNEL_GATHER, &t);
        good = run_exchange(&scatter, bytes, mine);
    }
    good = good && mmul_failure_is_void(&failure) == fails &&
           failure.err.status == (fails && root ? MMUL_ERR_NO_INPUT : MMUL_OK);
    snprintf(what, sizeof what, "scatter %s", name);
    tap_ok(good && (root || !member || fails || holds_stream(mine, world.rank, bytes[world.rank])),
           what);
    for (int64_t at = 0; at < bytes[world.rank]; at++)
        mine[at] = byte_at(world.rank, at);
    failure = (struct mmul_failure){0};
    good = !member || run_exchange(&gather, bytes, mine);
    good = good && failure.err.status == (root && fails ? MMUL_ERR_IO : MMUL_OK);
    for (int node = 1; root && fail_from < 0 && node < world.size; node++)
        good = good && holds_stream(received + node * LONGEST, node, bytes[node]);
    snprintf(what, sizeof what, "gather %s", name);
    tap_ok(good, what);
    if (member) {
        mmul_channel_fini(&scatter);
        mmul_channel_fini(&gather);
    }
    mmul_transport_fini(&t);
}

// A member that gives up still takes part, and root learns that its bytes are void.
static void test_cancelled_member(void) {
    struct mmul_transport t;
    struct mmul_channel gather;
    struct mmul_failure failure;
    int64_t bytes[16];
    unsigned char mine[LONGEST] = {0};
    for (int node = 0; node < world.size; node++)
        bytes[node] = LONGEST;
    fail_at = -1;
    init_transport(&t, all_work, &failure);
    open_channel(&gather, MMUL_CHANNEL_GATHER, &t);
    if (world.rank == world.size - 1 && world.rank > 0)
        mmul_failure_void_traffic(&failure);
    run_exchange(&gather, bytes, mine);
    tap_ok(world.rank > 0 || mmul_failure_is_void(&failure) == (world.size > 1),
           "root learns that a member gave up");
    tap_ok(failure.err.status == MMUL_OK, "a member that gives up is no error on root");
    mmul_channel_fini(&gather);
    mmul_transport_fini(&t);
}

// Bytes are corrupted between root and node 1. The receiver detects it and reports both nodes; the
// others get to the end.
static void test_tampered_exchange(enum mmul_channel_kind kind) {
    struct mmul_transport t;
    struct mmul_channel line;
    struct mmul_failure failure;
    int64_t bytes[16];
    unsigned char mine[LONGEST] = {0};
    const char *changed = "bytes changed in transit between root and node 1";
    bool outward = kind == MMUL_CHANNEL_SCATTER;
    for (int node = 0; node < world.size; node++)
        bytes[node] = LONGEST;
    fail_at = -1;
    init_transport(&t, all_work, &failure);
    open_channel(&line, kind, &t);
    tampers = world.size > 1 && world.rank == (outward ? 0 : 1);
    run_exchange(&line, bytes, mine);
    tampers = false;
    bool finds = world.size > 1 && world.rank == (outward ? 1 : 0);
    tap_ok(finds ? strcmp(failure.err.text, changed) == 0 && failure.err.status == MMUL_ERR_SYSTEM
                 : failure.err.status == MMUL_OK,
           outward ? "corrupted scattered bytes are found" : "corrupted gathered bytes are found");
    mmul_channel_fini(&line);
    mmul_transport_fini(&t);
}

// ------------------------------------------------------------------------------------------ relays

enum relay_case { RELAY_WHOLE, RELAY_MADE, RELAY_FAILING, RELAY_CANCELLED, RELAY_TAMPERED };

static void test_relay(int origin, enum relay_case which) {
    static const char *const names[] = {"from memory", "produced on demand", "its source fails",
                                        "one member gives up", "corrupted in flight"};
    static unsigned char mine[CARGOES * LONGEST];
    struct mmul_transport t;
    struct mmul_channel relay;
    struct mmul_failure failure;
    const char *changed = "bytes changed in transit between ";
    char what[96];
    int place = (world.rank - origin + world.size) % world.size;
    init_transport(&t, all_work, &failure);
    open_channel(&relay, MMUL_CHANNEL_RELAY, &t);
    memset(mine, 0, sizeof mine);
    fail_at = which == RELAY_FAILING ? 700 : -1;
    if (which == RELAY_CANCELLED && place == 0)
        mmul_failure_void_traffic(&failure);
    tampers = which == RELAY_TAMPERED && place == 0;
    bool good =
        run_relay(&relay, origin, CARGOES, which != RELAY_FAILING && which != RELAY_MADE, mine);
    tampers = false;
    // The first receiver detects the corruption and tells the next member.
    if (which == RELAY_TAMPERED && world.size > 1) {
        good = good && mmul_failure_is_void(&failure) == (place > 0);
        good = good && (place != 1 || strncmp(failure.err.text, changed, strlen(changed)) == 0);
        good = good && (place < 2 || failure.err.status == MMUL_OK);
    } else {
        bool fails = which == RELAY_FAILING || which == RELAY_CANCELLED;
        if (world.size > 1)
            good = good && mmul_failure_is_void(&failure) == fails;
        good = good && failure.err.status == (which == RELAY_FAILING && place == 0 && world.size > 1
                                                  ? MMUL_ERR_NO_INPUT
                                                  : MMUL_OK);
    }
    snprintf(what, sizeof what, "relay from %d: %s", origin, names[which]);
    tap_ok(good, what);
    mmul_channel_fini(&relay);
    mmul_transport_fini(&t);
}

// -------------------------------------------------------------------------- without the network

static void test_own(void) {
    struct mmul_transport t;
    struct mmul_channel load, store;
    struct mmul_failure failure;
    unsigned char mine[LONGEST];
    fail_at = -1;
    init_transport(&t, all_work, &failure);
    open_channel(&load, MMUL_CHANNEL_LOAD, &t);
    open_channel(&store, MMUL_CHANNEL_STORE, &t);
    const struct mmul_cargo cargo = {.bytes = LONGEST, .memory = (char *)mine, .mark = 3};
    mmul_channel_begin(&load, &cargo);
    mmul_channel_advance(&load);
    tap_ok(load.arrived == 0 && !mmul_channel_is_free(&load),
           "a load advances one chunk at a time");
    finish_channel(&load);
    tap_ok(load.arrived == 3 && holds_stream(mine, 0, LONGEST),
           "loads read from the channel's end");
    memset(received, 0, sizeof received);
    mmul_channel_begin(&store, &cargo);
    finish_channel(&store);
    tap_ok(store.left == 3 && holds_stream(received, 0, LONGEST),
           "stores write to the channel's end");
    mmul_channel_begin(&store, &(struct mmul_cargo){.bytes = 0, .mark = 4});
    tap_ok(store.left == 4 && mmul_channel_is_free(&store), "a store of no bytes is done at once");
    fail_at = LONGEST / 2;
    mmul_channel_begin(&load, &cargo);
    finish_channel(&load);
    tap_ok(failure.err.status == MMUL_ERR_NO_INPUT && mmul_failure_is_void(&failure),
           "a failing source is an error");
    memset(received, 0, sizeof received);
    mmul_channel_begin(&store, &cargo);
    finish_channel(&store);
    tap_ok(received[0] == 0, "a void store writes nothing");
    mmul_channel_fini(&load);
    mmul_channel_fini(&store);
    mmul_transport_fini(&t);
}

// -------------------------------------------------------------------------------------- messages

static void wait_message(const struct mmul_peers *peers, struct mmul_message *message) {
    while (!mmul_message_is_over(peers, message))
        ;
}

static void wait_words(const struct mmul_peers *peers, struct mmul_words *words) {
    while (!mmul_words_is_over(peers, words))
        ;
}

// Passes a message from rank to rank to the last one; `failed_at` marks its bytes as void.
static void test_chain(int failed_at) {
    struct mmul_message in = {0}, out = {0};
    struct mmul_failure failure = {0};
    const struct mmul_peers peers = {world.world, &failure, world.rank_node,
                                     world.rank,  NULL,     NULL};
    unsigned char bytes[LONGEST] = {0};
    for (int64_t at = 0; world.rank == 0 && at < LONGEST; at++)
        bytes[at] = byte_at(0, at);
    if (world.rank > 0) {
        mmul_message_receive(&peers, world.rank - 1, 0, bytes, LONGEST, &in);
        wait_message(&peers, &in);
    }
    bool heard = mmul_failure_is_void(&failure),
         expected = failed_at >= 0 && world.rank > failed_at;
    if (world.rank == failed_at)
        mmul_failure_void_traffic(&failure);
    if (world.rank + 1 < world.size) {
        mmul_message_send(&peers, world.rank + 1, 0, bytes, LONGEST, &out);
        wait_message(&peers, &out);
    }
    tap_ok(failure.err.status == MMUL_OK && heard == expected &&
               (heard || holds_stream(bytes, 0, LONGEST)),
           failed_at < 0 ? "a message arrives along the chain"
                         : "a failed message is void along the chain");
}

// Every rank sends root a word, and root answers each.
static void test_words(void) {
    struct mmul_words in = {0}, out = {0};
    struct mmul_failure failure = {0};
    const struct mmul_peers peers = {world.world, &failure, world.rank_node,
                                     world.rank,  NULL,     NULL};
    bool good = true;
    if (world.rank > 0) {
        out.values[0] = world.rank;
        mmul_words_receive(&peers, 0, 6, &in);
        mmul_words_send(&peers, 0, 5, &out);
        wait_words(&peers, &in);
        good = in.values[MMUL_WORDS - 1] == 100 + world.rank;
    }
    for (int i = 1; world.rank == 0 && i < world.size; i++) {
        mmul_words_receive(&peers, i, 5, &in);
        wait_words(&peers, &in);
        good = good && in.values[0] == i;
        wait_words(&peers, &out);
        out.values[MMUL_WORDS - 1] = 100 + i;
        mmul_words_send(&peers, i, 6, &out);
    }
    wait_words(&peers, &out);
    tap_ok(good && failure.err.status == MMUL_OK, "root answers every rank's words");
}

// A message to a rank that does not exist: only the sender fails.
static void test_impossible_message(void) {
    struct mmul_words words = {0};
    struct mmul_message message = {0};
    struct mmul_failure failure = {0};
    const struct mmul_peers peers = {world.world, &failure, world.rank_node,
                                     world.rank,  NULL,     NULL};
    mmul_words_send(&peers, world.size, 5, &words);
    tap_ok(mmul_words_is_over(&peers, &words) && mmul_failure_is_void(&failure) &&
               strncmp(failure.err.text, "MPI send failed: ", 17) == 0,
           "a refused send of words keeps MPI's error");
    mmul_message_receive(&peers, world.size, 5, &words, sizeof words, &message);
    tap_ok(mmul_message_is_over(&peers, &message) &&
               strncmp(failure.err.text, "MPI send failed: ", 17) == 0,
           "a refused receive keeps the first error");
    const struct mmul_peers silent = {world.world, NULL, world.rank_node, world.rank, NULL, NULL};
    mmul_words_send(&silent, world.size, 5, &words);
    tap_ok(mmul_words_is_over(&silent, &words) && words.failed,
           "a refused send without a failure record only fails");
}

// All ranks get the text of the lowest failing rank.
static void test_agreement(void) {
    struct mmul_error err = {.status = MMUL_OK};
    tap_ok(mmul_agree(MPI_COMM_WORLD, &err) == MMUL_OK, "ranks without a failure agree");
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
    test_streams("without failures", -1);
    test_streams("failing at once", 0);
    test_streams("failing half-way", LONGEST / 2);
    test_cancelled_member();
    test_tampered_exchange(MMUL_CHANNEL_SCATTER);
    test_tampered_exchange(MMUL_CHANNEL_GATHER);
    test_own();
    for (int origin = 0; origin < world.size; origin++)
        for (int which = RELAY_WHOLE; which <= RELAY_TAMPERED; which++)
            test_relay(origin, (enum relay_case)which);
    test_chain(-1);
    test_chain(0);
    test_chain(1);
    test_words();
    test_impossible_message();
    test_agreement();
    end_world();
    int status = tap_end();
    MPI_Finalize();
    return status;
}
