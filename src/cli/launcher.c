// SPDX-License-Identifier: MIT
// Launchers are recognized by the variables that they set. A process without a launcher would start
// a daemon of Open MPI, in case it spawns processes, which this program never does. MPI would also
// search for networks. Both take two thirds of a small command's time. With Open MPI 5 that search
// may even hang (open-mpi issue 14383).
#include "cli/launcher.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

// -------------------------------------------------------------------------------------- launchers

static const char *find_first_set(const char *const *names) {
    for (; *names != NULL; names++)
        if (getenv(*names) != NULL)
            return getenv(*names);
    return NULL;
}

// Slurm's default for SLURM_PMIX_FENCE has no barrier between a few nodes (scripts/environment.sh);
// any other value was set on purpose. Ranks started by mpirun inside a Slurm job use mpirun's
// barrier.
static int count_unmet_nodes(void) {
    const char *nodes = getenv("SLURM_STEP_NUM_NODES");
    bool by_srun = getenv("OMPI_COMM_WORLD_RANK") == NULL && getenv("PMIX_RANK") != NULL &&
                   getenv("SLURM_STEP_ID") != NULL;
    if (!by_srun || nodes == NULL || atoi(nodes) < 2 || getenv("SLURM_PMIX_FENCE") != NULL)
        return 0;
    return atoi(nodes);
}

struct launcher mmul_launcher_find(void) {
    // Open MPI's mpirun; PMIx: prterun, srun --mpi=pmix, jsrun.
    static const char *const joining[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", NULL};
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", NULL};
    // Not every build of Open MPI can connect ranks of other launchers.
    static const char *const others[] = {"PMI_RANK", "FLUX_TASK_RANK", NULL};
    const char *rank = find_first_set(joining), *size = find_first_set(sizes);
    const char *contexts = getenv("OMPI_NUM_APP_CTX");
    bool joins = rank != NULL;
    if (rank == NULL)
        rank = find_first_set(others);
    // srun without PMI. A batch script has a rank, too, but is no job step.
    if (rank == NULL && getenv("SLURM_STEP_ID") != NULL)
        rank = getenv("SLURM_PROCID");
    return (struct launcher){.is_present = rank != NULL,
                             .is_first = rank == NULL || strcmp(rank, "0") == 0,
                             .is_one_of_several = joins && size != NULL && atoi(size) > 1,
                             .has_several_commands =
                                 joins && contexts != NULL && atoi(contexts) > 1,
                             .nodes_without_barrier = count_unmet_nodes()};
}

const char *mmul_launcher_program_name(char path[static PATH_MAX]) {
    const char *called = program_invocation_name;
    if (strchr(called, '/') == NULL || realpath(called, path) == NULL)
        return called;
    return path;
}

// ---------------------------------------------------------------------------- settings of the user

// Returns true if `value` of a parameter conflicts with our `choice`. Every value does, except an
// exclusion list without our choice ("^ucx", which Debian's own file contains).
static bool is_contrary(const char *value, const char *choice) {
    size_t length = strlen(choice);
    if (*value != '^')
        return true;
    for (const char *at = value; (at = strstr(at + 1, choice)) != NULL;)
        if ((at[-1] == '^' || at[-1] == ',' || at[-1] == ' ') &&
            (at[length] == '\0' || at[length] == ',' || isspace((unsigned char)at[length])))
            return true;
    return false;
}

// Reads lines `name = value` and comments.
static bool file_is_contrary(const char *path, const char *name, const char *choice) {
    char line[1024];
    bool contrary = false;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    while (!contrary && fgets(line, sizeof line, file) != NULL) {
        char *at = line + strspn(line, " \t");
        size_t length = strcspn(at, " \t=\r\n");
        char *value = at + length + strspn(at + length, " \t");
        if (length == strlen(name) && strncmp(at, name, length) == 0 && *value == '=')
            contrary = is_contrary(value + 1 + strspn(value + 1, " \t"), choice);
    }
    fclose(file);
    return contrary;
}

// Checks the user's file and the system's, or the files named by the environment.
static bool files_are_contrary(const char *name, const char *choice) {
    static const char *const named[] = {"OMPI_MCA_mca_base_param_files", "OMPI_MCA_mca_param_files",
                                        NULL};
    static const char usual[] = "%s/.openmpi/mca-params.conf:%s/etc/openmpi-mca-params.conf:"
                                "/etc/openmpi/openmpi-mca-params.conf:/etc/openmpi-mca-params.conf:"
                                "/usr/local/etc/openmpi-mca-params.conf";
    const char *home = getenv("HOME"), *prefix = getenv("OPAL_PREFIX"),
               *given = find_first_set(named);
    char files[4096], *rest = files;
    if (given != NULL)
        snprintf(files, sizeof files, "%s", given);
    else
        snprintf(files, sizeof files, usual, home ? home : "", prefix ? prefix : "");
    for (const char *path; (path = strsep(&rest, ":,")) != NULL;)
        if (file_is_contrary(path, name, choice))
            return true;
    return false;
}

// ------------------------------------------------------------------------------------- settings

struct setting {
    // `parameter` is the name in Open MPI's files; NULL if it has none.
    const char *variable, *parameter, *value;
    bool without_fabric; // only on a machine without a fabric
};

// A single process communicates only with itself and needs no session folder. hwloc would load
// every OpenCL and X driver and libxml2, and read the configuration of every PCI device: a third of
// the time of a small product.
static const struct setting settings_alone[MMUL_SETTINGS_MOST] = {
    {"OMPI_MCA_ess_singleton_isolated", "ess_singleton_isolated", "1", false},
    {"OMPI_MCA_orte_create_session_dirs", "orte_create_session_dirs", "0", false},
    {"OMPI_MCA_pml", "pml", "ob1", false},
    {"OMPI_MCA_btl", "btl", "self", false},
    {"HWLOC_COMPONENTS", NULL, "-opencl,-gl,-linux:pci,-linux:io", false},
    {"HWLOC_PLUGINS_PATH", NULL, "/nonexistent", false},
};

// Over TCP Open MPI pulls large messages. The requests queue behind data of the other direction, so
// both directions together get no more bandwidth than one. Two hosts at 1 Gbit/s, 4096^3: 0.92 s
// pulled, 0.80 s pushed. Pushing costs one more copy, 3 % at 10 Gbit/s.
//
// The search for a fabric takes two libraries a tenth of a second each, in which they calibrate
// against the processor's clock. On a machine without a fabric Open MPI selects ob1 after the
// search anyway.
static const struct setting settings_of_job[MMUL_SETTINGS_MOST] = {
    {"OMPI_MCA_btl_tcp_flags", "btl_tcp_flags", "send", false},
    {"OMPI_MCA_pml", "pml", "ob1", true},
};

// Detects InfiniBand, Omni-Path, their cloud variants and Slingshot. A user's choice of an MTL
// counts as a fabric. Same rule as scripts/environment.sh, for users that did not source that file.
static bool has_fabric(void) {
    static const char *const folders[] = {"/sys/class/infiniband", "/sys/class/cxi",
                                          "/dev/infiniband"};
    bool has = getenv("OMPI_MCA_mtl") != NULL;
    for (size_t i = 0; !has && i < sizeof folders / sizeof *folders; i++) {
        DIR *folder = opendir(folders[i]);
        for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
            has |= entry->d_name[0] != '.';
        if (folder != NULL)
            closedir(folder);
    }
    return has;
}

static const struct setting *settings_of(const struct mpi_settings *settings) {
    return settings->is_alone ? settings_alone : settings_of_job;
}

void mmul_mpi_settings_apply(struct mpi_settings *settings, bool is_alone) {
    *settings = (struct mpi_settings){.is_alone = is_alone};
    for (int i = 0; i < MMUL_SETTINGS_MOST; i++) {
        const struct setting *s = &settings_of(settings)[i];
        settings->is_ours[i] =
            s->variable != NULL && getenv(s->variable) == NULL &&
            (s->parameter == NULL || !files_are_contrary(s->parameter, s->value)) &&
            (!s->without_fabric || !has_fabric());
        if (settings->is_ours[i])
            setenv(s->variable, s->value, 1);
    }
}

void mmul_mpi_settings_restore(const struct mpi_settings *settings) {
    for (int i = 0; i < MMUL_SETTINGS_MOST; i++)
        if (settings->is_ours[i])
            unsetenv(settings_of(settings)[i].variable);
}

void mmul_launcher_disable_send_delay(void) {
    enum { FIRST = 3, MANY = 64 };
    const int on = 1;
    for (int fd = FIRST; fd < MANY; fd++) // fails harmlessly for other descriptors
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}
