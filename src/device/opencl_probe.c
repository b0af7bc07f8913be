// SPDX-License-Identifier: MIT
// Probes OpenCL. A valid stored list (opencl_device_list) replaces the probe. Otherwise one child
// process lists all devices. If it crashes, exits with a failure or hangs, every driver is tried
// alone in a child of its own, all at the same time. Warnings name the bad drivers, the others are
// listed again, and the loader of this process is restricted to them. Opens no device; devices are
// opened later, by name.
#include "base/cache.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "device/opencl_device.h"
#include "device/opencl_device_list.h"
#include "device/opencl_drivers.h"
#include "device/pocl_cache.h"
#include "device/probe.h"

#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double QUIET_SECONDS = 2; // delay before the caller is told about the wait

// A probe in progress.
struct probing {
    const struct mmul_probe_options *options; // borrowed, like `probe`, which receives the devices
    struct mmul_probe *probe;
    struct mmul_opencl_device_list listing; // in the end, the devices found
};

// ----------------------------------------------------------------------------------------- listing

// A child that lists devices. PoCL leaves a file in its cache for every such process, so that the
// child gets a temporary cache of its own.
struct lister {
    struct mmul_child child;
    // Folder of the drivers to use (mmul_drivers_store); NULL: those of the environment.
    const char *folder;
    char cache[256]; // "": none
};

static void list_devices(const void *argument, void *result) {
    const struct lister *lister = argument;
    if (lister->folder != NULL)
        mmul_drivers_select(lister->folder);
    if (lister->cache[0] != '\0')
        setenv("POCL_CACHE_DIR", lister->cache, 1);
    struct mmul_opencl_device_list *listing = result;
    mmul_opencl_list(listing->devices, &listing->count);
    mmul_opencl_device_list_add_libraries(listing);
}

static enum mmul_status start_lister(const char *folder, struct lister *lister,
                                     struct mmul_error *err) {
    lister->folder = folder;
    int length = snprintf(lister->cache, sizeof lister->cache, "%s/mpimatmul-probe.XXXXXX",
                          mmul_temporary_folder());
    if (length >= (int)sizeof lister->cache || mkdtemp(lister->cache) == NULL)
        lister->cache[0] = '\0';
    enum mmul_status status = mmul_child_start(
        list_devices, lister, sizeof(struct mmul_opencl_device_list), &lister->child, err);
    if (status != MMUL_OK && lister->cache[0] != '\0')
        rmdir(lister->cache);
    return status;
}

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *walk) {
    (void)info;
    (void)flag;
    (void)walk;
    return remove(path);
}

// Ends a child like mmul_child_finish. An invalid list counts as a failed exit.
static enum mmul_child_end finish_lister(struct lister *lister, double deadline,
                                         struct mmul_opencl_device_list *listing, int *detail) {
    enum mmul_child_end end = mmul_child_finish(&lister->child, deadline, listing, detail);
    if (lister->cache[0] != '\0')
        nftw(lister->cache, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    bool is_list = listing->count >= 0 && listing->count <= MMUL_OPENCL_DEVICES_MAX;
    return end == MMUL_CHILD_DONE && !is_list ? MMUL_CHILD_EXITED : end;
}

// Tells the caller after QUIET_SECONDS which drivers have not answered.
static void wait_with_notice(const struct lister *lister,
                             const struct mmul_probe_options *options) {
    struct pollfd ready = {.fd = lister->child.output, .events = POLLIN};
    double end = mmul_clock_now() + QUIET_SECONDS, left = QUIET_SECONDS;
    if (options->waiting == NULL || options->limit_seconds <= QUIET_SECONDS)
        return;
    for (; left > 0; left = end - mmul_clock_now())
        if (poll(&ready, 1, (int)(left * 1000) + 1) > 0)
            return;
    struct mmul_driver drivers[MMUL_DRIVERS_MAX];
    struct mmul_text names = {0};
    int count = mmul_drivers_list(drivers);
    mmul_text_add(&names, "OpenCL drivers to list their devices (");
    for (int i = 0; i < count; i++)
        mmul_text_add(&names, "%s%s", i > 0 ? ", " : "", drivers[i].library);
    mmul_text_add(&names, ")");
    options->waiting(options->context, mmul_text_get(&names));
    mmul_text_fini(&names);
}

// Writes, for instance, "crashed (signal 11) while listing its devices".
static void describe_end(enum mmul_child_end end, int detail, double limit_seconds,
                         char text[static 96]) {
    switch (end) {
    case MMUL_CHILD_CRASHED:
        snprintf(text, 96, "crashed (signal %d) while listing its devices", detail);
        break;
    case MMUL_CHILD_HUNG:
        snprintf(text, 96, "did not answer within %g s", limit_seconds);
        break;
    default:
        snprintf(text, 96, "ended the process (status %d) while listing its devices", detail);
        break;
    }
}

// ------------------------------------------------------------------------------- one driver alone

// A driver on trial.
struct trial {
    struct mmul_driver driver;
    char folder[256]; // with its .icd file alone; "" if not made
    struct lister lister;
    bool good;
};

static enum mmul_status start_trial(struct trial *trial, struct mmul_error *err) {
    enum mmul_status status = mmul_drivers_store(&trial->driver, 1, trial->folder, err);
    return status == MMUL_OK ? start_lister(trial->folder, &trial->lister, err) : status;
}

// Warns of a bad driver.
static enum mmul_status finish_trial(struct trial *trial, double deadline,
                                     struct mmul_opencl_device_list *scratch,
                                     struct probing *probing, struct mmul_error *err) {
    const struct mmul_driver *driver = &trial->driver;
    char line[800], file[300] = "", what[96];
    int detail = 0;
    enum mmul_child_end end = finish_lister(&trial->lister, deadline, scratch, &detail);
    trial->good = end == MMUL_CHILD_DONE;
    if (trial->good)
        return MMUL_OK;
    describe_end(end, detail, probing->options->limit_seconds, what);
    if (driver->file[0] != '\0')
        snprintf(file, sizeof file, " (%s)", driver->file);
    snprintf(line, sizeof line, "OpenCL driver '%s'%s %s: not used", driver->library, file, what);
    return mmul_probe_add_warning(probing->probe, line, err);
}

// Tries all drivers at the same time. Finishes all started children even after a failure.
static enum mmul_status run_trials(struct trial *trials, int count, struct probing *probing,
                                   struct mmul_error *err) {
    struct mmul_opencl_device_list *scratch = NULL;
    enum mmul_status status = MMUL_ALLOCATE(scratch, 1, "a device list", err);
    for (int i = 0; i < count && status == MMUL_OK; i++)
        status = start_trial(&trials[i], err);
    double deadline =
        mmul_clock_now() + (status == MMUL_OK ? probing->options->limit_seconds : 0.0);
    for (int i = 0; i < count; i++) {
        struct mmul_error ignored;
        if (trials[i].lister.child.pid != 0) {
            enum mmul_status ended = finish_trial(&trials[i], deadline, scratch, probing,
                                                  status == MMUL_OK ? err : &ignored);
            status = status == MMUL_OK ? ended : status;
        }
        if (trials[i].folder[0] != '\0')
            mmul_drivers_remove(trials[i].folder);
    }
    mmul_free(scratch);
    return status;
}

// ---------------------------------------------------------------------------- the good ones again

// Lists the devices of the drivers in `folder`. On success, starts the loader of this process on
// them while the folder exists. The environment names the folder even after its removal: a program
// started by this process then finds no driver instead of a bad one.
static enum mmul_status use_drivers(const char *folder, struct probing *probing,
                                    struct mmul_error *err) {
    const double limit_seconds = probing->options->limit_seconds;
    struct lister lister = {.folder = NULL};
    int detail = 0;
    enum mmul_status status = start_lister(folder, &lister, err);
    if (status != MMUL_OK)
        return status;
    enum mmul_child_end end =
        finish_lister(&lister, mmul_clock_now() + limit_seconds, &probing->listing, &detail);
    mmul_drivers_select(folder);
    if (end == MMUL_CHILD_DONE) {
        cl_uint count = 0;
        (void)clGetPlatformIDs(0, NULL, &count);
        return MMUL_OK;
    }
    probing->listing.count = 0;
    char what[96], line[256];
    describe_end(end, detail, limit_seconds, what);
    snprintf(line, sizeof line,
             "OpenCL drivers work alone but not together (a child process %s): none is used", what);
    return mmul_probe_add_warning(probing->probe, line, err);
}

static enum mmul_status use_good_drivers(const struct trial *trials, int count,
                                         struct probing *probing, struct mmul_error *err) {
    struct mmul_driver good[MMUL_DRIVERS_MAX];
    char folder[256];
    int good_count = 0;
    for (int i = 0; i < count; i++)
        if (trials[i].good)
            good[good_count++] = trials[i].driver;
    enum mmul_status status = mmul_drivers_store(good, good_count, folder, err);
    if (status != MMUL_OK)
        return status;
    status = use_drivers(folder, probing, err);
    mmul_drivers_remove(folder);
    return status;
}

static enum mmul_status find_bad_drivers(struct probing *probing, struct mmul_error *err) {
    struct mmul_driver drivers[MMUL_DRIVERS_MAX];
    int count = mmul_drivers_list(drivers);
    struct trial *trials = mmul_allocate(count, sizeof *trials, "a list of OpenCL drivers", err);
    if (trials == NULL)
        return err->status;
    for (int i = 0; i < count; i++)
        trials[i].driver = drivers[i];
    enum mmul_status status = run_trials(trials, count, probing, err);
    if (status == MMUL_OK)
        status = use_good_drivers(trials, count, probing, err);
    mmul_free(trials);
    return status;
}

// ------------------------------------------------------------------------------------------- probe

static enum mmul_status ask_drivers(struct probing *probing, struct mmul_error *err) {
    struct lister lister = {.folder = NULL};
    int detail = 0;
    enum mmul_status status = start_lister(NULL, &lister, err);
    if (status != MMUL_OK)
        return status;
    double deadline = mmul_clock_now() + probing->options->limit_seconds;
    wait_with_notice(&lister, probing->options);
    enum mmul_child_end end = finish_lister(&lister, deadline, &probing->listing, &detail);
    if (end == MMUL_CHILD_DONE) {
        mmul_opencl_device_list_store(&probing->listing);
        return MMUL_OK;
    }
    probing->listing.count = 0;
    return find_bad_drivers(probing, err);
}

// Replaces PoCL's cache for this process if needed. A child that lists devices has a temporary
// cache, but this process opens the devices.
static enum mmul_status prepare_cache(const struct probing *probing, struct mmul_error *err) {
    char own[512], ours[512], line[1200];
    bool has_pocl = false;
    for (int i = 0; i < probing->listing.count; i++)
        has_pocl |=
            strstr(probing->listing.devices[i].platform, "Portable Computing Language") != NULL;
    if (!has_pocl || !mmul_pocl_cache_replace(own, ours) ||
        mmul_probe_is_automatic(probing->options))
        return MMUL_OK;
    snprintf(line, sizeof line, "PoCL cannot write to its cache '%s' and uses '%s' instead", own,
             ours);
    return mmul_probe_add_warning(probing->probe, line, err);
}

enum mmul_status mmul_opencl_probe(const struct mmul_probe_options *options,
                                   struct mmul_probe *probe, struct mmul_error *err) {
    struct probing *probing;
    enum mmul_status status = MMUL_ALLOCATE(probing, 1, "a look at OpenCL", err);
    if (status != MMUL_OK)
        return status;
    probing->options = options;
    probing->probe = probe;
    bool is_known = mmul_probe_is_automatic(options) && mmul_opencl_has_only_cpus();
    if (!is_known && !options->ask_again)
        is_known = mmul_opencl_device_list_load(&probing->listing);
    if (!is_known)
        status = ask_drivers(probing, err);
    if (status == MMUL_OK)
        status = prepare_cache(probing, err);
    for (int i = 0; status == MMUL_OK && i < probing->listing.count; i++)
        mmul_probe_add_device(probe, &probing->listing.devices[i]);
    mmul_free(probing);
    return status;
}
