// SPDX-License-Identifier: MIT
// Creates a script from its text, and prints its results: lines, warnings, skipped steps, saved
// files. The evaluation itself is in evaluate.h and its files.
#include "tensor/script.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "mpimatmul.h"
#include "tensor/evaluate.h"
#include "tensor/jobs.h"
#include "tensor/loop_states.h"
#include "tensor/number_format.h"

// ------------------------------------------------------------------------------------------ text

static enum mmul_status read_stream(FILE *stream, const char *path, struct mmul_script *script,
                                    struct mmul_error *err) {
    enum mmul_status status =
        MMUL_ALLOCATE_RAW(script->text, MMUL_TEXT_BYTES_MOST + 1, "a program's text", err);
    if (status != MMUL_OK)
        return status;
    size_t length = fread(script->text, 1, MMUL_TEXT_BYTES_MOST + 1, stream);
    if (ferror(stream))
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot read '%s'", path);
    if (length > MMUL_TEXT_BYTES_MOST)
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' is no program: it is longer than %d KiB", path,
                         MMUL_TEXT_BYTES_MOST >> 10);
    script->source.length = (int)length;
    return MMUL_OK;
}

static enum mmul_status read_text(const char *path, struct mmul_script *script,
                                  struct mmul_error *err) {
    struct stat there;
    if (mmul_path_is_stdin(path))
        return read_stream(stdin, path, script, err);
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return mmul_fail(err, MMUL_ERR_NO_INPUT, "cannot open '%s': not a regular file", path);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot open '%s'", path);
    enum mmul_status status = read_stream(stream, path, script, err);
    fclose(stream);
    return status;
}

// ---------------------------------------------------------------------------------------- program

static enum mmul_status create(const struct mmul_script_request *request,
                               const struct mmul_script_runner *runner, struct mmul_script *later,
                               struct mmul_script **script, struct mmul_error *err);

// Runs the first reading to find the types of held values. A failure is ignored: the second reading
// reports it in its place, or succeeds, for example with files that an earlier iteration writes.
static enum mmul_status infer_types(const struct mmul_script_request *request,
                                    struct mmul_script *script, struct mmul_error *err) {
    struct mmul_script *first = NULL;
    struct mmul_script_request all = *request;
    struct mmul_error ignored;
    all.text = script->source.text;
    all.text_bytes = (size_t)script->source.length;
    all.only_checked = true;
    all.placements = NULL;
    if (mmul_held_types_create(&script->foreseen, err) != MMUL_OK)
        return err->status;
    create(&all, &script->runner, script, &first, &ignored);
    mmul_script_destroy(first);
    return MMUL_OK;
}

// Adds a note if --resume has nothing to record.
static enum mmul_status note_states(struct mmul_script *script, struct mmul_error *err) {
    const char *text = script->last_loop < 0 ? "--resume records nothing: the text has no loop"
                       : script->restored_file != NULL
                           ? "--resume records nothing: the text restores its own checkpoints"
                           : NULL;
    if (script->states == NULL || text == NULL)
        return MMUL_OK;
    struct mmul_script_note *note = mmul_arena_allocate(&script->arena, sizeof *note, err);
    if (note == NULL)
        return err->status;
    *note = (struct mmul_script_note){.text = text, .next = script->notes};
    script->notes = note;
    return MMUL_OK;
}

static enum mmul_status collect_type_notes(struct mmul_script *script, struct mmul_error *err) {
    struct mmul_script_note **end = &script->notes;
    const char *text;
    for (struct mmul_script_file *f = script->files; f != NULL; f = f->next)
        f->is_rounded |= mmul_held_types_is_rounded(script->foreseen, f->path);
    for (int i = 0; (text = mmul_held_types_change(script->foreseen, i)) != NULL; i++) {
        struct mmul_script_note *note = mmul_arena_allocate(&script->arena, sizeof *note, err);
        char *copy = mmul_arena_copy_text(&script->arena, text, err);
        if (note == NULL || copy == NULL)
            return err->status;
        *note = (struct mmul_script_note){.text = copy};
        *end = note;
        end = &note->next;
    }
    return MMUL_OK;
}

static enum mmul_status build(const struct mmul_script_request *request, struct mmul_script *script,
                              struct mmul_error *err) {
    struct mmul_tree tree;
    enum mmul_status status = mmul_tree_parse(&script->source, &script->arena, &tree, err);
    for (int i = 0; status == MMUL_OK && i < request->setting_count; i++)
        status = mmul_setting_apply(&tree, request->settings[i], err);
    if (status == MMUL_OK && request->journal != NULL && !script->only_checked)
        status = mmul_loop_states_open(request, &script->source, &script->states, err);
    const bool needs_types = status == MMUL_OK && !script->is_first_reading &&
                             !request->use_float32 && mmul_held_types_are_needed(tree.root);
    if (needs_types)
        status = infer_types(request, script, err);
    if (status == MMUL_OK)
        status = mmul_program_create(&script->program, err);
    if (status == MMUL_OK && request->use_float32)
        mmul_program_use_float32(script->program);
    struct mmul_evaluator evaluator = {.source = &script->source,
                                       .arena = &script->arena,
                                       .program = script->program,
                                       .script = script,
                                       .context = script->runner.context,
                                       .err = err};
    if (status == MMUL_OK)
        status = mmul_evaluate_program(&evaluator, &tree);
    const bool is_empty = evaluator.operations == 0 && script->files == NULL &&
                          script->lent == NULL && evaluator.job == 0;
    const bool prints_alone = is_empty && script->views != NULL && !script->only_checked;
    script->is_over =
        status == MMUL_OK && (prints_alone || (evaluator.job > 0 && evaluator.uses == 0));
    if (status == MMUL_OK && is_empty && !prints_alone)
        status = mmul_fail(err, MMUL_ERR_DATA, "%s: the program makes or reads no matrix",
                           mmul_source_name(&script->source));
    struct mmul_error ignored;
    // Also used after a failure, for the part of the text before it.
    if (script->is_first_reading)
        mmul_held_types_infer(script->foreseen, script, &ignored);
    if (needs_types && status == MMUL_OK)
        status = collect_type_notes(script, err);
    if (status == MMUL_OK)
        status = note_states(script, err);
    if (needs_types)
        mmul_held_types_destroy(script->foreseen);
    script->foreseen = NULL;
    return status;
}

// later: the script that this first reading prepares; NULL for none.
static enum mmul_status create(const struct mmul_script_request *request,
                               const struct mmul_script_runner *runner, struct mmul_script *later,
                               struct mmul_script **script, struct mmul_error *err) {
    const struct mmul_script_request all = *request;
    struct mmul_script *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "a program", err);
    if (status != MMUL_OK)
        return status;
    status = mmul_inputs_create(&made->inputs, err);
    if (status != MMUL_OK) {
        mmul_free(made);
        return status;
    }
    mmul_inputs_set_missing(made->inputs, all.missing_is_nan);
    made->only_checked = all.only_checked;
    made->no_sync = all.no_sync;
    made->skips_nan = all.skips_nan;
    made->placements = all.placements;
    made->common_types = all.common_types;
    made->narrow = all.narrow;
    made->shard_folder = all.shard_folder;
    made->source.name = all.path;
    made->runner = *runner;
    made->use_float32 = all.use_float32;
    made->last_loop = -1;
    made->later = later;
    made->is_first_reading = later != NULL;
    made->foreseen = later != NULL ? later->foreseen : NULL;
    made->begun_seconds = mmul_clock_now();
    if (all.text == NULL)
        status = read_text(all.path, made, err);
    else if (all.text_bytes > MMUL_TEXT_BYTES_MOST)
        status = mmul_fail(err, MMUL_ERR_DATA, "'%s' is no program: it is longer than %d KiB",
                           all.path != NULL ? all.path : "", MMUL_TEXT_BYTES_MOST >> 10);
    else
        made->source.length = (int)all.text_bytes;
    made->source.text = all.text != NULL ? all.text : made->text;
    if (status == MMUL_OK)
        status = build(&all, made, err);
    made->source.name = NULL; // borrowed from the request
    if (status == MMUL_OK && all.path != NULL)
        status = mmul_copy_text(all.path, (char **)&made->source.name, err);
    if (status == MMUL_OK)
        *script = made;
    else
        mmul_script_destroy(made);
    return status;
}

enum mmul_status mmul_script_read(const struct mmul_script_request *request,
                                  const struct mmul_script_runner *runner,
                                  struct mmul_script **script, struct mmul_error *err) {
    struct mmul_script_request all;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_script_request, request, &all, err);
    return status == MMUL_OK ? create(&all, runner, NULL, script, err) : status;
}

enum mmul_status mmul_script_create(const struct mmul_script_request *request,
                                    struct mmul_script **script, struct mmul_error *err) {
    const struct mmul_script_runner none = {NULL};
    return mmul_script_read(request, &none, script, err);
}

void mmul_script_destroy(struct mmul_script *script) {
    if (script == NULL)
        return;
    for (struct mmul_script_output *o = script->outputs; o != NULL; o = o->next)
        if (!script->is_owned_by_run || o->is_deferred)
            mmul_output_destroy(o->output);
    mmul_script_views_discard(script);
    mmul_program_destroy(script->program);
    mmul_script_release_held(script);
    mmul_script_temporaries_free(script);
    mmul_script_token_texts_free(script);
    for (struct mmul_script_file *f = script->files; f != NULL; f = f->next)
        if (!f->is_borrowed)
            mmul_matrix_close(f->matrix);
    mmul_inputs_destroy(script->inputs);
    json_decref(script->printed);
    mmul_loop_states_close(script->states);
    mmul_arena_fini(&script->arena);
    MMUL_FREE_ALL((void *)script->source.name, script->text, script);
}

const struct mmul_program *mmul_script_program(const struct mmul_script *script) {
    return script->program;
}

bool mmul_script_is_over(const struct mmul_script *script) {
    return script->is_over;
}

bool mmul_script_turn(const struct mmul_script *script, struct mmul_script_turn *turn) {
    *turn = script->turn;
    turn->windows = script->windows;
    return turn->at < turn->end;
}

bool mmul_script_writes_stdout(const struct mmul_script *script) {
    return script->writes_stdout;
}

const struct mmul_matrix *mmul_script_input(const struct mmul_script *script, int index,
                                            bool *is_rounded) {
    const struct mmul_script_file *file = script->files;
    while (file != NULL && (file->matrix == NULL || index-- > 0)) // persistent sets are no files
        file = file->next;
    if (file != NULL && is_rounded != NULL)
        *is_rounded = file->is_rounded;
    return file != NULL ? file->matrix : NULL;
}

const char *mmul_script_note(const struct mmul_script *script, int index) {
    const struct mmul_script_note *note = script->notes;
    while (note != NULL && index-- > 0)
        note = note->next;
    return note != NULL ? note->text : NULL;
}

bool mmul_script_uses(const struct mmul_script *script, const char *path) {
    bool uses = script->source.name != NULL && mmul_paths_are_same(path, script->source.name);
    for (const struct mmul_script_file *f = script->files; f != NULL; f = f->next)
        uses |= mmul_paths_are_same(path, f->path);
    for (const struct mmul_script_output *o = script->outputs; o != NULL; o = o->next)
        uses |= mmul_paths_are_same(path, o->path);
    return uses;
}

void mmul_script_release_outputs(struct mmul_script *script) {
    script->is_owned_by_run = true;
    mmul_loop_states_release(script->states);
}

// --------------------------------------------------------------------------------------- output

// Removes the sign of NaN, which would only confuse a reader.
static double remove_nan_sign(double x) {
    return isnan(x) ? fabs(x) : x;
}

// Tests a sum, which is finite if and only if the matrix is; is_marked tests a mark.
static bool is_not_finite(double sum) {
    return !isfinite(sum);
}

static bool is_marked(double mark) {
    return mark != 0;
}

// Finds the first matrix of x with a bad number and appends its index, as in "g[1][0]", to `text`.
// Returns false if there is none. *sums advances past the numbers of x.
static bool find_wrong(const struct mmul_object *x, bool (*is_wrong)(double), const double **sums,
                       char *text, size_t bytes) {
    if (x->kind == MMUL_OBJECT_MATRIX)
        return is_wrong(*(*sums)++);
    const size_t length = strlen(text);
    for (int i = 0; i < x->count; i++) {
        snprintf(text + length, bytes - length, "[%d]", i);
        if (find_wrong(&x->items[i], is_wrong, sums, text, bytes))
            return true;
    }
    return false;
}

static bool is_wrong_gradient(const struct mmul_script_view *view, char text[static 128]) {
    const double *sums = view->sums;
    if (view->kind != MMUL_VIEW_GRADIENT)
        return false;
    snprintf(text, 128, "%s", view->text);
    return find_wrong(&view->gradient, is_not_finite, &sums, text, 128);
}

static bool text_contains(const struct mmul_source *source, const char *function) {
    return memmem(source->text, (size_t)source->length, function, strlen(function)) != NULL;
}

static enum mmul_status accept_view(const struct mmul_script *script,
                                    const struct mmul_script_view *view, struct mmul_error *err) {
    char text[128];
    // Written as "not <=", so that NaN is never close.
    if (view->kind == MMUL_VIEW_CLOSE && !(view->difference <= view->tolerance))
        mmul_fail(err, MMUL_ERR_WRONG,
                  "not close: the largest difference %.6g exceeds the tolerance %.6g",
                  remove_nan_sign(view->difference), view->tolerance);
    else if (!script->skips_nan && is_wrong_gradient(view, text))
        mmul_fail(err, MMUL_ERR_WRONG, "gradient '%s' is not finite", text);
    else
        return MMUL_OK;
    if (view->kind == MMUL_VIEW_GRADIENT)
        mmul_hint(err, "--on-nan skip skips such steps%s",
                  text_contains(&script->source, "log(") && text_contains(&script->source, "exp(")
                      ? "; softplus(x) for log(1 + exp(x)), logsumexp(x) for log(sum(exp(x))) "
                        "do not overflow"
                      : "");
    mmul_source_locate(&script->source, view->at, err);
    return MMUL_ERR_WRONG;
}

enum mmul_status mmul_script_accept(void *script, struct mmul_error *err) {
    const struct mmul_script *s = script;
    enum mmul_status status = MMUL_OK;
    for (const struct mmul_script_view *v = s->views; status == MMUL_OK && v != NULL; v = v->next)
        status = accept_view(s, v, err);
    return status;
}

static void format_skipped_step(const struct mmul_script *script, const char *where,
                                struct mmul_span at, const char *gradient, char line[static 256]) {
    char turn[32] = "", place[96];
    if (script->turn.end > 0)
        snprintf(turn, sizeof turn, "turn %lld: ", (long long)script->turn.at);
    mmul_source_place(&script->source, at, place);
    snprintf(line, 256, "%s%.44s%.80s: gradient '%.56s' is not finite: no step", turn, where, place,
             gradient);
}

// Finds the skipped step number *index on all nodes, in order of iterations, and formats it. *index
// is reduced by the number of steps passed.
static bool find_left_out(const struct mmul_script *script, const struct mmul_script_view *view,
                          int *index, char line[static 256]) {
    const double *marks = view->sums;
    char text[128], where[64];
    int64_t all = 0;
    for (const struct mmul_skipped_step *l = view->skipped_steps; l != NULL; l = l->next)
        all += l->marks.shape.cols;
    for (const struct mmul_skipped_step *l = view->skipped_steps; l != NULL; l = l->next) {
        for (int node = 0; node < script->node_count; node++) {
            const double *own = marks + node * all;
            snprintf(text, sizeof text, "%s", l->text);
            if (!find_wrong(&l->gradient, is_marked, &own, text, sizeof text) || (*index)-- > 0)
                continue;
            snprintf(where, sizeof where, "node %d, turn %lld: ", node, (long long)l->turn);
            format_skipped_step(script, where, l->at, text, line);
            return true;
        }
        marks += l->marks.shape.cols;
    }
    return false;
}

bool mmul_script_skipped(const struct mmul_script *script, int index, char line[static 256]) {
    char text[128];
    for (const struct mmul_script_view *v = script->views; v != NULL; v = v->next) {
        if (v->kind == MMUL_VIEW_SKIPPED_STEPS && find_left_out(script, v, &index, line))
            return true;
        if (!is_wrong_gradient(v, text) || index-- > 0)
            continue;
        format_skipped_step(script, "", v->at, text, line);
        return true;
    }
    return false;
}

bool mmul_script_warning(struct mmul_script *script, const char **line) {
    struct mmul_script_warning *next = script->warnings;
    while (next != NULL && next->is_told)
        next = next->next;
    if (next == NULL)
        return false;
    next->is_told = true;
    *line = next->line;
    return true;
}

bool mmul_script_restored(struct mmul_script *script, const char **line) {
    *line = script->restored_line;
    script->restored_line = NULL;
    return *line != NULL;
}

// Lines are printed in order, so an arriving value belongs to the next line or a later one.
void mmul_script_arrive(struct mmul_script *script, const struct mmul_output *output) {
    for (struct mmul_script_view *view = script->next_view; view != NULL; view = view->next)
        for (struct mmul_script_pending_value **a = &view->awaited; *a != NULL; a = &(*a)->next)
            if ((*a)->output == output) {
                *a = (*a)->next;
                return;
            }
}

const char *mmul_script_part_number(const struct mmul_script_part *part,
                                    char text[static MMUL_PART_NUMBER_BYTES]) {
    const double x = remove_nan_sign(part->number);
    const bool fits = part->is_whole && fabs(x) < 0x1p63;
    const struct mmul_object number =
        fits ? mmul_object_from_integer((int64_t)x) : mmul_object_from_real(x);
    text[0] = '\0';
    if (part->format != NULL)
        mmul_format_write(part->format, &number, text, MMUL_PART_NUMBER_BYTES);
    else
        snprintf(text, MMUL_PART_NUMBER_BYTES, part->is_whole ? "%.0f" : "%.6g", x);
    return text;
}

static void print_part(const struct mmul_script_part *part, const struct mmul_program_plan *plan,
                       FILE *stream) {
    char shape[96], placement[96], number[MMUL_PART_NUMBER_BYTES], letter[5];
    enum mmul_placement_kind ignored;
    const struct mmul_object *x = &part->matrix;
    if (part->kind == MMUL_PART_TEXT)
        fputs(part->text, stream);
    else if (part->kind == MMUL_PART_LETTERS)
        for (int64_t i = 0; i < part->id_count; i++)
            fputs(mmul_script_letter(part->tokens, part->ids[i], letter), stream);
    else if (part->kind == MMUL_PART_NUMBER)
        fputs(mmul_script_part_number(part, number), stream);
    else
        fprintf(stream, "%s: %s, %s; min %.6g, max %.6g, mean %.6g", part->text,
                mmul_object_shape(x, shape),
                mmul_program_plan_placement(plan, x->value, &ignored, placement),
                remove_nan_sign(part->statistics[0]), remove_nan_sign(part->statistics[1]),
                remove_nan_sign(part->statistics[2]));
}

static void print_corner(const struct mmul_script_part *part, FILE *stream) {
    for (int i = 0; i < part->rows; i++) {
        for (int j = 0; j < part->cols; j++)
            fprintf(stream, " %12.6g", remove_nan_sign(part->corner[i * part->cols + j]));
        fputs(part->matrix.shape.cols > part->cols ? " ...\n" : "\n", stream);
    }
    if (part->matrix.shape.rows > part->rows)
        fputs("          ...\n", stream);
}

// Prints the outputs in text order, several per line if they fit.
static void print_outputs(const struct mmul_script *script, int ranks, FILE *stream) {
    enum { COLUMNS = 120, GAP = 2 };
    const struct mmul_script_output *last = NULL;
    size_t column = 0;
    while (last != script->outputs) { // the list holds the latest first
        const struct mmul_script_output *o = script->outputs;
        while (o->next != last)
            o = o->next;
        struct mmul_text text = {0};
        char shape[96];
        // One line serves all tensors of a checkpoint file.
        if (o->is_checkpoint && o->next != NULL && strcmp(o->next->file, o->file) == 0) {
            last = o;
            continue;
        }
        if (o->is_checkpoint)
            mmul_text_add(&text, "%.*s: up to turn %lld", (int)(o->tensor - o->path - 1), o->path,
                          (long long)o->turn);
        else
            mmul_text_add(&text, "%s: %s", o->path, mmul_object_shape(&o->matrix, shape));
        if (mmul_kept_name(o->path) != NULL)
            mmul_text_add(&text, " on %d rank%s", ranks, mmul_text_plural(ranks));
        if (text.length > 0)
            mmul_make_printable(text.data);
        const char *line = mmul_text_get(&text);
        const bool fits = column > 0 && column + GAP + strlen(line) <= COLUMNS;
        fprintf(stream, "%s%s", column == 0 ? "" : fits ? "  " : "\n", line);
        column = strlen(line) + (fits ? column + GAP : 0);
        mmul_text_fini(&text);
        last = o;
    }
    if (column > 0)
        fputc('\n', stream);
}

// Prints the windows per node in the form that REFERENCE_APART of tests/reference.py expects.
static void print_windows(const struct mmul_script *script, FILE *stream) {
    int64_t all = 0;
    for (int i = 0; i < script->node_count; i++)
        all += script->node_windows[i];
    for (int i = 0; all > 0 && i < script->node_count; i++)
        fprintf(stream, "%s%lld", i == 0 ? "windows seen per node: " : ":",
                (long long)script->node_windows[i]);
    if (all > 0)
        fputc('\n', stream);
}

void mmul_script_print_outcome(const struct mmul_script *script, const struct mmul_values *values,
                               bool verbose, FILE *stream) {
    if (values != NULL)
        mmul_report_print(mmul_values_report(values), verbose, stream);
    print_windows(script, stream);
    print_outputs(script, values != NULL ? mmul_values_summary(values).ranks : 1, stream);
}

bool mmul_script_has_open_line(const struct mmul_script *script) {
    return script->is_line_open;
}

bool mmul_script_is_due(struct mmul_script *script) {
    struct mmul_script_view **next = &script->next_view;
    while (*next != NULL && (*next)->awaited == NULL && (*next)->kind != MMUL_VIEW_LINE)
        *next = (*next)->next;
    return *next != NULL && (*next)->awaited == NULL;
}

static void print_view(const struct mmul_script_view *view, const struct mmul_program_plan *plan,
                       FILE *stream) {
    for (const struct mmul_script_part *part = view->parts; part != NULL; part = part->next)
        print_part(part, plan, stream);
    fputs(view->end, stream);
    for (const struct mmul_script_part *part = view->parts; part != NULL; part = part->next)
        if (part->kind == MMUL_PART_MATRIX)
            print_corner(part, stream);
}

static void report_numbers(const struct mmul_script *script, const struct mmul_script_view *view) {
    for (const struct mmul_script_part *part = view->parts; part != NULL; part = part->next)
        if (part->kind == MMUL_PART_NUMBER)
            mmul_context_publish_number(script->runner.context, part->text, part->number);
}

void mmul_script_print(struct mmul_script *script, const struct mmul_program_plan *plan,
                       FILE *stream, FILE *metrics) {
    for (; mmul_script_is_due(script); script->next_view = script->next_view->next) {
        const struct mmul_script_view *view = script->next_view;
        if (stream != NULL) {
            print_view(view, plan, stream);
            script->is_line_open = strchr(view->end, '\n') == NULL;
        }
        if (stream == NULL)
            mmul_script_collect_json(script, view, plan);
        if (metrics != NULL)
            mmul_script_write_metrics(script, view, metrics);
        if (script->runner.context != NULL)
            report_numbers(script, view);
    }
}
