// SPDX-License-Identifier: MIT
// convert: converts between file formats and element types. The ending of OUT chooses the format.
#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/files.h"
#include "cli/print.h"

static struct mmul_convert_options take_options(const struct call *call) {
    const struct option_value *values = call->options.values;
    return (struct mmul_convert_options){
        .format = (enum mmul_format)values[OPT_MATRIX_FORMAT].number,
        .has_dtype = values[OPT_CONVERT_DTYPE].text != NULL,
        .dtype = (enum mmul_dtype)values[OPT_CONVERT_DTYPE].number,
        .bin_version = (int)values[OPT_BIN_VERSION].number,
    };
}

static enum mmul_status convert_opened(const struct call *call, struct mmul_matrix *in,
                                       struct mmul_error *err) {
    const struct mmul_matrix_info info = mmul_matrix_info(in);
    const struct mmul_convert_options options = take_options(call);
    int64_t overflows = 0;
    enum mmul_format format;
    enum mmul_status status = mmul_output_format(call->operands[1], options.format, &format, err);
    if (status != MMUL_OK)
        return status;
    const enum mmul_dtype dtype =
        options.has_dtype ? options.dtype : mmul_format_holds(format, info.stored);
    // An unrequested loss of precision is reported.
    if (info.stored != info.delivered && !options.has_dtype && dtype != info.stored)
        mmul_print_remark(call, "notice: '%s' is %s and becomes %s", call->operands[0],
                          mmul_dtype_name(info.stored), mmul_dtype_name(dtype));
    status = mmul_convert(in, call->operands[1], &options, &overflows, err);
    if (status == MMUL_OK)
        mmul_print_overflows(call, call->operands[1], overflows, dtype);
    return status;
}

// Returns true if OUT may hold several tensors and does not name one.
static bool takes_all_tensors(const char *out, enum mmul_format asked) {
    struct mmul_error ignored;
    enum mmul_format format;
    const char *tensor;
    bool several;
    return mmul_output_format(out, asked, &format, &ignored) == MMUL_OK &&
           (format == MMUL_FORMAT_NPZ || format == MMUL_FORMAT_SAFETENSORS) &&
           mmul_output_file_length(out, &several, &tensor) == strlen(out);
}

// Warns about tensors that are left out, naming the first ones.
static enum mmul_status warn_skipped_tensors(const struct call *call,
                                             const struct mmul_tensors *tensors,
                                             struct mmul_error *err) {
    enum { NAMED = 4 };
    const int64_t count = mmul_tensors_info(tensors).count;
    int64_t left = 0;
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (stream == NULL)
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a list of tensors");
    for (int64_t t = 0; t < count; t++) {
        const struct mmul_tensor tensor = mmul_tensors_get(tensors, t);
        if (mmul_tensor_is_matrix(&tensor) || ++left > NAMED)
            continue;
        fprintf(stream, "%s'%s' (", left > 1 ? ", " : "", tensor.name);
        for (int d = 0; d < tensor.dimensions; d++)
            fprintf(stream, "%s%lld", d > 0 ? " x " : "", (long long)tensor.sizes[d]);
        if (tensor.dimensions == 0 && tensor.is_readable)
            fputs("a number", stream);
        fprintf(stream, "%s%s)", tensor.dimensions == 0 && !tensor.is_readable ? "" : ", ",
                tensor.type);
    }
    if (left > NAMED)
        fprintf(stream, " and %lld more", (long long)(left - NAMED));
    if (fclose(stream) == 0 && left > 0)
        mmul_print_data_warning(call, "'%s': %lld of %lld tensors are skipped: %s",
                                call->operands[0], (long long)left, (long long)count, text);
    free(text);
    return MMUL_OK;
}

static enum mmul_status convert_tensors(const struct call *call, const struct mmul_tensors *tensors,
                                        struct mmul_error *err) {
    const struct mmul_convert_options options = take_options(call);
    int64_t overflows = 0;
    enum mmul_status status =
        mmul_convert_tensors(tensors, call->operands[1], &options, &overflows, err);
    if (status == MMUL_OK)
        status = warn_skipped_tensors(call, tensors, err);
    if (status == MMUL_OK)
        mmul_print_overflows(call, call->operands[1], overflows, options.dtype);
    return status;
}

static enum mmul_status convert_matrix(const struct call *call, struct mmul_inputs *inputs,
                                       struct mmul_error *err) {
    struct mmul_matrix *in = NULL;
    enum mmul_status status = mmul_inputs_open_matrix(inputs, call->operands[0], &in, err);
    if (status == MMUL_OK)
        status = convert_opened(call, in, err);
    mmul_print_header_notice(call, in);
    mmul_matrix_close(in);
    return status;
}

static enum mmul_status run_convert(const struct call *call, struct mmul_error *err) {
    struct mmul_inputs *inputs = NULL;
    struct mmul_tensors *tensors = NULL;
    enum mmul_status status = mmul_files_create_inputs(call, &inputs, err);
    if (status == MMUL_OK && takes_all_tensors(call->operands[1], take_options(call).format))
        status = mmul_inputs_open_tensors(inputs, call->operands[0], &tensors, err);
    if (status == MMUL_OK)
        status = tensors != NULL ? convert_tensors(call, tensors, err)
                                 : convert_matrix(call, inputs, err);
    mmul_tensors_close(tensors);
    mmul_inputs_destroy(inputs);
    return status;
}

static enum mmul_status check_convert(const struct call *call, struct mmul_error *err) {
    return mmul_files_check_output(call, call->operands[1], err);
}

static const enum option_id options[] = {
    OPT_CONVERT_DTYPE, OPT_MATRIX_FORMAT, OPT_BIN_VERSION, OPT_MISSING, OPT_QUIET,
    OPT_PROGRESS,      OPT_VERBOSE,       OPT_HELP,        OPT_END,
};

const struct command mmul_command_convert = {
    .name = "convert",
    .operands = "IN OUT",
    .operands_min = 2,
    .operands_max = 2,
    .summary = "between file formats, and between element types",
    .notes =
        "The ending of OUT chooses the format (.bin, .npy, .npz, .safetensors, .csv, .tsv, .mtx), "
        "without one it\n"
        "is .bin; --format writes under any name. All tensors of a .npz, .safetensors, .pt or "
        ".gguf "
        "go to an\n"
        ".npz or .safetensors under their names. IN:NAME is one of them, and OUT:NAME names the "
        "one "
        "of OUT,\n"
        "which is 'data' else. A .npy has no bfloat16, a .bin no float64 and no whole "
        "numbers: they become\n"
        "float32. Narrowing rounds to nearest even, and values that become infinite are "
        "counted. Text is read\n"
        "as float64, and written with so many digits that the value is had again: 17 of "
        "float64, 9 of\n"
        "what is narrower, all of whole numbers. - is standard input or output. OUT has the "
        "axes of IN, at\n"
        "least two; a .bin has four, whose leading sizes of 1 do not count; text has a matrix "
        "alone.\n"
        "\n"
        "  mpimatmul convert weights.npy W.bin --dtype float16\n"
        "  mpimatmul convert model.gguf model.safetensors\n",
    .doing = "converting",
    .options = options,
    .check = check_convert,
    .run = run_convert,
};
