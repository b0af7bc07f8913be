// SPDX-License-Identifier: MIT
// Lists and removes sets of shards. Files are classified by name alone. Only descriptions are read,
// shards are not opened.
#include "io/shard_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/shard_folder.h"
#include "io/shard_set.h"

enum file_kind { OTHER, DESCRIPTION, SHARD, LEFT };

static bool cut_suffix(char *text, const char *suffix) {
    const size_t length = strlen(text), cut = strlen(suffix);
    if (length <= cut || strcmp(text + length - cut, suffix) != 0)
        return false;
    text[length - cut] = '\0';
    return true;
}

// Cuts off "_shard_<i>.bin" or "_shard_<i>.npy".
static bool cut_shard_suffix(char *text) {
    if (!cut_suffix(text, mmul_format_ending(MMUL_FORMAT_BIN)) &&
        !cut_suffix(text, mmul_format_ending(MMUL_FORMAT_NPY)))
        return false;
    const size_t length = strlen(text), stem = mmul_shard_stem_length(text, length);
    text[stem] = '\0';
    return stem > 0 && stem < length;
}

// Classifies a file, and finds the name of its set.
static enum file_kind classify_file(const char *file, char name[static 256]) {
    mmul_text_copy(name, 256, file);
    if (strlen(file) >= 256)
        return OTHER;
    const bool is_left = cut_suffix(name, ".part");
    if (cut_suffix(name, "_shards.json"))
        return is_left ? LEFT : DESCRIPTION;
    if (cut_shard_suffix(name))
        return is_left ? LEFT : SHARD;
    mmul_text_copy(name, 256, file); // "_shards.json.0123456789abcdef.part"
    char *json = strstr(name, "_shards.json.");
    if (!is_left || json == NULL || json == name)
        return OTHER;
    *json = '\0';
    return LEFT;
}

struct listing {
    struct mmul_shard_entry *entries;
    int count, capacity;
};

static enum mmul_status find_entry(struct listing *list, const char *name,
                                   struct mmul_shard_entry **entry, struct mmul_error *err) {
    int i = 0;
    while (i < list->count && strcmp(list->entries[i].name, name) != 0)
        i++;
    if (i == list->capacity) {
        struct mmul_shard_entry *more = NULL;
        const int capacity = list->capacity > 0 ? 2 * list->capacity : 16;
        enum mmul_status status = MMUL_ALLOCATE(more, capacity, "a list of sets", err);
        if (status != MMUL_OK)
            return status;
        if (list->count > 0)
            memcpy(more, list->entries, (size_t)list->count * sizeof *more);
        mmul_free(list->entries);
        list->entries = more;
        list->capacity = capacity;
    }
    if (i == list->count)
        mmul_text_copy(list->entries[list->count++].name, sizeof list->entries->name, name);
    *entry = &list->entries[i];
    return MMUL_OK;
}

static void read_description(const char *folder, struct mmul_shard_entry *entry) {
    struct mmul_shard_set *set = NULL;
    struct mmul_error ignored; // an unreadable description describes nothing
    char *path = NULL;
    if (mmul_shard_set_path(folder, entry->name, &path, &ignored) == MMUL_OK &&
        mmul_shard_set_load(path, &set, &ignored) == MMUL_OK) {
        entry->is_described = true;
        entry->is_kept = set->kept != NULL;
        entry->is_whole = set->kept == NULL || set->kept->is_whole;
        entry->shape = set->shape;
        entry->dtype = set->dtype;
        entry->axis = set->axis;
        entry->parts = set->parts;
    }
    mmul_shard_set_destroy(set);
    mmul_free(path);
}

static enum mmul_status add_file(struct listing *list, const char *folder, DIR *directory,
                                 const char *file, struct mmul_error *err) {
    char name[256];
    struct stat found;
    struct mmul_shard_entry *entry = NULL;
    const enum file_kind kind = classify_file(file, name);
    if (kind == OTHER || fstatat(dirfd(directory), file, &found, AT_SYMLINK_NOFOLLOW) != 0)
        return MMUL_OK;
    enum mmul_status status = find_entry(list, name, &entry, err);
    if (status != MMUL_OK)
        return status;
    if (kind == DESCRIPTION)
        read_description(folder, entry);
    else if (kind == LEFT)
        entry->left_bytes += found.st_size;
    else {
        entry->shards++;
        entry->bytes += found.st_size;
    }
    return MMUL_OK;
}

static int compare_entries(const void *a, const void *b) {
    const struct mmul_shard_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

// Opens the folder. *directory is NULL if it is missing.
static enum mmul_status open_folder(const char *folder, DIR **directory, struct mmul_error *err) {
    struct stat found;
    *directory = NULL;
    if (lstat(folder, &found) != 0 && errno == ENOENT)
        return MMUL_OK;
    enum mmul_status status = mmul_shard_folder_check(folder, err);
    if (status == MMUL_OK && (*directory = opendir(folder)) == NULL)
        status =
            mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot open shard folder '%s'", folder);
    return status;
}

enum mmul_status mmul_shard_list(const char *folder, struct mmul_shard_entry **entries, int *count,
                                 struct mmul_error *err) {
    struct listing list = {0};
    DIR *directory = NULL;
    enum mmul_status status = open_folder(folder, &directory, err);
    for (struct dirent *entry;
         status == MMUL_OK && directory != NULL && (entry = readdir(directory)) != NULL;)
        status = add_file(&list, folder, directory, entry->d_name, err);
    if (directory != NULL)
        closedir(directory);
    if (status != MMUL_OK) {
        mmul_free(list.entries);
        return status;
    }
    if (list.count > 0)
        qsort(list.entries, (size_t)list.count, sizeof *list.entries, compare_entries);
    *entries = list.entries;
    *count = list.count;
    return MMUL_OK;
}

// Returns true if the temporary file is locked, hence being written.
static bool is_being_written(int folder, const char *file) {
    int fd = openat(folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const bool is_locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return is_locked;
}

static enum mmul_status remove_files(DIR *directory, const char *folder, const char *name,
                                     enum file_kind kind, int *removed, struct mmul_error *err) {
    char set[256];
    rewinddir(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const char *file = entry->d_name;
        if (classify_file(file, set) != kind || strcmp(set, name) != 0 ||
            (kind == LEFT && is_being_written(dirfd(directory), file)))
            continue;
        if (unlinkat(dirfd(directory), file, 0) == 0)
            ++*removed;
        else if (errno != ENOENT) // a rank of another host may share the folder
            return mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot remove '%s/%s'", folder, file);
    }
    return MMUL_OK;
}

enum mmul_status mmul_shard_remove(const char *folder, const char *name, int *removed,
                                   struct mmul_error *err) {
    DIR *directory = NULL;
    *removed = 0;
    enum mmul_status status = open_folder(folder, &directory, err);
    if (status != MMUL_OK || directory == NULL)
        return status;
    status = remove_files(directory, folder, name, DESCRIPTION, removed, err);
    if (status == MMUL_OK)
        status = remove_files(directory, folder, name, SHARD, removed, err);
    if (status == MMUL_OK)
        status = remove_files(directory, folder, name, LEFT, removed, err);
    closedir(directory);
    return status;
}

// Returns true if the shard does not belong to the new set. `number` is the text after
// "NAME_shard_".
static bool is_surplus(const char *number, int parts, enum mmul_format format) {
    char *ending;
    const long part = strtol(number, &ending, 10);
    return part >= parts || strcmp(ending, mmul_format_ending(format)) != 0;
}

enum mmul_status mmul_shard_remove_surplus(const char *folder, const char *name, int parts,
                                           enum mmul_format format, struct mmul_error *err) {
    DIR *directory = NULL;
    char set[256];
    enum mmul_status status = open_folder(folder, &directory, err);
    if (status != MMUL_OK || directory == NULL)
        return status;
    for (struct dirent *entry; status == MMUL_OK && (entry = readdir(directory)) != NULL;) {
        const char *file = entry->d_name;
        const enum file_kind kind = classify_file(file, set);
        if ((kind != SHARD && kind != LEFT) || strcmp(set, name) != 0)
            continue;
        const bool is_old =
            kind == LEFT ? !is_being_written(dirfd(directory), file)
                         : is_surplus(file + strlen(name) + strlen("_shard_"), parts, format);
        if (is_old && unlinkat(dirfd(directory), file, 0) != 0 && errno != ENOENT)
            status =
                mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot remove '%s/%s'", folder, file);
    }
    closedir(directory);
    return status;
}
