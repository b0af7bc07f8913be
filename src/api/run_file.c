// SPDX-License-Identifier: MIT
// Reads files that runs leave. A file is parsed as one JSON value or, if that fails and the first
// line alone is one of metrics, line by line. The contents are examined only to find their kind.
#include "api/run_file.h"

#include <string.h>

#include "api/texts.h"
#include "base/memory.h"
#include "base/status.h"

static const char *const names[MMUL_RUN_FILE_KINDS] = {
    [MMUL_RUN_FILE_REPORT] = "a report",      [MMUL_RUN_FILE_RUN] = "the output of run --json",
    [MMUL_RUN_FILE_TRACE] = "a trace",        [MMUL_RUN_FILE_METRICS] = "metrics",
    [MMUL_RUN_FILE_COMPARE] = "a comparison",
};

const char *mmul_run_file_name(enum mmul_run_file_kind kind) {
    return names[kind];
}

static enum mmul_status fail_damaged(const char *path, int line, const json_error_t *problem,
                                     struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' is not valid JSON: line %d, column %d: %s", path,
                     line, problem->column, problem->text);
}

static bool has_schema(const json_t *value, const char *name) {
    const char *schema = json_string_value(json_object_get(value, "schema"));
    return schema != NULL && strcmp(schema, name) == 0;
}

// Returns true for a line of metrics, as written by the tensor layer.
static bool is_measure(const json_t *value) {
    return json_is_integer(json_object_get(value, "line")) &&
           json_is_string(json_object_get(value, "name")) &&
           json_is_number(json_object_get(value, "seconds"));
}

static enum mmul_status find_kind(const char *path, const json_t *value,
                                  enum mmul_run_file_kind *kind, struct mmul_error *err) {
    int expected = 0;
    if (has_schema(value, "mpimatmul-report")) {
        *kind = MMUL_RUN_FILE_REPORT;
        expected = MMUL_REPORT_VERSION;
    } else if (has_schema(value, "mpimatmul-run")) {
        *kind = MMUL_RUN_FILE_RUN;
        expected = MMUL_RUN_VERSION;
    } else if (has_schema(value, "mpimatmul-compare")) {
        *kind = MMUL_RUN_FILE_COMPARE;
        expected = MMUL_COMPARE_VERSION;
    } else if (json_is_array(json_object_get(value, "traceEvents"))) {
        *kind = MMUL_RUN_FILE_TRACE;
    } else if (is_measure(value)) {
        *kind = MMUL_RUN_FILE_METRICS;
    } else {
        mmul_fail(err, MMUL_ERR_DATA, "'%s' is not a report, trace or metrics file of a run", path);
        mmul_hint(err, "--report, --trace and --metrics of mul and run write them");
        return err->status;
    }
    const json_int_t version = json_integer_value(json_object_get(value, "schema_version"));
    if (expected > 0 && version != expected)
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' has schema version %lld, expected %d", path,
                         (long long)version, expected);
    return MMUL_OK;
}

// Checks every line; empty ones do not count.
static enum mmul_status check_lines(const char *path, const char *text, struct mmul_error *err) {
    json_error_t problem;
    int number = 1;
    for (const char *line = text; *line != '\0'; number++) {
        const size_t length = strcspn(line, "\n");
        json_t *value =
            length > 0 ? json_loadb(line, length, JSON_REJECT_DUPLICATES, &problem) : NULL;
        const bool is_right = length == 0 || is_measure(value);
        json_decref(value);
        if (length > 0 && value == NULL)
            return fail_damaged(path, number, &problem, err);
        if (!is_right)
            return mmul_fail(err, MMUL_ERR_DATA, "'%s': line %d is not a line of metrics", path,
                             number);
        line += length + (line[length] == '\n');
    }
    return MMUL_OK;
}

static enum mmul_status parse_file(const char *path, struct mmul_run_file *file,
                                   struct mmul_error *err) {
    json_error_t problem, ignored;
    const size_t bytes = strlen(file->text);
    file->value = json_loadb(file->text, bytes, JSON_REJECT_DUPLICATES, &problem);
    if (file->value != NULL)
        return find_kind(path, file->value, &file->kind, err);
    json_t *first = json_loadb(file->text, strcspn(file->text, "\n"), 0, &ignored);
    const bool has_lines = is_measure(first);
    json_decref(first);
    if (!has_lines)
        return fail_damaged(path, problem.line, &problem, err);
    file->kind = MMUL_RUN_FILE_METRICS;
    return check_lines(path, file->text, err);
}

enum mmul_status mmul_run_file_load(const char *path, struct mmul_run_file *file,
                                    struct mmul_error *err) {
    *file = (struct mmul_run_file){.kind = MMUL_RUN_FILE_KINDS};
    enum mmul_status status = mmul_text_load(path, &file->text, err);
    if (status == MMUL_OK)
        status = parse_file(path, file, err);
    if (status != MMUL_OK)
        mmul_run_file_fini(file);
    return status;
}

void mmul_run_file_fini(struct mmul_run_file *file) {
    json_decref(file->value);
    mmul_free(file->text);
    *file = (struct mmul_run_file){.kind = MMUL_RUN_FILE_KINDS};
}
