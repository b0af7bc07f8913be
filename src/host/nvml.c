// SPDX-License-Identifier: MIT
// Six functions of NVML, looked up by name. Functions that an older library lacks are absent, and
// so are values that a card does not report.
#include "host/nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stddef.h>

#include "base/memory.h"

typedef void *nvml_device;
enum { NVML_SUCCESS = 0, NVML_TEMPERATURE_GPU = 0 };

struct mmul_nvml {
    void *library;
    nvml_device device;
    int (*shutdown)(void);
    int (*temperature)(nvml_device device, int sensor, unsigned *celsius);
    int (*power)(nvml_device device, unsigned *milliwatts);
    int (*energy)(nvml_device device, unsigned long long *millijoules);
    unsigned long long begin; // counter at the first reading
};

// Looks up a function. POSIX allows reading the object pointer as a function pointer.
static void look_up_function(void *library, const char *name, void *function) {
    *(void **)function = dlsym(library, name);
}

static double millijoules_of(const struct mmul_nvml *card) {
    unsigned long long millijoules;
    if (card->energy == NULL || card->energy(card->device, &millijoules) != NVML_SUCCESS ||
        millijoules < card->begin)
        return NAN;
    return (double)(millijoules - card->begin);
}

struct mmul_nvml *mmul_nvml_open(const char *library, const char *pci) {
    struct mmul_nvml *card = NULL;
    struct mmul_error no_room;
    int (*begin)(void);
    int (*find)(const char *pci, nvml_device *device);
    void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (loaded == NULL)
        return NULL;
    look_up_function(loaded, "nvmlInit_v2", &begin);
    look_up_function(loaded, "nvmlDeviceGetHandleByPciBusId_v2", &find);
    if (begin == NULL || find == NULL || begin() != NVML_SUCCESS) {
        dlclose(loaded);
        return NULL;
    }
    if (MMUL_ALLOCATE(card, 1, "a card", &no_room) == MMUL_OK) {
        card->library = loaded;
        look_up_function(loaded, "nvmlShutdown", &card->shutdown);
        look_up_function(loaded, "nvmlDeviceGetTemperature", &card->temperature);
        look_up_function(loaded, "nvmlDeviceGetPowerUsage", &card->power);
        look_up_function(loaded, "nvmlDeviceGetTotalEnergyConsumption", &card->energy);
        if (find(pci, &card->device) == NVML_SUCCESS) {
            const double already = millijoules_of(card);
            card->begin = already > 0 ? (unsigned long long)already : 0;
            return card;
        }
        mmul_nvml_close(card);
    }
    return NULL;
}

double mmul_nvml_joules(const struct mmul_nvml *card) {
    return millijoules_of(card) * 1e-3;
}

void mmul_nvml_read(const struct mmul_nvml *card, double *celsius, double *watts) {
    unsigned degrees, milliwatts;
    *celsius = *watts = NAN;
    if (card->temperature != NULL &&
        card->temperature(card->device, NVML_TEMPERATURE_GPU, &degrees) == NVML_SUCCESS)
        *celsius = degrees;
    if (card->power != NULL && card->power(card->device, &milliwatts) == NVML_SUCCESS)
        *watts = milliwatts * 1e-3;
}

void mmul_nvml_close(struct mmul_nvml *card) {
    if (card == NULL)
        return;
    if (card->shutdown != NULL)
        card->shutdown();
    dlclose(card->library);
    mmul_free(card);
}
