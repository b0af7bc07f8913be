// SPDX-License-Identifier: MIT
// Stored profiles: an entry is read back unchanged, for exactly the device it was stored for. A
// file that is damaged, foreign or of a later version is refused by name. Readers never see a
// half-written file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/memory.h"
#include "folder.h"
#include "io/profile_file.h"

static struct mmul_profile_device make_device(const char *name, int threads, double rate) {
    struct mmul_profile_device d = {.key = {.threads = threads, .sharing = 2},
                                    .memory_bytes = (int64_t)8 << 30,
                                    .version = MMUL_VERSION};
    strcpy(d.key.device, "cpu");
    strcpy(d.key.name, name);
    strcpy(d.key.vendor, "vendor");
    strcpy(d.key.driver, "driver 1.0");
    strcpy(d.key.kernels, "Haswell OPENBLAS_L2_SIZE=512");
    strcpy(d.key.cores, "0-3");
    strcpy(d.speed.date, "2026-01-31T12:00:00Z");
    d.speed.measured_points = 3;
    for (int i = 0; i < MMUL_SPEED_POINTS; i++)
        d.speed.flops[i] = rate * (i < 3 ? i + 1 : 3);
    d.speed.double_points = 2;
    for (int i = 0; i < MMUL_SPEED_POINTS; i++)
        d.speed.double_flops[i] = rate * (i < 2 ? i + 1 : 2) / 2;
    d.speed.unstable = 1U << 2 | 1U << 1 << MMUL_UNSTABLE_DOUBLES;
    d.speed.upload_bytes_per_second = 12.5e9;
    d.speed.download_bytes_per_second = 6.25e9;
    d.speed.warm_up_seconds = 0.75;
    d.speed.send_seconds_per_byte = 1.5e-9;
    d.speed.receive_seconds_per_byte = 0.5e-9;
    d.speed.duplex = 0.625;
    d.speed.pack_a_seconds = 1.25e-9;
    d.speed.pack_b_seconds = 0.25e-9;
    d.speed.map_bytes_per_second = 40e9;
    d.speed.check_bytes_per_second = 20e9;
    return d;
}

static struct mmul_profile_link make_link(const char *host, double rate) {
    struct mmul_profile_link l = {.link = {.bytes_per_second = rate, .latency_seconds = 25e-6}};
    strcpy(l.host, host);
    strcpy(l.date, "2026-01-31T12:00:01Z");
    return l;
}

static struct mmul_profile *make_profile(const char *host) {
    struct mmul_profile *profile = NULL;
    struct mmul_error err;
    assert_int_equal(mmul_profile_create(host, &profile, &err), MMUL_OK);
    return profile;
}

static void a_stored_profile_is_read_back_unchanged(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err = {.text = ""};
    folder_create(&folder);
    const char *path = folder_path(&folder, "node1.json");
    struct mmul_profile *stored = make_profile("node1"), *loaded = make_profile("node1");
    const struct mmul_profile_device device = make_device("A \"quoted\" CPU", 4, 1e11);
    const struct mmul_profile_link link = make_link("node2", 1.25e8);
    mmul_profile_add(stored, &device);
    mmul_profile_add_link(stored, &link);
    assert_int_equal(mmul_profile_store(stored, path, &err), MMUL_OK);
    assert_int_equal(folder_count(&folder), 1);
    assert_int_equal(mmul_profile_load(path, loaded, &err), MMUL_OK);
    assert_int_equal(loaded->device_count, 1);
    const struct mmul_profile_device *d = mmul_profile_find(loaded, &device.key);
    assert_non_null(d);
    assert_int_equal(d->memory_bytes, device.memory_bytes);
    assert_int_equal(d->speed.measured_points, 3);
    for (int i = 0; i < MMUL_SPEED_POINTS; i++)
        assert_true(d->speed.flops[i] == device.speed.flops[i] &&
                    d->speed.double_flops[i] == device.speed.double_flops[i]);
    assert_int_equal(d->speed.double_points, 2);
    assert_int_equal(d->speed.unstable, device.speed.unstable);
    assert_true(d->speed.upload_bytes_per_second == 12.5e9);
    assert_true(d->speed.download_bytes_per_second == 6.25e9);
    assert_true(d->speed.warm_up_seconds == 0.75);
    assert_true(d->speed.send_seconds_per_byte == 1.5e-9);
    assert_true(d->speed.receive_seconds_per_byte == 0.5e-9);
    assert_true(d->speed.duplex == 0.625);
    assert_true(d->speed.pack_a_seconds == 1.25e-9 && d->speed.pack_b_seconds == 0.25e-9);
    assert_true(d->speed.map_bytes_per_second == 40e9 && d->speed.check_bytes_per_second == 20e9);
    assert_string_equal(d->speed.date, "2026-01-31T12:00:00Z");
    const struct mmul_profile_link *l = mmul_profile_find_link(loaded, "node2");
    assert_non_null(l);
    assert_true(l->link.bytes_per_second == 1.25e8 && l->link.latency_seconds == 25e-6);
    assert_string_equal(l->date, "2026-01-31T12:00:01Z");
    assert_null(mmul_profile_find_link(loaded, "node3"));
    mmul_free(loaded);
    mmul_free(stored);
    folder_destroy(&folder);
}

static struct mmul_profile_test make_test(const char *device, const char *driver, bool passed) {
    struct mmul_profile_test t = {.passed = passed};
    strcpy(t.device, device);
    strcpy(t.name, "A \"quoted\" card");
    strcpy(t.vendor, "vendor");
    strcpy(t.driver, driver);
    strcpy(t.date, "2026-01-31T12:00:02Z");
    strcpy(t.failure, passed ? "" : "self-test: wrong");
    return t;
}

// A device with the id `id`.
static struct mmul_device_info make_info(const char *id, const char *pci, const char *driver) {
    struct mmul_device_info info = {.probed = true};
    strcpy(info.id, id);
    strcpy(info.pci, pci);
    strcpy(info.name, "A \"quoted\" card");
    strcpy(info.vendor, "vendor");
    strcpy(info.driver, driver);
    return info;
}

static void a_test_counts_for_its_device_and_driver(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err = {.text = ""};
    folder_create(&folder);
    const char *path = folder_path(&folder, "node1.json");
    struct mmul_profile *stored = make_profile("node1"), *loaded = make_profile("node1");
    const struct mmul_profile_test tests[] = {make_test("pci:0000:65:00.0", "1.0", false),
                                              make_test("1:0", "1.0", false),
                                              make_test("1:0", "1.1", true)};
    for (int i = 0; i < 3; i++)
        mmul_profile_add_test(stored, &tests[i]);
    assert_int_equal(mmul_profile_store(stored, path, &err), MMUL_OK);
    assert_int_equal(mmul_profile_load(path, loaded, &err), MMUL_OK);
    assert_int_equal(loaded->test_count, 2); // one driver per device
    const struct {
        const char *id, *pci, *driver;
        int test; // -1: none
    } cases[] = {
        {"0:0", "0000:65:00.0", "1.0", 0},
        {"3:1", "0000:65:00.0", "1.0", 0},
        {"0:0", "0000:65:00.0", "1.1", -1},
        {"0:0", "0000:66:00.0", "1.0", -1},
        {"1:0", "", "1.1", 2},
        {"1:0", "", "1.0", -1},
        {"0:0", "", "1.0", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct mmul_device_info info = make_info(cases[i].id, cases[i].pci, cases[i].driver);
        const struct mmul_profile_test *t = mmul_profile_find_test(loaded, info.id, &info);
        assert_int_equal(t != NULL, cases[i].test >= 0);
        if (t != NULL)
            assert_memory_equal(t, &tests[cases[i].test], sizeof *t);
        // An artificially faulty device has no test result of the real device.
        assert_null(mmul_profile_find_test(loaded, "faulty:corrupt=1:1:0", &info));
    }
    mmul_profile_remove_tests(loaded, &tests[2]);
    assert_int_equal(loaded->test_count, 1);
    mmul_free(loaded);
    mmul_free(stored);
    folder_destroy(&folder);
}

static void a_speed_counts_for_its_device_only(void **state) {
    (void)state;
    struct mmul_profile *profile = make_profile("node1");
    struct mmul_profile_device device = make_device("CPU", 4, 1e11);
    mmul_profile_add(profile, &device);
    const struct mmul_profile_key same = device.key;
    struct mmul_profile_key others[9];
    for (int i = 0; i < 9; i++)
        others[i] = same;
    others[0].threads = 3;
    others[1].sharing = 1;
    strcpy(others[2].driver, "driver 1.1");
    strcpy(others[3].cores, "4-7");
    strcpy(others[4].name, "other CPU");
    strcpy(others[5].device, "pci:0000:65:00.0");
    strcpy(others[6].vendor, "other vendor");
    strcpy(others[7].kernels, "Haswell");
    strcpy(others[8].kernels, "");
    assert_non_null(mmul_profile_find(profile, &same));
    for (int i = 0; i < 9; i++)
        assert_null(mmul_profile_find(profile, &others[i]));
    strcpy(device.version, "0.0.0");
    mmul_profile_add(profile, &device);
    assert_int_equal(profile->device_count, 1);
    assert_null(mmul_profile_find(profile, &same));
    mmul_free(profile);
}

static void an_unused_speed_has_a_reason(void **state) {
    (void)state;
    struct mmul_profile *profile = make_profile("node1");
    struct mmul_profile_device device = make_device("CPU", 4, 1e11), old = device;
    const struct mmul_profile_key same = device.key;
    struct mmul_profile_key key = same;
    char text[224];
    assert_string_equal(mmul_profile_explain_mismatch(profile, &key, text), "");
    strcpy(old.version, "0.0.9");
    mmul_profile_add(profile, &old);
    assert_string_equal(mmul_profile_explain_mismatch(profile, &key, text),
                        "measured by version 0.0.9, now " MMUL_VERSION);
    mmul_profile_add(profile, &device);
    strcpy(key.kernels, "SkylakeX");
    // the driver's text contains the kernels: one reason, not two
    strcpy(key.driver, "driver 1.0 (SkylakeX)");
    assert_string_equal(mmul_profile_explain_mismatch(profile, &key, text),
                        "measured with kernels Haswell OPENBLAS_L2_SIZE=512, now SkylakeX");
    // The most similar of several entries gives the reason.
    device.key.threads = 2;
    strcpy(device.key.kernels, ""); // written by an earlier version
    mmul_profile_add(profile, &device);
    key = device.key;
    strcpy(key.kernels, "Haswell");
    assert_string_equal(mmul_profile_explain_mismatch(profile, &key, text),
                        "measured with kernels not named, now Haswell");
    key = same;
    key.threads = 3;
    assert_string_equal(mmul_profile_explain_mismatch(profile, &key, text),
                        "measured with threads 4, now 3");
    strcpy(key.device, "0:0");
    assert_string_equal(mmul_profile_explain_mismatch(profile, &key, text), "");
    mmul_free(profile);
}

static void the_newest_entry_of_a_key_counts(void **state) {
    (void)state;
    struct mmul_profile *profile = make_profile("node1");
    for (int threads = 1; threads <= MMUL_PROFILE_ENTRIES; threads++) {
        struct mmul_profile_device device = make_device("CPU", threads, 1e9 * threads);
        mmul_profile_add(profile, &device);
    }
    struct mmul_profile_device again = make_device("CPU", 1, 7e9);
    mmul_profile_add(profile, &again);
    assert_int_equal(profile->device_count, MMUL_PROFILE_ENTRIES);
    assert_true(mmul_profile_find(profile, &again.key)->speed.flops[0] == 7e9);
    // One entry too many: the oldest is dropped, now the one of 2 threads.
    struct mmul_profile_device more = make_device("CPU", 1000, 1e9);
    mmul_profile_add(profile, &more);
    again.key.threads = 2;
    assert_null(mmul_profile_find(profile, &again.key));
    again.key.threads = 3;
    assert_non_null(mmul_profile_find(profile, &again.key));
    for (int i = 0; i < MMUL_PROFILE_ENTRIES + 2; i++) {
        char host[32];
        snprintf(host, sizeof host, "node%d", i / 2);
        struct mmul_profile_link link = make_link(host, i + 1);
        mmul_profile_add_link(profile, &link);
    }
    assert_int_equal(profile->link_count, MMUL_PROFILE_ENTRIES / 2 + 1);
    assert_true(mmul_profile_find_link(profile, "node0")->link.bytes_per_second == 2);
    mmul_free(profile);
}

#define HEAD "{\"schema\": \"mpimatmul-profile\", \"schema_version\": 1, \"host\": \"node1\", "
#define DEVICE(THREADS, GEMM)                                                             \
    "{\"device\": \"cpu\", \"name\": \"n\", \"vendor\": \"v\", \"driver\": \"d\", "       \
    "\"cores\": \"\", \"threads\": " THREADS ", \"sharing\": 1, \"version\": \"0.1.0\", " \
    "\"date\": \"x\", \"memory_bytes\": 1, \"gemm\": " GEMM ", "                          \
    "\"upload_bytes_per_second\": 0, \"download_bytes_per_second\": 0, "                  \
    "\"warm_up_seconds\": 0}"
#define RATE(SIZE, FLOPS) "{\"size\": " SIZE ", \"flops_per_second\": " FLOPS "}"
#define LINK(RATE_TEXT)                                                   \
    "{\"host\": \"h\", \"date\": \"x\", \"bytes_per_second\": " RATE_TEXT \
    ", \"latency_seconds\": 0}"
#define WITH(DEVICES, LINKS) HEAD "\"devices\": [" DEVICES "], \"links\": [" LINKS "]}"

static void damaged_files_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *reason; // reason NULL: valid
    } rows[] = {
        {WITH(DEVICE("1", "[" RATE("256", "2.5") "]"), LINK("1")), NULL},
        {"", "is not valid JSON"},
        {"{\"schema\": \"mpimatmul-prof", "is not valid JSON"},
        {"[]", "its schema is missing or unknown"},
        {"{\"schema\": \"mpimatmul-report\", \"schema_version\": 1}",
         "its schema is missing or unknown"},
        {"{\"schema\": \"mpimatmul-profile\", \"schema_version\": 2}", "schema version 2"},
        {"{\"schema\": \"mpimatmul-profile\", \"schema_version\": \"1\"}",
         "its schema is missing or unknown"},
        {"{\"schema\": \"mpimatmul-profile\", \"schema_version\": 1, \"host\": \"node2\", "
         "\"devices\": [], \"links\": []}",
         "another host"},
        {HEAD "\"devices\": []}", "no list"},
        {HEAD "\"devices\": {}, \"links\": []}", "no list"},
        {WITH("1", ""), "a device has"},
        {WITH(DEVICE("0", "[" RATE("256", "2.5") "]"), ""), "a device has"},
        {WITH(DEVICE("1.5", "[" RATE("256", "2.5") "]"), ""), "a device has"},
        {WITH(DEVICE("4294967297", "[" RATE("256", "2.5") "]"), ""), "a device has"},
        {WITH(DEVICE("1", "[]"), ""), "a device has"},
        {WITH(DEVICE("1", "[" RATE("512", "2.5") "]"), ""), "a device has"},
        {WITH(DEVICE("1", "[" RATE("256", "0") "]"), ""), "a device has"},
        {WITH(DEVICE("1", "[" RATE("256", "-2.5") "]"), ""), "a device has"},
        {WITH(DEVICE("1", "[" RATE("256", "\"2\"") "]"), ""), "a device has"},
        {WITH(DEVICE("1", "[" RATE("256", "1e999") "]"), ""), "is not valid JSON"},
        {WITH(DEVICE("1", "[" RATE("256", "2.5") ", " RATE("256", "2.5") "]"), ""), "a device has"},
        {WITH("", LINK("0")), "a link has"},
        {WITH("", "{}"), "a link has"},
    };
    struct folder folder;
    folder_create(&folder);
    const char *path = folder_path(&folder, "node1.json");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mmul_error err = {.text = ""};
        struct mmul_profile *profile = make_profile("node1");
        file_store(path, rows[i].text, strlen(rows[i].text));
        enum mmul_status status = mmul_profile_load(path, profile, &err);
        if (rows[i].reason == NULL) {
            assert_int_equal(status, MMUL_OK);
            assert_int_equal(profile->device_count, 1);
            assert_true(profile->devices[0].speed.flops[MMUL_SPEED_POINTS - 1] == 2.5);
        } else {
            if (strstr(err.text, rows[i].reason) == NULL)
                fail_msg("row %zu: '%s'", i, err.text);
            assert_failure(status, MMUL_ERR_DATA, err, path);
            assert_int_equal(profile->device_count + profile->link_count, 0);
        }
        mmul_free(profile);
    }
    folder_destroy(&folder);
}

static void no_file_is_an_empty_profile(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err = {.text = ""};
    folder_create(&folder);
    struct mmul_profile *profile = make_profile("node1");
    assert_int_equal(mmul_profile_load(folder_path(&folder, "none"), profile, &err), MMUL_OK);
    assert_int_equal(mmul_profile_load(folder_path(&folder, "no/ne"), profile, &err), MMUL_OK);
    file_store(folder_path(&folder, "file"), "", 0);
    assert_int_equal(mmul_profile_load(folder_path(&folder, "file/x"), profile, &err), MMUL_OK);
    assert_failure(mmul_profile_load(folder.path, profile, &err), MMUL_ERR_NO_INPUT, err,
                   folder.path);
    // A file of this size is no profile: it is not even read.
    assert_int_equal(truncate(folder_path(&folder, "file"), (off_t)1 << 32), 0);
    assert_failure(mmul_profile_load(folder_path(&folder, "file"), profile, &err), MMUL_ERR_DATA,
                   err, "too large");
    mmul_free(profile);
    folder_destroy(&folder);
}

static void the_path_follows_host_and_environment(void **state) {
    (void)state;
    struct mmul_error err = {.text = ""};
    char path[512], name[600], *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    cache = cache != NULL ? strdup(cache) : NULL;
    home = home != NULL ? strdup(home) : NULL;
    setenv("XDG_CACHE_HOME", "/c", 1);
    setenv("HOME", "/h", 1);
    assert_int_equal(mmul_profile_path("node1", path, &err), MMUL_OK);
    assert_string_equal(path, "/c/mpimatmul/node1.json");
    assert_int_equal(mmul_profile_path("../up", path, &err), MMUL_OK);
    assert_string_equal(path, "/c/mpimatmul/.._up.json");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_int_equal(mmul_profile_path("node1", path, &err), MMUL_OK);
    assert_string_equal(path, "/h/.cache/mpimatmul/node1.json");
    memset(name, 'x', sizeof name - 1);
    name[0] = '/';
    name[sizeof name - 1] = '\0';
    setenv("XDG_CACHE_HOME", name, 1);
    assert_failure(mmul_profile_path("node1", path, &err), MMUL_ERR_CREATE, err, "too long");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_failure(mmul_profile_path("node1", path, &err), MMUL_ERR_CREATE, err,
                   "neither XDG_CACHE_HOME nor HOME is set");
    if (cache != NULL)
        setenv("XDG_CACHE_HOME", cache, 1);
    if (home != NULL)
        setenv("HOME", home, 1);
    free(cache);
    free(home);
}

static void the_folder_is_private_to_the_user(void **state) {
    (void)state;
    struct folder folder;
    struct stat found;
    struct mmul_error err = {.text = ""};
    folder_create(&folder);
    mode_t mask = umask(0);
    assert_int_equal(mmul_profile_create_folder(folder_path(&folder, "new/node1.json"), &err),
                     MMUL_OK);
    umask(mask);
    assert_int_equal(stat(folder_path(&folder, "new"), &found), 0);
    assert_int_equal(found.st_mode & 07777, 0700);
    assert_int_equal(mmul_profile_create_folder(folder_path(&folder, "new/node1.json"), &err),
                     MMUL_OK);
    file_store(folder_path(&folder, "file"), "", 0);
    assert_failure(mmul_profile_create_folder(folder_path(&folder, "file/node1.json"), &err),
                   MMUL_ERR_CREATE, err, folder_path(&folder, "file"));
    assert_failure(mmul_profile_create_folder("/proc/none/node1.json", &err), MMUL_ERR_CREATE, err,
                   "/proc/none");
    folder_destroy(&folder);
}

static void a_failed_store_leaves_the_old_file(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err = {.text = ""};
    struct rlimit old, least = {.rlim_cur = 100};
    folder_create(&folder);
    const char *path = folder_path(&folder, "node1.json");
    struct mmul_profile *profile = make_profile("node1");
    struct mmul_profile_device device = make_device("CPU", 4, 1e11);
    file_store(path, "old", 3);
    mmul_profile_add(profile, &device);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    least.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &least), 0);
    enum mmul_status status = mmul_profile_store(profile, path, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_failure(status, MMUL_ERR_SYSTEM, err, "the limit on file size (ulimit -f) is 100 B");
    size_t count;
    unsigned char *bytes = file_load(path, &count);
    assert_string_equal((char *)bytes, "old");
    free(bytes);
    assert_int_equal(folder_count(&folder), 1); // and no temporary file
    // The target cannot be replaced by rename.
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_failure(mmul_profile_store(profile, path, &err), MMUL_ERR_CREATE, err, path);
    assert_int_equal(folder_count(&folder), 1);
    mmul_free(profile);
    folder_destroy(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stored_profile_is_read_back_unchanged),
        cmocka_unit_test(a_test_counts_for_its_device_and_driver),
        cmocka_unit_test(a_speed_counts_for_its_device_only),
        cmocka_unit_test(an_unused_speed_has_a_reason),
        cmocka_unit_test(the_newest_entry_of_a_key_counts),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(no_file_is_an_empty_profile),
        cmocka_unit_test(the_path_follows_host_and_environment),
        cmocka_unit_test(the_folder_is_private_to_the_user),
        cmocka_unit_test(a_failed_store_leaves_the_old_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
