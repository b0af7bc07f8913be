// SPDX-License-Identifier: MIT
// bench: times products of generated files for several sizes, run as mul would, and OpenBLAS alone
// beside them. Only measures; bench/run compares with other programs.
#include <stdlib.h>
#include <unistd.h>

#include "cli/bench_folder.h"
#include "cli/bench_rows.h"
#include "cli/failure.h"
#include "cli/operands.h"
#include "cli/print.h"
#include "cli/session.h"

struct bench {
    const struct call *call;
    struct bench_sizes sizes;
    int runs, warmup, ranks;
    enum mmul_dtype dtype;
    bool has_baseline;
    struct bench_folder folder;                                                  // root
    char a[BENCH_PATH_CAPACITY], b[BENCH_PATH_CAPACITY], c[BENCH_PATH_CAPACITY]; // root
    struct bench_table table;                                                    // filled on root
};

static enum mmul_status check_bench(const struct call *call, struct mmul_error *err) {
    struct bench_sizes sizes;
    return mmul_bench_sizes_parse(call->options.values[OPT_SIZES].text, &sizes, err);
}

// ------------------------------------------------------------------------------------- root only

// Checks --output and creates the folder before the measurements, which may take long.
static enum mmul_status prepare_files(struct bench *bench, struct mmul_error *err) {
    const char *output = bench->call->options.values[OPT_TABLE_OUTPUT].text;
    double bytes = 0;
    if (output != NULL && mmul_text_store(output, "", err) != MMUL_OK)
        return err->status;
    for (int i = 0; i < bench->sizes.count; i++) {
        double more = mmul_bench_size_bytes(bench->sizes.list[i]);
        bytes = more > bytes ? more : bytes;
    }
    enum mmul_status status = mmul_bench_folder_create(bytes, &bench->folder, err);
    if (status != MMUL_OK)
        return status;
    snprintf(bench->a, sizeof bench->a, "%s/A.bin", bench->folder.path);
    snprintf(bench->b, sizeof bench->b, "%s/B.bin", bench->folder.path);
    snprintf(bench->c, sizeof bench->c, "%s/C.bin", bench->folder.path);
    bench->table.rows = calloc((size_t)bench->sizes.count * 2, sizeof *bench->table.rows);
    return bench->table.rows != NULL
               ? MMUL_OK
               : mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the table");
}

// Adds a row to the table.
static enum mmul_status add_row(struct bench *bench, enum bench_what what, struct bench_size size,
                                struct mmul_error *err) {
    struct bench_row *row = &bench->table.rows[bench->table.count];
    *row = (struct bench_row){.what = what,
                              .size = size,
                              .count = bench->runs,
                              .ranks = what == BENCH_BASELINE ? 1 : bench->ranks};
    row->seconds = calloc((size_t)bench->runs, sizeof *row->seconds);
    if (what != BENCH_BASELINE)
        row->phases = calloc((size_t)bench->runs, sizeof *row->phases);
    bench->table.count++;
    if (row->seconds == NULL || (what != BENCH_BASELINE && row->phases == NULL))
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the table");
    return MMUL_OK;
}

static enum mmul_status generate_inputs(const struct bench *bench, struct bench_size size,
                                        struct mmul_error *err) {
    const struct mmul_shape a = {1, 1, size.m, size.k}, b = {1, 1, size.k, size.n};
    unlink(bench->c);
    const struct mmul_output_request requests[] = {
        {.path = bench->a, .shape = a, .dtype = bench->dtype},
        {.path = bench->b, .shape = b, .dtype = bench->dtype},
    };
    enum mmul_status status = mmul_generate_file(MMUL_GENERATE_UNIFORM, 1, &requests[0], err);
    if (status != MMUL_OK)
        return status;
    return mmul_generate_file(MMUL_GENERATE_UNIFORM, 2, &requests[1], err);
}

static enum mmul_status open_files(const struct bench *bench, struct operands *operands,
                                   struct mmul_output **output, struct mmul_error *err) {
    unlink(bench->c); // each run pays for new memory, none for freeing the old file
    enum mmul_status status = mmul_operands_add(NULL, bench->a, operands, err);
    if (status == MMUL_OK)
        status = mmul_operands_add(NULL, bench->b, operands, err);
    if (status == MMUL_OK)
        status = mmul_operands_build(operands, err);
    if (status != MMUL_OK)
        return status;
    const struct mmul_output_request request = {
        .path = bench->c,
        .shape = mmul_program_value_shape(operands->program, operands->value, NULL),
        .dtype = mmul_operands_dtype(bench->call, operands, operands->value)};
    status = mmul_output_create(&request, output, err);
    return status == MMUL_OK ? mmul_program_save(operands->program, operands->value, *output, err)
                             : status;
}

// ------------------------------------------------------------------------------------- all ranks

// Multiplies once, from input files to output file. *phases is set on root.
static enum mmul_status multiply(const struct bench *bench, struct mmul_phases *phases,
                                 struct mmul_error *err) {
    const struct mmul_program_options options = mmul_operands_options(bench->call);
    struct operands operands = {.args = {.alpha = 1}};
    struct mmul_output *output = NULL;
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    if (bench->call->is_root)
        open_files(bench, &operands, &output, err);
    enum mmul_status status = mmul_session_agree(err);
    if (status == MMUL_OK)
        status =
            mmul_program_plan_create(bench->call->context, operands.program, &options, &plan, err);
    if (status == MMUL_OK) {
        status = mmul_program_run(bench->call->context, plan, &values, err);
        output = NULL; // the run took ownership
    }
    if (status == MMUL_OK && bench->call->is_root)
        *phases = mmul_report_phases(mmul_values_report(values));
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    mmul_output_destroy(output);
    mmul_operands_close(bench->call, &operands);
    return status;
}

static enum mmul_status measure_baseline(struct bench *bench, struct bench_size size,
                                         struct mmul_error *err) {
    const struct mmul_baseline baseline = {
        .m = size.m, .n = size.n, .k = size.k, .warmup = bench->warmup, .runs = bench->runs};
    struct bench_row *row = NULL;
    if (bench->call->is_root && add_row(bench, BENCH_BASELINE, size, err) == MMUL_OK)
        row = &bench->table.rows[bench->table.count - 1];
    enum mmul_status status = mmul_session_agree(err);
    if (status != MMUL_OK)
        return status;
    return mmul_baseline_measure(bench->call->context, &baseline, row ? row->seconds : NULL,
                                 row ? &row->threads : NULL, err);
}

static enum mmul_status measure_products(struct bench *bench, struct bench_size size,
                                         struct mmul_error *err) {
    struct bench_row *row = NULL;
    if (bench->call->is_root && add_row(bench, BENCH_MUL, size, err) == MMUL_OK) {
        row = &bench->table.rows[bench->table.count - 1];
        generate_inputs(bench, size, err);
    }
    enum mmul_status status = mmul_session_agree(err);
    for (int i = -bench->warmup; status == MMUL_OK && i < bench->runs; i++) {
        struct mmul_phases phases = {0};
        status = multiply(bench, &phases, err);
        if (status == MMUL_OK && row != NULL && i >= 0) {
            row->phases[i] = phases;
            row->seconds[i] = phases.wall_seconds;
        }
    }
    return status;
}

static enum mmul_status measure_size(struct bench *bench, struct bench_size size,
                                     struct mmul_error *err) {
    char text[72];
    enum mmul_status status = MMUL_OK;
    mmul_print_remark(bench->call, "measuring %s: %d + %d runs", mmul_bench_size_format(size, text),
                      bench->warmup, bench->runs);
    if (bench->has_baseline)
        status = measure_baseline(bench, size, err);
    if (status == MMUL_OK)
        status = measure_products(bench, size, err);
    if (status == MMUL_OK && bench->call->is_root && bench->has_baseline) {
        struct bench_row *last = &bench->table.rows[bench->table.count - 1];
        double seconds = mmul_bench_median(last[-1].seconds, bench->runs);
        last[-1].baseline_seconds = last->baseline_seconds = seconds;
    }
    return status;
}

// ----------------------------------------------------------------------------------------- table

static enum mmul_status store_table(const struct bench *bench, const char *path,
                                    struct mmul_error *err) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (stream == NULL)
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the table");
    mmul_bench_table_print(
        &bench->table, (enum bench_format)bench->call->options.values[OPT_FORMAT].number, stream);
    enum mmul_status status =
        fclose(stream) == 0 ? mmul_text_store(path, text, err)
                            : mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the table");
    free(text);
    return status;
}

// Prints or stores the table. Root only.
static enum mmul_status print_table(struct bench *bench, struct mmul_error *err) {
    const struct option_value *values = bench->call->options.values;
    char *cluster = NULL;
    enum mmul_status status = mmul_context_json(bench->call->context, &cluster, err);
    if (status != MMUL_OK)
        return status;
    bench->table.cluster = cluster;
    if (values[OPT_TABLE_OUTPUT].text != NULL)
        status = store_table(bench, values[OPT_TABLE_OUTPUT].text, err);
    else
        mmul_bench_table_print(&bench->table, (enum bench_format)values[OPT_FORMAT].number, stdout);
    mmul_free(cluster);
    return status;
}

static enum mmul_status measure_sizes(struct bench *bench, struct mmul_error *err) {
    if (bench->call->is_root)
        prepare_files(bench, err);
    enum mmul_status status = mmul_session_agree(err);
    for (int i = 0; status == MMUL_OK && i < bench->sizes.count; i++)
        status = measure_size(bench, bench->sizes.list[i], err);
    return status;
}

static enum mmul_status run_bench(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    struct bench bench = {
        .call = call,
        .ranks = call->ranks,
        .runs = (int)values[OPT_RUNS].number,
        .warmup = (int)values[OPT_WARMUP].number,
        .dtype = (enum mmul_dtype)values[OPT_GEN_DTYPE].number,
        .has_baseline = values[OPT_BASELINE].number == 0,
    };
    bench.table = (struct bench_table){.runs = bench.runs,
                                       .warmup = bench.warmup,
                                       .verbose = values[OPT_VERBOSE].number != 0,
                                       .dtype = mmul_dtype_name(bench.dtype)};
    enum mmul_status status = mmul_bench_sizes_parse(values[OPT_SIZES].text, &bench.sizes, err);
    if (status == MMUL_OK)
        status = measure_sizes(&bench, err);
    mmul_bench_folder_destroy(&bench.folder);
    if (status == MMUL_OK && call->is_root)
        status = print_table(&bench, err);
    mmul_bench_table_fini(&bench.table);
    return status;
}

static const enum option_id options[] = {
    OPT_SIZES,        OPT_RUNS,          OPT_WARMUP,  OPT_BASELINE, OPT_FORMAT,
    OPT_TABLE_OUTPUT, OPT_GEN_DTYPE,     OPT_WEIGHTS, OPT_DEVICE,   OPT_SPLIT,
    OPT_MEMORY,       OPT_DEVICE_MEMORY, OPT_VERIFY,  OPT_THREADS,  OPT_NO_FALLBACK,
    OPT_BIND,         OPT_QUIET,         OPT_VERBOSE, OPT_HELP,     OPT_END,
};

const struct command mmul_command_bench = {
    .name = "bench",
    .operands = "",
    .operands_min = 0,
    .operands_max = 0,
    .summary = "times products of several sizes, and OpenBLAS alone",
    .notes =
        "Sizes: 4096x14336x4096 is A of 4096 x 14336 times B of 14336 x 4096, 1024 is a cube.\n"
        "Each size: --warmup runs, then --runs that count; the table has median, fastest, "
        "slowest.\n"
        "Two rows a size, which count (--verbose adds the phases of each):\n"
        "  compute only          OpenBLAS on all cores of root's machine, operands in memory\n"
        "  files in to file out  as mul does it, from the first byte read to the renamed result;\n"
        "                        starting the program and measuring the devices is not counted\n"
        "Files are made in /dev/shm, where it has no room in $TMPDIR, and removed at the end.\n"
        "\n"
        "  mpimatmul bench --sizes 1024,4096x14336x4096\n"
        "  mpirun -q -n 2 mpimatmul bench --format csv -o bench.csv\n",
    .options = options,
    .needs_mpi = true,
    .check = check_bench,
    .run = run_bench,
};
