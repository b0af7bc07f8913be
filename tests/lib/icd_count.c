// SPDX-License-Identifier: MIT
//
// An OpenCL driver without devices. It writes a line to the file ICD_COUNT whenever a loader asks
// for its platforms, and sleeps ICD_SECONDS first if set. For tests of the cached list of drivers.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int clIcdGetPlatformIDsKHR(unsigned capacity, void **platforms, unsigned *count);
void *clGetExtensionFunctionAddress(const char *name);

int clIcdGetPlatformIDsKHR(unsigned capacity, void **platforms, unsigned *count) {
    const char *seconds = getenv("ICD_SECONDS"), *path = getenv("ICD_COUNT");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    (void)capacity;
    (void)platforms;
    if (file != NULL) {
        fprintf(file, "asked by process %d\n", (int)getpid());
        fclose(file);
    }
    if (seconds != NULL)
        sleep((unsigned)atoi(seconds));
    if (count != NULL)
        *count = 0;
    return -1001; // CL_PLATFORM_NOT_FOUND_KHR
}

// The entry point that a loader calls first. Returns a function for every name it may ask for.
void *clGetExtensionFunctionAddress(const char *name) {
    union {
        int (*function)(unsigned, void **, unsigned *);
        void *pointer;
    } platforms = {clIcdGetPlatformIDsKHR};
    (void)name;
    return platforms.pointer;
}
