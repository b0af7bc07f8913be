// SPDX-License-Identifier: MIT
//
// Masks set by launcher and user (this program starts itself again as a "rank" below a simulated
// mpirun), cores, and binding of running threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/topology.h"

static struct mmul_topology discover(void) {
    struct mmul_topology topology;
    struct mmul_error err = {0};
    if (mmul_topology_discover(&topology, &err) != MMUL_OK)
        fail_msg("%s", err.text);
    return topology;
}

static struct mmul_cpuset one_unit(const struct mmul_cpuset *set) {
    struct mmul_cpuset one = {{0}};
    int unit = 0;
    while (!mmul_cpuset_has(set, unit))
        unit++;
    mmul_cpuset_add(&one, unit);
    return one;
}

// ----------------------------------------------------------------------------------------- cpusets

static void sets_are_printed_in_the_kernel_s_format(void **state) {
    (void)state;
    static const struct {
        int units[8]; // ends with -1
        const char *text;
    } cases[] = {
        {{-1}, ""},
        {{0, -1}, "0"},
        {{0, 1, 2, 3, 8, -1}, "0-3,8"},
        {{63, 64, 65, -1}, "63-65"},
        {{1023, -1}, "1023"},
        {{1, 1024, -1}, "1"}, // beyond the capacity of a set
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_cpuset set = {{0}};
        for (const int *unit = cases[i].units; *unit >= 0; unit++)
            mmul_cpuset_add(&set, *unit);
        char text[64];
        assert_string_equal(mmul_cpuset_format(&set, text), cases[i].text);
    }
}

static void long_sets_are_truncated(void **state) {
    (void)state;
    struct mmul_cpuset set = {{0}};
    for (int unit = 0; unit < MMUL_CORES_MAX; unit += 2)
        mmul_cpuset_add(&set, unit);
    char text[64];
    mmul_cpuset_format(&set, text);
    assert_true(strlen(text) < 64);
    assert_string_equal(text + strlen(text) - 4, ",...");
    assert_int_equal(mmul_cpuset_count(&set), MMUL_CORES_MAX / 2);
}

static void sets_compare_by_members(void **state) {
    (void)state;
    struct mmul_cpuset a = {{0}}, b = {{0}};
    mmul_cpuset_add(&a, 700);
    assert_false(mmul_cpuset_equal(&a, &b));
    mmul_cpuset_add(&b, 700);
    assert_true(mmul_cpuset_equal(&a, &b));
    assert_true(mmul_cpuset_has(&a, 700));
    assert_false(mmul_cpuset_has(&a, 701));
    assert_false(mmul_cpuset_has(&a, -1));
}

// --------------------------------------------------------------------------------------- discover

static void the_machine_has_cores_and_memory(void **state) {
    (void)state;
    struct mmul_topology topology = discover();
    assert_true(topology.host[0] != '\0');
    assert_true(topology.cpu_name[0] != '\0');
    assert_true(topology.packages >= 1 && topology.numa_nodes >= 1 && topology.cores >= 1);
    assert_true(topology.memory_bytes > 0);
    assert_true(topology.memory_available_bytes > 0);
    assert_true(topology.memory_available_bytes <= topology.memory_bytes);
    assert_true(topology.cpu_quota >= 0.0);
    // the C library's figure, shared cache or not
    const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    assert_true(topology.cache_bytes >= 1 << 14);
    assert_true(cache <= 0 || topology.cache_bytes <= cache);
    long third = 0; // KiB, of the first core
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    if (file != NULL && fscanf(file, "%ld", &third) != 1)
        third = 0;
    if (file != NULL)
        fclose(file);
    assert_true(topology.all_cache_bytes >= third * 1024);
    int leads = mmul_cpuset_count(&topology.core_first_units);
    assert_true(leads >= 1 && leads <= topology.cores);
    for (int unit = 0; unit < MMUL_CORES_MAX; unit++) {
        assert_true(!mmul_cpuset_has(&topology.core_first_units, unit) ||
                    mmul_cpuset_has(&topology.allowed, unit));
    }
}

static void the_own_mask_is_that_of_this_process(void **state) {
    (void)state;
    struct mmul_topology topology = discover();
    cpu_set_t mask;
    assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
    assert_int_equal(mmul_cpuset_count(&topology.own), CPU_COUNT(&mask));
    for (int unit = 0; unit < MMUL_CORES_MAX; unit++)
        assert_int_equal(mmul_cpuset_has(&topology.own, unit), CPU_ISSET(unit, &mask) != 0);
}

static void no_opencl_driver_is_loaded(void **state) {
    (void)state;
    discover();
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    char line[1024];
    while (fgets(line, sizeof line, maps) != NULL) {
        assert_null(strstr(line, "libpocl"));
        assert_null(strstr(line, "hwloc_opencl"));
    }
    fclose(maps);
}

// ----------------------------------------------------------------- a rank below a simulated mpirun

// A rank's observations, encoded in its exit code.
enum { SAW_WIDE_ALLOWED = 1, SAW_NARROW_OWN = 2, SAW_USER_BINDING = 4, SAW_FAILURE = 64 };

static int report_as_rank(void) {
    struct mmul_topology topology;
    struct mmul_error err;
    if (mmul_topology_discover(&topology, &err) != MMUL_OK)
        return SAW_FAILURE;
    return (mmul_cpuset_count(&topology.allowed) > 1 ? SAW_WIDE_ALLOWED : 0) |
           (mmul_cpuset_count(&topology.own) == 1 ? SAW_NARROW_OWN : 0) |
           (topology.user_binding ? SAW_USER_BINDING : 0);
}

// Starts this program again, bound to one unit if `narrow`, with `environment`; with a shell in
// between if `shell`. Returns the exit code.
static int run_rank(char *const environment[], bool shell, bool narrow) {
    struct mmul_topology topology = discover();
    struct mmul_cpuset units = narrow ? one_unit(&topology.own) : topology.own;
    char self[4096] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    char command[4200];
    snprintf(command, sizeof command, "'%s' rank; exit $?", self);
    char *const direct[] = {self, "rank", NULL};
    char *const wrapped[] = {"/bin/sh", "-c", command, NULL};
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct mmul_error err;
        if (mmul_topology_bind(&units, &err) != MMUL_OK)
            _exit(SAW_FAILURE);
        execve(shell ? wrapped[0] : direct[0], shell ? wrapped : direct, environment);
        _exit(SAW_FAILURE);
    }
    int wait_status = 0;
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_true(WIFEXITED(wait_status));
    return WEXITSTATUS(wait_status);
}

static void masks_of_launcher_and_user_are_told_apart(void **state) {
    (void)state;
    char rank[] = "OMPI_COMM_WORLD_RANK=0";
    char core[] = "OMPI_MCA_hwloc_base_binding_policy=core";
    char none[] = "OMPI_MCA_hwloc_base_binding_policy=none";
    char file[] = "OMPI_MCA_orte_rankfile=ranks";
    struct mmul_topology topology = discover();
    int as_here = SAW_WIDE_ALLOWED | (topology.user_binding ? SAW_USER_BINDING : 0);
    const struct {
        char *environment[3];
        bool shell, narrow;
        int saw;
    } cases[] = {
        {{rank, NULL}, false, true, SAW_WIDE_ALLOWED | SAW_NARROW_OWN},
        {{rank, NULL}, true, true, SAW_WIDE_ALLOWED | SAW_NARROW_OWN},
        {{rank, core, NULL}, false, true, SAW_WIDE_ALLOWED | SAW_NARROW_OWN | SAW_USER_BINDING},
        {{rank, none, NULL}, false, true, SAW_WIDE_ALLOWED | SAW_NARROW_OWN | SAW_USER_BINDING},
        {{rank, file, NULL}, false, true, SAW_WIDE_ALLOWED | SAW_NARROW_OWN | SAW_USER_BINDING},
        {{NULL}, false, true, SAW_NARROW_OWN | SAW_USER_BINDING}, // taskset without mpirun
        {{none, NULL}, false, false, as_here},                    // as MPI_Init sets it below srun
    };
    if (mmul_cpuset_count(&topology.own) < 2) {
        print_message("# one processing unit only\n");
        skip();
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(run_rank(cases[i].environment, cases[i].shell, cases[i].narrow),
                         cases[i].saw);
}

// -------------------------------------------------------------------------------------------- bind

struct sleeper {
    pthread_t thread;
    sem_t bound, started;
    cpu_set_t mask;
};

static void *sleep_until_bound(void *argument) {
    struct sleeper *sleeper = argument;
    sem_post(&sleeper->started);
    sem_wait(&sleeper->bound);
    sched_getaffinity(0, sizeof sleeper->mask, &sleeper->mask);
    return NULL;
}

static void binding_reaches_running_threads(void **state) {
    (void)state;
    struct sleeper sleeper;
    struct mmul_topology before = discover();
    struct mmul_cpuset narrow = one_unit(&before.own);
    struct mmul_error err;
    sem_init(&sleeper.bound, 0, 0);
    sem_init(&sleeper.started, 0, 0);
    assert_int_equal(pthread_create(&sleeper.thread, NULL, sleep_until_bound, &sleeper), 0);
    sem_wait(&sleeper.started);
    assert_int_equal(mmul_topology_bind(&narrow, &err), MMUL_OK);
    sem_post(&sleeper.bound);
    pthread_join(sleeper.thread, NULL);
    struct mmul_topology after = discover();
    assert_int_equal(CPU_COUNT(&sleeper.mask), 1);
    assert_true(mmul_cpuset_equal(&after.own, &narrow));
    assert_int_equal(mmul_topology_bind(&before.own, &err), MMUL_OK);
    sem_destroy(&sleeper.bound);
    sem_destroy(&sleeper.started);
}

static void binding_to_nothing_fails(void **state) {
    (void)state;
    struct mmul_cpuset empty = {{0}};
    struct mmul_error err = {0};
    assert_int_equal(mmul_topology_bind(&empty, &err), MMUL_ERR_SYSTEM);
    assert_non_null(strstr(err.text, "cannot bind thread"));
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "rank") == 0)
        return report_as_rank();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_printed_in_the_kernel_s_format),
        cmocka_unit_test(long_sets_are_truncated),
        cmocka_unit_test(sets_compare_by_members),
        cmocka_unit_test(the_machine_has_cores_and_memory),
        cmocka_unit_test(the_own_mask_is_that_of_this_process),
        cmocka_unit_test(no_opencl_driver_is_loaded),
        cmocka_unit_test(masks_of_launcher_and_user_are_told_apart),
        cmocka_unit_test(binding_reaches_running_threads),
        cmocka_unit_test(binding_to_nothing_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
