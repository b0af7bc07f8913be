// SPDX-License-Identifier: MIT
// Splits the leaders once, and duplicates what came of it: a communicator per kind of traffic.
#include "comm/team.h"

#include "base/memory.h"
#include "base/status.h"

const struct mmul_team MMUL_TEAM_NOBODY = {
    .scatter = MPI_COMM_NULL, .gather = MPI_COMM_NULL, .chain = MPI_COMM_NULL};

enum mmul_status mmul_team_create(const struct mmul_comm *comm, const bool *works,
                                  struct mmul_failure *failure, struct mmul_team *team,
                                  struct mmul_error *err) {
    *team = MMUL_TEAM_NOBODY;
    team->failure = failure;
    if (comm->leaders == MPI_COMM_NULL)
        return MMUL_OK;
    bool member = comm->rank == 0 || works[comm->node_index];
    int code =
        MPI_Comm_split(comm->leaders, member ? 0 : MPI_UNDEFINED, comm->rank, &team->scatter);
    if (code == MPI_SUCCESS && member)
        code = MPI_Comm_dup(team->scatter, &team->gather);
    if (code == MPI_SUCCESS && member)
        code = MPI_Comm_dup(team->scatter, &team->chain);
    if (code != MPI_SUCCESS || !member)
        return mmul_comm_check(code, "communicator set-up", err);
    MPI_Comm_rank(team->scatter, &team->rank);
    MPI_Comm_size(team->scatter, &team->size);
    enum mmul_status status = MMUL_ALLOCATE(team->nodes, team->size, "team", err);
    int members = 0;
    for (int node = 0; status == MMUL_OK && node < comm->node_count; node++)
        if (node == 0 || works[node])
            team->nodes[members++] = node;
    return status;
}

void mmul_team_destroy(struct mmul_team *team) {
    MPI_Comm *const all[] = {&team->scatter, &team->gather, &team->chain};
    for (int i = 0; i < 3; i++)
        if (*all[i] != MPI_COMM_NULL)
            MPI_Comm_free(all[i]);
    mmul_free(team->nodes);
    *team = MMUL_TEAM_NOBODY;
}
