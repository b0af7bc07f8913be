// SPDX-License-Identifier: MIT
//
// Removes the file AT_EXIT when the process (not a child) runs its exit handlers. Some drivers free
// memory there that their threads still use. For tests of programs that leave a thread behind.
#include <stdlib.h>
#include <unistd.h>

static struct {
    const char *path;
    pid_t process;
} here;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("AT_EXIT");
    here.path = path != NULL ? realpath(path, NULL) : NULL;
    here.process = getpid();
    unsetenv("AT_EXIT");
}

__attribute__((destructor)) static void end(void) {
    if (here.path != NULL && here.process == getpid())
        unlink(here.path);
}
