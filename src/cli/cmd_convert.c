// SPDX-License-Identifier: MIT
// convert: between file formats and element types. The ending of OUT chooses the format.
#include "cli/print.h"

// Elements that lose digits without having been asked to are worth a line.
static enum mmul_status print_narrowing(const struct call *call, struct mmul_error *err) {
    struct mmul_matrix *in = NULL;
    enum mmul_status status = mmul_matrix_open(call->operands[0], &in, err);
    if (status != MMUL_OK)
        return status;
    struct mmul_matrix_info info = mmul_matrix_info(in);
    if (info.stored != info.delivered && call->options.values[OPT_CONVERT_DTYPE].text == NULL)
        mmul_print_remark(call, "notice: '%s' is %s and becomes %s", call->operands[0],
                          mmul_dtype_name(info.stored), mmul_dtype_name(info.delivered));
    mmul_matrix_close(in);
    return MMUL_OK;
}

static enum mmul_status run(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const struct mmul_convert_options convert = {
        .has_dtype = values[OPT_CONVERT_DTYPE].text != NULL,
        .dtype = (enum mmul_dtype)values[OPT_CONVERT_DTYPE].number,
        .bin_version = (int)values[OPT_BIN_VERSION].number,
    };
    enum mmul_status status = print_narrowing(call, err);
    if (status == MMUL_OK)
        status = mmul_convert(call->operands[0], call->operands[1], &convert, err);
    return status;
}

static const enum option_id options[] = {
    OPT_CONVERT_DTYPE, OPT_BIN_VERSION, OPT_QUIET, OPT_VERBOSE, OPT_HELP, OPT_END,
};

const struct command mmul_command_convert = {
    .name = "convert",
    .operands = "IN OUT",
    .operands_least = 2,
    .operands_most = 2,
    .summary = "between .bin and .npy, and between element types",
    .notes =
        "OUT ending in .npy is written as .npy, anything else as .bin. A .npy has no bfloat16:\n"
        "it becomes float32. Narrowing rounds to nearest even.\n"
        "\n"
        "  mpimatmul convert weights.npy W.bin --dtype float16\n",
    .options = options,
    .run = run,
};
