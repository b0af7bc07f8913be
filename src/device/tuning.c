// SPDX-License-Identifier: MIT
// Tuned kernel parameters: reads the tuners' files, stores and loads our own file, and applies
// parameters to a device. Trusts no file: this file checks the form of names and values, and the
// device's self-test checks the results. Calls no OpenCL and runs no tuner.
#include "device/tuning.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cache.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

enum { SCHEMA = 1, LARGEST_VALUE = 1 << 20 };

// The tuner's family -> the kernel that it tunes.
static const char *const families[][2] = {
    {"xgemm_1", "Xgemm"},
    {"xgemm_2", "Xgemm"},
    {"xgemm_11", "Xgemm"},
    {"xgemm_12", "Xgemm"},
    {"copy", "Copy"},
    {"xgemm_direct_1", "XgemmDirect"},
    {"pad", "Pad"},
    {"xgemm_direct_2", "XgemmDirect"},
    {"transpose", "Transpose"},
    {"padtranspose", "Padtranspose"},
    {"gemm_routine", "GemmRoutine"},
};

enum { FAMILIES = sizeof families / sizeof families[0] };

// ----------------------------------------------------------------------------------------- kernels

static struct mmul_tuned_kernel *find_kernel(struct mmul_tuning *tuning, const char *name) {
    for (int i = 0; i < tuning->count; i++)
        if (strcmp(tuning->kernels[i].kernel, name) == 0)
            return &tuning->kernels[i];
    return NULL;
}

static bool is_known_kernel(const char *name) {
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(families[i][1], name) == 0)
            return true;
    return false;
}

// Adds a parameter such as "MWG" or "COPY_DIMX". Skips the precision, which tuners list although it
// is no parameter of a kernel.
static bool add_parameter(struct mmul_tuned_kernel *kernel, const char *name, int64_t value) {
    size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (strcmp(name, "PRECISION") == 0)
        return true;
    if (kernel->count == MMUL_TUNED_PARAMETERS || length == 0 || name[length] != '\0' ||
        length >= sizeof kernel->names[0] || value < 0 || value > LARGEST_VALUE)
        return false;
    mmul_text_copy(kernel->names[kernel->count], sizeof kernel->names[0], name);
    kernel->values[kernel->count++] = value;
    return true;
}

// ----------------------------------------------------------------------------------- tuners' files

static enum mmul_status fail_tuner(const char *path, const char *why, struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' is not a result of CLBlast's tuners: %s", path, why);
}

// Returns a number that a tuner wrote as text, or `otherwise`.
static double number_of(const json_t *object, const char *name, double otherwise) {
    double value = otherwise;
    struct mmul_error ignored;
    const char *text = mmul_json_get_text(object, name);
    return text[0] != '\0' && mmul_parse_double(text, name, &value, &ignored) == MMUL_OK
               ? value
               : otherwise;
}

static int64_t side_of(const json_t *object, const char *name) {
    double side = number_of(object, name, 0);
    return side >= 0 && side < 1e9 ? (int64_t)side : 0;
}

// Parses "KREG=1 KWG=32 ..."
static bool parse_parameters(const char *text, struct mmul_tuned_kernel *kernel) {
    char word[64];
    struct mmul_error ignored;
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        if (length >= sizeof word)
            return false;
        mmul_text_copy(word, length + 1, text);
        char *value = strchr(word, '=');
        int64_t number = 0;
        if (value == NULL)
            return false;
        *value++ = '\0';
        if (mmul_parse_int64(value, word, 0, LARGEST_VALUE, &number, &ignored) != MMUL_OK ||
            !add_parameter(kernel, word, number))
            return false;
        text += length + strspn(text + length, " ");
    }
    return kernel->count > 0;
}

static enum mmul_status read_kernel(const char *path, const json_t *root,
                                    struct mmul_tuned_kernel *kernel, struct mmul_error *err) {
    const char *family = mmul_json_get_text(root, "kernel_family"), *name = NULL;
    *kernel = (struct mmul_tuned_kernel){.milliseconds = number_of(root, "best_time", -1),
                                         .m = side_of(root, "arg_m"),
                                         .n = side_of(root, "arg_n"),
                                         .k = side_of(root, "arg_k")};
    for (int i = 0; i < FAMILIES; i++)
        name = strcmp(families[i][0], family) == 0 ? families[i][1] : name;
    if (family[0] == '\0')
        return fail_tuner(path, "it has no kernel family", err);
    if (name == NULL) {
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' is for the kernel family '%.40s', which products do not use", path,
                         family);
    }
    if (strcmp(mmul_json_get_text(root, "precision"), "32") != 0) {
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' is of precision '%.10s', expected 32", path,
                         mmul_json_get_text(root, "precision"));
    }
    mmul_text_copy(kernel->kernel, sizeof kernel->kernel, name);
    if (!(kernel->milliseconds >= 0))
        return fail_tuner(path, "it has no best time", err);
    return parse_parameters(mmul_json_get_text(root, "best_parameters"), kernel)
               ? MMUL_OK
               : fail_tuner(path, "its best parameters are not a list of NAME=NUMBER", err);
}

// Adds a kernel to the set, unless the set has a faster one.
static enum mmul_status merge_kernel(const char *path, const struct mmul_tuned_kernel *kernel,
                                     struct mmul_tuning *tuning, struct mmul_error *err) {
    struct mmul_tuned_kernel *there = find_kernel(tuning, kernel->kernel);
    if (there == NULL) { // the array has a place for each known kernel
        tuning->kernels[tuning->count++] = *kernel;
        return MMUL_OK;
    }
    if (there->m != kernel->m || there->n != kernel->n || there->k != kernel->k) {
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' was measured at %lld x %lld x %lld, an earlier file of '%s' at %lld "
                         "x %lld x %lld: their times cannot be compared",
                         path, (long long)kernel->m, (long long)kernel->n, (long long)kernel->k,
                         kernel->kernel, (long long)there->m, (long long)there->n,
                         (long long)there->k);
    }
    if (kernel->milliseconds < there->milliseconds)
        *there = *kernel;
    return MMUL_OK;
}

enum mmul_status mmul_tuning_read(const char *path, struct mmul_tuning *tuning,
                                  struct mmul_error *err) {
    json_t *root = NULL;
    struct mmul_tuned_kernel kernel;
    enum mmul_status status = mmul_json_load(path, &root, err);
    if (status != MMUL_OK)
        return status;
    const char *device = mmul_json_get_text(root, "device");
    status = read_kernel(path, root, &kernel, err);
    if (status == MMUL_OK && tuning->device[0] != '\0' && strcmp(device, tuning->device) != 0) {
        status = mmul_fail(err, MMUL_ERR_DATA, "'%s' was measured on '%.100s', expected '%s'", path,
                           device, tuning->device);
    }
    if (status == MMUL_OK)
        status = merge_kernel(path, &kernel, tuning, err);
    if (status == MMUL_OK)
        mmul_text_copy(tuning->device, sizeof tuning->device, device);
    json_decref(root);
    return status;
}

// ---------------------------------------------------------------------------------------- our file

enum mmul_status mmul_tuning_path(const struct mmul_device_info *info, char path[static 512],
                                  struct mmul_error *err) {
    char key[sizeof info->name + sizeof info->vendor], name[64];
    int length = snprintf(key, sizeof key, "%s\n%s", info->name, info->vendor);
    snprintf(name, sizeof name, "tuned-%016llx.json",
             (unsigned long long)mmul_hash(key, (size_t)length));
    return mmul_cache_path(name, "tuned parameters", path, err);
}

static json_t *kernel_to_json(const struct mmul_tuned_kernel *kernel) {
    json_t *parameters = json_object();
    for (int i = 0; i < kernel->count; i++)
        json_object_set_new(parameters, kernel->names[i], json_integer(kernel->values[i]));
    return json_pack("{s:f, s:I, s:I, s:I, s:o}", "milliseconds", kernel->milliseconds, "m",
                     (json_int_t)kernel->m, "n", (json_int_t)kernel->n, "k", (json_int_t)kernel->k,
                     "parameters", parameters);
}

enum mmul_status mmul_tuning_store(const char *path, const struct mmul_tuning *tuning,
                                   struct mmul_error *err) {
    json_t *kernels = json_object();
    for (int i = 0; i < tuning->count; i++) {
        json_object_set_new(kernels, tuning->kernels[i].kernel,
                            kernel_to_json(&tuning->kernels[i]));
    }
    json_t *root = json_pack("{s:i, s:o, s:o, s:o, s:o}", "schema", SCHEMA, "device",
                             mmul_json_from_text(tuning->device), "vendor",
                             mmul_json_from_text(tuning->vendor), "driver",
                             mmul_json_from_text(tuning->driver), "kernels", kernels);
    char *text = NULL;
    enum mmul_status status = mmul_cache_make_folders(path, err);
    if (status == MMUL_OK) {
        status = root != NULL ? mmul_json_format(root, &text, err)
                              : mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate tuned parameters");
    }
    if (status == MMUL_OK)
        status = mmul_text_store(path, text, err);
    json_decref(root);
    mmul_free(text);
    return status;
}

static bool load_kernel(const char *name, const json_t *object, struct mmul_tuned_kernel *kernel) {
    const json_t *parameters = json_object_get(object, "parameters"), *value = NULL;
    const char *parameter = NULL;
    *kernel = (struct mmul_tuned_kernel){
        .milliseconds = json_number_value(json_object_get(object, "milliseconds")),
        .m = json_integer_value(json_object_get(object, "m")),
        .n = json_integer_value(json_object_get(object, "n")),
        .k = json_integer_value(json_object_get(object, "k"))};
    mmul_text_copy(kernel->kernel, sizeof kernel->kernel, name);
    json_object_foreach((json_t *)(uintptr_t)parameters, parameter, value) {
        if (!json_is_integer(value) || !add_parameter(kernel, parameter, json_integer_value(value)))
            return false;
    }
    return is_known_kernel(name) && kernel->count > 0;
}

static bool load_root(json_t *root, struct mmul_tuning *tuning) {
    json_t *kernels = json_object_get(root, "kernels"), *object = NULL;
    const char *name = NULL;
    *tuning = (struct mmul_tuning){.count = 0};
    mmul_text_copy(tuning->device, sizeof tuning->device, mmul_json_get_text(root, "device"));
    mmul_text_copy(tuning->vendor, sizeof tuning->vendor, mmul_json_get_text(root, "vendor"));
    mmul_text_copy(tuning->driver, sizeof tuning->driver, mmul_json_get_text(root, "driver"));
    if (json_integer_value(json_object_get(root, "schema")) != SCHEMA || !json_is_object(kernels))
        return false;
    json_object_foreach(kernels, name, object) {
        if (tuning->count == MMUL_TUNED_KERNELS ||
            !load_kernel(name, object, &tuning->kernels[tuning->count++]))
            return false;
    }
    return true;
}

enum mmul_status mmul_tuning_load(const char *path, struct mmul_tuning *tuning,
                                  struct mmul_error *err) {
    struct stat found;
    json_t *root = NULL;
    struct mmul_tuning loaded;
    if (stat(path, &found) != 0 && errno == ENOENT) {
        *tuning = (struct mmul_tuning){.count = 0};
        return MMUL_OK;
    }
    enum mmul_status status = mmul_json_load(path, &root, err);
    if (status != MMUL_OK)
        return status;
    if (load_root(root, &loaded)) {
        *tuning = loaded;
    } else {
        status = mmul_fail(err, MMUL_ERR_DATA, "'%s' is not a file of tuned parameters", path);
        mmul_hint(err, "remove it, or run `mpimatmul tune` again");
    }
    json_decref(root);
    return status;
}

// ------------------------------------------------------------------------------------- on a device

enum mmul_status mmul_tuning_apply(struct mmul_device *device, const struct mmul_tuning *tuning,
                                   struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < tuning->count && status == MMUL_OK; i++)
        status = mmul_device_tune(device, &tuning->kernels[i], err);
    return status;
}

enum mmul_status mmul_tuning_apply_stored(struct mmul_device *device, int *kernels,
                                          struct mmul_error *err) {
    struct mmul_device_info info;
    struct mmul_tuning tuning;
    struct mmul_error ignored;
    char path[512];
    *kernels = 0;
    mmul_device_describe(device, &info);
    if (device->table->tune == NULL || mmul_tuning_path(&info, path, &ignored) != MMUL_OK)
        return MMUL_OK;
    enum mmul_status status = mmul_tuning_load(path, &tuning, err);
    if (status != MMUL_OK || tuning.count == 0)
        return status;
    if (strcmp(tuning.device, info.name) != 0 || strcmp(tuning.vendor, info.vendor) != 0 ||
        strcmp(tuning.driver, info.driver) != 0) {
        mmul_fail(err, MMUL_ERR_DATA,
                  "tuned parameters of '%s' are for driver '%s', this is '%s': not used", info.name,
                  tuning.driver, info.driver);
        mmul_hint(err, "run `mpimatmul tune` again");
        return MMUL_ERR_DATA;
    }
    status = mmul_tuning_apply(device, &tuning, err);
    *kernels = status == MMUL_OK ? tuning.count : 0;
    return status;
}
