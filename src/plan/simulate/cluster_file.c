// SPDX-License-Identifier: MIT
// Converts JSON to a problem and a cluster. Walks the groups twice: counts, then fills in. Opens no
// file, predicts nothing.
#include "plan/simulate/cluster_file.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "model/dtype.h"

enum { RANKS_MOST = 65536, DEFAULT_TRANSFER_GB = 12 };
static const double REQUIRED = -1; // default value of a required number

// An object and its name in errors: "nodes[1].ranks[0]".
struct place {
    const char *path;
    const json_t *object;
    char name[64];
};

static enum mmul_status fail_key(const struct place *p, const char *key, const char *what,
                                 struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_DATA, "'%s': %s%s%s %s", p->path, p->name,
                     p->name[0] && key[0] ? "." : "", key, what);
}

// Refuses unknown keys: a misspelt key would silently get its default.
static enum mmul_status check_keys(const struct place *p, const char *const *known,
                                   struct mmul_error *err) {
    const char *key;
    json_t *value;
    if (!json_is_object(p->object))
        return fail_key(p, "", "is not an object", err);
    json_object_foreach((json_t *)(uintptr_t)p->object, key, value) {
        int i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0)
            i++;
        if (known[i] == NULL)
            return fail_key(p, key, "is not a known key", err);
    }
    return MMUL_OK;
}

// Limits of a number.
struct limits {
    double initial; // value if it is absent; REQUIRED: it must be there
    double least, most;
};

static enum mmul_status read_number(const struct place *p, const char *key, struct limits limits,
                                    double *number, struct mmul_error *err) {
    const json_t *value = json_object_get(p->object, key);
    char text[96];
    if (value == NULL && limits.initial >= 0) {
        *number = limits.initial;
        return MMUL_OK;
    }
    if (value == NULL)
        return fail_key(p, key, "is missing", err);
    *number = json_number_value(value);
    if (json_is_number(value) && *number >= limits.least && *number <= limits.most)
        return MMUL_OK;
    snprintf(text, sizeof text, "is not a number from %.10g to %.10g", limits.least, limits.most);
    return fail_key(p, key, text, err);
}

static enum mmul_status read_integer(const struct place *p, const char *key, double initial,
                                     double most, int64_t *number, struct mmul_error *err) {
    double real = 0;
    enum mmul_status status = read_number(p, key, (struct limits){initial, 1, most}, &real, err);
    if (status != MMUL_OK)
        return status;
    if (real != (double)(int64_t)real)
        return fail_key(p, key, "is not a whole number", err);
    *number = (int64_t)real;
    return MMUL_OK;
}

static enum mmul_status read_flag(const struct place *p, const char *key, bool initial, bool *flag,
                                  struct mmul_error *err) {
    const json_t *value = json_object_get(p->object, key);
    *flag = value == NULL ? initial : json_is_true(value);
    return value == NULL || json_is_boolean(value) ? MMUL_OK
                                                   : fail_key(p, key, "is not true or false", err);
}

static enum mmul_status read_text(const struct place *p, const char *key, const char *initial,
                                  const char **text, struct mmul_error *err) {
    const json_t *value = json_object_get(p->object, key);
    *text = value == NULL ? initial : json_string_value(value);
    if (value == NULL && initial == NULL)
        return fail_key(p, key, "is missing", err);
    return *text != NULL ? MMUL_OK : fail_key(p, key, "is not a string", err);
}

// ----------------------------------------------------------------------------------------- problem

static enum mmul_status read_problem(const struct place *p, struct mmul_problem *problem,
                                     struct mmul_error *err) {
    static const char *const known[] = {"m", "n", "k", "dtype", NULL};
    static const char *const sides[] = {"m", "n", "k"};
    int64_t size[3] = {0};
    const char *name = "";
    enum mmul_dtype dtype = MMUL_F32;
    enum mmul_status status = check_keys(p, known, err);
    for (int i = 0; status == MMUL_OK && i < 3; i++)
        status = read_integer(p, sides[i], REQUIRED, 1e9, &size[i], err);
    if (status == MMUL_OK)
        status = read_text(p, "dtype", "float32", &name, err);
    if (status == MMUL_OK &&
        (mmul_dtype_parse(name, &dtype, err) != MMUL_OK || mmul_dtype_is_integer(dtype)))
        status = fail_key(p, "dtype", "is not float32, float16, bfloat16 or float64", err);
    if (status != MMUL_OK)
        return status;
    struct mmul_problem_operand a = {{1, 1, size[0], size[2]}, dtype, "A"};
    struct mmul_problem_operand b = {{1, 1, size[2], size[1]}, dtype, "B"};
    return mmul_problem_init(&(struct mmul_problem_request){.a = a, .b = b, .alpha = 1}, problem,
                             err);
}

// ------------------------------------------------------------------------------------------- ranks

// Reads one number, or one per size, which are then also written to `flops`. `otherwise`: default
// of the single number.
static enum mmul_status read_rates(const struct place *p, const char *key, double otherwise,
                                   double flops[static MMUL_SPEED_POINTS], double *last,
                                   struct mmul_error *err) {
    const json_t *value = json_object_get(p->object, key), *each;
    size_t i;
    if (!json_is_array(value)) {
        double gflops = 0;
        enum mmul_status status =
            read_number(p, key, (struct limits){otherwise, 1e-6, 1e9}, &gflops, err);
        *last = gflops * 1e9;
        return status;
    }
    if (json_array_size(value) != MMUL_SPEED_POINTS)
        return fail_key(p, key, "is not a list of five numbers", err);
    json_array_foreach(value, i, each) {
        flops[i] = 1e9 * json_number_value(each);
        if (!(flops[i] > 0))
            return fail_key(p, key, "contains a value that is not a number above 0", err);
    }
    *last = flops[MMUL_SPEED_POINTS - 1];
    return MMUL_OK;
}

// Reads the rates. float64 rates default to half of the other rates.
static enum mmul_status read_speed(const struct place *p, struct mmul_rank_info *rank,
                                   struct mmul_error *err) {
    struct mmul_speed *speed = &rank->speed;
    double twofold = 0;
    enum mmul_status status =
        read_rates(p, "gflops", REQUIRED, speed->flops, &rank->speed_flops, err);
    if (status == MMUL_OK)
        status = read_rates(p, "gflops_float64", rank->speed_flops * 0.5e-9, speed->double_flops,
                            &twofold, err);
    const bool is_said = json_object_get(p->object, "gflops_float64") != NULL;
    for (int i = 0; status == MMUL_OK && i < MMUL_SPEED_POINTS; i++)
        if (!(speed->double_flops[i] > 0))
            speed->double_flops[i] =
                !is_said && speed->flops[i] > 0 ? speed->flops[i] / 2 : twofold;
    return status;
}

static enum mmul_status read_device(const struct place *p, struct mmul_rank_info *rank,
                                    const struct mmul_node_info *node, struct mmul_error *err) {
    const char *kind = "", *name = "";
    double memory = (double)node->memory_bytes * 0x1p-30, up = 0, down = 0;
    int64_t threads = 1;
    if (read_text(p, "device", NULL, &kind, err) != MMUL_OK)
        return err->status;
    bool cpu = strcmp(kind, "cpu") == 0;
    if (!cpu && strcmp(kind, "gpu") != 0)
        return fail_key(p, "device", "is not \"cpu\" or \"gpu\"", err);
    rank->device.type = cpu ? MMUL_DEVICE_CPU : MMUL_DEVICE_GPU;
    const struct limits gb = {DEFAULT_TRANSFER_GB, 1e-3, 1e6};
    if (read_text(p, "name", kind, &name, err) != MMUL_OK ||
        read_flag(p, "host_memory", cpu, &rank->host_memory, err) != MMUL_OK ||
        read_integer(p, "threads", cpu && node->cores > 0 ? node->cores : 1, 4096, &threads, err) !=
            MMUL_OK ||
        read_number(p, "memory_gib",
                    (struct limits){rank->host_memory ? memory : REQUIRED, 1e-3, 1e6}, &memory,
                    err) != MMUL_OK ||
        read_number(p, "upload_gb", gb, &up, err) != MMUL_OK ||
        read_number(p, "download_gb", gb, &down, err) != MMUL_OK)
        return err->status;
    rank->is_trusted = cpu;
    rank->threads = (int)threads;
    rank->device.memory_bytes = (int64_t)(memory * 0x1p30);
    rank->speed.upload_bytes_per_second = rank->host_memory ? 0 : up * 1e9;
    rank->speed.download_bytes_per_second = rank->host_memory ? 0 : down * 1e9;
    mmul_text_copy(rank->device_name, sizeof rank->device_name, name);
    return MMUL_OK;
}

static enum mmul_status read_rank(const struct place *p, const struct mmul_node_info *node,
                                  struct mmul_rank_info *rank, int64_t *count,
                                  struct mmul_error *err) {
    static const char *const known[] = {
        "count",          "device",      "name",        "gflops",
        "gflops_float64", "threads",     "host_memory", "memory_gib",
        "upload_gb",      "download_gb", NULL};
    *rank = (struct mmul_rank_info){.device_index = -1, .listed_weight = -1};
    enum mmul_status status = check_keys(p, known, err);
    if (status == MMUL_OK)
        status = read_integer(p, "count", 1, RANKS_MOST, count, err);
    if (status == MMUL_OK)
        status = read_device(p, rank, node, err);
    return status == MMUL_OK ? read_speed(p, rank, err) : status;
}

// ------------------------------------------------------------------------------------------- nodes

// Properties of all nodes of a group.
struct group {
    struct mmul_node_info node;
    const char *name;
    const json_t *ranks;
    int64_t count;
    bool maps, maps_given;
};

static enum mmul_status read_group(const struct place *p, struct group *group,
                                   struct mmul_error *err) {
    static const char *const known[] = {"count",      "name",       "link_gbit",
                                        "latency_us", "memory_gib", "cores",
                                        "maps_files", "ranks",      NULL};
    double gbit = 0, latency = 0, memory = 0, cores = 0;
    *group = (struct group){.ranks = json_object_get(p->object, "ranks"),
                            .maps_given = json_object_get(p->object, "maps_files") != NULL};
    if (check_keys(p, known, err) != MMUL_OK ||
        read_integer(p, "count", 1, RANKS_MOST, &group->count, err) != MMUL_OK ||
        read_text(p, "name", "node", &group->name, err) != MMUL_OK ||
        read_number(p, "link_gbit", (struct limits){0, 1e-6, 1e6}, &gbit, err) != MMUL_OK ||
        read_number(p, "latency_us", (struct limits){0, 1e-3, 1e9}, &latency, err) != MMUL_OK ||
        read_number(p, "memory_gib", (struct limits){REQUIRED, 1e-3, 1e6}, &memory, err) !=
            MMUL_OK ||
        read_number(p, "cores", (struct limits){0, 1, 4096}, &cores, err) != MMUL_OK ||
        read_flag(p, "maps_files", false, &group->maps, err) != MMUL_OK)
        return err->status;
    if (json_array_size(group->ranks) == 0)
        return fail_key(p, "ranks", "is not a list of ranks", err);
    group->node.memory_bytes = group->node.memory_available_bytes = (int64_t)(memory * 0x1p30);
    group->node.cores = group->node.cores_allowed = (int)cores;
    group->node.root_link = (struct mmul_link){gbit * 125e6, latency * 1e-6};
    return MMUL_OK;
}

// A walk over all nodes. It counts while `cluster` is NULL, then fills the cluster in.
struct reading {
    const char *path;
    struct mmul_cluster *cluster;
    struct mmul_description *into;
    int64_t size, node_count, kinds;
};

// Adds `count` ranks like `rank` to each node of the group.
static void add_ranks(struct reading *r, const struct group *group, int64_t before, int64_t each,
                      const struct mmul_rank_info *rank, int64_t count) {
    for (int64_t node = 0; node < group->count; node++) {
        for (int64_t i = 0; i < count; i++) {
            int64_t at = r->size + node * each + before + i;
            r->cluster->ranks[at] = *rank;
            r->cluster->ranks[at].node = (int)(r->node_count + node);
            r->cluster->ranks[at].node_rank = (int)(before + i);
            r->into->rank_kind[at] = (int)r->kinds;
        }
    }
}

static void add_nodes(struct reading *r, const struct group *group, int64_t each) {
    for (int64_t i = 0; i < group->count; i++) {
        struct mmul_node_info *node = &r->cluster->nodes[r->node_count + i];
        *node = group->node;
        node->leader = (int)(r->size + i * each);
        node->rank_count = (int)each;
        snprintf(node->host, sizeof node->host, "%.40s%lld", group->name,
                 (long long)(r->node_count + i));
        if (group->maps || (!group->maps_given && r->node_count + i == 0))
            r->into->node_maps[r->node_count + i] = MMUL_MAPS_A | MMUL_MAPS_B | MMUL_MAPS_C;
        for (int64_t rank = 0; rank < each; rank++)
            mmul_text_copy(r->cluster->ranks[node->leader + rank].host,
                           sizeof r->cluster->ranks[0].host, node->host);
    }
}

static enum mmul_status walk_ranks(struct reading *r, const struct place *p,
                                   const struct group *group, int64_t *each,
                                   struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    int64_t total = *each, before = 0, count = 0;
    size_t i;
    const json_t *object;
    *each = 0;
    json_array_foreach(group->ranks, i, object) {
        struct place at = {.path = p->path, .object = object};
        struct mmul_rank_info rank;
        snprintf(at.name, sizeof at.name, "%.30s.ranks[%zu]", p->name, i);
        status = read_rank(&at, &group->node, &rank, &count, err);
        if (status != MMUL_OK)
            return status;
        if (r->cluster != NULL)
            add_ranks(r, group, before, total, &rank, count);
        before += count;
        r->kinds++;
    }
    *each = before;
    return status;
}

static enum mmul_status walk_nodes(struct reading *r, const json_t *nodes, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    size_t i;
    const json_t *object;
    r->size = r->node_count = r->kinds = 0;
    json_array_foreach(nodes, i, object) {
        struct place at = {.path = r->path, .object = object};
        struct reading counting = {.path = r->path};
        struct group group;
        int64_t each = 0;
        snprintf(at.name, sizeof at.name, "nodes[%zu]", i);
        status = read_group(&at, &group, err);
        if (status == MMUL_OK)
            status = walk_ranks(&counting, &at, &group, &each, err);
        if (status == MMUL_OK && r->cluster != NULL)
            status = walk_ranks(r, &at, &group, &each, err);
        if (status == MMUL_OK && r->cluster != NULL)
            add_nodes(r, &group, each);
        if (status != MMUL_OK)
            return status;
        r->kinds += r->cluster == NULL ? counting.kinds : 0;
        r->size += group.count * each;
        r->node_count += group.count;
        if (r->size > RANKS_MOST)
            return fail_key(&at, "", "has too many ranks: at most 65536", err);
    }
    return status;
}

static enum mmul_status fill_description(struct mmul_description *made, struct reading *r,
                                         const json_t *nodes, struct mmul_error *err) {
    enum mmul_status status =
        mmul_cluster_create((int)r->size, (int)r->node_count, 0, &made->cluster, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE_ALL("nodes", err, MMUL_ARRAY(made->node_maps, r->node_count),
                                   MMUL_ARRAY(made->rank_kind, r->size));
    made->kinds = (int)r->kinds;
    r->cluster = made->cluster;
    r->into = made;
    return status == MMUL_OK ? walk_nodes(r, nodes, err) : status;
}

enum mmul_status mmul_description_create(const json_t *value, const char *path,
                                         struct mmul_description **description,
                                         struct mmul_error *err) {
    static const char *const known[] = {"about", "problem", "nodes", NULL};
    const struct place top = {.path = path, .object = value, .name = "the description"};
    const json_t *nodes = json_object_get(value, "nodes");
    struct place problem = {path, json_object_get(value, "problem"), "problem"};
    struct reading reading = {.path = path};
    struct mmul_description *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "the description", err);
    if (status == MMUL_OK)
        status = check_keys(&top, known, err);
    if (status == MMUL_OK)
        status = read_problem(&problem, &made->problem, err);
    if (status == MMUL_OK && json_array_size(nodes) == 0)
        status = mmul_fail(err, MMUL_ERR_DATA, "'%s': nodes is not a list of nodes", path);
    if (status == MMUL_OK)
        status = walk_nodes(&reading, nodes, err);
    if (status == MMUL_OK)
        status = fill_description(made, &reading, nodes, err);
    if (status == MMUL_OK)
        *description = made;
    else
        mmul_description_destroy(made);
    return status;
}

void mmul_description_destroy(struct mmul_description *description) {
    if (description == NULL)
        return;
    mmul_cluster_destroy(description->cluster);
    MMUL_FREE_ALL(description->node_maps, description->rank_kind, description);
}
