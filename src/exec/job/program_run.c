// SPDX-License-Identifier: MIT
//
// Runs a program's steps as the stages of one run. Then commits what it writes, root's files and
// all ranks' persistent sets, as one list in one order:
//
// 1. Everything that can run out of space is done first. Every file and every shard is packed and
//    flushed to disk under its temporary name, on all ranks. A failure here leaves all files and
//    sets as they were.
// 2. Names. First the sets, which still need descriptions on several machines. Then standard
//    output, which cannot be taken back. Then the files, each by a single rename. Within each group
//    the order is the program's.
//
// A failure in 2 ends the commit. Whatever has its name keeps it, and the rest is discarded. The
// error's hint lists both if there are several outputs. A set that fails half-way is marked as such
// (exec/memory/persistent.h).
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "exec/conduct/run.h"
#include "exec/job/program.h"
#include "exec/job/rebalance.h"
#include "exec/memory/held.h"
#include "exec/memory/persistent.h"
#include "exec/tasks/computing.h"
#include "exec/traffic/move.h"
#include "io/output_file.h"
#include "model/dtype.h"
#include "model/report.h"

static enum mmul_status check_outputs(struct mmul_context *context,
                                      const struct mmul_program_plan *plan,
                                      struct mmul_error *err) {
    const struct mmul_program *program = plan->program;
    if (plan->costs.size != context->comm->size)
        return mmul_fail(err, MMUL_ERR_USAGE, "plan is for %d ranks, there are %d",
                         plan->costs.size, context->comm->size);
    for (int i = 0; context->comm->rank == 0 && i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        if (o->kind != MMUL_SAVE)
            continue;
        if (o->output == NULL)
            return mmul_fail(err, MMUL_ERR_USAGE, "the output of '%s' has already been written",
                             program->values[o->operands[0]].name);
        if (o->output->removed_leftover)
            mmul_context_warn(context, "'%s' replaces a file left by a killed run",
                              o->output->part);
    }
    return MMUL_OK;
}

// By kind of step.
static const struct mmul_stage_kind *const kinds[] = {[MMUL_STEP_MOVE] = &mmul_move_kind,
                                                      [MMUL_STEP_COMPUTE] = &mmul_computing_kind,
                                                      [MMUL_STEP_PRODUCT] = &mmul_product_kind};

static struct mmul_stage_request make_stage_request(const struct mmul_program_plan *plan,
                                                    const struct mmul_program_step *step) {
    const struct mmul_stage_kind *kind = kinds[step->kind];
    const bool is_early = mmul_program_is_early(plan, step);
    return (struct mmul_stage_request){
        .kind = kind,
        .step = step,
        .panels = kind->copies,
        .panels_stage = -1,
        .due = step->due,
        .is_early = is_early,
        .waits_for_all = kind->copies && !is_early}; // a move reads what all ranks have
}

// Adds a step as one or two stages: moves that are joined with a product become one stage before
// it. count: number of stages so far; returns the new number.
static int add_stages(const struct mmul_program_plan *plan, int index,
                      struct mmul_stage_request *stages, int count) {
    const struct mmul_program_step *step = &plan->steps[index], *moves[MMUL_FACTORS] = {NULL};
    int panels = 0;
    if (step->joined)
        return count;
    const int joined = mmul_program_joined_moves(plan, index, moves);
    if (joined > 0) {
        panels = mmul_program_panels(mmul_place_value(plan, step->operands[0])->shape.cols);
        stages[count] = make_stage_request(plan, moves[0]);
        stages[count].also = moves[1];
        stages[count].index = (int)(moves[0] - plan->steps);
        stages[count++].panels = panels;
    }
    stages[count] = make_stage_request(plan, step);
    if (joined > 0) {
        stages[count].panels = panels;
        stages[count].panels_stage = count - 1;
        // All ranks of the node have begun the move that brings the panels.
        stages[count].waits_for_all = true;
    }
    stages[count].index = index;
    return count + 1;
}

// Warns about inputs that were written to during the run. Each block is right for the numbers that
// were read. But they may not all be of one version of the file. Root.
static void warn_of_writes(struct mmul_context *context, const struct mmul_program *program) {
    for (int i = 0; context->comm->rank == 0 && i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        if (o->kind == MMUL_LOAD && o->matrix != NULL && mmul_matrix_was_written(o->matrix))
            mmul_context_warn(context,
                              "'%s' was modified while it was read: the result may mix "
                              "its old and its new contents",
                              mmul_matrix_name(o->matrix));
    }
}

static enum mmul_status run_stages(struct mmul_context *context,
                                   const struct mmul_program_plan *plan, struct mmul_values *values,
                                   struct mmul_stage_request *stages, struct mmul_error *err) {
    struct mmul_run_request request = {
        .options = &plan->options, .calls = &plan->calls, .stages = stages, .values = values};
    struct mmul_run *run = NULL;
    for (int i = 0; i < plan->step_count; i++)
        request.stage_count = add_stages(plan, i, stages, request.stage_count);
    enum mmul_status status = mmul_run_create(context, &request, &run, err);
    if (status == MMUL_OK) {
        values->begin = run->rank_resources.begin;
        values->run_segment_bytes = run->rank_resources.segment.bytes;
        status = mmul_run_execute(run, err);
        values->run_waits = run->rank_resources.waits;
        warn_of_writes(context, plan->program);
    }
    if (status == MMUL_OK)
        status = mmul_run_fill_report(run, values->report, err);
    values->is_abandoned = mmul_comm_is_broken(context->comm) ||
                           (run != NULL && run->rank_resources.watchdog.has_abandoned);
    mmul_run_destroy(run);
    return status;
}

// ----------------------------------------------------------------------------------------- outputs

enum order { SETS, STREAMS, FILES, ORDERS };

struct output_entry {
    struct mmul_operation *operation; // a save (root only) or a keep
    enum order order;
    char *name; // owned, for the hint; NULL: memory of root's
    // Container file with several outputs, only to be compared; NULL: the output is alone in its
    // file.
    const struct mmul_output *group;
    bool is_written;
};

struct output_list {
    struct mmul_context *context;
    struct mmul_program_plan *plan;
    struct mmul_values *values;
    struct output_entry *entries; // owned
    int count;
};

static enum mmul_status list_outputs(struct output_list *list, struct mmul_error *err) {
    struct mmul_program *program = list->plan->owned;
    const bool is_root = list->context->comm->rank == 0;
    enum mmul_status status =
        MMUL_ALLOCATE(list->entries, program->operation_count, "a list of outputs", err);
    for (int i = 0; status == MMUL_OK && i < program->operation_count; i++) {
        struct mmul_operation *o = &program->operations[i];
        char set[MMUL_PERSISTENT_NAME_BYTES + sizeof "kept:"];
        const char *name = set;
        struct output_entry *entry = &list->entries[list->count];
        if (o->kind == MMUL_SAVE_PERSISTENT ? program->kept[o->kept].held > 0
                                            : o->kind != MMUL_SAVE || !is_root)
            continue;
        list->count++;
        *entry = (struct output_entry){.operation = o, .order = SETS};
        if (o->kind == MMUL_SAVE_PERSISTENT) {
            snprintf(set, sizeof set, "kept:%s", program->kept[o->kept].name);
        } else {
            entry->order = o->output->path == NULL ? STREAMS : FILES;
            entry->group = o->output->owner;
            name = o->output->name;
        }
        status = name != NULL ? mmul_copy_text(name, &entry->name, err) : MMUL_OK;
    }
    return status;
}

// Reports values that overflowed in a 16-bit output. Root.
static void report_overflows(const struct output_list *list, const struct mmul_output *output) {
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

// Commits one output. A file with several outputs is complete when the last of them is committed.
// Root.
static enum mmul_status commit_output(struct output_list *list, struct output_entry *entry,
                                      struct mmul_error *err) {
    struct mmul_output *output = entry->operation->output;
    const bool completes = output->owner == NULL || output->owner->open_count == 1;
    report_overflows(list, output);
    entry->operation->output = NULL;
    enum mmul_status status = mmul_output_commit(output, err);
    for (int i = 0; status == MMUL_OK && completes && i < list->count; i++)
        list->entries[i].is_written |=
            &list->entries[i] == entry ||
            (entry->group != NULL && list->entries[i].group == entry->group);
    return status;
}

// Commits everything in order. Collective over world for the sets, which come first; the rest is
// root's alone.
static enum mmul_status commit_all(struct output_list *list, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (enum order order = SETS; order < ORDERS; order++)
        for (int i = 0; status == MMUL_OK && i < list->count; i++) {
            struct output_entry *entry = &list->entries[i];
            if (entry->order == order && order == SETS) {
                status = mmul_persistent_commit_set(list->context, list->values,
                                                    entry->operation->kept, err);
                entry->is_written = status == MMUL_OK;
            } else if (entry->order == order) {
                status = commit_output(list, entry, err);
            }
        }
    return status;
}

// Adds the names of entries, as many as fit.
static void add_names(const struct output_list *list, bool are_written, struct mmul_text *text) {
    enum { ROOM = 80, NAME_MOST = 60 };
    const size_t begin = text->length;
    int left = 0;
    for (int i = 0; i < list->count; i++) {
        const struct output_entry *entry = &list->entries[i];
        if (entry->name == NULL || entry->is_written != are_written)
            continue;
        const char *comma = text->length > begin ? ", " : "";
        char name[NAME_MOST + 1];
        mmul_text_copy_shortened(name, sizeof name, entry->name);
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

// Puts a list of written and unwritten outputs into the error's hint. Root.
static void hint_written(const struct output_list *list, struct mmul_error *err) {
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

// Commits the outputs, or discards all if `status`, the same on all ranks, is a failure of the
// program. Collective over world. values: NULL if not created. Consumes root's outputs in any case.
// Fails with that status, as mmul_output_commit and as mmul_persistent_commit_set, on all ranks
// alike.
static enum mmul_status end_outputs(struct mmul_context *context, struct mmul_program_plan *plan,
                                    struct mmul_values *values, enum mmul_status status,
                                    struct mmul_error *err) {
    struct output_list list = {.context = context, .plan = plan, .values = values};
    if (status == MMUL_OK) {
        status = list_outputs(&list, err);
        // Flushes all that can run out of space.
        for (int i = 0; status == MMUL_OK && i < list.count; i++) {
            const struct mmul_operation *o = list.entries[i].operation;
            status = o->kind == MMUL_SAVE_PERSISTENT
                         ? mmul_persistent_flush_set(values, o->kept, err)
                         : mmul_output_finish(o->output, err);
        }
        status = mmul_comm_agree(context->comm, status, err);
    }
    if (status == MMUL_OK) {
        status = commit_all(&list, err);
        if (status != MMUL_OK && context->comm->rank == 0)
            hint_written(&list, err);
    }
    for (int i = 0; context->comm->rank == 0 && i < plan->owned->operation_count; i++) {
        mmul_output_destroy(plan->owned->operations[i].output);
        plan->owned->operations[i].output = NULL;
    }
    for (int i = 0; i < list.count; i++)
        mmul_free(list.entries[i].name);
    mmul_free(list.entries);
    return mmul_comm_agree(context->comm, status, err);
}

// ------------------------------------------------------------------------------------- the program

enum mmul_status mmul_program_execute(struct mmul_context *context, struct mmul_program_plan *plan,
                                      struct mmul_values **values, struct mmul_error *err) {
    struct mmul_values *made = NULL;
    struct mmul_report *report = NULL;
    struct mmul_stage_request *stages = NULL;
    enum mmul_status status = check_outputs(context, plan, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(stages, plan->step_count, "stages", err);
    if (status == MMUL_OK)
        status = mmul_report_create(context, plan, &report, err);
    status = mmul_comm_agree(context->comm, status, err);
    if (status == MMUL_OK)
        status = mmul_values_create(context, plan, &made, err);
    if (status == MMUL_OK) {
        made->report = report;
        report = NULL;
        made->begin = mmul_clock_now(); // replaced by the run's own clock, if there is a run
    }
    if (status == MMUL_OK && plan->program->persistent_count > 0)
        status = mmul_persistent_open_sets(context, made, err);
    if (status == MMUL_OK && plan->step_count > 0)
        status = run_stages(context, plan, made, stages, err);
    if (status == MMUL_OK) {
        status = mmul_persistent_check_mapped(made, err);
        if (status == MMUL_OK && plan->calls.accept != NULL)
            status = plan->calls.accept(plan->calls.accept_context, err);
        status = mmul_comm_agree(context->comm, status, err);
    }
    const double committing = mmul_clock_now();
    status = end_outputs(context, plan, made, status, err);
    mmul_stopwatch_enter(&context->watch, NULL);
    if (status == MMUL_OK) {
        mmul_report_finish(made->report, made->begin, committing);
        mmul_rebalance_add_run(context, plan, made->report);
        made->report->startup = context->startup;
        context->startup = (struct mmul_startup){0};
    }
    mmul_report_destroy(report);
    mmul_free(stages);
    if (status == MMUL_OK)
        status = mmul_comm_agree(context->comm, mmul_held_commit(context, made, err), err);
    if (status == MMUL_OK)
        *values = made;
    else
        mmul_values_destroy(made);
    return status;
}

enum mmul_status mmul_program_run_unseen(struct mmul_context *context,
                                         const struct mmul_program *program,
                                         const struct mmul_job_options *options,
                                         struct mmul_error *err) {
    const struct mmul_job job = {.options = *options};
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    enum mmul_status status = mmul_program_prepare(context, program, &job, &plan, err);
    if (status == MMUL_OK)
        status = mmul_program_execute(context, plan, &values, err);
    if (status == MMUL_OK)
        mmul_context_warn_again(context, values->report);
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    return status;
}
