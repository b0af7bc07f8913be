// SPDX-License-Identifier: MIT
// Reads Open MPI's parameters from the files and variables that mpirun reads. Does not run mpirun,
// which may be the part that fails.
#include "doctor/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/text_file.h"

// Parameter files in order of precedence. NULL: missing.
struct sources {
    char *tune, *user, *system; // owned
};

static const char blanks[] = " \t\r";

// Reads the word at *at, and moves *at behind it and the blanks (or '=') that follow.
static void read_word(const char **at, char *word, size_t capacity) {
    size_t length = strcspn(*at, " \t\r\n=");
    mmul_text_copy(word, length < capacity ? length + 1 : capacity, *at);
    *at += length;
    *at += strspn(*at, " \t\r=");
}

// Finds `name = value` or `-mca name value`. The last line with the name is used.
static bool find_parameter(const char *text, const char *name, char *value, size_t capacity) {
    bool found = false;
    while (text != NULL && *text != '\0') {
        char key[128];
        const char *at = text + strspn(text, blanks);
        read_word(&at, key, sizeof key);
        if (strcmp(key, "-mca") == 0 || strcmp(key, "--mca") == 0)
            read_word(&at, key, sizeof key);
        if (strcmp(key, name) == 0) {
            size_t length = strcspn(at, "\r\n");
            mmul_text_copy(value, length < capacity ? length + 1 : capacity, at);
            found = true;
        }
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return found;
}

static void look_up_parameter(const struct sources *sources, const char *name, char *value,
                              size_t capacity) {
    char variable[128];
    snprintf(variable, sizeof variable, "OMPI_MCA_%s", name);
    const char *set = getenv(variable);
    if (find_parameter(sources->tune, name, value, capacity))
        return;
    if (set != NULL)
        mmul_text_copy(value, capacity, set);
    else if (!find_parameter(sources->user, name, value, capacity))
        (void)find_parameter(sources->system, name, value, capacity);
}

bool mmul_settings_is_true(const char *value) {
    return strtol(value, NULL, 10) != 0 || strncmp(value, "t", 1) == 0 ||
           strncmp(value, "y", 1) == 0 || strncmp(value, "enable", 6) == 0;
}

static bool is_set_to_one(const char *variable) {
    const char *set = getenv(variable);
    return set != NULL && strcmp(set, "1") == 0;
}

enum mmul_status mmul_settings_load(const char *tune, struct mmul_settings *settings,
                                    struct mmul_error *err) {
    struct sources sources = {NULL};
    char path[1024];
    struct mmul_error ignored; // for files that may be missing
    if (tune != NULL &&
        mmul_text_file_load(tune, "file of Open MPI settings", &sources.tune, err) != MMUL_OK)
        return err->status;
    const char *home = getenv("HOME");
    snprintf(path, sizeof path, "%s/.openmpi/mca-params.conf", home != NULL ? home : "");
    (void)mmul_text_file_load(path, "file", &sources.user, &ignored);
    (void)mmul_text_file_load("/etc/openmpi/openmpi-mca-params.conf", "file", &sources.system,
                              &ignored);
    *settings = (struct mmul_settings){.agent = "ssh : rsh"};
    look_up_parameter(&sources, "plm_rsh_agent", settings->agent, sizeof settings->agent);
    look_up_parameter(&sources, "btl_tcp_if_include", settings->include, sizeof settings->include);
    look_up_parameter(&sources, "btl_tcp_if_exclude", settings->exclude, sizeof settings->exclude);
    look_up_parameter(&sources, "oob_tcp_keepalive_time", settings->keepalive,
                      sizeof settings->keepalive);
    look_up_parameter(&sources, "hwloc_base_binding_policy", settings->binding,
                      sizeof settings->binding);
    char keeps_domains[32] = "";
    look_up_parameter(&sources, "orte_keep_fqdn_hostnames", keeps_domains, sizeof keeps_domains);
    settings->keeps_domains = mmul_settings_is_true(keeps_domains);
    settings->root_allowed =
        is_set_to_one("OMPI_ALLOW_RUN_AS_ROOT") && is_set_to_one("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
    MMUL_FREE_ALL(sources.tune, sources.user, sources.system);
    return MMUL_OK;
}

// Returns true if `entry`, an interface's name or a network like 10.0.0.0/24, covers this address.
static bool covers_address(const char *entry, const struct mmul_address *address) {
    struct mmul_address network;
    char bits[MMUL_SETTING_LENGTH];
    mmul_text_copy(bits, sizeof bits, entry);
    char *slash = strchr(bits, '/');
    if (slash == NULL)
        return strcmp(entry, address->interface) == 0;
    *slash = '\0';
    struct mmul_address within = *address;
    if (!mmul_address_parse(bits, (int)strtol(slash + 1, NULL, 10), &network))
        return false;
    within.prefix = network.prefix;
    return mmul_address_same_network(&network, &within);
}

static bool is_listed(const char *list, const struct mmul_address *address) {
    char copy[MMUL_SETTING_LENGTH];
    mmul_text_copy(copy, sizeof copy, list);
    for (char *rest = copy, *entry; (entry = strsep(&rest, ", ")) != NULL;)
        if (*entry != '\0' && covers_address(entry, address))
            return true;
    return false;
}

bool mmul_settings_allow_address(const struct mmul_settings *settings,
                                 const struct mmul_address *address) {
    if (settings->include[0] != '\0')
        return is_listed(settings->include, address);
    return !is_listed(settings->exclude, address);
}
