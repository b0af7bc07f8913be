// SPDX-License-Identifier: MIT
// Lists and removes sets of shards: for each folder of a machine one rank reads it; root gets the
// lines of all.
#include "api/persistent_list.h"

#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "exec/memory/persistent.h"
#include "io/shard_folder.h"
#include "io/shard_list.h"
#include "model/matrix.h"

static bool is_requested(const char *const *names, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
}

// A set, or the remains of one, in a folder of a machine.
struct listed {
    int node;
    struct mmul_shard_entry entry;
};

static const char *state_of(const struct mmul_shard_entry *e) {
    return !e->is_described ? "no description"
           : !e->is_whole   ? "half-written"
           : e->is_kept     ? "kept"
                            : "split";
}

static void add_line(struct mmul_text *text, const char *host, struct mmul_shard_entry *e) {
    char shape[96] = "-", bytes[32], left[32];
    if (e->is_described)
        mmul_shape_format(e->shape, shape);
    mmul_text_add(text, "%s\t%s\t%s\t%s\t", host, mmul_make_printable(e->name), shape,
                  e->is_described ? mmul_dtype_name(e->dtype) : "-");
    if (e->is_described)
        mmul_text_add(text, "%s in %d\t", e->axis == MMUL_ROWS ? "rows" : "cols", e->parts);
    else
        mmul_text_add(text, "-\t");
    mmul_text_add(text, "%d\t%s\t%s", e->shards, mmul_bytes_format(e->bytes, bytes), state_of(e));
    if (e->left_bytes > 0)
        mmul_text_add(text, ", %s unfinished", mmul_bytes_format(e->left_bytes, left));
    mmul_text_add(text, "\n");
}

// Fields from a description are null if there is none.
static json_t *make_object(const char *host, const struct mmul_shard_entry *e) {
    json_t *shape = json_null(), *parts = json_null();
    const char *type = NULL, *axis = NULL;
    if (e->is_described) {
        shape = json_pack("[IIII]", (json_int_t)e->shape.batch, (json_int_t)e->shape.depth,
                          (json_int_t)e->shape.rows, (json_int_t)e->shape.cols);
        parts = json_integer(e->parts);
        type = mmul_dtype_name(e->dtype);
        axis = e->axis == MMUL_ROWS ? "rows" : "cols";
    }
    return json_pack("{so so so ss? ss? so si sI sI ss}", "host", mmul_json_from_text(host), "set",
                     mmul_json_from_text(e->name), "shape", shape, "dtype", type, "split", axis,
                     "parts", parts, "shards_here", e->shards, "bytes", (json_int_t)e->bytes,
                     "unfinished_bytes", (json_int_t)e->left_bytes, "state", state_of(e));
}

// Lists this rank's folder; *mine is released with mmul_free.
static enum mmul_status list_own_folder(const struct mmul_context *context,
                                        const char *const *names, int count, struct listed **mine,
                                        int *listed, struct mmul_error *err) {
    struct mmul_shard_entry *entries = NULL;
    int found = 0;
    if (!mmul_persistent_owns_folder(context))
        return MMUL_OK;
    enum mmul_status status = mmul_shard_list(context->shard_folder, &entries, &found, err);
    if (status == MMUL_OK && found > 0)
        status = MMUL_ALLOCATE(*mine, found, "a list of sets", err);
    for (int i = 0; status == MMUL_OK && i < found; i++)
        if (is_requested(names, count, entries[i].name))
            (*mine)[(*listed)++] = (struct listed){context->comm->node_index, entries[i]};
    mmul_free(entries);
    return status;
}

static enum mmul_status format_json(const struct mmul_context *context, const struct listed *all,
                                    int count, char **text, struct mmul_error *err) {
    json_t *sets = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(
            sets, make_object(context->cluster->nodes[all[i].node].host, &all[i].entry));
    json_t *root = json_pack("{so}", "sets", sets);
    enum mmul_status status = mmul_json_format(root, text, err);
    json_decref(root);
    return status;
}

static enum mmul_status format_table(const struct mmul_context *context, struct listed *all,
                                     int count, char **text, struct mmul_error *err) {
    struct mmul_text made = {0};
    mmul_text_add(&made, "host\tset\tshape\ttype\tsplit\tshards here\tbytes\tstate\n");
    for (int i = 0; i < count; i++)
        add_line(&made, context->cluster->nodes[all[i].node].host, &all[i].entry);
    if (made.failed) {
        mmul_text_fini(&made);
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a list of sets");
    }
    *text = made.data; // ownership passes to the caller
    return MMUL_OK;
}

static enum mmul_status fail_none(const char *name, const char *folder, struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_NO_INPUT, "no kept '%s' in '%s'", name, folder);
}

enum mmul_status mmul_persistent_list(struct mmul_context *context, const char *const *names,
                                      int count, bool json, char **text, struct mmul_error *err) {
    struct listed *mine = NULL;
    void *all = NULL;
    int listed = 0;
    int64_t bytes = 0;
    enum mmul_status status = mmul_persistent_share_folders(context, err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(context->comm,
                                 list_own_folder(context, names, count, &mine, &listed, err), err);
    if (status == MMUL_OK)
        status = mmul_comm_allgather_varying(context->comm, listed > 0 ? (const void *)mine : "",
                                             listed * (int64_t)sizeof *mine, &all, &bytes, err);
    mmul_free(mine);
    if (status != MMUL_OK)
        return status;
    const int sets = (int)(bytes / (int64_t)sizeof *mine);
    if (sets == 0 && count > 0)
        status = fail_none(names[0], context->shard_folder, err);
    else if (context->comm->rank == 0)
        status = json ? format_json(context, all, sets, text, err)
                      : format_table(context, all, sets, text, err);
    mmul_free(all);
    return mmul_comm_agree(context->comm, status, err);
}

enum mmul_status mmul_persistent_remove(struct mmul_context *context, const char *const *names,
                                        int count, struct mmul_error *err) {
    enum mmul_status status = mmul_persistent_share_folders(context, err);
    for (int i = 0; status == MMUL_OK && i < count; i++) {
        int removed = 0, *all = NULL, sum = 0;
        status = mmul_shard_name_check(names[i], err);
        if (status == MMUL_OK)
            status = MMUL_ALLOCATE(all, context->comm->size, "counts", err);
        if (status == MMUL_OK && mmul_persistent_owns_folder(context))
            status = mmul_shard_remove(context->shard_folder, names[i], &removed, err);
        status = mmul_comm_agree(context->comm, status, err);
        if (status == MMUL_OK)
            status = mmul_comm_allgather(context->comm, &removed, sizeof removed, all, err);
        for (int rank = 0; status == MMUL_OK && rank < context->comm->size; rank++)
            sum += all[rank];
        mmul_free(all);
        if (status == MMUL_OK && sum == 0)
            status = fail_none(names[i], context->shard_folder, err);
        status = mmul_comm_agree(context->comm, status, err);
    }
    return status;
}
