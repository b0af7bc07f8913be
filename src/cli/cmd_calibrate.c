// SPDX-License-Identifier: MIT
// calibrate: measures the speed of every device and link thoroughly, and stores the results for
// later plans.
#include "cli/print.h"
#include "cli/progress.h"
#include "mpimatmul.h"

static enum mmul_status run_calibrate(const struct call *call, struct mmul_error *err) {
    enum mmul_status status = mmul_context_calibrate(call->context, err);
    if (status == MMUL_OK)
        status = mmul_print_new_warnings(call, err);
    if (status != MMUL_OK || !call->is_root)
        return status;
    mmul_progress_fini(call->progress);
    char *text = NULL;
    if (call->options.values[OPT_JSON].number != 0)
        status = mmul_context_speeds_json(call->context, &text, err);
    else if (call->options.values[OPT_QUIET].number == 0)
        mmul_context_print_speeds(call->context, stdout);
    return mmul_print_owned_text(status, &text, stdout);
}

static const enum option_id options[] = {
    OPT_DEVICE,   OPT_THREADS, OPT_BIND, OPT_JSON, OPT_QUIET,
    OPT_PROGRESS, OPT_VERBOSE, OPT_HELP, OPT_END,
};

const struct command mmul_command_calibrate = {
    .name = "calibrate",
    .operands = "",
    .operands_min = 0,
    .operands_max = 0,
    .summary = "measure devices and links, and store it for later plans",
    .notes =
        "Run it as mul will be run: under the same mpirun, with the same devices and threads.\n"
        "Takes seconds, and more on slow devices. Each host's speeds go to a file of its own,\n"
        "$XDG_CACHE_HOME/mpimatmul/HOST.json, else ~/.cache/mpimatmul/HOST.json. mul and plan\n"
        "use them for the same host, device, driver, kernels, version, cores and threads; where\n"
        "one is missing, all are measured briefly, and not stored. --verbose there says which,\n"
        "and why a stored one was not used.\n"
        "Sizes whose times, repeated, did not agree are listed as unstable.\n",
    .doing = "measuring",
    .options = options,
    .needs_mpi = true,
    .run = run_calibrate,
};
