// SPDX-License-Identifier: MIT
// Communicators and small exchanges. All sizes are checked here against MPI's int counts. Matrices
// travel through channel.c instead.
// An alarm is an empty message from one leader to all others. Unreceived alarms are left to MPI.
#include "comm/comm.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "comm/refusal.h"

// A wait spins for this long, for answers that are in flight. Then the sleeps double up to the
// longest (src/NOTES.md, "MPI between nodes").
static const double SPIN_SECONDS = 100e-6, FIRST_NAP_SECONDS = 10e-6, LONGEST_NAP_SECONDS = 200e-6;
enum { CHUNK_BYTES = 1 << 30, ALARM_TAG = 9100, FAREWELL_TAG = 9200, TRIES = 3 };

enum mmul_status mmul_comm_check(int code, const char *what, struct mmul_error *err) {
    if (code == MPI_SUCCESS)
        return MMUL_OK;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (mmul_refusal_get(err))
        return err->status;
    MPI_Error_string(code, text, &length);
    return mmul_fail(err, MMUL_ERR_SYSTEM, "MPI %s failed: %.200s", what, text);
}

enum mmul_status mmul_alarm_begin(struct mmul_alarm *alarm, MPI_Comm leaders,
                                  struct mmul_error *err) {
    *alarm = (struct mmul_alarm){.leaders = leaders, .alarm_receive = MPI_REQUEST_NULL};
    int code =
        MPI_Irecv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, ALARM_TAG, leaders, &alarm->alarm_receive);
    return mmul_comm_check(code, "communicator set-up", err);
}

void mmul_alarm_end(struct mmul_alarm *alarm) {
    if (alarm->alarm_receive == MPI_REQUEST_NULL)
        return;
    MPI_Cancel(&alarm->alarm_receive);
    MPI_Request_free(&alarm->alarm_receive);
}

static void send_and_forget(MPI_Comm mpi, int to, int tag, const void *data, int bytes) {
    MPI_Request request;
    for (int i = 0; i < TRIES; i++) {
        if (MPI_Isend(data, bytes, MPI_BYTE, to, tag, mpi, &request) != MPI_SUCCESS)
            continue;
        MPI_Request_free(&request);
        return;
    }
}

void mmul_comm_notify_others(MPI_Comm mpi, int tag, const void *data, int bytes) {
    int rank, size;
    MPI_Comm_rank(mpi, &rank);
    MPI_Comm_size(mpi, &size);
    for (int other = 0; other < size; other++)
        if (other != rank)
            send_and_forget(mpi, other, tag, data, bytes);
}

void mmul_alarm_raise(struct mmul_alarm *alarm) {
    if (alarm == NULL || alarm->is_raised)
        return;
    alarm->is_raised = true;
    mmul_comm_notify_others(alarm->leaders, ALARM_TAG, NULL, 0);
}

bool mmul_alarm_poll(struct mmul_alarm *alarm) {
    int came = 0;
    if (alarm == NULL || alarm->is_raised)
        return alarm != NULL;
    if (MPI_Test(&alarm->alarm_receive, &came, MPI_STATUS_IGNORE) == MPI_SUCCESS && came)
        alarm->is_raised = true;
    return alarm->is_raised;
}

bool mmul_alarm_is_raised(const struct mmul_alarm *alarm) {
    return alarm != NULL && alarm->is_raised;
}

static void (*attend_wait)(void);

void mmul_comm_set_wait_callback(void (*attend)(void)) {
    attend_wait = attend;
}

// Sleeps after `spin` seconds. Yields before that, as MPI's own waits do.
static int wait_after(double spin, MPI_Request *request, struct mmul_alarm *alarm) {
    double begin = mmul_clock_now(), nap = FIRST_NAP_SECONDS;
    for (int done = 0;;) {
        int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS || done)
            return code;
        if (mmul_alarm_poll(alarm) || mmul_refusal_poll())
            return MPI_ERR_OTHER;
        if (mmul_clock_now() - begin < spin) {
            sched_yield();
            continue;
        }
        if (attend_wait != NULL)
            attend_wait();
        mmul_clock_sleep(nap);
        nap = 2 * nap < LONGEST_NAP_SECONDS ? 2 * nap : LONGEST_NAP_SECONDS;
    }
}

int mmul_comm_wait(MPI_Request *request, struct mmul_alarm *alarm) {
    return wait_after(SPIN_SECONDS, request, alarm);
}

int mmul_comm_finish(int code, MPI_Request *request) {
    return code == MPI_SUCCESS ? mmul_comm_wait(request, NULL) : code;
}

int mmul_comm_duplicate(MPI_Comm from, MPI_Comm *copy) {
    int code = MPI_ERR_OTHER;
    for (int i = 0; code != MPI_SUCCESS && i < TRIES; i++)
        code = MPI_Comm_dup(from, copy);
    return code;
}

int mmul_comm_split(MPI_Comm from, int color, int key, MPI_Comm *part) {
    int code = MPI_ERR_OTHER;
    for (int i = 0; code != MPI_SUCCESS && i < TRIES; i++)
        code = MPI_Comm_split(from, color, key, part);
    return code;
}

static int split_by_node(MPI_Comm from, int key, MPI_Comm *node) {
    int code = MPI_ERR_OTHER;
    for (int i = 0; code != MPI_SUCCESS && i < TRIES; i++)
        code = MPI_Comm_split_type(from, MPI_COMM_TYPE_SHARED, key, MPI_INFO_NULL, node);
    return code;
}

void mmul_comm_send_farewell(const struct mmul_comm *comm) {
    MPI_Request request;
    if (MPI_Isend(NULL, 0, MPI_BYTE, 0, FAREWELL_TAG, comm->world, &request) == MPI_SUCCESS)
        MPI_Request_free(&request);
}

bool mmul_comm_has_farewell(const struct mmul_comm *comm, int rank) {
    int came = 0;
    return MPI_Iprobe(rank, FAREWELL_TAG, comm->world, &came, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           came;
}

static int find_nodes(struct mmul_comm *comm) {
    MPI_Request request;
    int code = split_by_node(comm->world, comm->rank, &comm->node);
    if (code != MPI_SUCCESS)
        return code;
    MPI_Comm_rank(comm->node, &comm->node_rank);
    MPI_Comm_size(comm->node, &comm->node_size);
    code = mmul_comm_split(comm->world, comm->node_rank == 0 ? 0 : MPI_UNDEFINED, comm->rank,
                           &comm->leaders);
    if (code != MPI_SUCCESS)
        return code;
    int here[2] = {0, 0};
    if (comm->leaders != MPI_COMM_NULL) {
        MPI_Comm_rank(comm->leaders, &here[0]);
        MPI_Comm_size(comm->leaders, &here[1]);
    }
    code = MPI_Ibcast(here, 2, MPI_INT, 0, comm->node, &request);
    code = mmul_comm_finish(code, &request);
    comm->node_index = here[0];
    comm->node_count = here[1];
    return code;
}

static enum mmul_status create_communicators(struct mmul_comm *comm, MPI_Comm parent,
                                             struct mmul_error *err) {
    bool is_watched;
    int code = mmul_comm_duplicate(parent, &comm->world);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(comm->world, MPI_ERRORS_RETURN); // inherited by splits
    if (code == MPI_SUCCESS) {
        mmul_refusal_unwatch(parent);
        code = mmul_refusal_watch(comm->world, &is_watched);
    }
    if (code == MPI_SUCCESS) {
        MPI_Comm_rank(comm->world, &comm->rank);
        MPI_Comm_size(comm->world, &comm->size);
        code = find_nodes(comm);
    }
    enum mmul_status status = mmul_refusal_check(parent, code, "communicator set-up", err);
    if (status != MMUL_OK)
        return status;
    status = MMUL_ALLOCATE_ALL("ranks", err, MMUL_ARRAY(comm->rank_node, comm->size),
                               MMUL_ARRAY(comm->directions, 1));
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(comm->directions->members, comm->size, "ranks", err);
    if (status == MMUL_OK && comm->leaders != MPI_COMM_NULL)
        status = MMUL_ALLOCATE(comm->alarm, 1, "ranks", err);
    if (status == MMUL_OK && comm->leaders != MPI_COMM_NULL)
        status = mmul_alarm_begin(comm->alarm, comm->leaders, err);
    status = mmul_comm_agree(comm, status, err);
    if (status != MMUL_OK)
        return status;
    return mmul_comm_allgather(comm, &comm->node_index, sizeof(int), comm->rank_node, err);
}

enum mmul_status mmul_comm_create(MPI_Comm parent, struct mmul_comm **comm,
                                  struct mmul_error *err) {
    struct mmul_comm *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "communicators", err);
    struct mmul_error agreed = {.status = status};
    if (status != MMUL_OK)
        agreed = *err;
    if (mmul_comm_agree_over(parent, &agreed) != MMUL_OK) {
        mmul_free(made);
        *err = agreed;
        return agreed.status;
    }
    bool is_watched;
    made->world = made->node = made->leaders = MPI_COMM_NULL;
    status = mmul_refusal_check(parent, mmul_refusal_watch(parent, &is_watched),
                                "communicator set-up", err);
    if (status == MMUL_OK)
        status = create_communicators(made, parent, err);
    if (is_watched)
        mmul_refusal_unwatch(parent);
    if (status == MMUL_OK)
        *comm = made;
    else
        mmul_comm_destroy(made);
    return status;
}

enum mmul_status mmul_comm_create_alone(struct mmul_comm **comm, struct mmul_error *err) {
    return mmul_comm_create(MPI_COMM_SELF, comm, err);
}

void mmul_traffic_comms_free(struct mmul_traffic_comms *directions) {
    if (directions->outward != MPI_COMM_NULL)
        MPI_Comm_free(&directions->outward);
    if (directions->inward != MPI_COMM_NULL)
        MPI_Comm_free(&directions->inward);
    directions->are_created = false;
}

static void free_communicators(struct mmul_comm *comm) {
    if (comm->alarm != NULL)
        mmul_alarm_end(comm->alarm);
    if (comm->directions != NULL && comm->directions->are_created && !mmul_comm_is_broken(comm))
        mmul_traffic_comms_free(comm->directions);
    if (comm->leaders != MPI_COMM_NULL && !mmul_comm_is_broken(comm))
        MPI_Comm_free(&comm->leaders);
    if (comm->node != MPI_COMM_NULL)
        MPI_Comm_free(&comm->node);
    if (comm->world != MPI_COMM_NULL)
        MPI_Comm_free(&comm->world);
}

void mmul_comm_destroy(struct mmul_comm *comm) {
    struct mmul_error lost;
    if (comm == NULL)
        return;
    mmul_refusal_unwatch(comm->world);
    if (!mmul_refusal_get(&lost)) // else MPI may still use the communicators
        free_communicators(comm);
    if (comm->directions != NULL)
        mmul_free(comm->directions->members);
    MMUL_FREE_ALL(comm->alarm, comm->directions, comm->rank_node, comm);
}

bool mmul_comm_is_broken(const struct mmul_comm *comm) {
    return mmul_alarm_is_raised(comm->alarm);
}

enum mmul_status mmul_comm_agree_over(MPI_Comm mpi, struct mmul_error *err) {
    int rank, size, lowest;
    bool is_watched;
    MPI_Request request;
    if (mmul_refusal_get(err))
        return err->status;
    int code = mmul_refusal_watch(mpi, &is_watched);
    MPI_Comm_rank(mpi, &rank);
    MPI_Comm_size(mpi, &size);
    int mine = err->status != MMUL_OK ? rank : size;
    if (code == MPI_SUCCESS)
        code = MPI_Iallreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, mpi, &request);
    code = mmul_comm_finish(code, &request);
    if (code == MPI_SUCCESS && lowest < size) {
        code = MPI_Ibcast(err, (int)sizeof *err, MPI_BYTE, lowest, mpi, &request);
        code = mmul_comm_finish(code, &request);
    }
    const enum mmul_status status = mmul_refusal_check(mpi, code, "agreement", err);
    if (is_watched)
        mmul_refusal_unwatch(mpi);
    return status == MMUL_OK ? err->status : status;
}

void mmul_comm_name_rank(MPI_Comm mpi, struct mmul_error *err) {
    char text[sizeof err->text], host[MPI_MAX_PROCESSOR_NAME] = "";
    int length, rank;
    MPI_Comm_rank(mpi, &rank);
    if (rank == 0 || strncmp(err->text, "rank ", 5) == 0)
        return;
    MPI_Get_processor_name(host, &length);
    mmul_make_printable(host);
    snprintf(text, sizeof text, "rank %d on %.64s: %.900s", rank, host, err->text);
    memcpy(err->text, text, sizeof text);
}

enum mmul_status mmul_comm_agree(const struct mmul_comm *comm, enum mmul_status status,
                                 struct mmul_error *err) {
    if (status == MMUL_OK)
        err->status = MMUL_OK;
    else
        mmul_comm_name_rank(comm->world, err);
    return mmul_comm_agree_over(comm->world, err);
}

enum mmul_status mmul_comm_node_barrier(const struct mmul_comm *comm, struct mmul_error *err) {
    MPI_Request request;
    if (mmul_refusal_get(err))
        return err->status;
    const int code = mmul_comm_finish(MPI_Ibarrier(comm->node, &request), &request);
    return mmul_refusal_check(comm->node, code, "barrier", err);
}

// Broadcasts with a long spin: ranks wait here for the next command of root, and a short step of a
// program must not wait for the end of a sleep.
static int broadcast_in(MPI_Comm mpi, void *data, int count) {
    static const double spin_seconds = 2e-3;
    MPI_Request request;
    const int code = MPI_Ibcast(data, count, MPI_BYTE, 0, mpi, &request);
    return code == MPI_SUCCESS ? wait_after(spin_seconds, &request, NULL) : code;
}

// Broadcasts to the leaders first, so that each node receives the bytes once.
static int broadcast(const struct mmul_comm *comm, void *data, int count) {
    int code = MPI_SUCCESS;
    if (comm->node_count == 1)
        return broadcast_in(comm->world, data, count);
    if (comm->leaders != MPI_COMM_NULL)
        code = broadcast_in(comm->leaders, data, count);
    return code == MPI_SUCCESS ? broadcast_in(comm->node, data, count) : code;
}

enum mmul_status mmul_comm_broadcast(const struct mmul_comm *comm, void *data, int64_t bytes,
                                     struct mmul_error *err) {
    if (mmul_refusal_get(err))
        return err->status;
    for (int64_t at = 0; at < bytes; at += CHUNK_BYTES) {
        int count = (int)(bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES);
        int code = broadcast(comm, (char *)data + at, count);
        if (code != MPI_SUCCESS)
            return mmul_refusal_check(comm->world, code, "broadcast", err);
    }
    return MMUL_OK;
}

enum mmul_status mmul_comm_allgather(const struct mmul_comm *comm, const void *mine, int64_t bytes,
                                     void *all, struct mmul_error *err) {
    MPI_Request request;
    if (mmul_refusal_get(err))
        return err->status;
    if (bytes * comm->size > INT32_MAX)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot share %lld bytes from each of %d ranks",
                         (long long)bytes, comm->size);
    const int code = MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE,
                                    comm->world, &request);
    return mmul_refusal_check(comm->world, mmul_comm_finish(code, &request), "gather", err);
}

// Converts the sizes of all ranks into counts and displacements. Returns false if they exceed MPI's
// int.
static bool compute_displacements(const int64_t *sizes, int size, int *counts, int *displacements) {
    int64_t at = 0;
    for (int rank = 0; rank < size; rank++) {
        if (at + sizes[rank] > INT32_MAX)
            return false;
        counts[rank] = (int)sizes[rank];
        displacements[rank] = (int)at;
        at += sizes[rank];
    }
    return true;
}

enum mmul_status mmul_comm_allgather_varying(const struct mmul_comm *comm, const void *mine,
                                             int64_t bytes, void **all, int64_t *total,
                                             struct mmul_error *err) {
    int64_t *sizes = NULL;
    int *counts = NULL;
    char *gathered = NULL;
    MPI_Request request;
    enum mmul_status status = MMUL_ALLOCATE_ALL("sizes", err, MMUL_ARRAY(sizes, comm->size),
                                                MMUL_ARRAY(counts, 2 * comm->size));
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_allgather(comm, &bytes, sizeof bytes, sizes, err);
    if (status != MMUL_OK)
        goto out;
    int *displacements = counts + comm->size;
    if (!compute_displacements(sizes, comm->size, counts, displacements))
        status = mmul_fail(err, MMUL_ERR_SYSTEM, "ranks have more than 2 GiB to share");
    int64_t sum = displacements[comm->size - 1] + (int64_t)counts[comm->size - 1];
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(gathered, sum, "shared bytes", err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK) {
        const int code = MPI_Iallgatherv(mine, (int)bytes, MPI_BYTE, gathered, counts,
                                         displacements, MPI_BYTE, comm->world, &request);
        status = mmul_refusal_check(comm->world, mmul_comm_finish(code, &request), "gather", err);
    }
    if (status == MMUL_OK) {
        *all = gathered;
        *total = sum;
        gathered = NULL;
    }
out:
    MMUL_FREE_ALL(gathered, counts, sizes);
    return status;
}

// Computes counts, then displacements, for an exchange between root and all ranks. Release them
// with mmul_free.
static enum mmul_status compute_root_displacements(const struct mmul_comm *comm,
                                                   const int64_t *sizes, int **counts,
                                                   struct mmul_error *err) {
    *counts = NULL;
    enum mmul_status status = MMUL_ALLOCATE(*counts, 2 * comm->size, "counts", err);
    if (status == MMUL_OK &&
        !compute_displacements(sizes, comm->size, *counts, *counts + comm->size))
        status = mmul_fail(err, MMUL_ERR_SYSTEM, "root and ranks exchange more than 2 GiB");
    return mmul_comm_agree(comm, status, err);
}

enum mmul_status mmul_comm_gather(const struct mmul_comm *comm, const void *mine,
                                  const int64_t *sizes, void *all, struct mmul_error *err) {
    MPI_Request request;
    int *counts = NULL;
    enum mmul_status status = compute_root_displacements(comm, sizes, &counts, err);
    if (status == MMUL_OK) {
        const int code = MPI_Igatherv(mine, (int)sizes[comm->rank], MPI_BYTE, all, counts,
                                      counts + comm->size, MPI_BYTE, 0, comm->world, &request);
        status = mmul_refusal_check(comm->world, mmul_comm_finish(code, &request), "gather", err);
    }
    mmul_free(counts);
    return status;
}

enum mmul_status mmul_comm_scatter(const struct mmul_comm *comm, const void *all,
                                   const int64_t *sizes, void *mine, struct mmul_error *err) {
    MPI_Request request;
    int *counts = NULL;
    enum mmul_status status = compute_root_displacements(comm, sizes, &counts, err);
    if (status == MMUL_OK) {
        const int code = MPI_Iscatterv(all, counts, counts + comm->size, MPI_BYTE, mine,
                                       (int)sizes[comm->rank], MPI_BYTE, 0, comm->world, &request);
        status = mmul_refusal_check(comm->world, mmul_comm_finish(code, &request), "scatter", err);
    }
    mmul_free(counts);
    return status;
}
