// SPDX-License-Identifier: MIT
// A product and its options, built from the command line. The library checks the shapes.
#include "cli/operands.h"

#include <string.h>

#include "cli/failure.h"
#include "cli/files.h"
#include "cli/print.h"

enum mmul_status mmul_operands_check(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const char *paths[] = {call->operand_count > 0 ? call->operands[0] : NULL,
                           call->operand_count > 1 ? call->operands[1] : NULL,
                           values[OPT_C_IN].text};
    if (mmul_files_check_inputs(call, paths, 3, err) != MMUL_OK)
        return err->status;
    if (values[OPT_BETA].real == 0 || values[OPT_C_IN].text != NULL)
        return MMUL_OK;
    mmul_cli_fail(err, MMUL_ERR_USAGE, "--beta is %.9g, but --c-in is missing",
                  values[OPT_BETA].real);
    return mmul_cli_hint(err, "give --c-in FILE");
}

struct mmul_program_options mmul_operands_options(const struct call *call) {
    static const enum mmul_split_choice splits[] = {MMUL_SPLIT_ROWS, MMUL_SPLIT_COLS,
                                                    MMUL_SPLIT_AUTO};
    static const enum mmul_split_rule rules[] = {MMUL_SPLIT_EXACT, MMUL_SPLIT_HUNDRED};
    const struct option_value *values = call->options.values;
    const double tail = values[OPT_TAIL].real; // negative for off
    return (struct mmul_program_options){
        .weights = values[OPT_WEIGHTS].text,
        .split =
            values[OPT_SPLIT].text != NULL ? splits[values[OPT_SPLIT].number] : MMUL_SPLIT_AUTO,
        .split_rule = rules[values[OPT_SPLIT_RULE].number],
        .io = (enum mmul_io)values[OPT_IO].number, // words and enum have the same order
        .tail = tail > 0   ? MMUL_TAIL_SHARE
                : tail < 0 ? MMUL_TAIL_OFF
                           : MMUL_TAIL_AUTO,
        .tail_share = tail,
        .reproducible = values[OPT_REPRODUCIBLE].number != 0,
        .memory_limit_bytes = values[OPT_MEMORY].number,
        .device_memory_limit_bytes = values[OPT_DEVICE_MEMORY].number,
        .no_verify = values[OPT_VERIFY].number != 0,
        .verify_seed = (uint64_t)values[OPT_VERIFY_SEED].number,
        .device_timeout_seconds = values[OPT_DEVICE_TIMEOUT].real,
        .no_fallback = values[OPT_NO_FALLBACK].number != 0,
    };
}

struct operands mmul_operands_product(const struct call *call) {
    const struct option_value *values = call->options.values;
    const struct option_value *asked = &values[OPT_DTYPE];
    return (struct operands){.args = {.transpose_a = values[OPT_TRANSPOSE_A].number != 0,
                                      .transpose_b = values[OPT_TRANSPOSE_B].number != 0,
                                      .alpha = (float)values[OPT_ALPHA].real,
                                      .beta = (float)values[OPT_BETA].real,
                                      .exact_alpha = values[OPT_ALPHA].real,
                                      .exact_beta = values[OPT_BETA].real,
                                      .compute = asked->source == OPTION_DEFAULT ? MMUL_COMPUTE_AUTO
                                                 : asked->number == MMUL_F64     ? MMUL_COMPUTE_F64
                                                                             : MMUL_COMPUTE_F32}};
}

enum mmul_status mmul_operands_add(struct mmul_inputs *set, const char *path,
                                   struct operands *operands, struct mmul_error *err) {
    struct operands_input *input = &operands->inputs[operands->input_count];
    *input = (struct operands_input){.path = path, .value = -1};
    enum mmul_status status = mmul_inputs_open_matrix(set, path, &input->matrix, err);
    operands->input_count += status == MMUL_OK;
    return status;
}

enum mmul_status mmul_operands_build(struct operands *operands, struct mmul_error *err) {
    operands->args.a = operands->inputs[0].matrix;
    operands->args.b = operands->inputs[1].matrix;
    operands->args.c_in = operands->inputs[2].matrix;
    enum mmul_status status = mmul_program_create(&operands->program, err);
    return status == MMUL_OK
               ? mmul_program_product(operands->program, &operands->args, &operands->value, err)
               : status;
}

enum mmul_dtype mmul_operands_dtype(const struct call *call, const struct operands *operands,
                                    int value) {
    const struct option_value *asked = &call->options.values[OPT_DTYPE];
    bool is_integer = false, is_common = true;
    mmul_program_value_shape(operands->program, value, &is_integer);
    const enum mmul_dtype computed =
        is_integer ? MMUL_I32 : mmul_program_value_dtype(operands->program, value);
    if (computed != MMUL_F32)
        return computed;
    if (asked->source != OPTION_DEFAULT)
        return (enum mmul_dtype)asked->number;
    enum mmul_dtype common = MMUL_F32;
    for (int i = 0; i < operands->input_count; i++) {
        const struct mmul_matrix *matrix = operands->inputs[i].matrix;
        const enum mmul_dtype have = matrix != NULL ? mmul_matrix_info(matrix).delivered : computed;
        common = i == 0 ? have : common;
        is_common &= have == common;
    }
    return is_common && (common == MMUL_F16 || common == MMUL_BF16) ? common : computed;
}

// Reports inputs that are converted when read.
static void print_conversions(const struct call *call, const struct operands *operands) {
    const enum mmul_dtype computed = mmul_program_value_dtype(operands->program, operands->value);
    for (int i = 0; i < operands->input_count; i++) {
        const struct mmul_matrix_info info = mmul_matrix_info(operands->inputs[i].matrix);
        const enum mmul_dtype read = computed == MMUL_F64 ? MMUL_F64 : info.delivered;
        const bool is_read =
            operands->inputs[i].matrix != operands->args.c_in || operands->args.beta != 0;
        if (is_read && info.stored != read)
            mmul_print_remark(call, "notice: '%s' is %s and is read as %s",
                              operands->inputs[i].path, mmul_dtype_name(info.stored),
                              mmul_dtype_name(read));
    }
}

enum mmul_status mmul_operands_open(const struct call *call, struct mmul_inputs *set,
                                    struct operands *operands, struct mmul_error *err) {
    const char *c_in = call->options.values[OPT_C_IN].text;
    const char *const paths[] = {call->operands[0], call->operands[1], c_in};
    for (int i = 0; i < 3 && paths[i] != NULL; i++)
        if (mmul_operands_add(set, paths[i], operands, err) != MMUL_OK)
            return err->status;
    enum mmul_status status = mmul_operands_build(operands, err);
    if (status == MMUL_OK)
        print_conversions(call, operands);
    // An explicit 0 is intended. A missing --beta may be a mistake: the bias is not added.
    if (status == MMUL_OK && c_in != NULL &&
        call->options.values[OPT_BETA].source == OPTION_DEFAULT)
        mmul_print_data_warning(call, "'%s' is ignored: --beta is 0 by default, --beta 1 adds it",
                                c_in);
    return status;
}

int mmul_operands_axes(const struct operands *operands) {
    int most = 2;
    for (int i = 0; i < operands->input_count; i++) {
        const struct operands_input *input = &operands->inputs[i];
        struct mmul_shape s = {1, 1, 1, 1};
        if (input->matrix == NULL)
            s = mmul_program_value_shape(operands->program, input->value, NULL);
        const int axes = input->matrix != NULL ? mmul_matrix_info(input->matrix).dimensions
                         : s.batch > 1         ? 4
                         : s.depth > 1         ? 3
                                               : 2;
        most = axes > most ? axes : most;
    }
    return most;
}

// Returns the format of a result without a given name: the input's format, or .npy if that format
// lacks the type or is read-only. A set of shards counts as .bin.
static enum mmul_format default_format(const struct operands_input *input, enum mmul_dtype dtype) {
    const enum mmul_format format =
        input->matrix != NULL ? mmul_matrix_info(input->matrix).format : MMUL_FORMAT_BIN;
    const bool has_not = dtype == MMUL_F64 && mmul_format_holds(format, dtype) != dtype;
    return has_not || !mmul_format_is_written(format) ? MMUL_FORMAT_NPY : format;
}

enum mmul_status mmul_operands_output_path(const struct call *call, const struct operands *operands,
                                           char *path, size_t capacity, struct mmul_error *err) {
    enum mmul_format format = (enum mmul_format)call->options.values[OPT_MATRIX_FORMAT].number;
    if (format == MMUL_FORMAT_BY_ENDING) {
        const enum mmul_dtype dtype = mmul_operands_dtype(call, operands, operands->value);
        const struct operands_input *a = &operands->inputs[0], *b = a;
        if (strcmp(call->operands[0], call->operands[1]) != 0)
            b = &operands->inputs[1];
        format = default_format(a, dtype);
        if (default_format(b, dtype) != format)
            format = MMUL_FORMAT_BIN;
    }
    const struct mmul_result_name name = {.given = call->options.values[OPT_OUTPUT].text,
                                          .a = call->operands[0],
                                          .between = "x",
                                          .b = call->operands[1],
                                          .after = "_combined",
                                          .format = format};
    return mmul_files_name_result(&name, path, capacity, err);
}

void mmul_operands_close(const struct call *call, struct operands *operands) {
    mmul_program_destroy(operands->program);
    for (int i = 0; i < operands->input_count; i++) {
        mmul_print_header_notice(call, operands->inputs[i].matrix);
        mmul_matrix_close(operands->inputs[i].matrix);
    }
    *operands = (struct operands){.value = -1};
}
