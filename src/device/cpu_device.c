// SPDX-License-Identifier: MIT
// The CPU as a device: its description and its table. Products are OpenBLAS's (cpu_products.c), all
// other operations are our loops (cpu_map.h), and buffers are host memory.
#include <cblas.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "device/cpu_map.h"
#include "device/cpu_products.h"
#include "device/host_buffer.h"
#include "device/kernel_trial.h"
#include "device/registry.h"

// Copies the value of the first "key : value" line of /proc/cpuinfo, or "" if there is none.
static void read_cpuinfo(const char *key, char *value, size_t capacity) {
    value[0] = '\0';
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL)
        return;
    char line[512];
    while (value[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) == 0 && colon != NULL) {
            char *text = colon + 1 + strspn(colon + 1, " \t");
            text[strcspn(text, "\n")] = '\0';
            mmul_text_copy(value, capacity, text);
        }
    }
    fclose(file);
}

static void fill_info(struct mmul_device_info *info) {
    cpu_set_t set;
    bool has_set = sched_getaffinity(0, sizeof set, &set) == 0;
    int64_t bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    *info = (struct mmul_device_info){
        .id = "cpu",
        .platform = "OpenBLAS",
        .type = MMUL_DEVICE_CPU,
        .has_double = true,
        .usable = true,
        .compute_units = has_set ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN),
        .memory_bytes = bytes,
        .max_allocation_bytes = bytes,
    };
    read_cpuinfo("model name", info->name, sizeof info->name);
    if (info->name[0] == '\0') // not every architecture has that line
        mmul_text_copy(info->name, sizeof info->name, openblas_get_corename());
    read_cpuinfo("vendor_id", info->vendor, sizeof info->vendor);
    mmul_make_printable(info->name);
    mmul_make_printable(info->vendor);
    // "OpenBLAS 0.3.21 NO_LAPACKE ... SkylakeX MAX_THREADS=64" contains name, version and kernel
    // set.
    char name[16] = "OpenBLAS", version[16] = "";
    sscanf(openblas_get_config(), "%15s %15s", name, version);
    snprintf(info->driver, sizeof info->driver, "%s %s (%s)", name, version,
             openblas_get_corename());
    struct mmul_kernel_comparison kernels;
    mmul_kernels_identify(&kernels);
    mmul_text_copy(info->kernels, sizeof info->kernels, kernels.kernels);
    mmul_text_copy(info->kernels_setting, sizeof info->kernels_setting, kernels.setting);
    if (mmul_kernels_are_narrow(&kernels))
        mmul_text_copy(info->kernels_unused_vectors, sizeof info->kernels_unused_vectors,
                       kernels.cpu_vectors);
}

static enum mmul_status open_cpu(const char *text, void **self, struct mmul_error *err) {
    (void)text;
    struct mmul_cpu *cpu = mmul_allocate(1, sizeof *cpu, "a device", err);
    if (cpu == NULL)
        return err->status;
    fill_info(&cpu->info);
    *self = cpu;
    return MMUL_OK;
}

static void close_cpu(void *self, bool lost) {
    (void)lost;
    mmul_free(self);
}

static void describe(const void *self, struct mmul_device_info *info) {
    const struct mmul_cpu *cpu = self;
    *info = cpu->info;
}

static bool is_name(const char *text) {
    return strcmp(text, "cpu") == 0;
}

const struct mmul_device_table mmul_cpu_table = {
    .kind = "cpu",
    .names = "cpu",
    .next = "reference",
    .is_trusted = true,
    .fails_like_fallback = true,
    .is_name = is_name,
    .open = open_cpu,
    .close = close_cpu,
    .describe = describe,
    .has_dtype = mmul_host_has_dtype,
    .buffer_create = mmul_host_buffer_create,
    .buffer_destroy = mmul_host_buffer_destroy,
    .buffer_borrow = mmul_host_buffer_borrow,
    .upload = mmul_host_upload,
    .download = mmul_host_download,
    .warm_up = mmul_cpu_warm_up,
    .gemm = mmul_cpu_gemm,
    .gemm_depends_on_cut = mmul_cpu_gemm_depends_on_cut,
    .map = mmul_cpu_map,
    .map_fused = mmul_cpu_map_fused,
    .set_threads = mmul_cpu_set_threads,
};
