// SPDX-License-Identifier: MIT
// verify: checks C = alpha op(A) op(B) on three files with the library's check, without
// multiplying.
#include "cli/failure.h"
#include "cli/files.h"
#include "cli/operands.h"
#include "cli/print.h"
#include "cli/progress.h"

static void print_json(const struct call *call, const struct mmul_verdict *verdict) {
    static const char *const names[] = {"a", "b", "c"};
    fputs("{\n  \"schema\": \"mpimatmul-verify\",\n  \"schema_version\": 1,\n", stdout);
    for (int i = 0; i < 3; i++) {
        printf("  \"%s\": ", names[i]);
        mmul_print_json_string(call->operands[i], stdout);
        fputs(",\n", stdout);
    }
    printf("  \"right\": %s,\n  \"rows_checked\": %lld,\n  \"rows_wrong\": %lld,\n"
           "  \"first_wrong_matrix\": %lld,\n  \"first_wrong_row\": %lld\n}\n",
           verdict->rows_wrong == 0 ? "true" : "false", (long long)verdict->rows_checked,
           (long long)verdict->rows_wrong, (long long)verdict->first_wrong_matrix,
           (long long)verdict->first_wrong_row);
}

static enum mmul_status check_verdict(const struct call *call, const struct mmul_verdict *verdict,
                                      struct mmul_error *err) {
    const char *a = call->operands[0], *b = call->operands[1], *c = call->operands[2];
    mmul_progress_fini(call->progress);
    bool is_json = call->options.values[OPT_JSON].number != 0;
    if (is_json)
        print_json(call, verdict);
    if (verdict->rows_wrong > 0)
        return mmul_cli_fail(err, MMUL_ERR_WRONG,
                             "'%s' is not '%s' times '%s': %lld of %lld rows wrong, the first is "
                             "row %lld of matrix %lld",
                             c, a, b, (long long)verdict->rows_wrong,
                             (long long)verdict->rows_checked, (long long)verdict->first_wrong_row,
                             (long long)verdict->first_wrong_matrix);
    if (!is_json && call->options.values[OPT_QUIET].number == 0)
        mmul_print_line(stdout, "'%s' is '%s' times '%s': %lld rows checked", c, a, b,
                        (long long)verdict->rows_checked);
    return MMUL_OK;
}

static enum mmul_status run_verify(const struct call *call, struct mmul_error *err) {
    struct operands operands = mmul_operands_product(call);
    struct mmul_inputs *inputs = NULL;
    struct mmul_matrix *c = NULL;
    struct mmul_verdict verdict = {0};
    enum mmul_status status = mmul_files_create_inputs(call, &inputs, err);
    if (status == MMUL_OK)
        status = mmul_operands_open(call, inputs, &operands, err);
    if (status == MMUL_OK)
        status = mmul_inputs_open_matrix(inputs, call->operands[2], &c, err);
    if (status == MMUL_OK)
        status = mmul_verify(&operands.args, c, &verdict, err);
    if (status == MMUL_OK)
        status = check_verdict(call, &verdict, err);
    mmul_print_header_notice(call, c);
    mmul_matrix_close(c);
    mmul_inputs_destroy(inputs);
    mmul_operands_close(call, &operands);
    return status;
}

static const enum option_id options[] = {
    OPT_TRANSPOSE_A, OPT_TRANSPOSE_B, OPT_ALPHA,   OPT_MISSING, OPT_JSON,
    OPT_QUIET,       OPT_PROGRESS,    OPT_VERBOSE, OPT_HELP,    OPT_END,
};

const struct command mmul_command_verify = {
    .name = "verify",
    .operands = "A B C",
    .operands_min = 3,
    .operands_max = 3,
    .summary = "is C = alpha op(A) op(B)? exit code 79 when not",
    .notes =
        "Costs O(n^2) where multiplying costs O(n^3): C x is compared with A (B x), row by row.\n",
    .doing = "verifying",
    .options = options,
    .check = mmul_files_check_operands,
    .run = run_verify,
};
