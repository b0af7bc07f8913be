// SPDX-License-Identifier: MIT
// The stored device list: one JSON file per host in the user's cache folder. A file that cannot be
// read or is out of date counts as missing: the drivers are then asked, without a message.
#include "device/opencl_device_list.h"

#include <errno.h>
#include <glob.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "device/opencl_drivers.h"

enum { SCHEMA = 2 };

extern char **environ;

// Device nodes that drivers open: Linux graphics, NVIDIA, AMD, WSL, Arm, Qualcomm, Intel VPU.
static const char *const nodes[] = {"/dev/dri/render*", "/dev/nvidia*", "/dev/kfd",    "/dev/dxg",
                                    "/dev/mali*",       "/dev/kgsl*",   "/dev/accel/*"};

// --------------------------------------------------------------------------------------- libraries

static bool stat_library(const char *path, struct mmul_loaded_library *library) {
    struct stat found;
    if (strlen(path) >= sizeof library->path || stat(path, &found) != 0)
        return false;
    mmul_text_copy(library->path, sizeof library->path, path);
    library->bytes = found.st_size;
    library->changed_ns = (int64_t)found.st_mtim.tv_sec * 1000000000 + found.st_mtim.tv_nsec;
    return true;
}

// Adds one loaded library. The program itself and the kernel's part have no path. A nonzero result
// ends the iteration.
static int add_library(struct dl_phdr_info *info, size_t bytes, void *context) {
    struct mmul_opencl_device_list *listing = context;
    (void)bytes;
    if (info->dlpi_name[0] != '/')
        return 0;
    if (listing->library_count < MMUL_LIBRARIES_MAX &&
        stat_library(info->dlpi_name, &listing->libraries[listing->library_count])) {
        listing->library_count++;
        return 0;
    }
    listing->library_count = 0;
    return 1;
}

void mmul_opencl_device_list_add_libraries(struct mmul_opencl_device_list *listing) {
    listing->library_count = 0;
    dl_iterate_phdr(add_library, listing);
}

static bool is_unchanged(const struct mmul_loaded_library *then) {
    struct mmul_loaded_library now;
    return stat_library(then->path, &now) && now.bytes == then->bytes &&
           now.changed_ns == then->changed_ns;
}

// ------------------------------------------------------------------------------------ surroundings

static void add_nodes(struct mmul_text *text) {
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        glob_t found;
        if (glob(nodes[i], 0, NULL, &found) != 0)
            continue;
        for (size_t n = 0; n < found.gl_pathc; n++)
            mmul_text_add(text, "node %s %d\n", found.gl_pathv[n],
                          access(found.gl_pathv[n], R_OK | W_OK) == 0);
        globfree(&found);
    }
}

// Adds a checksum of the variables that drivers and loaders are known to read, independent of their
// order.
static void add_variables(struct mmul_text *text) {
    static const char *const starts[] = {
        "POCL_", "OCL_",  "OPENCL_",  "CL_", "CUDA_", "NVIDIA_", "GPU_",    "HIP_", "HSA_", "ROC",
        "AMD_",  "MESA_", "RUSTICL_", "ZE_", "NEO",   "IGC_",    "ONEAPI_", "LD_",  "SYCL_"};
    uint64_t sum = 0;
    for (char **variable = environ; *variable != NULL; variable++)
        for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
            if (strncmp(*variable, starts[s], strlen(starts[s])) == 0) {
                sum += mmul_hash(*variable, strlen(*variable));
                break;
            }
    mmul_text_add(text, "environment %016llx\n", (unsigned long long)sum);
}

// Writes the conditions under which a list is valid, except the libraries: only the process that
// loaded them knows those.
static void describe_surroundings(struct mmul_text *text) {
    struct mmul_driver drivers[MMUL_DRIVERS_MAX];
    struct mmul_loaded_library cache = {.bytes = 0};
    int count = mmul_drivers_list(drivers);
    char boot[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file != NULL && fgets(boot, sizeof boot, file) == NULL)
        boot[0] = '\0';
    if (file != NULL)
        fclose(file);
    stat_library("/etc/ld.so.cache", &cache); // after a change, a bare name may mean another file
    mmul_text_add(text, "version " MMUL_VERSION "\nboot %s\nloader %lld\n", boot,
                  (long long)cache.changed_ns);
    for (int i = 0; i < count; i++)
        mmul_text_add(text, "driver %s %s\n", drivers[i].library, drivers[i].file);
    add_nodes(text);
    add_variables(text);
}

// Returns true if the driver has only CPUs when there is no device node. PoCL's devices are CPUs.
// Mesa's clover and rusticl reach a card only by its node. Otherwise they have just llvmpipe, a
// CPU, whatever RUSTICL_ENABLE says.
static bool has_only_cpus(const char *library) {
    static const char *const names[] = {"pocl", "MesaOpenCL", "RusticlOpenCL"};
    const char *file = strrchr(library, '/');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(file != NULL ? file : library, names[i]) != NULL)
            return true;
    return false;
}

bool mmul_opencl_has_only_cpus(void) {
    struct mmul_driver drivers[MMUL_DRIVERS_MAX];
    int count = mmul_drivers_list(drivers);
    for (int i = 0; i < count; i++)
        if (!has_only_cpus(drivers[i].library))
            return false;
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        glob_t found;
        bool is_there = glob(nodes[i], 0, NULL, &found) == 0;
        if (is_there)
            globfree(&found);
        if (is_there)
            return false;
    }
    return true;
}

// --------------------------------------------------------------------------------------- the file

static bool find_path(char path[static 512]) {
    char host[65] = "", name[96];
    struct mmul_error err;
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "opencl-%s.json", host);
    return mmul_cache_path(name, "lists of devices", path, &err) == MMUL_OK;
}

static json_t *device_json(const struct mmul_device_info *d) {
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:s, s:i, s:b, s:b, s:i, s:I, s:I, s:o}", "id", d->id, "name",
        mmul_json_from_text(d->name), "vendor", mmul_json_from_text(d->vendor), "platform",
        mmul_json_from_text(d->platform), "driver", mmul_json_from_text(d->driver), "pci", d->pci,
        "type", (int)d->type, "usable", d->usable, "has_double", d->has_double, "compute_units",
        d->compute_units, "memory_bytes", (json_int_t)d->memory_bytes, "max_allocation_bytes",
        (json_int_t)d->max_allocation_bytes, "reason", mmul_json_from_text(d->reason));
}

static bool read_device(const json_t *object, struct mmul_device_info *d) {
    *d = (struct mmul_device_info){
        .type = (enum mmul_device_type)json_integer_value(json_object_get(object, "type")),
        .usable = json_is_true(json_object_get(object, "usable")),
        .has_double = json_is_true(json_object_get(object, "has_double")),
        .compute_units = (int)json_integer_value(json_object_get(object, "compute_units")),
        .memory_bytes = json_integer_value(json_object_get(object, "memory_bytes")),
        .max_allocation_bytes =
            json_integer_value(json_object_get(object, "max_allocation_bytes"))};
    return mmul_json_copy_text(object, "id", d->id, sizeof d->id) &&
           mmul_json_copy_text(object, "name", d->name, sizeof d->name) &&
           mmul_json_copy_text(object, "vendor", d->vendor, sizeof d->vendor) &&
           mmul_json_copy_text(object, "platform", d->platform, sizeof d->platform) &&
           mmul_json_copy_text(object, "driver", d->driver, sizeof d->driver) &&
           mmul_json_copy_text(object, "pci", d->pci, sizeof d->pci) &&
           mmul_json_copy_text(object, "reason", d->reason, sizeof d->reason) &&
           d->type <= MMUL_DEVICE_ACCELERATOR && d->memory_bytes >= 0 &&
           d->max_allocation_bytes >= 0 && d->compute_units >= 0;
}

static bool read_library(const json_t *object, struct mmul_loaded_library *library) {
    library->bytes = json_integer_value(json_object_get(object, "bytes"));
    library->changed_ns = json_integer_value(json_object_get(object, "changed_ns"));
    return mmul_json_copy_text(object, "path", library->path, sizeof library->path);
}

static bool read_listing(const json_t *root, struct mmul_opencl_device_list *listing) {
    const json_t *devices = json_object_get(root, "devices");
    const json_t *libraries = json_object_get(root, "libraries");
    size_t device_count = json_array_size(devices), library_count = json_array_size(libraries);
    if (json_integer_value(json_object_get(root, "schema")) != SCHEMA || !json_is_array(devices) ||
        device_count > MMUL_OPENCL_DEVICES_MAX || library_count < 1 ||
        library_count > MMUL_LIBRARIES_MAX)
        return false;
    for (size_t i = 0; i < device_count; i++)
        if (!read_device(json_array_get(devices, i), &listing->devices[i]))
            return false;
    for (size_t i = 0; i < library_count; i++)
        if (!read_library(json_array_get(libraries, i), &listing->libraries[i]) ||
            !is_unchanged(&listing->libraries[i]))
            return false;
    listing->count = (int)device_count;
    listing->library_count = (int)library_count;
    return true;
}

bool mmul_opencl_device_list_load(struct mmul_opencl_device_list *listing) {
    char path[512];
    json_t *root = NULL;
    struct mmul_error err;
    struct mmul_text surroundings = {0};
    if (!find_path(path) || access(path, R_OK) != 0 || mmul_json_load(path, &root, &err) != MMUL_OK)
        return false;
    const char *then = json_string_value(json_object_get(root, "surroundings"));
    describe_surroundings(&surroundings);
    bool counts = then != NULL && strcmp(then, mmul_text_get(&surroundings)) == 0 &&
                  read_listing(root, listing);
    mmul_text_fini(&surroundings);
    json_decref(root);
    return counts;
}

void mmul_opencl_device_list_store(const struct mmul_opencl_device_list *listing) {
    char path[512], *text = NULL;
    struct mmul_error err;
    struct mmul_text surroundings = {0};
    if (listing->library_count == 0 || !find_path(path) ||
        mmul_cache_make_folders(path, &err) != MMUL_OK)
        return;
    describe_surroundings(&surroundings);
    json_t *devices = json_array(), *libraries = json_array();
    for (int i = 0; i < listing->count; i++)
        json_array_append_new(devices, device_json(&listing->devices[i]));
    for (int i = 0; i < listing->library_count; i++) {
        const struct mmul_loaded_library *l = &listing->libraries[i];
        json_array_append_new(
            libraries, json_pack("{s:o, s:I, s:I}", "path", mmul_json_from_text(l->path), "bytes",
                                 (json_int_t)l->bytes, "changed_ns", (json_int_t)l->changed_ns));
    }
    json_t *root = json_pack("{s:i, s:o, s:o, s:o}", "schema", SCHEMA, "surroundings",
                             mmul_json_from_text(mmul_text_get(&surroundings)), "libraries",
                             libraries, "devices", devices);
    if (root != NULL && mmul_json_format(root, &text, &err) == MMUL_OK)
        (void)mmul_text_store(path, text, &err);
    json_decref(root);
    mmul_free(text);
    mmul_text_fini(&surroundings);
}

// ------------------------------------------------------------------------------------------- aside

static bool find_paths(char path[static 512], char aside[static 520]) {
    bool found = find_path(path);
    snprintf(aside, 520, "%s.aside", found ? path : "");
    return found;
}

void mmul_opencl_device_list_hide(void) {
    char path[512], aside[520];
    if (find_paths(path, aside))
        (void)rename(path, aside);
}

void mmul_opencl_device_list_unhide(void) {
    char path[512], aside[520];
    if (find_paths(path, aside))
        (void)rename(aside, path);
}
