// SPDX-License-Identifier: MIT
// Finds display controllers by vendors of compute cards. The console adapters of virtual machines
// and servers are not among them. Calls no driver.
#include "host/cards.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    unsigned vendor;
    const char *name, *package;
} vendors[] = {
    {0x10DE, "NVIDIA", "nvidia-opencl-icd"},
    {0x1002, "AMD", "mesa-opencl-icd"},
    {0x8086, "Intel", "intel-opencl-icd"},
};

static unsigned read_hexadecimal(const char *bus, const char *device, const char *name) {
    char path[1024], line[32] = "";
    snprintf(path, sizeof path, "%s/%s/%s", bus, device, name);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return 0;
    if (fgets(line, sizeof line, stream) == NULL)
        line[0] = '\0';
    fclose(stream);
    return (unsigned)strtoul(line, NULL, 16);
}

int mmul_cards_find(const char *bus, struct mmul_card *cards, int most) {
    DIR *folder = opendir(bus);
    const struct dirent *entry;
    int count = 0;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (read_hexadecimal(bus, entry->d_name, "class") >> 16 != 0x03)
            continue;
        unsigned vendor = read_hexadecimal(bus, entry->d_name, "vendor");
        for (size_t m = 0; m < sizeof vendors / sizeof vendors[0] && count < most; m++) {
            if (vendors[m].vendor != vendor)
                continue;
            struct mmul_card *card = &cards[count++];
            *card = (struct mmul_card){.vendor = vendors[m].name, .package = vendors[m].package};
            snprintf(card->address, sizeof card->address, "%.15s", entry->d_name);
        }
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}
