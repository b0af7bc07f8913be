// SPDX-License-Identifier: MIT
// Compares two paths: do they mean one file? Works also for files that do not exist yet, such as
// two outputs of a job before it starts. Does not open them.
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/file_stat.h"
#include "mpimatmul_local.h"

// Finds the folder and name of a file that does not exist, following links. Returns false if there
// is no such folder.
static bool find_place(const char *path, struct stat *folder, char name[static NAME_MAX + 1]) {
    enum { LINKS_MOST = 40 };
    char at[PATH_MAX], target[PATH_MAX], next[2 * PATH_MAX];
    ssize_t length = 0;
    if (snprintf(at, sizeof at, "%s", path) >= (int)sizeof at)
        return false;
    for (int links = 0; (length = readlink(at, target, sizeof target - 1)) > 0; links++) {
        const char *slash = strrchr(at, '/');
        target[length] = '\0';
        const int kept = slash != NULL && target[0] != '/' ? (int)(slash - at + 1) : 0;
        snprintf(next, sizeof next, "%.*s%s", kept, at, target);
        if (links == LINKS_MOST || strlen(next) >= sizeof at)
            return false;
        memcpy(at, next, strlen(next) + 1);
    }
    char *slash = strrchr(at, '/');
    const char *last = slash != NULL ? slash + 1 : at;
    if (*last == '\0' || strlen(last) > NAME_MAX)
        return false;
    memcpy(name, last, strlen(last) + 1);
    if (slash != NULL)
        slash[1] = '\0';
    return stat(slash != NULL ? at : ".", folder) == 0;
}

bool mmul_paths_are_same(const char *x, const char *y) {
    struct stat x_stat, y_stat;
    char x_name[NAME_MAX + 1], y_name[NAME_MAX + 1];
    if (strcmp(x, y) == 0)
        return true;
    const bool x_exists = stat(x, &x_stat) == 0, y_exists = stat(y, &y_stat) == 0;
    if (x_exists || y_exists)
        return x_exists && y_exists && mmul_stat_is_same_file(&x_stat, &y_stat);
    return find_place(x, &x_stat, x_name) && find_place(y, &y_stat, y_name) &&
           mmul_stat_is_same_file(&x_stat, &y_stat) && strcmp(x_name, y_name) == 0;
}
