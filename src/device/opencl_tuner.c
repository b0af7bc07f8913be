// SPDX-License-Identifier: MIT
// Runs CLBlast's tuners and stores the parameters in a file for later runs. The tuners are separate
// programs (Debian: clblast-utils). Each runs in a temporary folder and may crash or be stopped;
// its results so far count. The parameters are then tried in a child process: a driver may crash
// there, and CLBlast's parameters end with that process.
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "device/self_test.h"
#include "device/tuning.h"

static const double TUNER_SECONDS = 3600, TRIAL_SECONDS = 600;
static const double NOT_SLOWER = 0.95; // fraction of the earlier speed: measurements vary

enum { DIRECT_SIDE = 256, ARGUMENTS = 16 };

// Short tuners first.
static const struct {
    const char *program;
    int64_t largest; // largest side that it measures; 0: any
} tuners[] = {
    {"clblast_tuner_copy_fast", 0},
    {"clblast_tuner_copy_pad", 0},
    {"clblast_tuner_transpose_fast", 0},
    {"clblast_tuner_transpose_pad", 0},
    {"clblast_tuner_xgemm_direct", DIRECT_SIDE},
    {"clblast_tuner_xgemm", 0},
};

enum { TUNERS = sizeof tuners / sizeof tuners[0] };

static void report_progress(const struct mmul_tune_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void report_progress(const struct mmul_tune_options *options, const char *format, ...) {
    char line[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (options->progress != NULL)
        options->progress(options->progress_context, line);
}

// -------------------------------------------------------------------------------- the tuners' work

// Builds the arguments of a tuner; `text` holds its numbers.
static void make_arguments(const struct mmul_tune_options *options, int tuner, char text[3][32],
                           const char *argv[static ARGUMENTS]) {
    int count = 0;
    const char *colon = strchr(options->device, ':');
    int64_t size = options->size, largest = tuners[tuner].largest;
    snprintf(text[0], 32, "%.*s", (int)(colon - options->device), options->device);
    snprintf(text[1], 32, "%lld", (long long)(largest > 0 ? mmul_min(size, largest) : size));
    snprintf(text[2], 32, "%lld", (long long)options->fraction);
    argv[count++] = tuners[tuner].program;
    argv[count++] = "-platform", argv[count++] = text[0];
    argv[count++] = "-device", argv[count++] = colon + 1;
    argv[count++] = "-precision", argv[count++] = "32";
    if (size > 0) {
        argv[count++] = "-m", argv[count++] = text[1];
        argv[count++] = "-n", argv[count++] = text[1];
        argv[count++] = "-k", argv[count++] = text[1]; // ignored by tuners without k
    }
    if (options->fraction > 0)
        argv[count++] = "-fraction", argv[count++] = text[2];
    argv[count] = NULL;
}

static enum mmul_status run_tuner(const struct mmul_tune_options *options, int tuner,
                                  const char *folder, int *missing, struct mmul_error *err) {
    char text[3][32];
    const char *argv[ARGUMENTS], *program = tuners[tuner].program;
    double limit = options->limit_seconds > 0 ? options->limit_seconds : TUNER_SECONDS;
    enum mmul_child_end end;
    int detail = 0;
    make_arguments(options, tuner, text, argv);
    report_progress(options, "%s ...", program);
    double begin = mmul_clock_now();
    enum mmul_status status = mmul_child_run_executable(argv, folder, limit, &end, &detail, err);
    if (status != MMUL_OK)
        return status;
    *missing += end == MMUL_CHILD_EXITED && detail == 127;
    if (end == MMUL_CHILD_DONE) {
        report_progress(options, "%s: %.0f s", program, mmul_clock_now() - begin);
    } else if (end == MMUL_CHILD_HUNG) {
        report_progress(options, "%s: stopped after %.0f s", program, limit);
    } else if (end == MMUL_CHILD_CRASHED) {
        report_progress(options, "%s: crashed (signal %d)", program, detail);
    } else {
        report_progress(options, "%s: %s (status %d)", program,
                        detail == 127 ? "is not on PATH" : "ended with a failure", detail);
    }
    return MMUL_OK;
}

// Reads the tuners' results and removes the folder. Reports unusable results.
static void collect_results(const struct mmul_tune_options *options, const char *folder,
                            struct mmul_tuning *tuning) {
    DIR *files = opendir(folder);
    struct dirent *entry = NULL;
    while (files != NULL && (entry = readdir(files)) != NULL) {
        char path[512];
        struct mmul_error err;
        size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.' ||
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path)
            continue;
        if (length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0 &&
            mmul_tuning_read(path, tuning, &err) != MMUL_OK)
            report_progress(options, "%s", err.text);
        unlink(path);
    }
    if (files != NULL)
        closedir(files);
    rmdir(folder);
}

static enum mmul_status run_tuners(const struct mmul_tune_options *options,
                                   struct mmul_tuning *tuning, struct mmul_error *err) {
    char folder[256];
    int missing = 0;
    snprintf(folder, sizeof folder, "%s/mpimatmul-tune.XXXXXX", mmul_temporary_folder());
    if (mkdtemp(folder) == NULL)
        return mmul_fail_errno(err, MMUL_ERR_CREATE, errno, "cannot create folder '%s'", folder);
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < TUNERS && status == MMUL_OK; i++)
        status = run_tuner(options, i, folder, &missing, err);
    collect_results(options, folder, tuning);
    if (status != MMUL_OK || tuning->count > 0)
        return status;
    mmul_fail(err, MMUL_ERR_UNAVAILABLE, "%s",
              missing == TUNERS ? "cannot tune: CLBlast's tuners are not on PATH"
                                : "cannot tune: none of CLBlast's tuners left a usable result");
    if (missing == TUNERS)
        mmul_hint(err, "Debian and Ubuntu have them in the package clblast-utils");
    return MMUL_ERR_UNAVAILABLE;
}

// ----------------------------------------------------------------------------------------- a trial

// Returns the side of the product that is timed before and after tuning.
static int64_t trial_side(const struct mmul_tune_options *options) {
    return options->size > 0 ? options->size : 1024;
}

struct trial {
    const char *device;
    const struct mmul_tuning *tuning;
    int64_t side; // side of the timed product
};

struct verdict {
    struct mmul_error err;
    struct mmul_device_info info;
    double flops;
};

// Runs in the child: opens and tunes the device, then tests its products and measures their speed.
static void try_device(const void *argument, void *result) {
    const struct trial *trial = argument;
    struct verdict *verdict = result;
    struct mmul_device *device = NULL;
    enum mmul_status status = mmul_device_open(trial->device, &device, &verdict->err);
    if (status == MMUL_OK) {
        mmul_device_describe(device, &verdict->info);
        status = mmul_tuning_apply(device, trial->tuning, &verdict->err);
    }
    if (status == MMUL_OK)
        status = mmul_device_warm_up(device, MMUL_F32, INFINITY, &verdict->err);
    if (status == MMUL_OK)
        status = mmul_device_self_test(device, MMUL_F32, &verdict->err);
    if (status == MMUL_OK)
        status = mmul_device_time_product(device, trial->side, &verdict->flops, &verdict->err);
    verdict->err.status = status;
}

static enum mmul_status try_in_child(const struct mmul_tune_options *options,
                                     const struct mmul_tuning *tuning, struct verdict *verdict,
                                     struct mmul_error *err) {
    const char *device = options->device;
    const struct trial trial = {device, tuning, trial_side(options)};
    struct mmul_child child;
    int detail = 0;
    enum mmul_status status = mmul_child_start(try_device, &trial, sizeof *verdict, &child, err);
    if (status != MMUL_OK)
        return status;
    enum mmul_child_end end =
        mmul_child_finish(&child, mmul_clock_now() + TRIAL_SECONDS, verdict, &detail);
    if (end == MMUL_CHILD_DONE) {
        *err = verdict->err.status != MMUL_OK ? verdict->err : *err;
        return verdict->err.status;
    }
    return mmul_fail(err, MMUL_ERR_WRONG, "device '%s' %s in its self-test (%s %d)", device,
                     end == MMUL_CHILD_HUNG      ? "hung"
                     : end == MMUL_CHILD_CRASHED ? "crashed"
                                                 : "ended the process",
                     end == MMUL_CHILD_CRASHED ? "signal" : "status", detail);
}

// ------------------------------------------------------------------------------------------ tuning

// Tries the tuned parameters and stores them.
static enum mmul_status try_and_store(const struct mmul_tune_options *options,
                                      struct mmul_tuning *tuning, const struct verdict *before,
                                      struct mmul_tune_result *result, struct mmul_error *err) {
    struct verdict after;
    struct mmul_error why;
    enum mmul_status status = try_in_child(options, tuning, &after, &why);
    if (status != MMUL_OK) // the device passed without them, so that the parameters are at fault
        return mmul_fail(err, status == MMUL_ERR_DATA ? MMUL_ERR_DATA : MMUL_ERR_WRONG,
                         "the tuned parameters are not stored: %.900s", why.text);
    struct mmul_tune_result found = {.device = before->info,
                                     .kernels = tuning->count,
                                     .side = trial_side(options),
                                     .flops_before = before->flops,
                                     .flops_after = after.flops};
    mmul_text_copy(tuning->vendor, sizeof tuning->vendor, before->info.vendor);
    mmul_text_copy(tuning->driver, sizeof tuning->driver, before->info.driver);
    found.stored = options->force || after.flops >= NOT_SLOWER * before->flops;
    status = mmul_tuning_path(&before->info, found.path, err);
    if (status == MMUL_OK && found.stored)
        status = mmul_tuning_store(found.path, tuning, err);
    if (status == MMUL_OK)
        *result = found;
    return status;
}

enum mmul_status mmul_tune(const struct mmul_tune_options *options, struct mmul_tune_result *result,
                           struct mmul_error *err) {
    const struct mmul_tuning none = {.count = 0};
    struct mmul_tuning tuning = {.count = 0};
    struct mmul_tune_options taken;
    struct verdict before;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_tune_options, options, &taken, err);
    if (status != MMUL_OK)
        return status;
    options = &taken;
    const char *colon = strchr(options->device, ':');
    if (mmul_device_check_name(options->device, err) != MMUL_OK || colon == NULL ||
        strncmp(options->device, "faulty:", 7) == 0) {
        return mmul_fail(err, MMUL_ERR_USAGE, "'%s' is not an OpenCL device: expected P:D",
                         options->device);
    }
    for (int i = 0; i < options->file_count && status == MMUL_OK; i++)
        status = mmul_tuning_read(options->files[i], &tuning, err);
    if (status == MMUL_OK) {
        report_progress(options, "testing the device with its present parameters ...");
        status = try_in_child(options, &none, &before, err);
    }
    if (status == MMUL_OK && options->files == NULL)
        status = run_tuners(options, &tuning, err);
    if (status != MMUL_OK)
        return status;
    if (strcmp(tuning.device, before.info.name) != 0)
        return mmul_fail(err, MMUL_ERR_DATA,
                         "the parameters were measured on '%s', device '%s' is '%s'", tuning.device,
                         before.info.id, before.info.name);
    report_progress(options, "testing %d tuned kernel%s ...", tuning.count,
                    mmul_text_plural(tuning.count));
    return try_and_store(options, &tuning, &before, result, err);
}
