// SPDX-License-Identifier: MIT
// The state belongs to the process, because its end does, too. Of several contexts the first one's
// ranks are covered. Open MPI keeps the collectives that are left unfinished.
#include "comm/refusal.h"

#include "comm/comm.h"

enum { TAG = 9300, TRIES = 3 };

static struct {
    MPI_Comm world; // borrowed; MPI_COMM_NULL: not listening
    MPI_Request receive;
    struct mmul_error err, received;
    bool is_lost, is_own; // own: the collective was refused here
} refusal = {.world = MPI_COMM_NULL, .receive = MPI_REQUEST_NULL};

int mmul_refusal_watch(MPI_Comm world, bool *begun) {
    int size, code = MPI_ERR_OTHER;
    *begun = false;
    MPI_Comm_size(world, &size);
    if (refusal.is_lost || refusal.world != MPI_COMM_NULL || size == 1)
        return MPI_SUCCESS;
    refusal.world = world;
    *begun = true;
    for (int i = 0; code != MPI_SUCCESS && i < TRIES; i++)
        code = MPI_Irecv(&refusal.received, (int)sizeof refusal.received, MPI_BYTE, MPI_ANY_SOURCE,
                         TAG, world, &refusal.receive);
    return code;
}

void mmul_refusal_unwatch(MPI_Comm world) {
    if (refusal.world != world || world == MPI_COMM_NULL)
        return;
    if (!mmul_refusal_poll() && refusal.receive != MPI_REQUEST_NULL) {
        MPI_Cancel(&refusal.receive);
        MPI_Request_free(&refusal.receive);
    }
    refusal.world = MPI_COMM_NULL;
}

bool mmul_refusal_poll(void) {
    int came = 0;
    if (refusal.is_lost || refusal.receive == MPI_REQUEST_NULL)
        return refusal.is_lost;
    if (MPI_Test(&refusal.receive, &came, MPI_STATUS_IGNORE) == MPI_SUCCESS && came) {
        refusal.err = refusal.received;
        refusal.is_lost = true;
    }
    return refusal.is_lost;
}

bool mmul_refusal_get(struct mmul_error *err) {
    if (refusal.is_lost)
        *err = refusal.err;
    return refusal.is_lost;
}

enum mmul_status mmul_refusal_check(MPI_Comm mpi, int code, const char *what,
                                    struct mmul_error *err) {
    int size = 1;
    if (code == MPI_SUCCESS || mmul_refusal_get(err))
        return code == MPI_SUCCESS ? MMUL_OK : err->status;
    if (mpi != MPI_COMM_NULL)
        MPI_Comm_size(mpi, &size);
    mmul_comm_check(code, what, err);
    if (size == 1 || refusal.world == MPI_COMM_NULL)
        return err->status;
    mmul_comm_name_rank(refusal.world, err);
    refusal.err = *err;
    refusal.is_lost = refusal.is_own = true;
    // The other ranks may be in another collective by now, or at the end.
    mmul_comm_notify_others(refusal.world, TAG, &refusal.err, (int)sizeof refusal.err);
    return err->status;
}

bool mmul_process_has_lost_mpi(bool *is_own) {
    *is_own = refusal.is_own;
    return refusal.is_lost;
}
