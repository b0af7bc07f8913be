// SPDX-License-Identifier: MIT
// mul: C = alpha op(A) op(B) + beta C over all ranks. Root opens the files and prints. Planning and
// running are collective calls of the library.
#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/files.h"
#include "cli/fused_mul.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/session.h"

enum { PATH_CAPACITY = 4096, RESULTS = 3 }; // indices, a persistent set, the result

struct result {
    char path[PATH_CAPACITY];
    int value;
    struct mmul_shape shape;    // the whole result's
    struct mmul_output *output; // owned until the run takes it; NULL: a persistent set of shards
};

struct job {
    struct operands operands;
    struct result results[RESULTS]; // in the order in which they are saved and printed
    int result_count;
    enum mmul_split_choice split; // required by the work of an earlier run
    bool is_fused;                // has operations behind the product, or persistent sets
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
    bool is_matrix = false;
    for (int i = 0; i < job->operands.input_count; i++)
        is_matrix |= mmul_paths_are_same(path, job->operands.inputs[i].path);
    for (int i = 0; i < job->result_count; i++)
        is_matrix |= mmul_paths_are_same(path, job->results[i].path);
    const char *is = is_matrix ? "one of the matrices" : NULL;
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

// Finds the earlier output of the same file, which has another tensor.
static enum mmul_status find_output_beside(const struct job *job, const struct result *result,
                                           struct mmul_output **beside, struct mmul_error *err) {
    bool has_several = false, ignored;
    const char *tensor, *other_tensor;
    char file[PATH_CAPACITY], other[PATH_CAPACITY];
    const size_t length = mmul_output_file_length(result->path, &has_several, &tensor);
    snprintf(file, sizeof file, "%.*s", (int)length, result->path);
    for (const struct result *r = job->results; r < result; r++) {
        const size_t other_length = mmul_output_file_length(r->path, &ignored, &other_tensor);
        snprintf(other, sizeof other, "%.*s", (int)other_length, r->path);
        if (r->output == NULL || !mmul_paths_are_same(file, other))
            continue;
        if (!has_several || strcmp(tensor, other_tensor) == 0)
            return mmul_cli_fail(err, MMUL_ERR_DATA,
                                 "cannot save to '%s': it is also another output", result->path);
        *beside = r->output;
    }
    return MMUL_OK;
}

static enum mmul_status refuse_format(const struct job *job, const char *path,
                                      struct mmul_error *err) {
    mmul_cli_fail(err, MMUL_ERR_USAGE, "cannot write '%s' as float64: .bin has no such type", path);
    return mmul_cli_hint(err, "%s--dtype float32 computes in float32",
                         job->is_fused ? "" : "all other formats have it; ");
}

// Creates the output of a product, and builds the program of its missing lines. Root only.
static enum mmul_status resume_result(const struct call *call, struct job *job,
                                      struct mmul_output_request *request, struct result *result,
                                      struct mmul_error *err) {
    const char *folder = call->options.values[OPT_JOURNAL].text;
    struct mmul_resumed resumed;
    request->journal = folder != NULL ? folder : "";
    enum mmul_status status = mmul_matmul_resume(&job->operands.args, request, &resumed, err);
    if (status != MMUL_OK)
        return status;
    result->output = job->operands.args.output;
    job->operands.args.output = NULL;
    job->split = resumed.split;
    if (resumed.dropped > 0)
        mmul_print_data_warning(call, "'%s': %lld recorded %s are not in the file: computed again",
                                result->path, (long long)resumed.dropped, resumed.lines);
    if (resumed.complete == 0)
        return MMUL_OK;
    mmul_print_remark(call, "resume: %lld of %lld %s of '%s' are complete",
                      (long long)resumed.complete, (long long)resumed.total, resumed.lines,
                      result->path);
    mmul_program_destroy(job->operands.program);
    job->operands.program = NULL;
    status = mmul_operands_build(&job->operands, err);
    result->value = job->operands.value;
    return status;
}

// Creates the output of a result and lets the program save it. Root only.
static enum mmul_status save_result(const struct call *call, struct job *job, struct result *result,
                                    struct mmul_error *err) {
    const struct operands *operands = &job->operands;
    const bool no_sync = call->options.values[OPT_SYNC].number != 0; // index in on|off
    result->shape = mmul_program_value_shape(operands->program, result->value, NULL);
    if (mmul_kept_name(result->path) != NULL)
        return mmul_program_keep(operands->program, result->value, mmul_kept_name(result->path),
                                 no_sync, err);
    struct mmul_matrix *inputs[OPERANDS_INPUTS];
    struct mmul_output_request request = {
        .path = result->path,
        .format = (enum mmul_format)call->options.values[OPT_MATRIX_FORMAT].number,
        .shape = result->shape,
        .dtype = mmul_operands_dtype(call, operands, result->value),
        .inputs = inputs,
        .dimensions = mmul_operands_axes(operands)};
    for (int i = 0; i < operands->input_count; i++)
        if (operands->inputs[i].matrix != NULL)
            inputs[request.input_count++] = operands->inputs[i].matrix;
    enum mmul_status status = find_output_beside(job, result, &request.beside, err);
    if (status == MMUL_OK)
        status = call->options.values[OPT_RESUME].number != 0
                     ? resume_result(call, job, &request, result, err)
                     : mmul_output_create(&request, &result->output, err);
    if (status != MMUL_OK)
        return status;
    if (request.dtype == MMUL_F64 && mmul_output_dtype(result->output) != MMUL_F64)
        return refuse_format(job, result->path, err);
    mmul_output_set_sync(result->output, !no_sync);
    return mmul_program_save(operands->program, result->value, result->output, err);
}

static struct result *add_result(struct job *job, int value) {
    struct result *result = &job->results[job->result_count++];
    result->value = value;
    return result;
}

// Lists the results with their paths. Root only.
static enum mmul_status name_results(const struct call *call, struct job *job, int indices,
                                     struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const bool is_kept = values[OPT_KEEP].number != 0;
    char a[256], b[256];
    if (values[OPT_INDICES].text != NULL)
        snprintf(add_result(job, indices)->path, PATH_CAPACITY, "%s", values[OPT_INDICES].text);
    if (is_kept)
        snprintf(add_result(job, job->operands.value)->path, PATH_CAPACITY, "kept:%sx%s",
                 mmul_base_name(call->operands[0], a), mmul_base_name(call->operands[1], b));
    if (is_kept && values[OPT_OUTPUT].text == NULL)
        return MMUL_OK;
    return mmul_operands_output_path(
        call, &job->operands, add_result(job, job->operands.value)->path, PATH_CAPACITY, err);
}

// Opens all files, checks everything about them and builds the program. Root only.
static enum mmul_status open_files(const struct call *call, struct job *job,
                                   struct mmul_error *err) {
    struct mmul_inputs *set = NULL;
    int indices = -1;
    enum mmul_status status = mmul_files_create_inputs(call, &set, err);
    if (status == MMUL_OK)
        status = job->is_fused ? mmul_fused_mul_build(call, set, &job->operands, &indices, err)
                               : mmul_operands_open(call, set, &job->operands, err);
    mmul_inputs_destroy(set);
    if (status == MMUL_OK)
        status = name_results(call, job, indices, err);
    for (int i = 0; status == MMUL_OK && i < SIDE_FILE_COUNT; i++)
        status = check_path(call, job, &side_files[i], err);
    for (int i = 0; status == MMUL_OK && i < job->result_count; i++)
        status = save_result(call, job, &job->results[i], err);
    return status;
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

// Prints the names and shapes of the results, several per line if they fit.
static void print_names(const struct call *call, const struct job *job, FILE *stream) {
    enum { COLUMNS = 120, GAP = 2 };
    size_t column = 0;
    for (int i = 0; i < job->result_count; i++) {
        const struct result *r = &job->results[i];
        char line[PATH_CAPACITY + 160], shape[96], on[32] = "";
        if (mmul_kept_name(r->path) != NULL)
            snprintf(on, sizeof on, " on %d rank%s", call->ranks, call->ranks == 1 ? "" : "s");
        mmul_shape_format(r->shape, shape);
        snprintf(line, sizeof line, "%s: %s%s", r->path, shape, on);
        const size_t length = strlen(mmul_make_printable(line));
        const bool fits = column > 0 && column + GAP + length <= COLUMNS;
        fprintf(stream, "%s%s", column == 0 ? "" : fits ? "  " : "\n", line);
        column = length + (fits ? column + GAP : 0);
    }
    fputc('\n', stream);
}

// Formats the JSON of a program, as `run` does; else that of the report.
static enum mmul_status format_json(const struct job *job, char **text, struct mmul_error *err) {
    struct mmul_saved saved[RESULTS];
    if (!job->is_fused)
        return mmul_report_json(mmul_values_report(job->values), text, err);
    for (int i = 0; i < job->result_count; i++) {
        const struct result *r = &job->results[i];
        saved[i] = (struct mmul_saved){
            r->path, mmul_program_value_shape(job->operands.program, r->value, NULL),
            mmul_operands_axes(&job->operands)};
    }
    return mmul_saved_json(job->values, saved, job->result_count, text, err);
}

// Prints the results of a successful run and writes the files beside it. Root only.
static enum mmul_status print_results(const struct call *call, struct job *job,
                                      struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const struct mmul_report *report = mmul_values_report(job->values);
    FILE *tables = stdout;
    bool is_doubtful = false;
    for (int i = 0; i < job->result_count; i++)
        tables = mmul_path_is_stdout(job->results[i].path) ? stderr : tables;
    for (int i = 0; i < job->operands.input_count; i++) {
        const struct mmul_matrix *matrix = job->operands.inputs[i].matrix;
        is_doubtful |= matrix != NULL && mmul_matrix_was_written(matrix);
    }
    mmul_print_report_warnings(call, report, is_doubtful);
    for (int i = 0; i < job->operands.input_count; i++) {
        const struct mmul_matrix *matrix = job->operands.inputs[i].matrix;
        if (matrix != NULL && mmul_matrix_overflows(matrix) > 0)
            mmul_print_data_warning(call, "'%s': values beyond float32 were read as infinite",
                                    mmul_matrix_name(matrix));
    }
    if (values[OPT_JSON].number != 0) {
        char *text = NULL;
        if (mmul_print_owned_text(format_json(job, &text, err), &text, tables) != MMUL_OK)
            return err->status;
    } else if (values[OPT_QUIET].number == 0) {
        mmul_report_print(report, values[OPT_VERBOSE].number != 0, tables);
        print_names(call, job, tables);
    }
    return write_side_files(call, job, err);
}

static enum mmul_status run_mul(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    struct mmul_program_options options = mmul_operands_options(call);
    struct job job = {.operands = mmul_operands_product(call),
                      .is_fused = mmul_fused_mul_is_requested(call)};
    if (values[OPT_DRY_RUN].number != 0) {
        mmul_progress_fini(call->progress); // the plan is printed now
        return mmul_command_plan.run(call, err);
    }
    options.record = values[OPT_TRACE].text != NULL || values[OPT_HTML].text != NULL ||
                     (job.is_fused && values[OPT_REPORT].text != NULL);
    options.journal_seconds = values[OPT_RESUME].number != 0 ? values[OPT_JOURNAL_SECONDS].real : 0;
    options.progress = values[OPT_QUIET].number == 0 ? mmul_progress_show : NULL;
    options.notice = mmul_progress_print_notice;
    options.notice_context = call->progress;
    if (call->is_root)
        open_files(call, &job, err);
    enum mmul_status status = mmul_session_agree(err);
    if (job.split != MMUL_SPLIT_AUTO)
        options.split = job.split;
    if (status == MMUL_OK)
        status =
            mmul_program_plan_create(call->context, job.operands.program, &options, &job.plan, err);
    if (status == MMUL_OK) {
        mmul_print_speed_origin(call);
        mmul_progress_set_activity(call->progress, "warming up");
        status = mmul_program_run(call->context, job.plan, &job.values, err);
        for (int i = 0; i < job.result_count; i++)
            job.results[i].output = NULL; // the run took ownership
        mmul_progress_fini(call->progress);
        if (status != MMUL_OK && values[OPT_RESUME].number != 0 && err->hint[0] == '\0')
            mmul_cli_hint(err, "the same command continues it");
    }
    if (status == MMUL_OK && call->is_root)
        status = print_results(call, &job, err);
    mmul_values_destroy(job.values);
    mmul_program_plan_destroy(job.plan);
    for (int i = 0; i < job.result_count; i++)
        mmul_output_destroy(job.results[i].output);
    mmul_operands_close(call, &job.operands);
    return status;
}

static enum mmul_status check_resume(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    if (values[OPT_RESUME].number == 0)
        return mmul_files_check_journal(call, err);
    if (values[OPT_DRY_RUN].number != 0)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "--dry-run cannot show a run with --resume");
    if (mmul_fused_mul_is_requested(call)) {
        mmul_cli_fail(err, MMUL_ERR_USAGE, "--resume continues a product of files alone");
        return mmul_cli_hint(err, "leave out kept sets, and operations on the result");
    }
    return MMUL_OK;
}

static enum mmul_status check_mul(const struct call *call, struct mmul_error *err) {
    enum mmul_status status = mmul_operands_check(call, err);
    if (status == MMUL_OK)
        status = mmul_files_check_output(call, call->options.values[OPT_OUTPUT].text, err);
    if (status == MMUL_OK)
        status = mmul_fused_mul_check(call, err);
    if (status == MMUL_OK)
        status = check_resume(call, err);
    return status;
}

#define MUL_OPTIONS                                                                                \
    OPT_OUTPUT, OPT_MATRIX_FORMAT, OPT_TRANSPOSE_A, OPT_TRANSPOSE_B, OPT_ALPHA, OPT_BETA,          \
        OPT_C_IN, OPT_BIAS, OPT_ACTIVATION, OPT_RESIDUAL, OPT_NORMALIZE_ROWS, OPT_TOPK,            \
        OPT_INDICES, OPT_DTYPE, OPT_MISSING, OPT_WEIGHTS, OPT_DEVICE, OPT_SPLIT, OPT_SPLIT_RULE,   \
        OPT_IO, OPT_TAIL, OPT_REPRODUCIBLE, OPT_MEMORY, OPT_DEVICE_MEMORY, OPT_VERIFYING,          \
        OPT_SYNC, OPT_RESUME, OPT_JOURNAL, OPT_JOURNAL_SECONDS, OPT_NO_FALLBACK,                   \
        OPT_DEVICE_TIMEOUT, OPT_STALL_TIMEOUT, OPT_DRY_RUN, OPT_JSON, OPT_REPORT, OPT_TRACE,       \
        OPT_HTML, OPT_PROGRESS, OPT_THREADS, OPT_BIND, OPT_QUIET, OPT_VERBOSE, OPT_HELP, OPT_KEEP, \
        OPT_SHARD_DIR
static const enum option_id options[] = {MUL_OPTIONS, OPT_END};

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
