// SPDX-License-Identifier: MIT
// Collects facts about one machine, with the functions that a rank uses (topology, OpenCL probe),
// and checks the preconditions for starting a rank. Does not start MPI. Does not judge.
#include "doctor/machine_info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/child.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/handshake.h"
#include "device/device.h"
#include "device/kernel_trial.h"
#include "host/cards.h"
#include "host/topology.h"

static const double PROBE_SECONDS = 10;

// --------------------------------------------------------------------------------- files and space

// Returns the bytes that this process may write into `folder`. -1 with errno: none.
static int64_t writable_bytes(const char *folder) {
    struct statvfs found;
    if (access(folder, W_OK | X_OK) != 0 || statvfs(folder, &found) != 0)
        return -1;
    return (int64_t)((double)found.f_bavail * (double)found.f_frsize);
}

static void add_space(const char *folder, json_t *facts) {
    const char *temporary = mmul_temporary_folder();
    json_object_set_new(facts, "shared_memory_available_bytes",
                        json_integer(writable_bytes("/dev/shm")));
    json_object_set_new(facts, "temporary", mmul_json_from_text(temporary));
    json_object_set_new(facts, "temporary_available_bytes",
                        json_integer(writable_bytes(temporary)));
    int64_t room = writable_bytes(folder);
    int errnum = errno;
    json_object_set_new(facts, "folder", mmul_json_from_text(folder));
    json_object_set_new(facts, "folder_available_bytes", json_integer(room));
    json_object_set_new(facts, "folder_problem",
                        mmul_json_from_text(room < 0 ? strerror(errnum) : ""));
}

static void add_programs(json_t *facts) {
    static const char *const firewalls[] = {"ufw", "firewall-cmd"};
    const char *firewall = "iptables";
    char path[512];
    (void)mmul_executable_find("orted", "", path, sizeof path);
    json_object_set_new(facts, "orted", mmul_json_from_text(path));
    for (int f = 1; f >= 0; f--)
        if (mmul_executable_find(firewalls[f], ":/usr/sbin:/sbin", path, sizeof path))
            firewall = firewalls[f];
    json_object_set_new(facts, "firewall", json_string(firewall));
}

// ----------------------------------------------------------------------------------------- devices

static void add_cards(json_t *facts) {
    struct mmul_card cards[16];
    int count = mmul_cards_find("/sys/bus/pci/devices", cards, 16);
    json_t *list = json_array();
    for (int c = 0; c < count; c++)
        json_array_append_new(list,
                              json_pack("{s:s,s:s,s:s}", "address", cards[c].address, "vendor",
                                        cards[c].vendor, "package", cards[c].package));
    json_object_set_new(facts, "cards", list);
}

static enum mmul_status add_devices(json_t *facts, struct mmul_error *err) {
    struct mmul_probe *probe = NULL;
    const struct mmul_device_info *found;
    const char *const *lines;
    const struct mmul_probe_options options = {.limit_seconds = PROBE_SECONDS, .ask_again = true};
    enum mmul_status status = mmul_probe_create(&options, &probe, err);
    if (status != MMUL_OK)
        return status;
    json_t *devices = json_array(), *warnings = json_array();
    int count = mmul_probe_devices(probe, &found);
    for (int d = 0; d < count; d++) {
        json_array_append_new(devices,
                              json_pack("{s:o, s:o, s:o, s:b, s:b, s:o}", "id",
                                        mmul_json_from_text(found[d].id), "name",
                                        mmul_json_from_text(found[d].name), "driver",
                                        mmul_json_from_text(found[d].driver), "is_gpu",
                                        found[d].type == MMUL_DEVICE_GPU, "usable", found[d].usable,
                                        "reason", mmul_json_from_text(found[d].reason)));
    }
    count = mmul_probe_warnings(probe, &lines);
    for (int w = 0; w < count; w++)
        json_array_append_new(warnings, mmul_json_from_text(lines[w]));
    mmul_probe_destroy(probe);
    json_object_set_new(facts, "devices", devices);
    json_object_set_new(facts, "driver_warnings", warnings);
    return MMUL_OK;
}

static enum mmul_status add_kernels(json_t *facts, struct mmul_error *err) {
    struct mmul_device *cpu = NULL;
    struct mmul_device_info info;
    struct mmul_kernel_comparison c;
    enum mmul_status status = mmul_device_open("cpu", &cpu, err);
    if (status != MMUL_OK)
        return status;
    mmul_device_describe(cpu, &info);
    mmul_device_close(cpu);
    mmul_kernels_compare(&c);
    json_object_set_new(
        facts, "kernels",
        json_pack("{s:o, s:o, s:o, s:s, s:s, s:f, s:o, s:o, s:f}", "library",
                  mmul_json_from_text(info.driver), "name", mmul_json_from_text(c.kernels),
                  "setting", mmul_json_from_text(c.setting), "vectors", c.vectors, "cpu_vectors",
                  c.cpu_vectors, "flops_per_second", c.flops, "other", mmul_json_from_text(c.other),
                  "other_setting", mmul_json_from_text(c.other_setting), "other_flops_per_second",
                  c.other_flops));
    return MMUL_OK;
}

// ----------------------------------------------------------------------------------- whole machine

static void add_software(json_t *facts) {
    struct utsname system;
    struct timespec now;
    char mpi[64];
    const char *components = getenv("HWLOC_COMPONENTS");
    json_object_set_new(facts, "version", json_string(MMUL_VERSION));
    json_object_set_new(facts, "mpi", mmul_json_from_text(mmul_comm_library_name(mpi)));
    json_object_set_new(facts, "machine",
                        mmul_json_from_text(uname(&system) == 0 ? system.machine : ""));
    json_object_set_new(facts, "is_root", json_boolean(geteuid() == 0));
    json_object_set_new(facts, "hwloc_components",
                        mmul_json_from_text(components ? components : ""));
    clock_gettime(CLOCK_REALTIME, &now);
    json_object_set_new(facts, "time_seconds",
                        json_real((double)now.tv_sec + (double)now.tv_nsec * 1e-9));
}

static enum mmul_status add_topology(json_t *facts, struct mmul_error *err) {
    struct mmul_topology topology;
    char mask[64];
    enum mmul_status status = mmul_topology_discover(&topology, err);
    if (status != MMUL_OK)
        return status;
    json_object_set_new(facts, "host", mmul_json_from_text(topology.host));
    json_object_set_new(facts, "cpu", mmul_json_from_text(topology.cpu_name));
    json_object_set_new(facts, "cores",
                        json_integer(mmul_cpuset_count(&topology.core_first_units)));
    json_object_set_new(facts, "machine_cores", json_integer(topology.cores));
    json_object_set_new(facts, "mask", json_string(mmul_cpuset_format(&topology.own, mask)));
    json_object_set_new(facts, "memory_bytes", json_integer(topology.memory_bytes));
    json_object_set_new(facts, "memory_available_bytes",
                        json_integer(topology.memory_available_bytes));
    return MMUL_OK;
}

static void add_addresses(json_t *facts) {
    struct mmul_address found[MMUL_ADDRESSES_MAX];
    json_t *addresses = json_array();
    int count = mmul_addresses_list(found, MMUL_ADDRESSES_MAX);
    for (int a = 0; a < count; a++)
        json_array_append_new(addresses,
                              json_pack("{s:s,s:s,s:i}", "interface", found[a].interface, "address",
                                        found[a].text, "prefix", found[a].prefix));
    json_object_set_new(facts, "addresses", addresses);
}

enum mmul_status mmul_machine_info_collect(const char *folder, json_t **facts,
                                           struct mmul_error *err) {
    json_t *found = json_object();
    enum mmul_status status = add_topology(found, err);
    if (status == MMUL_OK)
        status = add_devices(found, err);
    if (status == MMUL_OK)
        status = add_kernels(found, err);
    if (status != MMUL_OK) {
        json_decref(found);
        return status;
    }
    add_cards(found);
    add_addresses(found);
    add_programs(found);
    add_space(folder, found);
    add_software(found); // last, since the time must be that of the answer
    *facts = found;
    return MMUL_OK;
}

// ----------------------------------------------------------------------------------------- reading

double mmul_machine_info_number(const json_t *facts, const char *field) {
    return json_number_value(json_object_get(facts, field));
}

bool mmul_machine_info_is_true(const json_t *facts, const char *field) {
    return json_is_true(json_object_get(facts, field));
}

bool mmul_machine_info_parse_address(const json_t *entry, struct mmul_address *address) {
    const char *text = mmul_json_get_text(entry, "address");
    if (!mmul_address_parse(text, (int)mmul_machine_info_number(entry, "prefix"), address))
        return false;
    mmul_text_copy(address->interface, sizeof address->interface,
                   mmul_json_get_text(entry, "interface"));
    return true;
}

bool mmul_machine_info_find_address(const json_t *facts, uint32_t bits,
                                    struct mmul_address *address) {
    size_t at;
    json_t *entry;
    json_array_foreach(json_object_get(facts, "addresses"), at, entry) {
        if (mmul_machine_info_parse_address(entry, address) && address->bits == bits)
            return true;
    }
    return false;
}

bool mmul_machine_info_find_network(const json_t *facts, const struct mmul_address *other,
                                    struct mmul_address *address) {
    size_t at;
    json_t *entry;
    json_array_foreach(json_object_get(facts, "addresses"), at, entry) {
        if (mmul_machine_info_parse_address(entry, address) &&
            mmul_address_same_network(address, other))
            return true;
    }
    return false;
}

void mmul_machine_info_read_kernels(const json_t *facts, struct mmul_kernel_comparison *kernels) {
    const json_t *said = json_object_get(facts, "kernels");
    struct mmul_kernel_comparison *k = kernels;
    *k = (struct mmul_kernel_comparison){
        .flops = mmul_machine_info_number(said, "flops_per_second"),
        .other_flops = mmul_machine_info_number(said, "other_flops_per_second")};
    mmul_text_copy(k->kernels, sizeof k->kernels, mmul_json_get_text(said, "name"));
    mmul_text_copy(k->setting, sizeof k->setting, mmul_json_get_text(said, "setting"));
    mmul_text_copy(k->vectors, sizeof k->vectors, mmul_json_get_text(said, "vectors"));
    mmul_text_copy(k->cpu_vectors, sizeof k->cpu_vectors, mmul_json_get_text(said, "cpu_vectors"));
    mmul_text_copy(k->other, sizeof k->other, mmul_json_get_text(said, "other"));
    mmul_text_copy(k->other_setting, sizeof k->other_setting,
                   mmul_json_get_text(said, "other_setting"));
}

int mmul_machine_info_count_gpus(const json_t *facts) {
    size_t at;
    json_t *device;
    int count = 0;
    json_array_foreach(json_object_get(facts, "devices"), at, device) {
        count += mmul_machine_info_is_true(device, "is_gpu") &&
                 mmul_machine_info_is_true(device, "usable");
    }
    return count;
}
