// SPDX-License-Identifier: MIT
//
// For LD_PRELOAD: counters of energy of a made-up machine. MMUL_COUNTERS names a folder that is there in place of
// /sys/class/powercap; what a file energy_uj in it says grows by MMUL_COUNTERS_STEP each time that the process reads
// it. Without it nothing is changed.
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char COUNTERS[] = "/sys/class/powercap";

// Where it is, in `room`; the path itself where it is not of ours.
static const char *place_of(const char *path, char room[static 512]) {
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
    return next(place_of(path, room));
}

FILE *fopen(const char *path, const char *mode) {
    static int times;
    static char text[32];
    char room[512];
    FILE *(*next)(const char *, const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    const char *place = place_of(path, room);
    FILE *stream = next(place, mode);
    long long counted;
    if (stream == NULL || place == path || strstr(path, "/energy_uj") == NULL ||
        fscanf(stream, "%lld", &counted) != 1)
        return stream;
    fclose(stream);
    snprintf(text, sizeof text, "%lld\n", counted + times++ * atoll(getenv("MMUL_COUNTERS_STEP")));
    return fmemopen(text, strlen(text), "r");
}
