// SPDX-License-Identifier: MIT
//
// Graphics cards on this machine's PCI bus, whether or not a driver knows them.
#pragma once

struct mmul_card {
    char address[16];    // "0000:65:00.0"
    const char *vendor;  // "NVIDIA"
    const char *package; // that holds an OpenCL driver for it
};

// The first `most` of those by makers of cards that compute; returns how many. `bus`: the folder of
// its devices, "/sys/bus/pci/devices" but in tests. A bus that cannot be read has none.
int mmul_cards_find(const char *bus, struct mmul_card *cards, int most);
