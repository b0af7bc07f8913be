// SPDX-License-Identifier: MIT
// plan: what mul would do with the same options on the same ranks. Nothing is computed or written.
#include "cli/operands.h"
#include "cli/print.h"

static enum mmul_status print_plan(const struct call *call, const struct mmul_plan *plan,
                                   struct mmul_error *err) {
    if (call->options.values[OPT_JSON].number == 0) {
        mmul_plan_print(plan, stdout);
        return MMUL_OK;
    }
    char *text = NULL;
    enum mmul_status status = mmul_plan_json(plan, &text, err);
    if (status == MMUL_OK)
        puts(text);
    mmul_free(text);
    return status;
}

static enum mmul_status run(const struct call *call, struct mmul_error *err) {
    struct mmul_matmul args = mmul_operands_args(call);
    struct mmul_plan *plan = NULL;
    if (call->is_root)
        mmul_operands_open(call, &args, err);
    enum mmul_status status = mmul_agree(MPI_COMM_WORLD, err);
    if (status == MMUL_OK)
        status = mmul_plan_create(call->context, &args, &plan, err);
    if (status == MMUL_OK)
        status = mmul_print_new_warnings(call, err);
    if (status == MMUL_OK && call->is_root) {
        mmul_print_speed_origin(call);
        status = print_plan(call, plan, err);
    }
    mmul_plan_destroy(plan);
    mmul_operands_close(&args);
    return status;
}

static const enum option_id options[] = {
    OPT_TRANSPOSE_A, OPT_TRANSPOSE_B,   OPT_ALPHA,      OPT_BETA,    OPT_C_IN, OPT_WEIGHTS,
    OPT_DEVICE,      OPT_SPLIT,         OPT_SPLIT_RULE, OPT_IO,      OPT_TAIL, OPT_REPRODUCIBLE,
    OPT_MEMORY,      OPT_DEVICE_MEMORY, OPT_VERIFY,     OPT_THREADS, OPT_BIND, OPT_JSON,
    OPT_QUIET,       OPT_VERBOSE,       OPT_HELP,       OPT_END,
};

const struct command mmul_command_plan = {
    .name = "plan",
    .operands = "A B",
    .operands_least = 2,
    .operands_most = 2,
    .summary = "what mul would do: rows, memory, bytes, predicted seconds",
    .notes = "Run it as mul would be run: under the same mpirun, with the same options.\n",
    .options = options,
    .needs_mpi = true,
    .check = mmul_operands_check,
    .run = run,
};
