// SPDX-License-Identifier: MIT
// info: prints header, statistics and a corner of matrix files, or the list of tensors in a file.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/files.h"
#include "cli/print.h"
#include "cli/progress.h"

enum { CORNER_ROWS = 4, CORNER_COLS = 6 };

struct entry {
    const char *path;
    char *shown;             // the path without control characters; released with free()
    struct mmul_error error; // MMUL_OK: the fields below are valid
    // Set for a file that may hold several tensors. Otherwise NULL, and the fields below are used.
    struct mmul_tensors *tensors;
    struct mmul_matrix_info info;
    struct mmul_statistics statistics;
    // Corner of the first matrix, corner_rows x corner_cols.
    double corner[CORNER_ROWS * CORNER_COLS];
    int corner_rows, corner_cols;
};

static enum mmul_status read_data(struct mmul_matrix *matrix, struct entry *entry,
                                  struct mmul_error *err) {
    struct mmul_shape shape = entry->info.shape;
    entry->corner_rows = shape.rows < CORNER_ROWS ? (int)shape.rows : CORNER_ROWS;
    entry->corner_cols = shape.cols < CORNER_COLS ? (int)shape.cols : CORNER_COLS;
    const struct mmul_region corner = {.row_end = entry->corner_rows,
                                       .col_end = entry->corner_cols};
    enum mmul_status status = mmul_statistics(matrix, &entry->statistics, err);
    if (status == MMUL_OK)
        status = mmul_matrix_read_double(matrix, corner, 0,
                                         (int64_t)entry->corner_rows * entry->corner_cols,
                                         entry->corner, err);
    return status;
}

static void read_file(const struct call *call, const char *path, bool is_quick,
                      struct entry *entry) {
    struct mmul_matrix *matrix = NULL;
    struct mmul_error *err = &entry->error;
    entry->path = path;
    if ((entry->shown = strdup(path)) == NULL)
        mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a file name");
    else if (mmul_tensors_open(path, &entry->tensors, err) == MMUL_OK && entry->tensors == NULL &&
             mmul_files_open(call, path, &matrix, err) == MMUL_OK) {
        entry->info = mmul_matrix_info(matrix);
        if (!is_quick)
            read_data(matrix, entry, err);
        mmul_matrix_close(matrix);
    }
    if (entry->shown != NULL)
        mmul_make_printable(entry->shown);
}

static bool is_matrix(const struct entry *entry) {
    return entry->error.status == MMUL_OK && entry->tensors == NULL;
}

static bool is_list(const struct entry *entry) {
    return entry->error.status == MMUL_OK && entry->tensors != NULL;
}

// ----------------------------------------------------------------------------------------- tables

static void print_row(const struct entry *entry, bool is_quick, FILE *stream) {
    const struct mmul_matrix_info *info = &entry->info;
    const struct mmul_statistics *statistics = &entry->statistics;
    char shape[96], version[16] = "";
    if (info->version > 0)
        snprintf(version, sizeof version, " %d", info->version);
    fprintf(stream, "%s%s%s%s%s\t%s\t%s\t%lld\t", mmul_format_name(info->format), version,
            info->fortran_order ? " Fortran" : "", info->big_endian ? " big" : "",
            info->has_header ? " header" : "", mmul_shape_format(info->shape, shape),
            mmul_dtype_name(info->stored), (long long)info->file_bytes);
    if (!is_quick)
        fprintf(stream, "%.6g\t%.6g\t%.6g\t%lld\t%lld\t", statistics->min, statistics->max,
                statistics->mean, (long long)statistics->nan_count,
                (long long)statistics->inf_count);
    fprintf(stream, "%s\n", entry->shown);
}

static void print_corner(const struct entry *entry) {
    const struct mmul_shape shape = entry->info.shape;
    printf("\n%s, corner of %d x %d:\n", entry->shown, entry->corner_rows, entry->corner_cols);
    for (int i = 0; i < entry->corner_rows; i++) {
        for (int j = 0; j < entry->corner_cols; j++)
            printf(" %12.6g", entry->corner[i * entry->corner_cols + j]);
        printf("%s\n", shape.cols > entry->corner_cols ? " ..." : "");
    }
    if (shape.rows > entry->corner_rows)
        puts("          ...");
}

static void print_tensor(const struct mmul_tensor *tensor, FILE *stream) {
    char *name = strdup(tensor->name), *type = strdup(tensor->type);
    for (int d = 0; d < tensor->dimensions; d++)
        fprintf(stream, d > 0 ? " x %lld" : "%lld", (long long)tensor->sizes[d]);
    if (tensor->dimensions == 0)
        fputs(tensor->is_readable ? "a number" : "unknown", stream);
    fprintf(stream, "\t%s%s\t%lld\t%s\n", type != NULL ? mmul_make_printable(type) : "",
            tensor->is_readable ? "" : " (not read)", (long long)tensor->bytes,
            name != NULL ? mmul_make_printable(name) : "");
    free(type);
    free(name);
}

// Prints the objects in a PyTorch file that are no tensors.
static void print_skipped(const struct mmul_tensors *tensors) {
    enum { SHOWN_CLASSES = 8 };
    const struct mmul_tensors_skipped *classes;
    const int64_t count = mmul_tensors_skipped(tensors, &classes);
    long long objects = 0;
    for (int64_t c = 0; c < count; c++)
        objects += classes[c].count;
    if (count == 0)
        return;
    printf("%lld object%s without tensors skipped: ", objects, objects == 1 ? "" : "s");
    for (int64_t c = 0; c < count && c < SHOWN_CLASSES; c++) {
        char *name = strdup(classes[c].name);
        printf("%s%lld %s", c > 0 ? ", " : "", (long long)classes[c].count,
               name != NULL ? mmul_make_printable(name) : "");
        free(name);
    }
    if (count > SHOWN_CLASSES)
        printf(" and %lld more classes", (long long)(count - SHOWN_CLASSES));
    putchar('\n');
}

static enum mmul_status print_tensors(const struct entry *entry, struct mmul_error *err) {
    const struct mmul_tensors_info info = mmul_tensors_info(entry->tensors);
    char *text = NULL;
    size_t length = 0;
    printf("%s: %s, %lld tensor%s, %lld bytes\n", entry->shown, mmul_format_name(info.format),
           (long long)info.count, info.count == 1 ? "" : "s", (long long)info.file_bytes);
    print_skipped(entry->tensors);
    if (info.count == 0)
        return MMUL_OK;
    FILE *stream = open_memstream(&text, &length);
    if (stream == NULL)
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a table of tensors");
    fputs("dims\tdtype\tbytes\ttensor\n", stream);
    for (int64_t t = 0; t < info.count; t++) {
        const struct mmul_tensor tensor = mmul_tensors_get(entry->tensors, t);
        print_tensor(&tensor, stream);
    }
    if (fclose(stream) == 0)
        mmul_print_table(text, "llrl", "  ", stdout);
    free(text);
    return MMUL_OK;
}

static enum mmul_status print_matrices(const struct entry *entries, int count, bool is_quick,
                                       struct mmul_error *err) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (stream == NULL)
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a table of %d files", count);
    fprintf(stream, "format\tdims\tdtype\tbytes\t%sfile\n",
            is_quick ? "" : "min\tmax\tmean\tNaN\tInf\t");
    for (int f = 0; f < count; f++)
        if (is_matrix(&entries[f]))
            print_row(&entries[f], is_quick, stream);
    if (fclose(stream) == 0)
        mmul_print_table(text, is_quick ? "lllrl" : "lllrrrrrrl", "  ", stdout);
    free(text);
    for (int f = 0; f < count && !is_quick; f++)
        if (is_matrix(&entries[f]))
            print_corner(&entries[f]);
    return MMUL_OK;
}

// Prints files with a single matrix first, then the lists of tensors.
static enum mmul_status print_tables(const struct entry *entries, int count, bool is_quick,
                                     struct mmul_error *err) {
    int matrices = 0;
    enum mmul_status status = MMUL_OK;
    for (int f = 0; f < count; f++)
        matrices += is_matrix(&entries[f]);
    if (matrices > 0)
        status = print_matrices(entries, count, is_quick, err);
    bool is_first = matrices == 0;
    for (int f = 0; f < count && status == MMUL_OK; f++) {
        if (!is_list(&entries[f]))
            continue;
        if (!is_first)
            putchar('\n');
        is_first = false;
        status = print_tensors(&entries[f], err);
    }
    return status;
}

// ------------------------------------------------------------------------------------------- JSON

static void print_json_data(const struct entry *entry) {
    const struct mmul_statistics *statistics = &entry->statistics;
    fputs(", \"min\": ", stdout);
    mmul_print_json_number(statistics->min, stdout);
    fputs(", \"max\": ", stdout);
    mmul_print_json_number(statistics->max, stdout);
    fputs(", \"mean\": ", stdout);
    mmul_print_json_number(statistics->mean, stdout);
    printf(", \"nan\": %lld, \"inf\": %lld, \"corner\": [", (long long)statistics->nan_count,
           (long long)statistics->inf_count);
    for (int i = 0; i < entry->corner_rows; i++) {
        fputs(i > 0 ? ", [" : "[", stdout);
        for (int j = 0; j < entry->corner_cols; j++) {
            fputs(j > 0 ? ", " : "", stdout);
            mmul_print_json_number(entry->corner[i * entry->corner_cols + j], stdout);
        }
        putchar(']');
    }
    putchar(']');
}

static void print_json_tensors(const struct mmul_tensors *tensors) {
    const struct mmul_tensors_info info = mmul_tensors_info(tensors);
    printf(", \"format\": \"%s\", \"bytes\": %lld, \"tensors\": [", mmul_format_name(info.format),
           (long long)info.file_bytes);
    for (int64_t t = 0; t < info.count; t++) {
        const struct mmul_tensor tensor = mmul_tensors_get(tensors, t);
        fputs(t > 0 ? ",\n    {\"name\": " : "\n    {\"name\": ", stdout);
        mmul_print_json_string(tensor.name, stdout);
        fputs(", \"dims\": [", stdout);
        for (int d = 0; d < tensor.dimensions; d++)
            printf(d > 0 ? ", %lld" : "%lld", (long long)tensor.sizes[d]);
        fputs("], \"dtype\": ", stdout);
        mmul_print_json_string(tensor.type, stdout);
        printf(", \"bytes\": %lld}", (long long)tensor.bytes);
    }
    putchar(']');
    const struct mmul_tensors_skipped *classes;
    const int64_t count = mmul_tensors_skipped(tensors, &classes);
    for (int64_t c = 0; c < count; c++) {
        fputs(c == 0 ? ", \"skipped\": {" : ", ", stdout);
        mmul_print_json_string(classes[c].name, stdout);
        printf(": %lld", (long long)classes[c].count);
    }
    fputs(count > 0 ? "}}" : "}", stdout);
}

static void print_json_entry(const struct entry *entry, bool is_quick) {
    const struct mmul_matrix_info *info = &entry->info;
    const struct mmul_shape shape = info->shape;
    fputs("  {\"file\": ", stdout);
    mmul_print_json_string(entry->path, stdout);
    if (entry->error.status != MMUL_OK) {
        fputs(", \"error\": ", stdout);
        mmul_print_json_string(entry->error.text, stdout);
        putchar('}');
        return;
    }
    if (entry->tensors != NULL) {
        print_json_tensors(entry->tensors);
        return;
    }
    printf(", \"format\": \"%s\", \"version\": %d, \"dims\": [%lld, %lld, %lld, %lld]",
           mmul_format_name(info->format), info->version, (long long)shape.batch,
           (long long)shape.depth, (long long)shape.rows, (long long)shape.cols);
    printf(", \"dtype\": \"%s\", \"bytes\": %lld, \"fortran_order\": %s, \"big_endian\": %s, "
           "\"header\": %s",
           mmul_dtype_name(info->stored), (long long)info->file_bytes,
           info->fortran_order ? "true" : "false", info->big_endian ? "true" : "false",
           info->has_header ? "true" : "false");
    if (!is_quick)
        print_json_data(entry);
    putchar('}');
}

static void print_json(const struct entry *entries, int count, bool is_quick) {
    puts("[");
    for (int f = 0; f < count; f++) {
        print_json_entry(&entries[f], is_quick);
        puts(f + 1 < count ? "," : "");
    }
    puts("]");
}

// Prints a line for each unreadable file except the last, which main prints. The exit code is that
// of the first one. Returns the number of files that were read.
static int print_failures(const struct call *call, const struct entry *entries, int count,
                          struct mmul_error *err) {
    int read = 0;
    const struct mmul_error *last = NULL;
    enum mmul_status first = MMUL_OK;
    for (int f = 0; f < count; f++) {
        const struct mmul_error *failure = &entries[f].error;
        read += failure->status == MMUL_OK;
        if (failure->status == MMUL_OK)
            continue;
        if (last == NULL)
            first = failure->status;
        else
            mmul_print_remark(call, "%s", last->text);
        last = failure;
    }
    if (last != NULL)
        *err = *last;
    err->status = first;
    return read;
}

static enum mmul_status run_info(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const int count = call->operand_count;
    bool is_quick = values[OPT_QUICK].number != 0;
    struct mmul_error print_error = {0};
    struct entry *entries = calloc((size_t)count, sizeof *entries);
    if (entries == NULL)
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a table of %d files", count);
    for (int f = 0; f < count; f++)
        read_file(call, call->operands[f], is_quick, &entries[f]);
    mmul_progress_fini(call->progress);
    int read = print_failures(call, entries, count, err);
    if (values[OPT_JSON].number != 0)
        print_json(entries, count, is_quick);
    else if (read > 0)
        print_tables(entries, count, is_quick, &print_error);
    for (int f = 0; f < count; f++) {
        mmul_tensors_close(entries[f].tensors);
        free(entries[f].shown);
    }
    free(entries);
    if (err->status == MMUL_OK)
        *err = print_error;
    return err->status;
}

static const enum option_id options[] = {
    OPT_QUICK, OPT_JSON, OPT_MISSING, OPT_PROGRESS, OPT_VERBOSE, OPT_HELP, OPT_END,
};

const struct command mmul_command_info = {
    .name = "info",
    .operands = "FILE...",
    .operands_min = 1,
    .operands_max = INT_MAX,
    .summary = "format, dims, dtype, bytes, min, max, mean, NaN, Inf, a corner",
    .notes =
        "Of .npz, .safetensors, .pt and .gguf files it lists the tensors; FILE:NAME is one of "
        "them, here\n"
        "and in every other command, and FILE:NAME[a:b] a range of its first axis, as in numpy.\n"
        "Objects of a .pt file that hold no tensors are skipped; it says how many of which "
        "classes.\n"
        "\n"
        "Min, max and mean are of the finite elements. Fortran: columns first; big: big-endian; "
        "header:\n"
        "the first line of a .csv names the columns and is no row.\n"
        "A file that cannot be read is told and left out; the exit code is that of the first "
        "one.\n",
    .doing = "reading",
    .options = options,
    .check = mmul_files_check_operands,
    .run = run_info,
};
