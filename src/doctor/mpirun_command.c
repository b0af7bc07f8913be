// SPDX-License-Identifier: MIT
// Reads mpirun's options up to the name of the program: behind it, -n and -c belong to the program.
// That needs the number of values of every option. Hosts in rank files, app files and variables of
// the environment are not considered.
#include "doctor/mpirun_command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/text_file.h"

// ----------------------------------------------------------------------------------------- parsing

// Options of Open MPI 4.1 with one value, beside those below. -mca and -gmca have two.
static const char *const options_with_value[] = {
    "am",      "app",       "bind-to",         "cartofile",     "cf",         "cpu-list",
    "cpu-set", "debugger",  "cpus-per-proc",   "cpus-per-rank", "hnp",        "launch-agent",
    "map-by",  "N",         "max-restarts",    "max-vm-size",   "npernode",   "npersocket",
    "path",    "ppr",       "ompi-server",     "personality",   "prefix",     "preload-files",
    "rank-by", "rankfile",  "output-filename", "report-events", "report-pid", "report-uri",
    "rf",      "slot-list", "stdin",           "timeout",       "tune",       "wd",
    "wdir",    "x",         "xml-file",        "xterm",
};

static const struct {
    const char *name;
    enum mmul_mpirun_option_kind kind;
} options_of_hosts[] = {
    {"hostfile", MMUL_MPIRUN_HOSTFILE},
    {"machinefile", MMUL_MPIRUN_HOSTFILE},
    {"default-hostfile", MMUL_MPIRUN_HOSTFILE},
    {"host", MMUL_MPIRUN_HOSTS},
    {"H", MMUL_MPIRUN_HOSTS},
    {"n", MMUL_MPIRUN_RANKS},
    {"np", MMUL_MPIRUN_RANKS},
    {"c", MMUL_MPIRUN_RANKS},
};

static bool is_mpirun(const char *word) {
    static const char *const names[] = {"mpirun",  "mpiexec",        "orterun",
                                        "prterun", "mpirun.openmpi", "mpiexec.openmpi"};
    const char *slash = strrchr(word, '/');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(slash != NULL ? slash + 1 : word, names[i]) == 0)
            return true;
    return false;
}

static enum mmul_status add_hosts(struct mmul_mpirun_command *command,
                                  struct mmul_mpirun_option *option, struct mmul_error *err) {
    const char *value = command->words[option->value];
    struct mmul_hostfile found = {.hosts = NULL};
    struct mmul_host *all = NULL;
    enum mmul_status status = option->kind == MMUL_MPIRUN_HOSTFILE
                                  ? mmul_hostfile_load(value, &found, err)
                                  : mmul_host_list_parse(value, &found, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(all, command->host_count + found.count, "a list of hosts", err);
    if (status == MMUL_OK) {
        for (int h = 0; h < command->host_count; h++)
            all[h] = command->hosts[h];
        for (int h = 0; h < found.count; h++)
            all[command->host_count + h] = found.hosts[h];
        mmul_free(command->hosts);
        command->hosts = all;
        option->host_begin = command->host_count;
        command->host_count += found.count;
        option->host_end = command->host_count;
    }
    mmul_hostfile_fini(&found);
    return status;
}

// Reads the option at *at with its values, and moves *at to the last one.
static enum mmul_status parse_option(struct mmul_mpirun_command *command, int context, int *at,
                                     struct mmul_error *err) {
    const char *const *words = command->words + *at;
    const char *name = words[0] + 1 + (words[0][1] == '-');
    const int left = command->word_count - *at - 1;
    if (strcmp(name, "mca") == 0 || strcmp(name, "gmca") == 0) {
        *at += left < 2 ? left : 2;
        if (left >= 2 && strcmp(words[1], "plm_rsh_agent") == 0)
            command->agent = words[2];
        if (left >= 2 && strcmp(words[1], "orte_keep_fqdn_hostnames") == 0)
            command->keeps_domains = words[2];
        return MMUL_OK;
    }
    for (size_t i = 0; i < sizeof options_of_hosts / sizeof *options_of_hosts && left > 0; i++) {
        if (strcmp(name, options_of_hosts[i].name) != 0)
            continue;
        struct mmul_mpirun_option *option = &command->options[command->option_count++];
        *option = (struct mmul_mpirun_option){
            .kind = options_of_hosts[i].kind, .value = ++*at, .context = context};
        return option->kind == MMUL_MPIRUN_RANKS ? MMUL_OK : add_hosts(command, option, err);
    }
    for (size_t i = 0; i < sizeof options_with_value / sizeof *options_with_value; i++)
        if (strcmp(name, options_with_value[i]) == 0 && left > 0)
            *at += 1;
    if (strcmp(name, "tune") == 0 && left > 0)
        command->tune = words[1];
    return MMUL_OK;
}

enum mmul_status mmul_mpirun_command_parse(const char *const *words,
                                           struct mmul_mpirun_command *command,
                                           struct mmul_error *err) {
    struct mmul_mpirun_command found = {.words = words, .mpirun = -1};
    int context = 0;
    bool is_before_program = true;
    while (words[found.word_count] != NULL)
        found.word_count++;
    for (int w = 0; w < found.word_count && found.mpirun < 0; w++)
        if (is_mpirun(words[w]))
            found.mpirun = w;
    enum mmul_status status =
        MMUL_ALLOCATE(found.options, found.word_count, "a list of options", err);
    for (int w = found.mpirun + 1; found.mpirun >= 0 && w < found.word_count && status == MMUL_OK;
         w++) {
        if (strcmp(words[w], ":") == 0) {
            context++;
            is_before_program = true;
        } else if (is_before_program && words[w][0] == '-') {
            status = parse_option(&found, context, &w, err);
        } else {
            is_before_program = false;
        }
    }
    if (status == MMUL_OK)
        *command = found;
    else
        mmul_mpirun_command_fini(&found);
    return status;
}

void mmul_mpirun_command_fini(struct mmul_mpirun_command *command) {
    MMUL_FREE_ALL(command->options, command->hosts);
    *command = (struct mmul_mpirun_command){.mpirun = -1};
}

// --------------------------------------------------------------------------------------- reduction

// Returns the remaining slots of a program: those of its own hosts, else those of all. With a
// hostfile and a list, the list selects hosts of the file.
static int64_t count_slots(const struct mmul_mpirun_command *command, const int *slots,
                           int context) {
    int64_t sums[MMUL_MPIRUN_RANKS] = {0}, all = 0;
    bool has[MMUL_MPIRUN_RANKS] = {false};
    for (int o = 0; o < command->option_count; o++) {
        const struct mmul_mpirun_option *option = &command->options[o];
        for (int h = option->host_begin; h < option->host_end; h++) {
            all += slots[h];
            if (option->context == context)
                sums[option->kind] += slots[h];
        }
        if (option->context == context && option->kind != MMUL_MPIRUN_RANKS)
            has[option->kind] = true;
    }
    return has[MMUL_MPIRUN_HOSTS]      ? sums[MMUL_MPIRUN_HOSTS]
           : has[MMUL_MPIRUN_HOSTFILE] ? sums[MMUL_MPIRUN_HOSTFILE]
                                       : all;
}

// Copies the hostfile's lines, without those of hosts that are left out, to a temporary file.
static enum mmul_status write_hostfile(const struct mmul_mpirun_command *command,
                                       const struct mmul_mpirun_option *option, const int *slots,
                                       struct mmul_text *path, struct mmul_error *err) {
    const char *folder = getenv("TMPDIR");
    char *text = NULL, *name = NULL;
    enum mmul_status status =
        mmul_text_file_load(command->words[option->value], "hostfile", &text, err);
    mmul_text_add(path, "%s/mpimatmul-hosts-XXXXXX", folder != NULL ? folder : "/tmp");
    if (status == MMUL_OK)
        status = mmul_copy_text(mmul_text_get(path), &name, err);
    int file = status == MMUL_OK ? mkstemp(name) : -1;
    FILE *stream = file >= 0 ? fdopen(file, "w") : NULL;
    if (status == MMUL_OK && stream == NULL)
        status = mmul_fail_errno(err, MMUL_ERR_CREATE, errno, "cannot create '%s'", name);
    int line = 0, h = option->host_begin;
    for (char *rest = text, *one; stream != NULL && (one = strsep(&rest, "\n")) != NULL;) {
        line++;
        const bool is_host = h < option->host_end && command->hosts[h].line == line;
        if (!is_host || slots[h] > 0)
            fprintf(stream, "%s%s", one, rest != NULL ? "\n" : "");
        h += is_host;
    }
    if (stream != NULL && fclose(stream) != 0)
        status = mmul_fail_errno(err, MMUL_ERR_CREATE, errno, "cannot write '%s'", name);
    mmul_text_fini(path);
    if (status == MMUL_OK)
        mmul_text_add(path, "%s", name);
    else if (file >= 0)
        unlink(name);
    MMUL_FREE_ALL(text, name);
    return status;
}

// Writes the list of remaining hosts with their slots.
static void shorten_list(const char *list, const struct mmul_mpirun_option *option,
                         const int *slots, struct mmul_text *text) {
    int h = option->host_begin;
    for (const char *at = list; *at != '\0'; at += *at == ',') {
        const size_t length = strcspn(at, ",");
        if (length > 0 && slots[h++] > 0)
            mmul_text_add(text, "%s%.*s", text->length > 0 ? "," : "", (int)length, at);
        at += length;
    }
}

static enum mmul_status change_value(const struct mmul_mpirun_command *command,
                                     const struct mmul_mpirun_option *option, const int *slots,
                                     struct mmul_text *text, struct mmul_error *err) {
    const char *value = command->words[option->value];
    const int64_t left = count_slots(command, slots, option->context);
    int64_t ranks = 0;
    switch (option->kind) {
    case MMUL_MPIRUN_HOSTFILE:
        return write_hostfile(command, option, slots, text, err);
    case MMUL_MPIRUN_HOSTS:
        shorten_list(value, option, slots, text);
        break;
    case MMUL_MPIRUN_RANKS:
        if (mmul_parse_int64(value, "-n", 0, INT32_MAX, &ranks, err) == MMUL_OK && ranks > left)
            mmul_text_add(text, "%lld", (long long)left);
        else
            mmul_text_add(text, "%s", value);
        break;
    }
    return MMUL_OK;
}

// Copies a word, or writes its new value if an option has it.
static enum mmul_status add_word(const struct mmul_mpirun_command *command, int word,
                                 const int *slots, struct mmul_reduced_words *reduced,
                                 struct mmul_error *err) {
    struct mmul_text text = {0};
    const struct mmul_mpirun_option *option = NULL;
    for (int o = 0; o < command->option_count; o++)
        if (command->options[o].value == word)
            option = &command->options[o];
    enum mmul_status status = MMUL_OK;
    if (option != NULL)
        status = change_value(command, option, slots, &text, err);
    else
        mmul_text_add(&text, "%s", command->words[word]);
    if (status == MMUL_OK)
        status = mmul_copy_text(mmul_text_get(&text), &reduced->words[reduced->count], err);
    if (status == MMUL_OK)
        reduced->is_temporary[reduced->count++] =
            option != NULL && option->kind == MMUL_MPIRUN_HOSTFILE;
    mmul_text_fini(&text);
    return status;
}

enum mmul_status mmul_mpirun_command_reduce(const struct mmul_mpirun_command *command,
                                            const int *slots, struct mmul_reduced_words *reduced,
                                            struct mmul_error *err) {
    struct mmul_reduced_words made = {.words = NULL};
    int context = 0, programs = 0;
    enum mmul_status status = MMUL_ALLOCATE_ALL("the words of a command", err,
                                                MMUL_ARRAY(made.words, command->word_count + 1),
                                                MMUL_ARRAY(made.is_temporary, command->word_count));
    for (int w = 0; w <= command->mpirun && status == MMUL_OK; w++)
        status = add_word(command, w, slots, &made, err);
    for (int w = command->mpirun + 1; w < command->word_count && status == MMUL_OK; context++) {
        const bool remains = count_slots(command, slots, context) > 0;
        if (remains && programs++ > 0)
            status = mmul_copy_text(":", &made.words[made.count++], err);
        for (; w < command->word_count && strcmp(command->words[w], ":") != 0; w++)
            if (remains && status == MMUL_OK)
                status = add_word(command, w, slots, &made, err);
        w++; // the ':'
    }
    if (status != MMUL_OK || programs == 0)
        mmul_reduced_words_fini(&made);
    if (status == MMUL_OK)
        *reduced = made;
    return status;
}

void mmul_reduced_words_fini(struct mmul_reduced_words *reduced) {
    for (int w = 0; w < reduced->count; w++) {
        if (reduced->is_temporary[w])
            unlink(reduced->words[w]);
        mmul_free(reduced->words[w]);
    }
    MMUL_FREE_ALL(reduced->words, reduced->is_temporary);
    *reduced = (struct mmul_reduced_words){.words = NULL};
}
