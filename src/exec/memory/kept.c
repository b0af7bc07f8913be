// SPDX-License-Identifier: MIT
// Sets of shards as memory of a run, and how those that it makes get their names. Which sets may be read is
// kept_find's.
#include "exec/memory/kept.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "base/text.h"
#include "io/output_file.h"
#include "io/shard_folder.h"
#include "io/shard_list.h"
#include "io/shard_map.h"
#include "io/shard_set.h"
#include "model/matrix.h"

// A set of the program as this rank sees it.
struct mmul_kept_use {
    int place;                   // -1: nobody needs it
    struct mmul_shard_map *maps; // owned, of the ranks of this node
    struct mmul_output
        *output; // made: this rank's shard under its temporary name; NULL: not begun, or over
};

enum mmul_status mmul_kept_share_folders(struct mmul_context *context, struct mmul_error *err) {
    void *all = NULL;
    int64_t bytes = 0;
    if (context->shard_folders != NULL)
        return MMUL_OK;
    enum mmul_status status =
        mmul_comm_share_varying(context->comm, context->shard_folder,
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

static int find_place(const struct mmul_values *v, int kept) {
    for (int i = 0; i < v->plan->place_count; i++)
        if (v->plan->places[i].kept == kept)
            return i;
    return -1;
}

static struct mmul_shape whole_of(const struct mmul_values *v, int place) {
    return v->plan->program->values[v->plan->places[place].value].shape;
}

// What rank i has: rows of all matrices one below the other, or columns.
static struct mmul_shape part_of(const struct mmul_values *v, int place, int rank) {
    const struct mmul_placement *p = &v->plan->places[place].placement;
    const struct mmul_shape whole = whole_of(v, place);
    struct mmul_shape shape = {1, 1, mmul_shape_matrices(whole) * whole.rows, whole.cols};
    if (p->kind == MMUL_PLACE_ROWS)
        shape.rows = p->row_offsets[rank + 1] - p->row_offsets[rank];
    else
        shape.cols = p->col_offsets[rank + 1] - p->col_offsets[rank];
    return shape;
}

static enum mmul_dtype type_of(const struct mmul_values *v, int place) {
    return v->plan->program->values[v->plan->places[place].value].dtype;
}

static struct mmul_kept_shard shard_of(const struct mmul_values *v, int kept, int rank) {
    const struct mmul_kept *set = &v->plan->program->kept[kept];
    const int place = v->kept[kept].place;
    return (struct mmul_kept_shard){.name = set->name,
                                    .rank = rank,
                                    .shape = part_of(v, place, rank),
                                    .dtype = type_of(v, place),
                                    .is_made = set->is_made};
}

// ---------------------------------------------------------------------------------------- opening

static enum mmul_status path_of(const struct mmul_context *context,
                                const struct mmul_kept_shard *shard, char **path,
                                struct mmul_error *err) {
    return mmul_shard_path(folder_of(context, shard->rank), shard->name, shard->rank,
                           mmul_shard_format(shard->dtype), path, err);
}

enum mmul_status mmul_kept_begin_shard(const struct mmul_context *context,
                                       const struct mmul_kept_shard *shard,
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

enum mmul_status mmul_kept_map_shard(const struct mmul_context *context,
                                     const struct mmul_kept_shard *shard,
                                     struct mmul_shard_map *map, struct mmul_error *err) {
    char *path = NULL;
    enum mmul_status status = path_of(context, shard, &path, err);
    if (status == MMUL_OK && shard->is_made) {
        struct mmul_text part = {0};
        mmul_text_add_beside(&part, path, ".part");
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

// Shards of all ranks of this node; those that are made have their temporary names.
static enum mmul_status map_shards(const struct mmul_context *context, struct mmul_values *v,
                                   int kept, struct mmul_error *err) {
    struct mmul_kept_use *use = &v->kept[kept];
    enum mmul_status status = MMUL_ALLOCATE(use->maps, v->node_size, "kept values", err);
    for (int i = 0; status == MMUL_OK && i < v->node_size; i++)
        use->maps[i].fd = -1;
    for (int rank = 0, i = 0; status == MMUL_OK && rank < v->plan->costs.size; rank++) {
        if (v->plan->costs.rank_node[rank] != v->node)
            continue;
        const struct mmul_kept_shard shard = shard_of(v, kept, rank);
        status = mmul_kept_map_shard(context, &shard, &use->maps[i], err);
        v->kept_parts[(int64_t)use->place * v->node_size + i] = use->maps[i].elements;
        i++;
    }
    return status;
}

static enum mmul_status begin_shard(const struct mmul_context *context, struct mmul_values *v,
                                    int kept, struct mmul_error *err) {
    const struct mmul_kept_shard shard = shard_of(v, kept, v->rank);
    enum mmul_status status = mmul_kept_begin_shard(context, &shard, &v->kept[kept].output, err);
    if (status == MMUL_OK)
        mmul_output_set_sync(v->kept[kept].output, !v->plan->program->kept[kept].no_sync);
    return status;
}

enum mmul_status mmul_kept_open(struct mmul_context *context, struct mmul_values *values,
                                struct mmul_error *err) {
    const struct mmul_program *program = values->plan->program;
    enum mmul_status status = MMUL_ALLOCATE(values->kept, program->kept_count, "kept values", err);
    status = mmul_comm_agree(context->comm, status, err);
    if (status == MMUL_OK)
        status = mmul_kept_share_folders(context, err);
    for (int i = 0; status == MMUL_OK && i < program->kept_count; i++) {
        values->kept[i].place = find_place(values, i);
        if (values->kept[i].place >= 0 && program->kept[i].is_made)
            status = begin_shard(context, values, i, err);
    }
    status = mmul_comm_agree(context->comm, status, err);
    for (int i = 0; status == MMUL_OK && i < program->kept_count; i++)
        if (values->kept[i].place >= 0)
            status = map_shards(context, values, i, err);
    return mmul_comm_agree(context->comm, status, err);
}

enum mmul_status mmul_kept_check(const struct mmul_values *values, struct mmul_error *err) {
    const struct mmul_program *program = values->plan->program;
    enum mmul_status status = MMUL_OK;
    for (int k = 0; values->kept != NULL && status == MMUL_OK && k < program->kept_count; k++)
        for (int i = 0; status == MMUL_OK && values->kept[k].place >= 0 && i < values->node_size;
             i++)
            if (!program->kept[k].is_made)
                status = mmul_shard_map_check(&values->kept[k].maps[i], err);
    return status;
}

// ------------------------------------------------------------------------------------- committing

// What all ranks have to know of each one's shard.
struct shard_facts {
    uint64_t hash;
    int64_t changed_ns;
};

enum mmul_status mmul_kept_create_set(const struct mmul_context *context,
                                      struct mmul_shard_set **set, struct mmul_error *err) {
    const int size = context->comm->size;
    struct mmul_shard_set *made = NULL;
    enum mmul_status status = mmul_shard_set_create(size, &made, err);
    if (status == MMUL_OK)
        status = mmul_shard_set_add_keeping(made, err);
    if (status != MMUL_OK) {
        mmul_shard_set_destroy(made);
        return status;
    }
    for (int rank = 0; rank < size; rank++)
        mmul_text_copy(made->kept->hosts[rank], MMUL_SHARD_HOST_BYTES,
                       context->cluster->nodes[context->comm->rank_node[rank]].host);
    *set = made;
    return MMUL_OK;
}

static enum mmul_status describe(const struct mmul_context *context, const struct mmul_values *v,
                                 int kept, struct mmul_shard_set **set, struct mmul_error *err) {
    const int place = v->kept[kept].place, size = context->comm->size;
    const struct mmul_placement *p = &v->plan->places[place].placement;
    const bool rows = p->kind == MMUL_PLACE_ROWS;
    enum mmul_status status = mmul_kept_create_set(context, set, err);
    if (status != MMUL_OK)
        return status;
    struct mmul_shard_set *made = *set;
    made->axis = rows ? MMUL_ROWS : MMUL_COLS;
    made->shape = whole_of(v, place);
    made->dtype = type_of(v, place);
    made->kept->has_integers = v->plan->program->values[v->plan->places[place].value].is_integer;
    memcpy(made->offsets, rows ? p->row_offsets : p->col_offsets,
           (size_t)(size + 1) * sizeof *made->offsets);
    memcpy(made->kept->weights, v->plan->weights, (size_t)size * sizeof *made->kept->weights);
    return MMUL_OK;
}

bool mmul_kept_has_folder(const struct mmul_context *context) {
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
    if (mmul_kept_has_folder(context))
        status = mmul_shard_set_store(set, context->shard_folder, name, err);
    return mmul_comm_agree(context->comm, status, err);
}

// Everybody's into the set.
static enum mmul_status share_facts(const struct mmul_context *context,
                                    const struct shard_facts *mine, struct mmul_shard_set *set,
                                    struct mmul_error *err) {
    struct shard_facts *all = NULL;
    enum mmul_status status = mmul_comm_agree(
        context->comm, MMUL_ALLOCATE(all, context->comm->size, "facts of shards", err), err);
    if (status == MMUL_OK)
        status = mmul_comm_share(context->comm, mine, sizeof *mine, all, err);
    for (int rank = 0; status == MMUL_OK && rank < context->comm->size; rank++) {
        set->hashes[rank] = all[rank].hash;
        set->kept->changed_ns[rank] = all[rank].changed_ns;
    }
    mmul_free(all);
    return status;
}

enum mmul_status mmul_kept_publish(struct mmul_context *context, const char *name,
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
    if (status == MMUL_OK) { // memory of the set whose place this one has taken
        if (mmul_kept_has_folder(context))
            status = mmul_shard_remove_surplus(context->shard_folder, name, set->parts,
                                               mmul_shard_format(set->dtype), err);
        status = mmul_comm_agree(context->comm, status, err);
    }
    return status;
}

enum mmul_status mmul_kept_finish(const struct mmul_values *values, int kept,
                                  struct mmul_error *err) {
    struct mmul_output *output = values->kept[kept].output;
    return output != NULL ? mmul_output_finish(output, err) : MMUL_OK;
}

enum mmul_status mmul_kept_commit(struct mmul_context *context, struct mmul_values *values,
                                  int kept, struct mmul_error *err) {
    struct mmul_kept_use *use = &values->kept[kept];
    struct mmul_shard_set *set = NULL;
    if (use->place < 0)
        return MMUL_OK;
    enum mmul_status status =
        mmul_comm_agree(context->comm, describe(context, values, kept, &set, err), err);
    if (status == MMUL_OK)
        status = mmul_kept_publish(context, values->plan->program->kept[kept].name, set,
                                   &use->maps[values->node_rank], &use->output, err);
    mmul_shard_set_destroy(set);
    return status;
}

void mmul_kept_close(struct mmul_values *values) {
    for (int k = 0; values->kept != NULL && k < values->plan->program->kept_count; k++) {
        struct mmul_kept_use *use = &values->kept[k];
        mmul_output_destroy(use->output);
        for (int i = 0; use->maps != NULL && i < values->node_size; i++)
            mmul_shard_map_close(&use->maps[i]);
        mmul_free(use->maps);
    }
    mmul_free(values->kept);
    values->kept = NULL;
}
