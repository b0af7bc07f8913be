// SPDX-License-Identifier: MIT
// Facts about one machine, as JSON. They travel between machines with different versions, so
// readers accept missing fields.
//
//   version, mpi, machine (architecture), host, user, is_root, time_seconds (of the epoch),
//   cpu, cores (this process may use), machine_cores, memory_bytes, memory_available_bytes,
//   shared_memory_available_bytes (/dev/shm; -1: none), temporary, temporary_available_bytes (-1:
//   not writable), folder, folder_available_bytes (-1: see folder_problem), folder_problem,
//   orted (its path on PATH, or ""), firewall ("ufw", "firewall-cmd" or "iptables": the program
//   that opens and closes ports), hwloc_components,
//   kernels: {library ("OpenBLAS 0.3.21 (Haswell)"), name, setting, vectors, cpu_vectors,
//   flops_per_second, other, other_setting, other_flops_per_second} (model/kernel_set.h),
//   addresses: [{interface, address, prefix}],
//   devices: [{id, name, driver, is_gpu, usable, reason}],
//   driver_warnings: [text], cards: [{address, vendor, package}] (graphics cards on the PCI bus,
//   and the package with an OpenCL driver for each)
#pragma once

#include "base/json.h"
#include "host/network_probe.h"
#include "model/kernel_set.h"
#include "mpimatmul_local.h"

// Collects the facts of this machine. `folder` is the folder for results. Takes up to several
// seconds, since OpenCL drivers run in a child process. Uses no network. The caller owns *facts.
// Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_machine_info_collect(const char *folder, json_t **facts,
                                           struct mmul_error *err);

// Return a field of facts, or of an entry in its arrays. 0 or false: missing, or another type. For
// texts see mmul_json_get_text.
double mmul_machine_info_number(const json_t *facts, const char *field);
bool mmul_machine_info_is_true(const json_t *facts, const char *field);

// Reads an entry of the facts' addresses. Returns false if it is invalid.
bool mmul_machine_info_parse_address(const json_t *entry, struct mmul_address *address);

// Find the machine's address `bits`, or its address in the network of `other`. Return false if it
// has none.
bool mmul_machine_info_find_address(const json_t *facts, uint32_t bits,
                                    struct mmul_address *address);
bool mmul_machine_info_find_network(const json_t *facts, const struct mmul_address *other,
                                    struct mmul_address *address);

// Reads the machine's kernels, empty if the facts have none.
void mmul_machine_info_read_kernels(const json_t *facts, struct mmul_kernel_comparison *kernels);

// Returns the number of usable GPUs.
int mmul_machine_info_count_gpus(const json_t *facts);
