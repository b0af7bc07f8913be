// SPDX-License-Identifier: MIT
// join: combines shard files into one matrix.
#include "cli/failure.h"
#include "cli/files.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/shards.h"

static enum mmul_status choose_output(const struct call *call, const char *folder,
                                      char path[SHARD_FOLDER_CAPACITY], struct mmul_error *err) {
    const char *given = call->options.values[OPT_JOIN_OUTPUT].text;
    enum mmul_format format = (enum mmul_format)call->options.values[OPT_MATRIX_FORMAT].number;
    enum mmul_status status = MMUL_OK;
    if (given == NULL && format == MMUL_FORMAT_BY_ENDING)
        status = mmul_join_format(call->operands[0], folder, &format, err);
    if (status != MMUL_OK)
        return status;
    int length = given != NULL ? snprintf(path, SHARD_FOLDER_CAPACITY, "%s", given)
                               : snprintf(path, SHARD_FOLDER_CAPACITY, "%s_combined%s",
                                          call->operands[0], mmul_format_ending(format));
    if (length < 0 || length >= SHARD_FOLDER_CAPACITY)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "--output: the path is longer than %d bytes",
                             SHARD_FOLDER_CAPACITY - 1);
    return MMUL_OK;
}

static enum mmul_status print_result(const char *path, struct mmul_error *err) {
    struct mmul_matrix *matrix = NULL;
    char shape[96];
    enum mmul_status status = mmul_matrix_open(path, &matrix, err);
    if (status != MMUL_OK)
        return status;
    mmul_print_line(stdout, "%s: %s", path,
                    mmul_shape_format(mmul_matrix_info(matrix).shape, shape));
    mmul_matrix_close(matrix);
    return MMUL_OK;
}

static enum mmul_status run_join(const struct call *call, struct mmul_error *err) {
    char folder[SHARD_FOLDER_CAPACITY], path[SHARD_FOLDER_CAPACITY];
    enum mmul_status status = mmul_shards_find_folder(call, folder, err);
    if (status == MMUL_OK)
        status = choose_output(call, folder, path, err);
    if (status == MMUL_OK)
        status = mmul_join(call->operands[0], folder, path,
                           (enum mmul_format)call->options.values[OPT_MATRIX_FORMAT].number, err);
    mmul_progress_fini(call->progress);
    if (status == MMUL_OK && call->options.values[OPT_QUIET].number == 0 &&
        !mmul_path_is_stdout(path))
        status = print_result(path, err);
    return status;
}

static enum mmul_status check_join(const struct call *call, struct mmul_error *err) {
    return mmul_files_check_output(call, call->options.values[OPT_JOIN_OUTPUT].text, err);
}

static const enum option_id options[] = {
    OPT_JOIN_OUTPUT, OPT_MATRIX_FORMAT, OPT_SHARD_DIR, OPT_QUIET,
    OPT_PROGRESS,    OPT_VERBOSE,       OPT_HELP,      OPT_END,
};

const struct command mmul_command_join = {
    .name = "join",
    .operands = "NAME",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "shard files back into one matrix",
    .notes = "Reads <NAME>_shard_0.bin (or .npy), <NAME>_shard_1 ... as <NAME>_shards.json says;\n"
             "without that file they are joined by rows. The shards stay where they are.\n"
             "\n"
             "  mpimatmul join A -o A.bin\n",
    .doing = "joining",
    .options = options,
    .check = check_join,
    .run = run_join,
};
