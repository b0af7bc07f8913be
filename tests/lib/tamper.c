// SPDX-License-Identifier: MIT
//
// A bad network card, for LD_PRELOAD in the ranks of a test: flips one bit of one large message after MPI has
// delivered it and before the program looks at it. The environment chooses the message:
//   MMUL_TAMPER=scatterv, bcast or gatherv   the first large one that this call brings to a rank
//   MMUL_TAMPER=scatterv:2                   the second one
// Without it nothing is changed.
#include <mpi.h>

#include <stdlib.h>
#include <string.h>

// Plans and options are smaller than this, matrices in the tests are larger.
enum { LARGE_BYTES = 32768 };

// Whether this is the message that MMUL_TAMPER names.
static int is_chosen(const char *call, long bytes, int *seen) {
    const char *chosen = getenv("MMUL_TAMPER");
    size_t length = strlen(call);
    if (chosen == NULL || bytes < LARGE_BYTES || strncmp(chosen, call, length) != 0)
        return 0;
    int number = chosen[length] == ':' ? atoi(chosen + length + 1) : 1;
    return ++*seen == number;
}

static void flip(void *buffer, long bytes) {
    ((unsigned char *)buffer)[bytes / 3] ^= 0x10;
}

static int rank_in(MPI_Comm comm) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    return rank;
}

static long size_of(MPI_Datatype type) {
    int bytes;
    MPI_Type_size(type, &bytes);
    return bytes;
}

int MPI_Scatterv(const void *from, const int counts[], const int displacements[],
                 MPI_Datatype from_type, void *to, int count, MPI_Datatype to_type, int root,
                 MPI_Comm comm) {
    static int seen;
    int code =
        PMPI_Scatterv(from, counts, displacements, from_type, to, count, to_type, root, comm);
    if (rank_in(comm) != root && is_chosen("scatterv", count * size_of(to_type), &seen))
        flip(to, count * size_of(to_type));
    return code;
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    static int seen;
    int code = PMPI_Bcast(buffer, count, type, root, comm);
    if (rank_in(comm) != root && is_chosen("bcast", count * size_of(type), &seen))
        flip(buffer, count * size_of(type));
    return code;
}

int MPI_Gatherv(const void *from, int count, MPI_Datatype from_type, void *to, const int counts[],
                const int displacements[], MPI_Datatype to_type, int root, MPI_Comm comm) {
    static int seen;
    int code = PMPI_Gatherv(from, count, from_type, to, counts, displacements, to_type, root, comm);
    int size;
    MPI_Comm_size(comm, &size);
    for (int rank = 0; rank_in(comm) == root && rank < size; rank++) {
        long bytes = counts[rank] * size_of(to_type);
        if (is_chosen("gatherv", bytes, &seen))
            flip((char *)to + displacements[rank] * size_of(to_type), bytes);
    }
    return code;
}
