// SPDX-License-Identifier: MIT
//
// What `calibrate` and `devices --test` store and later runs load: one JSON file per host, in
// $XDG_CACHE_HOME/mpimatmul (else ~/.cache/mpimatmul), which hosts may share. A speed counts for
// exactly the device, driver, kernels, version of this program, threads, cores and sharing it was measured
// with; a link for the two hosts by name, whichever network Open MPI took; a test for the device and
// driver. Nothing here expires: a date stands beside each value.
#pragma once

#include "model/cluster.h"

enum { MMUL_PROFILE_SCHEMA = 1, MMUL_PROFILE_ENTRIES = 256 };

// What a speed was measured with.
struct mmul_profile_key {
    char device[128]; // as --device names it: by PCI address where that is known
    char name[128], vendor[64], driver[64];
    char kernels
        [128]; // of a CPU: mmul_kernels_key; in files of earlier versions "", which is no CPU's
    char cores[64]; // of a device of the CPU, when bound; else ""
    int threads;
    int sharing; // ranks of the node on the same device, this one included
};

struct mmul_profile_device {
    struct mmul_profile_key key;
    char version[16]; // MMUL_VERSION then
    int64_t memory_bytes;
    struct mmul_speed speed; // with its date; origin is not stored
};

struct mmul_profile_link {
    char host[64]; // the other one
    char date[24];
    struct mmul_link link;
};

// How a device did in its test. One of whose driver has changed since is not known any more.
struct mmul_profile_test {
    char device[128]; // as in mmul_profile_key
    char name[128], vendor[64], driver[64];
    char date[24];
    bool passed;
    char failure[256]; // "" when it passed
};

// The first of each are the oldest; when there are too many they are left out.
struct mmul_profile {
    char host[64];
    int device_count, link_count, test_count;
    struct mmul_profile_device devices[MMUL_PROFILE_ENTRIES];
    struct mmul_profile_link links[MMUL_PROFILE_ENTRIES];
    struct mmul_profile_test tests[MMUL_PROFILE_ENTRIES];
};

// How a profile names a device that was opened as `opened_as`: a GPU keeps its PCI address when
// drivers come and go, its number not. Returns `name`.
char *mmul_profile_name_device(const char *opened_as, const struct mmul_device_info *info,
                               char name[static 128]);

// The file's path for `host`. Fails with MMUL_ERR_CREATE: no home, or a path longer than that.
enum mmul_status mmul_profile_path(const char *host, char path[static 512], struct mmul_error *err);

// The present time as profiles write it. Returns `date`.
char *mmul_profile_date(char date[static 24]);

// An empty profile; released with mmul_free.
enum mmul_status mmul_profile_create(const char *host, struct mmul_profile **profile,
                                     struct mmul_error *err);

// Reads the file into an empty profile. A missing file leaves it empty. Fails with
// MMUL_ERR_NO_INPUT (unreadable) or MMUL_ERR_DATA (damaged, of another host or of a newer program);
// the text names the file, the profile is empty.
enum mmul_status mmul_profile_load(const char *path, struct mmul_profile *profile,
                                   struct mmul_error *err);

bool mmul_profile_same_key(const struct mmul_profile_key *a, const struct mmul_profile_key *b);

// The speed that was measured with exactly this key and this version; NULL: none. Borrowed.
const struct mmul_profile_device *mmul_profile_find(const struct mmul_profile *profile,
                                                    const struct mmul_profile_key *key);

// Where there is none: what is different about the speed that is stored for this device and most like it, as "measured
// with kernels Haswell, now SkylakeX"; "" when none is stored. Returns `text`.
char *mmul_profile_explain(const struct mmul_profile *profile, const struct mmul_profile_key *key,
                           char text[static 224]);
const struct mmul_profile_link *mmul_profile_find_link(const struct mmul_profile *profile,
                                                       const char *host);

// The test of this device with this driver; NULL: none. Borrowed.
const struct mmul_profile_test *mmul_profile_find_test(const struct mmul_profile *profile,
                                                       const char *opened_as,
                                                       const struct mmul_device_info *info);

// Adds an entry in the place of those with its key, or host, or (tests) of the same device.
void mmul_profile_add(struct mmul_profile *profile, const struct mmul_profile_device *device);
void mmul_profile_add_link(struct mmul_profile *profile, const struct mmul_profile_link *link);
void mmul_profile_add_test(struct mmul_profile *profile, const struct mmul_profile_test *test);

// Takes out what is known of the device, as `test` names it.
void mmul_profile_forget_test(struct mmul_profile *profile, const struct mmul_profile_test *test);

// Makes the file's folder, with mode 0700, and checks that it can be written to. Fails with
// MMUL_ERR_CREATE.
enum mmul_status mmul_profile_prepare(const char *path, struct mmul_error *err);

// Writes the file by way of a temporary name: readers see the old one or the new one. Fails with
// MMUL_ERR_CREATE or MMUL_ERR_IO, the old file being as it was.
enum mmul_status mmul_profile_store(const struct mmul_profile *profile, const char *path,
                                    struct mmul_error *err);
