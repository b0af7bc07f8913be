// SPDX-License-Identifier: MIT
// Converts between the cluster and the entries of stored profiles: keys, speeds and links. Each
// node has its own file, because each host has its own devices, cores and neighbours. Only leaders
// write.
#include "exec/setup/profile.h"

#include <string.h>

#include "base/memory.h"
#include "io/profile_file.h"
#include "model/kernel_set.h"

// ------------------------------------------------------------------------------------------- keys

// Counts the ranks of the node that compute in one place: on one GPU, or anywhere on the CPU.
static int count_sharing(const struct mmul_cluster *cluster, const struct mmul_rank_info *info) {
    int count = 0;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct mmul_rank_info *other = &cluster->ranks[rank];
        if (other->node == info->node && other->device.probed == info->device.probed &&
            (!info->device.probed || strcmp(other->device.id, info->device.id) == 0))
            count++;
    }
    return count;
}

static struct mmul_profile_key make_key(const struct mmul_cluster *cluster, int rank) {
    const struct mmul_rank_info *info = &cluster->ranks[rank];
    struct mmul_profile_key key = {.threads = info->threads,
                                   .sharing = count_sharing(cluster, info)};
    mmul_profile_name_device(info->device_name, &info->device, key.device);
    mmul_text_copy(key.name, sizeof key.name, info->device.name);
    mmul_text_copy(key.vendor, sizeof key.vendor, info->device.vendor);
    mmul_text_copy(key.driver, sizeof key.driver, info->device.driver);
    mmul_kernels_key(&info->device, key.kernels);
    if (!info->device.probed)
        mmul_text_copy(key.cores, sizeof key.cores, info->cores);
    return key;
}

// ---------------------------------------------------------------------------------------- recall

static void read_links(const struct mmul_context *context, const struct mmul_profile *profile,
                       struct mmul_profile_entries *recalled) {
    const struct mmul_cluster *cluster = context->cluster;
    int node = context->comm->node_index, next = (node + 1) % cluster->node_count;
    const struct mmul_profile_link *root = mmul_profile_find_link(profile, cluster->nodes[0].host);
    const struct mmul_profile_link *ring =
        mmul_profile_find_link(profile, cluster->nodes[next].host);
    if (root != NULL && node != 0)
        recalled->root_link = root->link;
    if (ring != NULL)
        recalled->ring_link = ring->link;
}

static void warn_of_profile(struct mmul_context *context, const char *what,
                            const struct mmul_error *failure) {
    if (context->comm->node_rank == 0 && !context->has_profile_warning)
        mmul_context_warn(context, "stored profile %s: %s", what, failure->text);
    context->has_profile_warning = true;
}

void mmul_profile_look_up(struct mmul_context *context, struct mmul_profile_entries *recalled) {
    const struct mmul_cluster *cluster = context->cluster;
    const char *host = cluster->nodes[context->comm->node_index].host;
    struct mmul_profile *profile = NULL;
    struct mmul_error failure;
    char path[512];
    *recalled = (struct mmul_profile_entries){.speed = {.origin = MMUL_SPEED_NONE}};
    if (mmul_profile_path(host, path, &failure) != MMUL_OK ||
        mmul_profile_create(host, &profile, &failure) != MMUL_OK)
        return;
    if (mmul_profile_load(path, profile, &failure) != MMUL_OK)
        warn_of_profile(context, "ignored", &failure);
    const struct mmul_profile_key key = make_key(cluster, context->comm->rank);
    const struct mmul_profile_device *found = mmul_profile_find(profile, &key);
    if (found != NULL) {
        recalled->speed = found->speed;
        recalled->speed.origin = MMUL_SPEED_STORED;
    } else {
        mmul_profile_explain_mismatch(profile, &key, recalled->unused);
    }
    if (context->comm->node_rank == 0 && cluster->node_count > 1)
        read_links(context, profile, recalled);
    mmul_free(profile);
}

// ------------------------------------------------------------------------------------------ keep

enum mmul_status mmul_profile_choose_paths(struct mmul_context *context, struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    struct mmul_cluster *cluster = context->cluster;
    char mine[sizeof cluster->nodes->profile] = "";
    char(*all)[sizeof mine] = NULL;
    enum mmul_status status = MMUL_ALLOCATE(all, comm->size, "paths", err);
    if (status == MMUL_OK && comm->node_rank == 0)
        status = mmul_profile_path(cluster->nodes[comm->node_index].host, mine, err);
    if (status == MMUL_OK && comm->node_rank == 0)
        status = mmul_profile_create_folder(mine, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_allgather(comm, mine, sizeof mine, all, err);
    for (int node = 0; status == MMUL_OK && node < cluster->node_count; node++)
        memcpy(cluster->nodes[node].profile, all[cluster->nodes[node].leader], sizeof mine);
    mmul_free(all);
    return status;
}

// Averages the speeds of the node's ranks with the key of `rank`, the first of them.
static enum mmul_status average_speed(const struct mmul_cluster *cluster, int rank,
                                      const struct mmul_profile_key *key, struct mmul_speed *mean,
                                      struct mmul_error *err) {
    struct mmul_speed *alike = NULL;
    int count = 0;
    enum mmul_status status = MMUL_ALLOCATE(alike, cluster->size, "speeds", err);
    if (status != MMUL_OK)
        return status;
    alike[count++] = cluster->ranks[rank].speed;
    for (int other = 0; other < cluster->size; other++) {
        if (other == rank || cluster->ranks[other].node != cluster->ranks[rank].node)
            continue;
        const struct mmul_profile_key its = make_key(cluster, other);
        if (mmul_profile_same_key(&its, key))
            alike[count++] = cluster->ranks[other].speed;
    }
    *mean = mmul_speed_mean(alike, count);
    mmul_free(alike);
    return MMUL_OK;
}

static enum mmul_status add_speeds(const struct mmul_context *context, struct mmul_profile *profile,
                                   struct mmul_error *err) {
    const struct mmul_cluster *cluster = context->cluster;
    enum mmul_status status = MMUL_OK;
    for (int rank = 0; status == MMUL_OK && rank < cluster->size; rank++) {
        if (cluster->ranks[rank].node != context->comm->node_index)
            continue;
        struct mmul_profile_device entry = {.key = make_key(cluster, rank),
                                            .memory_bytes =
                                                cluster->ranks[rank].device.memory_bytes};
        status = average_speed(cluster, rank, &entry.key, &entry.speed, err);
        mmul_text_copy(entry.version, sizeof entry.version, MMUL_VERSION);
        if (status == MMUL_OK)
            mmul_profile_add(profile, &entry);
    }
    return status;
}

static void add_link(struct mmul_profile *profile, const char *host, const struct mmul_link *link) {
    struct mmul_profile_link entry = {.link = *link};
    mmul_text_copy(entry.host, sizeof entry.host, host);
    mmul_profile_date(entry.date);
    if (link->bytes_per_second > 0)
        mmul_profile_add_link(profile, &entry);
}

// Adds the links of this node. Both hosts of a link store it.
static void add_links(const struct mmul_context *context, struct mmul_profile *profile) {
    const struct mmul_cluster *cluster = context->cluster;
    int node = context->comm->node_index, count = cluster->node_count;
    int next = (node + 1) % count, previous = (node + count - 1) % count;
    if (count == 1)
        return;
    add_link(profile, cluster->nodes[previous].host, &cluster->nodes[previous].ring_link);
    add_link(profile, cluster->nodes[next].host, &cluster->nodes[node].ring_link);
    if (node != 0)
        add_link(profile, cluster->nodes[0].host, &cluster->nodes[node].root_link);
}

// Opens the stored profile on leaders. Sets NULL on other ranks.
static enum mmul_status open_profile(struct mmul_context *context, struct mmul_profile **profile,
                                     struct mmul_error *err) {
    const struct mmul_node_info *node = &context->cluster->nodes[context->comm->node_index];
    struct mmul_error failure;
    *profile = NULL;
    if (context->comm->node_rank != 0)
        return MMUL_OK;
    enum mmul_status status = mmul_profile_create(node->host, profile, err);
    if (status == MMUL_OK && mmul_profile_load(node->profile, *profile, &failure) != MMUL_OK)
        warn_of_profile(context, "replaced", &failure);
    return status;
}

static enum mmul_status store_profile(const struct mmul_context *context,
                                      struct mmul_profile *profile, struct mmul_error *err) {
    const struct mmul_node_info *node = &context->cluster->nodes[context->comm->node_index];
    enum mmul_status status = mmul_profile_store(profile, node->profile, err);
    mmul_free(profile);
    return status;
}

enum mmul_status mmul_profile_store_cluster(struct mmul_context *context, struct mmul_error *err) {
    struct mmul_profile *profile;
    enum mmul_status status = open_profile(context, &profile, err);
    if (profile == NULL)
        return status;
    status = add_speeds(context, profile, err);
    if (status == MMUL_OK) {
        add_links(context, profile);
        return store_profile(context, profile, err);
    }
    mmul_free(profile);
    return status;
}

// ------------------------------------------------------------------------------------------ tests

static struct mmul_profile_test convert_test(const struct mmul_device_test *t) {
    struct mmul_profile_test entry = {.passed = t->passed};
    mmul_profile_name_device(t->device, &t->info, entry.device);
    mmul_text_copy(entry.name, sizeof entry.name, t->info.name);
    mmul_text_copy(entry.vendor, sizeof entry.vendor, t->info.vendor);
    mmul_text_copy(entry.driver, sizeof entry.driver, t->info.driver);
    mmul_text_copy(entry.date, sizeof entry.date, t->date);
    mmul_text_copy(entry.failure, sizeof entry.failure, t->failure);
    return entry;
}

enum mmul_status mmul_profile_store_tests(struct mmul_context *context,
                                          const struct mmul_device_test *tests, int count,
                                          struct mmul_error *err) {
    struct mmul_profile *profile;
    enum mmul_status status = open_profile(context, &profile, err);
    if (profile == NULL)
        return status;
    for (int passed = 1; passed >= 0; passed--) // failures last, so they override passes
        for (int i = 0; i < count; i++) {
            if (context->cluster->ranks[tests[i].rank].node != context->comm->node_index ||
                tests[i].passed != passed)
                continue;
            const struct mmul_profile_test entry = convert_test(&tests[i]);
            if (tests[i].counts)
                mmul_profile_add_test(profile, &entry);
            else
                mmul_profile_remove_tests(profile, &entry);
        }
    return store_profile(context, profile, err);
}
