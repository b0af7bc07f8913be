// SPDX-License-Identifier: MIT
//
// What a CPU or a graphics card says of itself: temperature, watts, energy. Nothing is estimated: what the system does
// not tell is absent.
//
//     CPU    energy of its packages by RAPL (Linux, Documentation/power/powercap), without their memory;
//            temperature by hwmon (coretemp, k10temp, zenpower, cpu_thermal)
//     card   hwmon of its driver (amdgpu, i915, xe, nouveau), else NVIDIA's library NVML, which is loaded then
#pragma once

#include "host/topology.h"

struct mmul_nvml;

enum { MMUL_METERS = 32, MMUL_THERMOMETERS = 32, MMUL_SENSOR_PATH = 160 };

// A counter of energy of the system's, in microjoules.
struct mmul_meter {
    char path[MMUL_SENSOR_PATH];
    int64_t last, largest; // what it said; behind this it begins again at 0 (0: nobody knows)
};

struct mmul_sensors { // zeroed: tell nothing
    // Whose they are: "packages 0,1", "0000:65:00.0"; ranks of a machine that have the same one share what is told.
    char source[64];
    struct mmul_meter meters[MMUL_METERS];
    int meter_count;
    char thermometers[MMUL_THERMOMETERS][MMUL_SENSOR_PATH];
    int thermometer_count;
    char power[MMUL_SENSOR_PATH]; // "": no file says it
    struct mmul_nvml *nvml;       // owned; NULL: not asked
    double joules;                // of the meters, since they were opened; NAN: not known any more
    // Where power follows from energy: both at the beginning of the time that was last looked at; and the result.
    double since, since_joules, watts;
};

// NAN: absent.
struct mmul_sensed {
    double celsius; // the hottest of what belongs to it
    double watts;   // now, or of the last moments
    double joules;  // used since the sensors were opened
};

struct mmul_sensors_request {
    const char *root;                // the folder that stands for /; "" but in tests
    const char *nvml;                // the library; NULL: "libnvidia-ml.so.1"
    const char *pci;                 // a card's address, "0000:65:00.0"; "": the CPU
    const struct mmul_cpuset *cores; // the CPU's: of their packages; NULL: of all
    bool quick;                      // nothing that takes longer than to read files: no NVML
};

// Looks for what there is; `now` is the clock (mmul_clock_now). Local. What cannot be read is absent.
void mmul_sensors_open(struct mmul_sensors *sensors, const struct mmul_sensors_request *request,
                       double now);

// Reads; to be called once a minute at least, for counters of energy begin again. Where power follows from energy it
// takes two readings, 0.2 s apart. A counter that jumped, or went away, makes energy absent for good.
struct mmul_sensed mmul_sensors_read(struct mmul_sensors *sensors, double now);

// Its joules alone, of which no other sensor is asked; absent at once where there is no counter.
double mmul_sensors_joules(struct mmul_sensors *sensors);

void mmul_sensors_close(struct mmul_sensors *sensors);
