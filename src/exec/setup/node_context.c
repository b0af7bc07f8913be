// SPDX-License-Identifier: MIT
// Cluster of one node or of root alone, copied out of the whole cluster. The device moves from the
// whole context to the part and back.
#include "exec/setup/node_context.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"

static enum mmul_status create_cluster(const struct mmul_context *whole, int size,
                                       struct mmul_context *part, struct mmul_error *err) {
    int devices = 0;
    for (int i = 0; i < whole->cluster->device_count; i++)
        devices += whole->cluster->devices[i].node == whole->comm->node_index;
    return mmul_cluster_create(size, 1, devices, &part->cluster, err);
}

static bool is_member(const struct mmul_context *whole, const struct mmul_context *part, int rank) {
    return part == whole->alone ? rank == 0
                                : whole->cluster->ranks[rank].node == whole->comm->node_index;
}

// Copies the node, and the part's ranks and devices, in their present state. Weights keep their
// values.
static void copy_members(const struct mmul_context *whole, const struct mmul_context *part) {
    const int here = whole->comm->node_index;
    struct mmul_cluster *own = part->cluster;
    int devices = 0;
    own->nodes[0] = whole->cluster->nodes[here];
    own->nodes[0].leader = 0;
    own->nodes[0].rank_count = own->size;
    for (int i = 0; i < whole->cluster->device_count; i++) {
        const struct mmul_device_entry *entry = &whole->cluster->devices[i];
        if (entry->node != here)
            continue;
        own->devices[devices] = *entry;
        own->devices[devices].node = 0;
        if (entry->used_by >= 0)
            own->devices[devices].used_by = is_member(whole, part, entry->used_by)
                                                ? whole->cluster->ranks[entry->used_by].node_rank
                                                : -1;
        devices++;
    }
    for (int rank = 0; rank < whole->cluster->size; rank++) {
        const struct mmul_rank_info *info = &whole->cluster->ranks[rank];
        if (!is_member(whole, part, rank))
            continue;
        const double weight = own->ranks[info->node_rank].listed_weight;
        own->ranks[info->node_rank] = *info;
        own->ranks[info->node_rank].node = 0;
        own->ranks[info->node_rank].listed_weight = weight;
    }
}

enum mmul_status mmul_node_context_create(struct mmul_context *whole, const double *weights,
                                          struct mmul_error *err) {
    struct mmul_context *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "a context", err);
    if (status == MMUL_OK)
        status = create_cluster(whole, whole->comm->node_size, made, err);
    status = mmul_comm_agree(whole->comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_create(whole->comm->node, &made->comm, err);
    if (status != MMUL_OK) {
        mmul_node_context_destroy(made);
        return status;
    }
    for (int rank = 0; rank < whole->cluster->size; rank++)
        if (whole->cluster->ranks[rank].node == whole->comm->node_index)
            made->cluster->ranks[whole->cluster->ranks[rank].node_rank].listed_weight =
                weights != NULL ? weights[rank] : -1;
    made->whole = whole;
    made->device_usage = whole->device_usage;
    whole->node = made;
    return MMUL_OK;
}

enum mmul_status mmul_root_context_create(struct mmul_context *whole, struct mmul_error *err) {
    struct mmul_context *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "a context", err);
    if (status == MMUL_OK)
        status = create_cluster(whole, 1, made, err);
    if (status == MMUL_OK)
        status = mmul_comm_create_alone(&made->comm, err);
    if (status != MMUL_OK) {
        mmul_node_context_destroy(made);
        return status;
    }
    made->cluster->ranks[0].listed_weight = -1;
    made->whole = whole;
    made->device_usage = whole->device_usage;
    whole->alone = made;
    return MMUL_OK;
}

static void transfer_device(const struct mmul_context *from, struct mmul_context *to) {
    to->device = from->device;
    memcpy(to->device_name, from->device_name, sizeof to->device_name);
    to->fallback_cores = from->fallback_cores;
    to->fallback_threads = from->fallback_threads;
    to->fallback_bind = from->fallback_bind;
    to->replacements = from->replacements;
    to->chosen = from->chosen;
    memcpy(to->warm, from->warm, sizeof to->warm);
}

void mmul_node_context_lend_device(struct mmul_context *whole, struct mmul_context *part) {
    transfer_device(whole, part);
    copy_members(whole, part);
}

void mmul_node_context_return_device(struct mmul_context *whole, struct mmul_context *part) {
    transfer_device(part, whole);
    part->device = NULL;
    mmul_text_add(&whole->warnings, "%s", mmul_text_get(&part->warnings));
    mmul_text_fini(&part->warnings);
}

void mmul_node_context_destroy(struct mmul_context *node) {
    if (node == NULL)
        return;
    mmul_cluster_destroy(node->cluster);
    mmul_comm_destroy(node->comm);
    mmul_text_fini(&node->warnings);
    mmul_free(node);
}
