// SPDX-License-Identifier: MIT
// Finds the tensors reachable from a pickle's root, and names them by their path. Shared containers
// are walked each time they are reached, so a small pickle can expand a lot: VISITS_MOST bounds it.
// Objects may refer to each other and are walked once.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/pickle_machine.h"

enum { DEPTH_MOST = 256, NAME_MOST = 1000, VISITS_MOST = 1 << 20 };

struct walk {
    struct mmul_pickle_machine *m;
    struct mmul_pickle *pickle;
    int64_t room, visits;
    char name[NAME_MOST + 32];
    int length;
    bool is_misnamed; // a key on the path has a NUL, or the name is too long
};

static enum mmul_status add_tensor(struct walk *w, int64_t record) {
    struct mmul_pickle_machine *m = w->m;
    enum mmul_status status = mmul_pickle_grow(m, &w->pickle->tensors, w->pickle->count, &w->room,
                                               sizeof *w->pickle->tensors);
    if (status != MMUL_OK)
        return status;
    struct mmul_pickle_tensor *tensor = &w->pickle->tensors[w->pickle->count];
    *tensor = m->records[record];
    if (w->is_misnamed) { // no address can name it
        tensor->is_readable = false;
        mmul_text_copy(tensor->type, sizeof tensor->type, "(no valid name)");
    }
    status = mmul_copy_text(w->length > 0 ? w->name : "data", &tensor->name, m->err);
    w->pickle->count += status == MMUL_OK;
    return status;
}

// Extends the path by a key or an index. Keys are texts or whole numbers. A text that cannot be
// part of a name is shown up to a NUL, or as far as there is room.
static void extend_path(struct walk *w, const struct mmul_pickle_value *key, int place) {
    const char *dot = w->length > 0 ? "." : "";
    char *at = w->name + w->length;
    const size_t room = sizeof w->name - (size_t)w->length;
    const int left = NAME_MOST - w->length - (int)strlen(dot);
    if (mmul_pickle_has_kind(key, PICKLE_TEXT)) {
        const char *text = (const char *)key->text;
        int shown = (int)strnlen(text, (size_t)key->length);
        w->is_misnamed |= shown < key->length || key->length > left;
        shown = shown < left ? shown : left > 0 ? left : 0;
        while (shown > 0 && shown < key->length && (text[shown] & 0xC0) == 0x80)
            shown--; // characters stay whole
        w->length += snprintf(at, room, "%s%.*s", dot, shown, text);
    } else if (left > 0) {
        w->length += snprintf(at, room, "%s%" PRId64, dot, key != NULL ? key->whole : place);
    } else {
        w->is_misnamed = true;
    }
}

// Returns true for the dicts in which a torch module keeps its tensors. As in a state_dict, they
// are no part of the names.
static bool is_of_module(const struct mmul_pickle_value *key) {
    return mmul_pickle_is_text(key, "_parameters") || mmul_pickle_is_text(key, "_buffers") ||
           mmul_pickle_is_text(key, "_modules");
}

static bool has_items(const struct mmul_pickle_value *value) {
    return value->kind == PICKLE_DICT || value->kind == PICKLE_LIST ||
           value->kind == PICKLE_TUPLE || value->kind == PICKLE_OBJECT;
}

static enum mmul_status visit_value(struct walk *w, int index, bool is_state, int depth);

// Visits an item of a container, or of an object's state, which is a dict or a tuple of two.
static enum mmul_status visit_item(struct walk *w, const struct mmul_pickle_item *item,
                                   bool of_state, int place, int depth) {
    struct mmul_pickle_machine *m = w->m;
    const struct mmul_pickle_value *key = item->key >= 0 ? &m->values[item->key] : NULL;
    const bool is_dict = m->values[item->value].kind == PICKLE_DICT;
    const bool is_state = item->key == PICKLE_STATE || (of_state && key == NULL && is_dict);
    const bool is_unnamed = is_state || (of_state && is_dict && is_of_module(key));
    const int length = w->length;
    const bool is_misnamed = w->is_misnamed;
    if (key != NULL && key->kind != PICKLE_TEXT && key->kind != PICKLE_INTEGER)
        return MMUL_OK; // a value without a name
    if (!is_unnamed)
        extend_path(w, key, place);
    enum mmul_status status = visit_value(w, item->value, is_state, depth + 1);
    w->is_misnamed = is_misnamed;
    w->length = length;
    w->name[length] = '\0';
    return status;
}

static enum mmul_status visit_value(struct walk *w, int index, bool is_state, int depth) {
    struct mmul_pickle_machine *m = w->m;
    struct mmul_pickle_value *value = &m->values[index];
    const int64_t tensors = w->pickle->count;
    enum mmul_status status = MMUL_OK;
    if (depth > DEPTH_MOST || ++w->visits > VISITS_MOST + m->value_count)
        return mmul_pickle_fail(m, "has values that are nested too deeply");
    if (value->kind == PICKLE_TENSOR)
        return add_tensor(w, value->whole);
    // A container inside itself adds no more tensors.
    if (!has_items(value) || value->is_open || (value->kind == PICKLE_OBJECT && value->is_seen))
        return MMUL_OK;
    value->is_seen = value->is_open = true;
    int place = 0;
    for (int item = value->count > 0 ? value->first : -1; status == MMUL_OK && item >= 0;
         item = m->items[item].next)
        status = visit_item(w, &m->items[item], is_state, place++, depth);
    value->is_open = false;
    if (value->kind == PICKLE_OBJECT && w->pickle->count == tensors)
        m->classes[value->whole].skipped++;
    return status;
}

// Sorts by name, then position: of several tensors with one name the first keeps it. Example: keys
// a, b and the key a.b.
static int compare_tensors(const void *a, const void *b) {
    const struct mmul_pickle_tensor *x = *(struct mmul_pickle_tensor *const *)a,
                                    *y = *(struct mmul_pickle_tensor *const *)b;
    const int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x > y) - (x < y);
}

static enum mmul_status mark_duplicate_names(struct mmul_pickle_machine *m,
                                             struct mmul_pickle *pickle) {
    struct mmul_pickle_tensor **sorted = NULL;
    if (pickle->count < 2)
        return MMUL_OK;
    if (MMUL_ALLOCATE(sorted, pickle->count, "a list of tensors", m->err) != MMUL_OK)
        return m->err->status;
    for (int64_t t = 0; t < pickle->count; t++)
        sorted[t] = &pickle->tensors[t];
    qsort(sorted, (size_t)pickle->count, sizeof *sorted, compare_tensors);
    for (int64_t t = 1; t < pickle->count; t++)
        if (strcmp(sorted[t]->name, sorted[t - 1]->name) == 0) {
            sorted[t]->is_readable = false;
            mmul_text_copy(sorted[t]->type, sizeof sorted[t]->type, "(name is taken)");
        }
    mmul_free(sorted);
    return MMUL_OK;
}

// ----------------------------------------------------------------------------------------- skipped

static int compare_names(const void *a, const void *b) {
    const struct mmul_tensors_skipped *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int compare_counts(const void *a, const void *b) {
    const struct mmul_tensors_skipped *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : strcmp(x->name, y->name);
}

static enum mmul_status copy_class_name(const struct mmul_pickle_class *class, const char **name,
                                        struct mmul_error *err) {
    enum { PART_MOST = 100 };
    struct mmul_text text = {0};
    char *copied = NULL;
    const struct mmul_pickle_text *module = &class->module, *word = &class->name;
    mmul_text_add(&text, "%.*s.%.*s", module->length < PART_MOST ? module->length : PART_MOST,
                  module->text, word->length < PART_MOST ? word->length : PART_MOST, word->text);
    enum mmul_status status = text.failed
                                  ? mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a name")
                                  : mmul_copy_text(text.data, &copied, err);
    mmul_text_fini(&text);
    *name = copied;
    return status;
}

// Lists the classes of skipped objects, classes of one name merged, most objects first.
static enum mmul_status list_skipped(struct mmul_pickle_machine *m, struct mmul_pickle *pickle) {
    int64_t count = 0, merged = 0;
    for (int64_t c = 0; c < m->class_count; c++)
        count += m->classes[c].skipped > 0;
    if (count == 0)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE(pickle->skipped, count, "a list of classes", m->err);
    for (int64_t c = 0; status == MMUL_OK && c < m->class_count; c++) {
        if (m->classes[c].skipped == 0)
            continue;
        struct mmul_tensors_skipped *to = &pickle->skipped[pickle->skipped_count];
        to->count = m->classes[c].skipped;
        status = copy_class_name(&m->classes[c], &to->name, m->err);
        pickle->skipped_count += status == MMUL_OK;
    }
    if (status != MMUL_OK)
        return status;
    qsort(pickle->skipped, (size_t)count, sizeof *pickle->skipped, compare_names);
    for (int64_t c = 1; c < count; c++) {
        struct mmul_tensors_skipped *last = &pickle->skipped[merged], *next = &pickle->skipped[c];
        if (strcmp(last->name, next->name) != 0) {
            pickle->skipped[++merged] = *next;
            continue;
        }
        last->count += next->count;
        mmul_free((char *)next->name);
    }
    pickle->skipped_count = merged + 1;
    qsort(pickle->skipped, (size_t)pickle->skipped_count, sizeof *pickle->skipped, compare_counts);
    return MMUL_OK;
}

enum mmul_status mmul_pickle_find_tensors(struct mmul_pickle_machine *m, int root,
                                          struct mmul_pickle *pickle) {
    struct walk w = {.m = m, .pickle = pickle};
    enum mmul_status status = visit_value(&w, root, false, 0);
    if (status == MMUL_OK)
        status = mark_duplicate_names(m, pickle);
    return status == MMUL_OK ? list_skipped(m, pickle) : status;
}
