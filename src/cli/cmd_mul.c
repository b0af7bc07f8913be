// SPDX-License-Identifier: MIT
// mul: C = alpha op(A) op(B) + beta C over all ranks. Root opens the files and prints. Planning and
// running are collective calls of the library.
#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/files.h"
#include "cli/fused_mul.h"
#include "cli/operands.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/session.h"

enum { PATH_CAPACITY = 4096 };

struct job {
    struct operands operands;
    struct mmul_output *output; // owned until the run takes it
    char output_path[PATH_CAPACITY];
    struct mmul_program_plan *plan;
    struct mmul_values *values;
};

// A file written beside the result. Messages call it `what`, as in "the report".
struct side_file {
    enum option_id option;
    const char *what;
    enum mmul_status (*store)(const struct mmul_report *report, const char *path,
                              struct mmul_error *err);
};

static enum mmul_status store_page(const struct mmul_report *report, const char *path,
                                   struct mmul_error *err) {
    struct mmul_page *page = NULL;
    enum mmul_status status = mmul_page_create(&page, err);
    if (status == MMUL_OK)
        status = mmul_page_add_report(page, report, err);
    if (status == MMUL_OK)
        status = mmul_page_store(page, path, err);
    mmul_page_destroy(page);
    return status;
}

static const struct side_file side_files[] = {{OPT_REPORT, "the report", mmul_report_store},
                                              {OPT_TRACE, "the trace", mmul_report_store_trace},
                                              {OPT_HTML, "the page", store_page}};
enum { SIDE_FILE_COUNT = sizeof side_files / sizeof *side_files };

static enum mmul_status refuse_same_file(const struct call *call, const struct job *job,
                                         const struct side_file *beside, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const char *path = values[beside->option].text;
    const char *const matrices[] = {call->operands[0], call->operands[1], values[OPT_C_IN].text,
                                    job->output_path};
    const char *is = NULL;
    for (size_t i = 0; is == NULL && i < sizeof matrices / sizeof *matrices; i++)
        if (matrices[i] != NULL && mmul_paths_are_same(path, matrices[i]))
            is = "one of the matrices";
    for (const struct side_file *other = side_files; is == NULL && other < beside; other++)
        if (values[other->option].text != NULL &&
            mmul_paths_are_same(path, values[other->option].text))
            is = other->what;
    return is == NULL ? MMUL_OK
                      : mmul_cli_fail(err, MMUL_ERR_CREATE, "cannot write %s to '%s': it is %s",
                                      beside->what, path, is);
}

// Checks the path before the work, so that a long run does not fail at its end.
static enum mmul_status check_path(const struct call *call, const struct job *job,
                                   const struct side_file *beside, struct mmul_error *err) {
    const char *report = call->options.values[beside->option].text;
    if (report == NULL)
        return MMUL_OK;
    if (refuse_same_file(call, job, beside, err) != MMUL_OK)
        return err->status;
    return mmul_files_check_text_path(report, beside->what, err);
}

// Returns the format of a result without a given name: A's format, or .npy if that format lacks the
// type or is read-only.
static enum mmul_format default_format(const struct mmul_matrix *input, enum mmul_dtype dtype) {
    const enum mmul_format format = mmul_matrix_info(input).format;
    const bool has_not = dtype == MMUL_F64 && mmul_format_holds(format, dtype) != dtype;
    return has_not || !mmul_format_is_written(format) ? MMUL_FORMAT_NPY : format;
}

static enum mmul_status refuse_format(const struct job *job, struct mmul_error *err) {
    mmul_cli_fail(err, MMUL_ERR_USAGE, "cannot write '%s' as float64: .bin has no such type",
                  job->output_path);
    return mmul_cli_hint(err, "all other formats have it; --dtype float32 computes in float32");
}

// Returns the number of axes of the result in numpy.
static int count_axes(struct mmul_matrix *const *inputs, int count) {
    int most = 0;
    for (int i = 0; i < count; i++) {
        const int axes = mmul_matrix_info(inputs[i]).dimensions;
        most = axes > most ? axes : most;
    }
    return most;
}

// Opens all files, checks everything about them and builds the program. Root only.
static enum mmul_status open_files(const struct call *call, struct job *job,
                                   struct mmul_error *err) {
    const struct option_value *asked = &call->options.values[OPT_DTYPE];
    struct operands *operands = &job->operands;
    struct mmul_inputs *opened = NULL;
    enum mmul_status status = mmul_files_create_inputs(call, &opened, err);
    if (status == MMUL_OK)
        status = mmul_operands_open(call, opened, operands, err);
    mmul_inputs_destroy(opened);
    if (status == MMUL_OK)
        status = mmul_operands_output_path(
            call,
            (const enum mmul_format[]){default_format(operands->args.a, operands->dtype),
                                       default_format(operands->args.b, operands->dtype)},
            job->output_path, PATH_CAPACITY, err);
    for (int i = 0; status == MMUL_OK && i < SIDE_FILE_COUNT; i++)
        status = check_path(call, job, &side_files[i], err);
    if (status != MMUL_OK)
        return status;
    const enum mmul_dtype dtype =
        asked->source != OPTION_DEFAULT ? (enum mmul_dtype)asked->number : operands->dtype;
    struct mmul_matrix *inputs[] = {operands->args.a, operands->args.b, operands->args.c_in};
    const int input_count = operands->args.c_in != NULL ? 3 : 2;
    const struct mmul_output_request request = {
        .path = job->output_path,
        .format = (enum mmul_format)call->options.values[OPT_MATRIX_FORMAT].number,
        .shape = operands->shape,
        .dtype = dtype,
        .inputs = inputs,
        .input_count = input_count,
        .dimensions = count_axes(inputs, input_count),
    };
    status = mmul_output_create(&request, &job->output, err);
    if (status == MMUL_OK && dtype == MMUL_F64 && mmul_output_dtype(job->output) != dtype)
        return refuse_format(job, err);
    if (status != MMUL_OK)
        return status;
    mmul_output_set_sync(job->output, call->options.values[OPT_SYNC].number == 0);
    return mmul_program_save(operands->program, operands->value, job->output, err);
}

static enum mmul_status write_side_files(const struct call *call, const struct job *job,
                                         struct mmul_error *err) {
    const struct mmul_report *report = mmul_values_report(job->values);
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < SIDE_FILE_COUNT; i++) {
        const char *path = call->options.values[side_files[i].option].text;
        if (path == NULL)
            continue;
        // Checked again: the result now has its final name, so a link to it can be detected.
        status = refuse_same_file(call, job, &side_files[i], err);
        if (status == MMUL_OK)
            status = side_files[i].store(report, path, err);
    }
    const char *trace = call->options.values[OPT_TRACE].text;
    if (status == MMUL_OK && mmul_report_dropped_events(report) > 0)
        mmul_print_data_warning(call, "trace '%s': %lld events were dropped",
                                trace != NULL ? trace : call->options.values[OPT_HTML].text,
                                (long long)mmul_report_dropped_events(report));
    return status;
}

// Prints the results of a successful run and writes the files beside it. Root only.
static enum mmul_status print_results(const struct call *call, struct job *job,
                                      struct mmul_error *err) {
    FILE *tables = mmul_files_table_stream(job->output_path);
    const struct mmul_matmul *args = &job->operands.args;
    const struct mmul_matrix *const inputs[] = {args->a, args->b, args->c_in};
    const struct mmul_report *report = mmul_values_report(job->values);
    bool is_doubtful = false;
    for (int i = 0; i < 3; i++)
        is_doubtful |= inputs[i] != NULL && mmul_matrix_was_written(inputs[i]);
    mmul_print_report_warnings(call, report, is_doubtful);
    for (int i = 0; i < 3; i++)
        if (inputs[i] != NULL && mmul_matrix_overflows(inputs[i]) > 0)
            mmul_print_data_warning(call, "'%s': values beyond float32 were read as infinite",
                                    mmul_matrix_name(inputs[i]));
    if (call->options.values[OPT_JSON].number != 0) {
        char *text = NULL;
        if (mmul_print_owned_text(mmul_report_json(report, &text, err), &text, tables) != MMUL_OK)
            return err->status;
    } else if (call->options.values[OPT_QUIET].number == 0) {
        char shape[96];
        mmul_report_print(report, call->options.values[OPT_VERBOSE].number != 0, tables);
        mmul_print_line(tables, "%s: %s", job->output_path,
                        mmul_shape_format(job->operands.shape, shape));
    }
    return write_side_files(call, job, err);
}

static enum mmul_status multiply(const struct call *call, struct job *job, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    struct mmul_program_options options = mmul_operands_options(call);
    const bool is_shown = call->is_root && values[OPT_QUIET].number == 0;
    options.record = values[OPT_TRACE].text != NULL || values[OPT_HTML].text != NULL;
    options.progress = is_shown ? mmul_progress_show : NULL;
    options.notice = mmul_progress_print_notice;
    options.notice_context = call->progress;
    if (call->is_root)
        open_files(call, job, err);
    enum mmul_status status = mmul_session_agree(err);
    if (status == MMUL_OK)
        status = mmul_program_plan_create(call->context, job->operands.program, &options,
                                          &job->plan, err);
    if (status != MMUL_OK)
        return status;
    mmul_print_speed_origin(call);
    mmul_progress_set_activity(call->progress, "warming up");
    status = mmul_program_run(call->context, job->plan, &job->values, err);
    job->output = NULL; // the run took ownership
    mmul_progress_fini(call->progress);
    return status == MMUL_OK && call->is_root ? print_results(call, job, err) : status;
}

static enum mmul_status run_mul(const struct call *call, struct mmul_error *err) {
    struct job job = {.operands = mmul_operands_product(call)};
    if (call->options.values[OPT_DRY_RUN].number != 0) {
        mmul_progress_fini(call->progress); // the plan is printed now
        return mmul_command_plan.run(call, err);
    }
    if (mmul_fused_mul_is_requested(call))
        return mmul_fused_mul_run(call, err);
    enum mmul_status status = multiply(call, &job, err);
    mmul_values_destroy(job.values);
    mmul_program_plan_destroy(job.plan);
    mmul_output_destroy(job.output);
    mmul_operands_close(call, &job.operands);
    return status;
}

static enum mmul_status check_mul(const struct call *call, struct mmul_error *err) {
    enum mmul_status status = mmul_operands_check(call, err);
    if (status == MMUL_OK)
        status = mmul_files_check_output(call, call->options.values[OPT_OUTPUT].text, err);
    if (status == MMUL_OK)
        status = mmul_fused_mul_check(call, err);
    return status;
}

static const enum option_id options[] = {
    OPT_OUTPUT,         OPT_MATRIX_FORMAT, OPT_TRANSPOSE_A,    OPT_TRANSPOSE_B,   OPT_ALPHA,
    OPT_BETA,           OPT_C_IN,          OPT_BIAS,           OPT_ACTIVATION,    OPT_RESIDUAL,
    OPT_NORMALIZE_ROWS, OPT_TOPK,          OPT_INDICES,        OPT_DTYPE,         OPT_MISSING,
    OPT_WEIGHTS,        OPT_DEVICE,        OPT_SPLIT,          OPT_SPLIT_RULE,    OPT_IO,
    OPT_TAIL,           OPT_REPRODUCIBLE,  OPT_MEMORY,         OPT_DEVICE_MEMORY, OPT_VERIFYING,
    OPT_SYNC,           OPT_NO_FALLBACK,   OPT_DEVICE_TIMEOUT, OPT_DRY_RUN,       OPT_JSON,
    OPT_REPORT,         OPT_TRACE,         OPT_HTML,           OPT_PROGRESS,      OPT_THREADS,
    OPT_BIND,           OPT_QUIET,         OPT_VERBOSE,        OPT_HELP,          OPT_KEEP,
    OPT_SHARD_DIR,      OPT_END,
};

const struct command mmul_command_mul = {
    .name = "mul",
    .operands = "A B",
    .operands_min = 2,
    .operands_max = 2,
    .summary = "C = alpha op(A) op(B) + beta C",
    .notes =
        "Weights: auto (measured speeds), equal, a list like 0.5,0.25,0.25 or @FILE; one per "
        "rank.\n"
        "Given ones are what every rank computes: idle ranks help others (--tail auto) only "
        "with\n"
        "auto. --tail X lets them have up to the share X of another's part in any case. Those of\n"
        "root's machine help other machines too, where they use A, B and C where these lie.\n"
        "Types: float32, float16, bfloat16, float64. Without --dtype the 16-bit type that all "
        "inputs\n"
        "have, else float32; float64 if all inputs are (or one is and the others are whole "
        "numbers):\n"
        "then it is computed in float64, too, unless --dtype asks for another type. .bin has no "
        "float64.\n"
        "Axes of a .npy, .npz or .safetensors are those numpy gives the result, at least two. A "
        ".bin "
        "has\n"
        "four: its leading sizes of 1 do not count.\n"
        "Devices: auto, cpu, gpu, gpu:K (the K-th), P:D (OpenCL platform:device), part of a name,\n"
        "pci:BDF, reference, faulty:RULES:NAME, or @FILE with lines `host device[,device] "
        "[weight]`.\n"
        "Files are told by their first bytes, the result by the file's ending (.bin, .npy, .npz, "
        ".safetensors,\n"
        ".csv, .tsv or .mtx, .bin without one); --format writes under any name. - is standard "
        "input and\n"
        "output; tables then go to stderr. --c-in is m x n, or 1 in any of its sizes, which "
        "repeats:\n"
        "1 x n is a bias, which --beta 1 adds.\n"
        "--bias, --activation, --residual, --normalize-rows and --topk are done to the result in "
        "this\n"
        "order before it is written; the job is then a program of `mpimatmul run`.\n"
        "Input files: with --io auto each machine that sees the same files reads them itself, "
        "with\n"
        "root only the first one reads, with shared one that does not see them ends the job.\n"
        "--device, --threads, --bind, --progress, --json, --quiet and --verbose may differ "
        "between\n"
        "ranks, all other options must agree. --dry-run is `mpimatmul plan` with the same "
        "options.\n"
        "--trace writes Chrome trace events: ui.perfetto.dev and chrome://tracing show them. "
        "--html\n"
        "writes report and trace as a page for a browser (`mpimatmul report` makes it "
        "afterwards).\n"
        "\n"
        "  mpimatmul mul A.bin B.bin -o C.bin\n"
        "  mpirun -q -n 4 mpimatmul mul A.bin B.bin --weights 0.4,0.3,0.2,0.1\n",
    .options = options,
    .needs_mpi = true,
    .check = check_mul,
    .run = run_mul,
};
