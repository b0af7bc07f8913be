// SPDX-License-Identifier: MIT
//
// For LD_PRELOAD: a file system that stops answering. pread of the file with a name that ends in
// MMUL_STUCK does not return.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t pread(int fd, void *to, size_t count, off_t offset) {
    ssize_t (*hidden)(int, void *, size_t, off_t);
    const char *end = getenv("MMUL_STUCK");
    char link[32], path[4096];
    *(void **)&hidden = dlsym(RTLD_NEXT, "pread");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = end != NULL ? readlink(link, path, sizeof path) : 0;
    const size_t tail = end != NULL ? strlen(end) : 0;
    while (length > 0 && (size_t)length >= tail &&
           strncmp(path + (size_t)length - tail, end, tail) == 0)
        pause();
    return hidden(fd, to, count, offset);
}
