// SPDX-License-Identifier: MIT
// devices: lists every rank with its host, cores and device, and every unused device with the
// reason. With --test, also checks and times each device. All data comes from the context.
#include "cli/failure.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "mpimatmul.h"

static bool wants_json(const struct call *call) {
    return call->options.values[OPT_JSON].number != 0;
}

// Tests the devices. Results are printed even if one failed.
static enum mmul_status test_devices(const struct call *call, struct mmul_error *err) {
    const double timeout = call->options.values[OPT_DEVICE_TIMEOUT].real;
    int failed = 0, tested = 0;
    char *text = NULL;
    enum mmul_status status = mmul_context_test(call->context, timeout, &failed, &tested, err);
    if (status == MMUL_OK)
        status = mmul_print_new_warnings(call, err);
    mmul_progress_fini(call->progress);
    if (status == MMUL_OK && call->is_root && wants_json(call))
        status = mmul_print_owned_text(mmul_context_tests_json(call->context, &text, err), &text,
                                       stdout);
    else if (status == MMUL_OK && call->is_root && call->options.values[OPT_QUIET].number == 0)
        mmul_context_print_tests(call->context, stdout);
    if (status != MMUL_OK || failed == 0)
        return status;
    return mmul_cli_fail(err, MMUL_ERR_WRONG, "%d of %d device%s failed", failed, tested,
                         tested == 1 ? "" : "s");
}

static enum mmul_status run_devices(const struct call *call, struct mmul_error *err) {
    if (call->options.values[OPT_TEST].number != 0)
        return test_devices(call, err);
    char *text = NULL;
    mmul_progress_fini(call->progress);
    if (call->is_root && wants_json(call))
        return mmul_print_owned_text(mmul_context_json(call->context, &text, err), &text, stdout);
    if (call->is_root)
        mmul_context_print(call->context, call->options.values[OPT_VERBOSE].number != 0, stdout);
    return MMUL_OK;
}

static const enum option_id options[] = {
    OPT_TEST,  OPT_DEVICE,   OPT_DEVICE_TIMEOUT, OPT_THREADS, OPT_BIND, OPT_JSON,
    OPT_QUIET, OPT_PROGRESS, OPT_VERBOSE,        OPT_HELP,    OPT_END,
};

const struct command mmul_command_devices = {
    .name = "devices",
    .operands = "",
    .operands_min = 0,
    .operands_max = 0,
    .summary = "ranks, their devices, and unused devices with reasons",
    .notes =
        "Under mpirun it shows every rank; alone it shows this machine.\n"
        "\n"
        "--test multiplies small matrices of odd sizes on each device, in float32 and, where it\n"
        "has doubles, in float64, compares them with plain loops, and times products and\n"
        "transfers. It ends with 79 when a device fails. That is remembered for this device and\n"
        "driver, where calibrate stores speeds: `auto` leaves a device that failed alone until it\n"
        "passes or its driver changes. Where OpenBLAS's kernels are forced (OPENBLAS_CORETYPE,\n"
        "OPENBLAS_L2_SIZE), or use narrower vectors than the processor has, --test says what is\n"
        "lost, and what to do.\n",
    .doing = "looking",
    .options = options,
    .needs_mpi = true,
    .queries_all_devices = true,
    .run = run_devices,
};
