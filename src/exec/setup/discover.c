// SPDX-License-Identifier: MIT
// Discovery in four steps. Each rank inspects its machine and its options, and shares both with all
// ranks. Each then computes the assignment (equal on all ranks of a node), opens its device, and
// shares that.
#include "exec/setup/discover.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "exec/setup/assign.h"
#include "host/topology.h"
#include "io/profile_file.h"
#include "io/text_file.h"

// Work space of one discovery.
struct discovery {
    struct mmul_context *context;
    const struct mmul_discover_options *options;
    struct mmul_topology topology;
    char *device_file; // text of --device @FILE, or NULL
    struct mmul_assign_request mine;
    double listed_weight;
    struct mmul_assign_request *requests; // one per rank of the world
    struct mmul_assign_request *node_requests;
    struct mmul_assignment *assignments; // one per rank of this node
    struct mmul_device_info *devices;    // devices of this node
    int device_count;
};

// ---------------------------------------------------------------------------------------- wishes

// Broadcasts root's --device @FILE. The file need not exist on other nodes.
static enum mmul_status share_device_file(struct discovery *d, const char *wanted,
                                          struct mmul_error *err) {
    const struct mmul_comm *comm = d->context->comm;
    int64_t bytes = 0;
    enum mmul_status status = MMUL_OK;
    if (comm->rank == 0 && wanted[0] == '@')
        status = mmul_text_file_load(wanted + 1, "list of devices", &d->device_file, err);
    if (d->device_file != NULL)
        bytes = (int64_t)strlen(d->device_file) + 1;
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, &bytes, sizeof bytes, err);
    if (status != MMUL_OK || bytes == 0)
        return status;
    if (comm->rank != 0)
        status = MMUL_ALLOCATE(d->device_file, bytes, "the device file", err);
    status = mmul_comm_agree(comm, status, err);
    return status == MMUL_OK ? mmul_comm_broadcast(comm, d->device_file, bytes, err) : status;
}

static enum mmul_status make_request(struct discovery *d, const char *wanted,
                                     struct mmul_error *err) {
    struct mmul_assign_request *mine = &d->mine;
    *mine = (struct mmul_assign_request){.own = d->topology.own,
                                         .user_binding = d->topology.user_binding,
                                         .no_bind = d->options->no_bind,
                                         .threads = d->options->threads,
                                         .rank = d->context->comm->rank};
    d->listed_weight = -1;
    if (wanted[0] == '@' && d->device_file == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "--device '%s': root was not given a device file",
                         wanted);
    struct mmul_device_file_entry line;
    if (wanted[0] == '@' &&
        mmul_device_file_find(d->device_file, wanted + 1, d->topology.host,
                              d->context->comm->node_rank, &line, err) != MMUL_OK)
        return err->status;
    if (wanted[0] == '@')
        d->listed_weight = line.weight;
    else if (strlen(wanted) >= sizeof mine->device)
        return mmul_fail(err, MMUL_ERR_USAGE, "--device: '%.60s...' is too long", wanted);
    mmul_text_copy(mine->device, sizeof mine->device, wanted[0] == '@' ? line.device : wanted);
    return MMUL_OK;
}

static enum mmul_status share_requests(struct discovery *d, struct mmul_error *err) {
    const struct mmul_comm *comm = d->context->comm;
    const char *wanted = d->options->device != NULL ? d->options->device : "auto";
    enum mmul_status status = share_device_file(d, wanted, err);
    if (status != MMUL_OK)
        return status;
    status = mmul_comm_agree(comm, make_request(d, wanted, err), err);
    if (status == MMUL_OK)
        status = mmul_comm_allgather(comm, &d->mine, sizeof d->mine, d->requests, err);
    for (int rank = 0, at = 0; status == MMUL_OK && rank < comm->size; rank++)
        if (comm->rank_node[rank] == comm->node_index)
            d->node_requests[at++] = d->requests[rank];
    return status;
}

// ----------------------------------------------------------------------------------- devices

// Chooses the rank that reports a node's devices: the lowest one that found a device or a warning.
// Ranks that the user put on the CPU did not probe for devices.
static enum mmul_status choose_reporter(const struct discovery *d, bool *is_reporter,
                                        struct mmul_error *err) {
    const struct mmul_comm *comm = d->context->comm;
    int found = d->options->device_count + d->options->warning_count, *all = NULL;
    enum mmul_status status =
        mmul_comm_agree(comm, MMUL_ALLOCATE(all, comm->size, "devices", err), err);
    if (status == MMUL_OK)
        status = mmul_comm_allgather(comm, &found, sizeof found, all, err);
    *is_reporter = status == MMUL_OK && found > 0;
    for (int rank = 0; *is_reporter && rank < comm->rank; rank++)
        if (comm->rank_node[rank] == comm->node_index && all[rank] > 0)
            *is_reporter = false;
    mmul_free(all);
    return status;
}

// Excludes devices from `auto` that failed their last test with their present driver. An unreadable
// profile is ignored here; reading speeds from it gives a warning.
static void exclude_failed(struct discovery *d, struct mmul_device_entry *entries, int count) {
    struct mmul_profile *profile = NULL;
    struct mmul_error ignored;
    char path[512];
    if (count == 0 || mmul_profile_path(d->topology.host, path, &ignored) != MMUL_OK ||
        mmul_profile_create(d->topology.host, &profile, &ignored) != MMUL_OK)
        return;
    if (mmul_profile_load(path, profile, &ignored) != MMUL_OK)
        profile->test_count = 0;
    for (int i = 0; i < count; i++) {
        struct mmul_device_info *info = &entries[i].info;
        const struct mmul_profile_test *test = mmul_profile_find_test(profile, info->id, info);
        if (test == NULL || test->passed)
            continue;
        if (info->usable)
            mmul_context_warn(
                d->context,
                "%s: device '%s (%s)' is excluded because it failed its test (%s): %s; "
                "`mpimatmul devices --test --device %s` tests it again",
                d->topology.host, info->id, info->name, test->date, test->failure, info->id);
        info->usable = false;
        entries[i].failed_test = true;
        snprintf(info->reason, sizeof info->reason, "failed its test (%.10s): %.90s", test->date,
                 test->failure);
    }
    mmul_free(profile);
}

// Shares the devices of all nodes as cluster entries. This node's devices also become a plain list.
static enum mmul_status share_devices(struct discovery *d, struct mmul_device_entry **entries,
                                      int *count, struct mmul_error *err) {
    const struct mmul_comm *comm = d->context->comm;
    struct mmul_device_entry *mine = NULL;
    void *all = NULL;
    bool is_reporter = false;
    int64_t total = 0;
    enum mmul_status status = choose_reporter(d, &is_reporter, err);
    if (status != MMUL_OK)
        return status;
    for (int i = 0; is_reporter && i < d->options->warning_count; i++)
        mmul_context_warn(d->context, "%s", d->options->warnings[i]);
    int own = is_reporter ? d->options->device_count : 0;
    status = MMUL_ALLOCATE(mine, own, "devices", err);
    for (int i = 0; status == MMUL_OK && i < own; i++)
        mine[i] = (struct mmul_device_entry){
            .node = comm->node_index, .info = d->options->devices[i], .used_by = -1};
    if (status == MMUL_OK)
        exclude_failed(d, mine, own);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status =
            mmul_comm_allgather_varying(comm, mine, own * (int64_t)sizeof *mine, &all, &total, err);
    mmul_free(mine);
    if (status != MMUL_OK)
        return status;
    *entries = all;
    *count = (int)(total / (int64_t)sizeof **entries);
    status = MMUL_ALLOCATE(d->devices, *count, "devices", err);
    for (int i = 0; status == MMUL_OK && i < *count; i++)
        if ((*entries)[i].node == comm->node_index)
            d->devices[d->device_count++] = (*entries)[i].info;
    return mmul_comm_agree(comm, status, err);
}

// Opens the assigned device. The CPU replaces a device that `auto` chose and that fails to open.
static enum mmul_status open_device(struct discovery *d, struct mmul_assignment *mine,
                                    struct mmul_error *err) {
    struct mmul_context *context = d->context;
    enum mmul_status status = mmul_device_open(mine->device, &context->device, err);
    if (status == MMUL_OK || !mine->chosen || mine->device_index < 0)
        return status;
    mmul_context_warn(context,
                      "rank %d on %s: device '%s' cannot be opened, using the CPU instead: %s",
                      context->comm->rank, d->topology.host, mine->device, err->text);
    mmul_text_copy(mine->device, sizeof mine->device, "cpu");
    mine->device_index = -1;
    mine->cores = mine->fallback_cores;
    mine->threads = mine->fallback_threads;
    return mmul_device_open("cpu", &context->device, err);
}

static enum mmul_status assign_and_bind(struct discovery *d, struct mmul_error *err) {
    int here = d->context->comm->node_rank;
    const struct mmul_assign_node node = {.topology = &d->topology,
                                          .devices = d->devices,
                                          .device_count = d->device_count,
                                          .requests = d->node_requests,
                                          .ranks = d->context->comm->node_size};
    enum mmul_status status = mmul_assign_devices(&node, d->assignments, err);
    if (status != MMUL_OK)
        return status;
    struct mmul_assignment *mine = &d->assignments[here];
    status = open_device(d, mine, err);
    if (status == MMUL_OK && mine->bind)
        status = mmul_topology_bind(&mine->cores, err);
    if (status != MMUL_OK)
        return status;
    int cores = (int)mmul_cpuset_count(&d->topology.allowed);
    if (d->options->threads > cores)
        mmul_context_warn(d->context,
                          "rank %d on %s: --threads %d is more than the %d core%s it may use",
                          d->context->comm->rank, d->topology.host, d->options->threads, cores,
                          cores == 1 ? "" : "s");
    d->context->fallback_cores = mine->fallback_cores;
    d->context->fallback_threads = mine->fallback_threads;
    d->context->fallback_bind = mine->bind;
    d->context->chosen = mine->chosen;
    mmul_text_copy(d->context->device_name, sizeof d->context->device_name, mine->device);
    mmul_device_set_threads(d->context->device, mine->threads);
    return MMUL_OK;
}

// ----------------------------------------------------------------------------------- the cluster

static struct mmul_rank_info describe_rank(const struct discovery *d) {
    const struct mmul_comm *comm = d->context->comm;
    const struct mmul_assignment *mine = &d->assignments[comm->node_rank];
    struct mmul_rank_info info = {.node = comm->node_index,
                                  .node_rank = comm->node_rank,
                                  .device_index = mine->device_index,
                                  .threads = mine->threads,
                                  .bound_by_user = d->topology.user_binding,
                                  .process_bytes = mmul_process_memory_bytes(comm->node_size),
                                  .listed_weight = d->listed_weight,
                                  .cache_bytes = d->topology.cache_bytes,
                                  .all_cache_bytes = d->topology.all_cache_bytes,
                                  .host_memory = mmul_device_can_borrow(d->context->device),
                                  .is_trusted = mmul_device_is_trusted(d->context->device)};
    mmul_text_copy(info.host, sizeof info.host, d->topology.host);
    mmul_text_copy(info.device_name, sizeof info.device_name, mine->device);
    mmul_text_copy(info.note, sizeof info.note, mine->note);
    if (mine->bind)
        mmul_cpuset_format(&mine->cores, info.cores);
    mmul_device_describe(d->context->device, &info.device);
    return info;
}

// Returns true if mpirun and its daemons open every OpenCL driver: plugins of hwloc inside them do
// so unless HWLOC_COMPONENTS excludes them.
static bool launcher_loads_drivers(void) {
    const char *components = getenv("HWLOC_COMPONENTS");
    return getenv("OMPI_COMM_WORLD_RANK") != NULL &&
           (components == NULL || strstr(components, "-opencl") == NULL);
}

static struct mmul_node_info describe_node(const struct discovery *d) {
    const struct mmul_topology *t = &d->topology;
    struct mmul_node_info info = {.leader = d->context->comm->rank,
                                  .rank_count = d->context->comm->node_size,
                                  .packages = t->packages,
                                  .numa_nodes = t->numa_nodes,
                                  .cores = t->cores,
                                  .cores_allowed = mmul_cpuset_count(&t->core_first_units),
                                  .memory_bytes = t->memory_bytes,
                                  .memory_available_bytes = t->memory_available_bytes,
                                  .launcher_loads_drivers = launcher_loads_drivers()};
    mmul_text_copy(info.host, sizeof info.host, t->host);
    return info;
}

// Sets the lowest rank that uses each device, and a reason for each unused one.
static void mark_devices(struct mmul_cluster *cluster) {
    int first = 0;
    for (int i = 0; i < cluster->device_count; i++) {
        struct mmul_device_entry *entry = &cluster->devices[i];
        if (i > 0 && cluster->devices[i - 1].node != entry->node)
            first = i;
        for (int rank = cluster->size - 1; rank >= 0; rank--)
            if (cluster->ranks[rank].node == entry->node &&
                cluster->ranks[rank].device_index == i - first)
                entry->used_by = rank;
        if (entry->used_by < 0 && entry->info.reason[0] == '\0')
            mmul_text_copy(entry->info.reason, sizeof entry->info.reason,
                           "start one more rank on this node");
    }
}

static enum mmul_status share_cluster(struct discovery *d, struct mmul_device_entry *entries,
                                      int count, struct mmul_error *err) {
    struct mmul_context *context = d->context;
    const struct mmul_comm *comm = context->comm;
    struct mmul_rank_info me = describe_rank(d);
    struct mmul_node_info here = describe_node(d);
    void *nodes = NULL;
    int64_t total;
    enum mmul_status status =
        mmul_cluster_create(comm->size, comm->node_count, count, &context->cluster, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_allgather(comm, &me, sizeof me, context->cluster->ranks, err);
    if (status == MMUL_OK)
        status = mmul_comm_allgather_varying(comm, &here, comm->node_rank == 0 ? sizeof here : 0,
                                             &nodes, &total, err);
    if (status != MMUL_OK)
        return status;
    memcpy(context->cluster->nodes, nodes, (size_t)comm->node_count * sizeof here);
    if (count > 0)
        memcpy(context->cluster->devices, entries, (size_t)count * sizeof *entries);
    mark_devices(context->cluster);
    mmul_free(nodes);
    return MMUL_OK;
}

enum mmul_status mmul_discover(struct mmul_context *context,
                               const struct mmul_discover_options *options,
                               struct mmul_error *err) {
    struct discovery d = {.context = context, .options = options};
    struct mmul_device_entry *entries = NULL;
    const struct mmul_comm *comm = context->comm;
    int count = 0;
    enum mmul_status status = MMUL_ALLOCATE_ALL("requests", err, MMUL_ARRAY(d.requests, comm->size),
                                                MMUL_ARRAY(d.node_requests, comm->node_size),
                                                MMUL_ARRAY(d.assignments, comm->node_size));
    if (status == MMUL_OK)
        status = mmul_topology_discover(&d.topology, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = share_requests(&d, err);
    if (status == MMUL_OK)
        status = share_devices(&d, &entries, &count, err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, assign_and_bind(&d, err), err);
    if (status == MMUL_OK)
        status = share_cluster(&d, entries, count, err);
    MMUL_FREE_ALL(entries, d.device_file, d.requests, d.node_requests, d.assignments, d.devices);
    return status;
}
