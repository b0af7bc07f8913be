// SPDX-License-Identifier: MIT
// JSON and text files through jansson and stdio. A text file is written under a temporary name in
// its folder and then renamed, so that no reader sees half of it. A path that exists and is not a
// regular file (/dev/null, /dev/stdout, a FIFO) is written to directly and never replaced.
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/ending.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "base/text.h"

static enum mmul_status open_regular(const char *path, FILE **file, struct mmul_error *err) {
    enum mmul_status status;
    struct stat found;
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot open '%s'", path);
    if (fstat(fd, &found) != 0) {
        status = mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot open '%s'", path);
        goto out;
    }
    if (!S_ISREG(found.st_mode)) {
        status = mmul_fail(err, MMUL_ERR_NO_INPUT, "cannot read '%s': not a regular file", path);
        goto out;
    }
    FILE *opened = fdopen(fd, "r");
    if (opened != NULL) {
        *file = opened;
        return MMUL_OK;
    }
    status = mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot open '%s'", path);
out:
    close(fd);
    return status;
}

enum mmul_status mmul_text_load(const char *path, char **text, struct mmul_error *err) {
    FILE *file = NULL;
    struct stat found;
    char *loaded = NULL;
    enum mmul_status status = open_regular(path, &file, err);
    if (status != MMUL_OK)
        return status;
    if (fstat(fileno(file), &found) != 0)
        status = mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot read '%s'", path);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE_RAW(loaded, found.st_size + 1, "a file's text", err);
    if (status == MMUL_OK)
        loaded[fread(loaded, 1, (size_t)found.st_size, file)] = '\0';
    if (status == MMUL_OK && ferror(file) != 0)
        status = mmul_fail(err, MMUL_ERR_NO_INPUT, "cannot read '%s'", path);
    fclose(file); // read only: no data to lose
    if (status == MMUL_OK)
        *text = loaded;
    else
        mmul_free(loaded);
    return status;
}

enum mmul_status mmul_json_load(const char *path, json_t **value, struct mmul_error *err) {
    FILE *file = NULL;
    enum mmul_status status = open_regular(path, &file, err);
    if (status != MMUL_OK)
        return status;
    json_error_t problem;
    json_t *loaded = json_loadf(file, JSON_REJECT_DUPLICATES, &problem);
    bool unreadable = ferror(file) != 0;
    fclose(file); // read only: no data to lose
    if (loaded != NULL) {
        *value = loaded;
        return MMUL_OK;
    }
    if (unreadable)
        return mmul_fail(err, MMUL_ERR_NO_INPUT, "cannot read '%s'", path);
    if (json_error_code(&problem) == json_error_out_of_memory)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the JSON of '%s'", path);
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' is not valid JSON: line %d, column %d: %s", path,
                     problem.line, problem.column, problem.text);
}

enum mmul_status mmul_json_parse(const char *bytes, size_t count, const char *name, json_t **value,
                                 struct mmul_error *err) {
    json_error_t problem;
    json_t *parsed = json_loadb(bytes, count, JSON_REJECT_DUPLICATES, &problem);
    if (parsed == NULL && json_error_code(&problem) == json_error_out_of_memory)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the JSON of '%s'", name);
    if (parsed == NULL)
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' is not valid: byte %d of its JSON: %s", name,
                         problem.position, problem.text);
    *value = parsed;
    return MMUL_OK;
}

const char *mmul_json_get_text(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

bool mmul_json_copy_text(const json_t *object, const char *name, char *target, size_t capacity) {
    const char *text = json_string_value(json_object_get(object, name));
    if (text == NULL || strlen(text) >= capacity)
        return false;
    mmul_text_copy(target, capacity, text);
    return true;
}

json_t *mmul_json_from_double(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *mmul_json_from_text(const char *text) {
    json_t *value = json_string(text);
    char *plain = value == NULL ? strdup(text) : NULL;
    for (char *c = plain; c != NULL && *c != '\0'; c++)
        *c = (unsigned char)*c < 0x80 ? *c : '?';
    if (plain != NULL)
        value = json_string(plain);
    free(plain);
    return value;
}

static int add_json(const char *piece, size_t length, void *text) {
    struct mmul_text *target = text;
    mmul_text_add(target, "%.*s", (int)length, piece);
    return target->failed ? -1 : 0;
}

enum mmul_status mmul_json_format(const json_t *value, char **text, struct mmul_error *err) {
    struct mmul_text built = {0};
    int rc = json_dump_callback(value, add_json, &built, JSON_INDENT(2) | JSON_ENCODE_ANY);
    if (rc == 0)
        mmul_text_add(&built, "\n");
    if (rc != 0 || built.failed) {
        mmul_text_fini(&built);
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot format JSON");
    }
    *text = built.data; // ownership passes to the caller
    return MMUL_OK;
}

// Writes the text and closes the descriptor. Returns 0 or errno.
static int write_and_close(int fd, const char *text) {
    size_t left = strlen(text);
    int errnum = 0;
    while (left > 0) {
        ssize_t written = write(fd, text, left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            errnum = errno;
            break;
        }
        text += written;
        left -= (size_t)written;
    }
    if (errnum == 0 && fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
        errnum = errno;
    if (close(fd) != 0 && errnum == 0)
        errnum = errno;
    return errnum;
}

// Writes after everything printed so far. Appends if the shell opened the descriptor for appending.
static enum mmul_status store_in_descriptor(int descriptor, const char *path, const char *text,
                                            struct mmul_error *err) {
    (void)fflush(stdout);
    const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return mmul_fail_errno(err, MMUL_ERR_CREATE, errno, "cannot write '%s'", path);
    const int errnum = write_and_close(copy, text);
    return errnum == 0 ? MMUL_OK
                       : mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot write '%s'", path);
}

static enum mmul_status store_directly(const char *path, const char *text, struct mmul_error *err) {
    int fd = open(path, O_WRONLY | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return mmul_fail_errno(err, MMUL_ERR_CREATE, errno, "cannot write '%s'", path);
    if (fcntl(fd, F_SETFL, 0) != 0) {
        int errnum = errno;
        close(fd);
        return mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot write '%s'", path);
    }
    int errnum = write_and_close(fd, text);
    if (errnum != 0)
        return mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot write '%s'", path);
    return MMUL_OK;
}

// `replaced` describes the existing file at `path`. The new file gets its permissions. NULL: there
// is none.
static enum mmul_status store_renamed(const char *path, const char *part,
                                      const struct stat *replaced, const char *text,
                                      struct mmul_error *err) {
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  replaced != NULL ? 0600 : 0666);
    if (fd < 0)
        return mmul_fail_errno(err, MMUL_ERR_CREATE, errno, "cannot create '%s'", path);
    int errnum = replaced != NULL && fchmod(fd, replaced->st_mode & 0777) != 0 ? errno : 0;
    const int written = write_and_close(fd, text);
    if (errnum == 0)
        errnum = written;
    const bool is_stopped = mmul_ending_has_begun();
    if (errnum == 0 && !is_stopped && rename(part, path) != 0)
        errnum = errno;
    if (errnum == 0 && !is_stopped)
        return MMUL_OK;
    (void)unlink(part); // the first failure is already in errnum
    if (errnum == 0)
        return mmul_fail(err, MMUL_ERR_STOPPED, "'%s' is not written: the run was stopped", path);
    return mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot write '%s'", path);
}

enum mmul_status mmul_text_store(const char *path, const char *text, struct mmul_error *err) {
    struct stat found;
    const int descriptor = mmul_descriptor_find(path);
    if (descriptor >= 0)
        return store_in_descriptor(descriptor, path, text, err);
    const bool exists = lstat(path, &found) == 0;
    if (!exists && errno != ENOENT)
        return mmul_fail_errno(err, MMUL_ERR_CREATE, errno, "cannot create '%s'", path);
    if (exists && S_ISDIR(found.st_mode))
        return mmul_fail(err, MMUL_ERR_CREATE, "cannot write '%s': it is a folder", path);
    if (exists && !S_ISREG(found.st_mode))
        return store_directly(path, text, err);
    struct mmul_text part = {0};
    char suffix[32];
    snprintf(suffix, sizeof suffix, ".%016llx.part", (unsigned long long)mmul_random_seed());
    mmul_text_add_sibling_path(&part, path, suffix);
    enum mmul_status status;
    if (part.failed)
        status = mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a file name");
    else
        status = store_renamed(path, mmul_text_get(&part), exists ? &found : NULL, text, err);
    mmul_text_fini(&part);
    return status;
}
