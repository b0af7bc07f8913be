// SPDX-License-Identifier: MIT
// A product and its options, built from the command line. The library checks the shapes.
#include "cli/operands.h"

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

enum mmul_status mmul_operands_build(struct operands *operands, struct mmul_error *err) {
    const struct mmul_matrix *const inputs[] = {operands->args.a, operands->args.b,
                                                operands->args.c_in};
    enum mmul_status status = mmul_program_create(&operands->program, err);
    if (status == MMUL_OK)
        status = mmul_program_product(operands->program, &operands->args, &operands->value, err);
    if (status != MMUL_OK)
        return status;
    operands->shape = mmul_program_value_shape(operands->program, operands->value, NULL);
    operands->dtype = mmul_program_value_dtype(operands->program, operands->value);
    // The common 16-bit type, if all inputs have it.
    const enum mmul_dtype first = mmul_matrix_info(inputs[0]).delivered;
    bool is_common = operands->dtype == MMUL_F32 && (first == MMUL_F16 || first == MMUL_BF16);
    for (int i = 0; i < 3; i++)
        is_common &= inputs[i] == NULL || mmul_matrix_info(inputs[i]).delivered == first;
    operands->dtype = is_common ? first : operands->dtype;
    return MMUL_OK;
}

// Reports inputs that are converted when read.
static void print_conversions(const struct call *call, const struct operands *operands) {
    const struct mmul_matmul *args = &operands->args;
    const struct mmul_matrix *const inputs[] = {args->a, args->b, args->c_in};
    for (int i = 0; i < 3; i++) {
        const struct mmul_matrix_info info =
            inputs[i] != NULL ? mmul_matrix_info(inputs[i]) : (struct mmul_matrix_info){0};
        const enum mmul_dtype read = operands->dtype == MMUL_F64 ? MMUL_F64 : info.delivered;
        const bool is_read = inputs[i] != NULL && (inputs[i] != args->c_in || args->beta != 0);
        if (is_read && info.stored != read)
            mmul_print_remark(call, "notice: '%s' is %s and is read as %s",
                              mmul_matrix_name(inputs[i]), mmul_dtype_name(info.stored),
                              mmul_dtype_name(read));
    }
}

enum mmul_status mmul_operands_open(const struct call *call, struct mmul_inputs *inputs,
                                    struct operands *operands, struct mmul_error *err) {
    struct mmul_matmul *args = &operands->args;
    const char *c_in = call->options.values[OPT_C_IN].text;
    enum mmul_status status = mmul_inputs_open_matrix(inputs, call->operands[0], &args->a, err);
    if (status == MMUL_OK)
        status = mmul_inputs_open_matrix(inputs, call->operands[1], &args->b, err);
    if (status == MMUL_OK && c_in != NULL)
        status = mmul_inputs_open_matrix(inputs, c_in, &args->c_in, err);
    if (status != MMUL_OK)
        return status;
    status = mmul_operands_build(operands, err);
    if (status == MMUL_OK)
        print_conversions(call, operands);
    // An explicit 0 is intended. A missing --beta may be a mistake: the bias is not added.
    if (c_in != NULL && call->options.values[OPT_BETA].source == OPTION_DEFAULT)
        mmul_print_data_warning(call, "'%s' is ignored: --beta is 0 by default, --beta 1 adds it",
                                c_in);
    return status;
}

enum mmul_status mmul_operands_output_path(const struct call *call,
                                           const enum mmul_format formats[2], char *path,
                                           size_t capacity, struct mmul_error *err) {
    enum mmul_format format = (enum mmul_format)call->options.values[OPT_MATRIX_FORMAT].number;
    if (format == MMUL_FORMAT_BY_ENDING)
        format = formats[0] == formats[1] ? formats[0] : MMUL_FORMAT_BIN;
    const struct mmul_result_name name = {.given = call->options.values[OPT_OUTPUT].text,
                                          .a = call->operands[0],
                                          .between = "x",
                                          .b = call->operands[1],
                                          .after = "_combined",
                                          .format = format};
    return mmul_files_name_result(&name, path, capacity, err);
}

void mmul_operands_close(const struct call *call, struct operands *operands) {
    struct mmul_matrix *const inputs[] = {operands->args.a, operands->args.b, operands->args.c_in};
    mmul_program_destroy(operands->program);
    for (int i = 0; i < 3; i++) {
        mmul_print_header_notice(call, inputs[i]);
        mmul_matrix_close(inputs[i]);
    }
    *operands = (struct operands){.value = -1};
}
