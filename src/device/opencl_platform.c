// SPDX-License-Identifier: MIT
// Lists OpenCL devices and queries the properties that users need. Drivers answer differently:
// every query may fail and then leaves its field empty, and an extension's queries are sent only if
// the device has it. Does not choose devices: it marks those that `auto` may take and gives reasons
// for the others.
#include "device/opencl_platform.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "device/duplicates.h"
#include "device/opencl_device_list.h"
#include "device/pocl_cache.h"

enum { PLATFORMS_MAX = 32 };

// Queries of vendor extensions that not every header declares.
enum {
    PCI_BUS_INFO_KHR = 0x410F,
    PCI_BUS_ID_NV = 0x4008,
    PCI_SLOT_ID_NV = 0x4009,
    PCI_DOMAIN_ID_NV = 0x400A,
    TOPOLOGY_AMD = 0x4037,
    BOARD_NAME_AMD = 0x4038,
};

// ----------------------------------------------------------------------------------------- queries

// Copies driver text: replaces control characters by blanks, merges runs of blanks and trims both
// ends.
static void copy_clean(char *target, size_t capacity, const char *source) {
    size_t length = 0;
    for (; *source != '\0' && length + 1 < capacity; source++) {
        char c = iscntrl((unsigned char)*source) ? ' ' : *source;
        if (c != ' ' || (length > 0 && target[length - 1] != ' '))
            target[length++] = c;
    }
    while (length > 0 && target[length - 1] == ' ')
        length--;
    target[length] = '\0';
    mmul_make_printable(target);
}

static void query_text(cl_device_id device, cl_device_info what, char *target, size_t capacity) {
    char text[1024] = "";
    if (clGetDeviceInfo(device, what, sizeof text - 1, text, NULL) == CL_SUCCESS)
        copy_clean(target, capacity, text);
}

// Returns a number of `bytes` bytes (1 to 8), or 0 if the driver's answer has another size.
static uint64_t query_number(cl_device_id device, cl_device_info what, size_t bytes) {
    uint64_t value = 0; // little-endian hosts only, as usual with OpenCL
    size_t given = 0;
    if (clGetDeviceInfo(device, what, bytes, &value, &given) != CL_SUCCESS || given != bytes)
        return 0;
    return value;
}

// Returns true if the device has the extension `name`.
static bool has_extension(cl_device_id device, const char *name) {
    size_t bytes = 0;
    if (clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &bytes) != CL_SUCCESS)
        return false;
    char *list = calloc(1, bytes + 1);
    bool found = false;
    if (list != NULL &&
        clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, bytes, list, NULL) == CL_SUCCESS)
        for (char *rest = list, *word; !found && (word = strsep(&rest, " ")) != NULL;)
            found = strcmp(word, name) == 0;
    free(list);
    return found;
}

// ------------------------------------------------------------------------------------- PCI address

struct address {
    unsigned domain, bus, device, function;
};

static bool query_address_khr(cl_device_id device, struct address *address) {
    cl_uint values[4]; // domain, bus, device, function
    if (!has_extension(device, "cl_khr_pci_bus_info") ||
        clGetDeviceInfo(device, PCI_BUS_INFO_KHR, sizeof values, values, NULL) != CL_SUCCESS)
        return false;
    *address = (struct address){values[0], values[1], values[2], values[3]};
    return true;
}

static bool query_address_nvidia(cl_device_id device, struct address *address) {
    cl_uint bus = 0, slot = 0, domain = 0;
    if (!has_extension(device, "cl_nv_device_attribute_query") ||
        clGetDeviceInfo(device, PCI_BUS_ID_NV, sizeof bus, &bus, NULL) != CL_SUCCESS ||
        clGetDeviceInfo(device, PCI_SLOT_ID_NV, sizeof slot, &slot, NULL) != CL_SUCCESS)
        return false;
    if (clGetDeviceInfo(device, PCI_DOMAIN_ID_NV, sizeof domain, &domain, NULL) != CL_SUCCESS)
        domain = 0; // older drivers do not report it
    *address = (struct address){domain, bus, slot >> 3, slot & 7};
    return true;
}

static bool query_address_amd(cl_device_id device, struct address *address) {
    unsigned char bytes[24] = {0}; // uint type; 17 unused; bus, device, function
    cl_uint type = 0;
    if (!has_extension(device, "cl_amd_device_attribute_query") ||
        clGetDeviceInfo(device, TOPOLOGY_AMD, sizeof bytes, bytes, NULL) != CL_SUCCESS)
        return false;
    memcpy(&type, bytes, sizeof type);
    *address = (struct address){0, bytes[21], bytes[22], bytes[23]};
    return type == 1; // PCIe
}

static void query_address(cl_device_id device, char pci[static 16]) {
    struct address address = {0, 0, 0, 0};
    pci[0] = '\0';
    if (query_address_khr(device, &address) || query_address_nvidia(device, &address) ||
        query_address_amd(device, &address)) {
        snprintf(pci, 16, "%04x:%02x:%02x.%x", address.domain & 0xffffff, address.bus & 0xff,
                 address.device & 0xff, address.function & 7);
    }
}

// ------------------------------------------------------------------------------------- description

static enum mmul_device_type convert_type(cl_device_type type) {
    if ((type & CL_DEVICE_TYPE_CPU) != 0) // oclgrind claims to be everything
        return MMUL_DEVICE_CPU;
    return (type & CL_DEVICE_TYPE_GPU) != 0 ? MMUL_DEVICE_GPU : MMUL_DEVICE_ACCELERATOR;
}

static const char not_available[] = "the driver reports it as unavailable";

// Returns the reason why `auto` skips the device, or NULL if it may be used.
static const char *find_reason(cl_device_id device, const struct mmul_device_info *info) {
    char version[64] = "";
    query_text(device, CL_DEVICE_VERSION, version, sizeof version);
    if (query_number(device, CL_DEVICE_AVAILABLE, sizeof(cl_bool)) == 0)
        return not_available;
    if (query_number(device, CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool)) == 0)
        return "its driver has no compiler";
    if (strncmp(version, "OpenCL 1.0", 10) == 0)
        return "OpenCL 1.0 only: 1.1 is needed";
    if (strstr(info->platform, "Portable Computing Language") != NULL)
        return "PoCL: OpenBLAS is faster on a CPU; used only when named";
    if (info->type == MMUL_DEVICE_CPU)
        return "a CPU: OpenBLAS is faster; used only when named";
    return info->type == MMUL_DEVICE_GPU ? NULL : "not a GPU; used only when named";
}

static void describe(int p, int d, cl_platform_id platform, cl_device_id device,
                     struct mmul_device_info *info) {
    char text[256] = "";
    *info = (struct mmul_device_info){.usable = false};
    snprintf(info->id, sizeof info->id, "%d:%d", p, d);
    query_text(device, CL_DEVICE_NAME, info->name, sizeof info->name);
    if (has_extension(device, "cl_amd_device_attribute_query")) {
        query_text(device, BOARD_NAME_AMD, text, sizeof text); // "Radeon VII" instead of "gfx906"
        if (text[0] != '\0')
            mmul_text_copy(info->name, sizeof info->name, text);
    }
    query_text(device, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
    query_text(device, CL_DRIVER_VERSION, info->driver, sizeof info->driver);
    text[0] = '\0';
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof text - 1, text, NULL) == CL_SUCCESS)
        copy_clean(info->platform, sizeof info->platform, text);
    query_address(device, info->pci);
    info->type = convert_type(query_number(device, CL_DEVICE_TYPE, sizeof(cl_device_type)));
    info->compute_units = (int)query_number(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint));
    info->memory_bytes = (int64_t)query_number(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong));
    info->max_allocation_bytes =
        (int64_t)query_number(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong));
    info->has_double =
        query_number(device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(cl_device_fp_config)) != 0;
    const char *reason = find_reason(device, info);
    info->usable = reason == NULL;
    mmul_text_copy(info->reason, sizeof info->reason, reason != NULL ? reason : "");
}

// ----------------------------------------------------------------------------------- list and find

static int list_platforms(cl_platform_id platforms[static PLATFORMS_MAX]) {
    cl_uint count = 0;
    if (clGetPlatformIDs(PLATFORMS_MAX, platforms, &count) != CL_SUCCESS)
        return 0;
    return count < PLATFORMS_MAX ? (int)count : PLATFORMS_MAX;
}

static int list_devices(cl_platform_id platform,
                        cl_device_id devices[static MMUL_OPENCL_DEVICES_MAX]) {
    cl_uint count = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MMUL_OPENCL_DEVICES_MAX, devices, &count) !=
        CL_SUCCESS)
        return 0; // a platform without devices answers so, too
    return count < MMUL_OPENCL_DEVICES_MAX ? (int)count : MMUL_OPENCL_DEVICES_MAX;
}

// Opens CPU devices once: a CPU runtime may list another vendor's CPU and reject it only when it is
// opened. Cards are not opened: that takes tenths of a second each.
static void try_to_open(cl_device_id device, struct mmul_device_info *info) {
    cl_int code = CL_SUCCESS;
    if (info->type != MMUL_DEVICE_CPU)
        return;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    if (code == CL_DEVICE_NOT_AVAILABLE)
        mmul_text_copy(info->reason, sizeof info->reason, not_available);
    else if (code == CL_SUCCESS)
        clReleaseContext(context);
}

void mmul_opencl_list(struct mmul_device_info devices[static MMUL_OPENCL_DEVICES_MAX], int *count) {
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_device_id handles[MMUL_OPENCL_DEVICES_MAX];
    int platform_count = list_platforms(platforms), listed = 0;
    for (int p = 0; p < platform_count; p++) {
        int device_count = list_devices(platforms[p], handles);
        for (int d = 0; d < device_count && listed < MMUL_OPENCL_DEVICES_MAX; d++) {
            describe(p, d, platforms[p], handles[d], &devices[listed]);
            try_to_open(handles[d], &devices[listed++]);
        }
    }
    mmul_mark_duplicates(devices, listed);
    *count = listed;
}

static enum mmul_status fail_absent(const char *text, const char *reason, struct mmul_error *err) {
    mmul_fail(err, MMUL_ERR_UNAVAILABLE, "OpenCL device '%s' does not exist: %s", text, reason);
    mmul_hint(err, "'mpimatmul devices' lists the available devices");
    return MMUL_ERR_UNAVAILABLE;
}

enum mmul_status mmul_opencl_find(const char *text, cl_platform_id *platform, cl_device_id *device,
                                  struct mmul_device_info *info, struct mmul_error *err) {
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_device_id handles[MMUL_OPENCL_DEVICES_MAX];
    char reason[96];
    char *colon = NULL;
    long p = strtol(text, &colon, 10), d = strtol(colon + 1, NULL, 10);
    char own[512], ours[512];
    (void)mmul_pocl_cache_replace(own, ours); // the warning is given when devices are listed
    mmul_opencl_device_list_hide();
    int platform_count = list_platforms(platforms);
    mmul_opencl_device_list_unhide();
    if (p >= platform_count) {
        snprintf(reason, sizeof reason, "number of OpenCL platforms is %d", platform_count);
        return fail_absent(text, reason, err);
    }
    int device_count = list_devices(platforms[p], handles);
    if (d >= device_count) {
        snprintf(reason, sizeof reason, "number of devices on platform %ld is %d", p, device_count);
        return fail_absent(text, reason, err);
    }
    describe((int)p, (int)d, platforms[p], handles[d], info);
    *platform = platforms[p];
    *device = handles[d];
    return MMUL_OK;
}
