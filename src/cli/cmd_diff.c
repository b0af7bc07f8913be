// SPDX-License-Identifier: MIT
// diff: compares two matrices within a tolerance. A difference has an exit code of its own and is
// no error of the program.
#include "cli/failure.h"
#include "cli/files.h"
#include "cli/print.h"
#include "cli/progress.h"

struct sides {
    struct mmul_matrix *x, *y;
    struct mmul_shape x_shape, y_shape;
    double tolerance, relative;
    struct mmul_difference difference;
};

static void print_json_dims(struct mmul_shape shape, FILE *stream) {
    fprintf(stream, "[%lld, %lld, %lld, %lld]", (long long)shape.batch, (long long)shape.depth,
            (long long)shape.rows, (long long)shape.cols);
}

static void print_json(const struct sides *sides) {
    const struct mmul_difference *d = &sides->difference;
    fputs("{\n  \"x\": ", stdout);
    mmul_print_json_string(mmul_matrix_name(sides->x), stdout);
    fputs(",\n  \"y\": ", stdout);
    mmul_print_json_string(mmul_matrix_name(sides->y), stdout);
    fputs(",\n  \"x_dims\": ", stdout);
    print_json_dims(sides->x_shape, stdout);
    fputs(",\n  \"y_dims\": ", stdout);
    print_json_dims(sides->y_shape, stdout);
    fputs(",\n  \"tolerance\": ", stdout);
    mmul_print_json_number(sides->tolerance, stdout);
    fputs(",\n  \"relative\": ", stdout);
    mmul_print_json_number(sides->relative, stdout);
    printf(",\n  \"same\": %s", d->same_shape && d->outside == 0 ? "true" : "false");
    if (d->same_shape) {
        printf(",\n  \"elements\": %lld,\n  \"outside\": %lld", (long long)d->count,
               (long long)d->outside);
        printf(",\n  \"first_outside\": %lld,\n  \"max_difference\": ",
               (long long)d->first_outside);
        mmul_print_json_number(d->max_absolute, stdout);
        fputs(",\n  \"mean_difference\": ", stdout);
        mmul_print_json_number(d->mean_absolute, stdout);
        fputs(",\n  \"max_relative\": ", stdout);
        mmul_print_json_number(d->max_relative, stdout);
        fputs(",\n  \"max_x\": ", stdout);
        mmul_print_json_number(d->max_reference, stdout);
    }
    fputs("\n}\n", stdout);
}

// Prints "[0, 2, 17, 3]": batch, depth, row and column of an element counted in C order.
static void print_place(struct mmul_shape shape, int64_t element) {
    int64_t col = element % shape.cols, rest = element / shape.cols;
    int64_t row = rest % shape.rows, matrix = rest / shape.rows;
    printf("[%lld, %lld, %lld, %lld]", (long long)(matrix / shape.depth),
           (long long)(matrix % shape.depth), (long long)row, (long long)col);
}

// Formats "0.001", or "0.001 + 1e-05 |x|". Returns `text`.
static char *tolerance_format(const struct sides *sides, char text[static 64]) {
    int length = snprintf(text, 64, "%.9g", sides->tolerance);
    if (sides->relative > 0)
        snprintf(text + length, 64 - (size_t)length, " + %.9g |x|", sides->relative);
    return text;
}

static void print_table(const struct sides *sides) {
    const struct mmul_difference *d = &sides->difference;
    char shape[96], tolerance[64];
    printf("shape            %s\n", mmul_shape_format(sides->x_shape, shape));
    printf("elements         %lld\n", (long long)d->count);
    printf("max difference   %.9g\n", d->max_absolute);
    printf("mean difference  %.9g\n", d->mean_absolute);
    printf("max relative     %.9g\n", d->max_relative);
    printf("max |x|          %.9g\n", d->max_reference);
    printf("tolerance        %s\n", tolerance_format(sides, tolerance));
    printf("outside          %lld\n", (long long)d->outside);
    if (d->first_outside >= 0) {
        fputs("first outside    ", stdout);
        print_place(sides->x_shape, d->first_outside);
        putchar('\n');
    }
}

static enum mmul_status check_difference(const struct sides *sides, struct mmul_error *err) {
    const struct mmul_difference *d = &sides->difference;
    const char *x = mmul_matrix_name(sides->x), *y = mmul_matrix_name(sides->y);
    char x_shape[96], y_shape[96], tolerance[64];
    if (!d->same_shape)
        return mmul_cli_fail(err, MMUL_ERR_WRONG, "'%s' (%s) and '%s' (%s) differ in shape", x,
                             mmul_shape_format(sides->x_shape, x_shape), y,
                             mmul_shape_format(sides->y_shape, y_shape));
    if (d->outside > 0)
        return mmul_cli_fail(
            err, MMUL_ERR_WRONG, "'%s' and '%s' differ: %lld of %lld elements by more than %s", x,
            y, (long long)d->outside, (long long)d->count, tolerance_format(sides, tolerance));
    return MMUL_OK;
}

static enum mmul_status compare_files(const struct call *call, struct sides *sides,
                                      struct mmul_error *err) {
    struct mmul_inputs *inputs = NULL;
    enum mmul_status status = mmul_files_create_inputs(call, &inputs, err);
    if (status == MMUL_OK)
        status = mmul_inputs_open_matrix(inputs, call->operands[0], &sides->x, err);
    if (status == MMUL_OK)
        status = mmul_inputs_open_matrix(inputs, call->operands[1], &sides->y, err);
    mmul_inputs_destroy(inputs);
    if (status == MMUL_OK)
        status = mmul_diff(sides->x, sides->y, sides->tolerance, sides->relative,
                           &sides->difference, err);
    if (status != MMUL_OK)
        return status;
    mmul_progress_fini(call->progress);
    sides->x_shape = mmul_matrix_info(sides->x).shape;
    sides->y_shape = mmul_matrix_info(sides->y).shape;
    if (call->options.values[OPT_JSON].number != 0)
        print_json(sides);
    else if (call->options.values[OPT_QUIET].number == 0 && sides->difference.same_shape)
        print_table(sides);
    return check_difference(sides, err);
}

static enum mmul_status run_diff(const struct call *call, struct mmul_error *err) {
    struct sides sides = {.tolerance = call->options.values[OPT_TOLERANCE].real,
                          .relative = call->options.values[OPT_RELATIVE].real};
    enum mmul_status status = compare_files(call, &sides, err);
    mmul_print_header_notice(call, sides.x);
    mmul_print_header_notice(call, sides.y);
    mmul_matrix_close(sides.y);
    mmul_matrix_close(sides.x);
    return status;
}

static const enum option_id options[] = {
    OPT_TOLERANCE, OPT_RELATIVE, OPT_MISSING, OPT_JSON, OPT_QUIET,
    OPT_PROGRESS,  OPT_VERBOSE,  OPT_HELP,    OPT_END,
};

const struct command mmul_command_diff = {
    .name = "diff",
    .operands = "X Y",
    .operands_min = 2,
    .operands_max = 2,
    .summary = "differences between two matrices; exit code 79 when outside the tolerance",
    .notes = "Elements pass where |x - y| <= tolerance + relative |x|, in double. A NaN equals a "
             "NaN and an\n"
             "infinity the same infinity, nothing else.\n",
    .doing = "comparing",
    .options = options,
    .check = mmul_files_check_operands,
    .run = run_diff,
};
