// SPDX-License-Identifier: MIT
// Programs of the public headers: each builder function adds one operation.
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "exec/job/node_programs.h"
#include "exec/job/program.h"
#include "exec/job/root_programs.h"
#include "exec/memory/held.h"
#include "io/shard_folder.h"
#include "io/shard_set.h"
#include "model/composite.h"
#include "model/dtype.h"
#include "model/gradient.h"
#include "model/matrix.h"
#include "model/rank_groups.h"
#include "model/report.h"
#include "mpimatmul.h"

enum mmul_status mmul_program_load(struct mmul_program *program, struct mmul_matrix *matrix,
                                   int *value, struct mmul_error *err) {
    const struct mmul_matrix_info info = mmul_matrix_info(matrix);
    const struct mmul_operation request = {.kind = MMUL_LOAD,
                                           .shape = info.shape,
                                           .matrix = matrix,
                                           .dtype = info.stored,
                                           .is_integer = mmul_dtype_is_integer(info.stored),
                                           .is_bool = info.stored == MMUL_BOOL};
    return mmul_program_append(program, &request, mmul_matrix_name(matrix), value, err);
}

enum mmul_status mmul_program_generate(struct mmul_program *program,
                                       struct mmul_generated generated, const char *name,
                                       int *value, struct mmul_error *err) {
    const struct mmul_shape s = generated.shape;
    char text[96];
    if (s.batch < 1 || s.depth < 1 || s.rows < 1 || s.cols < 1)
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot generate a matrix of %s",
                         mmul_shape_format(s, text));
    const struct mmul_operation request = {
        .kind = MMUL_GENERATE, .shape = s, .generator = generated.kind, .seed = generated.seed};
    return mmul_program_append(program, &request, name, value, err);
}

enum mmul_status mmul_program_matmul(struct mmul_program *program, int a, int b, const char *name,
                                     int *value, struct mmul_error *err) {
    const struct mmul_operation request = {
        .kind = MMUL_MATMUL, .operands = {a, b}, .operand_count = 2};
    return mmul_program_append(program, &request, name, value, err);
}

enum mmul_status mmul_program_transpose(struct mmul_program *program, int x, const char *name,
                                        int *value, struct mmul_error *err) {
    const struct mmul_operation request = {
        .kind = MMUL_TRANSPOSE, .operands = {x}, .operand_count = 1};
    return mmul_program_append(program, &request, name, value, err);
}

enum mmul_status mmul_program_add(struct mmul_program *program, int x, int y, const char *name,
                                  int *value, struct mmul_error *err) {
    const struct mmul_operation request = {
        .kind = MMUL_ADD, .operands = {x, y}, .operand_count = 2};
    return mmul_program_append(program, &request, name, value, err);
}

enum mmul_status mmul_program_relu(struct mmul_program *program, int x, const char *name,
                                   int *value, struct mmul_error *err) {
    const struct mmul_operation request = {.kind = MMUL_RELU, .operands = {x}, .operand_count = 1};
    return mmul_program_append(program, &request, name, value, err);
}

enum mmul_status mmul_program_apply(struct mmul_program *program, const struct mmul_call *call,
                                    const char *name, int *value, struct mmul_error *err) {
    struct mmul_call all;
    struct mmul_operation request = {0};
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_call, call, &all, err);
    if (status != MMUL_OK)
        return status;
    struct mmul_composite_call composite = {.name = all.operation,
                                            .operand_count = all.operand_count,
                                            .with = &all.with,
                                            .origin = all.origin};
    memcpy(composite.operands, all.operands, sizeof composite.operands);
    if (mmul_is_composite(program, &composite))
        return mmul_composite_append(program, &composite, name, value, err);
    if (all.operation == NULL || mmul_operation_find(all.operation, &request.kind) == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "no operation '%s'",
                         all.operation != NULL ? all.operation : "");
    memcpy(request.operands, all.operands, sizeof request.operands);
    request.operand_count = all.operand_count;
    request.with = all.with;
    if (all.origin != NULL)
        mmul_text_copy(request.origin, sizeof request.origin, all.origin);
    return mmul_program_append(program, &request, name, value, err);
}

enum mmul_status mmul_program_gradients(struct mmul_program *program,
                                        const struct mmul_gradient_request *request, int *gradients,
                                        struct mmul_error *err) {
    struct mmul_gradient_request all;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_gradient_request, request, &all, err);
    return status == MMUL_OK ? mmul_program_add_gradients(program, &all, gradients, err) : status;
}

enum mmul_status mmul_program_place(struct mmul_program *program, int x,
                                    enum mmul_placement_kind kind, const char *name, int *value,
                                    struct mmul_error *err) {
    const struct mmul_placement_request requested_placement = {.kind = kind};
    return mmul_program_place_as(program, x, &requested_placement, name, value, err);
}

// Finds the groups of ranks named by a placement request; 0: none.
static enum mmul_status find_rank_groups(struct mmul_program *program,
                                         const struct mmul_placement_request *requested_placement,
                                         int *rank_group, int *backward_group,
                                         struct mmul_error *err) {
    *rank_group = requested_placement->on_all ? MMUL_GROUP_ALL : 0;
    *backward_group = 0;
    enum mmul_status status = MMUL_OK;
    if (requested_placement->ranks != NULL)
        status = mmul_program_add_group(program, requested_placement->ranks,
                                        requested_placement->rank_count, rank_group, err);
    if (status == MMUL_OK && requested_placement->backward_ranks != NULL)
        status = mmul_program_add_group(program, requested_placement->backward_ranks,
                                        requested_placement->backward_count, backward_group, err);
    return status;
}

// Finds the columns of a block of a cyclic request. All values of a program have blocks of one
// size: then values of the same width have their columns in the same order.
static enum mmul_status find_block_cols(const struct mmul_program *program,
                                        const struct mmul_placement_request *requested_placement,
                                        int64_t *cols, struct mmul_error *err) {
    const int64_t given = requested_placement->block_cols;
    *cols = 0;
    if (requested_placement->kind != MMUL_PLACE_CYCLIC)
        return given == 0 ? MMUL_OK
                          : mmul_fail(err, MMUL_ERR_USAGE,
                                      "only a cyclic placement has blocks of columns");
    if (given < 0)
        return mmul_fail(err, MMUL_ERR_USAGE, "invalid block of %lld columns: expected 1 or more",
                         (long long)given);
    *cols = given > 0 ? given : MMUL_BLOCK_COLS;
    for (int i = 0; i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        if (o->kind == MMUL_PLACE && o->requested_placement == MMUL_PLACE_CYCLIC &&
            o->with.count != *cols)
            return mmul_fail(err, MMUL_ERR_USAGE,
                             "cyclic blocks of %lld columns, but '%s' has blocks of %lld: expected "
                             "one size in a program",
                             (long long)*cols, program->values[o->result].name,
                             (long long)o->with.count);
    }
    return MMUL_OK;
}

enum mmul_status mmul_program_place_as(struct mmul_program *program, int x,
                                       const struct mmul_placement_request *requested_placement,
                                       const char *name, int *value, struct mmul_error *err) {
    struct mmul_operation request = {.kind = MMUL_PLACE,
                                     .operands = {x},
                                     .operand_count = 1,
                                     .requested_placement = requested_placement->kind};
    int backward_group;
    if (requested_placement->kind <= MMUL_PLACE_FILE ||
        (int)requested_placement->kind >= MMUL_PLACEMENTS)
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot place a value in a file: use save");
    if (requested_placement->ranks != NULL && mmul_placement_is_mesh(requested_placement->kind))
        return mmul_fail(err, MMUL_ERR_USAGE, "a grid placement needs all ranks");
    enum mmul_status status =
        find_block_cols(program, requested_placement, &request.with.count, err);
    if (status == MMUL_OK)
        status = find_rank_groups(program, requested_placement, &request.rank_group,
                                  &backward_group, err);
    request.group_is_requested = request.rank_group != 0;
    if (status == MMUL_OK)
        status = mmul_program_append(program, &request, name, value, err);
    if (status == MMUL_OK && backward_group != 0)
        program->values[x].backward_group = backward_group;
    return status;
}

enum mmul_status mmul_program_save(struct mmul_program *program, int x, struct mmul_output *output,
                                   struct mmul_error *err) {
    char have[96], want[96];
    if (output != NULL && x >= 0 && x < program->value_count &&
        !mmul_shape_equal(mmul_output_shape(output), program->values[x].shape))
        return mmul_fail(err, MMUL_ERR_DATA, "output of '%s' is %s, the value is %s",
                         program->values[x].name,
                         mmul_shape_format(mmul_output_shape(output), have),
                         mmul_shape_format(program->values[x].shape, want));
    for (int i = 0; i < program->operation_count; i++)
        if (output != NULL && program->operations[i].output == output)
            return mmul_fail(err, MMUL_ERR_USAGE, "cannot save two values to one output");
    const struct mmul_operation request = {
        .kind = MMUL_SAVE, .operands = {x}, .operand_count = 1, .output = output};
    return mmul_program_append(program, &request, NULL, NULL, err);
}

enum mmul_status mmul_program_load_kept(struct mmul_program *program, const char *folder,
                                        const char *name, int *value, struct mmul_error *err) {
    char standard[64], called[MMUL_VALUE_NAME_BYTES];
    struct mmul_persistent_value kept = {.is_made = false};
    struct mmul_shard_set *set = NULL;
    struct mmul_operation request = {.kind = MMUL_LOAD_PERSISTENT, .rank_group = MMUL_GROUP_ALL};
    if (folder == NULL)
        folder = mmul_shard_folder(standard);
    enum mmul_status status = mmul_shard_set_find(folder, name, &set, &kept.description, err);
    if (status != MMUL_OK)
        return status;
    kept.shape = request.shape = set->shape;
    request.requested_placement = set->axis == MMUL_ROWS ? MMUL_PLACE_ROWS : MMUL_PLACE_COLS;
    request.dtype = set->dtype;
    request.is_integer = set->kept != NULL && set->kept->has_integers;
    request.is_bool = set->kept != NULL && set->kept->has_bools;
    mmul_shard_set_destroy(set);
    mmul_text_copy(kept.name, sizeof kept.name, name);
    snprintf(called, sizeof called, "kept:%s", name);
    status = mmul_program_add_persistent(program, &kept, &request.kept, err);
    return status == MMUL_OK ? mmul_program_append(program, &request, called, value, err) : status;
}

uint64_t mmul_program_kept_version(const struct mmul_program *program, int value) {
    for (int i = 0; i < program->operation_count; i++)
        if (program->operations[i].kind == MMUL_LOAD_PERSISTENT &&
            program->operations[i].result == value)
            return program->kept[program->operations[i].kept].description;
    return 0;
}

enum mmul_status mmul_program_keep(struct mmul_program *program, int x, const char *name,
                                   bool no_sync, struct mmul_error *err) {
    struct mmul_persistent_value kept = {.is_made = true, .no_sync = no_sync};
    struct mmul_operation request = {
        .kind = MMUL_SAVE_PERSISTENT, .operands = {x}, .operand_count = 1};
    enum mmul_status status = mmul_shard_name_check(name, err);
    if (status != MMUL_OK)
        return status;
    mmul_text_copy(kept.name, sizeof kept.name, name);
    status = mmul_program_add_persistent(program, &kept, &request.kept, err);
    return status == MMUL_OK ? mmul_program_append(program, &request, NULL, NULL, err) : status;
}

enum mmul_status mmul_program_hold(struct mmul_program *program, int x, int64_t *held,
                                   struct mmul_error *err) {
    struct mmul_persistent_value kept = {.is_made = true,
                                         .held = *held > 0 ? *held : mmul_held_next_number()};
    struct mmul_operation request = {
        .kind = MMUL_SAVE_PERSISTENT, .operands = {x}, .operand_count = 1};
    snprintf(kept.name, sizeof kept.name, "held %lld", (long long)kept.held);
    *held = kept.held;
    enum mmul_status status = mmul_program_add_persistent(program, &kept, &request.kept, err);
    return status == MMUL_OK ? mmul_program_append(program, &request, NULL, NULL, err) : status;
}

enum mmul_status mmul_program_load_held(struct mmul_program *program,
                                        const struct mmul_context *context, int64_t held,
                                        const char *name, int *value, struct mmul_error *err) {
    const struct mmul_held *there = mmul_held_find(context, held);
    struct mmul_persistent_value kept = {.held = held};
    if (there == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "no value is held under %lld", (long long)held);
    const struct mmul_held_info info = mmul_held_info(context, there);
    struct mmul_operation request = {.kind = MMUL_LOAD_PERSISTENT,
                                     .shape = info.shape,
                                     .requested_placement = info.kind,
                                     .dtype = info.dtype,
                                     .is_integer = info.is_integer,
                                     .has_open_type = info.has_open_type,
                                     .is_exact_in_both_types = info.is_exact_in_both_types,
                                     .is_bool = info.is_bool};
    request.rank_group = MMUL_GROUP_ALL;
    request.group_is_requested = info.group_is_requested;
    if (info.rank_group != NULL &&
        mmul_program_intern_group(program, info.rank_group, &request.rank_group, err) != MMUL_OK)
        return err->status;
    kept.shape = info.shape;
    snprintf(kept.name, sizeof kept.name, "held %lld", (long long)held);
    enum mmul_status status = mmul_program_add_persistent(program, &kept, &request.kept, err);
    return status == MMUL_OK ? mmul_program_append(program, &request, name, value, err) : status;
}

void mmul_context_release(struct mmul_context *context, int64_t held) {
    mmul_held_release(context, held);
}

// Reads options; NULL: defaults. Local; agree afterwards.
static enum mmul_status read_job(const struct mmul_program_options *options, struct mmul_job *job,
                                 struct mmul_error *err) {
    struct mmul_program_options all = {0};
    enum mmul_status status = MMUL_OK;
    if (options != NULL)
        status = MMUL_OPTIONS_COPY(mmul_program_options, options, &all, err);
    *job = (struct mmul_job){.weights = all.weights,
                             .may_run_on_root = all.may_run_on_root,
                             .options = {.split = all.split,
                                         .split_rule = all.split_rule,
                                         .is_only_predicted = all.only_planned,
                                         .io = all.io,
                                         .memory_bytes = all.memory_limit_bytes,
                                         .device_memory_bytes = all.device_memory_limit_bytes,
                                         .tail = all.tail,
                                         .tail_share = all.tail_share,
                                         .reproducible = all.reproducible,
                                         .keeps_values = all.keep_values,
                                         .no_verify = all.no_verify,
                                         .no_fallback = all.no_fallback,
                                         .records = all.record,
                                         .device_timeout_seconds = all.device_timeout_seconds,
                                         .verify_seed = all.verify_seed,
                                         .journal_seconds = all.journal_seconds},
                             .calls = {.notice = all.notice,
                                       .progress = all.progress,
                                       .context = all.notice_context,
                                       .arrived = all.arrived,
                                       .arrived_context = all.arrived_context,
                                       .accept = all.accept,
                                       .accept_context = all.accept_context}};
    return status;
}

enum mmul_status mmul_program_plan_create(struct mmul_context *context,
                                          const struct mmul_program *program,
                                          const struct mmul_program_options *options,
                                          struct mmul_program_plan **plan, struct mmul_error *err) {
    struct mmul_job job;
    const enum mmul_status status = read_job(options, &job, err);
    if (context->comm->rank != 0) // root's options count; a rank's notice is its own
        job =
            (struct mmul_job){.calls = {.notice = job.calls.notice, .context = job.calls.context}};
    mmul_stopwatch_enter(&context->watch, &context->startup.plan_seconds);
    return mmul_root_programs_plan(context, program, &job, status, plan, err);
}

enum mmul_status mmul_program_run(struct mmul_context *context, struct mmul_program_plan *plan,
                                  struct mmul_values **values, struct mmul_error *err) {
    return plan == NULL || plan->is_on_root ? mmul_root_programs_run(context, plan, values, err)
                                            : mmul_program_execute(context, plan, values, err);
}

const char *mmul_program_plan_placement(const struct mmul_program_plan *plan, int value,
                                        enum mmul_placement_kind *kind, char text[static 96]) {
    const int place = mmul_program_first_place(plan, value);
    *kind = MMUL_PLACE_FILE;
    if (place < 0)
        return mmul_placement_name(MMUL_PLACE_FILE);
    *kind = plan->places[place].placement.kind;
    if (plan->is_on_root) {
        snprintf(text, 96, "rank 0");
        return text;
    }
    return mmul_placement_format(&plan->places[place].placement, text);
}

struct mmul_values_summary mmul_values_summary(const struct mmul_values *values) {
    const struct mmul_report *report = values->report;
    return (struct mmul_values_summary){.wall_seconds = report->wall_seconds,
                                        .startup_seconds = mmul_startup_seconds(&report->startup),
                                        .flops = report->flops,
                                        .ranks = report->size,
                                        .step_count = report->step_count,
                                        .verified = report->verified,
                                        .lines_checked = report->lines_checked,
                                        .blocks_recomputed = report->blocks_recomputed,
                                        .fallback_products = report->fallback_products,
                                        .joules = mmul_report_joules(report)};
}

void mmul_programs_add(struct mmul_programs_summary *all, const struct mmul_values *values) {
    const struct mmul_values_summary one = mmul_values_summary(values);
    all->programs++;
    all->steps += one.step_count;
    all->wall_seconds += one.wall_seconds;
    all->flops += one.flops;
    all->lines_checked += one.lines_checked;
    all->blocks_recomputed += one.blocks_recomputed;
    all->fallback_products += one.fallback_products;
    all->joules += one.joules;
}

void mmul_values_set_text_name(struct mmul_values *values, const char *name) {
    mmul_text_copy(values->report->text_name, sizeof values->report->text_name, name);
}

void mmul_values_set_before(struct mmul_values *values,
                            const struct mmul_programs_summary *before) {
    values->report->before = *before;
}

const struct mmul_report *mmul_values_report(const struct mmul_values *values) {
    return values->report;
}

const char *mmul_values_placement(const struct mmul_values *values, int value,
                                  enum mmul_placement_kind *kind, char text[static 96]) {
    return mmul_program_plan_placement(values->plan, value, kind, text);
}

// Returns the part in the value's memory, which may be transposed: matrices are the same.
static struct mmul_part_range stored_part(const struct mmul_values *values, int place) {
    const struct mmul_program_place *p = &values->plan->places[place];
    return mmul_placement_part(&p->placement, mmul_place_value(values->plan, place)->shape,
                               values->rank);
}

static int64_t count_rectangles(const struct mmul_values *values, int place) {
    return mmul_placement_rectangles(&values->plan->places[place].placement, values->rank);
}

int64_t mmul_values_part_count(const struct mmul_values *values, int value) {
    int place = mmul_program_first_place(values->plan, value);
    if (place < 0 || !mmul_values_has_place(values, place))
        return 0;
    struct mmul_part_range part = stored_part(values, place);
    return (part.matrix_end - part.matrix_begin) * count_rectangles(values, place);
}

struct mmul_value_part mmul_values_part(const struct mmul_values *values, int value,
                                        int64_t index) {
    int place = mmul_program_first_place(values->plan, value);
    const struct mmul_placement *placement = &values->plan->places[place].placement;
    const int64_t rectangles = count_rectangles(values, place),
                  matrix = stored_part(values, place).matrix_begin + index / rectangles;
    struct mmul_view view = mmul_values_view(values, place, values->rank, matrix);
    const struct mmul_region region =
        mmul_placement_rectangle(placement, mmul_place_value(values->plan, place)->shape,
                                 values->rank, matrix, index % rectangles);
    const struct mmul_region stored = mmul_placement_stored(placement, values->rank, region);
    return (struct mmul_value_part){
        .region = region,
        // or doubles
        .data = mmul_view_element(&view, stored.row_begin, stored.col_begin),
        .dtype = view.dtype,
        .row_step = view.transposed ? 1 : view.ld,
        .col_step = view.transposed ? view.ld : 1};
}

// ------------------------------------------------------------------------------------------- apart

int mmul_context_nodes(const struct mmul_context *context) {
    return context->comm->node_count;
}

const struct mmul_context *mmul_context_of_node(const struct mmul_context *context) {
    return context->node;
}

enum mmul_status mmul_apart_begin(struct mmul_context *context,
                                  const struct mmul_program_options *options,
                                  struct mmul_apart_node *nodes, struct mmul_error *err) {
    struct mmul_job job;
    enum mmul_status status = mmul_comm_agree(context->comm, read_job(options, &job, err), err);
    return status == MMUL_OK ? mmul_node_programs_open(context, &job, nodes, err) : status;
}

enum mmul_status mmul_apart_run(struct mmul_context *context,
                                const struct mmul_program *const *programs,
                                const struct mmul_program_options *options,
                                struct mmul_error *err) {
    struct mmul_job job;
    enum mmul_status status = mmul_comm_agree(context->comm, read_job(options, &job, err), err);
    return status == MMUL_OK ? mmul_node_programs_run(context, programs, &job, err) : status;
}
