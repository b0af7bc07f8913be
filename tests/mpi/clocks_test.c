// np: 1 2 3 5
// SPDX-License-Identifier: MIT
//
// Synchronisation of clocks that are hours apart, and collection of every rank's bytes on root.
// Each process has a clock of its own: the system's, shifted by a known offset.
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "comm/clocks.h"
#include "tap.h"

enum { HOUR = 3600, MOST_RANKS = 16, MOST_BYTES = 1000 };

static int rank, size, hours_ahead;

// Replaces the C library's function.
int clock_gettime(clockid_t clock, struct timespec *now) {
    long code = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_MONOTONIC)
        now->tv_sec += (time_t)hours_ahead * HOUR;
    return (int)code;
}

// Makes nodes of `ranks_each` ranks; the last one may have fewer.
static struct mmul_comm make_comm(int ranks_each) {
    struct mmul_comm comm = {.world = MPI_COMM_WORLD, .rank = rank, .size = size};
    comm.node_index = rank / ranks_each;
    comm.node_rank = rank % ranks_each;
    comm.node_count = (size + ranks_each - 1) / ranks_each;
    MPI_Comm_split(MPI_COMM_WORLD, comm.node_index, rank, &comm.node);
    MPI_Comm_split(MPI_COMM_WORLD, comm.node_rank == 0 ? 0 : MPI_UNDEFINED, rank, &comm.leaders);
    return comm;
}

static void free_comm(struct mmul_comm *comm) {
    MPI_Comm_free(&comm->node);
    if (comm->leaders != MPI_COMM_NULL)
        MPI_Comm_free(&comm->leaders);
}

// Every node's clock is ahead (or behind) by as many hours as its number.
static void test_clocks(int ranks_each, int sign) {
    struct mmul_comm comm = make_comm(ranks_each);
    struct mmul_error err = {.status = MMUL_OK};
    double ahead = -1;
    char what[96];
    hours_ahead = 10 + sign * comm.node_index;
    enum mmul_status status = mmul_clocks_measure_offset(&comm, &ahead, &err);
    double away = ahead - sign * comm.node_index * (double)HOUR;
    snprintf(what, sizeof what, "nodes of %d, each an hour %s the one before", ranks_each,
             sign > 0 ? "ahead of" : "behind");
    tap_ok(status == MMUL_OK && away > -60 && away < 60 && (comm.node_index > 0 || ahead == 0),
           what);
    hours_ahead = 0;
    free_comm(&comm);
}

static unsigned char byte_at(int of, int64_t at) {
    return (unsigned char)(of * 37 + at * 11 + 1);
}

// Rank 1 contributes no bytes.
static void test_collect(void) {
    struct mmul_comm comm = {.world = MPI_COMM_WORLD, .rank = rank, .size = size};
    struct mmul_error err = {.status = MMUL_OK};
    unsigned char mine[MOST_BYTES], all[MOST_RANKS * MOST_BYTES];
    int64_t sizes[MOST_RANKS], place = 0;
    for (int i = 0; i < size; i++)
        sizes[i] = i == 1 ? 0 : MOST_BYTES - 7 * i;
    for (int64_t at = 0; at < sizes[rank]; at++)
        mine[at] = byte_at(rank, at);
    memset(all, 0x55, sizeof all);
    bool right = mmul_comm_gather(&comm, mine, sizes, rank == 0 ? all : NULL, &err) == MMUL_OK;
    for (int i = 0; rank == 0 && i < size; i++)
        for (int64_t at = 0; at < sizes[i]; at++)
            right = right && all[place++] == byte_at(i, at);
    tap_ok(right && (rank != 0 || all[place] == 0x55), "root has the bytes of all, in order");
    for (int i = 0; i < size; i++)
        sizes[i] = (int64_t)1 << 31;
    tap_ok(mmul_comm_gather(&comm, mine, sizes, all, &err) == MMUL_ERR_SYSTEM,
           "more than 2 GiB are refused everywhere");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int ranks_each = 1; ranks_each <= 2; ranks_each++) {
        test_clocks(ranks_each, 1);
        test_clocks(ranks_each, -1);
    }
    test_collect();
    int status = tap_end();
    MPI_Finalize();
    return status;
}
