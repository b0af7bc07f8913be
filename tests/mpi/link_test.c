// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// Link measurements with every rank as a node of its own. All members get the same numbers and
// every requested link is measured. With too little time one message of each kind is still sent. A
// call that MPI refuses on one member ends the measurement on all.
#include <math.h>
#include <sched.h>
#include <string.h>

#include "comm/link.h"
#include "tap.h"

enum { MOST_RANKS = 16 };

static int rank, size;

// Countdowns to the call that MPI refuses.
static int sends_left, receives_left, barriers_left;

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    return sends_left > 0 && --sends_left == 0
               ? MPI_ERR_OTHER
               : PMPI_Isend(from, count, type, to, tag, comm, request);
}

int MPI_Irecv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    const bool is_transfer = from != MPI_ANY_SOURCE; // an alarm and a refusal listen to any rank
    return is_transfer && receives_left > 0 && --receives_left == 0
               ? MPI_ERR_OTHER
               : PMPI_Irecv(to, count, type, from, tag, comm, request);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request) {
    return barriers_left > 0 && --barriers_left == 0 ? MPI_ERR_OTHER : PMPI_Ibarrier(comm, request);
}

static bool is_measured(struct mmul_link link) {
    return isfinite(link.bytes_per_second) && link.bytes_per_second > 0 &&
           isfinite(link.latency_seconds) && link.latency_seconds > 0;
}

static bool has_no_measurement(struct mmul_link link) {
    return link.bytes_per_second == 0 && link.latency_seconds == 0;
}

static bool are_equal(struct mmul_link a, struct mmul_link b) {
    return a.bytes_per_second == b.bytes_per_second && a.latency_seconds == b.latency_seconds;
}

// Returns true if all ranks have the bytes of rank 0.
static bool are_equal_everywhere(const struct mmul_link *links) {
    struct mmul_link first[MOST_RANKS];
    size_t bytes = (size_t)size * sizeof *links;
    memcpy(first, links, bytes);
    MPI_Bcast(first, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    return memcmp(first, links, bytes) == 0;
}

static bool are_all_measured(const struct mmul_link *root, const struct mmul_link *ring) {
    for (int i = 0; i < size; i++)
        if ((i > 0 && !is_measured(root[i])) || !is_measured(ring[i]))
            return false;
    return true;
}

static void test_links(const char *name, struct mmul_link_limits limits) {
    struct mmul_link root[MOST_RANKS], ring[MOST_RANKS];
    struct mmul_error err = {.status = MMUL_OK};
    char what[96];
    memset(root, 0x55, sizeof root); // previous contents must not matter
    memset(ring, 0x55, sizeof ring);
    enum mmul_status status = mmul_links_measure(MPI_COMM_WORLD, NULL, &limits, root, ring, &err);
    snprintf(what, sizeof what, "%s: the measurement ends", name);
    tap_ok(status == MMUL_OK, what);
    snprintf(what, sizeof what, "%s: every link is measured", name);
    tap_ok(has_no_measurement(root[0]) &&
               (size == 1 ? has_no_measurement(ring[0]) : are_all_measured(root, ring)),
           what);
    bool root_equal = are_equal_everywhere(root), ring_equal = are_equal_everywhere(ring);
    snprintf(what, sizeof what, "%s: all members have the same numbers", name);
    tap_ok(root_equal && ring_equal, what);
    snprintf(what, sizeof what, "%s: two members share their one link", name);
    tap_ok(size != 2 || (are_equal(ring[0], root[1]) && are_equal(ring[1], root[1])), what);
    for (int i = 2; limits.max_root_links == 1 && i < size; i++) {
        snprintf(what, sizeof what, "%s: member %d has the median of one link", name, i);
        tap_ok(are_equal(root[i], root[1]), what);
    }
}

// The next round must not receive messages of an earlier one.
static void test_repeated_measurements(void) {
    const struct mmul_link_limits limits = {.most_bytes = 1000};
    struct mmul_link root[MOST_RANKS], ring[MOST_RANKS];
    struct mmul_error err = {.status = MMUL_OK};
    bool all = true;
    for (int i = 0; i < 20; i++)
        all = all &&
              mmul_links_measure(MPI_COMM_WORLD, NULL, &limits, root, ring, &err) == MMUL_OK &&
              (size == 1 || are_all_measured(root, ring));
    int pending = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &pending, MPI_STATUS_IGNORE);
    tap_ok(all && !pending, "twenty measurements leave no message behind");
}

// The failing rank reports MPI's error text, the others learn of the failure, and all ranks end.
static void test_refused(const char *call, int at, int culprit) {
    const struct mmul_link_limits limits = {.budget_seconds = 0.01, .most_bytes = 1 << 20};
    struct mmul_link root[MOST_RANKS], ring[MOST_RANKS];
    struct mmul_error err = {.status = MMUL_OK}, ignored;
    struct mmul_alarm alarm;
    MPI_Comm members; // not freed: MPI may still have requests on it in flight
    char what[96];
    MPI_Comm_dup(MPI_COMM_WORLD, &members);
    MPI_Comm_set_errhandler(members, MPI_ERRORS_RETURN);
    mmul_alarm_begin(&alarm, members, &ignored);
    int *left = call[0] == 's' ? &sends_left : call[0] == 'r' ? &receives_left : &barriers_left;
    *left = rank == culprit ? at : 0;
    enum mmul_status status = mmul_links_measure(members, &alarm, &limits, root, ring, &err);
    bool good = rank == culprit ? *left == 0 && status == MMUL_ERR_SYSTEM &&
                                      strncmp(err.text, "MPI link measurement failed: ", 29) == 0
                                : status == MMUL_OK;
    *left = 0;
    while (!mmul_alarm_poll(&alarm))
        sched_yield();
    snprintf(what, sizeof what, "rank %d: a refused %s %d ends on all ranks", culprit, call, at);
    tap_ok(good, what);
    mmul_alarm_end(&alarm);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    test_links("some time",
               (struct mmul_link_limits){.budget_seconds = 0.02, .most_bytes = 4 << 20});
    test_links("no time", (struct mmul_link_limits){.most_bytes = 1 << 20});
    test_links("tiny messages", (struct mmul_link_limits){.budget_seconds = 0.01, .most_bytes = 1});
    test_links("a sample", (struct mmul_link_limits){
                               .budget_seconds = 0.01, .most_bytes = 1 << 20, .max_root_links = 1});
    test_links("a larger sample", (struct mmul_link_limits){.budget_seconds = 0.01,
                                                            .most_bytes = 1 << 20,
                                                            .max_root_links = 3});
    test_repeated_measurements();
    for (int culprit = 0; size > 1 && culprit < size; culprit++) {
        test_refused("send", 1, culprit);
        test_refused("send", 6, culprit);
        test_refused("receive", 1, culprit);
        test_refused("receive", 6, culprit);
        test_refused("barrier", 1, culprit);
    }
    int status = tap_end();
    MPI_Finalize();
    return status;
}
