// SPDX-License-Identifier: MIT
// Prints the table of bench as Markdown, CSV or JSON. Numbers are medians. Each row also shows the
// work included and the spread of the runs.
#include "cli/bench_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"

// A larger spread between runs points to other load on the machine.
static const double UNSTABLE_RATIO = 1.2;

// A column for a phase; `key` is its name in the report's JSON.
static const struct phase {
    const char *key, *heading;
    size_t offset;
} phases[] = {
    {"setup_seconds", "set-up s", offsetof(struct mmul_phases, setup_seconds)},
    {"scatter_seconds", "scatter s", offsetof(struct mmul_phases, scatter_seconds)},
    {"compute_seconds", "compute s", offsetof(struct mmul_phases, compute_seconds)},
    {"verify_seconds", "check s", offsetof(struct mmul_phases, verify_seconds)},
    {"gather_seconds", "gather s", offsetof(struct mmul_phases, gather_seconds)},
    {"idle_seconds", "idle s", offsetof(struct mmul_phases, idle_seconds)},
    {"commit_seconds", "commit s", offsetof(struct mmul_phases, commit_seconds)},
};
enum { PHASES = sizeof phases / sizeof *phases };

// ------------------------------------------------------------------------------------ statistics

static int compare_doubles(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

double mmul_bench_median(const double *values, int count) {
    double *sorted = malloc((size_t)count * sizeof *sorted);
    if (sorted == NULL)
        return NAN;
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
    double median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    free(sorted);
    return median;
}

struct summary {
    double median, least, most, flops, speedup; // `speedup` is NaN without a baseline
    bool unstable;
    double phases[PHASES]; // NaN if the row has no phases
};

static double median_of_phase(const struct bench_row *row, size_t offset) {
    if (row->phases == NULL)
        return NAN;
    double *values = malloc((size_t)row->count * sizeof *values);
    for (int i = 0; values != NULL && i < row->count; i++)
        memcpy(&values[i], (const char *)&row->phases[i] + offset, sizeof *values);
    double median = values != NULL ? mmul_bench_median(values, row->count) : NAN;
    free(values);
    return median;
}

static struct summary summarize(const struct bench_row *row) {
    struct summary s = {.median = mmul_bench_median(row->seconds, row->count),
                        .least = row->seconds[0],
                        .most = row->seconds[0]};
    for (int i = 1; i < row->count; i++) {
        s.least = row->seconds[i] < s.least ? row->seconds[i] : s.least;
        s.most = row->seconds[i] > s.most ? row->seconds[i] : s.most;
    }
    s.flops = mmul_bench_size_flops(row->size) / s.median;
    s.speedup = row->baseline_seconds > 0 ? row->baseline_seconds / s.median : NAN;
    s.unstable = s.most > UNSTABLE_RATIO * s.least;
    for (int p = 0; p < PHASES; p++)
        s.phases[p] = median_of_phase(row, phases[p].offset);
    return s;
}

static const char *describe_work(const struct bench_row *row) {
    return row->what == BENCH_BASELINE ? "compute only" : "files in to file out";
}

static const char *plural_suffix(int count) {
    return count == 1 ? "" : "s";
}

// -------------------------------------------------------------------------------------- markdown

// Writes bars as separate columns, so that the table is also aligned on a terminal.
static void print_cell(double value, int decimals, FILE *stream) {
    if (isnan(value))
        fputs("-", stream);
    else
        fprintf(stream, "%.*f", decimals, value);
    fputs("\t|\t", stream);
}

static void print_markdown_row(const struct bench_row *row, bool verbose, FILE *stream) {
    const struct summary s = summarize(row);
    char size[72];
    fprintf(stream, "|\t%s\t|\t", mmul_bench_size_format(row->size, size));
    if (row->what == BENCH_BASELINE)
        fprintf(stream, "OpenBLAS, %d thread%s\t|\t", row->threads, plural_suffix(row->threads));
    else
        fprintf(stream, "mul, %d rank%s\t|\t", row->ranks, plural_suffix(row->ranks));
    if (verbose)
        fprintf(stream, "%s\t|\t", describe_work(row));
    print_cell(s.median, 4, stream);
    print_cell(s.least, 4, stream);
    print_cell(s.most, 4, stream);
    print_cell(s.flops * 1e-9, 1, stream);
    print_cell(s.speedup, 2, stream);
    for (int p = 0; verbose && p < PHASES; p++)
        print_cell(s.phases[p], 4, stream);
    fprintf(stream, "%s\t|\n", s.unstable ? "unstable" : "");
}

// Writes cells separated by tabs, for mmul_print_table.
static void print_markdown_cells(const struct bench_table *table, FILE *stream) {
    bool verbose = table->verbose;
    fprintf(stream, "|\tsize\t|\twhat\t|\t%smedian s\t|\tmin s\t|\tmax s\t|\t",
            verbose ? "counted\t|\t" : "");
    fputs("GFLOP/s\t|\tspeed-up\t|\t", stream);
    for (int p = 0; verbose && p < PHASES; p++)
        fprintf(stream, "%s\t|\t", phases[p].heading);
    fprintf(stream, "note\t|\n|\t:--\t|\t:--\t|\t%s", verbose ? ":--\t|\t" : "");
    for (int c = 0; c < 5 + (verbose ? PHASES : 0); c++)
        fputs("--:\t|\t", stream);
    fputs(":--\t|\n", stream);
    for (int i = 0; i < table->count; i++)
        print_markdown_row(&table->rows[i], verbose, stream);
}

static void print_markdown(const struct bench_table *table, FILE *stream) {
    // Columns: bar, size, bar, what, bar, and with --verbose also counted, bar. Then numbers with
    // bars between.
    const char *alignment = table->verbose ? "lllllll"
                                             "rlrlrlrlrl"
                                             "rlrlrlrlrlrlrl"
                                             "ll"
                                           : "lllll"
                                             "rlrlrlrlrl"
                                             "ll";
    char *cells = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&cells, &length);
    if (memory != NULL)
        print_markdown_cells(table, memory);
    if (memory != NULL && fclose(memory) == 0)
        mmul_print_table(cells, alignment, " ", stream);
    free(cells);
    fprintf(stream, "\nmpimatmul %s, %s; A of M x K times B of K x N; ", MMUL_VERSION,
            table->dtype);
    fprintf(stream, "medians of %d run%s after %d warm-up runs.\n", table->runs,
            plural_suffix(table->runs), table->warmup);
    fputs(
        "mul is timed from files in to file out; OpenBLAS, on root's machine, computes only, and "
        "speed-up is over that.\n"
        "A row is unstable when its slowest run took more than 1.2 times as long as its fastest.\n",
        stream);
}

// ------------------------------------------------------------------------------------------- CSV

static void print_csv_number(double value, FILE *stream) {
    if (isnan(value))
        fputs(",", stream);
    else
        fprintf(stream, ",%.9g", value);
}

static void print_csv(const struct bench_table *table, FILE *stream) {
    fputs("m,k,n,dtype,what,counted,ranks,threads,runs,warmup,median_seconds,min_seconds,"
          "max_seconds,flops_per_second,speedup,unstable",
          stream);
    for (int p = 0; p < PHASES; p++)
        fprintf(stream, ",%s", phases[p].key);
    fputs("\n", stream);
    for (int i = 0; i < table->count; i++) {
        const struct bench_row *row = &table->rows[i];
        const struct summary s = summarize(row);
        fprintf(stream, "%lld,%lld,%lld,%s,%s,%s,%d,", (long long)row->size.m,
                (long long)row->size.k, (long long)row->size.n, table->dtype,
                row->what == BENCH_BASELINE ? "baseline" : "mul", describe_work(row), row->ranks);
        if (row->what == BENCH_BASELINE)
            fprintf(stream, "%d", row->threads);
        fprintf(stream, ",%d,%d", table->runs, table->warmup);
        const double numbers[] = {s.median, s.least, s.most, s.flops, s.speedup};
        for (size_t v = 0; v < sizeof numbers / sizeof *numbers; v++)
            print_csv_number(numbers[v], stream);
        fprintf(stream, ",%d", s.unstable);
        for (int p = 0; p < PHASES; p++)
            print_csv_number(s.phases[p], stream);
        fputs("\n", stream);
    }
}

// ------------------------------------------------------------------------------------------ JSON

static void print_json_field(const char *key, double value, FILE *stream) {
    fprintf(stream, ", \"%s\": ", key);
    mmul_print_json_number(value, stream);
}

static void print_json_row(const struct bench_row *row, FILE *stream) {
    const struct summary s = summarize(row);
    fprintf(stream, "    {\"m\": %lld, \"k\": %lld, \"n\": %lld, \"what\": \"%s\"",
            (long long)row->size.m, (long long)row->size.k, (long long)row->size.n,
            row->what == BENCH_BASELINE ? "baseline" : "mul");
    fprintf(stream, ", \"counted\": \"%s\", \"ranks\": %d", describe_work(row), row->ranks);
    if (row->what == BENCH_BASELINE)
        fprintf(stream, ", \"threads\": %d", row->threads);
    fputs(",\n     \"seconds\": [", stream);
    for (int i = 0; i < row->count; i++) {
        fputs(i > 0 ? ", " : "", stream);
        mmul_print_json_number(row->seconds[i], stream);
    }
    fputs("]", stream);
    print_json_field("median_seconds", s.median, stream);
    print_json_field("min_seconds", s.least, stream);
    print_json_field("max_seconds", s.most, stream);
    print_json_field("flops_per_second", s.flops, stream);
    print_json_field("speedup", s.speedup, stream);
    fprintf(stream, ", \"unstable\": %s", s.unstable ? "true" : "false");
    for (int p = 0; p < PHASES && row->phases != NULL; p++)
        print_json_field(phases[p].key, s.phases[p], stream);
    fputs("}", stream);
}

static void print_json(const struct bench_table *table, FILE *stream) {
    fputs("{\n  \"schema\": \"mpimatmul-bench\",\n  \"schema_version\": 1,\n", stream);
    fprintf(stream, "  \"version\": \"%s\",\n  \"dtype\": \"%s\",\n", MMUL_VERSION, table->dtype);
    fprintf(stream, "  \"runs\": %d,\n  \"warmup\": %d,\n  \"rows\": [\n", table->runs,
            table->warmup);
    for (int i = 0; i < table->count; i++) {
        print_json_row(&table->rows[i], stream);
        fputs(i + 1 < table->count ? ",\n" : "\n", stream);
    }
    fprintf(stream, "  ],\n  \"cluster\": %s}\n", table->cluster);
}

// ----------------------------------------------------------------------------------------- table

void mmul_bench_table_print(const struct bench_table *table, enum bench_format format,
                            FILE *stream) {
    static void (*const printers[])(const struct bench_table *, FILE *) = {
        [BENCH_MARKDOWN] = print_markdown, [BENCH_CSV] = print_csv, [BENCH_JSON] = print_json};
    printers[format](table, stream);
}

void mmul_bench_table_fini(struct bench_table *table) {
    for (int i = 0; i < table->count; i++) {
        free(table->rows[i].seconds);
        free(table->rows[i].phases);
    }
    free(table->rows);
    *table = (struct bench_table){0};
}
