// SPDX-License-Identifier: MIT
// The start-up handshake: root broadcasts its identity, each rank compares its own, and the lowest
// rank that differs writes the error line that all ranks leave with.
#include "comm/handshake.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

// Plain bytes of fixed size, so that even different versions can compare them.
struct identity {
    unsigned char byte_order[4];
    char version[60];
    char mpi[128];
    char host[64];
};

char *mmul_comm_library_name(char name[static 64]) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n")] = '\0';
    mmul_text_copy(name, 64, library);
    return name;
}

static void identify(struct identity *me, const char *version) {
    const uint32_t order = 0x01020304;
    char library[64], host[MPI_MAX_PROCESSOR_NAME] = "";
    int length;
    memset(me, 0, sizeof *me);
    memcpy(me->byte_order, &order, sizeof order);
    mmul_text_copy(me->version, sizeof me->version, version);
    mmul_text_copy(me->mpi, sizeof me->mpi, mmul_comm_library_name(library));
    MPI_Get_processor_name(host, &length);
    mmul_text_copy(me->host, sizeof me->host, host);
}

static const char *order_name(const struct identity *of) {
    return of->byte_order[0] == 4 ? "little-endian" : "big-endian";
}

static enum mmul_status compare_identity(const struct mmul_comm *comm, const struct identity *root,
                                         const struct identity *me, struct mmul_error *err) {
    const struct {
        const char *what, *mine, *theirs;
    } parts[] = {
        {"with byte order", order_name(me), order_name(root)},
        {"mpimatmul", me->version, root->version},
        {"MPI library", me->mpi, root->mpi},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(parts[i].mine, parts[i].theirs) == 0)
            continue;
        mmul_fail(err, MMUL_ERR_SYSTEM, "rank %d on %s runs %s %s, root on %s runs %s", comm->rank,
                  me->host, parts[i].what, parts[i].mine, root->host, parts[i].theirs);
        mmul_hint(err, "install the same version on every machine");
        return MMUL_ERR_SYSTEM;
    }
    return MMUL_OK;
}

// Compares both texts line by line; they list the same names in the same order.
static enum mmul_status compare_options(const struct mmul_comm *comm, const char *root,
                                        const char *mine, struct mmul_error *err) {
    while (*root != '\0' || *mine != '\0') {
        const int a = (int)strcspn(root, "\n"), b = (int)strcspn(mine, "\n");
        if (a != b || strncmp(root, mine, (size_t)a) != 0)
            return mmul_fail(err, MMUL_ERR_USAGE,
                             "options must agree on all ranks: rank %d has '%.*s', root has '%.*s'",
                             comm->rank, b < 200 ? b : 200, mine, a < 200 ? a : 200, root);
        root += a + (root[a] == '\n');
        mine += b + (mine[b] == '\n');
    }
    return MMUL_OK;
}

static enum mmul_status check_options(const struct mmul_comm *comm, const char *options,
                                      struct mmul_error *err) {
    int64_t bytes = (int64_t)strlen(options) + 1;
    char *root = NULL;
    enum mmul_status status = mmul_comm_broadcast(comm, &bytes, sizeof bytes, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(root, bytes, "options", err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK) {
        if (comm->rank == 0)
            memcpy(root, options, (size_t)bytes);
        status = mmul_comm_broadcast(comm, root, bytes, err);
        if (status == MMUL_OK)
            status = compare_options(comm, root, options, err);
        status = mmul_comm_agree(comm, status, err);
    }
    mmul_free(root);
    return status;
}

enum mmul_status mmul_handshake(const struct mmul_comm *comm, const char *version,
                                const char *options, struct mmul_error *err) {
    struct identity me, root;
    identify(&me, version);
    root = me;
    enum mmul_status status = mmul_comm_broadcast(comm, &root, sizeof root, err);
    if (status == MMUL_OK)
        status = compare_identity(comm, &root, &me, err);
    status = mmul_comm_agree(comm, status, err);
    return status == MMUL_OK ? check_options(comm, options != NULL ? options : "", err) : status;
}
