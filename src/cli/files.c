// SPDX-License-Identifier: MIT
// Checks of file names: formats of outputs and the standard streams.
#include "cli/files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/failure.h"
#include "cli/launcher.h"

enum mmul_status mmul_files_check_output(const struct call *call, const char *path,
                                         struct mmul_error *err) {
    enum mmul_format asked = (enum mmul_format)call->options.values[OPT_MATRIX_FORMAT].number;
    enum mmul_format ignored;
    if (path == NULL || mmul_kept_name(path) != NULL)
        return MMUL_OK;
    // mpirun's pipes look like terminals to its processes.
    if (mmul_path_is_stdout(path) && isatty(STDOUT_FILENO) && !mmul_launcher_find().is_present) {
        mmul_cli_fail(err, MMUL_ERR_CREATE, "cannot write a matrix to a terminal");
        return mmul_cli_hint(err, "give a file name, or redirect standard output");
    }
    return mmul_output_format(path, asked, &ignored, err);
}

enum mmul_status mmul_files_check_inputs(const struct call *call, const char *const *paths,
                                         int count, struct mmul_error *err) {
    int found = 0;
    for (int i = 0; i < count; i++)
        found += paths[i] != NULL && mmul_path_is_stdin(paths[i]);
    if (found < 2)
        return MMUL_OK;
    return mmul_cli_fail(err, MMUL_ERR_USAGE,
                         "%s: %d inputs are standard input, which can be read only once",
                         call->command->name, found);
}

enum mmul_status mmul_files_check_operands(const struct call *call, struct mmul_error *err) {
    return mmul_files_check_inputs(call, (const char *const *)call->operands, call->operand_count,
                                   err);
}

enum mmul_status mmul_files_check_text_path(const char *path, const char *what,
                                            struct mmul_error *err) {
    struct stat there;
    char folder[4096] = ".";
    const char *slash = strrchr(path, '/');
    if (strcmp(path, "-") == 0) {
        mmul_cli_fail(err, MMUL_ERR_CREATE, "cannot write %s to '-': only matrices go to stdout",
                      what);
        return mmul_cli_hint(err, "./- names a file called '-'");
    }
    if (mmul_path_descriptor(path) >= 0)
        return MMUL_OK;
    if (slash != NULL)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path + 1), path);
    bool exists = stat(path, &there) == 0;
    if (exists && S_ISDIR(there.st_mode))
        errno = EISDIR;
    else if (exists && S_ISFIFO(there.st_mode))
        errno = ENXIO;
    else if (!exists && errno != ENOENT)
        ; // for example a circular link: errno tells
    else if (access(exists ? path : folder, W_OK) == 0)
        return MMUL_OK;
    return mmul_cli_fail(err, MMUL_ERR_CREATE, "cannot write %s to '%s': %s", what, path,
                         strerror(errno));
}

enum mmul_status mmul_files_check_page_path(const struct call *call, const char *path,
                                            struct mmul_error *err) {
    for (int i = 0; i < call->operand_count; i++)
        if (mmul_paths_are_same(path, call->operands[i]))
            return mmul_cli_fail(err, MMUL_ERR_CREATE,
                                 "cannot write the page to '%s': it is one of the inputs", path);
    return MMUL_OK;
}

enum mmul_status mmul_files_check_journal(const struct call *call, struct mmul_error *err) {
    static const enum option_id given[] = {OPT_JOURNAL, OPT_JOURNAL_SECONDS};
    const struct option_value *values = call->options.values;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (values[OPT_RESUME].number == 0 && values[given[i]].source == OPTION_FROM_COMMAND_LINE)
            return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s needs --resume",
                                 i == 0 ? "--journal" : "--journal-seconds");
    return MMUL_OK;
}

enum mmul_status mmul_files_create_inputs(const struct call *call, struct mmul_inputs **inputs,
                                          struct mmul_error *err) {
    enum mmul_status status = mmul_inputs_create(inputs, err);
    if (status == MMUL_OK) // index of the word in refuse|nan
        mmul_inputs_set_missing(*inputs, call->options.values[OPT_MISSING].number != 0);
    return status;
}

enum mmul_status mmul_files_open(const struct call *call, const char *path,
                                 struct mmul_matrix **matrix, struct mmul_error *err) {
    struct mmul_inputs *inputs = NULL;
    enum mmul_status status = mmul_files_create_inputs(call, &inputs, err);
    if (status == MMUL_OK)
        status = mmul_inputs_open_matrix(inputs, path, matrix, err);
    mmul_inputs_destroy(inputs);
    return status;
}

enum mmul_status mmul_files_find_format(const struct call *call, const char *path,
                                        enum mmul_format *format, struct mmul_error *err) {
    struct mmul_matrix *matrix = NULL;
    *format = MMUL_FORMAT_BIN;
    if (mmul_kept_name(path) != NULL) // stored on the ranks
        return MMUL_OK;
    enum mmul_status status = mmul_files_open(call, path, &matrix, err);
    if (status == MMUL_OK)
        *format = mmul_matrix_info(matrix).format;
    if (!mmul_format_is_written(*format))
        *format = MMUL_FORMAT_NPY;
    mmul_matrix_close(matrix);
    return status;
}

enum mmul_status mmul_files_name_result(const struct mmul_result_name *name, char *path,
                                        size_t capacity, struct mmul_error *err) {
    char a[256], b[256] = "";
    if (name->b != NULL)
        mmul_base_name(name->b, b);
    int length = name->given != NULL
                     ? snprintf(path, capacity, "%s", name->given)
                     : snprintf(path, capacity, "%s%s%s%s%s", mmul_base_name(name->a, a),
                                name->between, b, name->after, mmul_format_ending(name->format));
    if (length < 0 || length >= (int)capacity)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "--output: the path is longer than %d bytes",
                             (int)capacity - 1);
    return MMUL_OK;
}

FILE *mmul_files_table_stream(const char *output) {
    return mmul_path_is_stdout(output) ? stderr : stdout;
}
