// SPDX-License-Identifier: MIT
// Who talks during a run: root and the leaders of nodes that have work.
#pragma once

#include "comm/comm.h"
#include "comm/failure.h"

struct mmul_team {
    // Owned; MPI_COMM_NULL outside the team. One each, so that their orders cannot mix.
    MPI_Comm scatter, gather, chain;
    int rank, size;
    int *nodes;                   // size, owned: node index of each member; root is member 0
    struct mmul_failure *failure; // borrowed: of all that it carries
};

extern const struct mmul_team MMUL_TEAM_NOBODY; // an empty team

// Collective over leaders; other ranks may call it and get an empty team. works[node] for all
// nodes, the same on all leaders.
enum mmul_status mmul_team_create(const struct mmul_comm *comm, const bool *works,
                                  struct mmul_failure *failure, struct mmul_team *team,
                                  struct mmul_error *err);
void mmul_team_destroy(struct mmul_team *team);

static inline bool mmul_team_is_member(const struct mmul_team *team) {
    return team->scatter != MPI_COMM_NULL;
}
