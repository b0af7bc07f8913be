// SPDX-License-Identifier: MIT
//
// For LD_PRELOAD: energy counters of a simulated machine. The folder MMUL_COUNTERS takes the place
// of /sys/class/powercap. The value of a file energy_uj in it grows by MMUL_COUNTERS_STEP each time
// the process reads it. Without the variable nothing changes.
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char COUNTERS[] = "/sys/class/powercap";

// Returns the path in the simulated folder, built in `room`; other paths are returned unchanged.
static const char *redirect_path(const char *path, char room[static 512]) {
    const char *folder = getenv("MMUL_COUNTERS");
    const size_t length = strlen(COUNTERS);
    if (folder == NULL || strncmp(path, COUNTERS, length) != 0)
        return path;
    snprintf(room, 512, "%s%s", folder, path + length);
    return room;
}

DIR *opendir(const char *path) {
    char room[512];
    DIR *(*next)(const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    return next(redirect_path(path, room));
}

FILE *fopen(const char *path, const char *mode) {
    static int times;
    static char text[32];
    char room[512];
    FILE *(*next)(const char *, const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    const char *place = redirect_path(path, room);
    FILE *stream = next(place, mode);
    long long counted;
    if (stream == NULL || place == path || strstr(path, "/energy_uj") == NULL ||
        fscanf(stream, "%lld", &counted) != 1)
        return stream;
    fclose(stream);
    snprintf(text, sizeof text, "%lld\n", counted + times++ * atoll(getenv("MMUL_COUNTERS_STEP")));
    return fmemopen(text, strlen(text), "r");
}
