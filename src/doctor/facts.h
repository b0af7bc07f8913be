// SPDX-License-Identifier: MIT
//
// What one machine says about itself, as JSON: it travels between machines whose versions may
// differ, so a reader takes what is there.
//
//   version, mpi, machine (architecture), host, user, is_root, time_seconds (of the epoch),
//   cpu, cores (this process may use), machine_cores, memory_bytes, memory_available_bytes,
//   shared_memory_available_bytes (/dev/shm; -1: none), temporary, temporary_available_bytes (-1:
//   not writable), folder, folder_available_bytes (-1: see folder_problem), folder_problem,
//   orted (its path on PATH, or ""), firewall ("ufw", "firewall-cmd" or "iptables", what closes and
//   opens ports there), hwloc_components,
//   kernels: {library ("OpenBLAS 0.3.21 (Haswell)"), name, setting, vectors, cpu_vectors, flops_per_second, other,
//   other_setting, other_flops_per_second} (model/kernel_set.h),
//   addresses: [{interface, address, prefix}], devices: [{id, name, driver, is_gpu, usable, reason}],
//   driver_warnings: [text], cards: [{address, vendor, package}] (graphics cards on the PCI bus, and
//   the package with an OpenCL driver for it)
#pragma once

#include "base/json.h"
#include "host/reach.h"
#include "model/kernel_set.h"
#include "mpimatmul_local.h"

// Gathers them on this machine; `folder` is where results would be written. It takes up to some
// seconds (OpenCL drivers are asked in a child process) and uses no network. `*facts` is the
// caller's. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_facts_gather(const char *folder, json_t **facts, struct mmul_error *err);

// A field of facts, or of an entry of its arrays; "" or 0 where it is not there or of another type.
const char *mmul_facts_text(const json_t *facts, const char *field);
double mmul_facts_number(const json_t *facts, const char *field);
bool mmul_facts_true(const json_t *facts, const char *field);

// An entry of facts' addresses; false when it is none.
bool mmul_facts_address(const json_t *entry, struct mmul_address *address);

// The machine's address `bits`, or its address in the network of `other`; false when it has none.
bool mmul_facts_find_address(const json_t *facts, uint32_t bits, struct mmul_address *address);
bool mmul_facts_find_network(const json_t *facts, const struct mmul_address *other,
                             struct mmul_address *address);

// What the machine says of its kernels; nothing where it says nothing.
void mmul_facts_kernels(const json_t *facts, struct mmul_kernel_comparison *kernels);

// How many GPUs of the machine can be used.
int mmul_facts_gpus(const json_t *facts);
