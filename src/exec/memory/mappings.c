// SPDX-License-Identifier: MIT
// Root offers its matrices: location, file name and fingerprint. Leaders of other nodes look for
// the same files. Then each node maps what its leader has found. Finding and opening make the same
// offers, so that a file changed in between is noticed. Which bytes are used when is decided in
// exec/conduct/run.
#include "exec/memory/mappings.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "io/file_mapping.h"
#include "io/fingerprint.h"
#include "io/output_file.h"
#include "model/matrix.h"

// In the order of enum mmul_maps.
enum { A, B, C_IN, C, MATRICES };

enum { PATH_BYTES = 4096 };

// An offer of one of root's matrices, sent as bytes to all ranks. `extent` holds root's descriptor
// and address, valid on root only.
struct offer {
    struct mmul_extent extent;
    bool is_usable, is_file;
    bool writes_back;                    // for the output
    struct mmul_fingerprint fingerprint; // for files that other nodes will look for
    int path_bytes; // leading bytes of `name` that are the path; a tensor in the file may follow
    char name[PATH_BYTES]; // as given to root
    char real_path[PATH_BYTES];
};

struct offers {
    uint64_t seed; // seeds the fingerprints
    struct offer all[MATRICES];
};

// ------------------------------------------------------------------------------------------ offers

static struct mmul_file_range file_part_of(const struct mmul_extent *extent) {
    return (struct mmul_file_range){extent->offset, extent->offset + extent->bytes};
}

// Fills in the offer of an input. With a seed it adds the path and the fingerprint, by which other
// nodes find the file.
static enum mmul_status offer_input(const struct mmul_comm *comm, const struct mmul_matrix *matrix,
                                    enum mmul_dtype dtype, const uint64_t *seed,
                                    struct offer *offer, struct mmul_error *err) {
    mmul_text_copy(offer->name, sizeof offer->name, mmul_matrix_name(matrix));
    if (!mmul_matrix_extent(matrix, dtype, &offer->extent))
        return MMUL_OK;
    offer->is_file = offer->extent.memory == NULL;
    offer->is_usable = offer->is_file || comm->node_size == 1;
    if (!offer->is_file || seed == NULL)
        return MMUL_OK;
    size_t path_bytes = strlen(offer->extent.path);
    if (strncmp(offer->name, offer->extent.path, path_bytes) != 0)
        mmul_text_copy(offer->name, sizeof offer->name, offer->extent.path);
    offer->path_bytes = (int)path_bytes;
    char *real_path = realpath(offer->extent.path, NULL);
    mmul_text_copy(offer->real_path, sizeof offer->real_path, real_path ? real_path : "");
    free(real_path);
    return mmul_fingerprint_compute(offer->extent.fd, offer->name, file_part_of(&offer->extent),
                                    *seed, &offer->fingerprint, err);
}

static void offer_output(const struct mmul_comm *comm, const struct mmul_output *output,
                         enum mmul_dtype dtype, struct offer *offer) {
    mmul_text_copy(offer->name, sizeof offer->name, output->name != NULL ? output->name : "C");
    if (mmul_output_is_planned(output))
        offer->is_usable = output->dtype == dtype;
    if (!mmul_output_extent(output, dtype, &offer->extent))
        return;
    offer->is_file = offer->extent.memory == NULL;
    offer->is_usable = offer->is_file || comm->node_size == 1;
    offer->writes_back = mmul_output_needs_write_back(output);
}

// Fills in all offers. Root only.
static enum mmul_status fill_offers(const struct mmul_comm *comm,
                                    const struct mmul_product_files *files, bool others_look,
                                    struct offers *offers, struct mmul_error *err) {
    const struct mmul_matrix *const inputs[] = {files->a, files->b, files->c_in};
    enum mmul_status status = MMUL_OK;
    offers->seed = mmul_random_seed();
    for (int i = A; status == MMUL_OK && i <= C_IN; i++) {
        const bool is_added = i == C_IN; // C_in must have the type of C
        if (inputs[i] == NULL || (is_added && files->c_in_is_broadcast))
            continue;
        const enum mmul_dtype dtype = is_added || files->dtype == MMUL_F64
                                          ? files->dtype
                                          : mmul_matrix_info(inputs[i]).delivered;
        status = offer_input(comm, inputs[i], dtype, others_look ? &offers->seed : NULL,
                             &offers->all[i], err);
    }
    if (status == MMUL_OK && files->output != NULL)
        offer_output(comm, files->output, files->dtype, &offers->all[C]);
    return status;
}

// Makes root's offers and sends them to all ranks. Collective over world. Release *offers with
// mmul_free.
static enum mmul_status make_offers(const struct mmul_comm *comm,
                                    const struct mmul_product_files *files, bool others_look,
                                    struct offers **offers, struct mmul_error *err) {
    struct offers *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "file names", err);
    if (status == MMUL_OK && comm->rank == 0)
        status = fill_offers(comm, files, others_look, made, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, made, sizeof *made, err);
    if (status == MMUL_OK)
        *offers = made;
    else
        mmul_free(made);
    return status;
}

// ----------------------------------------------------------------------------------------- finding

// Opens root's file on another node and compares it. An error names the file as root was given it.
static enum mmul_status open_same_file(const struct offers *offers, int matrix, int *fd,
                                       struct mmul_error *err) {
    const struct offer *offer = &offers->all[matrix];
    const struct mmul_file_range part = file_part_of(&offer->extent);
    struct mmul_error ignored;
    char path[PATH_BYTES];
    int opened = -1;
    snprintf(path, sizeof path, "%.*s", offer->path_bytes, offer->name);
    enum mmul_status status =
        mmul_fingerprint_open(path, part, offers->seed, &offer->fingerprint, &opened, err);
    if (status != MMUL_OK &&
        mmul_fingerprint_open(offer->real_path, part, offers->seed, &offer->fingerprint, &opened,
                              &ignored) != MMUL_OK)
        return status;
    if (!mmul_file_can_map(opened, false)) {
        close(opened);
        return mmul_fail(err, MMUL_ERR_NO_INPUT, "cannot map '%s'", offer->name);
    }
    *fd = opened;
    return MMUL_OK;
}

// Finds the matrices that this node can map. Leaders only.
static enum mmul_status find_own_maps(const struct mmul_comm *comm, const struct offers *offers,
                                      enum mmul_io io, unsigned *maps, struct mmul_error *err) {
    unsigned found = 0;
    for (int i = A; i < MATRICES; i++) {
        const struct offer *offer = &offers->all[i];
        if (comm->node_index == 0) {
            found |= offer->is_usable ? 1U << i : 0;
            continue;
        }
        if (io == MMUL_IO_ROOT || i == C || !offer->is_file)
            continue;
        int fd = -1;
        enum mmul_status status = open_same_file(offers, i, &fd, err);
        if (status == MMUL_OK) {
            close(fd);
            found |= 1U << i;
        } else if (io == MMUL_IO_SHARED) {
            mmul_hint(err,
                      "leave out --io shared: root then sends the files that a node does not see");
            return status;
        }
    }
    *maps = found;
    return MMUL_OK;
}

// Shares the maps of all nodes. Each leader gives its node's, other ranks 0.
static enum mmul_status share_maps(const struct mmul_comm *comm, unsigned maps, unsigned *node_maps,
                                   struct mmul_error *err) {
    void *gathered = NULL;
    int64_t bytes = 0;
    enum mmul_status status =
        mmul_comm_allgather_varying(comm, &maps, sizeof maps, &gathered, &bytes, err);
    if (status != MMUL_OK)
        return status;
    const unsigned *all = gathered;
    for (int node = 0; node < comm->node_count; node++)
        node_maps[node] = 0;
    for (int rank = 0; rank < comm->size; rank++)
        node_maps[comm->rank_node[rank]] |= all[rank];
    mmul_free(gathered);
    return MMUL_OK;
}

enum mmul_status mmul_mappings_find(struct mmul_context *context,
                                    const struct mmul_product_files *files, enum mmul_io io,
                                    unsigned *node_maps, struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    struct offers *offers = NULL;
    unsigned maps = 0;
    bool others_look = comm->node_count > 1 && io != MMUL_IO_ROOT;
    enum mmul_status status = make_offers(comm, files, others_look, &offers, err);
    if (status != MMUL_OK)
        return status;
    if (comm->node_rank == 0)
        status = find_own_maps(comm, offers, io, &maps, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = share_maps(comm, maps, node_maps, err);
    mmul_free(offers);
    return status;
}

// ----------------------------------------------------------------------------------------- opening

static struct mmul_shared *view_at(struct mmul_mappings *views, int matrix) {
    struct mmul_shared *const all[] = {&views->a, &views->b, &views->c_in, &views->c};
    return all[matrix];
}

// Finds the file or memory of a matrix. Leaders only.
static enum mmul_status find_source(const struct mmul_comm *comm, const struct offers *offers,
                                    int matrix, struct mmul_shared_source *source,
                                    struct mmul_error *err) {
    const struct offer *offer = &offers->all[matrix];
    bool is_root = comm->rank == 0;
    if (is_root ? !offer->is_usable : !offer->is_file || matrix == C)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot map '%s' as the plan requires", offer->name);
    source->offset = offer->extent.offset;
    source->bytes = offer->extent.bytes;
    source->writable = matrix == C;
    if (!is_root)
        return open_same_file(offers, matrix, &source->fd, err);
    source->memory = offer->extent.memory;
    source->fd = offer->extent.fd;
    source->has_shared_lock = offer->extent.has_shared_lock;
    return MMUL_OK;
}

// Fills in the origin of a mapped view and guards the mapping. Other nodes may see another
// modification time of the same file, so each uses its own. Local.
static enum mmul_status guard_view(const struct mmul_shared *view, const struct offer *offer,
                                   bool is_roots, struct mmul_mapping_origin *origin,
                                   struct mmul_error *err) {
    origin->end = offer->extent.offset + offer->extent.bytes;
    origin->modified_ns = is_roots ? offer->extent.modified_ns : mmul_file_modified_ns(view->fd);
    enum mmul_status status = mmul_copy_text(offer->name, &origin->name, err);
    if (status == MMUL_OK)
        status = mmul_guard_create(view->mapping, view->mapped_bytes, &origin->guard, err);
    return status;
}

// Maps one matrix. Collective over node.
static enum mmul_status open_view(const struct mmul_comm *comm, const struct offers *offers,
                                  int matrix, struct mmul_mappings *views, struct mmul_error *err) {
    char name[300];
    struct mmul_error later;
    struct mmul_shared *view = view_at(views, matrix);
    struct mmul_mapping_origin *origin = &views->origins[matrix];
    struct mmul_shared_source source = {.name = name, .fd = -1};
    enum mmul_status status = MMUL_OK, mapped;
    snprintf(name, sizeof name, "'%.250s'", offers->all[matrix].name);
    if (comm->node_rank == 0)
        status = find_source(comm, offers, matrix, &source, err);
    mapped = mmul_shared_map(comm, &source, view, status == MMUL_OK ? err : &later);
    status = status == MMUL_OK ? mapped : status;
    // Opened here; root's descriptor belongs to the matrix
    if (source.fd >= 0 && comm->rank != 0)
        close(source.fd);
    if (status == MMUL_OK && view->mapping != NULL)
        status = guard_view(view, &offers->all[matrix], comm->node_index == 0, origin, err);
    return status;
}

enum mmul_status mmul_mappings_open(struct mmul_context *context,
                                    const struct mmul_product_files *files,
                                    const unsigned *node_maps, struct mmul_mappings *views,
                                    struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    struct mmul_mappings opened = {0};
    struct offers *offers = NULL;
    struct mmul_error later;
    bool others_look = false;
    for (int node = 1; node < comm->node_count; node++)
        others_look = others_look || node_maps[node] != 0;
    enum mmul_status status = make_offers(comm, files, others_look, &offers, err), next;
    if (status != MMUL_OK)
        return status;
    for (int i = A; i < MATRICES; i++) {
        if ((node_maps[comm->node_index] & 1U << i) == 0)
            continue;
        next = open_view(comm, offers, i, &opened, status == MMUL_OK ? err : &later);
        status = status == MMUL_OK ? next : status;
    }
    opened.writes_back = opened.c.data != NULL && offers->all[C].writes_back;
    mmul_free(offers);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        *views = opened;
    else
        mmul_mappings_close(&opened);
    return status;
}

static enum mmul_status check_views(const struct mmul_mappings *views, bool same,
                                    struct mmul_error *err) {
    const struct mmul_shared *const all[] = {&views->a, &views->b, &views->c_in, &views->c};
    enum mmul_status status = MMUL_OK;
    for (int i = A; status == MMUL_OK && i < MATRICES; i++) {
        const struct mmul_mapping_origin *origin = &views->origins[i];
        if (origin->guard == NULL)
            continue;
        const struct mmul_mapped_file file = {.name = origin->name,
                                              .fd = all[i]->fd,
                                              .end = origin->end,
                                              .modified_ns = origin->modified_ns,
                                              .is_output = i == C};
        status = mmul_mapped_check(&file, mmul_guard_has_failed(origin->guard), err);
        if (status == MMUL_OK && same)
            status = mmul_mapped_check_same(&file, err);
    }
    return status;
}

enum mmul_status mmul_mappings_check(const struct mmul_mappings *views, struct mmul_error *err) {
    return check_views(views, false, err);
}

enum mmul_status mmul_mappings_check_unmodified(const struct mmul_mappings *views,
                                                struct mmul_error *err) {
    return check_views(views, true, err);
}

void mmul_mappings_close(struct mmul_mappings *views) {
    for (int i = A; i < MATRICES; i++) {
        struct mmul_mapping_origin *origin = &views->origins[i];
        mmul_guard_destroy(origin->guard);
        mmul_shared_destroy(view_at(views, i));
        mmul_free(origin->name);
    }
    *views = (struct mmul_mappings){0};
}
