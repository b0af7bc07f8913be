// SPDX-License-Identifier: MIT
// tune: finds parameters of CLBlast's kernels for one OpenCL device of this machine and stores them
// for later runs. The parameters come from CLBlast's tuners or from files that they left.
#include <stdlib.h>

#include "cli/failure.h"
#include "cli/print.h"

// Chooses the first device that `auto` would use.
static enum mmul_status choose_device(char name[static 16], struct mmul_error *err) {
    struct mmul_probe *probe = NULL;
    const struct mmul_device_info *devices = NULL;
    const struct mmul_probe_options look = {.limit_seconds = 10, .ask_again = true};
    enum mmul_status status = mmul_probe_create(&look, &probe, err);
    if (status != MMUL_OK)
        return status;
    int count = mmul_probe_devices(probe, &devices), chosen = 0;
    while (chosen < count && !devices[chosen].usable)
        chosen++;
    if (chosen < count)
        snprintf(name, 16, "%s", devices[chosen].id);
    mmul_probe_destroy(probe);
    if (chosen < count)
        return MMUL_OK;
    mmul_cli_fail(err, MMUL_ERR_UNAVAILABLE, "no GPU on this machine to tune");
    return mmul_cli_hint(err, "name another OpenCL device with --device P:D, as clinfo numbers it");
}

static void print_progress(void *context, const char *line) {
    mmul_print_remark(context, "%s", line);
}

static void print_result(const struct call *call, const struct mmul_tune_result *result) {
    const long long side = result->side;
    printf(
        "%s (%s): %d kernel%s tuned, a product of %lld x %lld x %lld: %.1f GFLOP/s, %.1f before\n",
        result->device.id, result->device.name, result->kernels, result->kernels == 1 ? "" : "s",
        side, side, side, result->flops_after / 1e9, result->flops_before / 1e9);
    if (result->stored)
        printf("stored in %s\n", result->path);
    else
        mmul_print_remark(call, "not stored: slower than before (--force stores it anyway)");
}

static enum mmul_status run_tune(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    char name[16] = "";
    struct mmul_tune_result result;
    struct mmul_tune_options options = {
        .device = values[OPT_TUNE_DEVICE].text != NULL ? values[OPT_TUNE_DEVICE].text : name,
        .files = call->operand_count > 0 ? (const char *const *)call->operands : NULL,
        .file_count = call->operand_count,
        .limit_seconds = (double)values[OPT_TUNE_LIMIT].number,
        .size = values[OPT_TUNE_SIZE].number,
        .fraction = values[OPT_TUNE_FRACTION].number,
        .force = values[OPT_FORCE].number != 0,
        .progress = print_progress,
        .progress_context = (void *)(uintptr_t)call,
    };
    enum mmul_status status = MMUL_OK;
    if (values[OPT_TUNE_DEVICE].text == NULL)
        status = choose_device(name, err);
    if (status == MMUL_OK)
        status = mmul_tune(&options, &result, err);
    if (status == MMUL_OK)
        print_result(call, &result);
    return status;
}

static const enum option_id options[] = {
    OPT_TUNE_DEVICE, OPT_TUNE_LIMIT, OPT_TUNE_SIZE, OPT_TUNE_FRACTION, OPT_FORCE,
    OPT_QUIET,       OPT_VERBOSE,    OPT_HELP,      OPT_END,
};

const struct command mmul_command_tune = {
    .name = "tune",
    .operands = "[FILE...]",
    .operands_min = 0,
    .operands_max = 64,
    .summary = "faster kernels for one OpenCL device, kept for later runs",
    .notes =
        "Runs CLBlast's tuners (package clblast-utils), which takes minutes to hours, or reads\n"
        "the FILEs they left (clblast_xgemm_1_32.json ...). What they found is tried on\n"
        "products of odd sizes and kept for this device and driver; `calibrate` again then.\n"
        "\n"
        "  mpimatmul tune --device 0:0\n"
        "  mpimatmul tune --device 0:0 clblast_*.json\n",
    .options = options,
    .run = run_tune,
};
