// SPDX-License-Identifier: MIT
// Finds PoCL's cache folder by PoCL's own rules: $POCL_CACHE_DIR, $XDG_CACHE_HOME/pocl/kcache,
// $HOME/.cache/pocl/kcache. A folder counts as writable if a folder can be created in it:
// permissions are not reliable on file systems such as /proc.
#include "device/pocl_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache.h"

static bool find_pocl_folder(char own[static 512]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = 0;
    if (cache != NULL && *cache != '\0')
        length = snprintf(own, 512, "%s/pocl/kcache", cache);
    else if (home != NULL)
        length = snprintf(own, 512, "%s/.cache/pocl/kcache", home);
    return length > 0 && length < 512;
}

// Tests a missing folder by its nearest existing ancestor.
static bool is_writable(const char *folder) {
    enum { BYTES = 512 };
    char above[BYTES], made[BYTES + 32];
    struct stat found;
    snprintf(above, sizeof above, "%s", folder);
    while (stat(above, &found) != 0) {
        char *slash = strrchr(above, '/');
        if (slash == NULL || slash == above)
            break;
        *slash = '\0';
    }
    snprintf(made, sizeof made, "%s/.mpimatmul-XXXXXX", above);
    return mkdtemp(made) != NULL && rmdir(made) == 0;
}

// Creates our folder. Rejects one that another user may have prepared: code built there is
// executed.
static bool make_own_folder(char ours[static 512]) {
    struct stat found;
    const int length = snprintf(ours, 512, "%s/mpimatmul-pocl-%lu", mmul_temporary_folder(),
                                (unsigned long)geteuid());
    if (length >= 512)
        return false;
    (void)mkdir(ours, 0700);
    return lstat(ours, &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
           (found.st_mode & 0022) == 0 && is_writable(ours);
}

bool mmul_pocl_cache_replace(char own[static 512], char ours[static 512]) {
    return getenv("POCL_CACHE_DIR") == NULL && find_pocl_folder(own) && !is_writable(own) &&
           make_own_folder(ours) && setenv("POCL_CACHE_DIR", ours, 1) == 0;
}
