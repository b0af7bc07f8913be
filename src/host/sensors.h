// SPDX-License-Identifier: MIT
//
// Sensors of a CPU or graphics card: temperature, watts, energy. No value is estimated: a value
// that the system does not report is absent.
//
// CPU: energy of its packages by RAPL (Linux, Documentation/power/powercap), without their memory;
// temperature by hwmon (coretemp, k10temp, zenpower, cpu_thermal).
// Card: hwmon of its driver (amdgpu, i915, xe, nouveau), else NVIDIA's library NVML, which is
// loaded then.
#pragma once

// A new sensor, such as the energy of another vendor's cards, belongs to sensors.c. Its caller is
// exec/status/device_usage.c.

#include "host/topology.h"

struct mmul_nvml;

enum { MMUL_ENERGY_COUNTERS_MAX = 32, MMUL_THERMOMETERS_MAX = 32, MMUL_SENSOR_PATH = 160 };

// Energy counter of the system, in microjoules.
struct mmul_energy_counter {
    char path[MMUL_SENSOR_PATH];
    int64_t last, largest; // last reading; value after which the counter wraps to 0 (0: unknown)
};

struct mmul_sensors { // zeroed: no sensors
    // Owner of the sensors: "packages 0,1", "0000:65:00.0". Ranks of a machine with equal sources
    // share them.
    char source[64];
    struct mmul_energy_counter energy_counters[MMUL_ENERGY_COUNTERS_MAX];
    int energy_counter_count;
    char thermometers[MMUL_THERMOMETERS_MAX][MMUL_SENSOR_PATH];
    int thermometer_count;
    char power[MMUL_SENSOR_PATH]; // "": no such file
    struct mmul_nvml *nvml;       // owned; NULL: not opened
    double joules;                // sum of the meters since they were opened; NAN: no longer known
    // For power from energy: clock and energy at the begin of the interval, and the last result.
    double since, since_joules, watts;
};

// Readings. NAN: absent.
struct mmul_sensor_readings {
    double celsius; // hottest thermometer
    double watts;   // now, or averaged over the last moments
    double joules;  // used since the sensors were opened
};

struct mmul_sensors_request {
    const char *root;                // folder that replaces /; "" outside tests
    const char *nvml;                // library; NULL: "libnvidia-ml.so.1"
    const char *pci;                 // address of a card, "0000:65:00.0"; "": the CPU
    const struct mmul_cpuset *cores; // cores of a CPU, which select packages; NULL: all
    bool quick;                      // read files only, without the slower NVML
};

// Finds the available sensors. `now` is the clock (mmul_clock_now). Local. Unreadable sensors are
// absent.
void mmul_sensors_open(struct mmul_sensors *sensors, const struct mmul_sensors_request *request,
                       double now);

// Reads all sensors. Call it at least once a minute, because energy counters wrap. Power from
// energy takes two readings, 0.2 s apart. If a counter jumps or disappears, energy is absent from
// then on.
struct mmul_sensor_readings mmul_sensors_read(struct mmul_sensors *sensors, double now);

// Reads only the energy. Returns NAN at once if there is no counter.
double mmul_sensors_joules(struct mmul_sensors *sensors);

void mmul_sensors_close(struct mmul_sensors *sensors);
