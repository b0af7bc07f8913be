// SPDX-License-Identifier: MIT
//
// What the OpenCL drivers of this machine said about their devices, and how it is kept for the next
// processes, which then need not ask. It counts for exactly this version of the program, start of the
// machine, device nodes and their permissions, drivers by name, environment of the drivers, and for
// every library that was loaded for it: path, size, time of change.
#pragma once

#include <assert.h>

#include "device/opencl_platform.h"

enum { MMUL_LIBRARIES_MAX = 100 };

struct mmul_library {
    char path[200];
    int64_t bytes, changed_ns;
};

// Plain data: comes from a child process, and fits into a pipe that is not being read yet.
struct mmul_listing {
    int count;
    struct mmul_device_info devices[MMUL_OPENCL_DEVICES_MAX];
    int library_count; // 0: more than can be kept
    struct mmul_library libraries[MMUL_LIBRARIES_MAX];
};
static_assert(sizeof(struct mmul_listing) <= 64 << 10, "the capacity of a pipe");

// Of a list of devices that was just made: the libraries that this process has loaded for it.
void mmul_listing_note_libraries(struct mmul_listing *listing);

// What is kept, when it still counts. Loads no driver.
bool mmul_listing_recall(struct mmul_listing *listing);

// Keeps it, where that is possible: there may be no home or no room.
void mmul_listing_remember(const struct mmul_listing *listing);

// Around the loading of drivers into this process: when they crash or hang now although they did not
// before, what is kept stays set aside, and the next process asks in a child again.
void mmul_listing_set_aside(void);
void mmul_listing_put_back(void);

// Whether `auto`, which takes no CPU of OpenCL's, could find nothing: where PoCL and Mesa are the only
// drivers and there is no device node of any card. Loads no driver.
bool mmul_listing_is_hopeless(void);
