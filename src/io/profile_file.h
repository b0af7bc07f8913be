// SPDX-License-Identifier: MIT
// Measured speeds that `calibrate` and `devices --test` store and later runs load. One JSON file
// per host, in $XDG_CACHE_HOME/mpimatmul (else ~/.cache/mpimatmul), which hosts may share. A speed
// is valid for exactly the device, driver, kernels, program version, threads, cores and sharing of
// its measurement. A link is valid for two hosts by name, over any network that Open MPI chose. A
// test is valid for device and driver. Entries do not expire: each has a date.
#pragma once

#include "model/cluster.h"

enum { MMUL_PROFILE_SCHEMA = 1, MMUL_PROFILE_ENTRIES = 256 };

// Conditions of a speed's measurement.
struct mmul_profile_key {
    char device[128]; // as --device names it: by PCI address if known
    char name[128], vendor[64], driver[64];
    // Kernels of a CPU: mmul_kernels_key. "" in files of earlier versions matches no CPU.
    char kernels[128];
    char cores[64]; // cores of a CPU device that is bound; else ""
    int threads;
    int sharing; // ranks of the node on the same device, this one included
};

struct mmul_profile_device {
    struct mmul_profile_key key;
    char version[16]; // MMUL_VERSION at that time
    int64_t memory_bytes;
    struct mmul_speed speed; // with its date; origin is not stored
};

struct mmul_profile_link {
    char host[64]; // the other one
    char date[24];
    struct mmul_link link;
};

// Result of a device's test. It no longer applies once the driver has changed.
struct mmul_profile_test {
    char device[128]; // as in mmul_profile_key
    char name[128], vendor[64], driver[64];
    char date[24];
    bool passed;
    char failure[256]; // "" if it passed
};

// All entries of a host. Each array starts with the oldest entry, which is dropped when it is full.
struct mmul_profile {
    char host[64];
    int device_count, link_count, test_count;
    struct mmul_profile_device devices[MMUL_PROFILE_ENTRIES];
    struct mmul_profile_link links[MMUL_PROFILE_ENTRIES];
    struct mmul_profile_test tests[MMUL_PROFILE_ENTRIES];
};

// Makes the name that a profile uses for a device opened as `opened_as`. A GPU keeps its PCI
// address when drivers change, but not its number. Returns `name`.
char *mmul_profile_name_device(const char *opened_as, const struct mmul_device_info *info,
                               char name[static 128]);

// Makes the file's path for `host`. Fails with MMUL_ERR_CREATE: no home, or the path is too long.
enum mmul_status mmul_profile_path(const char *host, char path[static 512], struct mmul_error *err);

// Formats the present time as profiles write it. Returns `date`.
char *mmul_profile_date(char date[static 24]);

// Creates an empty profile, released with mmul_free.
enum mmul_status mmul_profile_create(const char *host, struct mmul_profile **profile,
                                     struct mmul_error *err);

// Reads the file into an empty profile. A missing file leaves it empty. Fails with
// MMUL_ERR_NO_INPUT (unreadable) or MMUL_ERR_DATA (damaged, of another host or of a newer program).
// The text names the file, and the profile stays empty.
enum mmul_status mmul_profile_load(const char *path, struct mmul_profile *profile,
                                   struct mmul_error *err);

bool mmul_profile_same_key(const struct mmul_profile_key *a, const struct mmul_profile_key *b);

// Returns the speed that was measured with exactly this key and this version, borrowed. NULL: none.
const struct mmul_profile_device *mmul_profile_find(const struct mmul_profile *profile,
                                                    const struct mmul_profile_key *key);

// mmul_profile_explain_mismatch says why mmul_profile_find found none. It compares the most similar
// speed stored for this device, as "measured with kernels Haswell, now SkylakeX"; "" if none is
// stored. Returns `text`. mmul_profile_find_link returns the link to `host`, borrowed. NULL: none.
char *mmul_profile_explain_mismatch(const struct mmul_profile *profile,
                                    const struct mmul_profile_key *key, char text[static 224]);
const struct mmul_profile_link *mmul_profile_find_link(const struct mmul_profile *profile,
                                                       const char *host);

// Returns the test of this device with this driver, borrowed. NULL: none.
const struct mmul_profile_test *mmul_profile_find_test(const struct mmul_profile *profile,
                                                       const char *opened_as,
                                                       const struct mmul_device_info *info);

// Add an entry. It replaces entries with the same key, the same host, or (tests) of the same
// device.
void mmul_profile_add(struct mmul_profile *profile, const struct mmul_profile_device *device);
void mmul_profile_add_link(struct mmul_profile *profile, const struct mmul_profile_link *link);
void mmul_profile_add_test(struct mmul_profile *profile, const struct mmul_profile_test *test);

// Removes the tests of the device that `test` names.
void mmul_profile_remove_tests(struct mmul_profile *profile, const struct mmul_profile_test *test);

// Creates the file's folder, with mode 0700, and checks that it is writable. Fails with
// MMUL_ERR_CREATE.
enum mmul_status mmul_profile_create_folder(const char *path, struct mmul_error *err);

// Writes the file under a temporary name and renames it, so readers see the old file or the new
// one. Fails with MMUL_ERR_CREATE or MMUL_ERR_IO, and leaves the old file unchanged.
enum mmul_status mmul_profile_store(const struct mmul_profile *profile, const char *path,
                                    struct mmul_error *err);
