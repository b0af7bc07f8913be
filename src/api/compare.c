// SPDX-License-Identifier: MIT
// Comparison of two runs. All results are first collected as JSON of plain lists; the tables are
// made from that.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/run_file.h"
#include "api/texts.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

struct mmul_comparison {
    json_t *found; // owned: as in the schema
};

// Key of a number or a word in a file: `key` of the whole (object NULL) or of its part `object`.
struct field {
    const char *what, *object, *key;
};

static json_t *get_field(const json_t *file, const struct field *field) {
    const json_t *part = field->object != NULL ? json_object_get(file, field->object) : file;
    return json_object_get(part, field->key);
}

// ---------------------------------------------------------------------------------------- settings

static const struct field report_settings[] = {
    {"version", NULL, "version"},
    {"A", "problem", "a_shape"},
    {"B", "problem", "b_shape"},
    {"C", "problem", "c_shape"},
    {"type of A", "problem", "a_dtype"},
    {"type of B", "problem", "b_dtype"},
    {"A transposed", "problem", "transpose_a"},
    {"B transposed", "problem", "transpose_b"},
    {"alpha", "problem", "alpha"},
    {"beta", "problem", "beta"},
    {"split", NULL, "split"},
    {"steps", NULL, "steps"},
    {"floating-point operations", NULL, "flops"},
    {"machines", NULL, "nodes"},
    {"check", "check", "result"},
    {NULL, NULL, NULL},
};

// settings of each rank
static const struct field rank_settings[] = {
    {"hosts", NULL, "host"},      {"devices", NULL, "device"}, {"names", NULL, "device_name"},
    {"kernels", NULL, "kernels"}, {"cores", NULL, "cores"},    {"threads", NULL, "threads"},
    {NULL, NULL, NULL},
};

static const struct field run_settings[] = {
    {"version", NULL, "version"},
    {"steps", "run", "steps"},
    {"floating-point operations", "run", "flops"},
    {"verified", "run", "verified"},
    {"programs before", "before", "programs"},
    {NULL, NULL, NULL},
};

static bool is_shape(const json_t *value) {
    return json_is_array(value) && json_array_size(value) > 0 &&
           json_is_integer(json_array_get(value, 0));
}

// Formats a value for people: "61 x 203", "yes", "-".
static void add_words(struct mmul_text *text, const json_t *value) {
    size_t first = 0;
    char word[256];
    if (json_is_string(value)) {
        mmul_text_copy(word, sizeof word, json_string_value(value));
        mmul_text_add(text, "%s", word[0] ? mmul_make_printable(word) : "-");
    }
    if (json_is_boolean(value))
        mmul_text_add(text, "%s", json_is_true(value) ? "yes" : "no");
    else if (json_is_number(value))
        mmul_text_add(text, "%.9g", json_number_value(value));
    else if (!is_shape(value) && !json_is_string(value))
        mmul_text_add(text, "-");
    if (!is_shape(value))
        return;
    while (first + 2 < json_array_size(value) &&
           json_integer_value(json_array_get(value, first)) == 1)
        first++;
    for (size_t i = first; i < json_array_size(value); i++)
        mmul_text_add(text, "%s%lld", i > first ? " x " : "",
                      (long long)json_integer_value(json_array_get(value, i)));
}

// Formats a value of all ranks: "cpu x 3", "node1 x 2, node2".
static void add_words_of_ranks(struct mmul_text *text, const json_t *ranks, const char *key) {
    const size_t count = json_array_size(ranks);
    for (size_t i = 0, same; i < count; i += same) {
        const json_t *value = json_object_get(json_array_get(ranks, i), key);
        for (same = 1; i + same < count; same++)
            if (!json_equal(value, json_object_get(json_array_get(ranks, i + same), key)))
                break;
        mmul_text_add(text, "%s", i > 0 ? ", " : "");
        add_words(text, value);
        if (same > 1)
            mmul_text_add(text, " x %zu", same);
    }
}

// Appends both texts if they differ, and frees them.
static void add_different(json_t *different, const char *what, struct mmul_text *a,
                          struct mmul_text *b) {
    if (strcmp(mmul_text_get(a), mmul_text_get(b)) != 0)
        json_array_append_new(different, json_pack("{ss so so}", "what", what, "a",
                                                   mmul_json_from_text(mmul_text_get(a)), "b",
                                                   mmul_json_from_text(mmul_text_get(b))));
    mmul_text_fini(a);
    mmul_text_fini(b);
}

static json_t *find_different(const json_t *a, const json_t *b, const struct field *settings) {
    json_t *different = json_array();
    for (const struct field *field = settings; field->what != NULL; field++) {
        struct mmul_text words_a = {0}, words_b = {0};
        add_words(&words_a, get_field(a, field));
        add_words(&words_b, get_field(b, field));
        add_different(different, field->what, &words_a, &words_b);
    }
    return different;
}

static void add_different_ranks(json_t *different, const json_t *a, const json_t *b) {
    struct mmul_text count_a = {0}, count_b = {0};
    mmul_text_add(&count_a, "%zu", json_array_size(a));
    mmul_text_add(&count_b, "%zu", json_array_size(b));
    add_different(different, "ranks", &count_a, &count_b);
    for (const struct field *field = rank_settings; field->what != NULL; field++) {
        struct mmul_text words_a = {0}, words_b = {0};
        add_words_of_ranks(&words_a, a, field->key);
        add_words_of_ranks(&words_b, b, field->key);
        add_different(different, field->what, &words_a, &words_b);
    }
}

// ----------------------------------------------------------------------------------------- numbers

static const struct field report_numbers[] = {
    {"wall_seconds", NULL, "wall_seconds"},
    {"predicted_seconds", NULL, "predicted_seconds"},
    {"startup_seconds", NULL, "startup_seconds"},
    {"flops_per_second", NULL, "flops_per_second"},
    {"efficiency", NULL, "efficiency"},
    {"joules", NULL, "joules"},
    {"setup_seconds", NULL, "setup_seconds"},
    {"scatter_seconds", NULL, "scatter_seconds"},
    {"compute_seconds", NULL, "compute_seconds"},
    {"copy_seconds", NULL, "copy_seconds"},
    {"verify_seconds", NULL, "verify_seconds"},
    {"gather_seconds", NULL, "gather_seconds"},
    {"idle_seconds", NULL, "idle_seconds"},
    {"commit_seconds", NULL, "commit_seconds"},
    {"network_bytes", NULL, "network_bytes"},
    {"bytes_read", NULL, "bytes_read"},
    {"bytes_written", NULL, "bytes_written"},
    {"memory_bytes", NULL, "memory_bytes"},
    {"mapped_bytes", NULL, "mapped_bytes"},
    {"segment_bytes", NULL, "segment_bytes"},
    {"lines_checked", "check", "lines_checked"},
    {"blocks_recomputed", "check", "blocks_recomputed"},
    {"fallback_products", NULL, "fallback_products"},
    {NULL, NULL, NULL},
};

static const struct field run_numbers[] = {
    {"wall_seconds", "run", "wall_seconds"},
    {"startup_seconds", "run", "startup_seconds"},
    {"flops_per_second", "run", "flops_per_second"},
    {"joules", "run", "joules"},
    {"lines_checked", "run", "lines_checked"},
    {"blocks_recomputed", "run", "blocks_recomputed"},
    {"fallback_products", "run", "fallback_products"},
    {"before.wall_seconds", "before", "wall_seconds"},
    {NULL, NULL, NULL},
};

static const struct field rank_numbers[] = {
    {"share", NULL, "share"},
    {"calibrated_flops_per_second", NULL, "calibrated_flops_per_second"},
    {"scatter_seconds", NULL, "scatter_seconds"},
    {"compute_seconds", NULL, "compute_seconds"},
    {"verify_seconds", NULL, "verify_seconds"},
    {"idle_seconds", NULL, "idle_seconds"},
    {"joules", NULL, "joules"},
    {NULL, NULL, NULL},
};

// Returns true for a known number. For some keys 0 means not measured or not predicted.
static bool is_known(const char *what, const json_t *value) {
    const bool may_be_none = strcmp(what, "predicted_seconds") == 0 ||
                             strcmp(what, "efficiency") == 0 ||
                             strcmp(what, "calibrated_flops_per_second") == 0;
    return json_is_number(value) && (!may_be_none || json_number_value(value) != 0);
}

// Makes {"a": 1, "b": 2, "ratio": 2}; null if a file lacks the number, or a is 0.
static json_t *make_pair(const char *what, const json_t *a, const json_t *b) {
    const double x = json_number_value(a), y = json_number_value(b);
    const bool has_a = is_known(what, a), has_b = is_known(what, b), has_both = has_a && has_b;
    return json_pack("{so so so}", "a", has_a ? json_real(x) : json_null(), "b",
                     has_b ? json_real(y) : json_null(), "ratio",
                     has_both && x != 0 ? json_real(y / x) : json_null());
}

// Adds a row if at least one file has the number.
static void add_pair(json_t *rows, const char *what, const json_t *a, const json_t *b) {
    if (!is_known(what, a) && !is_known(what, b))
        return;
    json_t *row = json_pack("{ss}", "what", what), *numbers = make_pair(what, a, b);
    json_object_update(row, numbers);
    json_decref(numbers);
    json_array_append_new(rows, row);
}

static json_t *find_numbers(const json_t *a, const json_t *b, const struct field *numbers) {
    json_t *rows = json_array();
    for (const struct field *field = numbers; field->what != NULL; field++)
        add_pair(rows, field->what, get_field(a, field), get_field(b, field));
    return rows;
}

// Sums the bytes between machines, which a file lists one by one.
static json_t *sum_sent_bytes(const json_t *report) {
    const json_t *sent = json_object_get(report, "sent_bytes");
    json_int_t sum = 0;
    for (size_t i = 0; i < json_array_size(sent); i++)
        for (size_t j = 0; j < json_array_size(json_array_get(sent, i)); j++)
            sum += json_integer_value(json_array_get(json_array_get(sent, i), j));
    return sent != NULL ? json_integer(sum) : NULL;
}

// Compares the ranks that both runs have.
static json_t *find_ranks(const json_t *a, const json_t *b) {
    json_t *ranks = json_array();
    for (size_t i = 0; i < json_array_size(a) && i < json_array_size(b); i++) {
        const json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
        json_array_append_new(ranks, json_pack("{si so}", "rank", (int)i, "numbers",
                                               find_numbers(x, y, rank_numbers)));
    }
    return ranks;
}

// ---------------------------------------------------------------------------------- the operations

// Returns the seconds on the slowest rank, including waits; NULL: not recorded.
static json_t *find_longest_seconds(const json_t *operation) {
    const json_t *ranks = json_object_get(operation, "ranks");
    double longest = 0;
    for (size_t i = 0; i < json_array_size(ranks); i++) {
        const json_t *rank = json_array_get(ranks, i);
        longest = fmax(longest, json_number_value(json_object_get(rank, "end_seconds")) -
                                    json_number_value(json_object_get(rank, "begin_seconds")));
    }
    return json_array_size(ranks) > 0 ? json_real(longest) : NULL;
}

static bool are_alike(const json_t *a, const json_t *b) {
    bool same = json_array_size(a) == json_array_size(b);
    for (size_t i = 0; same && i < json_array_size(a); i++)
        for (int k = 0; k < 2; k++) {
            const char *key = k == 0 ? "operation" : "value";
            same = same && json_equal(json_object_get(json_array_get(a, i), key),
                                      json_object_get(json_array_get(b, i), key));
        }
    return same;
}

// Compares operation by operation if both runs have the same; else returns none.
static json_t *find_operations(const json_t *a, const json_t *b) {
    json_t *operations = json_array();
    for (size_t i = 0; are_alike(a, b) && i < json_array_size(a); i++) {
        const json_t *x = json_array_get(a, i);
        json_t *seconds_a = find_longest_seconds(x),
               *seconds_b = find_longest_seconds(json_array_get(b, i));
        json_t *numbers = make_pair("seconds", seconds_a, seconds_b);
        json_t *row =
            json_pack("{sI sO sO}", "step", (json_int_t)i + 1, "operation",
                      json_object_get(x, "operation"), "value", json_object_get(x, "value"));
        json_object_update(row, numbers);
        json_decref(numbers);
        json_decref(seconds_a);
        json_decref(seconds_b);
        json_array_append_new(operations, row);
    }
    return operations;
}

// ------------------------------------------------------------------------------------- all results

static json_t *compare_reports(const json_t *a, const json_t *b) {
    const json_t *ranks_a = json_object_get(a, "ranks"), *ranks_b = json_object_get(b, "ranks");
    json_t *different = find_different(a, b, report_settings),
           *numbers = find_numbers(a, b, report_numbers);
    add_different_ranks(different, ranks_a, ranks_b);
    json_t *sent_a = sum_sent_bytes(a), *sent_b = sum_sent_bytes(b);
    add_pair(numbers, "sent_bytes", sent_a, sent_b);
    json_decref(sent_a);
    json_decref(sent_b);
    return json_pack(
        "{so so so so}", "different", different, "numbers", numbers, "ranks",
        find_ranks(ranks_a, ranks_b), "operations",
        find_operations(json_object_get(a, "operations"), json_object_get(b, "operations")));
}

static json_t *compare_runs(const json_t *a, const json_t *b) {
    json_t *different = find_different(a, b, run_settings);
    const bool same = json_equal(json_object_get(a, "printed"), json_object_get(b, "printed"));
    return json_pack("{so so so so sb}", "different", different, "numbers",
                     find_numbers(a, b, run_numbers), "ranks", json_array(), "operations",
                     json_array(), "printed_the_same", same);
}

static enum mmul_status check_kinds(const char *const paths[2], const struct mmul_run_file files[2],
                                    struct mmul_error *err) {
    for (int i = 0; i < 2; i++)
        if (files[i].kind != MMUL_RUN_FILE_REPORT && files[i].kind != MMUL_RUN_FILE_RUN) {
            mmul_fail(err, MMUL_ERR_DATA, "'%s' is %s: expected a report", paths[i],
                      mmul_run_file_name(files[i].kind));
            mmul_hint(err, "--report of mul and run writes one");
            return err->status;
        }
    if (files[0].kind == files[1].kind)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' is %s, '%s' is %s: expected two files of one kind",
                     paths[0], mmul_run_file_name(files[0].kind), paths[1],
                     mmul_run_file_name(files[1].kind));
}

static enum mmul_status compare_files(const char *const paths[2],
                                      const struct mmul_run_file files[2],
                                      struct mmul_comparison **comparison, struct mmul_error *err) {
    const bool is_report = files[0].kind == MMUL_RUN_FILE_REPORT;
    enum mmul_status status = check_kinds(paths, files, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(*comparison, 1, "a comparison", err);
    if (status != MMUL_OK)
        return status;
    json_t *more = is_report ? compare_reports(files[0].value, files[1].value)
                             : compare_runs(files[0].value, files[1].value);
    json_t *found = json_pack("{ss si ss ss so so}", "schema", "mpimatmul-compare",
                              "schema_version", MMUL_COMPARE_VERSION, "version", MMUL_VERSION,
                              "kind", is_report ? "report" : "run", "a",
                              mmul_json_from_text(paths[0]), "b", mmul_json_from_text(paths[1]));
    json_object_update(found, more);
    json_decref(more);
    (*comparison)->found = found;
    return MMUL_OK;
}

enum mmul_status mmul_comparison_create(const char *a, const char *b,
                                        struct mmul_comparison **comparison,
                                        struct mmul_error *err) {
    const char *const paths[2] = {a, b};
    struct mmul_run_file files[2] = {{.kind = MMUL_RUN_FILE_KINDS}, {.kind = MMUL_RUN_FILE_KINDS}};
    enum mmul_status status = MMUL_OK;
    *comparison = NULL;
    for (int i = 0; status == MMUL_OK && i < 2; i++)
        status = mmul_run_file_load(paths[i], &files[i], err);
    if (status == MMUL_OK)
        status = compare_files(paths, files, comparison, err);
    for (int i = 0; i < 2; i++)
        mmul_run_file_fini(&files[i]);
    return status;
}

void mmul_comparison_destroy(struct mmul_comparison *comparison) {
    if (comparison != NULL)
        json_decref(comparison->found);
    mmul_free(comparison);
}

// ------------------------------------------------------------------------------------------ tables

static bool ends_with(const char *word, const char *end) {
    const size_t length = strlen(word), most = strlen(end);
    return length >= most && strcmp(word + length - most, end) == 0;
}

// Formats a number by the unit at the end of its name; "-": no number.
static void add_number(struct mmul_text *text, const char *what, const json_t *value) {
    char bytes[32];
    const double number = json_number_value(value);
    if (!json_is_number(value))
        mmul_text_add(text, "\t-");
    else if (ends_with(what, "flops_per_second"))
        mmul_text_add(text, "\t%.1f GFLOP/s", number / 1e9);
    else if (ends_with(what, "_seconds"))
        mmul_text_add(text, "\t%.*f s", number < 0.1 ? 6 : 3, number);
    else if (ends_with(what, "_bytes") || strncmp(what, "bytes_", 6) == 0)
        mmul_text_add(text, "\t%s", mmul_bytes_format((int64_t)number, bytes));
    else if (strcmp(what, "efficiency") == 0 || strcmp(what, "share") == 0)
        mmul_text_add(text, "\t%.1f %%", 100 * number);
    else
        mmul_text_add(text, "\t%.9g", number);
}

// Formats "wall" for wall_seconds: the unit stands beside the numbers.
static void add_name(struct mmul_text *text, const char *what) {
    static const char *const units[] = {"_flops_per_second", "_seconds", "_bytes"};
    size_t length = strlen(what);
    if (strcmp(what, "flops_per_second") == 0) {
        mmul_text_add(text, "rate");
        return;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (ends_with(what, units[i])) {
            length -= strlen(units[i]);
            break;
        }
    for (size_t i = 0; i < length; i++)
        mmul_text_add(text, "%c", what[i] == '_' ? ' ' : what[i]);
}

static const char *get_text(const json_t *row, const char *key) {
    return json_string_value(json_object_get(row, key));
}

static void print_table(struct mmul_text *text, FILE *stream) {
    putc('\n', stream);
    mmul_text_print_narrow_table(mmul_text_get(text), MMUL_TABLE_COLUMNS, stream);
    mmul_text_fini(text);
}

static void print_different(const json_t *different, FILE *stream) {
    struct mmul_text text = {0};
    if (json_array_size(different) == 0) {
        fputs("the same setting: sizes, types, ranks, machines, devices, kernels\n", stream);
        return;
    }
    mmul_text_add(&text, "different\tA\tB\n");
    for (size_t i = 0; i < json_array_size(different); i++) {
        const json_t *row = json_array_get(different, i);
        mmul_text_add(&text, "%s\t%s\t%s\n", get_text(row, "what"), get_text(row, "a"),
                      get_text(row, "b"));
    }
    print_table(&text, stream);
}

static void add_cells(struct mmul_text *text, const char *what, const json_t *row) {
    const json_t *ratio = json_object_get(row, "ratio");
    add_number(text, what, json_object_get(row, "a"));
    add_number(text, what, json_object_get(row, "b"));
    if (json_is_number(ratio))
        mmul_text_add(text, "\t%.2f\n", json_number_value(ratio));
    else
        mmul_text_add(text, "\t-\n");
}

// Adds a row per number that is not 0 in both runs, with `first` before its name.
static void add_numbers(struct mmul_text *text, const char *first, const json_t *numbers) {
    for (size_t i = 0; i < json_array_size(numbers); i++) {
        const json_t *row = json_array_get(numbers, i);
        if (json_number_value(json_object_get(row, "a")) == 0 &&
            json_number_value(json_object_get(row, "b")) == 0)
            continue;
        mmul_text_add(text, "%s", first);
        add_name(text, get_text(row, "what"));
        add_cells(text, get_text(row, "what"), row);
    }
}

static void print_numbers(const json_t *numbers, FILE *stream) {
    struct mmul_text text = {0};
    mmul_text_add(&text, "\tA\tB\tB / A\n");
    add_numbers(&text, "", numbers);
    print_table(&text, stream);
}

static void print_ranks(const json_t *ranks, FILE *stream) {
    struct mmul_text text = {0};
    if (json_array_size(ranks) == 0)
        return;
    mmul_text_add(&text, "rank\tof it\tA\tB\tB / A\n");
    for (size_t i = 0; i < json_array_size(ranks); i++) {
        char rank[24];
        snprintf(rank, sizeof rank, "%zu\t", i);
        add_numbers(&text, rank, json_object_get(json_array_get(ranks, i), "numbers"));
    }
    print_table(&text, stream);
}

static double difference_of(const json_t *row) {
    return fabs(json_number_value(json_object_get(row, "b")) -
                json_number_value(json_object_get(row, "a")));
}

static int by_difference(const void *x, const void *y) {
    const json_t *const *a = x, *const *b = y;
    const double more = difference_of(*b) - difference_of(*a);
    return (more > 0) - (more < 0);
}

// Prints the operations that differ most, or all in their order.
static void print_operations(const json_t *operations, bool verbose, FILE *stream) {
    enum { MOST = 12 };
    const size_t count = json_array_size(operations),
                 shown = verbose || count < MOST ? count : MOST;
    const json_t **rows = NULL;
    struct mmul_text text = {0};
    struct mmul_error ignored;
    if (count == 0 || MMUL_ALLOCATE(rows, (int64_t)count, "a table", &ignored) != MMUL_OK)
        return;
    for (size_t i = 0; i < count; i++)
        rows[i] = json_array_get(operations, i);
    if (!verbose)
        qsort(rows, count, sizeof *rows, by_difference);
    mmul_text_add(&text, "step\toperation\tvalue\tA\tB\tB / A\n");
    for (size_t i = 0; i < shown; i++) {
        mmul_text_add(&text, "%lld\t",
                      (long long)json_integer_value(json_object_get(rows[i], "step")));
        add_words(&text, json_object_get(rows[i], "operation"));
        mmul_text_add(&text, "\t");
        add_words(&text, json_object_get(rows[i], "value"));
        add_cells(&text, "_seconds", rows[i]);
    }
    print_table(&text, stream);
    if (shown < count)
        fprintf(stream, "and %zu operations that differ less\n", count - shown);
    mmul_free(rows);
}

void mmul_comparison_print(const struct mmul_comparison *comparison, bool verbose, FILE *stream) {
    const json_t *found = comparison->found, *printed = json_object_get(found, "printed_the_same");
    fprintf(stream, "A  %s\nB  %s\n", get_text(found, "a"), get_text(found, "b"));
    print_different(json_object_get(found, "different"), stream);
    print_numbers(json_object_get(found, "numbers"), stream);
    print_ranks(json_object_get(found, "ranks"), stream);
    print_operations(json_object_get(found, "operations"), verbose, stream);
    if (printed != NULL)
        fprintf(stream, "\nprinted values are %s\n",
                json_is_true(printed) ? "the same" : "different");
}

enum mmul_status mmul_comparison_json(const struct mmul_comparison *comparison, char **text,
                                      struct mmul_error *err) {
    return mmul_json_format(comparison->found, text, err);
}
