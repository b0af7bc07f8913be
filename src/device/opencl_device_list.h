// SPDX-License-Identifier: MIT
// The devices that this machine's OpenCL drivers reported, stored so that later processes need not
// ask again. A stored list is valid only for exactly this program version, boot of the machine,
// device nodes and their permissions, driver names and driver environment. Every library that was
// loaded for it must have the same path, size and modification time.
#pragma once

#include <assert.h>

#include "device/opencl_platform.h"

enum { MMUL_LIBRARIES_MAX = 100 };

struct mmul_loaded_library {
    char path[200];
    int64_t bytes, changed_ns;
};

// Plain data from a child process, small enough for a pipe that is not yet being read.
struct mmul_opencl_device_list {
    int count;
    struct mmul_device_info devices[MMUL_OPENCL_DEVICES_MAX];
    int library_count; // 0: too many to store
    struct mmul_loaded_library libraries[MMUL_LIBRARIES_MAX];
};
static_assert(sizeof(struct mmul_opencl_device_list) <= 64 << 10, "the capacity of a pipe");

// Records the libraries that this process has loaded to make the list of devices.
void mmul_opencl_device_list_add_libraries(struct mmul_opencl_device_list *listing);

// Loads the stored list. Returns false if there is none or it is out of date. Loads no driver.
bool mmul_opencl_device_list_load(struct mmul_opencl_device_list *listing);

// Stores the list if possible. Ignores errors: there may be no home or no space.
void mmul_opencl_device_list_store(const struct mmul_opencl_device_list *listing);

// Call these before and after drivers are loaded into this process. If a driver now crashes or
// hangs although it did not before, the stored list stays set aside, and the next process asks the
// drivers in a child again.
void mmul_opencl_device_list_hide(void);
void mmul_opencl_device_list_unhide(void);

// Returns true if `auto`, which takes no OpenCL CPU, cannot find anything: PoCL and Mesa are the
// only drivers, and no card has a device node. Loads no driver.
bool mmul_opencl_has_only_cpus(void);
