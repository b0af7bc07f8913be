// SPDX-License-Identifier: MIT
// Sets of shards as memory of a run. Opens them, publishes new sets under their names, and checks
// that the sets a program reads are unchanged since they were kept. Every rank checks its own
// folder; an error on one rank becomes the error of all. Also makes sets of parts that the ranks
// have in their own memory.
#include "exec/memory/persistent.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/rows.h"
#include "base/status.h"
#include "base/text.h"
#include "exec/memory/held.h"
#include "io/output_file.h"
#include "io/shard_folder.h"
#include "io/shard_list.h"
#include "io/shard_map.h"
#include "io/shard_set.h"
#include "model/dtype.h"
#include "model/matrix.h"

// A set of the program as this rank sees it.
struct mmul_persistent_set {
    int place;                   // -1: not needed
    struct mmul_shard_map *maps; // owned: of the ranks of this node
    // New set: this rank's shard under its temporary name. NULL: not begun, or finished.
    struct mmul_output *output;
};

enum mmul_status mmul_persistent_share_folders(struct mmul_context *context,
                                               struct mmul_error *err) {
    void *all = NULL;
    int64_t bytes = 0;
    if (context->shard_folders != NULL)
        return MMUL_OK;
    enum mmul_status status =
        mmul_comm_allgather_varying(context->comm, context->shard_folder,
                                    (int64_t)strlen(context->shard_folder) + 1, &all, &bytes, err);
    if (status == MMUL_OK)
        context->shard_folders = all;
    return status;
}

static const char *folder_of(const struct mmul_context *context, int rank) {
    const char *folder = context->shard_folders;
    while (rank-- > 0)
        folder += strlen(folder) + 1;
    return folder;
}

static const char *host_of(const struct mmul_context *context, int rank) {
    return context->cluster->nodes[context->comm->rank_node[rank]].host;
}

static int find_place(const struct mmul_values *v, int kept) {
    for (int i = 0; i < v->plan->place_count; i++)
        if (v->plan->places[i].kept == kept)
            return i;
    return -1;
}

// Shard of `rank` in that rank's folder. Requires mmul_persistent_share_folders.
struct shard {
    const char *name; // the set's name
    int rank;
    struct mmul_shape shape; // [1, 1, rows, cols]; rows or cols may be 0
    enum mmul_dtype dtype;
    bool is_made; // made, not read
};

// Describes a rank's shard: its columns, or its rows of all matrices one below the other.
static struct shard shard_of(const struct mmul_values *v, int kept, int rank) {
    const struct mmul_persistent_value *set = &v->plan->program->kept[kept];
    const int place = v->kept[kept].place;
    const struct mmul_placement *p = &v->plan->places[place].placement;
    const struct mmul_value *value = mmul_place_value(v->plan, place);
    struct shard shard = {
        .name = set->name,
        .rank = rank,
        .shape = {1, 1, mmul_shape_matrices(value->shape) * value->shape.rows, value->shape.cols},
        .dtype = value->dtype,
        .is_made = set->is_made};
    if (p->kind == MMUL_PLACE_ROWS)
        shard.shape.rows = p->row_offsets[rank + 1] - p->row_offsets[rank];
    else
        shard.shape.cols = p->col_offsets[rank + 1] - p->col_offsets[rank];
    return shard;
}

// ----------------------------------------------------------------------------------------- opening

static enum mmul_status path_of(const struct mmul_context *context, const struct shard *shard,
                                char **path, struct mmul_error *err) {
    return mmul_shard_path(folder_of(context, shard->rank), shard->name, shard->rank,
                           mmul_shard_format(shard->dtype), path, err);
}

// Begins this rank's shard under a temporary name. Local; agree afterwards. Fails as
// mmul_output_create.
static enum mmul_status create_shard(const struct mmul_context *context, const struct shard *shard,
                                     struct mmul_output **output, struct mmul_error *err) {
    char *path = NULL;
    enum mmul_status status = mmul_shard_folder_create(context->shard_folder, err);
    if (status == MMUL_OK)
        status = path_of(context, shard, &path, err);
    if (status == MMUL_OK) {
        const struct mmul_output_request request = {.path = path,
                                                    .format = mmul_shard_format(shard->dtype),
                                                    .shape = shard->shape,
                                                    .dtype = shard->dtype,
                                                    .empty_allowed = true};
        status = mmul_output_create(&request, output, err);
    }
    mmul_free(path);
    return status;
}

// Maps a shard that exists, or one that was begun. Local; agree afterwards. Fails as
// mmul_shard_map_open.
static enum mmul_status map_shard(const struct mmul_context *context, const struct shard *shard,
                                  struct mmul_shard_map *map, struct mmul_error *err) {
    char *path = NULL;
    enum mmul_status status = path_of(context, shard, &path, err);
    if (status == MMUL_OK && shard->is_made) {
        struct mmul_text part = {0};
        mmul_text_add_sibling_path(&part, path, ".part");
        mmul_free(path);
        path = part.data;
        status =
            part.failed ? mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a file name") : MMUL_OK;
    }
    if (status == MMUL_OK)
        status = mmul_shard_map_open(path, shard->shape, shard->dtype, shard->is_made, map, err);
    mmul_free(path);
    return status;
}

// Maps the shards of all ranks of this node; new ones still have their temporary names.
static enum mmul_status map_shards(const struct mmul_context *context, struct mmul_values *v,
                                   int kept, struct mmul_error *err) {
    struct mmul_persistent_set *use = &v->kept[kept];
    enum mmul_status status = MMUL_ALLOCATE(use->maps, v->node_size, "kept values", err);
    for (int i = 0; status == MMUL_OK && i < v->node_size; i++)
        use->maps[i].fd = -1;
    for (int rank = 0, i = 0; status == MMUL_OK && rank < v->plan->costs.size; rank++) {
        if (v->plan->costs.rank_node[rank] != v->node)
            continue;
        const struct shard shard = shard_of(v, kept, rank);
        status = map_shard(context, &shard, &use->maps[i], err);
        v->persistent_parts[(int64_t)use->place * v->node_size + i] = use->maps[i].elements;
        i++;
    }
    return status;
}

enum mmul_status mmul_persistent_open_sets(struct mmul_context *context, struct mmul_values *values,
                                           struct mmul_error *err) {
    const struct mmul_program *program = values->plan->program;
    enum mmul_status status = mmul_comm_agree(
        context->comm, MMUL_ALLOCATE(values->kept, program->persistent_count, "kept values", err),
        err);
    bool has_shards = false;
    for (int i = 0; i < program->persistent_count; i++)
        has_shards |= program->kept[i].held == 0;
    if (status == MMUL_OK && has_shards)
        status = mmul_persistent_share_folders(context, err);
    for (int i = 0; status == MMUL_OK && i < program->persistent_count; i++) {
        struct mmul_persistent_set *use = &values->kept[i];
        use->place = program->kept[i].held > 0 ? -1 : find_place(values, i);
        if (use->place < 0 || !program->kept[i].is_made)
            continue;
        const struct shard own = shard_of(values, i, values->rank);
        status = create_shard(context, &own, &use->output, err);
        if (status == MMUL_OK)
            mmul_output_set_sync(use->output, !program->kept[i].no_sync);
    }
    status = mmul_comm_agree(context->comm, status, err);
    for (int i = 0; status == MMUL_OK && i < program->persistent_count; i++)
        if (values->kept[i].place >= 0)
            status = map_shards(context, values, i, err);
    status = mmul_comm_agree(context->comm, status, err);
    return status == MMUL_OK
               ? mmul_comm_agree(context->comm, mmul_held_open(context, values, err), err)
               : status;
}

enum mmul_status mmul_persistent_check_mapped(const struct mmul_values *values,
                                              struct mmul_error *err) {
    const struct mmul_program *program = values->plan->program;
    enum mmul_status status = MMUL_OK;
    for (int k = 0; values->kept != NULL && status == MMUL_OK && k < program->persistent_count; k++)
        for (int i = 0; status == MMUL_OK && values->kept[k].place >= 0 && i < values->node_size;
             i++)
            if (!program->kept[k].is_made)
                status = mmul_shard_map_check(&values->kept[k].maps[i], err);
    return status;
}

// -------------------------------------------------------------------------------------- committing

// Facts about each rank's shard that all ranks must know.
struct shard_facts {
    uint64_t hash;
    int64_t changed_ns;
};

// Creates a description with the hosts of the ranks and everything else zero. Local. Fails with
// MMUL_ERR_SYSTEM (memory).
static enum mmul_status create_set(const struct mmul_context *context, struct mmul_shard_set **set,
                                   struct mmul_error *err) {
    const int size = context->comm->size;
    struct mmul_shard_set *made = NULL;
    enum mmul_status status = mmul_shard_set_create(size, &made, err);
    if (status == MMUL_OK)
        status = mmul_shard_set_make_persistent(made, err);
    if (status != MMUL_OK) {
        mmul_shard_set_destroy(made);
        return status;
    }
    for (int rank = 0; rank < size; rank++)
        mmul_text_copy(made->kept->hosts[rank], MMUL_SHARD_HOST_BYTES, host_of(context, rank));
    *set = made;
    return MMUL_OK;
}

static enum mmul_status describe_value(const struct mmul_context *context,
                                       const struct mmul_values *v, int kept,
                                       struct mmul_shard_set **set, struct mmul_error *err) {
    const int place = v->kept[kept].place, size = context->comm->size;
    const struct mmul_placement *p = &v->plan->places[place].placement;
    const struct mmul_value *value = mmul_place_value(v->plan, place);
    const bool rows = p->kind == MMUL_PLACE_ROWS;
    enum mmul_status status = create_set(context, set, err);
    if (status != MMUL_OK)
        return status;
    struct mmul_shard_set *made = *set;
    made->axis = rows ? MMUL_ROWS : MMUL_COLS;
    made->shape = value->shape;
    made->dtype = value->dtype;
    made->kept->has_integers = value->is_integer;
    made->kept->has_bools = value->is_bool;
    memcpy(made->offsets, rows ? p->row_offsets : p->col_offsets,
           (size_t)(size + 1) * sizeof *made->offsets);
    memcpy(made->kept->weights, v->plan->weights, (size_t)size * sizeof *made->kept->weights);
    return MMUL_OK;
}

bool mmul_persistent_owns_folder(const struct mmul_context *context) {
    const struct mmul_comm *comm = context->comm;
    for (int rank = 0; rank < comm->rank; rank++)
        if (comm->rank_node[rank] == comm->node_index &&
            strcmp(folder_of(context, rank), context->shard_folder) == 0)
            return false;
    return true;
}

static enum mmul_status store_description(const struct mmul_context *context, const char *name,
                                          const struct mmul_shard_set *set,
                                          struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (mmul_persistent_owns_folder(context))
        status = mmul_shard_set_store(set, context->shard_folder, name, err);
    return mmul_comm_agree(context->comm, status, err);
}

// Stores the facts of all ranks in the set.
static enum mmul_status share_facts(const struct mmul_context *context,
                                    const struct shard_facts *mine, struct mmul_shard_set *set,
                                    struct mmul_error *err) {
    struct shard_facts *all = NULL;
    enum mmul_status status = mmul_comm_agree(
        context->comm, MMUL_ALLOCATE(all, context->comm->size, "facts of shards", err), err);
    if (status == MMUL_OK)
        status = mmul_comm_allgather(context->comm, mine, sizeof *mine, all, err);
    for (int rank = 0; status == MMUL_OK && rank < context->comm->size; rank++) {
        set->hashes[rank] = all[rank].hash;
        set->kept->changed_ns[rank] = all[rank].changed_ns;
    }
    mmul_free(all);
    return status;
}

// Gives the shards their names. Collective over world, after all ranks have written theirs into
// `map`. The set has its shape and offsets; its checksums and the rest are filled in here. Consumes
// *output. Fails with MMUL_ERR_CREATE, MMUL_ERR_IO.
static enum mmul_status publish_set(struct mmul_context *context, const char *name,
                                    struct mmul_shard_set *set, const struct mmul_shard_map *map,
                                    struct mmul_output **output, struct mmul_error *err) {
    struct shard_facts mine = {0};
    uint64_t job = mmul_random_seed();
    enum mmul_status status = mmul_comm_broadcast(context->comm, &job, sizeof job, err);
    if (status == MMUL_OK) {
        set->kept->job = job;
        mine.hash = mmul_shard_map_hash(map);
        status = store_description(context, name, set, err);
    }
    if (status == MMUL_OK) {
        status = mmul_output_commit(*output, err);
        *output = NULL;
        mine.changed_ns = mmul_shard_changed_ns(map->fd);
        status = mmul_comm_agree(context->comm, status, err);
    }
    if (status == MMUL_OK)
        status = share_facts(context, &mine, set, err);
    if (status == MMUL_OK) {
        set->kept->is_whole = true;
        status = store_description(context, name, set, err);
    }
    if (status == MMUL_OK) { // remove shards that only the previous set had
        if (mmul_persistent_owns_folder(context))
            status = mmul_shard_remove_surplus(context->shard_folder, name, set->parts,
                                               mmul_shard_format(set->dtype), err);
        status = mmul_comm_agree(context->comm, status, err);
    }
    return status;
}

enum mmul_status mmul_persistent_flush_set(const struct mmul_values *values, int kept,
                                           struct mmul_error *err) {
    struct mmul_output *output = values->kept[kept].output;
    return output != NULL ? mmul_output_finish(output, err) : MMUL_OK;
}

enum mmul_status mmul_persistent_commit_set(struct mmul_context *context,
                                            struct mmul_values *values, int kept,
                                            struct mmul_error *err) {
    struct mmul_persistent_set *use = &values->kept[kept];
    struct mmul_shard_set *set = NULL;
    if (use->place < 0)
        return MMUL_OK;
    enum mmul_status status =
        mmul_comm_agree(context->comm, describe_value(context, values, kept, &set, err), err);
    if (status == MMUL_OK)
        status = publish_set(context, values->plan->program->kept[kept].name, set,
                             &use->maps[values->node_rank], &use->output, err);
    mmul_shard_set_destroy(set);
    return status;
}

void mmul_persistent_close_sets(struct mmul_values *values) {
    for (int k = 0; values->kept != NULL && k < values->plan->program->persistent_count; k++) {
        struct mmul_persistent_set *use = &values->kept[k];
        mmul_output_destroy(use->output);
        for (int i = 0; use->maps != NULL && i < values->node_size; i++)
            mmul_shard_map_close(&use->maps[i]);
        mmul_free(use->maps);
    }
    mmul_free(values->kept);
    values->kept = NULL;
}

// ----------------------------------------------------------------------------------------- finding

// Prefixes an error with the name of the set.
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
        mmul_fail(err, MMUL_ERR_DATA,
                  "the shard of rank %d is on '%s', but the rank now runs on '%s'", rank,
                  set->kept->hosts[rank], host_of(context, rank));
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

// Maps the shard only to check it, and reads it only if its checksum has to decide.
static enum mmul_status check_own_shard(const char *folder, const char *name,
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

static enum mmul_status load_description(const char *folder,
                                         const struct mmul_persistent_value *kept,
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

static enum mmul_status copy_shares(struct mmul_persistent_value *kept,
                                    const struct mmul_shard_set *set, struct mmul_error *err) {
    const int parts = set->parts;
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("a kept value", err, MMUL_ARRAY(kept->offsets, parts + 1),
                          MMUL_ARRAY(kept->weights, parts));
    if (status != MMUL_OK)
        return status;
    kept->parts = parts;
    kept->has_weights = set->kept != NULL;
    memcpy(kept->offsets, set->offsets, (size_t)(parts + 1) * sizeof *kept->offsets);
    if (kept->has_weights)
        memcpy(kept->weights, set->kept->weights, (size_t)parts * sizeof *kept->weights);
    return MMUL_OK;
}

static enum mmul_status find_set(const struct mmul_context *context,
                                 struct mmul_persistent_value *kept, struct mmul_error *err) {
    const char *folder = context->shard_folder;
    struct mmul_shard_set *set = NULL;
    enum mmul_status status = load_description(folder, kept, &set, err);
    if (status == MMUL_OK)
        status = check_ranks(context, set, err);
    if (status == MMUL_OK)
        status = check_own_shard(folder, kept->name, set, context->comm->rank, err);
    if (status == MMUL_OK)
        status = copy_shares(kept, set, err);
    mmul_shard_set_destroy(set);
    return status == MMUL_OK ? status : name_failure(kept->name, err);
}

enum mmul_status mmul_persistent_find_sets(struct mmul_context *context,
                                           struct mmul_program *program, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < program->persistent_count; i++)
        if (!program->kept[i].is_made)
            status = program->kept[i].held > 0 ? mmul_held_complete(context, &program->kept[i], err)
                                               : find_set(context, &program->kept[i], err);
    return mmul_comm_agree(context->comm, status, err);
}

// ----------------------------------------------------------------------------------------- weights

static bool is_split_by(const struct mmul_persistent_value *set, int size, const double *weights,
                        int64_t *offsets) {
    struct mmul_error ignored;
    return mmul_split_offsets(set->offsets[size], size, weights, MMUL_SPLIT_EXACT, offsets,
                              &ignored) == MMUL_OK &&
           memcmp(offsets, set->offsets, (size_t)(size + 1) * sizeof *offsets) == 0;
}

// Returns true if the set is on some of the ranks only. Its shares then say nothing about the other
// ranks.
static bool is_on_some_ranks(const struct mmul_program *program, int kept) {
    bool some = false;
    for (int i = 0; i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        some |=
            o->kind == MMUL_LOAD_PERSISTENT && o->kept == kept && o->rank_group > MMUL_GROUP_ALL;
    }
    return some;
}

enum mmul_status mmul_persistent_choose_weights(const struct mmul_program *program, int size,
                                                double *weights, struct mmul_error *err) {
    const struct mmul_persistent_value *largest = NULL;
    int64_t *offsets = NULL, count, most = 0;
    for (int i = 0; i < program->persistent_count; i++) {
        const struct mmul_persistent_value *set = &program->kept[i];
        if (set->is_made || set->offsets == NULL || is_on_some_ranks(program, i) ||
            !mmul_shape_count(set->shape, &count) || count <= most)
            continue;
        largest = set;
        most = count;
    }
    if (largest == NULL)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE(offsets, size + 1, "weights", err);
    if (status != MMUL_OK)
        return status;
    // Values of other sizes that the same job kept were split by the same weights. In a split of
    // groups only the shares themselves show the cut.
    if (largest->has_weights && is_split_by(largest, size, largest->weights, offsets))
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

enum mmul_status mmul_persistent_check_weights(const struct mmul_program *program, int size,
                                               const double *weights, struct mmul_error *err) {
    int64_t *offsets = NULL;
    char have[96], want[96];
    enum mmul_status status = MMUL_ALLOCATE(offsets, size + 1, "weights", err);
    for (int i = 0; status == MMUL_OK && i < program->persistent_count; i++) {
        const struct mmul_persistent_value *set = &program->kept[i];
        if (set->is_made || set->held > 0 || is_split_by(set, size, weights, offsets) ||
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
        mmul_hint(err, "leave the weights out: the job then uses those of the set");
    }
    mmul_free(offsets);
    return status;
}

// ---------------------------------------------------------------------------- the ranks' own parts

// Facts about each rank's part that all ranks must know.
struct part_facts {
    int64_t rows, cols;
    uint64_t name; // checksum of the name
    int32_t dtype, axis;
};

static enum mmul_status check_own_part(const char *name, const struct mmul_local_part *p,
                                       struct mmul_error *err) {
    if (mmul_shard_name_check(name, err) != MMUL_OK)
        return err->status;
    if (p->dtype != MMUL_F32 && p->dtype != MMUL_F64)
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot keep '%s' as %s: expected float32 or float64",
                         name, mmul_dtype_name(p->dtype));
    if (p->rows < 0 || p->cols < 0 || p->row_step < p->cols ||
        (p->data == NULL && p->rows > 0 && p->cols > 0))
        return mmul_fail(err, MMUL_ERR_USAGE,
                         "cannot keep %lld x %lld elements as a part of '%s': rows are %lld apart",
                         (long long)p->rows, (long long)p->cols, name, (long long)p->row_step);
    return MMUL_OK;
}

// Computes the shape of the whole and the begin of each part, the same on all ranks.
static enum mmul_status combine_parts(const char *name, const struct part_facts *all,
                                      struct mmul_shard_set *set, struct mmul_error *err) {
    const bool rows = all[0].axis == MMUL_ROWS;
    set->axis = (enum mmul_axis)all[0].axis;
    set->dtype = (enum mmul_dtype)all[0].dtype;
    for (int rank = 0; rank < set->parts; rank++) {
        const int64_t along = rows ? all[rank].rows : all[rank].cols;
        if (all[rank].name != all[0].name)
            return mmul_fail(err, MMUL_ERR_USAGE,
                             "cannot keep '%s': rank %d gives it another name than rank 0", name,
                             rank);
        if (all[rank].axis != all[0].axis || all[rank].dtype != all[0].dtype)
            return mmul_fail(err, MMUL_ERR_DATA,
                             "cannot keep '%s': rank %d gives %s of %s, rank 0 %s of %s", name,
                             rank, all[rank].axis == MMUL_ROWS ? "rows" : "columns",
                             mmul_dtype_name((enum mmul_dtype)all[rank].dtype),
                             rows ? "rows" : "columns", mmul_dtype_name(set->dtype));
        if ((rows ? all[rank].cols : all[rank].rows) != (rows ? all[0].cols : all[0].rows))
            return mmul_fail(err, MMUL_ERR_DATA,
                             "cannot keep '%s': rank %d has %lld x %lld of it, rank 0 %lld x %lld",
                             name, rank, (long long)all[rank].rows, (long long)all[rank].cols,
                             (long long)all[0].rows, (long long)all[0].cols);
        set->kept->weights[rank] = (double)along;
        if (__builtin_add_overflow(set->offsets[rank], along, &set->offsets[rank + 1]))
            return mmul_fail(err, MMUL_ERR_DATA, "cannot keep '%s': it is too large", name);
    }
    const int64_t length = set->offsets[set->parts];
    set->shape = rows ? (struct mmul_shape){1, 1, length, all[0].cols}
                      : (struct mmul_shape){1, 1, all[0].rows, length};
    if (set->shape.rows == 0 || set->shape.cols == 0)
        return mmul_fail(err, MMUL_ERR_DATA, "cannot keep '%s': no rank has any of it", name);
    return MMUL_OK;
}

// Creates the description of the parts of all ranks. Collective over world.
static enum mmul_status describe_parts(struct mmul_context *context, const char *name,
                                       const struct mmul_local_part *part,
                                       struct mmul_shard_set **set, struct mmul_error *err) {
    const struct part_facts mine = {part->rows, part->cols, mmul_hash(name, strlen(name)),
                                    (int32_t)part->dtype, (int32_t)part->axis};
    struct part_facts *all = NULL;
    enum mmul_status status = check_own_part(name, part, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(all, context->comm->size, "facts of parts", err);
    if (status == MMUL_OK)
        status = create_set(context, set, err);
    status = mmul_comm_agree(context->comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_allgather(context->comm, &mine, sizeof mine, all, err);
    if (status == MMUL_OK)
        status = combine_parts(name, all, *set, err);
    mmul_free(all);
    return status;
}

enum mmul_status mmul_persistent_make_set(struct mmul_context *context, const char *name,
                                          const struct mmul_local_part *part,
                                          struct mmul_error *err) {
    struct mmul_shard_set *set = NULL;
    struct mmul_output *output = NULL;
    struct mmul_shard_map map = {.fd = -1};
    const struct shard shard = {.name = name,
                                .rank = context->comm->rank,
                                .shape = {1, 1, part->rows, part->cols},
                                .dtype = part->dtype,
                                .is_made = true};
    enum mmul_status status = describe_parts(context, name, part, &set, err);
    if (status == MMUL_OK)
        status = mmul_persistent_share_folders(context, err);
    if (status == MMUL_OK) {
        status = create_shard(context, &shard, &output, err);
        if (status == MMUL_OK)
            status = map_shard(context, &shard, &map, err);
        const int64_t each = (int64_t)mmul_dtype_bytes(part->dtype), bytes = part->cols * each;
        if (status == MMUL_OK && bytes > 0 && part->rows > 0)
            mmul_copy_rows(part->data, part->row_step * each, map.elements, bytes, part->rows,
                           bytes);
        status = mmul_comm_agree(context->comm, status, err);
    }
    if (status == MMUL_OK)
        status = publish_set(context, name, set, &map, &output, err);
    mmul_shard_map_close(&map);
    mmul_output_destroy(output);
    mmul_shard_set_destroy(set);
    return status;
}
