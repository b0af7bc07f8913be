// SPDX-License-Identifier: MIT
// convert: between file formats and element types. The ending of OUT chooses the format.
#include "cli/files.h"
#include "cli/print.h"

static enum mmul_status convert(const struct call *call, struct mmul_matrix *in,
                                struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const struct mmul_matrix_info info = mmul_matrix_info(in);
    const struct mmul_convert_options options = {
        .format = (enum mmul_format)values[OPT_MATRIX_FORMAT].number,
        .has_dtype = values[OPT_CONVERT_DTYPE].text != NULL,
        .dtype = (enum mmul_dtype)values[OPT_CONVERT_DTYPE].number,
        .bin_version = (int)values[OPT_BIN_VERSION].number,
    };
    int64_t overflows = 0;
    enum mmul_format format;
    enum mmul_status status = mmul_output_format(call->operands[1], options.format, &format, err);
    if (status != MMUL_OK)
        return status;
    const enum mmul_dtype dtype =
        options.has_dtype ? options.dtype : mmul_format_holds(format, info.stored);
    // Elements that lose digits without having been asked to are worth a line.
    if (info.stored != info.delivered && !options.has_dtype && dtype != info.stored)
        mmul_print_remark(call, "notice: '%s' is %s and becomes %s", call->operands[0],
                          mmul_dtype_name(info.stored), mmul_dtype_name(dtype));
    status = mmul_convert(in, call->operands[1], &options, &overflows, err);
    if (status == MMUL_OK)
        mmul_print_overflows(call, call->operands[1], overflows, dtype);
    return status;
}

static enum mmul_status run(const struct call *call, struct mmul_error *err) {
    struct mmul_matrix *in = NULL;
    enum mmul_status status = mmul_matrix_open(call->operands[0], &in, err);
    if (status == MMUL_OK)
        status = convert(call, in, err);
    mmul_print_header(call, in);
    mmul_matrix_close(in);
    return status;
}

static enum mmul_status check(const struct call *call, struct mmul_error *err) {
    return mmul_files_check_output(call, call->operands[1], err);
}

static const enum option_id options[] = {
    OPT_CONVERT_DTYPE, OPT_MATRIX_FORMAT, OPT_BIN_VERSION, OPT_QUIET,
    OPT_PROGRESS,      OPT_VERBOSE,       OPT_HELP,        OPT_END,
};

const struct command mmul_command_convert = {
    .name = "convert",
    .operands = "IN OUT",
    .operands_least = 2,
    .operands_most = 2,
    .summary = "between file formats, and between element types",
    .notes =
        "The ending of OUT chooses the format (.bin, .npy, .npz, .safetensors, .csv, .tsv, .mtx), "
        "without one it\n"
        "is .bin; --format writes under any name. OUT:NAME names the one tensor of an .npz or "
        ".safetensors,\n"
        "which is 'data' else. A .npy has no bfloat16, a .bin no float64 and no whole "
        "numbers: they become\n"
        "float32. Narrowing rounds to nearest even, and values that become infinite are "
        "counted. Text is read\n"
        "as float64, and written with so many digits that the value is had again: 17 of "
        "float64, 9 of\n"
        "what is narrower, all of whole numbers. - is standard input or output. OUT has the "
        "axes of IN, at\n"
        "least two; a .bin has four, whose leading sizes of 1 do not count; text has a matrix "
        "alone. IN may be\n"
        "a .pt or .gguf.\n"
        "\n"
        "  mpimatmul convert weights.npy W.bin --dtype float16\n",
    .doing = "converting",
    .options = options,
    .check = check,
    .run = run,
};
