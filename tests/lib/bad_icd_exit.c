// SPDX-License-Identifier: MIT
//
// An OpenCL driver that writes a line to stderr and ends the process when the loader asks for its
// platforms. For tests of the probe.
#include <stdio.h>
#include <unistd.h>

int clIcdGetPlatformIDsKHR(unsigned capacity, void **platforms, unsigned *count);
void *clGetExtensionFunctionAddress(const char *name);

int clIcdGetPlatformIDsKHR(unsigned capacity, void **platforms, unsigned *count) {
    (void)capacity;
    (void)platforms;
    (void)count;
    fputs("the driver gives up\n", stderr);
    _exit(3);
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
