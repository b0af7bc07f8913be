// SPDX-License-Identifier: MIT
//
// One card on two OpenCL platforms is one device; two equal cards on one platform are two.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "device/duplicates.h"

enum { DEVICES_MAX = 8 };

struct device {
    const char *id, *name, *pci;
    bool usable;
    const char *same_as; // expected: the id in the reason, or NULL
};

struct machine {
    const char *what;
    struct device devices[DEVICES_MAX]; // ends with id NULL
};

static const char other[] = "a CPU";

static const struct machine machines[] = {
    {"no device", {{NULL}}},
    {"one card", {{"0:0", "Radeon VII", "0000:03:00.0", true, NULL}}},
    {"one card, two platforms, the same PCI address under different names",
     {{"0:0", "Radeon VII", "0000:03:00.0", true, NULL},
      {"1:0", "AMD Radeon VII (radeonsi, vega20)", "0000:03:00.0", true, "0:0"}}},
    {"one card, three platforms: all name the first",
     {{"0:0", "X", "0000:03:00.0", true, NULL},
      {"1:0", "Y", "0000:03:00.0", true, "0:0"},
      {"2:0", "Z", "0000:03:00.0", true, "0:0"}}},
    {"two like cards on one platform",
     {{"0:0", "GTX 750 Ti", "0000:01:00.0", true, NULL},
      {"0:1", "GTX 750 Ti", "0000:02:00.0", true, NULL}}},
    {"two like cards on one platform, addresses unknown",
     {{"0:0", "GTX 750 Ti", "", true, NULL}, {"0:1", "GTX 750 Ti", "", true, NULL}}},
    {"two tiles of one card on one platform: one address, two devices",
     {{"0:0", "Max 1550", "0000:29:00.0", true, NULL},
      {"0:1", "Max 1550", "0000:29:00.0", true, NULL}}},
    {"two like cards on two platforms, addresses known",
     {{"0:0", "A", "0000:01:00.0", true, NULL},
      {"0:1", "A", "0000:02:00.0", true, NULL},
      {"1:0", "A", "0000:02:00.0", true, "0:1"},
      {"1:1", "A", "0000:01:00.0", true, "0:0"}}},
    {"two like cards on two platforms, addresses unknown: k-th is k-th",
     {{"0:0", "A", "", true, NULL},
      {"0:1", "A", "", true, NULL},
      {"1:0", "A", "", true, "0:0"},
      {"1:1", "A", "", true, "0:1"}}},
    {"one platform tells addresses, the other does not: by name",
     {{"0:0", "A", "0000:01:00.0", true, NULL},
      {"0:1", "A", "0000:02:00.0", true, NULL},
      {"1:0", "A", "", true, "0:0"},
      {"1:1", "A", "", true, "0:1"}}},
    {"different cards in between keep the count per name",
     {{"0:0", "B", "", true, NULL},
      {"0:1", "A", "", true, NULL},
      {"1:0", "A", "", true, "0:1"},
      {"1:1", "A", "", true, NULL}}},
    {"like cards at different addresses on two platforms are two",
     {{"0:0", "A", "0000:01:00.0", true, NULL}, {"1:0", "A", "0000:02:00.0", true, NULL}}},
    {"an unusable sight of a card does not take the usable one away",
     {{"0:0", "A", "0000:01:00.0", false, NULL}, {"1:0", "A", "0000:01:00.0", true, NULL}}},
    {"an unusable device keeps its own reason",
     {{"0:0", "A", "0000:01:00.0", true, NULL}, {"1:0", "A", "0000:01:00.0", false, NULL}}},
    {"platforms 1 and 10 are two", {{"1:0", "A", "", true, NULL}, {"10:0", "A", "", true, "1:0"}}},
};

static int fill(const struct machine *machine, struct mmul_device_info *devices) {
    int count = 0;
    for (; count < DEVICES_MAX && machine->devices[count].id != NULL; count++) {
        const struct device *device = &machine->devices[count];
        devices[count] = (struct mmul_device_info){.usable = device->usable, .probed = true};
        snprintf(devices[count].id, sizeof devices[count].id, "%s", device->id);
        snprintf(devices[count].name, sizeof devices[count].name, "%s", device->name);
        snprintf(devices[count].pci, sizeof devices[count].pci, "%s", device->pci);
        snprintf(devices[count].reason, sizeof devices[count].reason, "%s",
                 device->usable ? "" : other);
    }
    return count;
}

static void cards_are_counted_once(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        struct mmul_device_info devices[DEVICES_MAX];
        int count = fill(&machines[i], devices);
        print_message("# %s\n", machines[i].what);
        mmul_mark_duplicates(devices, count);
        for (int d = 0; d < count; d++) {
            const struct device *expected = &machines[i].devices[d];
            char reason[64] = "";
            if (expected->same_as != NULL)
                snprintf(reason, sizeof reason,
                         "the same card as %s, seen through another platform", expected->same_as);
            assert_int_equal(devices[d].usable, expected->usable && expected->same_as == NULL);
            assert_string_equal(devices[d].reason, expected->usable ? reason : other);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cards_are_counted_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
