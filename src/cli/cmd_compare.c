// SPDX-License-Identifier: MIT
// compare: shows two runs side by side.
#include "cli/failure.h"
#include "cli/files.h"
#include "cli/print.h"

static enum mmul_status store_page(const struct mmul_comparison *comparison, const char *path,
                                   struct mmul_error *err) {
    struct mmul_page *page = NULL;
    enum mmul_status status = mmul_page_create(&page, err);
    if (status == MMUL_OK)
        status = mmul_page_add_comparison(page, comparison, err);
    if (status == MMUL_OK)
        status = mmul_page_store(page, path, err);
    mmul_page_destroy(page);
    return status;
}

static enum mmul_status run_compare(const struct call *call, struct mmul_error *err) {
    struct mmul_comparison *comparison = NULL;
    const char *page = call->options.values[OPT_COMPARE_HTML].text;
    char *text = NULL;
    enum mmul_status status = page != NULL ? mmul_files_check_page_path(call, page, err) : MMUL_OK;
    if (status == MMUL_OK && page != NULL)
        status = mmul_files_check_text_path(page, "the page", err);
    if (status == MMUL_OK)
        status = mmul_comparison_create(call->operands[0], call->operands[1], &comparison, err);
    if (status == MMUL_OK && call->options.values[OPT_JSON].number != 0)
        status = mmul_print_owned_text(mmul_comparison_json(comparison, &text, err), &text, stdout);
    else if (status == MMUL_OK)
        mmul_comparison_print(comparison, call->options.values[OPT_VERBOSE].number != 0, stdout);
    if (status == MMUL_OK && page != NULL)
        status = store_page(comparison, page, err);
    mmul_comparison_destroy(comparison);
    return status;
}

static const enum option_id options[] = {OPT_JSON, OPT_COMPARE_HTML, OPT_VERBOSE, OPT_HELP,
                                         OPT_END};

const struct command mmul_command_compare = {
    .name = "compare",
    .operands = "A B",
    .operands_min = 2,
    .operands_max = 2,
    .summary = "two runs side by side, with differences in their settings",
    .notes =
        "A and B are what --report of mul or run has written (or mul --json prints), or both what\n"
        "run --json prints. First stands what differs in sizes, types, ranks, machines, devices "
        "and\n"
        "kernels; then seconds, rates and bytes of both, and B over A. Of operations those that "
        "differ\n"
        "most; --verbose shows all.\n"
        "\n"
        "  mpimatmul compare before.json after.json\n",
    .options = options,
    .run = run_compare,
};
