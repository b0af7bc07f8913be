// SPDX-License-Identifier: MIT
// A state as text is JSON: the turn that comes next, the files that the run has read, and the
// values of names. A matrix stands as {"tensor": "3", "axes": 2} for a tensor of the state's file,
// a real number as {"real": "0x1.8p+1"}, since JSON has neither its bits nor infinity.
#include "tensor/loop_states.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "model/matrix.h"
#include "model/program.h"
#include "mpimatmul.h"
#include "tensor/save_targets.h"
#include "tensor/script.h"

// Writing a state may take this part of the run. The rate is assumed for the first state; the time
// of later ones is measured.
static const double SHARE_OF_WRITING = 0.02, BYTES_PER_SECOND = 500e6, SECONDS_PER_FILE = 0.005;

enum { LEVELS_MOST = 8 };

// A loop that is running, or was when a state was saved.
struct level {
    const struct mmul_node *loop;
    int64_t turn, end; // the current turn; of the innermost loop in a state: the next one
};

struct mmul_loop_states {
    struct mmul_loop_journal *journal;
    char *path, *name;       // path of the journal, name of the text
    double seconds;          // least time between two states
    double latest;           // time of the latest state; before the first one, of the beginning
    double turn_begun;       // time when the current turn of the innermost loop began
    double turn_seconds;     // time of the latest turn without a state; 0: not known
    double state_seconds[2]; // times by which turns with the latest states took longer
    int64_t number;          // number of the current outermost loop, from 1
    int line;                // line of that loop
    struct level levels[LEVELS_MOST]; // the current loops, from the outermost one
    // The state from which the current loops continue, and its loops. restored_count: 0 for none.
    json_t *restored;
    char *restored_file;
    struct level restored_levels[LEVELS_MOST];
    int restored_count;
    json_t *files;                // files that the run has read, each with what tells its version
    json_t *pending;              // the state that the current program saves; NULL for none
    bool has_file;                // the pending state has matrices
    struct mmul_output **outputs; // matrices of the pending state; owned until the run takes them
    int output_count, output_capacity;
};

// ------------------------------------------------------------------------------------ the journal

static enum mmul_status find_path(const struct mmul_script_request *request, struct mmul_text *path,
                                  struct mmul_error *err) {
    const char *slash = request->path != NULL ? strrchr(request->path, '/') : NULL;
    if (request->path == NULL || mmul_path_is_stdin(request->path))
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot resume a program that is not in a file");
    if (*request->journal == '\0')
        mmul_text_add(path, "%s.journal", request->path);
    else
        mmul_text_add(path, "%s/%s.journal", request->journal,
                      slash != NULL ? slash + 1 : request->path);
    return path->failed ? mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a name") : MMUL_OK;
}

enum mmul_status mmul_loop_states_open(const struct mmul_script_request *request,
                                       const struct mmul_source *source,
                                       struct mmul_loop_states **states, struct mmul_error *err) {
    struct mmul_loop_states *made = NULL;
    struct mmul_text path = {0}, settings = {0};
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, mmul_hash(source->text, (size_t)source->length));
    for (int i = 0; i < request->setting_count; i++)
        mmul_text_add(&settings, "%s%s", i > 0 ? " " : "", request->settings[i]);
    const char *const fields[] = {"version",
                                  MMUL_VERSION,
                                  "operation",
                                  "run",
                                  "text",
                                  text,
                                  "settings",
                                  mmul_text_get(&settings),
                                  "arithmetic",
                                  request->use_float32 ? "float32" : "of the files",
                                  "treatment of empty cells",
                                  request->missing_is_nan ? "nan" : "refuse",
                                  "treatment of gradients that are not finite",
                                  request->skips_nan ? "skip" : "stop",
                                  NULL};
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "a journal", err);
    if (status == MMUL_OK)
        status = find_path(request, &path, err);
    if (status == MMUL_OK && settings.failed)
        status = mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate settings");
    if (status == MMUL_OK)
        status = mmul_copy_text(mmul_text_get(&path), &made->path, err);
    if (status == MMUL_OK)
        status = mmul_copy_text(request->path, &made->name, err);
    if (status == MMUL_OK)
        status = mmul_loop_journal_open(made->path, made->name, fields, &made->journal, err);
    if (status == MMUL_OK) {
        made->seconds = request->journal_seconds;
        made->latest = mmul_clock_now();
        made->files = json_object();
        *states = made;
    } else {
        mmul_loop_states_close(made);
    }
    mmul_text_fini(&path);
    mmul_text_fini(&settings);
    return status;
}

void mmul_loop_states_release(struct mmul_loop_states *states) {
    if (states != NULL)
        states->output_count = 0;
}

void mmul_loop_states_close(struct mmul_loop_states *states) {
    if (states == NULL)
        return;
    for (int i = 0; i < states->output_count; i++)
        mmul_output_destroy(states->outputs[i]);
    json_decref(states->pending);
    json_decref(states->restored);
    json_decref(states->files);
    mmul_loop_journal_close(states->journal);
    MMUL_FREE_ALL(states->restored_file, states->path, states->name, states->outputs, states);
}

void mmul_loop_states_remove(struct mmul_loop_states *states) {
    if (states != NULL)
        mmul_loop_journal_remove(states->journal);
}

// --------------------------------------------------------------------------------------- the files

static enum mmul_status fail_memory(struct mmul_evaluator *e) {
    return mmul_fail(e->err, MMUL_ERR_SYSTEM, "cannot allocate the state of a loop");
}

static enum mmul_status add_identity(struct mmul_evaluator *e, const char *path,
                                     const struct mmul_matrix *matrix) {
    json_t *files = e->script->states->files;
    char identity[MMUL_IDENTITY_BYTES];
    int fd = -1;
    enum mmul_status status = MMUL_OK;
    if (json_object_get(files, path) != NULL)
        return MMUL_OK;
    if (matrix == NULL)
        status = mmul_inputs_open_file(e->script->inputs, path, &fd, e->err);
    if (status == MMUL_OK)
        status = matrix != NULL ? mmul_matrix_identity(matrix, identity, e->err)
                                : mmul_file_identity(fd, path, identity, e->err);
    if (status == MMUL_OK && json_object_set_new(files, path, json_string(identity)) != 0)
        status = fail_memory(e);
    return status;
}

// Lists the files that the run has read so far, each with what tells its version.
static enum mmul_status list_files(struct mmul_evaluator *e) {
    enum mmul_status status = MMUL_OK;
    const struct mmul_script *script = e->script;
    for (const struct mmul_script_file *f = script->files; status == MMUL_OK && f; f = f->next)
        if (f->matrix != NULL)
            status = add_identity(e, f->path, f->matrix);
    for (const struct mmul_token_text *t = script->texts; status == MMUL_OK && t; t = t->next)
        status = add_identity(e, t->path, NULL);
    return status;
}

// Compares the files that the run has read so far with those of a state.
static enum mmul_status check_files(struct mmul_evaluator *e, const struct mmul_node *loop,
                                    const json_t *state) {
    json_t *now;
    const char *path;
    enum mmul_status status = list_files(e);
    json_object_foreach(e->script->states->files, path, now) {
        const json_t *then = json_object_get(json_object_get(state, "files"), path);
        if (status != MMUL_OK || then == NULL || json_equal(now, then))
            continue;
        status = mmul_evaluator_fail(e, loop, "cannot resume: '%s' has changed since then", path);
        mmul_hint(e->err, "remove '%s' to start again", e->script->states->path);
    }
    return status;
}

// ---------------------------------------------------------------------------------------- values

// A value that is written as JSON, or read from it.
struct walk {
    const struct mmul_node *loop;
    const char *name; // the variable
    const char *file; // file of the state
    int index;        // index of the next matrix of the variable
    int tensors;      // matrices so far
};

// Returns NULL if the value can be recorded, else what it is.
static const char *find_obstacle(const struct mmul_object *x) {
    const char *obstacle = NULL;
    switch (x->kind) {
    case MMUL_OBJECT_TUPLE:
        for (int i = 0; obstacle == NULL && i < x->count; i++)
            obstacle = find_obstacle(&x->items[i]);
        return obstacle;
    case MMUL_OBJECT_MATRIX:
        return x->parts != NULL ? "a value that differs between the nodes" : NULL;
    case MMUL_OBJECT_STRING:
        return mmul_text_is_utf8(x->text) ? NULL : "a text that is not UTF-8";
    case MMUL_OBJECT_NONE:
    case MMUL_OBJECT_BOOL:
    case MMUL_OBJECT_INTEGER:
    case MMUL_OBJECT_REAL:
        return NULL;
    default:
        return mmul_object_name(x);
    }
}

static double count_bytes(const struct mmul_object *x) {
    double bytes = 0;
    if (x->kind == MMUL_OBJECT_MATRIX)
        return mmul_shape_data_bytes(x->shape, MMUL_F32);
    for (int i = 0; x->kind == MMUL_OBJECT_TUPLE && i < x->count; i++)
        bytes += count_bytes(&x->items[i]);
    return bytes;
}

static enum mmul_status add_output(struct mmul_evaluator *e, struct mmul_output *output) {
    struct mmul_loop_states *states = e->script->states;
    if (states->output_count == states->output_capacity) {
        struct mmul_output **more = NULL;
        const int capacity = 2 * states->output_capacity + 16;
        if (MMUL_ALLOCATE(more, capacity, "outputs", e->err) != MMUL_OK) {
            mmul_output_destroy(output);
            return e->err->status;
        }
        if (states->output_count > 0)
            memcpy((void *)more, (void *)states->outputs,
                   (size_t)states->output_count * sizeof(*more));
        mmul_free((void *)states->outputs);
        states->outputs = more;
        states->output_capacity = capacity;
    }
    states->outputs[states->output_count++] = output;
    return MMUL_OK;
}

// Lets the program save a matrix in the type that it has behind a turn.
static enum mmul_status save_matrix(struct mmul_evaluator *e, struct walk *w,
                                    const struct mmul_object *x, json_t **json) {
    struct mmul_loop_states *states = e->script->states;
    const struct mmul_held_place place = {w->loop->at.begin, true, w->name, w->index++};
    const int value = mmul_job_value(e, w->loop, x);
    const enum mmul_dtype type = value >= 0 ? mmul_save_target_dtype(e, x) : MMUL_F32;
    const bool is_double =
        type == MMUL_F32 && mmul_held_types_is_double(e->script->foreseen, place);
    struct mmul_output *output = NULL;
    char tensor[16];
    if (value < 0)
        return e->err->status;
    snprintf(tensor, sizeof tensor, "%d", w->tensors++);
    const struct mmul_output_request request = {
        .path = w->file,
        .tensor = tensor,
        .shape = x->shape,
        .dtype = is_double ? MMUL_F64 : type,
        .dimensions = x->axes,
        .beside = states->output_count > 0 ? states->outputs[0] : NULL};
    enum mmul_status status = mmul_output_create(&request, &output, e->err);
    if (status == MMUL_OK)
        status = add_output(e, output);
    if (status != MMUL_OK)
        return status;
    mmul_output_set_sync(output, false);
    status = mmul_program_save(e->program, value, output, e->err);
    if (status == MMUL_OK && is_double)
        mmul_program_save_double(e->program);
    *json = json_pack("{ss si sb sb}", "tensor", tensor, "axes", x->axes, "row", x->is_row, "pairs",
                      x->are_pairs);
    return status;
}

// Fails, or sets *json. A caller that adds *json to another value learns whether memory sufficed.
static enum mmul_status write_value(struct mmul_evaluator *e, struct walk *w,
                                    const struct mmul_object *x, json_t **json) {
    enum mmul_status status = MMUL_OK;
    char real[32];
    if (x->kind == MMUL_OBJECT_MATRIX)
        return save_matrix(e, w, x, json);
    if (x->kind == MMUL_OBJECT_TUPLE) {
        *json = json_array();
        for (int i = 0; status == MMUL_OK && i < x->count; i++) {
            json_t *item = NULL;
            status = write_value(e, w, &x->items[i], &item);
            if (status == MMUL_OK && json_array_append_new(*json, item) != 0)
                status = fail_memory(e);
        }
        return status;
    }
    snprintf(real, sizeof real, "%a", x->real);
    *json = x->kind == MMUL_OBJECT_NONE      ? json_null()
            : x->kind == MMUL_OBJECT_BOOL    ? json_boolean(x->integer != 0)
            : x->kind == MMUL_OBJECT_INTEGER ? json_integer(x->integer)
            : x->kind == MMUL_OBJECT_REAL    ? json_pack("{ss}", "real", real)
                                             : json_string(x->text);
    return MMUL_OK;
}

static enum mmul_status fail_state(struct mmul_evaluator *e, const struct walk *w) {
    mmul_evaluator_fail(e, w->loop, "cannot resume: the state of '%s' in the journal is damaged",
                        w->name);
    mmul_hint(e->err, "remove '%s' to start again", e->script->states->path);
    return e->err->status;
}

static enum mmul_status read_matrix(struct mmul_evaluator *e, const struct walk *w,
                                    const json_t *json, struct mmul_object *x) {
    struct mmul_matrix *matrix = NULL;
    const char *tensor = mmul_json_get_text(json, "tensor");
    int value = -1;
    if (w->file == NULL)
        return fail_state(e, w);
    if (mmul_script_open_tensor(e, w->loop, w->file, tensor, &matrix) != MMUL_OK)
        return e->err->status;
    if (mmul_program_load(e->program, matrix, &value, e->err) != MMUL_OK)
        return mmul_evaluator_locate(e, w->loop);
    *x = mmul_matrix_object(e, value, (int)json_integer_value(json_object_get(json, "axes")));
    x->is_row = json_is_true(json_object_get(json, "row"));
    x->are_pairs = json_is_true(json_object_get(json, "pairs"));
    return x->axes >= 1 && x->axes <= MMUL_AXES_MOST ? MMUL_OK : fail_state(e, w);
}

static enum mmul_status read_tuple(struct mmul_evaluator *e, const struct walk *w,
                                   const json_t *json, struct mmul_object *x);

static enum mmul_status read_value(struct mmul_evaluator *e, const struct walk *w,
                                   const json_t *json, struct mmul_object *x) {
    const char *real = mmul_json_get_text(json, "real");
    *x = (struct mmul_object){.kind = MMUL_OBJECT_NONE};
    if (json_is_array(json))
        return read_tuple(e, w, json, x);
    if (json_object_get(json, "tensor") != NULL)
        return read_matrix(e, w, json, x);
    if (*real != '\0')
        *x = mmul_object_from_real(strtod(real, NULL));
    else if (json_is_boolean(json))
        *x = mmul_object_from_bool(json_is_true(json));
    else if (json_is_integer(json))
        *x = mmul_object_from_integer(json_integer_value(json));
    else if (json_is_string(json)) {
        x->kind = MMUL_OBJECT_STRING;
        return mmul_evaluator_copy_text(e, json_string_value(json), &x->text);
    } else if (!json_is_null(json))
        return fail_state(e, w);
    return MMUL_OK;
}

static enum mmul_status read_tuple(struct mmul_evaluator *e, const struct walk *w,
                                   const json_t *json, struct mmul_object *x) {
    struct mmul_object items[MMUL_TUPLE_MOST];
    const size_t count = json_array_size(json);
    enum mmul_status status = count <= MMUL_TUPLE_MOST ? MMUL_OK : fail_state(e, w);
    for (size_t i = 0; status == MMUL_OK && i < count; i++)
        status = read_value(e, w, json_array_get(json, i), &items[i]);
    return status == MMUL_OK ? mmul_evaluator_tuple(e, items, (int)count, x) : status;
}

// -------------------------------------------------------------------------------------- restoring

static enum mmul_status restore_names(struct mmul_evaluator *e, const struct mmul_node *loop) {
    const struct mmul_loop_states *states = e->script->states;
    struct walk w = {.loop = loop, .file = states->restored_file};
    json_t *value;
    json_object_foreach(json_object_get(states->restored, "names"), w.name, value) {
        struct mmul_object object;
        const char *name = mmul_arena_copy_text(&e->script->arena, w.name, e->err);
        if (name == NULL || read_value(e, &w, value, &object) != MMUL_OK ||
            mmul_evaluator_bind(e, name, &object) != MMUL_OK)
            return e->err->status;
    }
    return MMUL_OK;
}

// Returns the loop at a position of the text, if it is a statement of `block` itself.
static const struct mmul_node *find_loop(const struct mmul_node *block, int64_t position) {
    for (const struct mmul_node *s = block->first; s != NULL; s = s->next)
        if (s->kind == MMUL_NODE_FOR && s->at.begin == position)
            return s;
    return NULL;
}

// Finds the loops of a state in the text. Returns false if they are not there.
static bool find_levels(struct mmul_loop_states *states, const struct mmul_node *outermost) {
    const json_t *loops = json_object_get(states->restored, "loops");
    const int count = (int)json_array_size(loops);
    states->restored_count = 0;
    for (int i = 0; i < count && i < LEVELS_MOST; i++) {
        const json_t *level = json_array_get(loops, (size_t)i);
        const int64_t at = json_integer_value(json_object_get(level, "at"));
        struct level *made = &states->restored_levels[i];
        made->loop = i > 0                       ? find_loop(made[-1].loop->last, at)
                     : at == outermost->at.begin ? outermost
                                                 : NULL;
        made->turn = json_integer_value(json_object_get(level, "turn"));
        made->end = json_integer_value(json_object_get(level, "end"));
        if (made->loop == NULL || made->turn < 0 || made->turn > made->end)
            return false;
    }
    states->restored_count = count;
    return count > 0 && count <= LEVELS_MOST;
}

// Stores the message about the turn from which the outermost loop continues.
static enum mmul_status note_restored(struct mmul_evaluator *e, bool is_damaged) {
    const struct mmul_loop_states *states = e->script->states;
    const struct level *last = &states->restored_levels[states->restored_count - 1];
    struct mmul_arena *arena = &e->script->arena;
    char line[240];
    int length = snprintf(line, sizeof line, "resume: the loop of line %d ", states->line);
    if (states->restored_count == 1 && last->turn == last->end)
        snprintf(line + length, sizeof line - (size_t)length, "has ended");
    else
        length += snprintf(line + length, sizeof line - (size_t)length, "continues from turn %lld",
                           (long long)states->restored_levels[0].turn);
    if (states->restored_count > 1)
        length += snprintf(
            line + length, sizeof line - (size_t)length, ", the one in line %d from turn %lld",
            mmul_source_line(e->source, last->loop->at.begin), (long long)last->turn);
    if (is_damaged)
        snprintf(line + length, sizeof line - (size_t)length,
                 ": the file of a later one is damaged");
    e->script->restored_line = mmul_arena_copy_text(arena, line, e->err);
    return e->script->restored_line != NULL ? MMUL_OK : e->err->status;
}

// Opens the latest state of the outermost loop. *found is false if there is none.
static enum mmul_status open_state(struct mmul_evaluator *e, const struct mmul_node *loop,
                                   bool *found) {
    struct mmul_loop_states *states = e->script->states;
    const struct walk all = {.loop = loop, .name = "all names"};
    const char *file = NULL, *text = NULL;
    bool is_damaged = false;
    json_decref(states->restored);
    mmul_free(states->restored_file);
    states->restored = NULL;
    states->restored_file = NULL;
    states->restored_count = 0;
    *found = mmul_loop_journal_find(states->journal, states->number, &file, &text, &is_damaged);
    if (!*found)
        return MMUL_OK;
    enum mmul_status status =
        file != NULL ? mmul_copy_text(file, &states->restored_file, e->err) : MMUL_OK;
    if (status == MMUL_OK)
        status = mmul_json_parse(text, strlen(text), states->path, &states->restored, e->err);
    if (status == MMUL_OK && !find_levels(states, loop))
        status = fail_state(e, &all);
    if (status == MMUL_OK)
        status = check_files(e, loop, states->restored);
    if (status == MMUL_OK)
        status = note_restored(e, is_damaged);
    e->script->windows = json_integer_value(json_object_get(states->restored, "windows"));
    return status;
}

// Returns the place of the current loop among those of the restored state; NULL if it is none.
static const struct level *find_restored(const struct mmul_evaluator *e,
                                         const struct mmul_node *loop) {
    const struct mmul_loop_states *states = e->script->states;
    const struct level *level = &states->restored_levels[e->loops - 1];
    return e->loops <= states->restored_count && level->loop == loop ? level : NULL;
}

enum mmul_status mmul_loop_states_begin(struct mmul_evaluator *e, const struct mmul_node *loop,
                                        int64_t *first, int64_t end) {
    struct mmul_loop_states *states = e->script->states;
    const struct walk all = {.loop = loop, .name = "all names"};
    bool found = false;
    if (states == NULL)
        return MMUL_OK;
    if (e->loops == 1) {
        states->number++;
        states->line = mmul_source_line(e->source, loop->at.begin);
        if (open_state(e, loop, &found) != MMUL_OK || !found)
            return e->err->status;
    }
    const struct level *level = find_restored(e, loop);
    if (level == NULL)
        return MMUL_OK;
    if (level->end != end || level->turn < *first)
        return fail_state(e, &all);
    *first = level->turn;
    if (e->loops < states->restored_count)
        return MMUL_OK;
    states->restored_count = 0; // all of its loops have begun
    return e->loops == 1 ? restore_names(e, loop) : MMUL_OK;
}

enum mmul_status mmul_loop_states_enter(struct mmul_evaluator *e, const struct mmul_node *loop,
                                        int64_t turn, int64_t end,
                                        const struct mmul_node **statement) {
    struct mmul_loop_states *states = e->script->states;
    if (states == NULL || e->loops > LEVELS_MOST)
        return MMUL_OK;
    states->turn_begun = mmul_clock_now();
    states->levels[e->loops - 1] = (struct level){loop, turn, end};
    if (e->loops >= states->restored_count || find_restored(e, loop) == NULL)
        return MMUL_OK;
    *statement = states->restored_levels[e->loops].loop;
    return e->loops == 1 ? restore_names(e, loop) : MMUL_OK;
}

// --------------------------------------------------------------------------------------- recording

// Returns true if a state with so many bytes is due.
static bool is_due(const struct mmul_loop_states *states, double bytes, bool ends) {
    // The shorter one of two: other jobs may have slowed down one of the turns.
    const double measured = fmin(states->state_seconds[0], states->state_seconds[1]);
    const double writing = fmax(SECONDS_PER_FILE + bytes / BYTES_PER_SECOND, measured);
    const double passed = mmul_clock_now() - states->latest;
    return passed >= writing / SHARE_OF_WRITING && (ends || passed >= states->seconds);
}

// Returns true if a later run needs the value of a name: it differs from that before the outermost
// loop, and the loop, or the text behind it, may read it.
static bool is_recorded(const struct mmul_evaluator *e, const struct mmul_binding *b) {
    return !b->object.is_unknown && mmul_job_reads_name(e, b->name) &&
           mmul_node_assigns(e->script->states->levels[0].loop, b->name);
}

static enum mmul_status write_names(struct mmul_evaluator *e, const struct mmul_node *loop,
                                    const char *file, json_t *names) {
    struct walk w = {.loop = loop, .file = file};
    enum mmul_status status = MMUL_OK;
    for (struct mmul_binding *b = e->top->bindings; status == MMUL_OK && b != NULL; b = b->next) {
        json_t *value = NULL;
        if (!is_recorded(e, b))
            continue;
        w.name = b->name;
        w.index = 0;
        status = write_value(e, &w, &b->object, &value);
        if (status == MMUL_OK && json_object_set_new(names, b->name, value) != 0)
            status = fail_memory(e);
    }
    return status;
}

// Returns false if the loop's values cannot be recorded, after a warning.
static bool can_record(struct mmul_evaluator *e, const struct mmul_node *loop, double *bytes,
                       enum mmul_status *status) {
    *bytes = 0;
    for (struct mmul_binding *b = e->top->bindings; b != NULL; b = b->next) {
        const char *obstacle = is_recorded(e, b) ? find_obstacle(&b->object) : NULL;
        if (obstacle != NULL) {
            *status = mmul_evaluator_warn(e, loop, "the loop is not recorded: '%s' is %s", b->name,
                                          obstacle);
            return false;
        }
        *bytes += is_recorded(e, b) ? count_bytes(&b->object) : 0;
    }
    return true;
}

// Returns true if each current loop is a statement of the one around it: a later run then finds it
// without the statements between.
static bool can_continue(const struct mmul_evaluator *e) {
    const struct level *levels = e->script->states->levels;
    bool can = e->loops <= LEVELS_MOST;
    for (int i = 1; can && i < e->loops; i++)
        can = find_loop(levels[i - 1].loop->last, levels[i].loop->at.begin) == levels[i].loop;
    return can;
}

// Returns NULL without memory.
static json_t *write_levels(const struct mmul_evaluator *e, bool ends) {
    json_t *loops = json_array();
    for (int i = 0; loops != NULL && i < e->loops; i++) {
        const struct level *level = &e->script->states->levels[i];
        const int64_t turn = i + 1 < e->loops ? level->turn : ends ? level->end : level->turn + 1;
        json_t *made = json_pack("{si sI sI}", "at", level->loop->at.begin, "turn",
                                 (json_int_t)turn, "end", (json_int_t)level->end);
        if (json_array_append_new(loops, made) != 0) {
            json_decref(loops);
            loops = NULL;
        }
    }
    return loops;
}

enum mmul_status mmul_loop_states_save(struct mmul_evaluator *e, const struct mmul_node *loop,
                                       bool ends) {
    struct mmul_loop_states *states = e->script->states;
    const bool must = ends && e->loops == 1;
    double bytes;
    enum mmul_status status = MMUL_OK;
    // A text with restore() continues from its own checkpoints.
    if (states == NULL || e->script->restored_file != NULL || !is_due(states, 0, must) ||
        !can_continue(e) || !can_record(e, loop, &bytes, &status) || !is_due(states, bytes, must))
        return status;
    json_t *names = json_object();
    status = list_files(e);
    if (status == MMUL_OK)
        status = write_names(e, loop, mmul_loop_journal_file(states->journal), names);
    states->has_file = states->output_count > 0;
    states->pending =
        json_pack("{so sI sO so}", "loops", write_levels(e, ends), "windows",
                  (json_int_t)e->script->windows, "files", states->files, "names", names);
    return status != MMUL_OK || states->pending != NULL ? status : fail_memory(e);
}

enum mmul_status mmul_loop_states_record(struct mmul_evaluator *e) {
    struct mmul_loop_states *states = e->script->states;
    char line[256];
    if (states == NULL)
        return MMUL_OK;
    if (states->pending == NULL) {
        states->turn_seconds = mmul_clock_now() - states->turn_begun;
        return MMUL_OK;
    }
    char *text = json_dumps(states->pending, JSON_COMPACT);
    enum mmul_status status = text != NULL ? mmul_loop_journal_add(states->journal, states->number,
                                                                   states->has_file, text, e->err)
                                           : fail_memory(e);
    free(text);
    json_decref(states->pending);
    states->pending = NULL;
    states->latest = mmul_clock_now();
    states->state_seconds[1] = states->state_seconds[0];
    states->state_seconds[0] = states->latest - states->turn_begun - states->turn_seconds;
    if (status != MMUL_OK)
        return status;
    const struct level *level = &states->levels[0];
    const int64_t next = e->loops == 1 ? level->turn + 1 : level->turn;
    snprintf(line, sizeof line,
             "'%.160s' has turn %lld of line %d: the same command continues from it", states->path,
             (long long)next, states->line);
    mmul_make_printable(line);
    mmul_ending_keep(line);
    return MMUL_OK;
}
