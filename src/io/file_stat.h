// SPDX-License-Identifier: MIT
// Identity and times of a file, from stat.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

static inline bool mmul_stat_is_same_file(const struct stat *x, const struct stat *y) {
    return x->st_dev == y->st_dev && x->st_ino == y->st_ino;
}

static inline int64_t mmul_stat_nanoseconds(struct timespec time) {
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}
