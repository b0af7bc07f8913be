// SPDX-License-Identifier: MIT
// Continues a product: describes it in the header of a journal, finds the lines of C that are
// missing, and narrows operands and output to these lines.
#include <inttypes.h>
#include <stdlib.h>

#include "api/problem_load.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "io/coverage.h"
#include "io/fingerprint.h"
#include "io/matrix_file.h"
#include "io/output_journal.h"
#include "model/dtype.h"
#include "model/matrix.h"
#include "mpimatmul_local.h"

// ------------------------------------------------------------------------------------ the header

enum { FIELDS_MOST = 40, INPUTS = 3 };

struct header {
    struct mmul_journal_field fields[FIELDS_MOST];
    struct mmul_text names[FIELDS_MOST], values[FIELDS_MOST];
    int count;
};

static void add_field(struct header *header, const char *name, const char *of, const char *format,
                      ...) __attribute__((format(printf, 4, 5)));

// Adds the field "name of", or "name" if `of` is "".
static void add_field(struct header *header, const char *name, const char *of, const char *format,
                      ...) {
    struct mmul_text *names = &header->names[header->count],
                     *value = &header->values[header->count];
    va_list arguments;
    va_start(arguments, format);
    mmul_text_add(names, "%s%s%s", name, *of != '\0' ? " of " : "", of);
    mmul_text_add_va(value, format, arguments);
    va_end(arguments);
    if (value->data != NULL)
        mmul_make_printable(value->data);
    header->fields[header->count++] =
        (struct mmul_journal_field){mmul_text_get(names), mmul_text_get(value)};
}

static void fini_header(struct header *header) {
    for (int i = 0; i < header->count; i++) {
        mmul_text_fini(&header->names[i]);
        mmul_text_fini(&header->values[i]);
    }
}

// Adds the identity of an input: name, size, time, samples of its bytes, and the matrix in it.
static enum mmul_status add_input(struct header *header, const char *of,
                                  const struct mmul_matrix *matrix, struct mmul_error *err) {
    static const uint64_t seed = 44; // any, but the same in every run
    struct mmul_fingerprint samples;
    char shape[96];
    if (matrix->file == NULL || matrix->file->real == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot resume a product of '%s': it is not a file",
                         matrix->name);
    const struct mmul_file_range all = {0, matrix->file->opened.st_size};
    enum mmul_status status =
        mmul_fingerprint_compute(matrix->file->fd, matrix->name, all, seed, &samples, err);
    if (status != MMUL_OK)
        return status;
    add_field(header, "file", of, "%s", matrix->file->real);
    add_field(header, "tensor", of, "%s", matrix->tensor != NULL ? matrix->tensor : "");
    add_field(header, "shape", of, "%s %s", mmul_dtype_name(matrix->info.stored),
              mmul_shape_format(matrix->info.shape, shape));
    add_field(header, "size", of, "%lld", (long long)matrix->file->opened.st_size);
    add_field(header, "time", of, "%lld.%09ld", (long long)matrix->file->opened.st_mtim.tv_sec,
              (long)matrix->file->opened.st_mtim.tv_nsec);
    add_field(header, "content", of, "%016" PRIx64, samples.hash);
    return MMUL_OK;
}

static enum mmul_status describe(struct header *header, const struct mmul_matmul *args,
                                 const struct mmul_problem *problem,
                                 const struct mmul_output *output, struct mmul_error *err) {
    const struct mmul_matrix *const inputs[INPUTS] = {args->a, args->b, args->c_in};
    static const char *const names[INPUTS] = {"A", "B", "C"};
    char shape[96], *path = realpath(output->part, NULL);
    enum mmul_status status = MMUL_OK;
    add_field(header, "version", "", "%s", MMUL_VERSION);
    add_field(header, "operation", "", "mul");
    add_field(header, "file", "the result", "%s", path != NULL ? path : output->part);
    free(path);
    add_field(header, "shape", "the result", "%s %s", mmul_dtype_name(output->dtype),
              mmul_shape_format(output->shape, shape));
    add_field(header, "arithmetic", "", "%s", mmul_dtype_name(mmul_matmul_compute_type(args)));
    add_field(header, "alpha", "", "%.17g", problem->alpha);
    add_field(header, "beta", "", "%.17g", problem->beta);
    add_field(header, "orientation", "A", "%s", args->transpose_a ? "transposed" : "as stored");
    add_field(header, "orientation", "B", "%s", args->transpose_b ? "transposed" : "as stored");
    for (int i = 0; status == MMUL_OK && i < INPUTS; i++)
        if (i < INPUTS - 1 || problem->beta != 0)
            status = add_input(header, names[i], inputs[i], err);
    for (int i = 0; status == MMUL_OK && i < header->count; i++)
        if (header->names[i].failed || header->values[i].failed)
            status = mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a journal");
    return status;
}

static enum mmul_status open_journal(const struct mmul_matmul *args,
                                     const struct mmul_problem *problem, struct mmul_output *output,
                                     struct mmul_error *err) {
    struct header header = {.count = 0};
    struct mmul_journal *journal = NULL;
    enum mmul_status status = describe(&header, args, problem, output, err);
    if (status == MMUL_OK)
        status = mmul_journal_open(output->journal_path, output->name, header.fields, header.count,
                                   &journal, err);
    fini_header(&header);
    return status == MMUL_OK ? mmul_output_set_journal(output, journal, err) : status;
}

// ------------------------------------------------------------------------------------- narrowing

// Narrows a matrix to segments. axis: of the matrix as it is stored.
static enum mmul_status select_segments(struct mmul_matrix *matrix, enum mmul_selection_axis axis,
                                        const struct mmul_missing *missing,
                                        struct mmul_error *err) {
    struct mmul_selection *selection = NULL;
    enum mmul_status status = mmul_selection_create(axis, matrix->info.shape, missing->segments,
                                                    missing->count, &selection, err);
    if (status == MMUL_OK)
        mmul_matrix_select(matrix, selection);
    return status;
}

// Narrows a stack to the matrices that the missing matrices of C use. A single matrix repeats.
static enum mmul_status select_matrices(struct mmul_matrix *matrix, struct mmul_shape c,
                                        const struct mmul_missing *missing,
                                        struct mmul_error *err) {
    struct mmul_missing used = {.lines = missing->lines};
    if (mmul_shape_matrices(matrix->info.shape) == 1)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE(used.segments, missing->lines, "a selection", err);
    for (int64_t i = 0; status == MMUL_OK && i < missing->count; i++)
        for (int64_t t = missing->segments[i].begin; t < missing->segments[i].end; t++) {
            const int64_t at = mmul_shape_stored_matrix(matrix->info.shape, c, t);
            used.segments[used.count++] = (struct mmul_segment){at, at + 1};
        }
    if (status == MMUL_OK)
        status = select_segments(matrix, MMUL_SELECT_MATRICES, &used, err);
    mmul_free(used.segments);
    return status;
}

static enum mmul_status narrow_inputs(const struct mmul_matmul *args,
                                      const struct mmul_problem *problem,
                                      enum mmul_selection_axis axis,
                                      const struct mmul_missing *missing, struct mmul_error *err) {
    struct mmul_matrix *c_in = problem->beta != 0 ? args->c_in : NULL;
    enum mmul_status status = MMUL_OK;
    if (axis == MMUL_SELECT_MATRICES) {
        status = select_matrices(args->a, problem->c, missing, err);
        if (status == MMUL_OK)
            status = select_matrices(args->b, problem->c, missing, err);
        if (status == MMUL_OK && c_in != NULL)
            status = select_matrices(c_in, problem->c, missing, err);
        return status;
    }
    const bool rows = axis == MMUL_SELECT_ROWS;
    const enum mmul_selection_axis other = rows ? MMUL_SELECT_COLS : MMUL_SELECT_ROWS;
    status = select_segments(rows ? args->a : args->b,
                             (rows ? args->transpose_a : args->transpose_b) ? other : axis, missing,
                             err);
    if (status == MMUL_OK && c_in != NULL &&
        (rows ? c_in->info.shape.rows : c_in->info.shape.cols) > 1)
        status = select_segments(c_in, axis, missing, err);
    return status;
}

// Finds the missing lines along the axis with most complete elements; rows if both have as many.
static enum mmul_status find_missing(const struct mmul_output *output,
                                     const struct mmul_recorded *recorded,
                                     enum mmul_selection_axis *axis, struct mmul_missing *missing,
                                     struct mmul_error *err) {
    struct mmul_missing cols = {.segments = NULL};
    const struct mmul_shape s = output->shape;
    *axis = mmul_shape_matrices(s) > 1 ? MMUL_SELECT_MATRICES : MMUL_SELECT_ROWS;
    enum mmul_status status =
        mmul_coverage_missing(*axis, s, recorded->regions, recorded->count, missing, err);
    if (status != MMUL_OK || *axis == MMUL_SELECT_MATRICES)
        return status;
    status =
        mmul_coverage_missing(MMUL_SELECT_COLS, s, recorded->regions, recorded->count, &cols, err);
    if (status == MMUL_OK && cols.lines * s.rows < missing->lines * s.cols) {
        mmul_free(missing->segments);
        *missing = cols;
        *axis = MMUL_SELECT_COLS;
    } else {
        mmul_free(cols.segments);
    }
    return status;
}

// Narrows all to what is missing. If nothing is, the last line is computed again: the run is then
// like any other, and its report is complete.
static enum mmul_status continue_run(const struct mmul_matmul *args,
                                     const struct mmul_problem *problem, struct mmul_output *output,
                                     struct mmul_resumed *resumed, struct mmul_error *err) {
    static const char *const lines[] = {"rows", "columns", "matrices"};
    static const enum mmul_split_choice splits[] = {MMUL_SPLIT_ROWS, MMUL_SPLIT_COLS,
                                                    MMUL_SPLIT_AUTO};
    struct mmul_recorded recorded = {.regions = NULL};
    struct mmul_missing missing = {.segments = NULL};
    struct mmul_selection *selection = NULL;
    enum mmul_selection_axis axis = MMUL_SELECT_ROWS;
    enum mmul_status status = mmul_output_recall(output, &recorded, err);
    if (status == MMUL_OK)
        status = find_missing(output, &recorded, &axis, &missing, err);
    if (status == MMUL_OK && missing.lines == 0) {
        missing.segments[missing.count++] = (struct mmul_segment){missing.total - 1, missing.total};
        missing.lines = 1;
    }
    const bool is_narrowed = status == MMUL_OK && missing.lines < missing.total;
    if (status == MMUL_OK) {
        const int64_t each = problem->m * problem->n * problem->matrices / missing.total;
        *resumed = (struct mmul_resumed){.lines = lines[axis],
                                         .complete = missing.total - missing.lines,
                                         .total = missing.total,
                                         .dropped = mmul_divide_up(recorded.dropped_elements, each),
                                         .split = is_narrowed ? splits[axis] : MMUL_SPLIT_AUTO};
    }
    if (status == MMUL_OK) {
        output->resumed_lines = resumed->lines;
        output->resumed_complete = resumed->complete;
        output->resumed_total = resumed->total;
    }
    if (is_narrowed) {
        status = narrow_inputs(args, problem, axis, &missing, err);
        if (status == MMUL_OK)
            status = mmul_selection_create(axis, output->shape, missing.segments, missing.count,
                                           &selection, err);
        if (status == MMUL_OK)
            mmul_output_select(output, selection);
    }
    MMUL_FREE_ALL(recorded.regions, missing.segments);
    return status;
}

enum mmul_status mmul_matmul_resume(struct mmul_matmul *args,
                                    const struct mmul_output_request *request,
                                    struct mmul_resumed *resumed, struct mmul_error *err) {
    struct mmul_problem problem;
    struct mmul_output *output = NULL;
    enum mmul_status status = mmul_problem_load(args, &problem, err);
    if (status == MMUL_OK)
        status = mmul_output_create(request, &output, err);
    if (status == MMUL_OK)
        status = open_journal(args, &problem, output, err);
    if (status == MMUL_OK)
        status = continue_run(args, &problem, output, resumed, err);
    if (status == MMUL_OK)
        args->output = output;
    else
        mmul_output_destroy(output);
    return status;
}
