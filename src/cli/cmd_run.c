// SPDX-License-Identifier: MIT
// run: a program given as text. mmul_script_run reads and runs it; this file has the options, the
// printed output and the files beside the results.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/operands.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/run_script.h"
#include "cli/session.h"
#include "mpimatmul.h"

struct job {
    const struct call *call;
    const char *path; // path of the text; NULL if it has none
    struct mmul_script_state state;
    struct progress *progress;          // borrowed from the call
    bool records;                       // files beside the results need recorded events
    bool is_silent;                     // output becomes part of the JSON
    struct mmul_placements *placements; // root only; NULL for none
    FILE *metrics;                      // root only; NULL if not requested or not opened yet
    int metrics_errnum;     // errno of the first failed write of metrics; 0 if none or unknown
    struct mmul_page *page; // root only; NULL if not requested or not begun
    // Root only: metrics for the page, written to `told`.
    FILE *lines;
    // Memory stream of `told_bytes` bytes, the first `copied_bytes` of which are in the metrics.
    char *told;
    size_t told_bytes, copied_bytes;
    bool is_recorded; // root only: the files beside the results were written for the last iteration
    bool has_begun;   // root only: the files beside the results were checked
};

const struct option_refusal mmul_run_refused[] = {
    {"split", "is for a single product: use place(x, \"cols\") in a program"},
    {"split-rule", "is for a single product: a program splits values exactly"},
    {"format", "is not needed: the file's ending chooses the format"},
    {"dry-run", "is called --check here"},
    {"steps", "belongs to plan: --check lists the steps"},
    {"simulate", "belongs to plan: a program is planned for the actual ranks"},
    {"transpose-a", "belongs to mul: use x.T in a program"},
    {"transpose-b", "belongs to mul: use x.T in a program"},
    {"alpha", "belongs to mul: write factors in the program"},
    {"beta", "belongs to mul: write factors in the program"},
    {"c-in", "belongs to mul: write sums in the program"},
    {NULL, NULL}};

static bool is_on(const struct call *call, enum option_id option) {
    return call->options.values[option].number != 0;
}

// A file written beside the results: by `store` at the end, or during the run if `store` is NULL.
struct side_file {
    enum option_id option;
    const char *what;
    enum mmul_status (*store)(const struct mmul_report *report, const char *path,
                              struct mmul_error *err);
};
static const struct side_file side_files[] = {{OPT_LOG, "the log", mmul_report_store_log},
                                              {OPT_TRACE, "the trace", mmul_report_store_trace},
                                              {OPT_REPORT, "the report", mmul_report_store},
                                              {OPT_METRICS, "the metrics", NULL},
                                              {OPT_HTML, "the page", NULL}};
enum { SIDE_FILE_COUNT = sizeof side_files / sizeof *side_files };

static const char *side_file_path(const struct call *call, int i) {
    return call->options.values[side_files[i].option].text;
}

// Checks the paths of all such files. Root only.
static enum mmul_status check_side_files(const struct call *call, const struct job *job,
                                         struct mmul_error *err) {
    for (int i = 0; i < SIDE_FILE_COUNT; i++) {
        const char *path = side_file_path(call, i), *what = side_files[i].what;
        if (path == NULL)
            continue;
        if (mmul_script_uses(job->state.script, path))
            return mmul_cli_fail(err, MMUL_ERR_CREATE,
                                 "cannot write %s to '%s': it is the program's or one of its files",
                                 what, path);
        for (int j = 0; j < i; j++)
            if (side_file_path(call, j) != NULL &&
                mmul_paths_are_same(path, side_file_path(call, j)))
                return mmul_cli_fail(err, MMUL_ERR_CREATE, "cannot write %s to '%s': it is %s",
                                     what, path, side_files[j].what);
        if (mmul_files_check_text_path(path, what, err) != MMUL_OK)
            return err->status;
    }
    return MMUL_OK;
}

static enum mmul_status begin_page(struct job *job, struct mmul_error *err) {
    enum mmul_status status = mmul_page_create(&job->page, err);
    if (status == MMUL_OK)
        job->lines = open_memstream(&job->told, &job->told_bytes);
    return status != MMUL_OK || job->lines != NULL
               ? status
               : mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the page");
}

// Opens a stream for a path. An open descriptor (such as /dev/fd/3) is duplicated. NULL: errno has
// the reason.
static FILE *open_stream(const char *path) {
    const int descriptor = mmul_path_descriptor(path);
    const int copy = descriptor >= 0 ? fcntl(descriptor, F_DUPFD_CLOEXEC, 3) : -1;
    return copy >= 0 ? fdopen(copy, "w") : fopen(path, "we");
}

// Opens the files beside the results once, before anything runs. Root only.
static enum mmul_status open_side_files(const struct call *call, struct job *job,
                                        struct mmul_error *err) {
    const char *path = call->options.values[OPT_METRICS].text;
    if (job->has_begun)
        return MMUL_OK;
    job->has_begun = true;
    if (check_side_files(call, job, err) != MMUL_OK || is_on(call, OPT_CHECK))
        return err->status;
    if (call->options.values[OPT_HTML].text != NULL && begin_page(job, err) != MMUL_OK)
        return err->status;
    if (path != NULL)
        job->metrics = open_stream(path);
    return path == NULL || job->metrics != NULL
               ? MMUL_OK
               : mmul_cli_fail(err, MMUL_ERR_CREATE, "cannot write the metrics to '%s': %s", path,
                               strerror(errno));
}

// Closes the metrics and reports their first failure. The printed output is complete anyway.
static enum mmul_status end_metrics(const struct call *call, struct job *job,
                                    struct mmul_error *err) {
    FILE *metrics = job->metrics;
    if (metrics == NULL)
        return MMUL_OK;
    char what[512];
    job->metrics = NULL;
    const bool has_failed = ferror(metrics) != 0;
    if (fclose(metrics) == 0 && !has_failed)
        return MMUL_OK;
    snprintf(what, sizeof what, "the metrics to '%s'", call->options.values[OPT_METRICS].text);
    return mmul_cli_fail_write(err, what, has_failed ? job->metrics_errnum : errno);
}

// Writes the page with all printed values after the run. Root only.
static enum mmul_status end_page(const struct call *call, struct job *job, struct mmul_error *err) {
    if (job->page == NULL)
        return MMUL_OK;
    fflush(job->lines);
    enum mmul_status status = mmul_page_add_metrics(job->page, job->told, err);
    if (status == MMUL_OK)
        status = mmul_page_store(job->page, call->options.values[OPT_HTML].text, err);
    return status;
}

static enum mmul_status write_side_files(const struct call *call, const struct job *job,
                                         struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (job->records)
        mmul_values_set_before(job->state.values, &job->state.before);
    if (job->records && job->path != NULL)
        mmul_values_set_text_name(job->state.values, basename(job->path));
    for (int i = 0; status == MMUL_OK && i < SIDE_FILE_COUNT; i++)
        if (side_file_path(call, i) != NULL && side_files[i].store != NULL)
            status = side_files[i].store(mmul_values_report(job->state.values),
                                         side_file_path(call, i), err);
    if (status == MMUL_OK && job->page != NULL)
        status = mmul_page_add_report(job->page, mmul_values_report(job->state.values), err);
    return status;
}

// Returns the stream for tables: stderr if a matrix goes to standard output.
static FILE *table_stream(const struct job *job) {
    return mmul_script_writes_stdout(job->state.script) ? stderr : stdout;
}

// Prints the lines of the program as soon as their values have arrived.
static void print_lines(void *context, const struct mmul_script_state *state) {
    struct job *job = context;
    FILE *stream = job->is_silent ? NULL : table_stream(job);
    if (stream != NULL)
        mmul_progress_clear(job->progress);
    errno = 0;
    mmul_script_print(state->script, state->plan, stream,
                      job->lines != NULL ? job->lines : job->metrics);
    if (job->lines != NULL)
        fflush(job->lines);
    if (job->lines != NULL && job->metrics != NULL) {
        fwrite(job->told + job->copied_bytes, 1, job->told_bytes - job->copied_bytes, job->metrics);
        fflush(job->metrics);
        job->copied_bytes = job->told_bytes;
    }
    if (job->metrics != NULL && job->metrics_errnum == 0 &&
        (fflush(job->metrics) != 0 || ferror(job->metrics)))
        job->metrics_errnum = errno;
    if (stream != NULL) {
        fflush(stream);
        mmul_progress_suspend(job->progress, mmul_script_has_open_line(job->state.script));
    }
}

static struct mmul_program_options options_of(const struct call *call, const struct job *job) {
    struct mmul_program_options options = mmul_operands_options(call);
    options.notice = mmul_progress_print_notice;
    options.notice_context = job->progress;
    options.record = job->records;
    options.progress = is_on(call, OPT_QUIET) ? NULL : mmul_progress_show;
    return options;
}

// Prints the plan for --check. --quiet does not suppress it, since the plan is the requested
// result.
static enum mmul_status show_plan(const struct call *call, const struct job *job,
                                  struct mmul_error *err) {
    char *text = NULL;
    if (is_on(call, OPT_JSON))
        return mmul_print_owned_text(mmul_program_plan_json(job->state.plan, &text, err), &text,
                                     stdout);
    const bool verbose = is_on(call, OPT_VERBOSE);
    mmul_program_print(mmul_script_program(job->state.script), verbose, stdout);
    putchar('\n');
    mmul_program_plan_print(job->state.plan, verbose, stdout);
    mmul_script_print_loops(job->state.script, job->state.plan, stdout);
    return MMUL_OK;
}

static enum mmul_status show_json(const struct job *job, struct mmul_error *err) {
    char *text = NULL;
    return mmul_print_owned_text(mmul_script_json(job->state.script, job->state.plan,
                                                  job->state.values, &job->state.before, &text,
                                                  err),
                                 &text, table_stream(job));
}

// Prints warnings about the text read so far.
static void print_text_warnings(const struct call *call, const struct job *job) {
    const char *line;
    if (mmul_script_restored(job->state.script, &line))
        mmul_print_remark(call, "%s", line);
    while (mmul_script_warning(job->state.script, &line))
        mmul_print_data_warning(call, "%s", line);
}

static void print_run_warnings(const struct call *call, const struct job *job) {
    const struct mmul_matrix *matrix;
    bool is_doubtful = false;
    for (int i = 0; (matrix = mmul_script_input(job->state.script, i, NULL)) != NULL; i++)
        is_doubtful |= mmul_matrix_was_written(matrix);
    mmul_print_report_warnings(call, mmul_values_report(job->state.values), is_doubtful);
    for (int i = 0; (matrix = mmul_script_input(job->state.script, i, NULL)) != NULL; i++)
        if (mmul_matrix_overflows(matrix) > 0)
            mmul_print_data_warning(call, "'%s': values beyond float32 were read as infinite",
                                    mmul_matrix_name(matrix));
    char line[256];
    for (int i = 0; mmul_script_skipped(job->state.script, i, line); i++)
        mmul_print_data_warning(call, "%s", line);
}

static void print_type_notices(const struct call *call, const struct job *job) {
    const struct mmul_matrix *matrix;
    bool is_rounded = false;
    for (int i = 0; (matrix = mmul_script_input(job->state.script, i, &is_rounded)) != NULL; i++)
        if (is_rounded)
            mmul_print_remark(call, "notice: '%s' is float64 and is read as float32",
                              mmul_matrix_name(matrix));
    const char *change;
    for (int i = 0; (change = mmul_script_note(job->state.script, i)) != NULL; i++)
        mmul_print_remark(call, "notice: %s", change);
}

// Reports notices and unused entries of the placement file. Root only. An unused entry is probably
// a typo, but some names occur in only some runs.
static void print_placement_notices(const struct call *call, const struct job *job) {
    const char *notice, *pattern;
    for (int i = 0; (notice = mmul_placements_notice(job->placements, i)) != NULL; i++)
        mmul_print_remark(call, "notice: %s", notice);
    for (int i = 0; (pattern = mmul_placements_unused(job->placements, i)) != NULL; i++)
        mmul_print_remark(call, "notice: '%s' in '%s' matches no name of the program", pattern,
                          call->options.values[OPT_PLACEMENT].text);
}

// Called on root before a program is planned.
static enum mmul_status begin_program(void *context, const struct mmul_script_state *state,
                                      struct mmul_error *err) {
    struct job *job = context;
    const struct call *call = job->call;
    struct mmul_script_turn turn;
    if (open_side_files(call, job, err) != MMUL_OK)
        return err->status;
    print_text_warnings(call, job);
    if (state->is_last) {
        print_type_notices(call, job);
        print_placement_notices(call, job);
    } else if (mmul_script_is_over(state->script)) {
        return MMUL_OK;
    }
    const bool in_loop = mmul_script_turn(state->script, &turn);
    mmul_interrupt_expect_more(in_loop);
    if (in_loop && !is_on(call, OPT_QUIET))
        mmul_progress_show_turn(job->progress, &turn);
    return MMUL_OK;
}

// Called on all ranks before the last program runs.
static enum mmul_status begin_last_program(void *context, const struct mmul_script_state *state,
                                           struct mmul_error *err) {
    const struct job *job = context;
    enum mmul_status status = mmul_print_new_warnings(job->call, err);
    if (status == MMUL_OK && state->plan != NULL && !is_on(job->call, OPT_CHECK))
        mmul_progress_set_activity(job->progress, "warming up");
    return status;
}

// Called on root after a program has run. Writes the files beside the results after the last
// iteration of a loop, or else after the last program.
static enum mmul_status end_program(void *context, const struct mmul_script_state *state,
                                    struct mmul_error *err) {
    struct job *job = context;
    struct mmul_script_turn turn;
    if (state->is_last)
        mmul_progress_fini(job->progress);
    print_run_warnings(job->call, job);
    const bool in_loop = mmul_script_turn(state->script, &turn);
    if (state->is_last ? job->is_recorded
                       : !job->records || !in_loop || (!turn.may_break && turn.at + 1 < turn.end))
        return MMUL_OK;
    job->is_recorded = true;
    return write_side_files(job->call, job, err);
}

// Prints notices about header lines at the end.
static void print_header_notices(const struct call *call, const struct mmul_script *script) {
    const struct mmul_matrix *matrix;
    for (int i = 0; script != NULL && (matrix = mmul_script_input(script, i, NULL)) != NULL; i++)
        mmul_print_header_notice(call, matrix);
}

// Prints totals of several programs, before the report of the last one.
static void print_totals(const struct job *job) {
    struct mmul_programs_summary all = job->state.before;
    FILE *stream = table_stream(job);
    if (all.programs == 0)
        return;
    if (job->state.values != NULL)
        mmul_programs_add(&all, job->state.values);
    fprintf(stream, "wall %.3f s  ", all.wall_seconds);
    if (all.flops > 0 && all.wall_seconds > 0)
        fprintf(stream, "%.1f GFLOP/s  ", all.flops / all.wall_seconds * 1e-9);
    fprintf(stream, "(%lld program%s, %lld step%s)%s\n", (long long)all.programs,
            all.programs == 1 ? "" : "s", (long long)all.steps, all.steps == 1 ? "" : "s",
            job->state.values != NULL ? "; the last of them:" : "");
}

static enum mmul_status run_text(const struct call *call, const struct mmul_script_request *request,
                                 struct job *job, struct mmul_error *err) {
    const struct mmul_program_options options = options_of(call, job);
    const struct mmul_script_callbacks callbacks = {.context = job,
                                                    .before = begin_program,
                                                    .planned = begin_last_program,
                                                    .lines = print_lines,
                                                    .after = end_program};
    enum mmul_status status =
        mmul_script_run(call->context, request, &options, &callbacks, &job->state, err);
    mmul_interrupt_expect_more(false);
    mmul_progress_fini(job->progress);
    if (status == MMUL_OK && is_on(call, OPT_CHECK))
        return call->is_root ? show_plan(call, job, err) : MMUL_OK;
    if (status == MMUL_OK)
        status = end_metrics(call, job, err);
    if (status == MMUL_OK)
        status = end_page(call, job, err);
    if (status == MMUL_OK && call->is_root && is_on(call, OPT_JSON))
        status = show_json(job, err);
    else if (status == MMUL_OK && call->is_root && !is_on(call, OPT_QUIET)) {
        if (mmul_script_has_open_line(job->state.script))
            fputc('\n', table_stream(job));
        print_totals(job);
        mmul_script_print_outcome(job->state.script, job->state.values, is_on(call, OPT_VERBOSE),
                                  table_stream(job));
    }
    return mmul_session_agree(err);
}

enum mmul_status mmul_run_script(const struct call *call, const struct mmul_script_request *request,
                                 struct mmul_error *err) {
    struct job job = {.call = call,
                      .path = request->path,
                      .progress = call->progress,
                      .is_silent = is_on(call, OPT_JSON)};
    struct mmul_script_request all = *request;
    for (int i = 0; i < SIDE_FILE_COUNT; i++)
        job.records |= side_file_path(call, i) != NULL && side_files[i].option != OPT_METRICS;
    all.only_checked = is_on(call, OPT_CHECK);
    all.shard_folder = call->options.values[OPT_SHARD_DIR].text;
    all.no_sync = is_on(call, OPT_SYNC);           // index in on|off
    all.skips_nan = is_on(call, OPT_ON_NAN);       // index in stop|skip
    all.missing_is_nan = is_on(call, OPT_MISSING); // index in refuse|nan
    all.use_float32 = is_on(call, OPT_COMPUTED);
    all.common_types &= !all.use_float32; // float32 was requested for the result, too
    const char *placement = call->options.values[OPT_PLACEMENT].text;
    if (call->is_root && err->status == MMUL_OK && placement != NULL)
        mmul_placements_read(placement, &job.placements, err);
    all.placements = job.placements;
    enum mmul_status status = run_text(call, &all, &job, err);
    print_header_notices(call, job.state.script);
    mmul_script_state_fini(&job.state);
    mmul_placements_destroy(job.placements);
    if (job.metrics != NULL)
        fclose(job.metrics); // still open after a failure
    if (job.lines != NULL)
        fclose(job.lines);
    free(job.told);
    mmul_page_destroy(job.page);
    return status;
}

static enum mmul_status run_file(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const char *folder = values[OPT_JOURNAL].text != NULL ? values[OPT_JOURNAL].text : "";
    const struct mmul_script_request request = {
        .path = call->operands[0],
        .settings = (const char *const *)call->operands + 1,
        .setting_count = call->operand_count - 1,
        .journal = is_on(call, OPT_RESUME) ? folder : NULL,
        .journal_seconds = values[OPT_JOURNAL_SECONDS].real,
    };
    return mmul_run_script(call, &request, err);
}

static enum mmul_status check(const struct call *call, struct mmul_error *err) {
    if (mmul_files_check_journal(call, err) != MMUL_OK)
        return err->status;
    if (is_on(call, OPT_RESUME) && is_on(call, OPT_CHECK))
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "--check cannot show a run with --resume");
    for (int i = 1; i < call->operand_count; i++) {
        const char *equals = strchr(call->operands[i], '=');
        if (equals != NULL && equals != call->operands[i])
            continue;
        // A long setting is shown by its beginning and end.
        const size_t length = strlen(call->operands[i]);
        const bool is_long = length > 60;
        mmul_cli_fail(err, MMUL_ERR_USAGE, "run: expected NAME=VALUE, found '%.*s%s%s'",
                      is_long ? 29 : 60, call->operands[i], is_long ? ".." : "",
                      is_long ? call->operands[i] + length - 29 : "");
        return mmul_cli_hint(err, "mpimatmul run FILE [NAME=VALUE...] [options]");
    }
    return MMUL_OK;
}

static const enum option_id options[] = {
    MMUL_RUN_OPTIONS, OPT_LOG,     OPT_METRICS,         OPT_ON_NAN, OPT_PLACEMENT,
    OPT_RESUME,       OPT_JOURNAL, OPT_JOURNAL_SECONDS, OPT_END};

const struct command mmul_command_run = {
    .name = "run",
    .operands = "FILE [NAME=VALUE...]",
    .operands_min = 1,
    .operands_max = 1 << 10,
    .summary = "a program of several operations, in a part of Python",
    .notes =
        "Values stay on the ranks and devices between operations, and move when one needs them\n"
        "elsewhere. NAME=VALUE replaces the number or string of the first line NAME = ... at the\n"
        "top of FILE. mpimatmul-programs(7) has the language; what else Python has is refused.\n"
        "There are names, numbers, strings, tuples; x = ..., x += ... and the like; for over "
        "range,\n"
        "a tuple, or loop, whose turns are run one after the other; if, break, continue; def,\n"
        "return; and, or, not;\n"
        "x[i], x[a:b] and x.T; numpy's and torch's functions of matrices, by their names.\n"
        "At the end of stdout stand seconds, speed, what the check says, and the outputs: not "
        "with\n"
        "--quiet or --json. --check shows alike layers once, in 120 columns; with --verbose all,\n"
        "with --quiet no notices.\n"
        "--log writes lines with tabs: begin and end of each operation on each rank, seconds of "
        "its\n"
        "phases (wait, compute or copy, check), its value, shape, placement and bytes. --trace "
        "has\n"
        "the same as Chrome trace events, which ui.perfetto.dev and chrome://tracing show. "
        "--metrics\n"
        "writes a line of JSON for each value that is printed, when it is: turn, line, name, "
        "value,\n"
        "seconds. --placement reads where values are to be, by the names that the text gives them\n"
        "(mapping of YAML: 'w: cols', 'state.0.*: {shard: rows, ranks: [0, 1]}'). --html writes "
        "all of\n"
        "that as a page for a browser (`mpimatmul report` makes it afterwards).\n"
        "\n"
        "  q, k, v = load(\"q.npy\"), load(\"k.npy\"), load(\"v.npy\")\n"
        "  save(\"out.npy\", softmax(q @ k.T / sqrt(64), causal=True) @ v)\n"
        "\n"
        "  mpimatmul run attention.py --check\n"
        "  mpirun -q -n 2 mpimatmul run attention.py seq=1024\n",
    .options = options,
    .refused = mmul_run_refused,
    .needs_mpi = true,
    .check = check,
    .run = run_file,
};
