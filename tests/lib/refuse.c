// SPDX-License-Identifier: MIT
//
// For LD_PRELOAD in the ranks of a test: MPI refuses a call. Environment variables choose it:
//   MMUL_REFUSE=RANK:CALL[.TAG][:N[+]]   on this rank; the first such call, the N-th, or all from
//                                        the N-th on
//   CALL: send receive (TAG: only with this tag) scatterv scatter gatherv gather barrier sum;
//         with "-test" behind it the test of the call's request instead
//   MMUL_APART=N                         makes each N ranks a node of their own on any machine
// Without these variables nothing changes.
#include <mpi.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { REMEMBERED = 64 };

static MPI_Request tested[REMEMBERED]; // requests with tests to refuse
static int tested_count;

// Returns the length of the word up to a colon; *next is the text behind it, or NULL.
static int word_length(const char *word, const char **next) {
    size_t length = strcspn(word, ":");
    *next = word[length] == ':' ? word + length + 1 : NULL;
    return (int)length;
}

// Counts the call in *seen if it matches MMUL_REFUSE, and returns true for a counted call to
// refuse.
static bool is_chosen(const char *call, const char *suffix, int tag, int *seen) {
    const char *word = getenv("MMUL_REFUSE"), *name, *number, *end;
    int rank;
    if (word == NULL)
        return false;
    word_length(word, &name);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (name == NULL || atoi(word) != rank)
        return false;
    int length = word_length(name, &number), stem = (int)strcspn(name, ".:-");
    if (stem != (int)strlen(call) || strncmp(name, call, (size_t)stem) != 0)
        return false;
    bool is_test = length > 5 && strncmp(name + length - 5, "-test", 5) == 0;
    if (is_test != (suffix[0] != '\0') || (name[stem] == '.' && atoi(name + stem + 1) != tag))
        return false;
    int first = number == NULL ? 1 : (int)strtol(number, (char **)(uintptr_t)&end, 10);
    ++*seen;
    return *seen == first || (number != NULL && *end == '+' && *seen > first);
}

// Remembers `request` if its tests are to be refused. Returns `code`, MPI's result of the call.
static int remember_request(const char *call, int tag, int *seen, int code,
                            const MPI_Request *request) {
    if (is_chosen(call, "-test", tag, seen) && tested_count < REMEMBERED)
        tested[tested_count++] = *request;
    return code;
}

static bool is_refused(const char *call, int tag, int *seen, MPI_Request *request) {
    if (!is_chosen(call, "", tag, seen))
        return false;
    *request = MPI_REQUEST_NULL;
    return true;
}

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    static int seen;
    if (is_refused("send", tag, &seen, request))
        return MPI_ERR_OTHER;
    return remember_request("send", tag, &seen,
                            PMPI_Isend(from, count, type, to, tag, comm, request), request);
}

int MPI_Irecv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    static int seen;
    if (is_refused("receive", tag, &seen, request))
        return MPI_ERR_OTHER;
    return remember_request("receive", tag, &seen,
                            PMPI_Irecv(to, count, type, from, tag, comm, request), request);
}

int MPI_Iscatterv(const void *from, const int counts[], const int displacements[],
                  MPI_Datatype from_type, void *to, int count, MPI_Datatype to_type, int root,
                  MPI_Comm comm, MPI_Request *request) {
    static int seen;
    if (is_refused("scatterv", 0, &seen, request))
        return MPI_ERR_OTHER;
    return remember_request("scatterv", 0, &seen,
                            PMPI_Iscatterv(from, counts, displacements, from_type, to, count,
                                           to_type, root, comm, request),
                            request);
}

int MPI_Iscatter(const void *from, int from_count, MPI_Datatype from_type, void *to, int count,
                 MPI_Datatype to_type, int root, MPI_Comm comm, MPI_Request *request) {
    static int seen;
    if (is_refused("scatter", 0, &seen, request))
        return MPI_ERR_OTHER;
    return remember_request(
        "scatter", 0, &seen,
        PMPI_Iscatter(from, from_count, from_type, to, count, to_type, root, comm, request),
        request);
}

int MPI_Igatherv(const void *from, int count, MPI_Datatype from_type, void *to, const int counts[],
                 const int displacements[], MPI_Datatype to_type, int root, MPI_Comm comm,
                 MPI_Request *request) {
    static int seen;
    if (is_refused("gatherv", 0, &seen, request))
        return MPI_ERR_OTHER;
    return remember_request("gatherv", 0, &seen,
                            PMPI_Igatherv(from, count, from_type, to, counts, displacements,
                                          to_type, root, comm, request),
                            request);
}

int MPI_Igather(const void *from, int from_count, MPI_Datatype from_type, void *to, int count,
                MPI_Datatype to_type, int root, MPI_Comm comm, MPI_Request *request) {
    static int seen;
    if (is_refused("gather", 0, &seen, request))
        return MPI_ERR_OTHER;
    return remember_request(
        "gather", 0, &seen,
        PMPI_Igather(from, from_count, from_type, to, count, to_type, root, comm, request),
        request);
}

int MPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request) {
    static int seen;
    if (type != MPI_DOUBLE) // agreements are not refused
        return PMPI_Iallreduce(from, to, count, type, op, comm, request);
    if (is_refused("sum", 0, &seen, request))
        return MPI_ERR_OTHER;
    return remember_request("sum", 0, &seen,
                            PMPI_Iallreduce(from, to, count, type, op, comm, request), request);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request) {
    static int seen;
    if (is_refused("barrier", 0, &seen, request))
        return MPI_ERR_OTHER;
    return remember_request("barrier", 0, &seen, PMPI_Ibarrier(comm, request), request);
}

static bool is_remembered(MPI_Request request) {
    for (int i = 0; request != MPI_REQUEST_NULL && i < tested_count; i++)
        if (tested[i] == request) {
            tested[i] = tested[--tested_count];
            return true;
        }
    return false;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    return is_remembered(*request) ? MPI_ERR_OTHER : PMPI_Test(request, flag, status);
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[]) {
    for (int i = 0; i < count; i++)
        if (is_remembered(requests[i]))
            return MPI_ERR_OTHER;
    return PMPI_Testall(count, requests, flag, statuses);
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made) {
    const char *ranks = getenv("MMUL_APART");
    int rank;
    if (ranks == NULL || type != MPI_COMM_TYPE_SHARED)
        return PMPI_Comm_split_type(comm, type, key, info, made);
    PMPI_Comm_rank(comm, &rank);
    return PMPI_Comm_split(comm, rank / atoi(ranks), key, made);
}
