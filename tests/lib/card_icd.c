// SPDX-License-Identifier: MIT
//
// PoCL as an OpenCL driver of another name: what is asked of it goes there.
#include <dlfcn.h>
#include <stddef.h>

void *clGetExtensionFunctionAddress(const char *name);

void *clGetExtensionFunctionAddress(const char *name) {
    void *(*ask)(const char *) = NULL;
    void *pocl = dlopen("libpocl.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (pocl != NULL)
        *(void **)&ask = dlsym(pocl, "clGetExtensionFunctionAddress");
    return ask != NULL ? ask(name) : NULL;
}
