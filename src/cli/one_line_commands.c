// SPDX-License-Identifier: MIT
// Commands that are programs of one line: add, sub, transpose, map, reduce, topk. Each builds its
// text from its operands; the library computes.
#include <stdio.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/files.h"
#include "cli/program_text.h"
#include "cli/run_script.h"
#include "mpimatmul.h"

// Runs the line and saves `result` to -o, or to <A>_<what>[_<B>] in the current folder with the
// ending of A's format.
static enum mmul_status run_line(const struct call *call, struct mmul_program_text *line,
                                 const char *what, const char *const operands[2],
                                 struct mmul_error *err) {
    char path[MMUL_PROGRAM_TEXT_PATH_BYTES] = "", between[64];
    struct mmul_result_name name = {.given = call->options.values[OPT_LINE_OUTPUT].text,
                                    .a = operands[0],
                                    .between = between,
                                    .b = operands[1],
                                    .after = ""};
    snprintf(between, sizeof between, operands[1] != NULL ? "_%s_" : "_%s", what);
    if (call->is_root && name.given == NULL)
        mmul_files_find_format(call, name.a, &name.format, err);
    if (call->is_root && err->status == MMUL_OK &&
        mmul_files_name_result(&name, path, MMUL_PROGRAM_TEXT_PATH_BYTES, err) == MMUL_OK)
        mmul_program_text_add_save(line, path, "result");
    return mmul_program_text_run(call, line, err);
}

// ---------------------------------------------------------------------------- add, sub, transpose

static enum mmul_status run_pair(const struct call *call, struct mmul_error *err) {
    struct mmul_program_text line = {.length = 0};
    mmul_program_text_add(&line, "result = ");
    mmul_program_text_add_load(&line, call->operands[0]);
    mmul_program_text_add(&line, strcmp(call->command->name, "add") == 0 ? " + " : " - ");
    mmul_program_text_add_load(&line, call->operands[1]);
    return run_line(call, &line, call->command->name,
                    (const char *const[]){call->operands[0], call->operands[1]}, err);
}

static enum mmul_status run_transpose(const struct call *call, struct mmul_error *err) {
    struct mmul_program_text line = {.length = 0};
    mmul_program_text_add(&line, "result = ");
    mmul_program_text_add_load(&line, call->operands[0]);
    mmul_program_text_add(&line, ".T");
    return run_line(call, &line, "transposed", (const char *const[]){call->operands[0], NULL}, err);
}

static const char *const maps[] = {
    "neg",       "exp",      "log",        "log1p",  "sqrt",     "rsqrt", "abs",     "relu",
    "sigmoid",   "tanh",     "silu",       "gelu",   "softplus", "sin",   "cos",     "softmax",
    "normalize", "rms_norm", "layer_norm", "argmax", "argmin",   "sort",  "argsort", NULL};
static const char *const reductions[] = {"sum", "mean", "max", "min", "var", "std", NULL};

// Checks OP against a list of words.
static enum mmul_status check_word(const struct call *call, const char *const *words,
                                   struct mmul_error *err) {
    const char *word = call->operands[0], *nearest = mmul_nearest(word, words);
    char all[256] = "";
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], word) == 0)
            return mmul_files_check_inputs(call, (const char *const *)call->operands + 1, 1, err);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? " " : "", words[i]);
    }
    if (nearest != NULL)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: unknown operation '%s', did you mean '%s'?",
                             call->command->name, word, nearest);
    mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: unknown operation '%s'", call->command->name, word);
    return mmul_cli_hint(err, "expected one of: %s", all);
}

static enum mmul_status check_map(const struct call *call, struct mmul_error *err) {
    return check_word(call, maps, err);
}

static enum mmul_status check_reduce(const struct call *call, struct mmul_error *err) {
    return check_word(call, reductions, err);
}

// Runs OP(A) with further arguments from `more`.
static enum mmul_status run_word(const struct call *call, const char *more,
                                 struct mmul_error *err) {
    struct mmul_program_text line = {.length = 0};
    mmul_program_text_add(&line, "result = ");
    mmul_program_text_add(&line, call->operands[0]);
    mmul_program_text_add(&line, "(");
    mmul_program_text_add_load(&line, call->operands[1]);
    mmul_program_text_add(&line, more);
    mmul_program_text_add(&line, ")");
    return run_line(call, &line, call->operands[0], (const char *const[]){call->operands[1], NULL},
                    err);
}

static enum mmul_status run_map(const struct call *call, struct mmul_error *err) {
    bool is_rms = strcmp(call->operands[0], "rms_norm") == 0;
    bool is_layer = strcmp(call->operands[0], "layer_norm") == 0;
    return run_word(call, is_rms ? ", None" : is_layer ? ", None, None" : "", err);
}

static enum mmul_status run_reduce(const struct call *call, struct mmul_error *err) {
    static const char *const axes[] = {", axis=-1", ", axis=-2", ", axis=None"};
    return run_word(call, axes[call->options.values[OPT_REDUCED].number], err);
}

// ------------------------------------------------------------------------------------------- topk

// Adds the rows as one expression, so that errors mention files.
static void add_rows(const struct call *call, struct mmul_program_text *line, const char *path) {
    const bool is_normalized = call->options.values[OPT_NORMALIZE_ROWS].number != 0;
    mmul_program_text_add(line, is_normalized ? "normalize(" : "");
    mmul_program_text_add_load(line, path);
    mmul_program_text_add(line, is_normalized ? ")" : "");
}

static enum mmul_status run_topk(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const char *second = call->operand_count == 2 ? call->operands[1] : NULL;
    struct mmul_program_text line = {.length = 0};
    char count[32];
    mmul_program_text_add(&line, "result, indices = topk(");
    add_rows(call, &line, call->operands[0]);
    if (second != NULL) {
        mmul_program_text_add(&line, " @ ");
        add_rows(call, &line, second);
        mmul_program_text_add(&line, ".T");
    }
    snprintf(count, sizeof count, ", %lld)", (long long)values[OPT_COUNT_K].number);
    mmul_program_text_add(&line, count);
    if (values[OPT_INDICES].text != NULL)
        mmul_program_text_add_save(&line, values[OPT_INDICES].text, "indices");
    return run_line(call, &line, "topk", (const char *const[]){call->operands[0], second}, err);
}

// --------------------------------------------------------------------------------------- commands

static const enum option_id options[] = {OPT_LINE_OUTPUT, MMUL_RUN_OPTIONS, OPT_END};
static const enum option_id reduce_options[] = {OPT_LINE_OUTPUT, OPT_REDUCED, MMUL_RUN_OPTIONS,
                                                OPT_END};
static const enum option_id topk_options[] = {OPT_LINE_OUTPUT,    OPT_INDICES,      OPT_COUNT_K,
                                              OPT_NORMALIZE_ROWS, MMUL_RUN_OPTIONS, OPT_END};

const struct command mmul_command_add = {
    .name = "add",
    .operands = "A B",
    .operands_min = 2,
    .operands_max = 2,
    .summary = "A + B; sizes of 1 are broadcast",
    .notes = "The program y = load(A) + load(B) of `mpimatmul run`.\n",
    .options = options,
    .refused = mmul_run_refused,
    .needs_mpi = true,
    .check = mmul_files_check_operands,
    .run = run_pair,
};

const struct command mmul_command_sub = {
    .name = "sub",
    .operands = "A B",
    .operands_min = 2,
    .operands_max = 2,
    .summary = "A - B; sizes of 1 are broadcast",
    .notes = "The program y = load(A) - load(B) of `mpimatmul run`.\n",
    .options = options,
    .refused = mmul_run_refused,
    .needs_mpi = true,
    .check = mmul_files_check_operands,
    .run = run_pair,
};

const struct command mmul_command_transpose = {
    .name = "transpose",
    .operands = "A",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "transpose every matrix of a stack",
    .notes = "The program y = load(A).T of `mpimatmul run`.\n",
    .options = options,
    .refused = mmul_run_refused,
    .needs_mpi = true,
    .check = mmul_files_check_operands,
    .run = run_transpose,
};

const struct command mmul_command_map = {
    .name = "map",
    .operands = "OP A",
    .operands_min = 2,
    .operands_max = 2,
    .summary = "relu, gelu, softmax, ... of a matrix",
    .notes = "OP is of every element: neg exp log log1p sqrt rsqrt abs relu sigmoid tanh silu\n"
             "gelu softplus sin cos; or of every row: softmax normalize rms_norm layer_norm\n"
             "(both without weights) argmax argmin sort argsort. The program y = OP(load(A)) of "
             "`mpimatmul run`.\n"
             "\n"
             "  mpimatmul map gelu X.npy -o Y.npy\n",
    .options = options,
    .refused = mmul_run_refused,
    .needs_mpi = true,
    .check = check_map,
    .run = run_map,
};

const struct command mmul_command_reduce = {
    .name = "reduce",
    .operands = "OP A",
    .operands_min = 2,
    .operands_max = 2,
    .summary = "sum, mean, max, ... of rows or columns",
    .notes =
        "OP is sum, mean, max, min, var or std. What is reduced stays with size 1. The program\n"
        "y = OP(load(A), axis=...) of `mpimatmul run`.\n"
        "\n"
        "  mpimatmul reduce mean X.npy --axis -2 -o means.npy\n",
    .options = reduce_options,
    .refused = mmul_run_refused,
    .needs_mpi = true,
    .check = check_reduce,
    .run = run_reduce,
};

const struct command mmul_command_topk = {
    .name = "topk",
    .operands = "A [B]",
    .operands_min = 1,
    .operands_max = 2,
    .summary = "the largest of each row of A, or of A B^T",
    .notes = "With B: rows of B that are most like rows of A, by their product, or with\n"
             "--normalize-rows by the cosine between them. The program of `mpimatmul run` is\n"
             "y, places = topk(normalize(load(A)) @ normalize(load(B)).T, k).\n"
             "\n"
             "  mpimatmul topk texts.npy words.npy --normalize-rows -k 5 -o near.npy --indices "
             "which.npy\n",
    .options = topk_options,
    .refused = mmul_run_refused,
    .needs_mpi = true,
    .check = mmul_files_check_operands,
    .run = run_topk,
};
