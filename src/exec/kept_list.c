// SPDX-License-Identifier: MIT
// One rank of a machine for each of its folders looks there; root has the lines of all.
#include "exec/kept_list.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "exec/kept.h"
#include "io/shard_folder.h"
#include "io/shard_list.h"
#include "model/matrix.h"

static bool is_asked(const char *const *names, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
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
    mmul_text_add(text, "%d\t%s\t%s", e->shards, mmul_bytes_format(e->bytes, bytes),
                  !e->is_described ? "no description"
                  : !e->is_whole   ? "half-written"
                  : e->is_kept     ? "kept"
                                   : "split");
    if (e->left_bytes > 0)
        mmul_text_add(text, ", %s unfinished", mmul_bytes_format(e->left_bytes, left));
    mmul_text_add(text, "\n");
}

// Of this rank's folder.
static enum mmul_status list_here(const struct mmul_context *context, const char *const *names,
                                  int count, struct mmul_text *text, struct mmul_error *err) {
    struct mmul_shard_entry *entries = NULL;
    int found = 0;
    if (!mmul_kept_has_folder(context))
        return MMUL_OK;
    enum mmul_status status = mmul_shard_list(context->shard_folder, &entries, &found, err);
    for (int i = 0; status == MMUL_OK && i < found; i++)
        if (is_asked(names, count, entries[i].name))
            add_line(text, context->cluster->nodes[context->comm->node_index].host, &entries[i]);
    mmul_free(entries);
    if (status == MMUL_OK && text->failed)
        status = mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a list of sets");
    return status;
}

static enum mmul_status fail_none(const char *name, const char *folder, struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_NO_INPUT, "no kept '%s' in '%s'", name, folder);
}

enum mmul_status mmul_kept_list(struct mmul_context *context, const char *const *names, int count,
                                char **text, struct mmul_error *err) {
    struct mmul_text mine = {0}, all = {0};
    void *lines = NULL;
    int64_t bytes = 0;
    enum mmul_status status = mmul_kept_share_folders(context, err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(context->comm, list_here(context, names, count, &mine, err), err);
    if (status == MMUL_OK)
        status = mmul_comm_share_varying(context->comm, mmul_text_get(&mine), (int64_t)mine.length,
                                         &lines, &bytes, err);
    mmul_text_fini(&mine);
    if (status != MMUL_OK)
        return status;
    mmul_text_add(&all, "host\tset\tshape\ttype\tsplit\tshards here\tbytes\tstate\n%.*s",
                  (int)bytes, bytes > 0 ? (const char *)lines : "");
    mmul_free(lines);
    if (bytes == 0 && count > 0)
        status = fail_none(names[0], context->shard_folder, err);
    else if (all.failed)
        status = mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a list of sets");
    status = mmul_comm_agree(context->comm, status, err);
    if (status == MMUL_OK)
        *text = all.data; // ownership passes on
    else
        mmul_text_fini(&all);
    return status;
}

enum mmul_status mmul_kept_remove(struct mmul_context *context, const char *const *names, int count,
                                  struct mmul_error *err) {
    enum mmul_status status = mmul_kept_share_folders(context, err);
    for (int i = 0; status == MMUL_OK && i < count; i++) {
        int removed = 0, *all = NULL, sum = 0;
        status = mmul_shard_name_check(names[i], err);
        if (status == MMUL_OK)
            status = MMUL_ALLOCATE(all, context->comm->size, "counts", err);
        if (status == MMUL_OK && mmul_kept_has_folder(context))
            status = mmul_shard_remove(context->shard_folder, names[i], &removed, err);
        status = mmul_comm_agree(context->comm, status, err);
        if (status == MMUL_OK)
            status = mmul_comm_share(context->comm, &removed, sizeof removed, all, err);
        for (int rank = 0; status == MMUL_OK && rank < context->comm->size; rank++)
            sum += all[rank];
        mmul_free(all);
        if (status == MMUL_OK && sum == 0)
            status = fail_none(names[i], context->shard_folder, err);
        status = mmul_comm_agree(context->comm, status, err);
    }
    return status;
}
