// SPDX-License-Identifier: MIT
//
// Resources that this machine offers one rank: processing units, cores, memory, and the origin of
// its CPU mask. The shape comes from hwloc, masks and memory from /proc, limits from control
// groups. Divides nothing between ranks and binds only on request: exec/setup/discover.c does that.
#include "host/topology.h"

#include <dirent.h>
#include <errno.h>
#include <hwloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/integer.h"
#include "base/status.h"
#include "base/text.h"
#include "host/cgroup.h"

// ----------------------------------------------------------------------------------------- cpusets

int mmul_cpuset_count(const struct mmul_cpuset *set) {
    int count = 0;
    for (int word = 0; word < MMUL_CORES_MAX / 64; word++)
        count += __builtin_popcountll(set->bits[word]);
    return count;
}

bool mmul_cpuset_has(const struct mmul_cpuset *set, int unit) {
    return unit >= 0 && unit < MMUL_CORES_MAX && (set->bits[unit / 64] >> (unit % 64) & 1) != 0;
}

void mmul_cpuset_add(struct mmul_cpuset *set, int unit) {
    if (unit >= 0 && unit < MMUL_CORES_MAX) // a larger machine is used in part
        set->bits[unit / 64] |= UINT64_C(1) << (unit % 64);
}

bool mmul_cpuset_equal(const struct mmul_cpuset *a, const struct mmul_cpuset *b) {
    return memcmp(a->bits, b->bits, sizeof a->bits) == 0;
}

char *mmul_cpuset_format(const struct mmul_cpuset *set, char text[static 64]) {
    size_t length = 0;
    text[0] = '\0';
    for (int unit = 0; unit < MMUL_CORES_MAX; unit++) {
        if (!mmul_cpuset_has(set, unit))
            continue;
        int last = unit;
        while (mmul_cpuset_has(set, last + 1))
            last++;
        if (length + 16 > 64) { // keep room for ",1022-1023,..."
            snprintf(text + length, 64 - length, ",...");
            break;
        }
        const char *comma = length == 0 ? "" : ",";
        length += (size_t)(last == unit ? snprintf(text + length, 64 - length, "%s%d", comma, unit)
                                        : snprintf(text + length, 64 - length, "%s%d-%d", comma,
                                                   unit, last));
        unit = last;
    }
    return text;
}

// --------------------------------------------------------------------------------- other processes

// Reads the text after "key:" in a file of /proc, without leading white space. Returns false if
// there is none.
static bool read_field(const char *path, const char *key, char *value, size_t capacity) {
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return false;
    bool found = false;
    char line[4096]; // a mask of 1024 scattered units fits
    size_t length = strlen(key);
    while (!found && fgets(line, sizeof line, stream) != NULL) {
        found = strncmp(line, key, length) == 0 && line[length] == ':';
        if (found) {
            line[strcspn(line, "\n")] = '\0';
            mmul_text_copy(value, capacity, line + length + 1 + strspn(line + length + 1, " \t"));
        }
    }
    fclose(stream);
    return found;
}

static bool read_status(pid_t pid, const char *key, char *value, size_t capacity) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    return read_field(path, key, value, capacity);
}

static bool read_mask(pid_t pid, struct mmul_cpuset *set) {
    char list[4096]; // "0-3,8"
    if (!read_status(pid, "Cpus_allowed_list", list, sizeof list))
        return false;
    *set = (struct mmul_cpuset){{0}};
    for (char *at = list; *at >= '0' && *at <= '9';) {
        char *end = NULL;
        long first = strtol(at, &end, 10);
        long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long unit = first; unit <= last && unit < MMUL_CORES_MAX; unit++)
            mmul_cpuset_add(set, (int)unit);
        at = *end == ',' ? end + 1 : end;
    }
    return true;
}

// Returns true if a process was started with OMPI_COMM_WORLD_RANK in its environment.
static bool is_rank(pid_t pid) {
    static const char name[] = "OMPI_COMM_WORLD_RANK=";
    char path[64], *entry = NULL;
    size_t capacity = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    FILE *stream = fopen(path, "re");
    while (stream != NULL && !found && getdelim(&entry, &capacity, '\0', stream) > 0)
        found = strncmp(entry, name, sizeof name - 1) == 0;
    free(entry);
    if (stream != NULL)
        fclose(stream);
    return found;
}

// ------------------------------------------------------------------------------------------- hwloc

// Loads hwloc's view of processors and memory only. Its plugins for OpenCL, GL and others would
// load drivers, and a broken driver must not end this process.
static enum mmul_status load_hwloc(hwloc_topology_t *loaded, struct mmul_error *err) {
    static const char *const unwanted[] = {"opencl", "gl", "cuda", "nvml", "rsmi", "levelzero"};
    hwloc_topology_t topology = NULL;
    if (hwloc_topology_init(&topology) != 0)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot initialise hwloc");
    for (size_t i = 0; i < sizeof unwanted / sizeof unwanted[0]; i++) {
        // Fails for a plugin that is not installed, which is harmless.
        (void)hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                            unwanted[i]);
    }
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE) != 0 ||
        hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
        hwloc_topology_load(topology) != 0) {
        int errnum = errno;
        hwloc_topology_destroy(topology);
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errnum, "hwloc cannot read the topology");
    }
    *loaded = topology;
    return MMUL_OK;
}

static struct mmul_cpuset convert_bitmap(hwloc_const_bitmap_t bitmap) {
    struct mmul_cpuset set = {{0}};
    for (int unit = hwloc_bitmap_first(bitmap); unit >= 0 && unit < MMUL_CORES_MAX;
         unit = hwloc_bitmap_next(bitmap, unit))
        mmul_cpuset_add(&set, unit);
    return set;
}

// Finds the first allowed unit of every core. If hwloc reports no cores, every allowed unit counts.
static void find_core_leads(hwloc_topology_t loaded, struct mmul_topology *topology) {
    bool has_cores = hwloc_get_nbobjs_by_type(loaded, HWLOC_OBJ_CORE) > 0;
    hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    for (hwloc_obj_t core = hwloc_get_next_obj_by_type(loaded, type, NULL); core != NULL;
         core = hwloc_get_next_obj_by_type(loaded, type, core)) {
        int unit = hwloc_bitmap_first(core->cpuset);
        while (unit >= 0 && !mmul_cpuset_has(&topology->allowed, unit))
            unit = hwloc_bitmap_next(core->cpuset, unit);
        mmul_cpuset_add(&topology->core_first_units, unit); // -1 (none allowed) adds nothing
    }
}

static int count_objects(hwloc_topology_t loaded, hwloc_obj_type_t type, int otherwise) {
    int count = hwloc_get_nbobjs_by_type(loaded, type);
    return count > 0 ? count : otherwise;
}

// Returns the size of a second-level cache per core that shares it, the least if cores differ.
static int64_t find_core_cache_bytes(hwloc_topology_t loaded) {
    int64_t least = 0;
    for (hwloc_obj_t cache = hwloc_get_next_obj_by_type(loaded, HWLOC_OBJ_L2CACHE, NULL);
         cache != NULL; cache = hwloc_get_next_obj_by_type(loaded, HWLOC_OBJ_L2CACHE, cache)) {
        const int cores =
            hwloc_get_nbobjs_inside_cpuset_by_type(loaded, cache->cpuset, HWLOC_OBJ_CORE);
        const int64_t each = (int64_t)cache->attr->cache.size / (cores > 0 ? cores : 1);
        least = least == 0 ? each : mmul_min(least, each);
    }
    return least > 0 ? least : 256 << 10;
}

static int64_t sum_third_caches(hwloc_topology_t loaded) {
    int64_t sum = 0;
    for (hwloc_obj_t cache = hwloc_get_next_obj_by_type(loaded, HWLOC_OBJ_L3CACHE, NULL);
         cache != NULL; cache = hwloc_get_next_obj_by_type(loaded, HWLOC_OBJ_L3CACHE, cache))
        sum += (int64_t)cache->attr->cache.size;
    return sum;
}

static void read_shape(hwloc_topology_t loaded, struct mmul_topology *topology) {
    int units = count_objects(loaded, HWLOC_OBJ_PU, 1);
    topology->packages = count_objects(loaded, HWLOC_OBJ_PACKAGE, 1);
    topology->numa_nodes = count_objects(loaded, HWLOC_OBJ_NUMANODE, 1);
    topology->cores = count_objects(loaded, HWLOC_OBJ_CORE, units);
    topology->cache_bytes = find_core_cache_bytes(loaded);
    topology->all_cache_bytes = sum_third_caches(loaded);
    hwloc_obj_t package = hwloc_get_obj_by_type(loaded, HWLOC_OBJ_PACKAGE, 0);
    const char *name = package != NULL ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    mmul_text_copy(topology->cpu_name, sizeof topology->cpu_name, name != NULL ? name : "CPU");
}

// ------------------------------------------------------------------------------------------ memory

static int64_t read_meminfo(const char *key) {
    char value[64];
    if (!read_field("/proc/meminfo", key, value, sizeof value))
        return 0;
    return strtoll(value, NULL, 10) * 1024;
}

static void read_memory(struct mmul_topology *topology) {
    struct mmul_cgroup_limits limits;
    mmul_cgroup_read("", &limits);
    int64_t total = read_meminfo("MemTotal");
    int64_t available = read_meminfo("MemAvailable");
    topology->cpu_quota = limits.cpu_quota;
    topology->memory_bytes = mmul_min(total, limits.memory_bytes);
    topology->memory_available_bytes = mmul_min(available, limits.memory_available_bytes);
}

// ---------------------------------------------------------------------------------------- discover

// Returns true if the user chose the binding. mpirun sets these variables for its ranks only then
// (4.1; tried). Under srun they mean nothing, because MPI_Init itself sets the first one to none.
static bool is_binding_chosen(void) {
    static const char *const names[] = {
        "OMPI_MCA_hwloc_base_binding_policy", // --bind-to, also none
        "OMPI_MCA_hwloc_base_cpu_set",        // --cpu-set
        "OMPI_MCA_hwloc_base_cpu_list",       // --cpu-list
        "OMPI_MCA_orte_rankfile",             // --rankfile
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]) != NULL)
            return true;
    return false;
}

// Sets own, allowed and user_binding. `machine` is the mask that the control group allows.
static enum mmul_status read_masks(const struct mmul_cpuset *machine,
                                   struct mmul_topology *topology, struct mmul_error *err) {
    if (!read_mask(getpid(), &topology->own)) {
        return mmul_fail(err, MMUL_ERR_SYSTEM,
                         "cannot read this process's mask from /proc/self/status");
    }
    // The launcher (mpirun or its daemon) is the nearest ancestor that is not a rank itself. A
    // shell between mpirun and this process counts as a rank. Without mpirun the launcher is this
    // process.
    pid_t launcher = getpid();
    char parent[32];
    while (launcher > 1 && is_rank(launcher) &&
           read_status(launcher, "PPid", parent, sizeof parent))
        launcher = (pid_t)strtol(parent, NULL, 10);
    if (!read_mask(launcher, &topology->allowed))
        topology->allowed = topology->own;
    bool under_mpirun = launcher != getpid();
    topology->user_binding =
        under_mpirun ? is_binding_chosen() : !mmul_cpuset_equal(&topology->own, machine);
    return MMUL_OK;
}

enum mmul_status mmul_topology_discover(struct mmul_topology *topology, struct mmul_error *err) {
    struct mmul_topology found = {.host = ""};
    hwloc_topology_t loaded = NULL;
    enum mmul_status status = load_hwloc(&loaded, err);
    if (status != MMUL_OK)
        return status;
    gethostname(found.host, sizeof found.host - 1);
    mmul_make_printable(found.host);
    struct mmul_cpuset machine = convert_bitmap(hwloc_topology_get_allowed_cpuset(loaded));
    status = read_masks(&machine, &found, err);
    if (status == MMUL_OK) {
        read_shape(loaded, &found);
        find_core_leads(loaded, &found);
        read_memory(&found);
        *topology = found;
    }
    hwloc_topology_destroy(loaded);
    return status;
}

// -------------------------------------------------------------------------------------------- bind

// Binds all threads that exist at this moment.
static enum mmul_status bind_threads(const cpu_set_t *mask, struct mmul_error *err) {
    DIR *folder = opendir("/proc/self/task");
    if (folder == NULL)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot list this process's threads");
    enum mmul_status status = MMUL_OK;
    struct dirent *entry;
    while (status == MMUL_OK && (entry = readdir(folder)) != NULL) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10); // 0 for "." and ".."
        if (thread > 0 && sched_setaffinity(thread, sizeof *mask, mask) != 0 && errno != ESRCH) {
            status = mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot bind thread %ld",
                                     (long)thread);
        }
    }
    closedir(folder);
    return status;
}

enum mmul_status mmul_topology_bind(const struct mmul_cpuset *set, struct mmul_error *err) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (int unit = 0; unit < MMUL_CORES_MAX; unit++)
        if (mmul_cpuset_has(set, unit))
            CPU_SET(unit, &mask);
    // A second pass binds threads that a still unbound thread started during the first.
    enum mmul_status status = bind_threads(&mask, err);
    return status == MMUL_OK ? bind_threads(&mask, err) : status;
}

int64_t mmul_process_memory_bytes(int sharers) {
    long long pss = 0, own = 0, shared = 0, kibibytes;
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Pss: %lld", &kibibytes) == 1)
            pss = kibibytes;
        else if (sscanf(line, "Private_%*[a-zA-Z]: %lld", &kibibytes) == 1)
            own += kibibytes;
        else if (sscanf(line, "Shared_%*[a-zA-Z]: %lld", &kibibytes) == 1)
            shared += kibibytes;
    fclose(file);
    own += shared / (sharers > 1 ? sharers : 1);
    return (int64_t)(own > pss ? own : pss) * 1024;
}

int64_t mmul_process_resident_bytes(void) {
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*d %lld", &pages) != 1)
        pages = 0;
    fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}
