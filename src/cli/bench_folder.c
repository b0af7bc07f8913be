// SPDX-License-Identifier: MIT
// The temporary folder of bench. A killed run must not leave gigabytes in /dev/shm. So a small
// keeper process waits for the end of this process and then removes the folder, also after a normal
// end.
#include "cli/bench_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/failure.h"

// The folder contains only plain files.
static void remove_folder(const char *path) {
    DIR *folder = opendir(path);
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        unlinkat(dirfd(folder), entry->d_name, 0); // fails for "." and "..", which are folders
    if (folder != NULL)
        closedir(folder);
    rmdir(path);
}

// Waits for the parent's end in a session of its own, so that signals to a job's process group
// spare the keeper. Closes all inherited descriptors, so that readers of the parent's output and
// sockets see it end.
static void keep_and_exit(const char *path, int fd) {
    char byte;
    setsid();
    signal(SIGHUP, SIG_IGN);
    dup2(fd, 0);
    close_range(1, ~0U, 0);
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        ;
    remove_folder(path);
    _exit(0);
}

static enum mmul_status start_keeper(struct bench_folder *folder, struct mmul_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        keep_and_exit(folder->path, ends[0]);
    }
    close(ends[0]);
    if (pid > 0) {
        folder->keeper_fd = ends[1];
        folder->keeper_pid = pid;
        return MMUL_OK;
    }
    mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot start a process: %s", strerror(errno));
    close(ends[1]);
    return err->status;
}

enum mmul_status mmul_bench_folder_create(double bytes, struct bench_folder *folder,
                                          struct mmul_error *err) {
    const char *const parents[] = {"/dev/shm", getenv("TMPDIR"), "/tmp"};
    const char *parent = NULL;
    struct statvfs found;
    char text[32];
    for (size_t i = 0; i < sizeof parents / sizeof *parents && parent == NULL; i++)
        if (parents[i] != NULL && access(parents[i], W_OK | X_OK) == 0 &&
            statvfs(parents[i], &found) == 0 &&
            (double)found.f_bavail * (double)found.f_frsize >= bytes)
            parent = parents[i];
    if (parent == NULL)
        return mmul_cli_fail(err, MMUL_ERR_IO,
                             "no room for %s of matrices in /dev/shm, $TMPDIR or /tmp",
                             mmul_bytes_format(bytes < 9e18 ? (int64_t)bytes : INT64_MAX, text));
    snprintf(folder->path, sizeof folder->path, "%s/mpimatmul-bench.XXXXXX", parent);
    if (mkdtemp(folder->path) == NULL)
        return mmul_cli_fail(err, MMUL_ERR_CREATE, "cannot make a folder in '%s': %s", parent,
                             strerror(errno));
    enum mmul_status status = start_keeper(folder, err);
    if (status != MMUL_OK)
        remove_folder(folder->path);
    return status;
}

void mmul_bench_folder_destroy(struct bench_folder *folder) {
    if (folder->keeper_pid <= 0)
        return;
    close(folder->keeper_fd);
    while (waitpid((pid_t)folder->keeper_pid, NULL, 0) < 0 && errno == EINTR)
        ;
    folder->keeper_pid = 0;
}
