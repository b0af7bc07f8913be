// SPDX-License-Identifier: MIT
// The OpenCL drivers that the loader would load, and a way to make it load others. Source:
// libOpenCL(7) of ocl-icd; the Khronos loader's OCL_ICD_VENDORS and OCL_ICD_FILENAMES.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_DRIVERS_MAX = 32 };

struct mmul_driver {
    char library[256]; // as in the .icd file
    char file[256];    // the .icd file; "" for a library named by the environment
};

// Lists the drivers that this process would load. They come from OCL_ICD_VENDORS (a .icd file, a
// folder of them or a library), else from the folder OPENCL_VENDOR_PATH, else from
// /etc/OpenCL/vendors. The libraries of OCL_ICD_FILENAMES follow. Returns their number, at most
// MMUL_DRIVERS_MAX.
int mmul_drivers_list(struct mmul_driver drivers[static MMUL_DRIVERS_MAX]);

// Creates a temporary folder with one .icd file for each of `count` drivers. `folder` gets its
// path. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_drivers_store(const struct mmul_driver *drivers, int count,
                                    char folder[static 256], struct mmul_error *err);

// Removes such a folder.
void mmul_drivers_remove(const char *folder);

// Makes the loader take only the drivers of `folder`. Call it before the loader starts in this
// process.
void mmul_drivers_select(const char *folder);
