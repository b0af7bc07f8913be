// SPDX-License-Identifier: MIT
// Launchers are known by the variables they give their processes. A process without one would start
// a daemon of Open MPI's for the case that it spawns others, which this program never does, and look
// for networks that lead nowhere: two thirds of a small command's time. With Open MPI 5 that look may
// even last for ever (open-mpi issue 14383).
#include "cli/launcher.h"

#include <ctype.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

// -------------------------------------------------------------------------------------- launchers

static const char *first_set(const char *const *names) {
    for (; *names != NULL; names++)
        if (getenv(*names) != NULL)
            return getenv(*names);
    return NULL;
}

// Slurm's own default of SLURM_PMIX_FENCE has no barrier between a few nodes (scripts/environment.sh); whatever else
// is set there was somebody's choice. Ranks that mpirun started inside of a job by Slurm have mpirun's barrier.
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
    // Not every Open MPI can join those of other launchers.
    static const char *const others[] = {"PMI_RANK", "FLUX_TASK_RANK", NULL};
    const char *rank = first_set(joining), *size = first_set(sizes);
    const char *contexts = getenv("OMPI_NUM_APP_CTX");
    bool joins = rank != NULL;
    if (rank == NULL)
        rank = first_set(others);
    // srun without any of them; but not a batch script, which has a rank and is no step.
    if (rank == NULL && getenv("SLURM_STEP_ID") != NULL)
        rank = getenv("SLURM_PROCID");
    return (struct launcher){.is_present = rank != NULL,
                             .is_first = rank == NULL || strcmp(rank, "0") == 0,
                             .is_several = joins && size != NULL && atoi(size) > 1,
                             .is_mixed = joins && contexts != NULL && atoi(contexts) > 1,
                             .unmet_nodes = count_unmet_nodes()};
}

// --------------------------------------------------------------------------- what the user has set

// Whether `value` of a parameter is at odds with our `choice`: any value is, but a list of what to
// leave out that does not name it ("^ucx": Debian's own file has those).
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

// Lines `name = value` and comments.
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

// The user's file and the machine's, or those that the environment names instead.
static bool files_are_contrary(const char *name, const char *choice) {
    static const char *const named[] = {"OMPI_MCA_mca_base_param_files", "OMPI_MCA_mca_param_files",
                                        NULL};
    static const char usual[] = "%s/.openmpi/mca-params.conf:%s/etc/openmpi-mca-params.conf:"
                                "/etc/openmpi/openmpi-mca-params.conf:/etc/openmpi-mca-params.conf:"
                                "/usr/local/etc/openmpi-mca-params.conf";
    const char *home = getenv("HOME"), *prefix = getenv("OPAL_PREFIX"), *given = first_set(named);
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
    const char *variable, *parameter, *value; // parameter: of Open MPI's files; NULL: not one
    bool without_fabric;                      // only on a machine that has none
};

// One process talks to nobody but itself, and needs no folder for that; hwloc would load every OpenCL and X driver
// into it, and libxml2, and read the configuration of every PCI device: a third of the time of a small product.
static const struct setting alone[MMUL_SETTINGS_MOST] = {
    {"OMPI_MCA_ess_singleton_isolated", "ess_singleton_isolated", "1", false},
    {"OMPI_MCA_orte_create_session_dirs", "orte_create_session_dirs", "0", false},
    {"OMPI_MCA_pml", "pml", "ob1", false},
    {"OMPI_MCA_btl", "btl", "self", false},
    {"HWLOC_COMPONENTS", NULL, "-opencl,-gl,-linux:pci,-linux:io", false},
    {"HWLOC_PLUGINS_PATH", NULL, "/nonexistent", false},
};

// Over TCP Open MPI pulls large messages: its requests wait behind what goes the other way, and a cable carries
// as much in both directions as it does in one. Two hosts at 1 Gbit/s, 4096^3: 0.92 s, 0.80 s with messages
// pushed; one more copy, which costs 3 % at 10 Gbit/s.
//
// Looking for a fabric takes two libraries a tenth of a second each, in which they watch the processor's clock. On a
// machine without one Open MPI chooses ob1 after that, so nobody is given another partner than before.
static const struct setting together[MMUL_SETTINGS_MOST] = {
    {"OMPI_MCA_btl_tcp_flags", "btl_tcp_flags", "send", false},
    {"OMPI_MCA_pml", "pml", "ob1", true},
};

// InfiniBand, Omni-Path, their like of clouds; Slingshot. Who has chosen among drivers of fabrics has one, too. The
// rule is that of scripts/environment.sh, for ranks whose user did not source that.
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
    return settings->is_alone ? alone : together;
}

void mmul_settings_begin(struct mpi_settings *settings, bool is_alone) {
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

void mmul_settings_end(const struct mpi_settings *settings) {
    for (int i = 0; i < MMUL_SETTINGS_MOST; i++)
        if (settings->is_ours[i])
            unsetenv(settings_of(settings)[i].variable);
}

void mmul_launcher_send_at_once(void) {
    enum { FIRST = 3, MANY = 64 };
    const int on = 1;
    for (int fd = FIRST; fd < MANY; fd++) // what is no such socket refuses
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}
