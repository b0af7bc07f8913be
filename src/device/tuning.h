// SPDX-License-Identifier: MIT
//
// Parameters of CLBlast's kernels, measured on one device. They are read from the files of
// CLBlast's tuners (clblast_xgemm_1_32.json and so on), stored in one file per device, and set on a
// device before its kernels are built. A set is valid only for the device and driver that it was
// measured with.
//
// File format:
// { "schema": 1, "device": NAME, "vendor": ..., "driver": ..., "kernels": {
//     "Xgemm": { "milliseconds": 1.02, "m": 1024, "n": 1024, "k": 1024,
//                "parameters": { "MWG": 64, ... } }, ... } }
#pragma once

#include "device/device.h"

enum { MMUL_TUNED_KERNELS = 7, MMUL_TUNED_PARAMETERS = 24 };

struct mmul_tuned_kernel {
    char kernel[16]; // CLBlast's name: "Xgemm"
    int count;       // number of parameters
    char names[MMUL_TUNED_PARAMETERS][24];
    int64_t values[MMUL_TUNED_PARAMETERS];
    double milliseconds; // the tuner's time with these parameters
    int64_t m, n, k;     // size of that test; 0: no such side
};

struct mmul_tuning {
    char device[128], vendor[64], driver[64]; // as in mmul_device_info; "": not known yet
    int count;
    struct mmul_tuned_kernel kernels[MMUL_TUNED_KERNELS];
};

// Adds the result of one tuner. Of several files for one kernel, which must have the same test
// size, the fastest counts. Fails with MMUL_ERR_NO_INPUT or MMUL_ERR_DATA and leaves `tuning`
// unchanged: no such file, not from a tuner, not single precision, a kernel that products do not
// use, or another device than the files before.
enum mmul_status mmul_tuning_read(const char *path, struct mmul_tuning *tuning,
                                  struct mmul_error *err);

// Writes the path of a device's set: $XDG_CACHE_HOME/mpimatmul/tuned-HASH.json (else in
// ~/.cache/mpimatmul), where HASH is of name and vendor. Fails with MMUL_ERR_CREATE: no such
// folder.
enum mmul_status mmul_tuning_path(const struct mmul_device_info *info, char path[static 512],
                                  struct mmul_error *err);

// Writes the file and creates its folder (mode 0700). Fails with MMUL_ERR_CREATE or MMUL_ERR_IO;
// the old file is then unchanged.
enum mmul_status mmul_tuning_store(const char *path, const struct mmul_tuning *tuning,
                                   struct mmul_error *err);

// Reads the file; a missing file gives an empty set. Fails with MMUL_ERR_NO_INPUT (unreadable) or
// MMUL_ERR_DATA (damaged).
enum mmul_status mmul_tuning_load(const char *path, struct mmul_tuning *tuning,
                                  struct mmul_error *err);

// Sets all kernels of the set on a device. Fails like mmul_device_tune.
enum mmul_status mmul_tuning_apply(struct mmul_device *device, const struct mmul_tuning *tuning,
                                   struct mmul_error *err);

// Sets the stored parameters of a device, if there are any; `*kernels` gets their number. Call it
// before the device multiplies. Fails with MMUL_ERR_DATA or MMUL_ERR_NO_INPUT if the file cannot be
// used or was measured with another driver; the device then works untuned.
enum mmul_status mmul_tuning_apply_stored(struct mmul_device *device, int *kernels,
                                          struct mmul_error *err);
