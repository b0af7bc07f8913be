// SPDX-License-Identifier: MIT
// Reads files of /sys with one number each, and NVML for cards without such files. Finds the files
// for a rank once, and then reads only these. Needs no special rights.
#include "host/sensors.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/nvml.h"

// Shortest interval for power from energy. With shorter ones the power of a counter that moves in
// steps would jump.
static const double POWER_SECONDS = 0.2;

// ---------------------------------------------------------------------------------------- reading

// Reads the first line of a file, without its end. "": there is none.
static void read_line(const char *path, char line[static 64]) {
    FILE *stream = fopen(path, "re");
    line[0] = '\0';
    if (stream == NULL)
        return;
    if (fgets(line, 64, stream) == NULL)
        line[0] = '\0';
    fclose(stream);
    line[strcspn(line, "\n")] = '\0';
}

static bool read_number(const char *path, int64_t *number) {
    char line[64], *end;
    read_line(path, line);
    errno = 0;
    *number = strtoll(line, &end, 10);
    return line[0] != '\0' && *end == '\0' && errno == 0;
}

static bool has_number(const char *path) {
    int64_t ignored;
    return read_number(path, &ignored);
}

// Joins a path. Returns false if it does not fit: the sensor is then absent.
static bool join_path(char path[static MMUL_SENSOR_PATH], const char *folder, const char *name) {
    return snprintf(path, MMUL_SENSOR_PATH, "%s/%s", folder, name) < MMUL_SENSOR_PATH;
}

static void add_thermometer(struct mmul_sensors *sensors, const char *folder, const char *name) {
    char *path = sensors->thermometers[sensors->thermometer_count];
    if (sensors->thermometer_count + 1 < MMUL_THERMOMETERS_MAX && join_path(path, folder, name) &&
        has_number(path))
        sensors->thermometer_count++;
}

// Adds an energy counter. `range`: file with its largest value; NULL: no wrap.
static void add_meter(struct mmul_sensors *sensors, const char *folder, const char *name,
                      const char *range) {
    struct mmul_energy_counter *meter = &sensors->energy_counters[sensors->energy_counter_count];
    char path[MMUL_SENSOR_PATH];
    if (sensors->energy_counter_count == MMUL_ENERGY_COUNTERS_MAX ||
        !join_path(meter->path, folder, name) || !read_number(meter->path, &meter->last))
        return;
    if (range == NULL || !join_path(path, folder, range) || !read_number(path, &meter->largest))
        meter->largest = 0;
    sensors->energy_counter_count++;
}

// ------------------------------------------------------------------------------------------- CPUs

enum { PACKAGES = 64 };

// Bit sets of packages: those of the machine, and those of a rank's cores.
struct packages {
    uint64_t all, own;
};

static struct packages find_packages(const char *root, const struct mmul_cpuset *cores) {
    char folder[MMUL_SENSOR_PATH], path[MMUL_SENSOR_PATH], name[64];
    struct packages found = {0};
    const struct dirent *entry;
    DIR *list = join_path(folder, root, "sys/devices/system/cpu") ? opendir(folder) : NULL;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        int unit, end = 0;
        int64_t package;
        if (sscanf(entry->d_name, "cpu%d%n", &unit, &end) != 1 || entry->d_name[end] != '\0')
            continue;
        snprintf(name, sizeof name, "cpu%d/topology/physical_package_id", unit);
        if (!join_path(path, folder, name) || !read_number(path, &package) || package < 0 ||
            package >= PACKAGES)
            continue;
        found.all |= 1ULL << package;
        if (cores == NULL || mmul_cpuset_has(cores, unit))
            found.own |= 1ULL << package;
    }
    if (list != NULL)
        closedir(list);
    return found;
}

static bool has_package(uint64_t packages, int package) {
    return package >= 0 && package < PACKAGES && (packages >> package & 1) != 0;
}

static void name_packages(struct mmul_sensors *sensors, uint64_t packages) {
    int length = snprintf(sensors->source, sizeof sensors->source, "packages ");
    const char *comma = "";
    for (int i = 0; i < PACKAGES && length + 4 < (int)sizeof sensors->source; i++)
        if (has_package(packages, i)) {
            length += snprintf(sensors->source + length, sizeof sensors->source - (size_t)length,
                               "%s%d", comma, i);
            comma = ",";
        }
}

// Finds zones of whole packages, "intel-rapl:0", also on AMD. A zone of one die is called
// "package-0-die-1".
static void find_rapl(struct mmul_sensors *sensors, const char *root, uint64_t packages) {
    char folder[MMUL_SENSOR_PATH], zone[MMUL_SENSOR_PATH], path[MMUL_SENSOR_PATH], name[64];
    const struct dirent *entry;
    DIR *list = join_path(folder, root, "sys/class/powercap") ? opendir(folder) : NULL;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        int number, package, end = 0;
        if (sscanf(entry->d_name, "intel-rapl:%d%n", &number, &end) != 1 ||
            entry->d_name[end] != '\0' || !join_path(zone, folder, entry->d_name) ||
            !join_path(path, zone, "name"))
            continue;
        read_line(path, name);
        if (sscanf(name, "package-%d", &package) == 1 && has_package(packages, package))
            add_meter(sensors, zone, "energy_uj", "max_energy_range_uj");
    }
    if (list != NULL)
        closedir(list);
}

// Finds the sensor of the whole CPU on a chip that does not report packages.
static void find_cpu_thermometer(struct mmul_sensors *sensors, const char *chip) {
    static const char *const labels[] = {"Tdie", "Tctl"}; // the second may have an offset
    char path[MMUL_SENSOR_PATH], name[32], label[64];
    for (int l = 0; l < 2; l++)
        for (int i = 1; i <= 3; i++) {
            snprintf(name, sizeof name, "temp%d_label", i);
            if (!join_path(path, chip, name))
                return;
            read_line(path, label);
            if (strcmp(label, labels[l]) != 0)
                continue;
            snprintf(name, sizeof name, "temp%d_input", i);
            add_thermometer(sensors, chip, name);
            return;
        }
    add_thermometer(sensors, chip, "temp1_input");
}

static void find_coretemp(struct mmul_sensors *sensors, const char *chip, uint64_t packages) {
    enum { MOST = 256 }; // cores have thermometers, too
    char path[MMUL_SENSOR_PATH], name[32], label[64];
    for (int i = 1; i < MOST; i++) {
        int package;
        snprintf(name, sizeof name, "temp%d_label", i);
        if (!join_path(path, chip, name))
            return;
        read_line(path, label);
        if (sscanf(label, "Package id %d", &package) != 1 || !has_package(packages, package))
            continue;
        snprintf(name, sizeof name, "temp%d_input", i);
        add_thermometer(sensors, chip, name);
        return; // a coretemp chip covers one package
    }
}

// Finds thermometers of the packages. A chip that does not name its package counts only if the rank
// has all packages.
static void find_cpu_temperatures(struct mmul_sensors *sensors, const char *root,
                                  struct packages packages) {
    static const char *const whole[] = {"k10temp", "zenpower", "cpu_thermal"};
    char folder[MMUL_SENSOR_PATH], chip[MMUL_SENSOR_PATH], path[MMUL_SENSOR_PATH], name[64];
    const struct dirent *entry;
    DIR *list = join_path(folder, root, "sys/class/hwmon") ? opendir(folder) : NULL;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        if (entry->d_name[0] == '.' || !join_path(chip, folder, entry->d_name) ||
            !join_path(path, chip, "name"))
            continue;
        read_line(path, name);
        if (strcmp(name, "coretemp") == 0)
            find_coretemp(sensors, chip, packages.own);
        for (size_t w = 0; packages.own == packages.all && w < sizeof whole / sizeof *whole; w++)
            if (strcmp(name, whole[w]) == 0)
                find_cpu_thermometer(sensors, chip);
    }
    if (list != NULL)
        closedir(list);
}

// ------------------------------------------------------------------------------------------ cards

static void find_card_sensors(struct mmul_sensors *sensors, const char *device) {
    static const char *const temperatures[] = {"temp1_input", "temp2_input", "temp3_input"};
    static const char *const powers[] = {"power1_average", "power1_input"};
    char folder[MMUL_SENSOR_PATH], chip[MMUL_SENSOR_PATH], path[MMUL_SENSOR_PATH];
    const struct dirent *entry;
    DIR *list = join_path(folder, device, "hwmon") ? opendir(folder) : NULL;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        if (entry->d_name[0] == '.' || !join_path(chip, folder, entry->d_name))
            continue;
        for (int i = 0; i < 3 && sensors->thermometer_count == 0; i++)
            add_thermometer(sensors, chip, temperatures[i]);
        for (int i = 0; i < 2 && sensors->power[0] == '\0'; i++)
            if (join_path(path, chip, powers[i]) && has_number(path))
                memcpy(sensors->power, path, sizeof path);
        if (sensors->energy_counter_count == 0)
            add_meter(sensors, chip, "energy1_input", NULL);
    }
    if (list != NULL)
        closedir(list);
}

// Returns true for an NVIDIA card, and for a card without a visible vendor. Cards of other vendors
// are not looked up in NVML.
static bool may_be_nvidia(const char *device) {
    char path[MMUL_SENSOR_PATH], vendor[64];
    if (!join_path(path, device, "vendor"))
        return false;
    read_line(path, vendor);
    return vendor[0] == '\0' || strtoul(vendor, NULL, 16) == 0x10DE;
}

// ------------------------------------------------------------------------------------- the whole

static bool has_nothing(const struct mmul_sensors *sensors) {
    return sensors->energy_counter_count == 0 && sensors->thermometer_count == 0 &&
           sensors->power[0] == '\0';
}

void mmul_sensors_open(struct mmul_sensors *sensors, const struct mmul_sensors_request *request,
                       double now) {
    *sensors = (struct mmul_sensors){.since = now, .watts = NAN};
    if (request->pci[0] != '\0') {
        char device[MMUL_SENSOR_PATH], name[64];
        snprintf(sensors->source, sizeof sensors->source, "%s", request->pci);
        snprintf(name, sizeof name, "sys/bus/pci/devices/%s", request->pci);
        if (!join_path(device, request->root, name))
            return;
        find_card_sensors(sensors, device);
        if (has_nothing(sensors) && !request->quick && may_be_nvidia(device))
            sensors->nvml = mmul_nvml_open(
                request->nvml != NULL ? request->nvml : "libnvidia-ml.so.1", request->pci);
    } else {
        const struct packages packages = find_packages(request->root, request->cores);
        name_packages(sensors, packages.own);
        find_rapl(sensors, request->root, packages.own);
        find_cpu_temperatures(sensors, request->root, packages);
    }
}

// Returns the joules since the last reading.
static double read_meter(struct mmul_energy_counter *meter) {
    int64_t value;
    if (!read_number(meter->path, &value))
        return NAN;
    int64_t used = value - meter->last;
    if (used < 0 && meter->largest >= meter->last)
        used += meter->largest;
    meter->last = value;
    return used >= 0 ? (double)used * 1e-6 : NAN;
}

static double read_temperature(const struct mmul_sensors *sensors) {
    double hottest = NAN;
    for (int i = 0; i < sensors->thermometer_count; i++) {
        int64_t thousandths;
        if (read_number(sensors->thermometers[i], &thousandths))
            hottest = fmax(hottest, (double)thousandths * 1e-3); // fmax ignores NAN
    }
    return hottest;
}

// Returns the average power since the last update.
static double read_power(struct mmul_sensors *sensors, double now) {
    int64_t millionths;
    if (sensors->power[0] != '\0')
        return read_number(sensors->power, &millionths) ? (double)millionths * 1e-6 : NAN;
    if (sensors->energy_counter_count == 0 || isnan(sensors->joules))
        return NAN;
    if (now - sensors->since < POWER_SECONDS)
        return sensors->watts;
    sensors->watts = (sensors->joules - sensors->since_joules) / (now - sensors->since);
    sensors->since = now;
    sensors->since_joules = sensors->joules;
    return sensors->watts;
}

double mmul_sensors_joules(struct mmul_sensors *sensors) {
    if (sensors->nvml != NULL)
        return mmul_nvml_joules(sensors->nvml);
    for (int i = 0; i < sensors->energy_counter_count; i++)
        sensors->joules += read_meter(&sensors->energy_counters[i]);
    return sensors->energy_counter_count > 0 ? sensors->joules : NAN;
}

struct mmul_sensor_readings mmul_sensors_read(struct mmul_sensors *sensors, double now) {
    struct mmul_sensor_readings sensed = {
        .celsius = NAN, .watts = NAN, .joules = mmul_sensors_joules(sensors)};
    if (sensors->nvml != NULL) {
        mmul_nvml_read(sensors->nvml, &sensed.celsius, &sensed.watts);
        return sensed;
    }
    sensed.celsius = read_temperature(sensors);
    sensed.watts = read_power(sensors, now);
    return sensed;
}

void mmul_sensors_close(struct mmul_sensors *sensors) {
    mmul_nvml_close(sensors->nvml);
    *sensors = (struct mmul_sensors){0};
}
