// SPDX-License-Identifier: MIT
//
// Ranks and nodes. Three communicators: world (our duplicate), node (ranks that share memory) and
// leaders (the lowest rank of each node). Root is world rank 0 and leads node 0.
//
// Everything here is collective over the communicator its comment names. MPI errors are returned,
// not fatal, and become MMUL_ERR_SYSTEM.
#pragma once

#include <mpi.h>

#include "mpimatmul_local.h"

// What MPI refuses on one rank, others wait for and would wait for ever. An alarm tells all leaders,
// who carry what there is between nodes: from then on nothing moves any more, and whatever waits for
// traffic (messages, channels, links that are measured) is over at once. It does not say what happened:
// who raised it keeps the error, and an agreement over world makes it everybody's.
struct mmul_alarm {
    MPI_Comm leaders;    // borrowed
    MPI_Request hearing; // a receive from anybody, open all the time
    bool is_raised;      // by this leader or, as far as it has listened, by another one
};

// What the last run between leaders moved bytes with (comm/transport.h), for the next one of the same members: making
// it takes many messages between all of them.
struct mmul_directions {
    bool *members;            // size, owned: by node, who has them; read where they are there
    bool are_there;           // the same on all leaders
    MPI_Comm outward, inward; // owned; MPI_COMM_NULL outside the members
};

struct mmul_comm {
    MPI_Comm world, node;
    MPI_Comm leaders; // MPI_COMM_NULL except on leaders
    int rank, size;
    int node_rank, node_size;
    int node_index, node_count;         // node index: rank of its leader among leaders
    int *rank_node;                     // size, owned: node index of each rank
    struct mmul_alarm *alarm;           // owned; NULL except on leaders
    struct mmul_directions *directions; // owned; leaders use it
};

// Collective over `parent`, which is duplicated.
enum mmul_status mmul_comm_create(MPI_Comm parent, struct mmul_comm **comm, struct mmul_error *err);

// Collective over world.
void mmul_comm_destroy(struct mmul_comm *comm);

// Collective over the members. No traffic is under way.
void mmul_directions_free(struct mmul_directions *directions);

// An alarm was raised: traffic between nodes was left where it was, and MPI may still read and write
// what this leader gave it. Such memory is kept, such communicators are not freed. Local.
bool mmul_comm_is_broken(const struct mmul_comm *comm);

// Local; messages of the alarm's tag on `leaders`, which outlives it, are its own. Fails with
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_alarm_begin(struct mmul_alarm *alarm, MPI_Comm leaders,
                                  struct mmul_error *err);
void mmul_alarm_end(struct mmul_alarm *alarm);

// Local, never wait. `alarm` NULL: nobody is told, and nobody hears anything.
void mmul_alarm_raise(struct mmul_alarm *alarm);
// For who waits: looks whether one has come meanwhile.
bool mmul_alarm_listen(struct mmul_alarm *alarm);
bool mmul_alarm_is_raised(const struct mmul_alarm *alarm);

// MMUL_OK, or MMUL_ERR_SYSTEM with MPI's own text for `what` ("broadcast").
enum mmul_status mmul_comm_check(int code, const char *what, struct mmul_error *err);

// Collective over `mpi`: the error of the lowest rank with err->status != MMUL_OK becomes
// everybody's. Waits without burning the core.
enum mmul_status mmul_agree_on(MPI_Comm mpi, struct mmul_error *err);

// Same over world: `status` is this rank's own (its text in err), the result everybody's. The text
// of a rank other than root says which rank and host.
enum mmul_status mmul_comm_agree(const struct mmul_comm *comm, enum mmul_status status,
                                 struct mmul_error *err);

// Waits for a request in naps: MPI makes progress only inside its calls, and its own blocking
// waits spin on the core that somebody else computes on. An alarm ends it too: MPI_ERR_OTHER, and
// the request is left as it is. `alarm` may be NULL.
int mmul_comm_wait(MPI_Request *request, struct mmul_alarm *alarm);

// Each wait of this process calls `attend` between its naps, also those that have begun. NULL: no function any more.
// On the thread that calls MPI.
void mmul_comm_attend_waits(void (*attend)(void));

// Local, never waits. An empty message of this rank to root, once at most; and, root's, has that of a rank come?
void mmul_comm_say_farewell(const struct mmul_comm *comm);
bool mmul_comm_has_farewell(const struct mmul_comm *comm, int rank);

// Collective over node. Waits in naps.
enum mmul_status mmul_comm_node_barrier(const struct mmul_comm *comm, struct mmul_error *err);

// Collective over world: root's `bytes` bytes to all, any size.
enum mmul_status mmul_comm_broadcast(const struct mmul_comm *comm, void *data, int64_t bytes,
                                     struct mmul_error *err);

// Collective over world: `bytes` bytes of each rank to all, in rank order; all has size * bytes.
enum mmul_status mmul_comm_share(const struct mmul_comm *comm, const void *mine, int64_t bytes,
                                 void *all, struct mmul_error *err);

// Same with a different size on each rank. *all is released with mmul_free; *total is its size.
enum mmul_status mmul_comm_share_varying(const struct mmul_comm *comm, const void *mine,
                                         int64_t bytes, void **all, int64_t *total,
                                         struct mmul_error *err);

// Collective over world: sizes[r] bytes of each rank r to root, in rank order. sizes: the same on all
// ranks; all: root's, with room for them. Fails with MMUL_ERR_SYSTEM, also beyond 2 GiB.
enum mmul_status mmul_comm_collect(const struct mmul_comm *comm, const void *mine,
                                   const int64_t *sizes, void *all, struct mmul_error *err);

// The other way round: of root's `all`, sizes[r] bytes to each rank r, in rank order. Fails alike.
enum mmul_status mmul_comm_deal(const struct mmul_comm *comm, const void *all, const int64_t *sizes,
                                void *mine, struct mmul_error *err);
