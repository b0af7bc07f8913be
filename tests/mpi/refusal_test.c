// np: 2 3 5
// SPDX-License-Identifier: MIT
//
// MPI refuses one call of one member, for every kind of transfer. That member reports MPI's error
// text, all members get to the end and learn of the failure, and transfers stop. Data that leave
// late cause no second error.
#include "channels.h"

enum { NEVER_TAG = 9999 };

// The call that MPI refuses on this rank, and a countdown to it.
static const char *refused;
static int calls_left;

static bool is_refused(const char *call) {
    return refused != NULL && strcmp(call, refused) == 0 && --calls_left == 0;
}

int MPI_Irecv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    if (is_refused("receive"))
        return MPI_ERR_OTHER;
    return PMPI_Irecv(to, count, type, from, tag, comm, request);
}

int MPI_Iscatter(const void *from, int from_count, MPI_Datatype from_type, void *to, int count,
                 MPI_Datatype to_type, int root, MPI_Comm comm, MPI_Request *request) {
    if (is_refused("scatter"))
        return MPI_ERR_OTHER;
    return PMPI_Iscatter(from, from_count, from_type, to, count, to_type, root, comm, request);
}

int MPI_Igather(const void *from, int from_count, MPI_Datatype from_type, void *to, int count,
                MPI_Datatype to_type, int root, MPI_Comm comm, MPI_Request *request) {
    if (is_refused("gather"))
        return MPI_ERR_OTHER;
    return PMPI_Igather(from, from_count, from_type, to, count, to_type, root, comm, request);
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[]) {
    return is_refused("test") ? MPI_ERR_OTHER : PMPI_Testall(count, requests, flag, statuses);
}

// A jammed link: sends that MPI has accepted from one checksum on and has not yet read from memory.
static struct late {
    const void *from;
    int count, to, tag;
    MPI_Comm comm;
} late[64];
static int late_count, checksums_left; // countdown to the first of them; 0: no link is jammed

static bool is_late(int count, int tag) {
    const bool is_checksum = tag == 1 && count > 0;
    if (late_count == 0 && is_checksum && checksums_left > 0)
        checksums_left--;
    else if (late_count == 0)
        return false;
    return checksums_left == 0 && late_count < (int)(sizeof late / sizeof *late);
}

// The awaited data will never come, so the request stays unchanged.
static int send_late(const void *from, int count, int to, int tag, MPI_Comm comm,
                     MPI_Request *request) {
    late[late_count++] = (struct late){from, count, to, tag, comm};
    return PMPI_Irecv(NULL, 0, MPI_BYTE, world.rank, NEVER_TAG, comm, request);
}

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    if (is_refused("send"))
        return MPI_ERR_OTHER;
    if (is_late(count, tag))
        return send_late(from, count, to, tag, comm, request);
    return PMPI_Isend(from, count, type, to, tag, comm, request);
}

int MPI_Iscatterv(const void *from, const int counts[], const int displacements[],
                  MPI_Datatype from_type, void *to, int count, MPI_Datatype to_type, int root,
                  MPI_Comm comm, MPI_Request *request) {
    if (is_refused("scatterv"))
        return MPI_ERR_OTHER;
    return PMPI_Iscatterv(from, counts, displacements, from_type, to, count, to_type, root, comm,
                          request);
}

int MPI_Igatherv(const void *from, int count, MPI_Datatype from_type, void *to, const int counts[],
                 const int displacements[], MPI_Datatype to_type, int root, MPI_Comm comm,
                 MPI_Request *request) {
    if (is_refused("gatherv"))
        return MPI_ERR_OTHER;
    return PMPI_Igatherv(from, count, from_type, to, counts, displacements, to_type, root, comm,
                         request);
}

struct refusal {
    enum mmul_channel_kind kind;
    const char *call, *what; // and its name in MPI's error text
    int at;                  // refuses the `at`-th such call
    bool by_first, by_last;  // relay: its first or last member makes the call
};

static const struct refusal refusals[] = {
    {MMUL_CHANNEL_SCATTER, "scatterv", "scatter", 1, true, true},
    {MMUL_CHANNEL_SCATTER, "scatterv", "scatter", 9, true, true},
    {MMUL_CHANNEL_SCATTER, "scatter", "scatter", 2, true, true},
    {MMUL_CHANNEL_SCATTER, "test", "scatter", 1, true, true},
    {MMUL_CHANNEL_GATHER, "gatherv", "gather", 1, true, true},
    {MMUL_CHANNEL_GATHER, "gatherv", "gather", 9, true, true},
    {MMUL_CHANNEL_GATHER, "gather", "gather", 2, true, true},
    {MMUL_CHANNEL_GATHER, "test", "gather", 1, true, true},
    {MMUL_CHANNEL_RELAY, "send", "send", 1, true, false},
    {MMUL_CHANNEL_RELAY, "send", "send", 2, true, false}, // the checksum behind the bytes
    {MMUL_CHANNEL_RELAY, "send", "send", 13, true, false},
    {MMUL_CHANNEL_RELAY, "receive", "receive", 1, false, true},
    {MMUL_CHANNEL_RELAY, "receive", "receive", 2, false, true},
    {MMUL_CHANNEL_RELAY, "receive", "receive", 13, false, true},
    {MMUL_CHANNEL_RELAY, "test", "transfer", 1, true, true},
};

static void test_refusal(const struct refusal *r, int culprit) {
    static unsigned char mine[CARGOES * LONGEST]; // static: MPI may still write to it afterwards
    struct mmul_transport t;
    struct mmul_channel line;
    struct mmul_failure failure;
    int64_t bytes[16];
    char what[96], text[64];
    bool is_culprit = world.rank == culprit;
    for (int node = 0; node < world.size; node++)
        bytes[node] = LONGEST;
    fail_at = -1;
    make_world();
    init_transport(&t, all_work, &failure);
    open_channel(&line, r->kind, &t);
    refused = is_culprit ? r->call : NULL;
    calls_left = r->at;
    if (r->kind == MMUL_CHANNEL_RELAY)
        run_relay(&line, 0, CARGOES, true, mine);
    else
        run_exchange(&line, bytes, mine);
    bool struck = is_culprit && calls_left <= 0;
    refused = NULL;
    // No other rank has an error. A rank that has not yet learnt of the failure has no request left
    // to wait for.
    snprintf(text, sizeof text, "MPI %s failed: ", r->what);
    bool good = is_culprit ? struck && strncmp(failure.err.text, text, strlen(text)) == 0
                           : failure.err.status == MMUL_OK;
    while (!mmul_peers_is_broken(&t.members))
        sched_yield();
    good = good && mmul_comm_is_broken(&world) && mmul_failure_is_void(&failure);
    mmul_channel_begin(&line, &(struct mmul_cargo){.bytes = LONGEST,
                                                   .node_bytes = bytes,
                                                   .from = -1,
                                                   .to = (world.rank + 1) % world.size,
                                                   .memory = (char *)mine,
                                                   .mark = 77});
    finish_channel(&line);
    snprintf(what, sizeof what, "rank %d: a refused %s %d of a %s ends on all ranks", culprit,
             r->call, r->at, r->kind == MMUL_CHANNEL_RELAY ? "relay" : r->what);
    good = good && line.arrived == 77;
    if (!good)
        fprintf(stderr, "# rank %d, error '%s', arrived %lld\n", world.rank, failure.err.text,
                (long long)line.arrived);
    tap_ok(good, what);
    mmul_channel_fini(&line);
    mmul_transport_fini(&t);
    end_world();
}

// Root's link is jammed from the second checksum on when MPI refuses a send of root. Root abandons
// what it has begun, finishes the rest without sending, and frees everything. Only then do the
// jammed data leave. A checksum must be unchanged by then, or void.
static void test_late_data(void) {
    static unsigned char mine[CARGOES * LONGEST];
    struct mmul_transport t;
    struct mmul_channel line;
    struct mmul_failure failure;
    fail_at = -1;
    make_world();
    init_transport(&t, all_work, &failure);
    open_channel(&line, MMUL_CHANNEL_RELAY, &t);
    refused = world.rank == 0 ? "send" : NULL;
    calls_left = 9; // the bytes of the fifth packet
    checksums_left = world.rank == 0 ? 2 : 0;
    run_relay(&line, 0, CARGOES, true, mine);
    refused = NULL;
    if (world.rank == 0)
        mmul_channel_fini(&line);
    for (int i = 0; i < late_count; i++) // each is matched before the next one leaves
        PMPI_Ssend(late[i].from, late[i].count, MPI_BYTE, late[i].to, late[i].tag, late[i].comm);
    bool good = world.rank == 0 ? late_count > world.size : failure.err.status == MMUL_OK;
    late_count = 0;
    if (!good)
        fprintf(stderr, "# rank %d, error '%s'\n", world.rank, failure.err.text);
    tap_ok(good, "data that leave after an alarm cause no error");
    mmul_channel_fini(&line);
    mmul_transport_fini(&t);
    end_world();
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world.size);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        for (int culprit = 0; culprit < world.size; culprit++) {
            const struct refusal *r = &refusals[i];
            if ((culprit > 0 || r->by_first) && (culprit + 1 < world.size || r->by_last))
                test_refusal(r, culprit);
        }
    test_late_data();
    int status = tap_end();
    MPI_Finalize();
    return status;
}
