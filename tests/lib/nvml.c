// SPDX-License-Identifier: MIT
//
// Replaces NVIDIA's libnvidia-ml.so.1 for the calls of host/nvml.c, with two cards:
//   0000:65:00.0   41 degrees, 250.5 W; energy starts at 12 J and grows by 0.5 J per query
//   0000:66:00.0   77 degrees; no other sensor
#include <string.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device);
int nvmlDeviceGetTemperature(const void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetPowerUsage(const void *device, unsigned *milliwatts);
int nvmlDeviceGetTotalEnergyConsumption(const void *device, unsigned long long *millijoules);

enum { SUCCESS = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

static const char *const cards[] = {"0000:65:00.0", "0000:66:00.0"};
static int users;
static unsigned long long used = 11500;

static int is_silent(const void *device) {
    return device == (const void *)cards[1];
}

int nvmlInit_v2(void) {
    users++;
    return SUCCESS;
}

int nvmlShutdown(void) {
    users--;
    return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device) {
    for (int i = 0; users > 0 && i < 2; i++)
        if (strcmp(pci, cards[i]) == 0) {
            *(const void **)device = cards[i];
            return SUCCESS;
        }
    return users > 0 ? NOT_FOUND : UNINITIALIZED;
}

int nvmlDeviceGetTemperature(const void *device, int sensor, unsigned *celsius) {
    *celsius = is_silent(device) ? 77 : 41;
    return users > 0 && sensor == 0 ? SUCCESS : UNINITIALIZED;
}

int nvmlDeviceGetPowerUsage(const void *device, unsigned *milliwatts) {
    *milliwatts = 250500;
    return is_silent(device) ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(const void *device, unsigned long long *millijoules) {
    *millijoules = used += 500;
    return is_silent(device) ? NOT_SUPPORTED : SUCCESS;
}
