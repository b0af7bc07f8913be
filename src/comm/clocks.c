// SPDX-License-Identifier: MIT
// Root asks each leader in turn for its time. The leader's time is taken to be that of the middle
// of the round trip. The shortest round trip is used.
#include "comm/clocks.h"

#include "base/clock.h"
#include "comm/refusal.h"

enum { TAG = 73, ROUND_TRIPS = 10 };

static int send_time(MPI_Comm mpi, int peer, double time) {
    MPI_Request request;
    int code = MPI_Isend(&time, 1, MPI_DOUBLE, peer, TAG, mpi, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

// Root: measures one leader.
static int measure_leader(MPI_Comm mpi, int leader, double *ahead) {
    double shortest = 0, answer;
    int code = MPI_SUCCESS;
    *ahead = 0;
    for (int i = 0; code == MPI_SUCCESS && i < ROUND_TRIPS; i++) {
        double begin = mmul_clock_now();
        code = send_time(mpi, leader, *ahead);
        if (code == MPI_SUCCESS)
            code = MPI_Recv(&answer, 1, MPI_DOUBLE, leader, TAG, mpi, MPI_STATUS_IGNORE);
        double end = mmul_clock_now();
        if (i > 0 && end - begin >= shortest)
            continue;
        shortest = end - begin;
        *ahead = answer - (begin + end) / 2;
    }
    return code == MPI_SUCCESS ? send_time(mpi, leader, *ahead) : code;
}

// Runs on every leader but root: sends its time for each message of root. The last message from
// root is the measured offset. The first wait may be long and sleeps. Later waits poll, because a
// sleep would be measured as travel time.
static int answer_root(MPI_Comm mpi, double *ahead) {
    MPI_Request request;
    int code = MPI_Irecv(ahead, 1, MPI_DOUBLE, 0, TAG, mpi, &request);
    if (code == MPI_SUCCESS)
        code = mmul_comm_wait(&request, NULL);
    for (int i = 0; code == MPI_SUCCESS && i < ROUND_TRIPS; i++) {
        code = send_time(mpi, 0, mmul_clock_now());
        if (code == MPI_SUCCESS)
            code = MPI_Recv(ahead, 1, MPI_DOUBLE, 0, TAG, mpi, MPI_STATUS_IGNORE);
    }
    return code;
}

enum mmul_status mmul_clocks_measure_offset(const struct mmul_comm *comm,
                                            double *clock_lead_seconds, struct mmul_error *err) {
    MPI_Request request;
    int code = MPI_SUCCESS;
    double ahead = 0;
    if (comm->rank == 0)
        for (int node = 1; code == MPI_SUCCESS && node < comm->node_count; node++)
            code = measure_leader(comm->leaders, node, &ahead);
    else if (comm->node_rank == 0)
        code = answer_root(comm->leaders, &ahead);
    if (comm->node_index == 0)
        ahead = 0;
    if (code == MPI_SUCCESS)
        code = MPI_Ibcast(&ahead, 1, MPI_DOUBLE, 0, comm->node, &request);
    code = mmul_comm_finish(code, &request);
    *clock_lead_seconds = ahead;
    return mmul_comm_agree(comm, mmul_refusal_check(comm->world, code, "comparing clocks", err),
                           err);
}
