// SPDX-License-Identifier: MIT
// JSON for other programs: the lines and files of a script, and its metrics, one line per value.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "model/report.h"
#include "tensor/script.h"

static json_t *sizes_json(struct mmul_shape shape, int axes) {
    const int64_t sizes[MMUL_AXES_MOST] = {shape.batch, shape.depth, shape.rows, shape.cols};
    json_t *array = json_array();
    for (int s = MMUL_AXES_MOST - axes; s < MMUL_AXES_MOST; s++)
        json_array_append_new(array, json_integer((json_int_t)sizes[s]));
    return array;
}

static json_t *saved_json(const char *path, struct mmul_shape shape, int axes) {
    return json_pack("{so so}", "file", mmul_json_from_text(path), "shape",
                     sizes_json(shape, axes));
}

static json_t *matrix_json(const struct mmul_script_part *part,
                           const struct mmul_program_plan *plan) {
    enum mmul_placement_kind ignored;
    char placement[96];
    json_t *corner = json_array();
    for (int i = 0; i < part->rows; i++) {
        json_t *row = json_array();
        for (int j = 0; j < part->cols; j++)
            json_array_append_new(row, mmul_json_from_double(part->corner[i * part->cols + j]));
        json_array_append_new(corner, row);
    }
    return json_pack("{so so ss so so so so}", "name", mmul_json_from_text(part->text), "shape",
                     sizes_json(part->matrix.shape, part->matrix.axes), "placement",
                     mmul_program_plan_placement(plan, part->matrix.value, &ignored, placement),
                     "min", mmul_json_from_double(part->statistics[0]), "max",
                     mmul_json_from_double(part->statistics[1]), "mean",
                     mmul_json_from_double(part->statistics[2]), "corner", corner);
}

static json_t *letters_json(const struct mmul_script_part *part) {
    struct mmul_text letters = {0};
    char letter[5];
    for (int64_t i = 0; i < part->id_count; i++)
        mmul_text_add(&letters, "%s", mmul_script_letter(part->tokens, part->ids[i], letter));
    json_t *entry = json_pack("{so}", "text", mmul_json_from_text(mmul_text_get(&letters)));
    mmul_text_fini(&letters);
    return entry;
}

// Closes the text between two matrices as an entry, with its numbers repeated as JSON numbers.
// Resets `words` and `numbers`.
static void end_words(json_t *printed, struct mmul_text *words, json_t **numbers) {
    const char *text = mmul_text_get(words);
    text += strspn(text, " ");
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == ' ')
        words->data[text + --length - words->data] = '\0';
    if (length > 0) {
        json_t *entry = json_pack("{so}", "text", mmul_json_from_text(text));
        if (json_array_size(*numbers) > 0)
            json_object_set(entry, "numbers", *numbers);
        json_array_append_new(printed, entry);
    }
    json_decref(*numbers);
    *numbers = json_array();
    mmul_text_fini(words);
}

static json_t *run_json(const struct mmul_values_summary *run) {
    return json_pack(
        "{sf sf si sf sf so sb sI sI sI}", "wall_seconds", run->wall_seconds, "startup_seconds",
        run->startup_seconds, "steps", run->step_count, "flops", run->flops, "flops_per_second",
        run->wall_seconds > 0 ? run->flops / run->wall_seconds : 0., "joules",
        mmul_json_from_double(run->joules), "verified", run->verified, "lines_checked",
        (json_int_t)run->lines_checked, "blocks_recomputed", (json_int_t)run->blocks_recomputed,
        "fallback_products", (json_int_t)run->fallback_products);
}

static void add_line(json_t *printed, const struct mmul_script_view *view,
                     const struct mmul_program_plan *plan) {
    struct mmul_text words = {0};
    char number[MMUL_PART_NUMBER_BYTES];
    json_t *numbers = json_array();
    for (const struct mmul_script_part *part = view->parts; part != NULL; part = part->next)
        if (part->kind == MMUL_PART_TEXT) {
            mmul_text_add(&words, "%s", part->text);
        } else if (part->kind == MMUL_PART_LETTERS) {
            end_words(printed, &words, &numbers);
            json_array_append_new(printed, letters_json(part));
        } else if (part->kind == MMUL_PART_NUMBER) {
            mmul_text_add(&words, "%s", mmul_script_part_number(part, number));
            json_array_append_new(numbers, mmul_json_from_double(part->number));
        } else {
            end_words(printed, &words, &numbers);
            json_array_append_new(printed, matrix_json(part, plan));
        }
    end_words(printed, &words, &numbers);
    json_decref(numbers);
}

// Returns the measurement of a part that is no text.
static json_t *measure_json(const struct mmul_script_part *part) {
    if (part->kind == MMUL_PART_NUMBER)
        return json_pack("{so}", "value", mmul_json_from_double(part->number));
    return json_pack("{so so so so}", "shape", sizes_json(part->matrix.shape, part->matrix.axes),
                     "min", mmul_json_from_double(part->statistics[0]), "max",
                     mmul_json_from_double(part->statistics[1]), "mean",
                     mmul_json_from_double(part->statistics[2]));
}

void mmul_script_write_metrics(const struct mmul_script *script,
                               const struct mmul_script_view *view, FILE *metrics) {
    const double seconds = mmul_clock_now() - script->begun_seconds;
    for (const struct mmul_script_part *part = view->parts; part != NULL; part = part->next) {
        if (part->kind == MMUL_PART_TEXT || part->kind == MMUL_PART_LETTERS)
            continue;
        json_t *line = json_pack("{so si so}", "turn",
                                 script->turn.end > 0 ? json_integer((json_int_t)script->turn.at)
                                                      : json_null(),
                                 "line", mmul_source_line(&script->source, view->at.begin), "name",
                                 mmul_json_from_text(part->text));
        json_object_update_new(line, measure_json(part));
        json_object_set_new(line, "seconds", json_real(seconds));
        json_dumpf(line, metrics, JSON_COMPACT);
        fputc('\n', metrics);
        json_decref(line);
    }
    fflush(metrics);
}

void mmul_script_collect_json(struct mmul_script *script, const struct mmul_script_view *view,
                              const struct mmul_program_plan *plan) {
    if (script->printed == NULL)
        script->printed = json_array();
    add_line(script->printed, view, plan);
}

// Formats a run (mpimatmul_run.schema.json). Takes `printed` and `saved`. before: NULL for none.
static enum mmul_status format_run(const struct mmul_values_summary *run, json_t *printed,
                                   json_t *saved, const struct mmul_programs_summary *before,
                                   char **text, struct mmul_error *err) {
    json_t *all =
        json_pack("{ss si ss so so so}", "schema", "mpimatmul-run", "schema_version", 1, "version",
                  MMUL_VERSION, "printed", printed, "saved", saved, "run", run_json(run));
    if (before != NULL && before->programs > 0)
        json_object_set_new(all, "before", mmul_programs_json(before));
    enum mmul_status status = all != NULL
                                  ? mmul_json_format(all, text, err)
                                  : mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the JSON");
    json_decref(all);
    return status;
}

enum mmul_status mmul_script_json(struct mmul_script *script, const struct mmul_program_plan *plan,
                                  const struct mmul_values *values,
                                  const struct mmul_programs_summary *before, char **text,
                                  struct mmul_error *err) {
    struct mmul_values_summary run = {.joules = NAN};
    json_t *saved = json_array();
    if (values != NULL)
        run = mmul_values_summary(values);
    mmul_script_print(script, plan, NULL, NULL);
    for (const struct mmul_script_output *o = script->outputs; o != NULL; o = o->next)
        json_array_insert_new(saved, 0, saved_json(o->path, o->matrix.shape, o->matrix.axes));
    return format_run(&run, script->printed != NULL ? json_incref(script->printed) : json_array(),
                      saved, before, text, err);
}

enum mmul_status mmul_saved_json(const struct mmul_values *values, const struct mmul_saved *saved,
                                 int count, char **text, struct mmul_error *err) {
    const struct mmul_values_summary run = mmul_values_summary(values);
    json_t *files = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(files, saved_json(saved[i].path, saved[i].shape, saved[i].axes));
    return format_run(&run, json_array(), files, NULL, text, err);
}
