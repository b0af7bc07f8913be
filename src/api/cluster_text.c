// SPDX-License-Identifier: MIT
// The cluster as tables and as JSON.
#include <string.h>

#include "api/texts.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/kernel_set.h"

static const char *type_name(enum mmul_device_type type) {
    static const char *const names[] = {"cpu", "gpu", "accelerator"};
    return names[type];
}

// Returns the text for a rank's cores in a table.
static const char *cores_text(const struct mmul_rank_info *rank) {
    if (rank->cores[0] != '\0')
        return rank->cores;
    return rank->bound_by_user ? "user's" : "any";
}

// Columns to which device names are cut in tables that must fit a terminal.
enum { NAME_COLUMNS = 36 };

// Returns `text`.
static const char *name_text(const char *name, bool verbose, char text[static 128]) {
    bool cut = !verbose && strlen(name) > NAME_COLUMNS;
    snprintf(text, 128, "%.*s%s", cut ? NAME_COLUMNS - 3 : 127, name, cut ? "..." : "");
    return text;
}

// Formats a driver with its version. If the table must fit a terminal, an OpenCL platform with a
// long name is abbreviated to its common name or cut. Returns `text`.
static const char *driver_text(const struct mmul_device_info *d, bool verbose,
                               char text[static 160]) {
    enum { COLUMNS = 22 };
    const bool is_pocl = strcmp(d->platform, "Portable Computing Language") == 0;
    const int left = COLUMNS - 1 - (int)strlen(d->driver), least = 8;
    const int most = verbose ? 127 : left > least ? left : least;
    const bool is_named = strncmp(d->driver, d->platform, strlen(d->platform)) == 0;
    if (is_named) // "OpenBLAS 0.3.21"; also a platform without a name
        snprintf(text, 160, "%s", d->driver);
    else
        snprintf(text, 160, "%.*s %s", most, is_pocl ? "PoCL" : d->platform, d->driver);
    return text;
}

// Prints a line, broken at its last comma if it is too long.
static void print_in_columns(const char *line, FILE *stream) {
    enum { COLUMNS = 120 };
    const char *comma = strlen(line) > COLUMNS ? strrchr(line, ',') : NULL;
    if (comma != NULL)
        fprintf(stream, "%.*s,\n %s\n", (int)(comma - line), line, comma + 1);
    else
        fprintf(stream, "%s\n", line);
}

void mmul_cluster_print_kernels(const struct mmul_cluster *cluster, bool all, FILE *stream) {
    char text[192], next[192];
    for (int first = 0, last; first < cluster->size; first = last + 1) {
        const struct mmul_device_info *d = &cluster->ranks[first].device;
        mmul_kernels_format(d, text);
        for (last = first; last + 1 < cluster->size; last++)
            if (strcmp(mmul_kernels_format(&cluster->ranks[last + 1].device, next), text) != 0)
                break;
        if (d->kernels[0] == '\0' ||
            (!all && d->kernels_setting[0] == '\0' && d->kernels_unused_vectors[0] == '\0'))
            continue;
        struct mmul_text line = {0};
        if (last == first)
            mmul_text_add(&line, "rank %d", first);
        else
            mmul_text_add(&line, "ranks %d to %d", first, last);
        mmul_text_add(&line, ": OpenBLAS's kernels are %s", text);
        print_in_columns(mmul_text_get(&line), stream);
        mmul_text_fini(&line);
        if (!all)
            fputs("  `mpimatmul devices --test` measures others\n", stream);
    }
}

static void print_ranks(const struct mmul_cluster *cluster, bool verbose, FILE *stream) {
    struct mmul_text table = {0};
    char memory[32], name[128], driver[160];
    mmul_text_add(&table, "rank\thost\tslot\tcores\tthreads\tdevice\tname\t%smemory\tdriver\n",
                  verbose ? "vendor\t" : "");
    for (int i = 0; i < cluster->size; i++) {
        const struct mmul_rank_info *r = &cluster->ranks[i];
        mmul_text_add(&table, "%d\t%s\t%d\t%s\t%d\t%s\t%s\t", i, r->host, r->node_rank,
                      cores_text(r), r->threads, r->device_name,
                      name_text(r->device.name, verbose, name));
        if (verbose)
            mmul_text_add(&table, "%s\t", r->device.vendor);
        mmul_text_add(&table, "%s\t%s\n", mmul_bytes_format(r->device.memory_bytes, memory),
                      driver_text(&r->device, verbose, driver));
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
    for (int i = 0; i < cluster->size; i++)
        if (cluster->ranks[i].note[0] != '\0')
            fprintf(stream, "rank %d: %s\n", i, cluster->ranks[i].note);
    mmul_cluster_print_kernels(cluster, false, stream);
}

static void print_nodes(const struct mmul_cluster *cluster, FILE *stream) {
    struct mmul_text table = {0};
    char memory[32], available[32];
    mmul_text_add(&table, "node\tpackages\tNUMA nodes\tcores\tallowed\tmemory\tavailable\tranks\n");
    for (int i = 0; i < cluster->node_count; i++) {
        const struct mmul_node_info *n = &cluster->nodes[i];
        mmul_text_add(&table, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%d\n", n->host, n->packages,
                      n->numa_nodes, n->cores, n->cores_allowed,
                      mmul_bytes_format(n->memory_bytes, memory),
                      mmul_bytes_format(n->memory_available_bytes, available), n->rank_count);
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
    for (int i = 0; i < cluster->node_count; i++)
        if (cluster->nodes[i].launcher_loads_drivers)
            fprintf(stream,
                    "%s: mpirun itself loads every OpenCL driver; HWLOC_COMPONENTS=-opencl,-gl in "
                    "its environment\n  keeps a broken one from taking it down\n",
                    cluster->nodes[i].host);
}

static void print_devices(const struct mmul_cluster *cluster, bool verbose, FILE *stream) {
    struct mmul_text table = {0};
    char memory[32], use[32], name[128], driver[160];
    mmul_text_add(&table, "node\tdevice\ttype\tname\tPCI\tunits\tmemory\tused by\tdriver\n");
    for (int i = 0; i < cluster->device_count; i++) {
        const struct mmul_device_entry *d = &cluster->devices[i];
        snprintf(use, sizeof use, d->used_by >= 0 ? "rank %d" : "nobody", d->used_by);
        mmul_text_add(&table, "%s\t%s\t%s\t%s\t", cluster->nodes[d->node].host, d->info.id,
                      type_name(d->info.type), name_text(d->info.name, verbose, name));
        mmul_text_add(&table, "%s\t%d\t%s\t%s\t%s\n", d->info.pci[0] ? d->info.pci : "-",
                      d->info.compute_units, mmul_bytes_format(d->info.memory_bytes, memory), use,
                      driver_text(&d->info, verbose, driver));
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
    for (int i = 0; i < cluster->device_count; i++) {
        const struct mmul_device_entry *d = &cluster->devices[i];
        if (d->used_by < 0)
            fprintf(stream, "%s %s is unused: %s\n", cluster->nodes[d->node].host, d->info.id,
                    d->info.reason);
    }
}

void mmul_cluster_print(const struct mmul_cluster *cluster, bool verbose, FILE *stream) {
    print_ranks(cluster, verbose, stream);
    fputc('\n', stream);
    print_nodes(cluster, stream);
    fputc('\n', stream);
    if (cluster->device_count > 0)
        print_devices(cluster, verbose, stream);
    else
        fputs("no device found beside the CPU\n", stream);
}

static json_t *device_json(const struct mmul_device_info *d) {
    return json_pack(
        "{s:o, s:s, s:o, s:o, s:o, s:o, s:s, s:i, s:I, s:I, s:b, s:o, s:o, s:o}", "id",
        mmul_json_from_text(d->id), "type", type_name(d->type), "name",
        mmul_json_from_text(d->name), "vendor", mmul_json_from_text(d->vendor), "platform",
        mmul_json_from_text(d->platform), "driver", mmul_json_from_text(d->driver), "pci", d->pci,
        "compute_units", d->compute_units, "memory_bytes", (json_int_t)d->memory_bytes,
        "max_allocation_bytes", (json_int_t)d->max_allocation_bytes, "usable", d->usable, "kernels",
        mmul_json_from_text(d->kernels), "kernels_setting", mmul_json_from_text(d->kernels_setting),
        "kernels_lack", mmul_json_from_text(d->kernels_unused_vectors));
}

static json_t *rank_json(const struct mmul_cluster *cluster, int rank) {
    const struct mmul_rank_info *r = &cluster->ranks[rank];
    return json_pack("{s:i, s:s, s:i, s:s, s:i, s:b, s:o, s:o, s:o}", "rank", rank, "host", r->host,
                     "slot", r->node_rank, "cores", r->cores, "threads", r->threads,
                     "bound_by_user", r->bound_by_user, "device",
                     mmul_json_from_text(r->device_name), "description", device_json(&r->device),
                     "note", mmul_json_from_text(r->note));
}

static json_t *node_json(const struct mmul_node_info *n) {
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:i, s:b}", "host", n->host, "packages",
                     n->packages, "numa_nodes", n->numa_nodes, "cores", n->cores, "cores_allowed",
                     n->cores_allowed, "memory_bytes", (json_int_t)n->memory_bytes,
                     "memory_available_bytes", (json_int_t)n->memory_available_bytes, "ranks",
                     n->rank_count, "launcher_loads_drivers", n->launcher_loads_drivers);
}

static json_t *entry_json(const struct mmul_cluster *cluster, const struct mmul_device_entry *d) {
    json_t *value = device_json(&d->info);
    json_object_set_new(value, "host", json_string(cluster->nodes[d->node].host));
    json_object_set_new(value, "used_by", d->used_by >= 0 ? json_integer(d->used_by) : json_null());
    json_object_set_new(value, "reason",
                        mmul_json_from_text(d->used_by >= 0 ? "" : d->info.reason));
    return value;
}

enum mmul_status mmul_cluster_json(const struct mmul_cluster *cluster, char **text,
                                   struct mmul_error *err) {
    json_t *ranks = json_array(), *nodes = json_array(), *devices = json_array();
    for (int i = 0; i < cluster->size; i++)
        json_array_append_new(ranks, rank_json(cluster, i));
    for (int i = 0; i < cluster->node_count; i++)
        json_array_append_new(nodes, node_json(&cluster->nodes[i]));
    for (int i = 0; i < cluster->device_count; i++)
        json_array_append_new(devices, entry_json(cluster, &cluster->devices[i]));
    json_t *root =
        json_pack("{s:s, s:i, s:s, s:o, s:o, s:o}", "schema", "mpimatmul-devices", "schema_version",
                  1, "version", MMUL_VERSION, "ranks", ranks, "nodes", nodes, "devices", devices);
    enum mmul_status status = mmul_json_format(root, text, err);
    json_decref(root);
    return status;
}
