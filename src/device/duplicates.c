// SPDX-License-Identifier: MIT
// Marks cards that two OpenCL platforms both report. Pure: reads descriptions only and asks no
// driver.
#include "device/duplicates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long platform_of(const struct mmul_device_info *device) {
    return strtol(device->id, NULL, 10);
}

// Returns the number of devices with the same platform and name before devices[at].
static int ordinal(const struct mmul_device_info *devices, int at) {
    int before = 0;
    for (int i = 0; i < at; i++) {
        before += platform_of(&devices[i]) == platform_of(&devices[at]) &&
                  strcmp(devices[i].name, devices[at].name) == 0;
    }
    return before;
}

static bool is_same_card(const struct mmul_device_info *devices, int a, int b) {
    const struct mmul_device_info *first = &devices[a], *second = &devices[b];
    if (platform_of(first) == platform_of(second))
        return false;
    if (first->pci[0] != '\0' && second->pci[0] != '\0')
        return strcmp(first->pci, second->pci) == 0;
    return strcmp(first->name, second->name) == 0 && ordinal(devices, a) == ordinal(devices, b);
}

void mmul_mark_duplicates(struct mmul_device_info *devices, int count) {
    for (int i = 0; i < count; i++) {
        for (int earlier = 0; devices[i].usable && earlier < i; earlier++) {
            if (devices[earlier].usable && is_same_card(devices, earlier, i)) {
                devices[i].usable = false;
                snprintf(devices[i].reason, sizeof devices[i].reason,
                         "the same card as %s, seen through another platform", devices[earlier].id);
            }
        }
    }
}
