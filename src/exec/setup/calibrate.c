// SPDX-License-Identifier: MIT
// Calibration as a decision of all ranks: look up stored results, measure missing ones, share them.
// measure.c times a device, comm/link.c times a link, and profile.c knows the contents of a
// profile.
#include "exec/setup/calibrate.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "comm/link.h"
#include "exec/setup/fallback.h"
#include "exec/setup/measure.h"
#include "exec/setup/profile.h"
#include "exec/setup/traffic_cost.h"
#include "exec/threads/compute_thread.h"
#include "exec/threads/device_timeout.h"
#include "host/cgroup.h"
#include "io/profile_file.h"

// A brief measurement of all links takes 8 + 3 budgets: 8 root links, then the ring.
static const struct mmul_link_limits brief = {.budget_seconds = 0.02,
                                              .most_bytes = 4 << 20,
                                              .max_root_links = 8},
                                     thorough = {.budget_seconds = 0.2, .most_bytes = 16 << 20};

// Element types in which products are computed.
enum { TYPES = 2 };
static const enum mmul_dtype types[TYPES] = {MMUL_F32, MMUL_F64};

struct calibration {
    struct mmul_context *context;
    const struct mmul_calibrate_options *options;
    struct mmul_speed speed; // speed of this rank
    unsigned missing;        // bit set of the types to measure
};

// ---------------------------------------------------------------------------------- descriptions

// Description of a rank for all others. Its device may have been replaced.
struct description {
    char device_name[128], cores[64];
    struct mmul_device_info device;
    bool host_memory, is_trusted;
    int threads;
    struct mmul_speed speed;
};

static struct description describe_rank(const struct mmul_context *context,
                                        const struct mmul_speed *speed) {
    const struct mmul_rank_info *known = &context->cluster->ranks[context->comm->rank];
    struct description mine = {.host_memory = mmul_device_can_borrow(context->device),
                               .is_trusted = mmul_device_is_trusted(context->device),
                               .threads = known->threads,
                               .speed = *speed};
    mmul_text_copy(mine.device_name, sizeof mine.device_name, context->device_name);
    mmul_text_copy(mine.cores, sizeof mine.cores, known->cores);
    mmul_device_describe(context->device, &mine.device);
    if (strcmp(known->device_name, context->device_name) == 0)
        return mine;
    mine.threads = context->fallback_threads;
    if (context->fallback_bind)
        mmul_cpuset_format(&context->fallback_cores, mine.cores);
    return mine;
}

// Collective. Copies the device and speed of every rank into the cluster.
static enum mmul_status share_description(const struct mmul_context *context,
                                          const struct mmul_speed *speed, struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    const struct description mine = describe_rank(context, speed);
    struct description *all = NULL;
    enum mmul_status status =
        mmul_comm_agree(comm, MMUL_ALLOCATE(all, comm->size, "speeds", err), err);
    if (status == MMUL_OK)
        status = mmul_comm_allgather(comm, &mine, sizeof mine, all, err);
    for (int rank = 0; status == MMUL_OK && rank < comm->size; rank++) {
        struct mmul_rank_info *info = &context->cluster->ranks[rank];
        mmul_text_copy(info->device_name, sizeof info->device_name, all[rank].device_name);
        mmul_text_copy(info->cores, sizeof info->cores, all[rank].cores);
        info->device = all[rank].device;
        info->host_memory = all[rank].host_memory;
        info->is_trusted = all[rank].is_trusted;
        info->threads = all[rank].threads;
        info->speed = all[rank].speed;
        info->speed_flops = all[rank].speed.flops[MMUL_SPEED_POINTS - 1];
    }
    mmul_free(all);
    return status;
}

// ---------------------------------------------------------------------------------------- stored

static void set_links(struct mmul_node_info *node, struct mmul_link root, struct mmul_link ring,
                      enum mmul_speed_origin origin) {
    node->root_link = root;
    node->ring_link = ring;
    node->links_origin = origin;
}

static void use_stored_links(struct mmul_cluster *cluster, const struct mmul_profile_entries *all) {
    const struct mmul_link none = {0};
    for (int node = 0; node < cluster->node_count; node++) {
        const struct mmul_profile_entries *its = &all[cluster->nodes[node].leader];
        set_links(&cluster->nodes[node], its->root_link, its->ring_link, MMUL_SPEED_STORED);
    }
    if (mmul_cluster_has_links(cluster))
        return;
    for (int node = 0; node < cluster->node_count; node++)
        set_links(&cluster->nodes[node], none, none, MMUL_SPEED_NONE);
}

// Clears the rates of one type on all ranks, if only some ranks have them.
static void forget_rates(struct mmul_cluster *cluster, enum mmul_dtype dtype) {
    for (int rank = 0; rank < cluster->size; rank++) {
        struct mmul_rank_info *info = &cluster->ranks[rank];
        double *flops = dtype == MMUL_F64 ? info->speed.double_flops : info->speed.flops;
        memset(flops, 0, MMUL_SPEED_POINTS * sizeof *flops);
        *(dtype == MMUL_F64 ? &info->speed.double_points : &info->speed.measured_points) = 0;
        info->speed_flops = info->speed.flops[MMUL_SPEED_POINTS - 1];
    }
}

// Takes the stored speeds if every rank has all needed types. Otherwise a type stays only if all
// ranks know it already.
static void use_stored_speeds(struct mmul_cluster *cluster, const struct mmul_profile_entries *all,
                              unsigned needed) {
    bool have = true;
    for (int rank = 0; rank < cluster->size; rank++) {
        struct mmul_rank_info *info = &cluster->ranks[rank];
        have &= mmul_speed_has_types(&all[rank].speed, needed);
        mmul_text_copy(info->speed_unused, sizeof info->speed_unused, all[rank].unused);
    }
    for (int i = 0; !have && i < TYPES; i++)
        if (!mmul_cluster_has_speeds(cluster, 1U << types[i]))
            forget_rates(cluster, types[i]);
    for (int rank = 0; have && rank < cluster->size; rank++) {
        struct mmul_rank_info *info = &cluster->ranks[rank];
        info->speed = all[rank].speed;
        info->speed_flops = info->speed.flops[MMUL_SPEED_POINTS - 1];
    }
}

// Collective. Copies speeds and links from the profiles into the cluster. Each of the two is taken
// for all ranks or for none.
static enum mmul_status use_profiles(const struct calibration *c, struct mmul_error *err) {
    const struct mmul_comm *comm = c->context->comm;
    struct mmul_cluster *cluster = c->context->cluster;
    struct mmul_profile_entries mine, *all = NULL;
    mmul_profile_look_up(c->context, &mine);
    enum mmul_status status = MMUL_ALLOCATE(all, comm->size, "profiles", err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_allgather(comm, &mine, sizeof mine, all, err);
    if (status == MMUL_OK && !mmul_cluster_has_speeds(cluster, c->options->types))
        use_stored_speeds(cluster, all, c->options->types);
    if (status == MMUL_OK && !mmul_cluster_has_links(cluster))
        use_stored_links(cluster, all);
    mmul_free(all);
    return status;
}

// --------------------------------------------------------------------------------------- measured

int64_t mmul_calibrate_memory_bytes(const struct mmul_context *context) {
    const struct mmul_node_info *node = &context->cluster->nodes[context->comm->node_index];
    return node->memory_available_bytes / node->rank_count / 2;
}

// Returns the period of a CPU quota that limits the node's CPU ranks. 0: there is none.
static double quota_period(const struct mmul_context *context) {
    const struct mmul_cluster *cluster = context->cluster;
    struct mmul_cgroup_limits granted;
    int threads = 0;
    if (!mmul_device_can_borrow(context->device))
        return 0;
    for (int rank = 0; rank < cluster->size; rank++)
        if (cluster->ranks[rank].node == context->comm->node_index &&
            cluster->ranks[rank].host_memory)
            threads += cluster->ranks[rank].threads;
    mmul_cgroup_read("", &granted);
    return granted.cpu_quota > 0 && granted.cpu_quota < threads ? granted.cpu_period_seconds : 0;
}

static enum mmul_status measure_device(void *argument, struct mmul_error *err) {
    struct calibration *c = argument;
    struct mmul_measure_request request = {
        .thorough = c->options->depth == MMUL_CALIBRATE_THOROUGH,
        .is_long = c->options->depth == MMUL_CALIBRATE_LONG,
        .memory_bytes = mmul_calibrate_memory_bytes(c->context),
        .period_seconds = quota_period(c->context),
        .job_flops = c->options->job_flops / c->context->comm->size,
        .parallel = {c->context->fallback_threads, mmul_helper_threads_run}};
    enum mmul_status status = MMUL_OK;
    request.has_transfers = !request.thorough && c->speed.upload_bytes_per_second > 0;
    for (int i = 0; status == MMUL_OK && i < TYPES; i++) {
        request.dtype = types[i];
        if (!(c->missing & 1U << types[i]) || !mmul_device_has_dtype(c->context->device, types[i]))
            continue;
        status = mmul_measure_device(c->context->device, &request, &c->speed, err);
        request.has_transfers = true;
    }
    return status;
}

static enum mmul_status warm_up_types(const struct calibration *c, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < TYPES; i++)
        if ((c->missing & 1U << types[i]) && mmul_device_has_dtype(c->context->device, types[i]))
            status = mmul_context_warm_up(c->context, types[i], INFINITY, err);
    return status;
}

static enum mmul_status measure_with_timeout(struct calibration *c, struct mmul_error *err) {
    // limit of one call; a product is expected to take at most 2 s
    static const double most_seconds = 60;
    const double given = c->options->device_timeout_seconds;
    const struct mmul_timed_work measuring = {.device = c->context->device,
                                              .work = measure_device,
                                              .argument = c,
                                              .call_seconds = given > 0 ? given : most_seconds};
    c->speed.warm_up_seconds = c->context->warm_up_seconds;
    c->speed.origin = MMUL_SPEED_MEASURED;
    mmul_profile_date(c->speed.date);
    return mmul_run_with_timeout(&measuring, err);
}

// Measures once, and once more on the next device if the measurement or the warm-up fails.
// Collective over the node: no rank of it builds kernels once the first begins to measure.
static enum mmul_status measure_or_replace(struct calibration *c, struct mmul_error *err) {
    struct mmul_error of_barrier;
    enum mmul_status status = warm_up_types(c, err);
    if (mmul_comm_node_barrier(c->context->comm, &of_barrier) != MMUL_OK) {
        *err = of_barrier;
        return err->status;
    }
    if (status == MMUL_OK)
        status = measure_with_timeout(c, err);
    if (status == MMUL_OK)
        return status;
    status = mmul_context_fall_back(c->context, c->options->no_fallback, err);
    c->speed = (struct mmul_speed){.origin = MMUL_SPEED_NONE};
    if (status == MMUL_OK)
        status = warm_up_types(c, err);
    return status == MMUL_OK ? measure_with_timeout(c, err) : status;
}

// Collective. Measures the needed types that are not known for every rank.
static enum mmul_status measure_devices(struct calibration *c, struct mmul_error *err) {
    for (int i = 0; i < TYPES; i++)
        if (c->options->depth == MMUL_CALIBRATE_THOROUGH ||
            !mmul_cluster_has_speeds(c->context->cluster, 1U << types[i]))
            c->missing |= c->options->types & 1U << types[i];
    enum mmul_status status = mmul_comm_agree(c->context->comm, measure_or_replace(c, err), err);
    return status == MMUL_OK ? share_description(c->context, &c->speed, err) : status;
}

// Collective. The leaders measure the links, and root broadcasts them.
static enum mmul_status measure_links(const struct calibration *c, struct mmul_error *err) {
    const struct mmul_comm *comm = c->context->comm;
    struct mmul_cluster *cluster = c->context->cluster;
    const int count = cluster->node_count;
    struct mmul_link *links = NULL; // links with root, then links around the ring
    enum mmul_status status =
        mmul_comm_agree(comm, MMUL_ALLOCATE(links, 2 * count, "links", err), err);
    if (status == MMUL_OK && comm->node_rank == 0)
        status =
            mmul_links_measure(comm->leaders, comm->alarm,
                               c->options->depth == MMUL_CALIBRATE_THOROUGH ? &thorough : &brief,
                               links, links + count, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, links, 2 * count * (int64_t)sizeof *links, err);
    for (int node = 0; status == MMUL_OK && node < count; node++)
        set_links(&cluster->nodes[node], links[node], links[count + node], MMUL_SPEED_MEASURED);
    mmul_free(links);
    return status;
}

// Collective. The leaders measure the cost of traffic for their computing, and share it with all
// ranks.
static enum mmul_status measure_traffic(struct calibration *c, struct mmul_error *err) {
    enum mmul_status status = mmul_traffic_cost_measure(
        c->context, c->options->depth == MMUL_CALIBRATE_THOROUGH, &c->speed, err);
    status = mmul_comm_agree(c->context->comm, status, err);
    return status == MMUL_OK ? share_description(c->context, &c->speed, err) : status;
}

// ---------------------------------------------------------------------------------------- types

// Collective. Replaces each device that lacks one of the types by its successor, before shares are
// computed.
static enum mmul_status replace_incapable_device(struct calibration *c, struct mmul_error *err) {
    const struct mmul_cluster *cluster = c->context->cluster;
    enum mmul_status status = MMUL_OK;
    bool any = false;
    for (int rank = 0; rank < cluster->size; rank++)
        any |= (c->options->types & 1U << MMUL_F64) && !cluster->ranks[rank].device.has_double;
    if (!any)
        return MMUL_OK;
    if (!mmul_device_has_dtype(c->context->device, MMUL_F64)) {
        mmul_fail(err, MMUL_ERR_UNAVAILABLE, "rank %d: device '%.80s' does not multiply in float64",
                  c->context->comm->rank, c->context->device_name);
        status =
            c->options->no_fallback
                ? mmul_context_fall_back(c->context, true, err)
                : mmul_context_replace_device(c->context, "it does not multiply in float64", err);
        c->speed = (struct mmul_speed){.origin = MMUL_SPEED_NONE};
    }
    status = mmul_comm_agree(c->context->comm, status, err);
    return status == MMUL_OK ? share_description(c->context, &c->speed, err) : status;
}

// ------------------------------------------------------------------------------------------ whole

static enum mmul_status calibrate_thoroughly(struct calibration *c, struct mmul_error *err) {
    enum mmul_status status = mmul_profile_choose_paths(c->context, err);
    if (status == MMUL_OK)
        status = measure_devices(c, err);
    if (status == MMUL_OK && c->context->cluster->node_count > 1)
        status = measure_links(c, err);
    if (status == MMUL_OK && c->context->cluster->node_count > 1)
        status = measure_traffic(c, err);
    if (status == MMUL_OK)
        status =
            mmul_comm_agree(c->context->comm, mmul_profile_store_cluster(c->context, err), err);
    return status;
}

enum mmul_status mmul_calibrate(struct mmul_context *context,
                                const struct mmul_calibrate_options *options,
                                struct mmul_error *err) {
    struct calibration c = {
        .context = context, .options = options, .speed = {.origin = MMUL_SPEED_NONE}};
    const struct mmul_cluster *cluster = context->cluster;
    const struct mmul_rank_info *known = &cluster->ranks[context->comm->rank];
    if (strcmp(known->device_name, context->device_name) == 0) // not replaced since
        c.speed = known->speed;
    enum mmul_status status = share_description(context, &c.speed, err);
    if (status != MMUL_OK)
        return status;
    if (options->depth == MMUL_CALIBRATE_THOROUGH)
        return calibrate_thoroughly(&c, err);
    status = replace_incapable_device(&c, err);
    if (status == MMUL_OK &&
        (!mmul_cluster_has_speeds(cluster, options->types) || !mmul_cluster_has_links(cluster)))
        status = use_profiles(&c, err);
    if (options->depth == MMUL_CALIBRATE_STORED)
        return status;
    c.speed = known->speed;
    if (status == MMUL_OK && !mmul_cluster_has_speeds(cluster, options->types))
        status = measure_devices(&c, err);
    bool links = mmul_cluster_has_links(cluster);
    if (status == MMUL_OK && !links)
        status = measure_links(&c, err);
    c.speed = known->speed;
    if (status == MMUL_OK && !links)
        status = measure_traffic(&c, err);
    return status;
}
