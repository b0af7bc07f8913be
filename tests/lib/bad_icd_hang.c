// SPDX-License-Identifier: MIT
//
// An OpenCL driver that never answers when the loader asks for its platforms. For tests of the
// probe.
#include <unistd.h>

int clIcdGetPlatformIDsKHR(unsigned capacity, void **platforms, unsigned *count);
void *clGetExtensionFunctionAddress(const char *name);

int clIcdGetPlatformIDsKHR(unsigned capacity, void **platforms, unsigned *count) {
    (void)capacity;
    (void)platforms;
    (void)count;
    for (;;)
        pause();
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
