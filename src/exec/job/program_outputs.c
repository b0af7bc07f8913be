// SPDX-License-Identifier: MIT
// The list of what a program writes, and how all of it gets its names.
#include "exec/job/program_outputs.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "exec/memory/kept.h"
#include "io/output_file.h"
#include "model/dtype.h"
#include "model/report.h"

enum order { SETS, STREAMS, FILES, ORDERS };

struct entry {
    struct mmul_operation *operation; // a save (root's) or a keep
    enum order order;
    char *name;                      // owned, for the hint; NULL: memory of root's
    const struct mmul_output *group; // a file that has several; NULL: alone in it. For comparing
    bool is_written;
};

struct list {
    struct mmul_context *context;
    struct mmul_program_plan *plan;
    struct mmul_values *values;
    struct entry *entries; // owned
    int count;
};

static enum mmul_status add(struct list *list, struct mmul_operation *o, struct mmul_error *err) {
    struct entry *entry = &list->entries[list->count];
    char set[MMUL_KEPT_NAME_BYTES + sizeof "kept:"];
    if (o->kind == MMUL_KEEP) {
        *entry = (struct entry){.operation = o, .order = SETS};
        snprintf(set, sizeof set, "kept:%s", list->plan->program->kept[o->kept].name);
    } else {
        *entry = (struct entry){.operation = o,
                                .order = o->output->path == NULL ? STREAMS : FILES,
                                .group = o->output->owner};
    }
    const char *name = o->kind == MMUL_KEEP ? set : o->output->name;
    list->count++;
    return name != NULL ? mmul_copy_text(name, &entry->name, err) : MMUL_OK;
}

static enum mmul_status make_list(struct list *list, struct mmul_error *err) {
    struct mmul_program *program = list->plan->owned;
    const bool is_root = list->context->comm->rank == 0;
    enum mmul_status status =
        MMUL_ALLOCATE(list->entries, program->operation_count, "a list of outputs", err);
    for (int i = 0; status == MMUL_OK && i < program->operation_count; i++) {
        struct mmul_operation *o = &program->operations[i];
        if (o->kind == MMUL_KEEP || (o->kind == MMUL_SAVE && is_root))
            status = add(list, o, err);
    }
    return status;
}

// Local: what can run out does so.
static enum mmul_status finish_all(const struct list *list, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < list->count; i++) {
        const struct mmul_operation *o = list->entries[i].operation;
        status = o->kind == MMUL_KEEP ? mmul_kept_finish(list->values, o->kept, err)
                                      : mmul_output_finish(o->output, err);
    }
    return status;
}

// Root. What 16 bits did not hold.
static void tell_overflows(const struct list *list, const struct mmul_output *output) {
    const struct mmul_job_calls *calls = &list->plan->calls;
    const int64_t count = mmul_output_overflows(output);
    char text[sizeof((struct mmul_error *)NULL)->text];
    list->values->report->overflows += count;
    if (count == 0 || calls->notice == NULL)
        return;
    snprintf(text, sizeof text, "warning: '%s': %lld value%s beyond %s became infinite",
             output->name, (long long)count, count == 1 ? "" : "s",
             mmul_dtype_name(mmul_output_dtype(output)));
    calls->notice(calls->context, mmul_make_printable(text));
}

// Root. A file with several outputs is there when the last of them is committed.
static enum mmul_status commit_output(struct list *list, struct entry *entry,
                                      struct mmul_error *err) {
    struct mmul_output *output = entry->operation->output;
    const bool completes = output->owner == NULL || output->owner->open_count == 1;
    tell_overflows(list, output);
    entry->operation->output = NULL;
    enum mmul_status status = mmul_output_commit(output, err);
    for (int i = 0; status == MMUL_OK && completes && i < list->count; i++)
        list->entries[i].is_written |=
            &list->entries[i] == entry ||
            (entry->group != NULL && list->entries[i].group == entry->group);
    return status;
}

// Collective over world as far as sets go, which come first; what follows is root's.
static enum mmul_status commit_all(struct list *list, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (enum order order = SETS; order < ORDERS; order++)
        for (int i = 0; status == MMUL_OK && i < list->count; i++) {
            struct entry *entry = &list->entries[i];
            if (entry->order != order)
                continue;
            if (order != SETS) {
                status = commit_output(list, entry, err);
                continue;
            }
            status = mmul_kept_commit(list->context, list->values, entry->operation->kept, err);
            entry->is_written = status == MMUL_OK;
        }
    return status;
}

// As many names as have room.
static void add_names(const struct list *list, bool are_written, struct mmul_text *text) {
    enum { ROOM = 80, NAME_MOST = 60 };
    const size_t begin = text->length;
    int left = 0;
    for (int i = 0; i < list->count; i++) {
        const struct entry *entry = &list->entries[i];
        if (entry->name == NULL || entry->is_written != are_written)
            continue;
        const char *comma = text->length > begin ? ", " : "";
        char name[NAME_MOST + 1];
        mmul_text_copy_ends(name, sizeof name, entry->name);
        if (text->length - begin + strlen(name) > ROOM)
            left++;
        else
            mmul_text_add(text, "%s'%s'", comma, name);
    }
    if (left > 0)
        mmul_text_add(text, " and %d more", left);
    else if (text->length == begin)
        mmul_text_add(text, "nothing");
}

// Root.
static void tell_written(const struct list *list, struct mmul_error *err) {
    struct mmul_text text = {0};
    int named = 0;
    for (int i = 0; i < list->count; i++)
        named += list->entries[i].name != NULL;
    if (named < 2)
        return;
    mmul_text_add(&text, "written: ");
    add_names(list, true, &text);
    mmul_text_add(&text, "; not written: ");
    add_names(list, false, &text);
    mmul_hint(err, "%s", mmul_text_get(&text));
    mmul_text_fini(&text);
}

static void discard_rest(const struct mmul_context *context, struct mmul_program *program) {
    for (int i = 0; context->comm->rank == 0 && i < program->operation_count; i++) {
        mmul_output_destroy(program->operations[i].output);
        program->operations[i].output = NULL;
    }
}

enum mmul_status mmul_program_end_outputs(struct mmul_context *context,
                                          struct mmul_program_plan *plan,
                                          struct mmul_values *values, enum mmul_status status,
                                          struct mmul_error *err) {
    struct list list = {.context = context, .plan = plan, .values = values};
    if (status == MMUL_OK) {
        status = make_list(&list, err);
        if (status == MMUL_OK)
            status = finish_all(&list, err);
        status = mmul_comm_agree(context->comm, status, err);
    }
    if (status == MMUL_OK) {
        status = commit_all(&list, err);
        if (status != MMUL_OK && context->comm->rank == 0)
            tell_written(&list, err);
    }
    discard_rest(context, plan->owned);
    for (int i = 0; i < list.count; i++)
        mmul_free(list.entries[i].name);
    mmul_free(list.entries);
    return mmul_comm_agree(context->comm, status, err);
}
