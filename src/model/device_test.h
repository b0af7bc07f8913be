// SPDX-License-Identifier: MIT
//
// What a test of one device found. Made by exec/setup/device_test.
#pragma once

#include "model/cluster.h"
#include "model/kernel_set.h"

// Products of squares of side MMUL_TESTED_SMALLEST << i.
enum { MMUL_TESTED_SIZES = 4, MMUL_TESTED_SMALLEST = 1024 };

// Plain data: sent as bytes.
struct mmul_device_test {
    int rank;         // that tested it
    char device[128]; // what it was opened as
    struct mmul_device_info info;
    bool passed;
    bool counts;       // false: it could not be tested, which says nothing about it
    char failure[256]; // why it did not pass; "" when it did
    bool has_double; // its products in float64 are tested too; false: it has none, or did not open
    double flops[MMUL_TESTED_SIZES]; // per second; 0: not measured
    unsigned unstable; // a bit per size: its times did not agree; and MMUL_UNSTABLE_TRANSFERS
    double upload_bytes_per_second, download_bytes_per_second; // 0: works in host memory
    struct mmul_kernel_comparison kernels;                     // of a CPU
    char date[24];
};
