// SPDX-License-Identifier: MIT
// mul with operations on its result, or with persistent sets of shards: checks of its options, and
// its program.
#include "cli/fused_mul.h"

#include <stdio.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/print.h"

enum { NAME_BYTES = 256 };

static const enum option_id asks[] = {OPT_BIAS, OPT_ACTIVATION, OPT_RESIDUAL, OPT_NORMALIZE_ROWS,
                                      OPT_TOPK};

// Options that a program does not support.
static const enum option_id others[] = {OPT_MATRIX_FORMAT, OPT_SPLIT, OPT_SPLIT_RULE, OPT_DRY_RUN};

// Returns the first operand or output that is a persistent set; NULL if there is none.
static const char *find_kept(const struct call *call) {
    const struct option_value *values = call->options.values;
    const char *const paths[] = {call->operand_count > 0 ? call->operands[0] : NULL,
                                 call->operand_count > 1 ? call->operands[1] : NULL,
                                 values[OPT_OUTPUT].text, values[OPT_C_IN].text};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (paths[i] != NULL && mmul_kept_name(paths[i]) != NULL)
            return paths[i];
    return NULL;
}

bool mmul_fused_mul_is_requested(const struct call *call) {
    bool is_asked = call->options.values[OPT_KEEP].number != 0 || find_kept(call) != NULL;
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++)
        is_asked |= call->options.values[asks[i]].source != OPTION_DEFAULT;
    return is_asked;
}

// Checks --dtype. A program computes in the type of its files and can write 16-bit files, but
// persistent sets are float32 or float64.
static enum mmul_status check_dtype(const struct call *call, const char *asked,
                                    struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const char *output = values[OPT_OUTPUT].text;
    const enum mmul_dtype dtype = (enum mmul_dtype)values[OPT_DTYPE].number;
    const bool keeps =
        values[OPT_KEEP].number != 0 || (output != NULL && mmul_kept_name(output) != NULL);
    if (values[OPT_DTYPE].source == OPTION_DEFAULT || dtype == MMUL_F32 ||
        (dtype != MMUL_F64 && !keeps))
        return MMUL_OK;
    const bool is_set = values[OPT_DTYPE].source == OPTION_FROM_ENVIRONMENT;
    mmul_cli_fail(err, MMUL_ERR_USAGE, "%s%s cannot be combined with %s",
                  is_set ? "MPIMATMUL_DTYPE=" : "--dtype ", mmul_dtype_name(dtype), asked);
    return mmul_cli_hint(err, dtype == MMUL_F64
                                  ? "without it the result is float64 where all files are"
                                  : "persistent sets are float32 or float64");
}

enum mmul_status mmul_fused_mul_check(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const char *indices = values[OPT_INDICES].text, *kept = find_kept(call);
    enum mmul_format ignored;
    char asked[300] = "";
    if (kept != NULL)
        snprintf(asked, sizeof asked, "'%.256s'", kept);
    else if (values[OPT_KEEP].number != 0)
        snprintf(asked, sizeof asked, "--keep");
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++)
        if (values[asks[i]].source != OPTION_DEFAULT)
            snprintf(asked, sizeof asked, "--%s", mmul_option_row(asks[i])->name);
    if (indices != NULL && values[OPT_TOPK].source == OPTION_DEFAULT)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "--indices needs --topk");
    if (indices != NULL &&
        mmul_output_format(indices, MMUL_FORMAT_BY_ENDING, &ignored, err) != MMUL_OK)
        return mmul_cli_hint(err, "\"%.*s.npy\": the ending chooses the format",
                             (int)(strrchr(indices, '.') - indices), indices);
    for (size_t i = 0; asked[0] != '\0' && i < sizeof others / sizeof *others; i++)
        if (values[others[i]].source == OPTION_FROM_COMMAND_LINE)
            return mmul_cli_fail(err, MMUL_ERR_USAGE, "--%s cannot be combined with %s",
                                 mmul_option_row(others[i])->name, asked);
    return asked[0] != '\0' ? check_dtype(call, asked, err) : MMUL_OK;
}

// ----------------------------------------------------------------------------------- the program

// A program under construction. After a failure nothing more is added.
struct building {
    const struct call *call;
    struct mmul_inputs *set;
    struct operands *operands;
    struct mmul_error *err;
};

// Loads a matrix or a persistent set; each path once. Returns the value.
static int load_input(const struct building *b, const char *path) {
    struct operands *operands = b->operands;
    struct operands_input *input = &operands->inputs[operands->input_count];
    for (int i = 0; i < operands->input_count; i++)
        if (strcmp(operands->inputs[i].path, path) == 0)
            return operands->inputs[i].value;
    if (b->err->status != MMUL_OK)
        return -1;
    if (mmul_kept_name(path) != NULL) {
        *input = (struct operands_input){.path = path, .value = -1};
        operands->input_count++;
        mmul_program_load_kept(operands->program, b->call->options.values[OPT_SHARD_DIR].text,
                               mmul_kept_name(path), &input->value, b->err);
    } else if (mmul_operands_add(b->set, path, operands, b->err) == MMUL_OK) {
        mmul_program_load(operands->program, input->matrix, &input->value, b->err);
    }
    return input->value;
}

// Adds an operation on x and y; y NO_VALUE: on x alone. MMUL_NUMBER stands for `number`. Returns
// the value.
enum { NO_VALUE = -1 };
static int apply(const struct building *b, const char *operation, int x, int y, double number,
                 const char *name) {
    const struct mmul_call call = {.operation = operation,
                                   .operands = {x, y},
                                   .operand_count = y == NO_VALUE ? 1 : 2,
                                   .with.numbers = {number, number}};
    int value = NO_VALUE;
    if (b->err->status == MMUL_OK)
        mmul_program_apply(b->operands->program, &call, name, &value, b->err);
    return value;
}

static int load_factor(const struct building *b, int index, enum option_id transposes) {
    const char *path = b->call->operands[index];
    char name[NAME_BYTES];
    const int value = load_input(b, path);
    snprintf(name, sizeof name, "%s.T", path);
    return b->call->options.values[transposes].number != 0
               ? apply(b, "transpose", value, NO_VALUE, 0, name)
               : value;
}

// Adds a value to the product. The error names the axis as numpy does.
static void add_to_product(const struct building *b, int value, const char *name) {
    struct operands *operands = b->operands;
    if (b->err->status != MMUL_OK)
        return;
    const struct mmul_shape x = mmul_program_value_shape(operands->program, operands->value, NULL),
                            y = mmul_program_value_shape(operands->program, value, NULL);
    const int64_t have[] = {x.batch, x.depth, x.rows, x.cols},
                  added[] = {y.batch, y.depth, y.rows, y.cols};
    char here[96], there[96];
    int axis = 0;
    while (axis < 4 && (have[axis] == added[axis] || have[axis] == 1 || added[axis] == 1))
        axis++;
    if (axis == 4) {
        operands->value = apply(b, "add", operands->value, value, 0, "product");
        return;
    }
    mmul_cli_fail(b->err, MMUL_ERR_DATA,
                  "cannot add 'product' (%s) and '%s' (%s): sizes %lld and %lld of axis %d differ",
                  mmul_shape_format(x, here), name, mmul_shape_format(y, there),
                  (long long)have[axis], (long long)added[axis], axis - 4);
    mmul_cli_hint(b->err, "sizes of 1 are broadcast");
}

// Adds product = alpha op(A) op(B) + beta C. Errors use this name, and the files' own names.
static void add_product(const struct building *b) {
    const struct option_value *values = b->call->options.values;
    const double alpha = values[OPT_ALPHA].real, beta = values[OPT_BETA].real;
    const char *c_in = values[OPT_C_IN].text;
    int *product = &b->operands->value;
    char name[NAME_BYTES];
    const int x = load_factor(b, 0, OPT_TRANSPOSE_A), y = load_factor(b, 1, OPT_TRANSPOSE_B);
    *product = apply(b, "matmul", x, y, 0, "product");
    if (alpha == 0) { // as in BLAS, NaN and infinities of A and B are ignored
        const int bits = apply(b, "less", *product, MMUL_NUMBER, 1, "product < 1");
        *product = apply(b, "subtract", bits, bits, 0, "product");
    } else if (alpha != 1) {
        *product = apply(b, "multiply", *product, MMUL_NUMBER, alpha, "product");
    }
    if (beta == 0)
        return;
    snprintf(name, sizeof name, "%.17g * %s", beta, c_in);
    add_to_product(b, apply(b, "multiply", MMUL_NUMBER, load_input(b, c_in), beta, name), name);
}

static void add_file(const struct building *b, const char *path) {
    if (path != NULL)
        add_to_product(b, load_input(b, path), path);
}

// Replaces the product by its largest elements. Returns their columns.
static int take_largest(const struct building *b, int64_t count) {
    struct operands *operands = b->operands;
    struct mmul_call call = {.operation = "topk",
                             .operands = {operands->value},
                             .operand_count = 1,
                             .with.count = count};
    int both = NO_VALUE, columns = NO_VALUE;
    if (b->err->status != MMUL_OK ||
        mmul_program_apply(operands->program, &call, "product", &both, b->err) != MMUL_OK)
        return NO_VALUE;
    const struct mmul_shape s = mmul_program_value_shape(operands->program, both, NULL);
    call = (struct mmul_call){.operation = "slice",
                              .operands = {both},
                              .operand_count = 1,
                              .with.end = {s.batch, s.depth, s.rows, count}};
    if (mmul_program_apply(operands->program, &call, "product", &operands->value, b->err) !=
        MMUL_OK)
        return NO_VALUE;
    call.with.begin[3] = count;
    call.with.end[3] = 2 * count;
    mmul_program_apply(operands->program, &call, "indices", &columns, b->err);
    return columns;
}

enum mmul_status mmul_fused_mul_build(const struct call *call, struct mmul_inputs *set,
                                      struct operands *operands, int *indices,
                                      struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const struct building b = {call, set, operands, err};
    const bool is_float32 = operands->args.compute == MMUL_COMPUTE_F32;
    if (mmul_program_create(&operands->program, err) != MMUL_OK)
        return err->status;
    if (is_float32)
        mmul_program_use_float32(operands->program);
    add_product(&b);
    add_file(&b, values[OPT_BIAS].text);
    if (values[OPT_ACTIVATION].text != NULL)
        operands->value =
            apply(&b, values[OPT_ACTIVATION].text, operands->value, NO_VALUE, 0, "product");
    add_file(&b, values[OPT_RESIDUAL].text);
    if (values[OPT_NORMALIZE_ROWS].number != 0)
        operands->value = apply(&b, "normalize", operands->value, NO_VALUE, 0, "product");
    if (values[OPT_TOPK].source != OPTION_DEFAULT)
        *indices = take_largest(&b, values[OPT_TOPK].number);
    for (int i = operands->input_count; err->status == MMUL_OK && i-- > 0;) {
        const struct operands_input *input = &operands->inputs[i];
        const bool is_double =
            input->matrix != NULL && mmul_matrix_info(input->matrix).stored == MMUL_F64;
        if (mmul_program_is_rounded(operands->program, input->value) || (is_double && is_float32))
            mmul_print_remark(call, "notice: '%s' is float64 and is read as float32", input->path);
    }
    return err->status;
}
