// SPDX-License-Identifier: MIT
//
// Parameters of CLBlast's kernels that were measured on one device: read from the files of CLBlast's
// tuners (clblast_xgemm_1_32.json and its like), kept in one file per device, and given to a device
// before its kernels are built. A set counts for the device and the driver it was measured with.
//
// The file: { "schema": 1, "device": NAME, "vendor": ..., "driver": ..., "kernels": { "Xgemm":
// { "milliseconds": 1.02, "m": 1024, "n": 1024, "k": 1024, "parameters": { "MWG": 64, ... } }, ... } }
#pragma once

#include "device/device.h"

enum { MMUL_TUNED_KERNELS = 7, MMUL_TUNED_PARAMETERS = 24 };

struct mmul_tuned_kernel {
    char kernel[16]; // as CLBlast calls it: "Xgemm"
    int count;       // of parameters
    char names[MMUL_TUNED_PARAMETERS][24];
    int64_t values[MMUL_TUNED_PARAMETERS];
    double milliseconds; // what the tuner's test took with them,
    int64_t m, n, k;     // at this size; 0: has no such side
};

struct mmul_tuning {
    char device[128], vendor[64], driver[64]; // as in mmul_device_info; "": not known yet
    int count;
    struct mmul_tuned_kernel kernels[MMUL_TUNED_KERNELS];
};

// Adds what one tuner found. Of several files of one kernel, which then are of the same size, the
// fastest counts. Fails with MMUL_ERR_NO_INPUT or MMUL_ERR_DATA: no such file, not from a tuner, not
// single precision, a kernel that products do not use, or another device than the files before;
// `tuning` is as it was.
enum mmul_status mmul_tuning_read(const char *path, struct mmul_tuning *tuning,
                                  struct mmul_error *err);

// Where the set of a device is kept: $XDG_CACHE_HOME/mpimatmul (else ~/.cache/mpimatmul)
// /tuned-HASH.json, of name and vendor. Fails with MMUL_ERR_CREATE: no such folder.
enum mmul_status mmul_tuning_path(const struct mmul_device_info *info, char path[static 512],
                                  struct mmul_error *err);

// Writes the file, making its folder (mode 0700). Fails with MMUL_ERR_CREATE or MMUL_ERR_IO, the old
// file being as it was.
enum mmul_status mmul_tuning_store(const char *path, const struct mmul_tuning *tuning,
                                   struct mmul_error *err);

// Reads the file; a missing one is a set of no kernels. Fails with MMUL_ERR_NO_INPUT (unreadable) or
// MMUL_ERR_DATA (damaged).
enum mmul_status mmul_tuning_load(const char *path, struct mmul_tuning *tuning,
                                  struct mmul_error *err);

// Gives all kernels of the set to a device. Fails like mmul_device_tune.
enum mmul_status mmul_tuning_apply(struct mmul_device *device, const struct mmul_tuning *tuning,
                                   struct mmul_error *err);

// Gives a device the set that is kept for it, if there is one; `*kernels` says how many. To be
// called before the device multiplies. Fails with MMUL_ERR_DATA or MMUL_ERR_NO_INPUT: the file cannot
// be used, or was measured with another driver; the device works untuned then.
enum mmul_status mmul_tuning_apply_stored(struct mmul_device *device, int *kernels,
                                          struct mmul_error *err);
