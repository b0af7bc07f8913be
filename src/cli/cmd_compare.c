// SPDX-License-Identifier: MIT
// compare: two runs side by side.
#include "cli/failure.h"
#include "cli/print.h"

static enum mmul_status run(const struct call *call, struct mmul_error *err) {
    struct mmul_comparison *comparison = NULL;
    char *text = NULL;
    enum mmul_status status =
        mmul_comparison_create(call->operands[0], call->operands[1], &comparison, err);
    if (status == MMUL_OK && call->options.values[OPT_JSON].number != 0)
        status = mmul_print_made(mmul_comparison_json(comparison, &text, err), &text, stdout);
    else if (status == MMUL_OK)
        mmul_comparison_print(comparison, call->options.values[OPT_VERBOSE].number != 0, stdout);
    mmul_comparison_destroy(comparison);
    return status;
}

static const enum option_id options[] = {OPT_JSON, OPT_VERBOSE, OPT_HELP, OPT_END};

const struct command mmul_command_compare = {
    .name = "compare",
    .operands = "A B",
    .operands_least = 2,
    .operands_most = 2,
    .summary = "two runs side by side, with what differs in their setting",
    .notes =
        "A and B are what --report of mul or run has written (or mul --json prints), or both what\n"
        "run --json prints. First stands what differs in sizes, types, ranks, machines, devices "
        "and\n"
        "kernels; then seconds, rates and bytes of both, and B over A. Of operations those that "
        "differ\n"
        "most; --verbose shows all.\n"
        "\n"
        "  mpimatmul compare before.json after.json\n",
    .options = options,
    .run = run,
};
