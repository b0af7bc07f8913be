// SPDX-License-Identifier: MIT
//
// Control group limits, read from folders modelled on real systems.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/cgroup.h"

enum { FILES_MAX = 10 };

struct file {
    const char *path, *text;
};

struct machine {
    const char *what;
    struct file files[FILES_MAX];
    struct mmul_cgroup_limits limits;
};

#define GIB (INT64_C(1) << 30)
#define V2_MOUNT \
    "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNTS                                                                 \
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" \
    "33 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"           \
    "34 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"

static const struct machine machines[] = {
    {"no control groups", {{"proc/self/cgroup", ""}}, {0.0, 0.0, INT64_MAX, INT64_MAX}},
    {"version 2 without limits",
     {{"proc/self/mountinfo", V2_MOUNT},
      {"proc/self/cgroup", "0::/user.slice\n"},
      {"sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"},
      {"sys/fs/cgroup/user.slice/memory.max", "max\n"}},
     {0.0, 0.0, INT64_MAX, INT64_MAX}},
    {"version 2, the limits at different levels, page cache not counted",
     {{"proc/self/mountinfo", V2_MOUNT},
      {"proc/self/cgroup", "0::/slurm/job/step\n"},
      {"sys/fs/cgroup/slurm/job/step/cpu.max", "400000 100000\n"},
      {"sys/fs/cgroup/slurm/job/cpu.max", "250000 100000\n"},
      {"sys/fs/cgroup/slurm/memory.max", "4294967296\n"},
      {"sys/fs/cgroup/slurm/memory.current", "3221225472\n"},
      {"sys/fs/cgroup/slurm/memory.stat", "anon 5\nfile 7\ninactive_file 2147483648\n"}},
     {2.5, 100e-3, 4 * GIB, 3 * GIB}},
    {"version 2 in a container with its own name space",
     {{"proc/self/mountinfo", V2_MOUNT},
      {"proc/self/cgroup", "0::/\n"},
      {"sys/fs/cgroup/cpu.max", "150000 100000\n"},
      {"sys/fs/cgroup/memory.max", "1073741824\n"},
      {"sys/fs/cgroup/memory.current", "2000000000\n"}},
     {1.5, 100e-3, GIB, 0}},
    {"version 1",
     {{"proc/self/mountinfo", V1_MOUNTS},
      {"proc/self/cgroup", "4:memory:/a/b\n2:cpuset:/other\n1:cpu,cpuacct:/a\n"},
      {"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "150000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "50000\n"},
      {"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"},
      {"sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2147483648\n"},
      {"sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1073741824\n"}},
     {3.0, 50e-3, 2 * GIB, GIB}},
    {"version 1 in a container: the mount shows the group itself",
     {{"proc/self/mountinfo",
       "34 31 0:32 /docker/f00 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"},
      {"proc/self/cgroup", "4:memory:/docker/f00\n"},
      {"sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"}},
     {0.0, 0.0, GIB, GIB}},
    {"version 1, quota switched off",
     {{"proc/self/mountinfo", V1_MOUNTS},
      {"proc/self/cgroup", "1:cpu,cpuacct:/\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
     {0.0, 0.0, INT64_MAX, INT64_MAX}},
};

static void write_file(const char *root, const struct file *file) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, file->path);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fputs(file->text, stream);
    fclose(stream);
}

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *walk) {
    (void)info;
    (void)flag;
    (void)walk;
    return remove(path);
}

static void the_least_limit_on_the_way_up_counts(void **state) {
    (void)state;
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        char root[256];
        snprintf(root, sizeof root, "%s/cgroup.XXXXXX", folder);
        assert_non_null(mkdtemp(root));
        for (int f = 0; f < FILES_MAX && machines[i].files[f].path != NULL; f++)
            write_file(root, &machines[i].files[f]);
        struct mmul_cgroup_limits limits;
        mmul_cgroup_read(root, &limits);
        nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
        print_message("# %s\n", machines[i].what);
        assert_true(limits.cpu_quota == machines[i].limits.cpu_quota);
        assert_float_equal(limits.cpu_period_seconds, machines[i].limits.cpu_period_seconds, 1e-9);
        assert_int_equal(limits.memory_bytes, machines[i].limits.memory_bytes);
        assert_int_equal(limits.memory_available_bytes, machines[i].limits.memory_available_bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_least_limit_on_the_way_up_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
