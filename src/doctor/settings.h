// SPDX-License-Identifier: MIT
//
// Open MPI's parameters as mpirun will find them, those that a look at other machines needs. In the
// order of their rank: a file for `mpirun --tune`, the environment (OMPI_MCA_<name>), the user's
// ~/.openmpi/mca-params.conf, the system's /etc/openmpi/openmpi-mca-params.conf.
#pragma once

#include "host/reach.h"
#include "mpimatmul_local.h"

enum { MMUL_SETTING_LENGTH = 512 };

struct mmul_settings {
    char agent[MMUL_SETTING_LENGTH];   // plm_rsh_agent: "ssh : rsh" unless set
    char include[MMUL_SETTING_LENGTH]; // btl_tcp_if_include: "eth0,10.0.0.0/24"; "" when not set
    char exclude[MMUL_SETTING_LENGTH]; // btl_tcp_if_exclude
    char keepalive[32];                // oob_tcp_keepalive_time, seconds
    char binding[32];                  // hwloc_base_binding_policy
    bool keeps_domains;                // orte_keep_fqdn_hostnames is on
    bool root_allowed;                 // both variables that let root run mpirun are 1
};

// `tune`: NULL or a file that mpirun is going to be given. Fails when that cannot be read:
// MMUL_ERR_NO_INPUT or MMUL_ERR_DATA.
enum mmul_status mmul_settings_load(const char *tune, struct mmul_settings *settings,
                                    struct mmul_error *err);

// Whether Open MPI lets the ranks' bytes take this interface.
bool mmul_settings_allow(const struct mmul_settings *settings, const struct mmul_address *address);
