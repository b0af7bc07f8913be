// SPDX-License-Identifier: MIT
// A command line that starts mpirun, and the same command without some of its hosts. Runs nothing:
// remaining_command.c asks the hosts.
#pragma once

#include "doctor/hostfile.h"

enum mmul_mpirun_option_kind {
    MMUL_MPIRUN_HOSTFILE, // --hostfile, --machinefile, --default-hostfile
    MMUL_MPIRUN_HOSTS,    // --host, -H
    MMUL_MPIRUN_RANKS,    // -n, -np, -c
};

struct mmul_mpirun_option {
    enum mmul_mpirun_option_kind kind;
    int value;   // index of its value in the words
    int context; // index of its program: "program : program"
    int host_begin, host_end;
};

struct mmul_mpirun_command {
    const char *const *words; // borrowed, up to NULL
    int word_count;
    int mpirun;                         // index of the word; -1: the command starts no mpirun
    struct mmul_mpirun_option *options; // owned
    int option_count;
    struct mmul_host *hosts; // hosts of all options, in their order; owned
    int host_count;
    const char *tune;          // value of --tune; NULL: none
    const char *agent;         // value of --mca plm_rsh_agent; NULL: none
    const char *keeps_domains; // value of --mca orte_keep_fqdn_hostnames; NULL: none
};

// Finds mpirun and its options in a command such as "env A=1 mpirun --hostfile hosts -n 4 program".
// Released with mmul_mpirun_command_fini. Fails like mmul_hostfile_load.
enum mmul_status mmul_mpirun_command_parse(const char *const *words,
                                           struct mmul_mpirun_command *command,
                                           struct mmul_error *err);
void mmul_mpirun_command_fini(struct mmul_mpirun_command *command);

// Words of a new command, and its temporary hostfiles.
struct mmul_reduced_words {
    char **words; // up to NULL; owned
    int count;
    bool *is_temporary; // per word: names a file that _fini removes; owned
};

// Leaves out hosts. `slots`, per entry of command->hosts: its slots, or 0 to leave it out. A
// hostfile becomes a temporary file without their lines, a list a shorter one. A number of ranks
// above the remaining slots is lowered to these. A program without a remaining host is left out,
// too. count is 0 if no program remains. Fails with MMUL_ERR_CREATE (the temporary file) and
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_mpirun_command_reduce(const struct mmul_mpirun_command *command,
                                            const int *slots, struct mmul_reduced_words *reduced,
                                            struct mmul_error *err);
void mmul_reduced_words_fini(struct mmul_reduced_words *reduced);
