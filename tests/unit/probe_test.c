// SPDX-License-Identifier: MIT
//
// The probe with real broken drivers (tests/lib/bad_icd_*.c) and PoCL. The loader reads its
// environment once per process, so this program starts itself again for every case, with the case's
// name. It then exits with 0, or prints the failures.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/device.h"

enum { BAD_MAX = 3 };

static const double limit_seconds = 4.0;

struct scene {
    const char *name;
    const char *bad[BAD_MAX + 1];  // libraries of tests/lib, ends with NULL
    const char *ends[BAD_MAX + 1]; // expected text of the warnings, in the same order
    bool pocl;                     // PoCL is present, too
    const char *devices;           // POCL_DEVICES
    int device_count;
    bool threads;         // OpenBLAS has threads running
    bool ignore_children; // the caller ignores SIGCHLD
};

#define CRASHED "crashed (signal 11) while listing its devices"
#define HUNG    "did not answer within 4 s"
#define EXITED  "ended the process (status 3) while listing its devices"

static const struct scene scenes[] = {
    {.name = "no_driver"},
    {.name = "good_driver", .pocl = true, .devices = "pthread", .device_count = 1},
    {.name = "two_devices", .pocl = true, .devices = "pthread pthread", .device_count = 2},
    {.name = "crash",
     .bad = {"crash"},
     .ends = {CRASHED},
     .pocl = true,
     .devices = "pthread",
     .device_count = 1},
    {.name = "exit",
     .bad = {"exit"},
     .ends = {EXITED},
     .pocl = true,
     .devices = "pthread",
     .device_count = 1},
    {.name = "hang",
     .bad = {"hang"},
     .ends = {HUNG},
     .pocl = true,
     .devices = "pthread",
     .device_count = 1},
    {.name = "all_bad", .bad = {"crash", "exit", "hang"}, .ends = {CRASHED, EXITED, HUNG}},
    {.name = "running_threads",
     .bad = {"crash"},
     .ends = {CRASHED},
     .pocl = true,
     .devices = "pthread",
     .device_count = 1,
     .threads = true},
    {.name = "ignored_children",
     .pocl = true,
     .devices = "pthread",
     .device_count = 1,
     .ignore_children = true},
};

// ------------------------------------------------------------------------------- inside a scene

static int problems;

#define CHECK(condition)                                             \
    do {                                                             \
        if (!(condition)) {                                          \
            printf("# %s:%d: %s\n", __FILE__, __LINE__, #condition); \
            problems++;                                              \
        }                                                            \
    } while (0)

static void library_of(const char *bad, char path[static 512]) {
    const char *tests = getenv("BUILD_TESTS"), *build = getenv("BUILD");
    if (tests != NULL)
        snprintf(path, 512, "%s/bad_icd_%s.so", tests, bad);
    else
        snprintf(path, 512, "%s/tests/bad_icd_%s.so", build != NULL ? build : "build/release", bad);
}

static void write_line(const char *folder, const char *name, const char *line) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.icd", folder, name);
    FILE *stream = fopen(path, "w");
    CHECK(stream != NULL);
    if (stream != NULL) {
        fprintf(stream, "%s\n", line);
        fclose(stream);
    }
}

// Finds the library that a .icd file of this machine names; returns false without PoCL.
static bool find_pocl(char library[static 256]) {
    const char *vendors = getenv("OCL_ICD_VENDORS");
    const char *files[] = {vendors != NULL ? vendors : "", "/etc/OpenCL/vendors/pocl.icd"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        FILE *stream = fopen(files[i], "r");
        bool read = stream != NULL && fgets(library, 256, stream) != NULL;
        if (stream != NULL)
            fclose(stream);
        library[read ? strcspn(library, "\n") : 0] = '\0';
        if (read && strstr(library, "pocl") != NULL)
            return true;
    }
    return false;
}

static void set_scene(const struct scene *scene, const char *folder) {
    char library[512];
    for (int i = 0; scene->bad[i] != NULL; i++) {
        library_of(scene->bad[i], library);
        CHECK(access(library, R_OK) == 0);
        write_line(folder, scene->bad[i], library);
    }
    if (scene->pocl) {
        CHECK(find_pocl(library));
        write_line(folder, "pocl", library);
    }
    if (scene->devices != NULL)
        setenv("POCL_DEVICES", scene->devices, 1);
    setenv("OCL_ICD_VENDORS", folder, 1);
    unsetenv("OCL_ICD_FILENAMES");
    if (scene->ignore_children)
        signal(SIGCHLD, SIG_IGN);
}

static void check_warnings(const struct scene *scene, const char *folder,
                           const struct mmul_probe *probe) {
    const char *const *warnings = NULL;
    int count = mmul_probe_warnings(probe, &warnings), expected = 0;
    for (; scene->bad[expected] != NULL; expected++) {
        char library[512], line[2048];
        library_of(scene->bad[expected], library);
        snprintf(line, sizeof line, "OpenCL driver '%s' (%s/%s.icd) %s: not used", library, folder,
                 scene->bad[expected], scene->ends[expected]);
        CHECK(expected < count);
        if (expected < count && strcmp(warnings[expected], line) != 0) {
            printf("# expected: %s\n# found:    %s\n", line, warnings[expected]);
            problems++;
        }
    }
    CHECK(count == expected);
}

// The devices are PoCL's, not chosen by `auto`, and this process can open the first.
static void check_devices(const struct scene *scene, const struct mmul_probe *probe) {
    const struct mmul_device_info *devices = NULL;
    int count = mmul_probe_devices(probe, &devices);
    CHECK(count == scene->device_count);
    for (int i = 0; i < count; i++) {
        char id[16];
        snprintf(id, sizeof id, "0:%d", i);
        CHECK(strcmp(devices[i].id, id) == 0);
        CHECK(strcmp(devices[i].platform, "Portable Computing Language") == 0);
        CHECK(devices[i].probed && !devices[i].usable && devices[i].reason[0] != '\0');
        CHECK(devices[i].type == MMUL_DEVICE_CPU && devices[i].compute_units >= 1);
        CHECK(devices[i].memory_bytes > 0 && devices[i].max_allocation_bytes > 0);
        CHECK(devices[i].name[0] != '\0' && devices[i].vendor[0] != '\0');
    }
    struct mmul_device *device = NULL;
    struct mmul_error err = {0};
    enum mmul_status status = mmul_device_open("0:0", &device, &err);
    CHECK(status == (count > 0 ? MMUL_OK : MMUL_ERR_UNAVAILABLE));
    mmul_device_close(device);
}

// Runs a product large enough for OpenBLAS to use threads.
static void multiply_on_cpu(void) {
    enum { S = 300 };
    struct mmul_device *device = NULL;
    struct mmul_buffer *buffers[3] = {NULL, NULL, NULL};
    struct mmul_error err = {0};
    static float ones[S * S], result[S * S];
    float *const memory[3] = {ones, ones, result};
    CHECK(mmul_device_open("cpu", &device, &err) == MMUL_OK);
    for (int e = 0; e < S * S; e++)
        ones[e] = 1;
    for (int b = 0; b < 3; b++)
        CHECK(mmul_device_buffer_borrow(device, MMUL_F32, memory[b], S * S, &buffers[b], &err) ==
              MMUL_OK);
    const struct mmul_gemm args = {.m = S,
                                   .n = S,
                                   .k = S,
                                   .alpha = 1,
                                   .a = {buffers[0], 0, S},
                                   .b = {buffers[1], 0, S},
                                   .c = {buffers[2], 0, S}};
    CHECK(mmul_device_gemm(device, &args, &err) == MMUL_OK);
    CHECK(mmul_device_wait(device, &err) == MMUL_OK);
    CHECK(result[0] == S && result[S * S - 1] == S);
    for (int b = 0; b < 3; b++)
        mmul_device_buffer_destroy(device, buffers[b]);
    mmul_device_close(device);
}

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *walk) {
    (void)info;
    (void)flag;
    (void)walk;
    return remove(path);
}

static int run_scene(const struct scene *scene) {
    const char *base = getenv("TMPDIR");
    char folder[256];
    snprintf(folder, sizeof folder, "%s/probe.XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(folder) == NULL)
        return 1;
    set_scene(scene, folder);
    if (scene->threads)
        multiply_on_cpu();
    struct mmul_probe *probe = NULL;
    struct mmul_error err = {0};
    const struct mmul_probe_options options = {.limit_seconds = limit_seconds, .ask_again = true};
    double begin = mmul_clock_now();
    CHECK(mmul_probe_create(&options, &probe, &err) == MMUL_OK);
    double seconds = mmul_clock_now() - begin;
    printf("# %s: %.2f s\n", scene->name, seconds);
    CHECK(seconds < 3.0 * limit_seconds); // all together, each alone, the good ones again
    if (probe != NULL) {
        check_warnings(scene, folder, probe);
        check_devices(scene, probe);
    }
    mmul_probe_destroy(probe);
    if (scene->threads)
        multiply_on_cpu();
    CHECK(mmul_live_bytes() == 0);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0); // no child is left
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return problems > 0;
}

// ----------------------------------------------------------------------------------------- scenes

static void play_again(void **state) {
    const struct scene *scene = *state;
    char self[4096] = "", library[256];
    bool possible = MMUL_WITH_OPENCL && (!scene->pocl || find_pocl(library));
    if (!possible) {
        print_message("# opencl: built without it, or no PoCL here\n");
        skip();
    }
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl(self, self, scene->name, (char *)NULL);
        _exit(127);
    }
    int wait_status = 0;
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_true(WIFEXITED(wait_status));
    assert_int_equal(WEXITSTATUS(wait_status), 0);
}

int main(int argc, char **argv) {
    enum { COUNT = sizeof scenes / sizeof scenes[0] };
    struct CMUnitTest tests[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        if (argc == 2 && strcmp(argv[1], scenes[i].name) == 0)
            return run_scene(&scenes[i]);
        tests[i] = (struct CMUnitTest){
            .name = scenes[i].name, .test_func = play_again, .initial_state = (void *)&scenes[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
