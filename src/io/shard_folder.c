// SPDX-License-Identifier: MIT
// Names, folder and checksum of shards. The checks of the folder keep another user of the machine
// from planting files or links where we write: anyone can create a fixed name in /dev/shm.
#include "io/shard_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/address.h"
#include "io/formats.h"
#include "io/standard_stream.h"
#include "io/transfer.h"

size_t mmul_shard_stem_length(const char *text, size_t length) {
    static const char mark[] = "_shard_";
    const size_t mark_length = sizeof mark - 1;
    size_t digits = length;
    while (digits > 0 && text[digits - 1] >= '0' && text[digits - 1] <= '9')
        digits--;
    if (digits == length || digits < mark_length ||
        memcmp(text + digits - mark_length, mark, mark_length) != 0)
        return length;
    return digits - mark_length;
}

const char *mmul_kept_name(const char *path) {
    static const char prefix[] = "kept:";
    const size_t length = sizeof prefix - 1;
    return strncmp(path, prefix, length) == 0 && access(path, F_OK) != 0 ? path + length : NULL;
}

enum mmul_status mmul_persistent_split_name(const char *kept, char **folder, const char **name,
                                            struct mmul_error *err) {
    const char *slash = strrchr(kept, '/'), *given = getenv("MPIMATMUL_SHARD_DIR");
    char standard[64];
    *name = slash != NULL ? slash + 1 : kept;
    if (slash == NULL)
        return mmul_copy_text(given != NULL && *given != '\0' ? given : mmul_shard_folder(standard),
                              folder, err);
    enum mmul_status status = mmul_copy_text(kept, folder, err);
    if (status == MMUL_OK)
        (*folder)[slash == kept ? 1 : slash - kept] = '\0';
    return status;
}

char *mmul_base_name(const char *path, char name[static 256]) {
    const char *slash = strrchr(path, '/'), *tensor = mmul_format_tensor_name(path);
    const char *begin = slash != NULL ? slash + 1 : path;
    if (slash == NULL && mmul_kept_name(path) != NULL)
        begin = mmul_kept_name(path);
    struct mmul_axis_range ignored;
    if (mmul_path_is_stdin(path))
        begin = "stdin";
    size_t length = strlen(begin);
    if (tensor != NULL) {
        begin = tensor;
        length = strlen(begin);
        mmul_address_range(begin, &length, &ignored);
    }
    length = mmul_shard_stem_length(begin, mmul_format_stem_length(begin, length));
    mmul_text_copy(name, length < 255 ? length + 1 : 256, begin);
    for (char *c = name; *c != '\0'; c++)
        if (*c == '/')
            *c = '_'; // occurs in names of tensors only
    return name;
}

enum mmul_status mmul_shard_name_check(const char *name, struct mmul_error *err) {
    bool is_dots = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    if (*name != '\0' && !is_dots && strchr(name, '/') == NULL)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_USAGE,
                     "'%s' cannot name a set of shards: expected a file name without '/'", name);
}

static enum mmul_status check_folder(const char *folder, const struct stat *found,
                                     struct mmul_error *err) {
    if (S_ISLNK(found->st_mode)) {
        return mmul_fail(err, MMUL_ERR_CREATE, "shard folder '%s' is a symbolic link: not used",
                         folder);
    }
    if (!S_ISDIR(found->st_mode))
        return mmul_fail(err, MMUL_ERR_CREATE, "shard folder '%s' is not a folder", folder);
    if (found->st_uid != geteuid()) {
        return mmul_fail(err, MMUL_ERR_CREATE,
                         "shard folder '%s' belongs to user %lu, not to user %lu: not used", folder,
                         (unsigned long)found->st_uid, (unsigned long)geteuid());
    }
    if ((found->st_mode & (S_IWGRP | S_IWOTH)) == 0)
        return MMUL_OK;
    mmul_fail(err, MMUL_ERR_CREATE, "shard folder '%s' can be written to by other users: not used",
              folder);
    mmul_hint(err, "chmod go-w '%s'", folder);
    return err->status;
}

char *mmul_shard_folder(char text[static 64]) {
    snprintf(text, 64, "/dev/shm/mpimatmul-%lu", (unsigned long)getuid());
    return text;
}

static enum mmul_status open_folder(const char *folder, bool is_made, struct mmul_error *err) {
    char *plain = NULL;
    struct stat found;
    enum mmul_status status = mmul_copy_text(folder, &plain, err);
    if (status != MMUL_OK)
        return status;
    // With a slash at the end lstat would follow a symbolic link.
    size_t length = strlen(plain);
    while (length > 1 && plain[length - 1] == '/')
        plain[--length] = '\0';
    if (!is_made && lstat(plain, &found) != 0) {
        status =
            mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot open shard folder '%s'", folder);
    } else if ((is_made && mkdir(plain, 0700) != 0 && errno != EEXIST) ||
               lstat(plain, &found) != 0) {
        status =
            mmul_fail_errno(err, MMUL_ERR_CREATE, errno, "cannot create shard folder '%s'", folder);
    } else {
        status = check_folder(folder, &found, err);
    }
    mmul_free(plain);
    return status;
}

enum mmul_status mmul_shard_folder_create(const char *folder, struct mmul_error *err) {
    return open_folder(folder, true, err);
}

enum mmul_status mmul_shard_folder_check(const char *folder, struct mmul_error *err) {
    return open_folder(folder, false, err);
}

static enum mmul_status finish_path(struct mmul_text *text, char **path, struct mmul_error *err) {
    if (text->failed) {
        mmul_text_fini(text);
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a file name");
    }
    *path = text->data; // ownership passes on
    return MMUL_OK;
}

enum mmul_format mmul_shard_format(enum mmul_dtype dtype) {
    return mmul_format_holds(MMUL_FORMAT_BIN, dtype) == dtype ? MMUL_FORMAT_BIN : MMUL_FORMAT_NPY;
}

enum mmul_status mmul_shard_path(const char *folder, const char *name, int part,
                                 enum mmul_format format, char **path, struct mmul_error *err) {
    struct mmul_text text = {0};
    mmul_text_add(&text, "%s/%s_shard_%d%s", folder, name, part, mmul_format_ending(format));
    return finish_path(&text, path, err);
}

enum mmul_status mmul_shard_set_path(const char *folder, const char *name, char **path,
                                     struct mmul_error *err) {
    struct mmul_text text = {0};
    mmul_text_add(&text, "%s/%s_shards.json", folder, name);
    return finish_path(&text, path, err);
}

static enum mmul_status hash_file(int fd, const char *path, struct mmul_hasher *hasher,
                                  struct mmul_error *err) {
    enum { BUFFER_BYTES = 1 << 20 };
    size_t got = BUFFER_BYTES;
    int errnum = 0;
    void *buffer = mmul_allocate_raw(BUFFER_BYTES, 1, "a checksum buffer", err);
    if (buffer == NULL)
        return err->status;
    for (int64_t offset = 0; got == BUFFER_BYTES && errnum == 0; offset += BUFFER_BYTES) {
        errnum = mmul_pread_all(fd, buffer, BUFFER_BYTES, offset, &got);
        if (errnum == 0)
            mmul_hasher_add(hasher, buffer, got);
    }
    mmul_free(buffer);
    if (errnum == 0)
        return MMUL_OK;
    return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", path);
}

enum mmul_status mmul_shard_hash(const char *path, uint64_t *hash, struct mmul_error *err) {
    struct mmul_hasher *hasher = NULL;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot open '%s'", path);
    enum mmul_status status = mmul_hasher_create(&hasher, err);
    if (status == MMUL_OK)
        status = hash_file(fd, path, hasher, err);
    if (status == MMUL_OK)
        *hash = mmul_hasher_value(hasher);
    mmul_hasher_destroy(hasher);
    close(fd); // read only: nothing can be lost
    return status;
}
