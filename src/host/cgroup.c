// SPDX-License-Identifier: MIT
//
// Control group limits. Finds each hierarchy in mountinfo and this process's group in it. Then
// walks from the group up to the mount point and keeps the least limit. Does not read cpuset,
// because the affinity mask already includes it. Changes nothing.
#include "host/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// Version 1 writes a limit above this for "none".
static const long long no_limit = 1LL << 60;

// ---------------------------------------------------------------------------------------- reading

// Reads the first two numbers of <folder>/<file>, with -1 for "max". Returns how many there are.
static int read_numbers(const char *folder, const char *file, long long numbers[static 2]) {
    char path[PATH_MAX + 64], line[128] = "";
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return 0;
    char *got = fgets(line, sizeof line, stream);
    fclose(stream);
    if (got == NULL)
        return 0;
    if (strncmp(line, "max", 3) == 0) {
        numbers[0] = -1;
        return 1 + (sscanf(line + 3, "%lld", &numbers[1]) == 1);
    }
    int count = sscanf(line, "%lld %lld", &numbers[0], &numbers[1]);
    return count > 0 ? count : 0;
}

// Returns the number after `key` in <folder>/memory.stat, or 0 if there is none.
static long long read_statistic(const char *folder, const char *key) {
    char path[PATH_MAX + 64], name[64];
    long long value = 0, found = 0;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return 0;
    while (found == 0 && fscanf(stream, "%63s %lld", name, &value) == 2)
        found = strcmp(name, key) == 0 ? value : 0;
    fclose(stream);
    return found;
}

// Returns true if `word` is in a comma-separated list.
static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
        bool begins = at == list || at[-1] == ',';
        bool ends = at[length] == '\0' || at[length] == ',';
        if (begins && ends)
            return true;
    }
    return false;
}

// ------------------------------------------------------------------------------ one level's limits

static void lower_quota(struct mmul_cgroup_limits *limits, long long quota, long long period) {
    if (quota <= 0 || period <= 0)
        return;
    double cores = (double)quota / (double)period;
    if (limits->cpu_quota == 0.0 || cores < limits->cpu_quota) {
        limits->cpu_quota = cores;
        limits->cpu_period_seconds = (double)period * 1e-6;
    }
}

static void lower_memory(struct mmul_cgroup_limits *limits, long long limit, long long used,
                         long long cache) {
    if (limit < 0 || limit >= no_limit)
        return;
    long long available = limit - (used > cache ? used - cache : 0);
    available = available > 0 ? available : 0;
    limits->memory_bytes = limit < limits->memory_bytes ? limit : limits->memory_bytes;
    if (available < limits->memory_available_bytes)
        limits->memory_available_bytes = available;
}

static void read_version2(const char *folder, struct mmul_cgroup_limits *limits) {
    long long numbers[2] = {0, 0}, used[2] = {0, 0};
    if (read_numbers(folder, "cpu.max", numbers) == 2)
        lower_quota(limits, numbers[0], numbers[1]);
    if (read_numbers(folder, "memory.max", numbers) == 1) {
        read_numbers(folder, "memory.current", used);
        lower_memory(limits, numbers[0], used[0], read_statistic(folder, "inactive_file"));
    }
}

static void read_version1_cpu(const char *folder, struct mmul_cgroup_limits *limits) {
    long long quota[2] = {0, 0}, period[2] = {0, 0};
    if (read_numbers(folder, "cpu.cfs_quota_us", quota) == 1 &&
        read_numbers(folder, "cpu.cfs_period_us", period) == 1)
        lower_quota(limits, quota[0], period[0]);
}

static void read_version1_memory(const char *folder, struct mmul_cgroup_limits *limits) {
    long long limit[2] = {0, 0}, used[2] = {0, 0};
    if (read_numbers(folder, "memory.limit_in_bytes", limit) == 1) {
        read_numbers(folder, "memory.usage_in_bytes", used);
        lower_memory(limits, limit[0], used[0], read_statistic(folder, "total_inactive_file"));
    }
}

// ------------------------------------------------------------------------------------ hierarchies

struct hierarchy {
    const char *type;       // type of the file system
    const char *controller; // "" in version 2
    void (*read_level)(const char *folder, struct mmul_cgroup_limits *limits);
};

static const struct hierarchy hierarchies[] = {
    {"cgroup2", "", read_version2},
    {"cgroup", "cpu", read_version1_cpu},
    {"cgroup", "memory", read_version1_memory},
};

// Finds this process's group in the hierarchy of `controller`, such as "/user.slice/x". Returns
// false if there is none.
static bool find_group(const char *root, const char *controller, char group[static PATH_MAX]) {
    char path[PATH_MAX], line[PATH_MAX + 256];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *stream = fopen(path, "re");
    bool found = false;
    while (stream != NULL && !found && fgets(line, sizeof line, stream) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':');
        char *name = list != NULL ? strchr(list + 1, ':') : NULL;
        if (name == NULL)
            continue;
        *name++ = '\0';
        list++;
        found = controller[0] == '\0' ? list[0] == '\0' : has_word(list, controller);
        if (found)
            snprintf(group, PATH_MAX, "%s", name);
    }
    if (stream != NULL)
        fclose(stream);
    return found;
}

// Reads the limits from the group's folder up to the mount point. `mounted` is the group that the
// mount point shows. For a group outside it (another name space) only the mount point is read.
static void walk_up(const struct hierarchy *hierarchy, const char *root, const char *mounted,
                    const char *point, struct mmul_cgroup_limits *limits) {
    char group[PATH_MAX], folder[3 * PATH_MAX];
    if (!find_group(root, hierarchy->controller, group))
        return;
    size_t shown = strcmp(mounted, "/") == 0 ? 0 : strlen(mounted);
    bool inside = strncmp(group, mounted, shown) == 0 && strstr(group, "/..") == NULL;
    int base = snprintf(folder, sizeof folder, "%s%s", root, point);
    snprintf(folder + base, sizeof folder - (size_t)base, "%s", inside ? group + shown : "");
    char *end = folder + strlen(folder);
    while (end >= folder + base) {
        *end = '\0';
        if (strlen(folder) < PATH_MAX)
            hierarchy->read_level(folder, limits);
        do {
            end--;
        } while (end > folder + base && *end != '/');
    }
}

// Reads one line of mountinfo: id parent dev mounted point options [tags] - type source
// super-options.
static void read_mount(const char *root, char *line, struct mmul_cgroup_limits *limits) {
    char mounted[PATH_MAX], point[PATH_MAX], type[64], options[512];
    char *tail = strstr(line, " - ");
    if (tail == NULL || sscanf(tail + 3, "%63s %*s %511s", type, options) != 2 ||
        strncmp(type, "cgroup", 6) != 0 || strlen(line) >= PATH_MAX ||
        sscanf(line, "%*s %*s %*s %4095s %4095s", mounted, point) != 2)
        return;
    for (size_t i = 0; i < sizeof hierarchies / sizeof hierarchies[0]; i++) {
        const struct hierarchy *hierarchy = &hierarchies[i];
        if (strcmp(type, hierarchy->type) == 0 &&
            (hierarchy->controller[0] == '\0' || has_word(options, hierarchy->controller)))
            walk_up(hierarchy, root, mounted, point, limits);
    }
}

void mmul_cgroup_read(const char *root, struct mmul_cgroup_limits *limits) {
    *limits = (struct mmul_cgroup_limits){
        .cpu_quota = 0.0, .memory_bytes = INT64_MAX, .memory_available_bytes = INT64_MAX};
    char path[PATH_MAX], line[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return;
    while (fgets(line, sizeof line, stream) != NULL)
        read_mount(root, line, limits);
    fclose(stream);
}
