// SPDX-License-Identifier: MIT
// Paths in the user's cache folder, and the folder for temporary files. The files themselves are
// written elsewhere.
#include "base/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "base/text.h"

// The base directory specification ignores relative paths.
static bool is_absolute(const char *path) {
    return path != NULL && path[0] == '/';
}

enum mmul_status mmul_cache_path(const char *name, const char *what, char path[static 512],
                                 struct mmul_error *err) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length;
    if (is_absolute(cache))
        length = snprintf(path, 512, "%s/mpimatmul/%s", cache, name);
    else if (is_absolute(home))
        length = snprintf(path, 512, "%s/.cache/mpimatmul/%s", home, name);
    else
        return mmul_fail(err, MMUL_ERR_CREATE,
                         "no folder for %s: neither XDG_CACHE_HOME nor HOME is set", what);
    if (length >= 512)
        return mmul_fail(err, MMUL_ERR_CREATE, "the path of %s is too long: '%s...'", what, path);
    for (char *c = path + length - strlen(name); *c != '\0'; c++)
        *c = *c == '/' ? '_' : *c;
    return MMUL_OK;
}

const char *mmul_temporary_folder(void) {
    const char *given = getenv("TMPDIR");
    return given != NULL && *given != '\0' ? given : "/tmp";
}

static bool is_folder(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

enum mmul_status mmul_cache_make_folders(const char *path, struct mmul_error *err) {
    char folder[512];
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        mmul_text_copy(folder, sizeof folder, path);
        folder[slash - path] = '\0';
        int errnum = mkdir(folder, 0700) == 0 ? 0 : errno;
        if (errnum != 0 && !is_folder(folder)) // the folders above ours usually exist
            return mmul_fail_errno(err, MMUL_ERR_CREATE, errnum, "cannot create folder '%s'",
                                   folder);
    }
    return MMUL_OK;
}
