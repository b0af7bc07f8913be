// SPDX-License-Identifier: MIT
// Profiles as files. Every value is checked on reading, since any program may have written the
// file. Unknown fields are ignored, so that a later version may add some. Does not measure, and
// does not decide whether a value is used.
#include "io/profile_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "model/rates.h"

enum { MOST_BYTES = 1 << 20 };

static const char schema[] = "mpimatmul-profile";

// ------------------------------------------------------------------------------------------- names

enum mmul_status mmul_profile_path(const char *host, char path[static 512],
                                   struct mmul_error *err) {
    char name[512];
    snprintf(name, sizeof name, "%s.json", host);
    return mmul_cache_path(name, "profiles", path, err);
}

char *mmul_profile_name_device(const char *opened_as, const struct mmul_device_info *info,
                               char name[static 128]) {
    if (info->probed && info->pci[0] != '\0' && strncmp(opened_as, "faulty:", 7) != 0)
        snprintf(name, 128, "pci:%s", info->pci);
    else
        mmul_text_copy(name, 128, opened_as);
    return name;
}

char *mmul_profile_date(char date[static 24]) {
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(date, 24, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return date;
}

// ----------------------------------------------------------------------------------------- entries

enum mmul_status mmul_profile_create(const char *host, struct mmul_profile **profile,
                                     struct mmul_error *err) {
    enum mmul_status status = MMUL_ALLOCATE(*profile, 1, "a profile", err);
    if (status == MMUL_OK)
        mmul_text_copy((*profile)->host, sizeof(*profile)->host, host);
    return status;
}

bool mmul_profile_same_key(const struct mmul_profile_key *a, const struct mmul_profile_key *b) {
    return strcmp(a->device, b->device) == 0 && strcmp(a->name, b->name) == 0 &&
           strcmp(a->vendor, b->vendor) == 0 && strcmp(a->driver, b->driver) == 0 &&
           strcmp(a->kernels, b->kernels) == 0 && strcmp(a->cores, b->cores) == 0 &&
           a->threads == b->threads && a->sharing == b->sharing;
}

const struct mmul_profile_device *mmul_profile_find(const struct mmul_profile *profile,
                                                    const struct mmul_profile_key *key) {
    for (int i = 0; i < profile->device_count; i++) {
        const struct mmul_profile_device *d = &profile->devices[i];
        if (mmul_profile_same_key(&d->key, key) && strcmp(d->version, MMUL_VERSION) == 0)
            return d;
    }
    return NULL;
}

// In order of importance: a driver's name includes that of the kernels.
enum { DIFFERENCES = 7 };

struct difference {
    const char *what, *stored, *now;
};

// Lists the differences and returns their number.
static int list_differences(const struct mmul_profile_device *d, const struct mmul_profile_key *key,
                            char numbers[static 4][16], struct difference found[DIFFERENCES]) {
    const int counts[4] = {d->key.threads, key->threads, d->key.sharing, key->sharing};
    for (int i = 0; i < 4; i++)
        snprintf(numbers[i], 16, "%d", counts[i]);
    const struct difference all[DIFFERENCES] = {
        {"by version", d->version, MMUL_VERSION},    {"with kernels", d->key.kernels, key->kernels},
        {"with driver", d->key.driver, key->driver}, {"as device", d->key.name, key->name},
        {"with threads", numbers[0], numbers[1]},    {"beside ranks", numbers[2], numbers[3]},
        {"on cores", d->key.cores, key->cores},
    };
    int count = 0;
    for (int i = 0; i < DIFFERENCES; i++)
        if (strcmp(all[i].stored, all[i].now) != 0)
            found[count++] = all[i];
    return count;
}

char *mmul_profile_explain_mismatch(const struct mmul_profile *profile,
                                    const struct mmul_profile_key *key, char text[static 224]) {
    int least = DIFFERENCES + 1;
    text[0] = '\0';
    for (int i = profile->device_count - 1; i >= 0; i--) { // the newest first
        const struct mmul_profile_device *d = &profile->devices[i];
        struct difference found[DIFFERENCES];
        char numbers[4][16];
        const int count = list_differences(d, key, numbers, found);
        if (strcmp(d->key.device, key->device) != 0 || count == 0 || count >= least)
            continue;
        least = count;
        snprintf(text, 224, "measured %s %.80s, now %.80s", found[0].what,
                 found[0].stored[0] ? found[0].stored : "not named",
                 found[0].now[0] ? found[0].now : "none");
    }
    return text;
}

const struct mmul_profile_link *mmul_profile_find_link(const struct mmul_profile *profile,
                                                       const char *host) {
    for (int i = 0; i < profile->link_count; i++)
        if (strcmp(profile->links[i].host, host) == 0)
            return &profile->links[i];
    return NULL;
}

const struct mmul_profile_test *mmul_profile_find_test(const struct mmul_profile *profile,
                                                       const char *opened_as,
                                                       const struct mmul_device_info *info) {
    char name[128];
    mmul_profile_name_device(opened_as, info, name);
    for (int i = 0; i < profile->test_count; i++) {
        const struct mmul_profile_test *t = &profile->tests[i];
        if (strcmp(t->device, name) == 0 && strcmp(t->name, info->name) == 0 &&
            strcmp(t->vendor, info->vendor) == 0 && strcmp(t->driver, info->driver) == 0)
            return t;
    }
    return NULL;
}

// Removes entry `at` from an array of *count entries.
static void remove_entry(void *entries, int *count, size_t bytes_each, int at) {
    char *entry = (char *)entries + (size_t)at * bytes_each;
    memmove(entry, entry + bytes_each, (size_t)(*count - at - 1) * bytes_each);
    (*count)--;
}

void mmul_profile_add(struct mmul_profile *profile, const struct mmul_profile_device *device) {
    const size_t bytes_each = sizeof *profile->devices;
    for (int i = profile->device_count - 1; i >= 0; i--)
        if (mmul_profile_same_key(&profile->devices[i].key, &device->key))
            remove_entry(profile->devices, &profile->device_count, bytes_each, i);
    if (profile->device_count == MMUL_PROFILE_ENTRIES)
        remove_entry(profile->devices, &profile->device_count, bytes_each, 0);
    profile->devices[profile->device_count++] = *device;
}

void mmul_profile_add_link(struct mmul_profile *profile, const struct mmul_profile_link *link) {
    const size_t bytes_each = sizeof *profile->links;
    for (int i = profile->link_count - 1; i >= 0; i--)
        if (strcmp(profile->links[i].host, link->host) == 0)
            remove_entry(profile->links, &profile->link_count, bytes_each, i);
    if (profile->link_count == MMUL_PROFILE_ENTRIES)
        remove_entry(profile->links, &profile->link_count, bytes_each, 0);
    profile->links[profile->link_count++] = *link;
}

void mmul_profile_remove_tests(struct mmul_profile *profile, const struct mmul_profile_test *test) {
    for (int i = profile->test_count - 1; i >= 0; i--)
        if (strcmp(profile->tests[i].device, test->device) == 0 &&
            strcmp(profile->tests[i].name, test->name) == 0 &&
            strcmp(profile->tests[i].vendor, test->vendor) == 0)
            remove_entry(profile->tests, &profile->test_count, sizeof *profile->tests, i);
}

void mmul_profile_add_test(struct mmul_profile *profile, const struct mmul_profile_test *test) {
    mmul_profile_remove_tests(profile, test);
    if (profile->test_count == MMUL_PROFILE_ENTRIES)
        remove_entry(profile->tests, &profile->test_count, sizeof *profile->tests, 0);
    profile->tests[profile->test_count++] = *test;
}

// ----------------------------------------------------------------------------------------- loading

static enum mmul_status fail_damaged(const char *path, const char *what, struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' is no profile of this program: %s", path, what);
}

static bool read_number(json_t *object, const char *name, double least, double *value) {
    json_t *number = json_object_get(object, name);
    *value = json_number_value(number);
    return json_is_number(number) && *value >= least;
}

static bool read_count(json_t *object, const char *name, int *value) {
    json_t *number = json_object_get(object, name);
    json_int_t count = json_integer_value(number);
    *value = (int)count;
    return json_is_integer(number) && count >= 1 && count <= 1 << 20;
}

// Reads the rates of sizes from the smallest on, without gaps. Missing larger sizes get the last
// rate. Unstable sizes set their bits in *unstable, shifted by `place`.
static bool read_rates(json_t *rates, double flops[static MMUL_SPEED_POINTS], int *count,
                       unsigned *unstable, int place) {
    int points = (int)json_array_size(rates);
    if (points < 1 || points > MMUL_SPEED_POINTS)
        return false;
    for (int i = 0; i < MMUL_SPEED_POINTS; i++) {
        json_t *rate = json_array_get(rates, (size_t)(i < points ? i : points - 1));
        json_int_t size = json_integer_value(json_object_get(rate, "size"));
        if ((i < points && size != MMUL_SPEED_SMALLEST << i) ||
            !read_number(rate, "flops_per_second", 1, &flops[i]))
            return false;
        if (i < points && json_is_true(json_object_get(rate, "unstable")))
            *unstable |= 1U << i << place;
    }
    *count = points;
    return true;
}

// Reads fields that files of earlier versions lack. A missing one is 0, not known.
static bool read_later_fields(json_t *object, struct mmul_speed *speed) {
    json_t *doubles = json_object_get(object, "gemm_float64");
    const struct {
        const char *name;
        double *value;
    } fields[] = {{"send_seconds_per_byte", &speed->send_seconds_per_byte},
                  {"receive_seconds_per_byte", &speed->receive_seconds_per_byte},
                  {"duplex", &speed->duplex},
                  {"pack_a_seconds", &speed->pack_a_seconds},
                  {"pack_b_seconds", &speed->pack_b_seconds},
                  {"map_bytes_per_second", &speed->map_bytes_per_second},
                  {"check_bytes_per_second", &speed->check_bytes_per_second}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (!read_number(object, fields[i].name, 0, fields[i].value))
            *fields[i].value = 0;
    return json_array_size(doubles) == 0 ||
           read_rates(doubles, speed->double_flops, &speed->double_points, &speed->unstable,
                      MMUL_UNSTABLE_DOUBLES);
}

static bool read_device(json_t *object, struct mmul_profile_device *device) {
    struct mmul_profile_key *key = &device->key;
    struct mmul_speed *speed = &device->speed;
    double memory_bytes;
    *device = (struct mmul_profile_device){.memory_bytes = 0};
    if (!mmul_json_copy_text(object, "kernels", key->kernels, sizeof key->kernels))
        key->kernels[0] = '\0'; // a file of an earlier version
    bool reads =
        mmul_json_copy_text(object, "device", key->device, sizeof key->device) &&
        mmul_json_copy_text(object, "name", key->name, sizeof key->name) &&
        mmul_json_copy_text(object, "vendor", key->vendor, sizeof key->vendor) &&
        mmul_json_copy_text(object, "driver", key->driver, sizeof key->driver) &&
        mmul_json_copy_text(object, "cores", key->cores, sizeof key->cores) &&
        read_count(object, "threads", &key->threads) &&
        read_count(object, "sharing", &key->sharing) &&
        mmul_json_copy_text(object, "version", device->version, sizeof device->version) &&
        mmul_json_copy_text(object, "date", speed->date, sizeof speed->date) &&
        read_number(object, "memory_bytes", 0, &memory_bytes) &&
        read_rates(json_object_get(object, "gemm"), speed->flops, &speed->measured_points,
                   &speed->unstable, 0) &&
        read_number(object, "upload_bytes_per_second", 0, &speed->upload_bytes_per_second) &&
        read_number(object, "download_bytes_per_second", 0, &speed->download_bytes_per_second) &&
        read_number(object, "warm_up_seconds", 0, &speed->warm_up_seconds) &&
        read_later_fields(object, speed);
    device->memory_bytes = reads && memory_bytes < 1e18 ? (int64_t)memory_bytes : 0;
    return reads;
}

static bool read_link(json_t *object, struct mmul_profile_link *link) {
    *link = (struct mmul_profile_link){.host = ""};
    return mmul_json_copy_text(object, "host", link->host, sizeof link->host) &&
           mmul_json_copy_text(object, "date", link->date, sizeof link->date) &&
           read_number(object, "bytes_per_second", 1, &link->link.bytes_per_second) &&
           read_number(object, "latency_seconds", 0, &link->link.latency_seconds);
}

static bool read_test(json_t *object, struct mmul_profile_test *test) {
    *test = (struct mmul_profile_test){.passed = json_is_true(json_object_get(object, "passed"))};
    return mmul_json_copy_text(object, "device", test->device, sizeof test->device) &&
           mmul_json_copy_text(object, "name", test->name, sizeof test->name) &&
           mmul_json_copy_text(object, "vendor", test->vendor, sizeof test->vendor) &&
           mmul_json_copy_text(object, "driver", test->driver, sizeof test->driver) &&
           mmul_json_copy_text(object, "date", test->date, sizeof test->date) &&
           json_is_boolean(json_object_get(object, "passed")) &&
           mmul_json_copy_text(object, "failure", test->failure, sizeof test->failure);
}

static enum mmul_status read_profile(json_t *root, const char *path, struct mmul_profile *profile,
                                     struct mmul_error *err) {
    char host[sizeof profile->host], name[sizeof schema];
    int version = 0;
    if (!mmul_json_copy_text(root, "schema", name, sizeof name) || strcmp(name, schema) != 0 ||
        !read_count(root, "schema_version", &version))
        return fail_damaged(path, "its schema is missing or unknown", err);
    if (version != MMUL_PROFILE_SCHEMA)
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' has schema version %d, expected %d", path,
                         version, MMUL_PROFILE_SCHEMA);
    if (!mmul_json_copy_text(root, "host", host, sizeof host) || strcmp(host, profile->host) != 0)
        return fail_damaged(path, "it belongs to another host", err);
    json_t *devices = json_object_get(root, "devices"), *links = json_object_get(root, "links");
    if (!json_is_array(devices) || !json_is_array(links))
        return fail_damaged(path, "no list of devices or links", err);
    for (size_t i = 0; i < json_array_size(devices); i++) {
        struct mmul_profile_device device;
        if (!read_device(json_array_get(devices, i), &device))
            return fail_damaged(path, "a device has a value missing or out of range", err);
        mmul_profile_add(profile, &device);
    }
    for (size_t i = 0; i < json_array_size(links); i++) {
        struct mmul_profile_link link;
        if (!read_link(json_array_get(links, i), &link))
            return fail_damaged(path, "a link has a value missing or out of range", err);
        mmul_profile_add_link(profile, &link);
    }
    json_t *tests = json_object_get(root, "tests"); // missing in files of earlier versions
    for (size_t i = 0; i < json_array_size(tests); i++) {
        struct mmul_profile_test test;
        if (!read_test(json_array_get(tests, i), &test))
            return fail_damaged(path, "a test has a value missing or out of range", err);
        mmul_profile_add_test(profile, &test);
    }
    return MMUL_OK;
}

enum mmul_status mmul_profile_load(const char *path, struct mmul_profile *profile,
                                   struct mmul_error *err) {
    struct stat found;
    json_t *root = NULL;
    if (stat(path, &found) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return MMUL_OK;
    if (stat(path, &found) == 0 && found.st_size > MOST_BYTES)
        return fail_damaged(path, "it is too large", err);
    enum mmul_status status = mmul_json_load(path, &root, err);
    if (status == MMUL_OK)
        status = read_profile(root, path, profile, err);
    if (status != MMUL_OK)
        profile->device_count = profile->link_count = profile->test_count = 0;
    json_decref(root);
    return status;
}

// ----------------------------------------------------------------------------------------- storing

static json_t *device_json(const struct mmul_profile_device *d) {
    const struct mmul_profile_key *key = &d->key;
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:s, s:i, s:i, s:s, s:s, s:I, s:o, s:o, s:f, s:f, s:f, s:f, "
        "s:f, s:f, s:f, s:f, s:f, s:f}",
        "device", key->device, "name", mmul_json_from_text(key->name), "vendor",
        mmul_json_from_text(key->vendor), "driver", mmul_json_from_text(key->driver), "kernels",
        mmul_json_from_text(key->kernels), "cores", key->cores, "threads", key->threads, "sharing",
        key->sharing, "version", d->version, "date", d->speed.date, "memory_bytes",
        (json_int_t)d->memory_bytes, "gemm",
        mmul_rates_json(d->speed.flops, d->speed.measured_points, MMUL_SPEED_SMALLEST,
                        d->speed.unstable),
        "gemm_float64",
        mmul_rates_json(d->speed.double_flops, d->speed.double_points, MMUL_SPEED_SMALLEST,
                        d->speed.unstable >> MMUL_UNSTABLE_DOUBLES),
        "upload_bytes_per_second", d->speed.upload_bytes_per_second, "download_bytes_per_second",
        d->speed.download_bytes_per_second, "warm_up_seconds", d->speed.warm_up_seconds,
        "send_seconds_per_byte", d->speed.send_seconds_per_byte, "receive_seconds_per_byte",
        d->speed.receive_seconds_per_byte, "duplex", d->speed.duplex, "pack_a_seconds",
        d->speed.pack_a_seconds, "pack_b_seconds", d->speed.pack_b_seconds, "map_bytes_per_second",
        d->speed.map_bytes_per_second, "check_bytes_per_second", d->speed.check_bytes_per_second);
}

static json_t *profile_json(const struct mmul_profile *profile) {
    json_t *devices = json_array(), *links = json_array(), *tests = json_array();
    for (int i = 0; i < profile->device_count; i++)
        json_array_append_new(devices, device_json(&profile->devices[i]));
    for (int i = 0; i < profile->link_count; i++) {
        const struct mmul_profile_link *link = &profile->links[i];
        json_array_append_new(links,
                              json_pack("{s:s, s:s, s:f, s:f}", "host", link->host, "date",
                                        link->date, "bytes_per_second", link->link.bytes_per_second,
                                        "latency_seconds", link->link.latency_seconds));
    }
    for (int i = 0; i < profile->test_count; i++) {
        const struct mmul_profile_test *test = &profile->tests[i];
        json_array_append_new(
            tests,
            json_pack("{s:s, s:o, s:o, s:o, s:s, s:b, s:o}", "device", test->device, "name",
                      mmul_json_from_text(test->name), "vendor", mmul_json_from_text(test->vendor),
                      "driver", mmul_json_from_text(test->driver), "date", test->date, "passed",
                      test->passed, "failure", mmul_json_from_text(test->failure)));
    }
    return json_pack("{s:s, s:i, s:s, s:o, s:o, s:o}", "schema", schema, "schema_version",
                     MMUL_PROFILE_SCHEMA, "host", profile->host, "devices", devices, "links", links,
                     "tests", tests);
}

enum mmul_status mmul_profile_create_folder(const char *path, struct mmul_error *err) {
    char folder[512];
    if (mmul_cache_make_folders(path, err) != MMUL_OK)
        return mmul_fail(err, err->status, "cannot store the profile '%s': %s", path, err->text);
    mmul_text_copy(folder, sizeof folder, path);
    *strrchr(folder, '/') = '\0';
    if (access(folder, W_OK | X_OK) != 0)
        return mmul_fail_errno(err, MMUL_ERR_CREATE, errno,
                               "cannot store the profile '%s': cannot write in folder '%s'", path,
                               folder);
    return MMUL_OK;
}

enum mmul_status mmul_profile_store(const struct mmul_profile *profile, const char *path,
                                    struct mmul_error *err) {
    char *text = NULL;
    json_t *root = profile_json(profile);
    enum mmul_status status =
        root != NULL ? mmul_json_format(root, &text, err)
                     : mmul_fail(err, MMUL_ERR_SYSTEM, "cannot format the profile '%s'", path);
    if (status == MMUL_OK)
        status = mmul_text_store(path, text, err);
    json_decref(root);
    mmul_free(text);
    return status;
}
