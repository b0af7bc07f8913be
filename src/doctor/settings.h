// SPDX-License-Identifier: MIT
// Open MPI's parameters as mpirun will find them, limited to those that the doctor needs. In order
// of precedence: a file for `mpirun --tune`, the environment (OMPI_MCA_<name>), the user's
// ~/.openmpi/mca-params.conf, the system's /etc/openmpi/openmpi-mca-params.conf.
#pragma once

#include "host/network_probe.h"
#include "mpimatmul_local.h"

enum { MMUL_SETTING_LENGTH = 512 };

struct mmul_settings {
    char agent[MMUL_SETTING_LENGTH];   // plm_rsh_agent: "ssh : rsh" unless set
    char include[MMUL_SETTING_LENGTH]; // btl_tcp_if_include: "eth0,10.0.0.0/24"; "" if not set
    char exclude[MMUL_SETTING_LENGTH]; // btl_tcp_if_exclude
    char keepalive[32];                // oob_tcp_keepalive_time, seconds
    char binding[32];                  // hwloc_base_binding_policy
    bool keeps_domains;                // orte_keep_fqdn_hostnames is on
    bool root_allowed;                 // both variables that let root run mpirun are 1
};

// Reads the parameters. `tune`: a file that mpirun will be given, or NULL. Fails with
// MMUL_ERR_NO_INPUT or MMUL_ERR_DATA if that file cannot be read.
enum mmul_status mmul_settings_load(const char *tune, struct mmul_settings *settings,
                                    struct mmul_error *err);

// Reads a boolean as Open MPI does: a number, or a word.
bool mmul_settings_is_true(const char *value);

// Returns true if Open MPI may send the ranks' data over this interface.
bool mmul_settings_allow_address(const struct mmul_settings *settings,
                                 const struct mmul_address *address);
