// SPDX-License-Identifier: MIT
//
// For LD_PRELOAD: a slow disk. A file with a name that ends in MMUL_LATE is removed a tenth of a
// second later.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int unlink(const char *path) {
    int (*hidden)(const char *);
    const char *end = getenv("MMUL_LATE");
    const struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};
    *(void **)&hidden = dlsym(RTLD_NEXT, "unlink");
    if (end != NULL && strlen(path) >= strlen(end) &&
        strcmp(path + strlen(path) - strlen(end), end) == 0)
        nanosleep(&pause, NULL);
    return hidden(path);
}
