// SPDX-License-Identifier: MIT
// Reads /proc/locks, which lists every lock with its process and inode. Its device number can
// differ from that of stat (btrfs, overlayfs), so the process's open files decide.
#include "io/lock_holder.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/file_stat.h"

static bool has_open(long long pid, const struct stat *file) {
    char path[64 + sizeof((struct dirent *)0)->d_name];
    struct stat found;
    bool has = false;
    snprintf(path, sizeof path, "/proc/%lld/fd", pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && !has && (entry = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%lld/fd/%s", pid, entry->d_name);
        has = stat(path, &found) == 0 && mmul_stat_is_same_file(&found, file);
    }
    if (folder != NULL)
        closedir(folder);
    return has;
}

// Reads the process's command line, truncated to `capacity`.
static void read_program(long long pid, char *program, size_t capacity) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/cmdline", pid);
    FILE *file = fopen(path, "re");
    size_t length = file != NULL ? fread(program, 1, capacity - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    while (length > 0 && program[length - 1] == '\0')
        length--;
    program[length] = '\0';
    for (size_t i = 0; i < length; i++)
        if (program[i] == '\0')
            program[i] = ' ';
    if (length == capacity - 1)
        memcpy(program + length - 3, "...", 3);
}

void mmul_lock_holder_find(const struct stat *file, struct mmul_lock_holder *holder) {
    char line[256];
    long long pid;
    unsigned long long inode;
    *holder = (struct mmul_lock_holder){.pid = 0};
    FILE *locks = fopen("/proc/locks", "re");
    while (locks != NULL && holder->pid == 0 && fgets(line, sizeof line, locks) != NULL)
        if (sscanf(line, "%*d: FLOCK %*s %*s %lld %*x:%*x:%llu", &pid, &inode) == 2 && pid > 0 &&
            inode == file->st_ino && has_open(pid, file))
            holder->pid = pid;
    if (locks != NULL)
        fclose(locks);
    if (holder->pid == 0)
        return;
    read_program(holder->pid, holder->program, sizeof holder->program);
    if (gethostname(holder->host, sizeof holder->host - 1) != 0)
        strcpy(holder->host, "this host");
}
