// SPDX-License-Identifier: MIT
//
// Which OpenCL drivers the loader would load, and how to make it load others.
// Source: libOpenCL(7) of ocl-icd; the Khronos loader's OCL_ICD_VENDORS and OCL_ICD_FILENAMES.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_DRIVERS_MAX = 32 };

struct mmul_driver {
    char library[256]; // as the .icd file names it
    char file[256];    // the .icd file; "" for a library that the environment names
};

// The drivers this process would load: a .icd file, a folder of them or a library named by
// OCL_ICD_VENDORS; else the folder OPENCL_VENDOR_PATH, else /etc/OpenCL/vendors. Then the libraries
// of OCL_ICD_FILENAMES. At most `capacity`; returns their number.
int mmul_drivers_list(struct mmul_driver *drivers, int capacity);

// A folder of our own with one .icd file for each of `drivers` (count of them). `folder` gets its
// path. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_drivers_store(const struct mmul_driver *drivers, int count,
                                    char folder[static 256], struct mmul_error *err);

// Removes such a folder.
void mmul_drivers_remove(const char *folder);

// Makes the loader, not yet started in this process, take the drivers of `folder` and no others.
void mmul_drivers_select(const char *folder);
