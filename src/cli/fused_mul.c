// SPDX-License-Identifier: MIT
// mul with operations on its result, or with persistent sets of shards, becomes a program of `run`.
// This file builds the text of that program.
#include "cli/fused_mul.h"

#include <stdio.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/files.h"
#include "cli/operands.h"
#include "cli/program_text.h"

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
    const char *kept = find_kept(call);
    char asked[300] = "";
    if (kept != NULL)
        snprintf(asked, sizeof asked, "'%.256s'", kept);
    else if (values[OPT_KEEP].number != 0)
        snprintf(asked, sizeof asked, "--keep");
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++)
        if (values[asks[i]].source != OPTION_DEFAULT)
            snprintf(asked, sizeof asked, "--%s", mmul_option_row(asks[i])->name);
    if (values[OPT_INDICES].text != NULL && values[OPT_TOPK].source == OPTION_DEFAULT)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "--indices needs --topk");
    for (size_t i = 0; asked[0] != '\0' && i < sizeof others / sizeof *others; i++)
        if (values[others[i]].source == OPTION_FROM_COMMAND_LINE)
            return mmul_cli_fail(err, MMUL_ERR_USAGE, "--%s cannot be combined with %s",
                                 mmul_option_row(others[i])->name, asked);
    return asked[0] != '\0' ? check_dtype(call, asked, err) : MMUL_OK;
}

// Adds product = alpha op(A) op(B) + beta C. Errors use this name, and the files' own names.
static void add_product(const struct call *call, struct mmul_program_text *line) {
    const struct option_value *values = call->options.values;
    char number[80];
    const double alpha = values[OPT_ALPHA].real;
    mmul_program_text_add(line, "product = ");
    mmul_program_text_add_load(line, call->operands[0]);
    mmul_program_text_add(line, values[OPT_TRANSPOSE_A].number != 0 ? ".T @ " : " @ ");
    mmul_program_text_add_load(line, call->operands[1]);
    mmul_program_text_add(line, values[OPT_TRANSPOSE_B].number != 0 ? ".T" : "");
    if (alpha == 0) { // as in BLAS, NaN and infinities of A and B are ignored
        mmul_program_text_add(line, "\nproduct = where(abs(product) < 1, 0, 0)");
    } else if (alpha != 1) {
        snprintf(number, sizeof number, "\nproduct = product * %.17g", alpha);
        mmul_program_text_add(line, number);
    }
    if (values[OPT_BETA].real == 0)
        return;
    snprintf(number, sizeof number, "\nproduct = product + %.17g * ", values[OPT_BETA].real);
    mmul_program_text_add(line, number);
    mmul_program_text_add_load(line, values[OPT_C_IN].text);
}

static void add_file(struct mmul_program_text *line, const char *path) {
    if (path == NULL)
        return;
    mmul_program_text_add(line, "\nproduct = product + ");
    mmul_program_text_add_load(line, path);
}

static void add_epilogue(const struct call *call, struct mmul_program_text *line) {
    const struct option_value *values = call->options.values;
    char text[96];
    add_file(line, values[OPT_BIAS].text);
    if (values[OPT_ACTIVATION].text != NULL) {
        snprintf(text, sizeof text, "\nproduct = %s(product)", values[OPT_ACTIVATION].text);
        mmul_program_text_add(line, text);
    }
    add_file(line, values[OPT_RESIDUAL].text);
    mmul_program_text_add(
        line, values[OPT_NORMALIZE_ROWS].number != 0 ? "\nproduct = normalize(product)" : "");
    if (values[OPT_TOPK].source == OPTION_DEFAULT)
        return;
    snprintf(text, sizeof text, "\nproduct, indices = topk(product, %lld)",
             (long long)values[OPT_TOPK].number);
    mmul_program_text_add(line, text);
    if (values[OPT_INDICES].text != NULL)
        mmul_program_text_add_save(line, values[OPT_INDICES].text, "indices");
}

static enum mmul_status choose_output(const struct call *call,
                                      char path[MMUL_PROGRAM_TEXT_PATH_BYTES],
                                      struct mmul_error *err) {
    enum mmul_format formats[2];
    for (int i = 0; i < 2; i++)
        if (mmul_files_find_format(call, call->operands[i], &formats[i], err) != MMUL_OK)
            return err->status;
    return mmul_operands_output_path(call, formats, path, MMUL_PROGRAM_TEXT_PATH_BYTES, err);
}

enum mmul_status mmul_fused_mul_run(const struct call *call, struct mmul_error *err) {
    struct mmul_program_text line = {.length = 0};
    char path[MMUL_PROGRAM_TEXT_PATH_BYTES] = "", a[256], b[256];
    add_product(call, &line);
    add_epilogue(call, &line);
    const bool is_kept = call->options.values[OPT_KEEP].number != 0;
    if (is_kept) {
        mmul_base_name(call->operands[0], a);
        snprintf(path, sizeof path, "kept:%sx%s", a, mmul_base_name(call->operands[1], b));
        mmul_program_text_add_save(&line, path, "product");
    }
    if (call->is_root && (!is_kept || call->options.values[OPT_OUTPUT].text != NULL) &&
        choose_output(call, path, err) == MMUL_OK)
        mmul_program_text_add_save(&line, path, "product");
    return mmul_program_text_run(call, &line, err);
}
