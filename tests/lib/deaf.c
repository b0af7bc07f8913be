// SPDX-License-Identifier: MIT
//
// For LD_PRELOAD in the ranks of a test: MPI refuses to receive. The environment says what:
//   MMUL_DEAF=TAG      every message of this tag
//   MMUL_DEAF=TAG:N    from the N-th one on
// Without it everything is received.
#include <mpi.h>

#include <stdlib.h>

int MPI_Irecv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    static int seen;
    const char *chosen = getenv("MMUL_DEAF");
    char *end = NULL;
    if (chosen != NULL && strtol(chosen, &end, 10) == tag &&
        ++seen >= (*end == ':' ? atoi(end + 1) : 1)) {
        *request = MPI_REQUEST_NULL;
        return MPI_ERR_OTHER;
    }
    return PMPI_Irecv(to, count, type, from, tag, comm, request);
}
