// SPDX-License-Identifier: MIT
// devices: every rank with its host, cores and device, and every device that is not used, with the
// reason. The context knows it all.
#include "cli/print.h"
#include "mpimatmul.h"

static enum mmul_status run(const struct call *call, struct mmul_error *err) {
    if (!call->is_root)
        return MMUL_OK;
    if (call->options.values[OPT_JSON].number == 0) {
        mmul_context_print(call->context, stdout);
        return MMUL_OK;
    }
    char *text = NULL;
    enum mmul_status status = mmul_context_json(call->context, &text, err);
    if (status == MMUL_OK)
        puts(text);
    mmul_free(text);
    return status;
}

static const enum option_id options[] = {
    OPT_DEVICE, OPT_THREADS, OPT_BIND, OPT_JSON, OPT_QUIET, OPT_VERBOSE, OPT_HELP, OPT_END,
};

const struct command mmul_command_devices = {
    .name = "devices",
    .operands = "",
    .operands_least = 0,
    .operands_most = 0,
    .summary = "ranks, their devices, and what is not used and why",
    .notes = "Under mpirun it shows every rank; alone it shows this machine.\n",
    .options = options,
    .needs_mpi = true,
    .run = run,
};
