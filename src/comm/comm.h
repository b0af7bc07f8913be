// SPDX-License-Identifier: MIT
//
// Ranks and nodes. Three communicators: world (a duplicate of the caller's), node (ranks that share
// memory) and leaders (the lowest rank of each node). Root is world rank 0 and leads node 0.
//
// All functions are collective over the communicator that their comment names. MPI errors are
// returned, not fatal, and become MMUL_ERR_SYSTEM.
#pragma once

#include <mpi.h>

#include "mpimatmul_local.h"

// If MPI refuses a call on one rank, the other ranks would block forever in the matching call. An
// alarm therefore notifies all leaders, which carry the traffic between nodes. From then on all
// traffic stops: messages, channels and link measurements are over at once. An alarm carries no
// reason: the rank that raised it keeps the error, and an agreement over world distributes it.
struct mmul_alarm {
    MPI_Comm leaders;          // borrowed
    MPI_Request alarm_receive; // receive from any leader, always open
    bool is_raised;            // by this leader, or by another one, once its alarm was received
};

// Cached communicators of the last run between leaders (comm/transport.h), for the next run with
// the same members. Creating them takes many messages between all leaders.
struct mmul_traffic_comms {
    bool *members;            // size, owned: by node, true for members; valid if are_created
    bool are_created;         // the communicators exist; the same on all leaders
    MPI_Comm outward, inward; // owned; MPI_COMM_NULL on leaders that are not members
};

struct mmul_comm {
    MPI_Comm world, node;
    MPI_Comm leaders; // MPI_COMM_NULL except on leaders
    int rank, size;
    int node_rank, node_size;
    int node_index, node_count;            // node index: rank of its leader in `leaders`
    int *rank_node;                        // size, owned: node index of each rank
    struct mmul_alarm *alarm;              // owned; NULL except on leaders
    struct mmul_traffic_comms *directions; // owned; used by leaders
};

// Collective over `parent`, which is duplicated.
enum mmul_status mmul_comm_create(MPI_Comm parent, struct mmul_comm **comm, struct mmul_error *err);

// Creates communicators of this rank alone. Local.
enum mmul_status mmul_comm_create_alone(struct mmul_comm **comm, struct mmul_error *err);

// Collective over world.
void mmul_comm_destroy(struct mmul_comm *comm);

// Collective over the members. Requires that no traffic is in flight.
void mmul_traffic_comms_free(struct mmul_traffic_comms *directions);

// Returns true if an alarm was raised. Traffic between nodes was then abandoned, and MPI may still
// access the memory that this leader gave it. Such memory must not be freed, nor such
// communicators. Local.
bool mmul_comm_is_broken(const struct mmul_comm *comm);

// Local. Reserves messages with the alarm's tag on `leaders`, which must outlive the alarm. Fails
// with MMUL_ERR_SYSTEM.
enum mmul_status mmul_alarm_begin(struct mmul_alarm *alarm, MPI_Comm leaders,
                                  struct mmul_error *err);
void mmul_alarm_end(struct mmul_alarm *alarm);

// Local, never waits. Notifies all other leaders. `alarm` NULL: does nothing.
void mmul_alarm_raise(struct mmul_alarm *alarm);
// poll: checks for an alarm that has arrived meanwhile. Waiting loops must call it. `alarm` NULL:
// returns false.
bool mmul_alarm_poll(struct mmul_alarm *alarm);
bool mmul_alarm_is_raised(const struct mmul_alarm *alarm);

// Returns MMUL_OK, or MMUL_ERR_SYSTEM with MPI's own text for `what` ("broadcast").
// After a refused collective the text is that of the refusal (comm/refusal.h).
enum mmul_status mmul_comm_check(int code, const char *what, struct mmul_error *err);

// Sends bytes to all other ranks of `mpi` without a wait for their receives. `data` must stay as it
// is until the process ends. A refused send is tried again. Local.
void mmul_comm_notify_others(MPI_Comm mpi, int tag, const void *data, int bytes);

// Prefixes a failure with the rank in `mpi` and its host. Leaves root's alone, and a text that
// already begins with "rank". Local.
void mmul_comm_name_rank(MPI_Comm mpi, struct mmul_error *err);

// Collective over `mpi`. The error of the lowest rank with err->status != MMUL_OK becomes the error
// of all ranks. Waits with short sleeps.
enum mmul_status mmul_comm_agree_over(MPI_Comm mpi, struct mmul_error *err);

// Agrees over world. `status` is this rank's own (its text in err); the result is the same on all
// ranks. The text of a rank other than root names rank and host.
enum mmul_status mmul_comm_agree(const struct mmul_comm *comm, enum mmul_status status,
                                 struct mmul_error *err);

// Waits for a request with short sleeps. MPI makes progress only inside its calls, and its own
// blocking waits spin on a core that another rank computes on. An alarm and a refused collective
// (comm/refusal.h) also end the wait: returns MPI_ERR_OTHER and leaves the request open. `alarm`
// may be NULL.
int mmul_comm_wait(MPI_Request *request, struct mmul_alarm *alarm);

// Waits for a collective that began with `code`, MPI's own. Returns MPI's code.
int mmul_comm_finish(int code, MPI_Request *request);

// Collective over `from`: MPI_Comm_dup and MPI_Comm_split. No rank can leave such a call before
// all others have joined it, so a refused one is tried again. Return MPI's code.
int mmul_comm_duplicate(MPI_Comm from, MPI_Comm *copy);
int mmul_comm_split(MPI_Comm from, int color, int key, MPI_Comm *part);

// Sets a function that every wait of this process calls between its sleeps, waits in progress
// included. NULL: none. Call it on the thread that calls MPI.
void mmul_comm_set_wait_callback(void (*attend)(void));

// Local, never wait. send: sends an empty message from this rank to root; at most once. has: on
// root, returns true if the message of a rank has arrived.
void mmul_comm_send_farewell(const struct mmul_comm *comm);
bool mmul_comm_has_farewell(const struct mmul_comm *comm, int rank);

// Collective over node. Waits with short sleeps.
enum mmul_status mmul_comm_node_barrier(const struct mmul_comm *comm, struct mmul_error *err);

// Collective over world. Sends `bytes` bytes of root to all ranks, of any size.
enum mmul_status mmul_comm_broadcast(const struct mmul_comm *comm, void *data, int64_t bytes,
                                     struct mmul_error *err);

// Collective over world. Gathers `bytes` bytes of each rank on all ranks, in rank order; all has
// size * bytes.
enum mmul_status mmul_comm_allgather(const struct mmul_comm *comm, const void *mine, int64_t bytes,
                                     void *all, struct mmul_error *err);

// Like mmul_comm_allgather, with a different size on each rank. Release *all with mmul_free; *total
// is its size.
enum mmul_status mmul_comm_allgather_varying(const struct mmul_comm *comm, const void *mine,
                                             int64_t bytes, void **all, int64_t *total,
                                             struct mmul_error *err);

// Collective over world. Sends sizes[r] bytes of each rank r to root, in rank order. sizes: the
// same on all ranks. all: on root, with room for all of them. Fails with MMUL_ERR_SYSTEM, also
// beyond 2 GiB.
enum mmul_status mmul_comm_gather(const struct mmul_comm *comm, const void *mine,
                                  const int64_t *sizes, void *all, struct mmul_error *err);

// The reverse of mmul_comm_gather: sends sizes[r] bytes of root's `all` to each rank r, in rank
// order. Fails alike.
enum mmul_status mmul_comm_scatter(const struct mmul_comm *comm, const void *all,
                                   const int64_t *sizes, void *mine, struct mmul_error *err);
