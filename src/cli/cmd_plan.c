// SPDX-License-Identifier: MIT
// plan: shows how mul would run with these options on these ranks. With --simulate, shows how a
// described job would run on described machines. Computes and writes nothing.
#include "cli/failure.h"
#include "cli/operands.h"
#include "cli/print.h"
#include "cli/session.h"

static bool as_json(const struct call *call) {
    return call->options.values[OPT_JSON].number != 0;
}

static bool with_steps(const struct call *call) {
    return call->options.values[OPT_STEPS].number != 0;
}

static enum mmul_status print_plan(const struct call *call, const struct mmul_plan *plan,
                                   struct mmul_error *err) {
    char *text = NULL;
    if (as_json(call))
        return mmul_print_owned_text(mmul_plan_json(plan, &text, err), &text, stdout);
    mmul_plan_print(plan, stdout);
    if (with_steps(call))
        mmul_plan_print_steps(plan, stdout);
    return MMUL_OK;
}

// Simulates a described job. Root only, since this job's own ranks do not matter.
static enum mmul_status simulate(const struct call *call, struct mmul_error *err) {
    const struct mmul_program_options options = mmul_operands_options(call);
    const struct mmul_matmul args = {.weights = options.weights,
                                     .split = options.split,
                                     .split_rule = options.split_rule,
                                     .memory_limit_bytes = options.memory_limit_bytes,
                                     .device_memory_limit_bytes =
                                         options.device_memory_limit_bytes};
    struct mmul_simulation *simulation = NULL;
    char *text = NULL;
    enum mmul_status status =
        mmul_simulation_create(call->options.values[OPT_SIMULATE].text, &args, &simulation, err);
    if (status == MMUL_OK && as_json(call))
        status = mmul_print_owned_text(mmul_simulation_json(simulation, &text, err), &text, stdout);
    else if (status == MMUL_OK)
        mmul_simulation_print(simulation, stdout);
    if (status == MMUL_OK && with_steps(call))
        mmul_plan_print_steps(mmul_simulation_plan(simulation), stdout);
    mmul_simulation_destroy(simulation);
    return status;
}

// Saves the result as mul -o C.bin would, where the operands or --dtype give the type. Root's
// node computes into a .bin or .npy file in place if its type is that of the arithmetic.
static enum mmul_status expect_output(const struct call *call, struct operands *operands,
                                      struct mmul_output **output, struct mmul_error *err) {
    const struct mmul_program *program = operands->program;
    const enum mmul_dtype computed = mmul_program_value_dtype(program, operands->value),
                          dtype = mmul_operands_dtype(call, operands, operands->value);
    enum mmul_status status = MMUL_OK;
    if (dtype == MMUL_F32 || dtype == MMUL_F64)
        status = mmul_output_borrow(NULL, mmul_program_value_shape(program, operands->value, NULL),
                                    computed, output, err);
    return status == MMUL_OK ? mmul_program_save(operands->program, operands->value, *output, err)
                             : status;
}

static enum mmul_status run_plan(const struct call *call, struct mmul_error *err) {
    if (call->options.values[OPT_SIMULATE].text != NULL)
        return call->is_root ? simulate(call, err) : MMUL_OK;
    struct operands operands = mmul_operands_product(call);
    struct mmul_program_options options = mmul_operands_options(call);
    struct mmul_output *output = NULL;
    struct mmul_program_plan *plan = NULL;
    options.only_planned = true;
    if (call->is_root && mmul_operands_open(call, NULL, &operands, err) == MMUL_OK)
        expect_output(call, &operands, &output, err);
    enum mmul_status status = mmul_session_agree(err);
    if (status == MMUL_OK)
        status = mmul_program_plan_create(call->context, operands.program, &options, &plan, err);
    if (status == MMUL_OK)
        status = mmul_print_new_warnings(call, err);
    if (status == MMUL_OK && call->is_root) {
        mmul_print_speed_origin(call);
        status = print_plan(call, mmul_program_plan_product(plan), err);
    }
    mmul_program_plan_destroy(plan);
    mmul_output_destroy(output);
    mmul_operands_close(call, &operands);
    return status;
}

// Checks that either A and B or a description is given.
static enum mmul_status check_plan(const struct call *call, struct mmul_error *err) {
    bool described = call->options.values[OPT_SIMULATE].text != NULL;
    if (described && call->operand_count > 0) {
        mmul_cli_fail(err, MMUL_ERR_USAGE, "plan: --simulate and '%s' exclude each other",
                      call->operands[0]);
        return mmul_cli_hint(err, "the file of --simulate also describes the operands");
    }
    if (!described && call->operand_count != 2) {
        mmul_cli_fail(err, MMUL_ERR_USAGE,
                      "plan: expected 2 operands or --simulate, found %d operand%s",
                      call->operand_count, call->operand_count == 1 ? "" : "s");
        return mmul_cli_hint(err, "mpimatmul plan A B [options]");
    }
    if (as_json(call) && with_steps(call))
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "plan: --json and --steps exclude each other");
    return mmul_operands_check(call, err);
}

static const enum option_id options[] = {
    OPT_TRANSPOSE_A, OPT_TRANSPOSE_B,  OPT_ALPHA,    OPT_BETA,          OPT_C_IN,
    OPT_WEIGHTS,     OPT_DEVICE,       OPT_SPLIT,    OPT_SPLIT_RULE,    OPT_IO,
    OPT_TAIL,        OPT_REPRODUCIBLE, OPT_MEMORY,   OPT_DEVICE_MEMORY, OPT_VERIFYING,
    OPT_THREADS,     OPT_BIND,         OPT_SIMULATE, OPT_DTYPE,         OPT_STEPS,
    OPT_JSON,        OPT_QUIET,        OPT_VERBOSE,  OPT_HELP,          OPT_END,
};

const struct command mmul_command_plan = {
    .name = "plan",
    .operands = "[A B]",
    .operands_min = 0,
    .operands_max = 2,
    .summary = "what mul would do: rows, memory, bytes, predicted seconds",
    .notes =
        "Run it as mul would be run: under the same mpirun, with the same options.\n"
        "\n"
        "--simulate FILE: sizes and machines come from a JSON file (bench/clusters has some), so\n"
        "any number of ranks can be asked for; --weights, --split, --split-rule, --memory,\n"
        "--device-memory, --steps and --json work as usual, other options change nothing.\n"
        "\n"
        "--steps: what moves to and from each node, what each rank computes, what both wait for.\n",
    .options = options,
    .needs_mpi = true,
    .check = check_plan,
    .run = run_plan,
};
