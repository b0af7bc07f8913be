// SPDX-License-Identifier: MIT
// Commands that are programs of one line: add, sub, transpose, map, reduce, topk. Each is a text
// with its files in it, which `run` executes: types, shapes, checks and outputs are those of texts.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/files.h"
#include "cli/run_script.h"
#include "mpimatmul.h"

// Prints a string literal of Python.
static void print_string(const char *text, FILE *stream) {
    fputc('"', stream);
    for (; *text != '\0'; text++)
        if (*text == '\n')
            fputs("\\n", stream);
        else
            fprintf(stream, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
    fputc('"', stream);
}

static void print_save(const char *path, const char *value, FILE *stream) {
    fputs("\nsave(", stream);
    print_string(path, stream);
    fprintf(stream, ", %s)", value);
}

// Prints the program: `text`, in which $1 and $2 stand for load("OPERAND"), and lines that save
// `result`, and `indices` if they are asked for.
static enum mmul_status print_program(const struct call *call, const char *text, const char *path,
                                      char **program, size_t *length, struct mmul_error *err) {
    const char *indices = call->options.values[OPT_INDICES].text;
    FILE *stream = open_memstream(program, length);
    if (stream == NULL)
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the program");
    for (; *text != '\0'; text++) {
        if (*text != '$') {
            fputc(*text, stream);
            continue;
        }
        fputs("load(", stream);
        print_string(call->operands[*++text - '1'], stream);
        fputc(')', stream);
    }
    if (indices != NULL)
        print_save(indices, "indices", stream);
    print_save(path, "result", stream);
    return fclose(stream) == 0 ? MMUL_OK
                               : mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the program");
}

// Runs the text and saves `result` to -o, or to <A>_<what>[_<B>] in the current folder with the
// ending of A's format. first: the operand that is A.
static enum mmul_status run_line(const struct call *call, const char *text, const char *what,
                                 int first, struct mmul_error *err) {
    char path[4096], between[64], *program = NULL;
    size_t length = 0;
    struct mmul_result_name name = {.given = call->options.values[OPT_LINE_OUTPUT].text,
                                    .a = call->operands[first],
                                    .between = between,
                                    .b = call->operand_count > first + 1 ? call->operands[first + 1]
                                                                         : NULL,
                                    .after = ""};
    snprintf(between, sizeof between, name.b != NULL ? "_%s_" : "_%s", what);
    if (call->is_root && name.given == NULL)
        mmul_files_find_format(call, name.a, &name.format, err);
    if (call->is_root && err->status == MMUL_OK &&
        mmul_files_name_result(&name, path, sizeof path, err) == MMUL_OK)
        print_program(call, text, path, &program, &length, err);
    const struct mmul_script_request request = {
        .text = program, .text_bytes = length, .common_types = true};
    enum mmul_status status = mmul_run_script(call, &request, err);
    free(program);
    return status;
}

// ---------------------------------------------------------------------------- add, sub, transpose

static enum mmul_status run_add(const struct call *call, struct mmul_error *err) {
    return run_line(call, "result = $1 + $2", "add", 0, err);
}

static enum mmul_status run_sub(const struct call *call, struct mmul_error *err) {
    return run_line(call, "result = $1 - $2", "sub", 0, err);
}

static enum mmul_status run_transpose(const struct call *call, struct mmul_error *err) {
    return run_line(call, "result = $1.T", "transposed", 0, err);
}

// ------------------------------------------------------------------------------------ map, reduce

enum { WORDS = 128 };

// Operations of map beside the functions of one value in the library's table.
static const char *const more_maps[] = {"gelu",       "round",  "softmax", "normalize", "rms_norm",
                                        "layer_norm", "argmax", "argmin",  "sort",      "argsort"};
static const char *const reductions[] = {"sum", "mean", "max", "min", "var", "std", NULL};

// Finds the next function of one value, from *number on.
static bool find_function(int *number, struct mmul_element_info *info) {
    while (mmul_elements_get((*number)++, info))
        if (info->help != NULL)
            return true;
    return false;
}

static void print_functions(FILE *stream) {
    struct mmul_element_info info;
    for (int number = 0; find_function(&number, &info);)
        fprintf(stream, "  %-9s %s of every element%s\n", info.name, info.help,
                info.has_gradient ? "" : " (no gradient)");
}

// Checks OP against a list of words.
static enum mmul_status check_word(const struct call *call, const char *const *words,
                                   struct mmul_error *err) {
    const char *word = call->operands[0], *nearest = mmul_nearest(word, words);
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], word) == 0)
            return mmul_files_check_inputs(call, (const char *const *)call->operands + 1, 1, err);
    if (nearest != NULL)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: unknown operation '%s', did you mean '%s'?",
                             call->command->name, word, nearest);
    mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: unknown operation '%s'", call->command->name, word);
    return mmul_cli_hint(err, "mpimatmul %s --help lists the operations", call->command->name);
}

static enum mmul_status check_map(const struct call *call, struct mmul_error *err) {
    const char *words[WORDS] = {NULL};
    struct mmul_element_info info;
    int count = 0;
    for (size_t i = 0; i < sizeof more_maps / sizeof *more_maps; i++)
        words[count++] = more_maps[i];
    for (int number = 0; count + 1 < WORDS && find_function(&number, &info);)
        words[count++] = info.name;
    return check_word(call, words, err);
}

static enum mmul_status check_reduce(const struct call *call, struct mmul_error *err) {
    return check_word(call, reductions, err);
}

// Runs OP(A) with further arguments from `more`.
static enum mmul_status run_word(const struct call *call, const char *more,
                                 struct mmul_error *err) {
    char text[64];
    snprintf(text, sizeof text, "result = %s($2%s)", call->operands[0], more);
    return run_line(call, text, call->operands[0], 1, err);
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

// The rows are one expression, so that errors mention files.
static enum mmul_status run_topk(const struct call *call, struct mmul_error *err) {
    static const char *const rows[2][2] = {{"$1", "$1 @ $2.T"},
                                           {"normalize($1)", "normalize($1) @ normalize($2).T"}};
    const struct option_value *values = call->options.values;
    const bool is_normalized = values[OPT_NORMALIZE_ROWS].number != 0;
    char text[96];
    snprintf(text, sizeof text, "result, indices = topk(%s, %lld)",
             rows[is_normalized][call->operand_count == 2], (long long)values[OPT_COUNT_K].number);
    return run_line(call, text, "topk", 0, err);
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
    .run = run_add,
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
    .run = run_sub,
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
    .notes = "OP is of every row: softmax normalize rms_norm layer_norm (both without weights)\n"
             "argmax argmin sort argsort; or of every element: gelu, round, or one of the list\n"
             "below. The program y = OP(load(A)) of `mpimatmul run`.\n"
             "\n"
             "  mpimatmul map gelu X.npy -o Y.npy\n"
             "\n",
    .print_more = print_functions,
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
