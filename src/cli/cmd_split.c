// SPDX-License-Identifier: MIT
// split: divides a matrix into shard files by rows or columns, equally or by weights.
#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/files.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/shards.h"

static bool has_list(const struct call *call) {
    return strcmp(call->options.values[OPT_PART_WEIGHTS].text, "equal") != 0;
}

static enum mmul_status check_split(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    if (strcmp(values[OPT_PART_WEIGHTS].text, "auto") == 0)
        return mmul_cli_fail(err, MMUL_ERR_USAGE,
                             "--weights: 'auto' works only with mul, split measures nothing");
    if (values[OPT_PARTS].text == NULL && !has_list(call)) {
        mmul_cli_fail(err, MMUL_ERR_USAGE, "split: the number of parts is missing");
        return mmul_cli_hint(err, "give --parts N or --weights 0.5,0.25,0.25");
    }
    return MMUL_OK;
}

// Chooses the number of parts and a weight for each; *weights is released with free().
static enum mmul_status choose_weights(const struct call *call, int *parts, double **weights,
                                       struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    double *listed = NULL;
    int count = (int)values[OPT_PARTS].number;
    if (has_list(call) &&
        mmul_weights_parse(values[OPT_PART_WEIGHTS].text, &listed, &count, err) != MMUL_OK)
        return err->status;
    if (values[OPT_PARTS].text != NULL && values[OPT_PARTS].number != count)
        mmul_cli_fail(err, MMUL_ERR_USAGE, "split: %d weights for %lld parts", count,
                      (long long)values[OPT_PARTS].number);
    else if ((*weights = malloc((size_t)count * sizeof **weights)) == NULL)
        mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate %d weights", count);
    for (int part = 0; part < count && *weights != NULL; part++)
        (*weights)[part] = listed != NULL ? listed[part] : 1;
    *parts = count;
    mmul_free(listed);
    return err->status;
}

static void print_rows(const char *name, const char *ending, const struct mmul_split_options *split,
                       const int64_t *offsets, FILE *stream) {
    const char *slash = split->folder[strlen(split->folder) - 1] == '/' ? "" : "/";
    fprintf(stream, "shard\t%s\tbegin\tend\tfile\n", split->axis == MMUL_ROWS ? "rows" : "cols");
    for (int part = 0; part < split->parts; part++) {
        long long begin = offsets[part], end = offsets[part + 1];
        fprintf(stream, "%d\t%lld\t%lld\t%lld\t%s%s%s_shard_%d%s\n", part, end - begin, begin, end,
                split->folder, slash, name, part, ending);
    }
}

static enum mmul_status print_shards(const char *path, const struct mmul_matrix_info *info,
                                     const struct mmul_split_options *split,
                                     struct mmul_error *err) {
    const struct mmul_shape shape = info->shape;
    // Types that .bin lacks are written as .npy.
    bool is_bin = mmul_format_holds(MMUL_FORMAT_BIN, info->stored) == info->stored;
    const char *ending = mmul_format_ending(is_bin ? MMUL_FORMAT_BIN : MMUL_FORMAT_NPY);
    char name[256], *text = NULL;
    size_t length = 0;
    int64_t total =
        mmul_shape_matrices(shape) * (split->axis == MMUL_ROWS ? shape.rows : shape.cols);
    int64_t *offsets = malloc(((size_t)split->parts + 1) * sizeof *offsets);
    FILE *stream = open_memstream(&text, &length);
    enum mmul_status status = MMUL_OK;
    if (offsets == NULL || stream == NULL)
        status = mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a table of %d shards",
                               split->parts);
    else
        status = mmul_split_offsets(total, split->parts, split->weights, split->rule, offsets, err);
    if (status == MMUL_OK)
        print_rows(mmul_make_printable(mmul_base_name(path, name)), ending, split, offsets, stream);
    if (stream != NULL)
        fclose(stream);
    if (status == MMUL_OK && text != NULL)
        mmul_print_table(text, "rrrrl", "  ", stdout);
    free(text);
    free(offsets);
    return status;
}

static enum mmul_status split_file(const struct call *call, const struct mmul_split_options *split,
                                   struct mmul_error *err) {
    const char *path = call->operands[0];
    struct mmul_matrix *matrix = NULL;
    enum mmul_status status = mmul_files_open(call, path, &matrix, err);
    if (status != MMUL_OK)
        return status;
    const struct mmul_matrix_info info = mmul_matrix_info(matrix);
    status = mmul_split(matrix, split, err);
    mmul_progress_fini(call->progress);
    mmul_print_header_notice(call, matrix);
    mmul_matrix_close(matrix);
    if (status == MMUL_OK && call->options.values[OPT_QUIET].number == 0)
        status = print_shards(path, &info, split, err);
    return status;
}

static enum mmul_status run_split(const struct call *call, struct mmul_error *err) {
    static const enum mmul_axis axes[] = {MMUL_ROWS, MMUL_COLS};
    static const enum mmul_split_rule rules[] = {MMUL_SPLIT_EXACT, MMUL_SPLIT_HUNDRED};
    const struct option_value *values = call->options.values;
    char folder[SHARD_FOLDER_CAPACITY];
    double *weights = NULL;
    struct mmul_split_options split = {
        .axis = axes[values[OPT_AXIS].number],
        .rule = rules[values[OPT_SPLIT_RULE].number],
        .folder = folder,
    };
    enum mmul_status status = mmul_shards_find_folder(call, folder, err);
    if (status == MMUL_OK)
        status = choose_weights(call, &split.parts, &weights, err);
    if (status == MMUL_OK) {
        split.weights = weights;
        status = split_file(call, &split, err);
    }
    free(weights);
    return status;
}

static const enum option_id options[] = {
    OPT_PARTS, OPT_PART_WEIGHTS, OPT_AXIS,    OPT_SPLIT_RULE, OPT_SHARD_DIR, OPT_MISSING,
    OPT_QUIET, OPT_PROGRESS,     OPT_VERBOSE, OPT_HELP,       OPT_END,
};

const struct command mmul_command_split = {
    .name = "split",
    .operands = "A",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "a matrix into shard files",
    .notes =
        "Writes <A>_shard_0.bin, <A>_shard_1.bin ... and <A>_shards.json, from which join knows\n"
        "how they belong together; of float64 and whole numbers .npy files. exact shares by "
        "largest\n"
        "remainder, hundred in 100 pieces.\n"
        "\n"
        "  mpimatmul split A.bin --weights 0.5,0.25,0.25\n",
    .doing = "splitting",
    .options = options,
    .check = check_split,
    .run = run_split,
};
