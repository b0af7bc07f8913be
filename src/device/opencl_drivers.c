// SPDX-License-Identifier: MIT
// The .icd files that announce OpenCL drivers. Reads them by the loaders' rules and writes folders
// of selected drivers. Loads no driver.
#include "device/opencl_drivers.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/status.h"
#include "base/text.h"

// ----------------------------------------------------------------------------------------- listing

struct list {
    struct mmul_driver *drivers;
    int count;
};

static void add_driver(struct list *list, const char *library, const char *file) {
    if (list->count < MMUL_DRIVERS_MAX && library[0] != '\0') {
        struct mmul_driver *driver = &list->drivers[list->count++];
        mmul_text_copy(driver->library, sizeof driver->library, library);
        mmul_text_copy(driver->file, sizeof driver->file, file);
    }
}

static bool is_icd_name(const char *name) {
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".icd") == 0;
}

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

// Adds the library on the first line of a .icd file.
static bool add_icd_file(struct list *list, const char *path) {
    char line[256] = "";
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return false;
    if (fgets(line, sizeof line, stream) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        add_driver(list, line, path);
    }
    fclose(stream);
    return true;
}

static void add_icd_folder(struct list *list, const char *folder) {
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[512];
        int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (is_icd_name(entries[i]->d_name) && length < (int)sizeof path)
            add_icd_file(list, path);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static const char *get_setting(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

// Adds the drivers that OCL_ICD_VENDORS names: a folder, else a .icd file (a bare name is first
// looked up in the usual folder), else a library.
static void add_vendors(struct list *list, const char *vendors, const char *usual) {
    char path[512];
    if (is_folder(vendors)) {
        add_icd_folder(list, vendors);
    } else if (is_icd_name(vendors)) {
        int length = snprintf(path, sizeof path, "%s/%s", usual, vendors);
        if (strchr(vendors, '/') != NULL || length >= (int)sizeof path || !add_icd_file(list, path))
            add_icd_file(list, vendors);
    } else {
        add_driver(list, vendors, "");
    }
}

int mmul_drivers_list(struct mmul_driver drivers[static MMUL_DRIVERS_MAX]) {
    struct list list = {.drivers = drivers, .count = 0};
    const char *vendors = get_setting("OCL_ICD_VENDORS");
    const char *usual = get_setting("OPENCL_VENDOR_PATH");
    const char *libraries = get_setting("OCL_ICD_FILENAMES");
    if (usual == NULL)
        usual = "/etc/OpenCL/vendors";
    if (vendors != NULL)
        add_vendors(&list, vendors, usual);
    else
        add_icd_folder(&list, usual);
    char *copy = libraries != NULL ? strdup(libraries) : NULL;
    for (char *rest = copy, *library; (library = strsep(&rest, ":")) != NULL;)
        add_driver(&list, library, "");
    free(copy);
    return list.count;
}

// ----------------------------------------------------------------------------------------- folders

static bool write_icd_file(const char *folder, int number, const char *library) {
    char path[512];
    snprintf(path, sizeof path, "%s/%02d.icd", folder, number);
    FILE *stream = fopen(path, "wxe");
    if (stream == NULL)
        return false;
    bool written = fprintf(stream, "%s\n", library) > 0;
    return fclose(stream) == 0 && written;
}

enum mmul_status mmul_drivers_store(const struct mmul_driver *drivers, int count,
                                    char folder[static 256], struct mmul_error *err) {
    char path[256];
    int length = snprintf(path, sizeof path, "%s/mpimatmul-icd.XXXXXX", mmul_temporary_folder());
    if (length >= (int)sizeof path || mkdtemp(path) == NULL) {
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM,
                               length < (int)sizeof path ? errno : ENAMETOOLONG,
                               "cannot make a folder '%s'", path);
    }
    for (int i = 0; i < count; i++) {
        if (!write_icd_file(path, i, drivers[i].library)) {
            int errnum = errno;
            mmul_drivers_remove(path);
            return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errnum, "cannot write into '%s'", path);
        }
    }
    mmul_text_copy(folder, 256, path);
    return MMUL_OK;
}

void mmul_drivers_remove(const char *folder) {
    for (int i = 0; i < MMUL_DRIVERS_MAX; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%02d.icd", folder, i);
        unlink(path);
    }
    rmdir(folder);
}

void mmul_drivers_select(const char *folder) {
    setenv("OCL_ICD_VENDORS", folder, 1);
    unsetenv("OCL_ICD_FILENAMES");
}
