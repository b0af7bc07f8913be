// SPDX-License-Identifier: MIT
//
// For LD_PRELOAD in the ranks of a test: a bad network card. It flips one bit of one large message
// when the program passes it to MPI, so after the program has computed its checksum.
// Environment variables choose the message:
//   MMUL_TAMPER=scatterv, send or gatherv   the first large one that a rank sends by this call
//   MMUL_TAMPER=scatterv:2                  the second one
//   MMUL_TAMPER=send MMUL_TAMPER_TAG=73     the first large one with this tag
//   MMUL_TAMPER_HASH=1                      bad memory instead: the checksum is that of the
//                                           flipped bytes; the bit is in a float's exponent
// Without these variables nothing changes.
#include <mpi.h>

#define XXH_INLINE_ALL
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

// Plans and options are smaller than this, matrices in the tests are larger.
enum { LARGE_BYTES = 32768 };

// Returns 1 if this is the message that MMUL_TAMPER names.
static int is_chosen(const char *call, long bytes, int *seen) {
    const char *chosen = getenv("MMUL_TAMPER");
    size_t length = strlen(call);
    if (chosen == NULL || bytes < LARGE_BYTES || strncmp(chosen, call, length) != 0)
        return 0;
    int number = chosen[length] == ':' ? atoi(chosen + length + 1) : 1;
    return ++*seen == number;
}

static void flip(const void *buffer, long bytes) {
    long at = getenv("MMUL_TAMPER_HASH") != NULL ? bytes / 3 | 3 : bytes / 3;
    ((unsigned char *)(uintptr_t)buffer)[at] ^= 0x10;
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

int MPI_Iscatterv(const void *from, const int counts[], const int displacements[],
                  MPI_Datatype from_type, void *to, int count, MPI_Datatype to_type, int root,
                  MPI_Comm comm, MPI_Request *request) {
    static int seen;
    int size;
    MPI_Comm_size(comm, &size);
    for (int rank = 0; rank_in(comm) == root && rank < size; rank++) {
        long bytes = counts[rank] * size_of(from_type);
        if (is_chosen("scatterv", bytes, &seen))
            flip((const char *)from + displacements[rank] * size_of(from_type), bytes);
    }
    return PMPI_Iscatterv(from, counts, displacements, from_type, to, count, to_type, root, comm,
                          request);
}

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    static int seen;
    static uint64_t hash;
    const char *only = getenv("MMUL_TAMPER_TAG");
    if (hash != 0) // flips the first word of the trailer (comm/message.h)
        memcpy((void *)(uintptr_t)from, &hash, sizeof hash);
    hash = 0;
    if ((only == NULL || atoi(only) == tag) && is_chosen("send", count * size_of(type), &seen)) {
        flip(from, count * size_of(type));
        if (getenv("MMUL_TAMPER_HASH") != NULL)
            hash = XXH3_64bits(from, (size_t)(count * size_of(type)));
    }
    return PMPI_Isend(from, count, type, to, tag, comm, request);
}

int MPI_Igatherv(const void *from, int count, MPI_Datatype from_type, void *to, const int counts[],
                 const int displacements[], MPI_Datatype to_type, int root, MPI_Comm comm,
                 MPI_Request *request) {
    static int seen;
    if (rank_in(comm) != root && is_chosen("gatherv", count * size_of(from_type), &seen))
        flip(from, count * size_of(from_type));
    return PMPI_Igatherv(from, count, from_type, to, counts, displacements, to_type, root, comm,
                         request);
}
