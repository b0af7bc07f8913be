// SPDX-License-Identifier: MIT
//
// Graphics cards on this machine's PCI bus, with or without a driver.
#pragma once

struct mmul_card {
    char address[16];    // "0000:65:00.0"
    const char *vendor;  // "NVIDIA"
    const char *package; // package with an OpenCL driver for it
};

// Finds at most `most` cards of vendors of compute cards, and returns their number. `bus`: the
// folder of PCI devices, "/sys/bus/pci/devices" outside tests. An unreadable bus has no cards.
int mmul_cards_find(const char *bus, struct mmul_card *cards, int most);
