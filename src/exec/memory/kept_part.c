// SPDX-License-Identifier: MIT
// A kept set of what the ranks have in their memory: each copies its part into its shard, and the set gets its name as
// any other. What a job computes is kept.c's.
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/rows.h"
#include "base/status.h"
#include "exec/memory/kept.h"
#include "io/output_file.h"
#include "io/shard_folder.h"
#include "model/dtype.h"

// What all have to know of each one's part.
struct part_facts {
    int64_t rows, cols;
    uint64_t name; // its checksum
    int32_t dtype, axis;
};

static enum mmul_status check_own(const char *name, const struct mmul_local_part *p,
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

// The whole, and where each part begins: the same on all ranks.
static enum mmul_status put_together(const char *name, const struct part_facts *all,
                                     struct mmul_shard_set *set, struct mmul_error *err) {
    const bool rows = all[0].axis == MMUL_ROWS;
    set->axis = (enum mmul_axis)all[0].axis;
    set->dtype = (enum mmul_dtype)all[0].dtype;
    for (int rank = 0; rank < set->parts; rank++) {
        const int64_t along = rows ? all[rank].rows : all[rank].cols;
        if (all[rank].name != all[0].name)
            return mmul_fail(err, MMUL_ERR_USAGE,
                             "cannot keep '%s': rank %d calls it otherwise than rank 0", name,
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

// Collective over world: the description of what all have.
static enum mmul_status describe(struct mmul_context *context, const char *name,
                                 const struct mmul_local_part *part, struct mmul_shard_set **set,
                                 struct mmul_error *err) {
    const struct part_facts mine = {part->rows, part->cols, mmul_hash(name, strlen(name)),
                                    (int32_t)part->dtype, (int32_t)part->axis};
    struct part_facts *all = NULL;
    enum mmul_status status = check_own(name, part, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(all, context->comm->size, "facts of parts", err);
    if (status == MMUL_OK)
        status = mmul_kept_create_set(context, set, err);
    status = mmul_comm_agree(context->comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_share(context->comm, &mine, sizeof mine, all, err);
    if (status == MMUL_OK)
        status = put_together(name, all, *set, err);
    mmul_free(all);
    return status;
}

static void copy_part(const struct mmul_local_part *part, void *elements) {
    const int64_t each = (int64_t)mmul_dtype_bytes(part->dtype), bytes = part->cols * each;
    if (bytes > 0 && part->rows > 0)
        mmul_copy_rows(part->data, part->row_step * each, elements, bytes, part->rows, bytes);
}

enum mmul_status mmul_kept_make(struct mmul_context *context, const char *name,
                                const struct mmul_local_part *part, struct mmul_error *err) {
    struct mmul_shard_set *set = NULL;
    struct mmul_output *output = NULL;
    struct mmul_shard_map map = {.fd = -1};
    const struct mmul_kept_shard shard = {.name = name,
                                          .rank = context->comm->rank,
                                          .shape = {1, 1, part->rows, part->cols},
                                          .dtype = part->dtype,
                                          .is_made = true};
    enum mmul_status status = describe(context, name, part, &set, err);
    if (status == MMUL_OK)
        status = mmul_kept_share_folders(context, err);
    if (status == MMUL_OK) {
        status = mmul_kept_begin_shard(context, &shard, &output, err);
        if (status == MMUL_OK)
            status = mmul_kept_map_shard(context, &shard, &map, err);
        if (status == MMUL_OK)
            copy_part(part, map.elements);
        status = mmul_comm_agree(context->comm, status, err);
    }
    if (status == MMUL_OK)
        status = mmul_kept_publish(context, name, set, &map, &output, err);
    mmul_shard_map_close(&map);
    mmul_output_destroy(output);
    mmul_shard_set_destroy(set);
    return status;
}
