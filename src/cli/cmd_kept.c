// SPDX-License-Identifier: MIT
// kept: lists or removes persistent sets of shards in the folders of all ranks.
#include "cli/failure.h"
#include "cli/print.h"
#include "mpimatmul.h"

static enum mmul_status run_kept(const struct call *call, struct mmul_error *err) {
    const char *const *names = (const char *const *)call->operands;
    char *text = NULL;
    if (call->options.values[OPT_REMOVE].number != 0)
        return mmul_context_remove_kept(call->context, names, call->operand_count, err);
    const bool json = call->options.values[OPT_JSON].number != 0;
    enum mmul_status status =
        mmul_context_list_kept(call->context, names, call->operand_count, json, &text, err);
    if (status == MMUL_OK && call->is_root && json)
        return mmul_print_owned_text(status, &text, stdout);
    if (status == MMUL_OK && call->is_root)
        mmul_print_table(text, "llllrrrl", "  ", stdout);
    mmul_free(text);
    return status;
}

static enum mmul_status check_kept(const struct call *call, struct mmul_error *err) {
    if (call->options.values[OPT_REMOVE].number == 0 || call->operand_count > 0)
        return MMUL_OK;
    mmul_cli_fail(err, MMUL_ERR_USAGE, "kept: --remove needs the name of a set");
    return mmul_cli_hint(err, "mpimatmul kept NAME... --remove");
}

static const enum option_id options[] = {
    OPT_REMOVE, OPT_SHARD_DIR, OPT_JSON, OPT_QUIET, OPT_VERBOSE, OPT_HELP, OPT_END,
};

const struct command mmul_command_kept = {
    .name = "kept",
    .operands = "[NAME...]",
    .operands_min = 0,
    .operands_max = 1 << 10,
    .summary = "sets of shards that stay on the ranks",
    .notes =
        "mul --keep, -o kept:NAME and save(\"kept:NAME\", x) leave a matrix on the ranks of the "
        "job,\n"
        "each its part; kept:NAME is that matrix for later jobs of the same ranks on the same\n"
        "machines. Under mpirun this lists the folders of all ranks, else this machine's.\n"
        "\n"
        "  mpirun -q -n 2 mpimatmul mul A.npy B.npy -o kept:C\n"
        "  mpirun -q -n 2 mpimatmul mul kept:C D.npy -o E.npy\n"
        "  mpirun -q -n 2 mpimatmul kept C --remove\n",
    .options = options,
    .needs_mpi = true,
    .check = check_kept,
    .run = run_kept,
};
