// SPDX-License-Identifier: MIT
// Which sets a program reads, and whether each is what it was when it was kept. Every rank looks at its own folder;
// whatever one of them finds wrong is everybody's error. Maps nothing, and reads a shard only where its checksum has
// to decide.
#include "exec/memory/kept.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/shard_folder.h"
#include "io/shard_map.h"
#include "io/shard_set.h"
#include "model/matrix.h"

static const char *host_of(const struct mmul_context *context, int rank) {
    return context->cluster->nodes[context->comm->rank_node[rank]].host;
}

// In front of whatever is wrong: whose it is.
static enum mmul_status name_failure(const char *name, struct mmul_error *err) {
    char text[sizeof err->text];
    memcpy(text, err->text, sizeof text);
    snprintf(err->text, sizeof err->text, "cannot use kept '%s': %.900s", name, text);
    return err->status;
}

static enum mmul_status check_ranks(const struct mmul_context *context,
                                    const struct mmul_shard_set *set, struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    if (set->parts != comm->size) {
        mmul_fail(err, MMUL_ERR_DATA, "%d rank%s kept it, this job has %d", set->parts,
                  set->parts == 1 ? " has" : "s have", comm->size);
        mmul_hint(err, "run it on %d rank%s, or make a file of it: mpimatmul join", set->parts,
                  set->parts == 1 ? "" : "s");
        return err->status;
    }
    if (set->kept == NULL)
        return MMUL_OK;
    for (int rank = 0; rank < comm->size; rank++) {
        if (strcmp(set->kept->hosts[rank], host_of(context, rank)) == 0)
            continue;
        mmul_fail(err, MMUL_ERR_DATA, "rank %d has kept its shard on '%s', and is on '%s' now",
                  rank, set->kept->hosts[rank], host_of(context, rank));
        mmul_hint(err, "start the ranks on the same machines, in the same order");
        return err->status;
    }
    return MMUL_OK;
}

static enum mmul_status check_shard(const struct mmul_shard_set *set, int part,
                                    const struct mmul_shard_map *map, struct mmul_error *err) {
    if (set->kept != NULL && map->changed_ns == set->kept->changed_ns[part])
        return MMUL_OK;
    const uint64_t hash = mmul_shard_map_hash(map);
    enum mmul_status status = mmul_shard_map_check(map, err);
    if (status != MMUL_OK || hash == set->hashes[part])
        return status;
    return mmul_fail(err, MMUL_ERR_DATA,
                     "shard '%s' has changed: its XXH3 is %016llx, its set says %016llx", map->name,
                     (unsigned long long)hash, (unsigned long long)set->hashes[part]);
}

static enum mmul_status look_at_shard(const char *folder, const char *name,
                                      const struct mmul_shard_set *set, int part,
                                      struct mmul_error *err) {
    char *path = NULL;
    struct mmul_shard_map map = {.fd = -1};
    enum mmul_status status =
        mmul_shard_path(folder, name, part, mmul_shard_format(set->dtype), &path, err);
    if (status == MMUL_OK)
        status =
            mmul_shard_map_open(path, mmul_shard_shape(set, part), set->dtype, false, &map, err);
    if (status == MMUL_OK)
        status = check_shard(set, part, &map, err);
    mmul_shard_map_close(&map);
    mmul_free(path);
    return status;
}

static enum mmul_status load_description(const char *folder, const struct mmul_kept *kept,
                                         struct mmul_shard_set **set, struct mmul_error *err) {
    char *path = NULL;
    uint64_t hash = 0;
    enum mmul_status status = mmul_shard_folder_check(folder, err);
    if (status == MMUL_OK)
        status = mmul_shard_set_path(folder, kept->name, &path, err);
    if (status == MMUL_OK)
        status = mmul_shard_hash(path, &hash, err);
    if (status == MMUL_OK)
        status = mmul_shard_set_load(path, set, err);
    if (status == MMUL_OK)
        status = mmul_shard_set_check_whole(*set, kept->name, err);
    if (status == MMUL_OK && hash != kept->description) {
        status =
            mmul_fail(err, MMUL_ERR_DATA, "'%s' is stale: root has a set of another job", path);
        mmul_hint(err, "keep it again on these ranks");
    }
    mmul_free(path);
    return status;
}

static enum mmul_status take_set(struct mmul_kept *kept, const struct mmul_shard_set *set,
                                 struct mmul_error *err) {
    const int parts = set->parts;
    enum mmul_status status = MMUL_ALLOCATE(kept->offsets, parts + 1, "a kept value", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(kept->weights, parts, "a kept value", err);
    if (status != MMUL_OK)
        return status;
    kept->parts = parts;
    kept->has_weights = set->kept != NULL;
    memcpy(kept->offsets, set->offsets, (size_t)(parts + 1) * sizeof *kept->offsets);
    if (kept->has_weights)
        memcpy(kept->weights, set->kept->weights, (size_t)parts * sizeof *kept->weights);
    return MMUL_OK;
}

static enum mmul_status find_set(const struct mmul_context *context, struct mmul_kept *kept,
                                 struct mmul_error *err) {
    const char *folder = context->shard_folder;
    struct mmul_shard_set *set = NULL;
    enum mmul_status status = load_description(folder, kept, &set, err);
    if (status == MMUL_OK)
        status = check_ranks(context, set, err);
    if (status == MMUL_OK)
        status = look_at_shard(folder, kept->name, set, context->comm->rank, err);
    if (status == MMUL_OK)
        status = take_set(kept, set, err);
    mmul_shard_set_destroy(set);
    return status == MMUL_OK ? status : name_failure(kept->name, err);
}

enum mmul_status mmul_kept_find(struct mmul_context *context, struct mmul_program *program,
                                struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < program->kept_count; i++) {
        if (!program->kept[i].is_made)
            status = find_set(context, &program->kept[i], err);
        status = mmul_comm_agree(context->comm, status, err);
    }
    return status;
}

// ---------------------------------------------------------------------------------------- weights

static bool is_split_so(const struct mmul_kept *set, int size, const double *weights,
                        int64_t *offsets) {
    struct mmul_error ignored;
    return mmul_split_offsets(set->offsets[size], size, weights, MMUL_SPLIT_EXACT, offsets,
                              &ignored) == MMUL_OK &&
           memcmp(offsets, set->offsets, (size_t)(size + 1) * sizeof *offsets) == 0;
}

enum mmul_status mmul_kept_weights(const struct mmul_program *program, int size, double *weights,
                                   struct mmul_error *err) {
    const struct mmul_kept *largest = NULL;
    int64_t *offsets = NULL, count, most = 0;
    for (int i = 0; i < program->kept_count; i++) {
        const struct mmul_kept *set = &program->kept[i];
        if (set->is_made || !mmul_shape_count(set->shape, &count) || count <= most)
            continue;
        largest = set;
        most = count;
    }
    if (largest == NULL)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE(offsets, size + 1, "weights", err);
    if (status != MMUL_OK)
        return status;
    // Values of other sizes that the same job has kept were split by the same weights; of groups only the
    // shares themselves say where they are.
    if (largest->has_weights && is_split_so(largest, size, largest->weights, offsets))
        memcpy(weights, largest->weights, (size_t)size * sizeof *weights);
    else
        for (int rank = 0; rank < size; rank++)
            weights[rank] = (double)(largest->offsets[rank + 1] - largest->offsets[rank]);
    mmul_free(offsets);
    return MMUL_OK;
}

static bool are_same_weights(const double *x, const double *y, int count) {
    double x_sum = 0, y_sum = 0, most = 0;
    for (int i = 0; i < count; i++) {
        x_sum += x[i];
        y_sum += y[i];
    }
    for (int i = 0; i < count; i++)
        most = fmax(most, fabs(x[i] / x_sum - y[i] / y_sum));
    return most <= 1e-9;
}

enum mmul_status mmul_kept_check_weights(const struct mmul_program *program, int size,
                                         const double *weights, struct mmul_error *err) {
    int64_t *offsets = NULL;
    char have[96], want[96];
    enum mmul_status status = MMUL_ALLOCATE(offsets, size + 1, "weights", err);
    for (int i = 0; status == MMUL_OK && i < program->kept_count; i++) {
        const struct mmul_kept *set = &program->kept[i];
        if (set->is_made || is_split_so(set, size, weights, offsets) ||
            (set->has_weights && are_same_weights(set->weights, weights, size)))
            continue;
        struct mmul_placement placement = {
            .kind = MMUL_PLACE_ROWS, .row_parts = size, .col_parts = 1};
        placement.row_offsets = set->offsets;
        mmul_placement_format(&placement, have);
        placement.row_offsets = offsets;
        mmul_placement_format(&placement, want);
        status = mmul_fail(err, MMUL_ERR_USAGE,
                           "cannot use kept '%s': its parts are %s, the weights make %s", set->name,
                           have + strlen("rows "), want + strlen("rows "));
        mmul_hint(err, "leave the weights out: the job then has those of the set");
    }
    mmul_free(offsets);
    return status;
}
