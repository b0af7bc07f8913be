// SPDX-License-Identifier: MIT
// Sensors of CPUs and cards in simulated trees of /sys, and by a library in place of NVIDIA's:
// exact numbers, and absent sensors.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "folder.h"
#include "host/sensors.h"

#define RAPL  "sys/class/powercap/intel-rapl:"
#define HWMON "sys/class/hwmon/hwmon"
#define CARDS "sys/bus/pci/devices/0000:"

static struct folder root;

// Writes a file and creates its folders.
static void put_file(const char *name, const char *text) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", root.path, name);
    for (char *slash = path + strlen(root.path) + 1; (slash = strchr(slash, '/')) != NULL;
         slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fprintf(stream, "%s\n", text);
    assert_int_equal(fclose(stream), 0);
}

static void put_files(const char *const (*files)[2], size_t count) {
    for (size_t i = 0; i < count; i++)
        put_file(files[i][0], files[i][1]);
}

static void remove_file(const char *name) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", root.path, name);
    assert_int_equal(unlink(path), 0);
}

static int begin(void **state) {
    (void)state;
    folder_create(&root);
    return 0;
}

static int end(void **state) {
    char command[300];
    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", root.path);
    assert_int_equal(system(command), 0);
    assert_int_equal(mmul_live_bytes(), 0);
    return 0;
}

static void open_cpu(struct mmul_sensors *sensors, const struct mmul_cpuset *cores, double now) {
    const struct mmul_sensors_request request = {.root = root.path, .pci = "", .cores = cores};
    mmul_sensors_open(sensors, &request, now);
}

// tests/lib/nvml.c is built one folder above this program.
static const char *nvml_path(void) {
    static char path[600];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 20);
    assert_true(length > 0);
    path[length] = '\0';
    *strrchr(path, '/') = '\0';
    strcpy(strrchr(path, '/'), "/nvml.so");
    return path;
}

static void open_card(struct mmul_sensors *sensors, const char *pci, const char *library) {
    const struct mmul_sensors_request request = {.root = root.path, .pci = pci, .nvml = library};
    mmul_sensors_open(sensors, &request, 0);
}

// Equal except for the rounding of the division; NAN means absent.
static void expect(double value, double expected) {
    if (isnan(expected) ? !isnan(value) : !(fabs(value - expected) < 1e-9))
        fail_msg("%g instead of %g", value, expected);
}

static void expect_reading(struct mmul_sensors *sensors, double now, double celsius, double watts,
                           double joules) {
    const struct mmul_sensor_readings sensed = mmul_sensors_read(sensors, now);
    expect(sensed.celsius, celsius);
    expect(sensed.watts, watts);
    expect(sensed.joules, joules);
}

// ------------------------------------------------------------------------------------------- CPUs

// Two packages of two units each.
static void put_units(void) {
    static const char *const files[][2] = {
        {"sys/devices/system/cpu/cpu0/topology/physical_package_id", "0"},
        {"sys/devices/system/cpu/cpu1/topology/physical_package_id", "0"},
        {"sys/devices/system/cpu/cpu2/topology/physical_package_id", "1"},
        {"sys/devices/system/cpu/cpu3/topology/physical_package_id", "1"},
        {"sys/devices/system/cpu/cpufreq/topology/physical_package_id", "7"},
    };
    put_files(files, sizeof files / sizeof *files);
}

static void put_intel(void) {
    static const char *const files[][2] = {
        {RAPL "0/name", "package-0"},
        {RAPL "0/energy_uj", "1000000"},
        {RAPL "0/max_energy_range_uj", "262143328850"},
        {RAPL "1/name", "package-1"},
        {RAPL "1/energy_uj", "262143000000"},
        {RAPL "1/max_energy_range_uj", "262143328850"},
        {RAPL "2/name", "psys"},
        {RAPL "2/energy_uj", "5"},
        {RAPL "0:0/name", "package-0"}, // a part of a package: not counted twice
        {RAPL "0:0/energy_uj", "5"},
        {"sys/class/powercap/intel-rapl-mmio:0/name", "package-0"},
        {"sys/class/powercap/intel-rapl-mmio:0/energy_uj", "5"},
        {HWMON "0/name", "coretemp"},
        {HWMON "0/temp1_label", "Package id 0"},
        {HWMON "0/temp1_input", "45000"},
        {HWMON "0/temp2_label", "Core 0"},
        {HWMON "0/temp2_input", "99000"},
        {HWMON "1/name", "coretemp"},
        {HWMON "1/temp1_label", "Package id 1"},
        {HWMON "1/temp1_input", "51500"},
        {HWMON "2/name", "nvme"},
        {HWMON "2/temp1_input", "88000"},
    };
    put_files(files, sizeof files / sizeof *files);
}

static void test_packages_are_summed_over_given_cores(void **state) {
    (void)state;
    struct mmul_sensors both, first;
    struct mmul_cpuset cores = {0};
    mmul_cpuset_add(&cores, 1);
    put_units();
    put_intel();
    open_cpu(&both, NULL, 100);
    open_cpu(&first, &cores, 100);
    assert_string_equal(both.source, "packages 0,1");
    assert_string_equal(first.source, "packages 0");
    expect_reading(&both, 100.1, 51.5, NAN, 0);
    put_file(RAPL "0/energy_uj", "6000000");
    put_file(RAPL "1/energy_uj", "6671150"); // wrapped around after 0.32885 J
    expect_reading(&both, 102, 51.5, 6, 12);
    expect_reading(&first, 102, 45, 2.5, 5);
    put_file(RAPL "0/energy_uj", "8000000");
    put_file(HWMON "0/temp1_input", "-1500");
    expect_reading(&first, 102.1, -1.5, 2.5, 7); // too soon for a new power figure
    expect_reading(&first, 103, -1.5, 2, 7);
    mmul_sensors_close(&both);
    mmul_sensors_close(&first);
}

// A counter of unknown range that went down, or that is gone.
static void test_a_lost_counter_gives_no_energy(void **state) {
    (void)state;
    struct mmul_sensors sensors;
    put_units();
    put_intel();
    remove_file(RAPL "0/max_energy_range_uj");
    open_cpu(&sensors, NULL, 0);
    put_file(RAPL "0/energy_uj", "999999");
    expect_reading(&sensors, 1, 51.5, NAN, NAN);
    put_file(RAPL "0/energy_uj", "2999999");
    expect_reading(&sensors, 2, 51.5, NAN, NAN);
    mmul_sensors_close(&sensors);
    open_cpu(&sensors, NULL, 0);
    remove_file(RAPL "1/energy_uj");
    remove_file(HWMON "1/temp1_input");
    expect_reading(&sensors, 1, 45, NAN, NAN);
    mmul_sensors_close(&sensors);
}

// A chip without a package number, on machines with one and two packages.
static void test_a_chip_without_a_package_counts_on_one_package(void **state) {
    (void)state;
    struct mmul_sensors sensors;
    struct mmul_cpuset cores = {0};
    put_units();
    put_file(HWMON "0/name", "k10temp");
    put_file(HWMON "0/temp1_label", "Tctl");
    put_file(HWMON "0/temp1_input", "72000");
    open_cpu(&sensors, NULL, 0);
    expect_reading(&sensors, 1, 72, NAN, NAN);
    mmul_sensors_close(&sensors);
    put_file(HWMON "0/temp2_label", "Tdie");
    put_file(HWMON "0/temp2_input", "52000");
    open_cpu(&sensors, NULL, 0);
    expect_reading(&sensors, 1, 52, NAN, NAN);
    mmul_sensors_close(&sensors);
    mmul_cpuset_add(&cores, 2);
    open_cpu(&sensors, &cores, 0);
    assert_string_equal(sensors.source, "packages 1");
    expect_reading(&sensors, 1, NAN, NAN, NAN);
    mmul_sensors_close(&sensors);
}

static void test_a_machine_without_sensors_gives_no_numbers(void **state) {
    (void)state;
    struct mmul_sensors sensors, zeroed = {0};
    open_cpu(&sensors, NULL, 0);
    expect_reading(&sensors, 1, NAN, NAN, NAN);
    mmul_sensors_close(&sensors);
    expect_reading(&zeroed, 1, NAN, NAN, NAN);
    open_card(&sensors, "0000:65:00.0", "/nowhere/libnvidia-ml.so.1");
    expect_reading(&sensors, 1, NAN, NAN, NAN);
    mmul_sensors_close(&sensors);
}

// ------------------------------------------------------------------------------------------ cards

static void test_hwmon_gives_numbers_of_cards(void **state) {
    (void)state;
    struct mmul_sensors sensors;
    put_file(CARDS "03:00.0/vendor", "0x1002");
    put_file(CARDS "03:00.0/hwmon/hwmon3/name", "amdgpu");
    put_file(CARDS "03:00.0/hwmon/hwmon3/temp1_input", "63000");
    put_file(CARDS "03:00.0/hwmon/hwmon3/temp2_input", "80000");
    put_file(CARDS "03:00.0/hwmon/hwmon3/power1_average", "123000000");
    open_card(&sensors, "0000:03:00.0", nvml_path());
    assert_string_equal(sensors.source, "0000:03:00.0");
    expect_reading(&sensors, 1, 63, 123, NAN);
    put_file(CARDS "03:00.0/hwmon/hwmon3/power1_average", "7000000");
    expect_reading(&sensors, 1, 63, 7, NAN);
    mmul_sensors_close(&sensors);
    put_file(CARDS "04:00.0/vendor", "0x8086");
    put_file(CARDS "04:00.0/hwmon/hwmon4/temp2_input", "33000");
    put_file(CARDS "04:00.0/hwmon/hwmon4/energy1_input", "9000000000");
    open_card(&sensors, "0000:04:00.0", nvml_path());
    put_file(CARDS "04:00.0/hwmon/hwmon4/energy1_input", "9030000000");
    expect_reading(&sensors, 2, 33, 15, 30);
    mmul_sensors_close(&sensors);
}

static void test_nvml_gives_numbers_of_its_cards(void **state) {
    (void)state;
    struct mmul_sensors sensors;
    put_file(CARDS "65:00.0/vendor", "0x10de");
    open_card(&sensors, "0000:65:00.0", nvml_path());
    expect_reading(&sensors, 1, 41, 250.5, 0.5);
    expect_reading(&sensors, 1, 41, 250.5, 1);
    expect(mmul_sensors_joules(&sensors), 1.5);
    mmul_sensors_close(&sensors);
    const struct mmul_sensors_request quick = {
        .root = root.path, .pci = "0000:65:00.0", .nvml = nvml_path(), .quick = true};
    mmul_sensors_open(&sensors, &quick, 0); // loading the library takes time
    expect_reading(&sensors, 1, NAN, NAN, NAN);
    expect(mmul_sensors_joules(&sensors), NAN);
    mmul_sensors_close(&sensors);
    open_card(&sensors, "0000:66:00.0", nvml_path()); // not visible on this bus, as in a container
    expect_reading(&sensors, 1, 77, NAN, NAN);
    mmul_sensors_close(&sensors);
    open_card(&sensors, "0000:67:00.0", nvml_path());
    expect_reading(&sensors, 1, NAN, NAN, NAN);
    mmul_sensors_close(&sensors);
    // NVIDIA's library is not asked for cards of other makers
    put_file(CARDS "65:00.0/vendor", "0x1002");
    open_card(&sensors, "0000:65:00.0", nvml_path());
    expect_reading(&sensors, 1, NAN, NAN, NAN);
    mmul_sensors_close(&sensors);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_packages_are_summed_over_given_cores, begin, end),
        cmocka_unit_test_setup_teardown(test_a_lost_counter_gives_no_energy, begin, end),
        cmocka_unit_test_setup_teardown(test_a_chip_without_a_package_counts_on_one_package, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_a_machine_without_sensors_gives_no_numbers, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_hwmon_gives_numbers_of_cards, begin, end),
        cmocka_unit_test_setup_teardown(test_nvml_gives_numbers_of_its_cards, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
