// SPDX-License-Identifier: MIT
// report: converts the files that a run has written to one HTML page.
#include <string.h>

#include "cli/failure.h"
#include "cli/files.h"
#include "cli/print.h"

enum { PATH_CAPACITY = 4096 };

// Returns the given path, or <RUN>.html in the current folder, without RUN's .json.
static enum mmul_status name_page(const struct call *call, char path[static PATH_CAPACITY],
                                  struct mmul_error *err) {
    const char *given = call->options.values[OPT_PAGE_OUTPUT].text, *input = call->operands[0],
               *slash = strrchr(input, '/'), *base = slash != NULL ? slash + 1 : input,
               *dot = strrchr(base, '.');
    const size_t bytes =
        dot != NULL && strcmp(dot, ".json") == 0 ? (size_t)(dot - base) : strlen(base);
    const int length = given != NULL ? snprintf(path, PATH_CAPACITY, "%s", given)
                                     : snprintf(path, PATH_CAPACITY, "%.*s.html", (int)bytes, base);
    if (length >= PATH_CAPACITY)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "--output: the path is longer than %d bytes",
                             PATH_CAPACITY - 1);
    return MMUL_OK;
}

static enum mmul_status make_page(const struct call *call, struct mmul_page *page,
                                  struct mmul_error *err) {
    char path[PATH_CAPACITY], *text = NULL;
    enum mmul_status status = name_page(call, path, err);
    if (status == MMUL_OK)
        status = mmul_files_check_page_path(call, path, err);
    if (status == MMUL_OK && !mmul_path_is_stdout(path))
        status = mmul_files_check_text_path(path, "the page", err);
    for (int i = 0; status == MMUL_OK && i < call->operand_count; i++)
        status = mmul_page_add_file(page, call->operands[i], err);
    if (status == MMUL_OK && mmul_path_is_stdout(path))
        return mmul_print_owned_text(mmul_page_text(page, &text, err), &text, stdout);
    if (status == MMUL_OK)
        status = mmul_page_store(page, path, err);
    if (status == MMUL_OK && call->options.values[OPT_QUIET].number == 0)
        mmul_print_line(stdout, "%s", path);
    return status;
}

static enum mmul_status run_report(const struct call *call, struct mmul_error *err) {
    struct mmul_page *page = NULL;
    enum mmul_status status = mmul_page_create(&page, err);
    if (status == MMUL_OK)
        status = make_page(call, page, err);
    mmul_page_destroy(page);
    return status;
}

static const enum option_id options[] = {
    OPT_PAGE_OUTPUT, OPT_QUIET, OPT_VERBOSE, OPT_HELP, OPT_END,
};

const struct command mmul_command_report = {
    .name = "report",
    .operands = "RUN [FILE...]",
    .operands_min = 1,
    .operands_max = 4,
    .summary = "a run as an HTML page: bars, time line, tables",
    .notes =
        "RUN is what --report of mul or run has written, or what mul --json or run --json prints;\n"
        "FILE what --trace or --metrics has. Their content says which is which. The page needs no\n"
        "network and no other file; --html of mul and run writes the same at once.\n"
        "\n"
        "  mpimatmul run train.py --report run.json --trace trace.json --metrics m.jsonl\n"
        "  mpimatmul report run.json trace.json m.jsonl -o run.html\n",
    .doing = "drawing",
    .options = options,
    .run = run_report,
};
