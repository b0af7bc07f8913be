// SPDX-License-Identifier: MIT
//
// Results of a test of one device. Made by exec/setup/device_test.
#pragma once

#include "model/cluster.h"
#include "model/kernel_set.h"

// Tested products: squares of side MMUL_TESTED_SMALLEST << i.
enum { MMUL_TESTED_SIZES = 4, MMUL_TESTED_SMALLEST = 1024 };

// Plain data: sent as bytes.
struct mmul_device_test {
    int rank;         // rank that tested it
    char device[128]; // name it was opened with
    struct mmul_device_info info;
    bool passed;
    bool counts;       // false: it could not be tested, so the result says nothing about it
    char failure[256]; // reason for not passing; "" if it passed
    bool has_double;   // products in float64 are tested too; false: it has none, or did not open
    double flops[MMUL_TESTED_SIZES]; // per second; 0: not measured
    unsigned unstable; // a bit per size with times that differ; MMUL_UNSTABLE_TRANSFERS
    double upload_bytes_per_second, download_bytes_per_second; // 0: works in host memory
    struct mmul_kernel_comparison kernels;                     // for a CPU
    char date[24];
};
