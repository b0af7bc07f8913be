// SPDX-License-Identifier: MIT
// Parses hostfiles line by line. Names are checked here, since they become words of a command line.
// Does not decide whether mpirun accepts the file: findings_hostfile.c does.
#include "doctor/hostfile.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "host/network_probe.h"
#include "io/text_file.h"

enum { SLOTS_MAX = 1 << 20 };

static const char blanks[] = " \t\r";

// Keys in a line, and those that set the slots.
static const struct {
    const char *name;
    bool is_slots;
} keys[] = {
    {"slots", true},      {"count", true},      {"cpu", true},
    {"max_slots", false}, {"max-slots", false}, {"slots_max", false},
    {"slots-max", false}, {"cpu_max", false},   {"count_max", false},
};

static bool is_host_name(const char *name) {
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "._:-@";
    const char *host = strchr(name, '@');
    size_t length = strlen(name);
    return length > 0 && length < MMUL_HOST_LENGTH && name[strspn(name, legal)] == '\0' &&
           name[0] != '-' && name[0] != '@' &&
           (host == NULL || (host[1] != '-' && host[1] != '\0'));
}

// Parses "slots=4", with optional blanks around '=', and moves *at behind it. Like mpirun, compares
// a maximum only with slots given before it.
static enum mmul_status parse_entry(const char *where, char **at, struct mmul_host *host,
                                    struct mmul_error *err) {
    char *key = *at;
    char *key_end = key + strcspn(key, " \t\r=");
    char *value = key_end + strspn(key_end, blanks);
    if (*value != '=')
        return mmul_fail(err, MMUL_ERR_DATA, "%s: expected 'slots=N', found '%s'", where, key);
    value += 1 + strspn(value + 1, blanks);
    size_t length = strcspn(value, blanks);
    *at = value + length + strspn(value + length, blanks);
    *key_end = '\0';
    value[length] = '\0';
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        int64_t number = 0;
        if (strcmp(key, keys[k].name) != 0)
            continue;
        if (mmul_parse_int64(value, key, 1, SLOTS_MAX, &number, err) != MMUL_OK)
            return mmul_fail(err, MMUL_ERR_DATA, "%s: %s '%s' is not a whole number from 1 to %d",
                             where, key, value, SLOTS_MAX);
        if (keys[k].is_slots)
            host->slots = (int)number;
        else if (number < host->slots)
            mmul_text_copy(host->maximum_below_slots, sizeof host->maximum_below_slots, key);
        return MMUL_OK;
    }
    return mmul_fail(err, MMUL_ERR_DATA, "%s: unknown word '%s', expected slots or max_slots",
                     where, key);
}

// Parses a line. The host's name stays "" if the line is empty.
static enum mmul_status parse_line(const char *where, char *text, struct mmul_host *host,
                                   struct mmul_error *err) {
    text += strspn(text, blanks);
    *host = (struct mmul_host){.slots = 0};
    if (*text == '\0')
        return MMUL_OK;
    size_t length = strcspn(text, blanks);
    char *at = text + length + strspn(text + length, blanks);
    text[length] = '\0';
    if (!is_host_name(text))
        return mmul_fail(err, MMUL_ERR_DATA, "%s: '%s' is not the name of a host", where, text);
    mmul_text_copy(host->name, sizeof host->name, text);
    enum mmul_status status = MMUL_OK;
    while (status == MMUL_OK && *at != '\0')
        status = parse_entry(where, &at, host, err);
    return status;
}

static enum mmul_status parse_lines(const char *path, char *text, struct mmul_hostfile *hostfile,
                                    struct mmul_error *err) {
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    enum mmul_status status = MMUL_OK;
    int line = 0;
    hostfile->has_mark = strncmp(text, byte_order_mark, strlen(byte_order_mark)) == 0;
    text += hostfile->has_mark ? strlen(byte_order_mark) : 0;
    for (char *rest = text, *one; status == MMUL_OK && (one = strsep(&rest, "\n")) != NULL;) {
        char where[512];
        struct mmul_host host;
        snprintf(where, sizeof where, "'%s' line %d", path, ++line);
        char *comment = strchr(one, '#');
        if (comment != NULL)
            *comment = '\0';
        if (comment != NULL && rest == NULL)
            hostfile->unterminated_comment_line = line;
        if (hostfile->carriage_return_line == 0 && strchr(one, '\r') != NULL)
            hostfile->carriage_return_line = line;
        status = parse_line(where, one, &host, err);
        host.line = line;
        if (status == MMUL_OK && host.name[0] != '\0')
            hostfile->hosts[hostfile->count++] = host;
    }
    if (status == MMUL_OK && hostfile->count == 0)
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' names no host", path);
    return status;
}

enum mmul_status mmul_hostfile_load(const char *path, struct mmul_hostfile *hostfile,
                                    struct mmul_error *err) {
    char *text = NULL;
    struct mmul_hostfile found = {.hosts = NULL};
    int lines = 1;
    enum mmul_status status = mmul_text_file_load(path, "hostfile", &text, err);
    for (const char *c = text; status == MMUL_OK && *c != '\0'; c++)
        lines += *c == '\n';
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(found.hosts, lines, "a list of hosts", err);
    if (status == MMUL_OK)
        status = parse_lines(path, text, &found, err);
    mmul_free(text);
    if (status == MMUL_OK)
        *hostfile = found;
    else
        mmul_hostfile_fini(&found);
    return status;
}

void mmul_hostfile_fini(struct mmul_hostfile *hostfile) {
    mmul_free(hostfile->hosts);
    *hostfile = (struct mmul_hostfile){.hosts = NULL};
}

static enum mmul_status parse_list_entry(char *entry, struct mmul_host *host,
                                         struct mmul_error *err) {
    char *number = strrchr(entry, ':');
    int64_t slots = 1;
    if (number != NULL)
        *number++ = '\0';
    if (number != NULL && strcmp(number, "*") == 0)
        slots = 0;
    else if (number != NULL &&
             mmul_parse_int64(number, "slots", 1, SLOTS_MAX, &slots, err) != MMUL_OK)
        return mmul_fail(err, MMUL_ERR_DATA,
                         "--host: slots '%s' of '%s' are not a whole number from 1 to %d", number,
                         entry, SLOTS_MAX);
    if (!is_host_name(entry))
        return mmul_fail(err, MMUL_ERR_DATA, "--host: '%s' is not the name of a host", entry);
    *host = (struct mmul_host){.slots = (int)slots};
    mmul_text_copy(host->name, sizeof host->name, entry);
    return MMUL_OK;
}

enum mmul_status mmul_host_list_parse(const char *list, struct mmul_hostfile *hosts,
                                      struct mmul_error *err) {
    struct mmul_hostfile found = {.hosts = NULL};
    char *text = NULL;
    int entries = 1;
    for (const char *c = list; *c != '\0'; c++)
        entries += *c == ',';
    enum mmul_status status = mmul_copy_text(list, &text, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(found.hosts, entries, "a list of hosts", err);
    for (char *rest = text, *entry; status == MMUL_OK && (entry = strsep(&rest, ",")) != NULL;)
        if (*entry != '\0')
            status = parse_list_entry(entry, &found.hosts[found.count++], err);
    mmul_free(text);
    if (status == MMUL_OK)
        *hosts = found;
    else
        mmul_hostfile_fini(&found);
    return status;
}

// ------------------------------------------------------------------------------------------- names

const char *mmul_host_without_user(const char *name) {
    const char *at = strchr(name, '@');
    return at != NULL ? at + 1 : name;
}

char *mmul_host_mpirun_name(const struct mmul_host *host, bool keeps_domains,
                            char called[static MMUL_HOST_LENGTH]) {
    mmul_text_copy(called, MMUL_HOST_LENGTH, host->name);
    const char *name = mmul_host_without_user(called);
    if (!keeps_domains && !mmul_address_is_numeric(name))
        called[name - called + (ptrdiff_t)strcspn(name, ".")] = '\0';
    return called;
}
