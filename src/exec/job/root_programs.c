// SPDX-License-Identifier: MIT
// Chooses between all ranks and root alone. All messages go from root to the others, so root waits
// for no rank. Plans and runs nothing itself: that is program_plan.c and program_run.c in either
// context.
#include "exec/job/root_programs.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "exec/job/program_pack.h"
#include "exec/memory/held.h"
#include "exec/setup/node_context.h"
#include "exec/status/job_status.h"
#include "io/matrix_file.h"
#include "model/program.h"

// Messages from root. MEASURE (the time of messages) and COPY (values to all ranks) are followed by
// another message. The last one is ALL (the ranks plan the program), ON_ROOT or FAILED.
enum word { MEASURE, COPY, ALL, ON_ROOT, FAILED };

// Sends root's word to all ranks. Collective. Fails with root's error if the word is FAILED.
static enum mmul_status announce(const struct mmul_context *context, enum word *word,
                                 struct mmul_error *err) {
    int sent = (int)*word;
    enum mmul_status status = mmul_comm_broadcast(context->comm, &sent, sizeof sent, err);
    *word = (enum word)sent;
    if (status == MMUL_OK && *word == FAILED)
        status = mmul_comm_broadcast(context->comm, err, sizeof *err, err);
    return status == MMUL_OK && *word == FAILED ? err->status : status;
}

// Runs a program on all ranks and drops its values. The next report does not have its startup
// times. Collective. program: root's.
static enum mmul_status run_on_all(struct mmul_context *context, const struct mmul_program *program,
                                   struct mmul_error *err) {
    const struct mmul_job_options options = {0};
    const struct mmul_startup startup = context->startup;
    const enum mmul_status status = mmul_program_run_unseen(context, program, &options, err);
    context->startup = startup;
    return status;
}

// Makes a program of sums of a value and its transpose, which lies on other ranks. Messages take
// its time, and it needs no device. Root.
static enum mmul_status make_messages(int size, struct mmul_program *program,
                                      struct mmul_error *err) {
    enum { SUMS = 8 };
    const struct mmul_operation generate = {.kind = MMUL_GENERATE, .shape = {1, 1, size, size}};
    struct mmul_operation transpose = {.kind = MMUL_TRANSPOSE, .operand_count = 1};
    struct mmul_operation add = {.kind = MMUL_ADD, .operand_count = 2};
    int x = 0;
    enum mmul_status status = mmul_program_append(program, &generate, "x", &x, err);
    for (int i = 0; status == MMUL_OK && i < SUMS; i++) {
        transpose.operands[0] = add.operands[0] = x;
        status = mmul_program_append(program, &transpose, "y", &add.operands[1], err);
        if (status == MMUL_OK)
            status = mmul_program_append(program, &add, "x", &x, err);
    }
    return status;
}

// Measures the time that messages take in a program of all ranks. The first run makes the plan and
// does not count. Collective.
static enum mmul_status measure_messages(struct mmul_context *context, struct mmul_error *err) {
    enum { RUNS = 4 };
    struct mmul_program *program = NULL;
    enum mmul_status status = mmul_program_create(&program, err);
    if (status == MMUL_OK && context->comm->rank == 0)
        status = make_messages(context->comm->size, program, err);
    status = mmul_comm_agree(context->comm, status, err);
    for (int i = 0; status == MMUL_OK && i < RUNS; i++) {
        const double begin = mmul_clock_now();
        status = run_on_all(context, program, err);
        const double seconds = mmul_clock_now() - begin;
        context->message_seconds = i < 2 ? seconds : fmin(context->message_seconds, seconds);
    }
    mmul_program_destroy(program);
    return status;
}

// ------------------------------------------------------------------------------------- the choice

// Returns the number of the held value that an operation reads; 0: none.
static int64_t held_number(const struct mmul_program *program, const struct mmul_operation *o) {
    return o->kind == MMUL_LOAD_PERSISTENT ? program->kept[o->kept].held : 0;
}

// Returns true if root has all values that the program reads, and nothing in it needs all ranks: no
// placement, weights or record of each rank. Root.
static bool fits_root(const struct mmul_context *context, const struct mmul_program *program,
                      const struct mmul_job *job) {
    bool is_wanted = job->may_run_on_root;
    const bool has_weights = job->weights != NULL && strcmp(job->weights, "auto") != 0;
    if (has_weights || job->options.keeps_values || job->options.records ||
        job->options.reproducible || program->rank_group_count > 0)
        return false;
    for (int rank = 0; rank < context->cluster->size; rank++)
        if (context->cluster->ranks[rank].listed_weight >= 0)
            return false;
    for (int k = 0; k < program->persistent_count; k++)
        if (program->kept[k].held == 0)
            return false;
    for (int i = 0; i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        const int64_t number = held_number(program, o);
        is_wanted |= number > 0 && mmul_held_find_on_root(context, number) != NULL;
        if (o->kind == MMUL_PLACE ||
            (number > 0 &&
             (context->alone == NULL || mmul_held_find(context->alone, number) == NULL)))
            return false;
    }
    return is_wanted;
}

// Returns root's share of the speed of all ranks.
static double share_of_root(const struct mmul_cluster *cluster) {
    double sum = 0;
    for (int rank = 0; rank < cluster->size; rank++)
        sum += mmul_rank_estimate_flops(&cluster->ranks[rank], MMUL_F32, 1);
    return mmul_rank_estimate_flops(&cluster->ranks[0], MMUL_F32, 1) / sum;
}

// Returns the time that the other ranks would save if root took `seconds` alone.
static double saved_seconds(const struct mmul_cluster *cluster, double seconds) {
    return seconds * (1 - share_of_root(cluster));
}

// Returns a lower bound of root's time from its measured speed; 0: the speed is not known.
static double least_seconds(const struct mmul_cluster *cluster,
                            const struct mmul_program *program) {
    double flops = 0;
    for (int i = 0; i < program->operation_count; i++)
        flops += mmul_program_flops(program, &program->operations[i]);
    return flops / mmul_rank_estimate_flops(&cluster->ranks[0], MMUL_F32, INFINITY);
}

// Plans the program for root alone. Returns false if all ranks had better run it, or if it fails,
// because all ranks have more memory. Root.
static bool plan_on_root(struct mmul_context *context, const struct mmul_program *program,
                         const struct mmul_job *job, struct mmul_program_plan **plan) {
    struct mmul_error ignored;
    struct mmul_program_plan *made = NULL;
    const double least = least_seconds(context->cluster, program);
    if (saved_seconds(context->cluster, least) > context->message_seconds)
        return false;
    mmul_node_context_lend_device(context, context->alone);
    const enum mmul_status status =
        mmul_program_prepare(context->alone, program, job, &made, &ignored);
    mmul_node_context_return_device(context, context->alone);
    if (status == MMUL_OK &&
        saved_seconds(context->cluster, made->seconds) <= context->message_seconds) {
        made->is_on_root = true;
        *plan = made;
        return true;
    }
    mmul_program_plan_destroy(made);
    return false;
}

// ----------------------------------------------------------------------------------------- copies

// Returns true if the program reads a value that root holds alone. Root.
static bool reads_from_root(const struct mmul_context *context,
                            const struct mmul_program *program) {
    bool reads = false;
    for (int i = 0; i < program->operation_count; i++) {
        const int64_t number = held_number(program, &program->operations[i]);
        reads |= number > 0 && mmul_held_find_on_root(context, number) != NULL;
    }
    return reads;
}

// Adds operations that load a value from root's memory and hold it under the same number.
static enum mmul_status add_copy(struct mmul_program *copies, const struct mmul_held_info *info,
                                 const void *data, int64_t number, struct mmul_error *err) {
    struct mmul_operation load = {.kind = MMUL_LOAD,
                                  .shape = info->shape,
                                  .dtype = info->dtype,
                                  .is_integer = info->is_integer,
                                  .is_bool = info->is_bool};
    struct mmul_operation hold = {.kind = MMUL_SAVE_PERSISTENT, .operand_count = 1};
    struct mmul_persistent_value kept = {
        .is_made = true, .held = number, .stays_exact_in_both_types = info->has_open_type};
    snprintf(kept.name, sizeof kept.name, "held %lld", (long long)number);
    enum mmul_status status =
        mmul_matrix_borrow(data, info->shape, info->dtype, kept.name, &load.matrix, err);
    if (status == MMUL_OK)
        status = mmul_program_append(copies, &load, kept.name, &hold.operands[0], err);
    if (status != MMUL_OK)
        mmul_matrix_close(load.matrix);
    if (status == MMUL_OK)
        status = mmul_program_add_persistent(copies, &kept, &hold.kept, err);
    if (info->has_open_type) // mmul_program_hold_exact
        hold.dtype = info->dtype;
    return status == MMUL_OK ? mmul_program_append(copies, &hold, NULL, NULL, err) : status;
}

// Makes a program that copies the values which `program` reads and root holds alone. Root.
static enum mmul_status make_copies(const struct mmul_context *context,
                                    const struct mmul_program *program, struct mmul_program *copies,
                                    struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < program->operation_count; i++) {
        const int64_t number = held_number(program, &program->operations[i]);
        const struct mmul_held *held = number > 0 ? mmul_held_find_on_root(context, number) : NULL;
        for (int k = 0; held != NULL && k < copies->persistent_count; k++)
            if (copies->kept[k].held == number)
                held = NULL;
        if (held == NULL)
            continue;
        const struct mmul_held_info info = mmul_held_info(context, held);
        status = add_copy(copies, &info, mmul_held_data(held), number, err);
    }
    return status;
}

// Copies the values that root's program reads and root holds alone to all ranks. Collective.
static enum mmul_status copy_values(struct mmul_context *context,
                                    const struct mmul_program *program, struct mmul_error *err) {
    struct mmul_program *copies = NULL;
    enum mmul_status status = mmul_program_create(&copies, err);
    if (status == MMUL_OK && context->comm->rank == 0)
        status = make_copies(context, program, copies, err);
    status = mmul_comm_agree(context->comm, status, err);
    if (status == MMUL_OK)
        status = run_on_all(context, copies, err);
    mmul_program_destroy_unpacked(copies);
    return status;
}

// ------------------------------------------------------------------------------------- the program

// Decides, and sends the words that come before the last one. Root.
static enum mmul_status choose(struct mmul_context *context, const struct mmul_program *program,
                               const struct mmul_job *job, enum word *word,
                               struct mmul_program_plan **plan, struct mmul_error *err) {
    enum word step = MEASURE;
    enum mmul_status status = MMUL_OK;
    const bool fits = fits_root(context, program, job);
    if (context->alone == NULL && fits) {
        status = mmul_root_context_create(context, err);
        if (status == MMUL_OK)
            status = announce(context, &step, err);
        if (status == MMUL_OK)
            status = measure_messages(context, err);
    }
    *word = ALL;
    if (status != MMUL_OK || context->alone == NULL)
        return status;
    if (fits && plan_on_root(context, program, job, plan)) {
        *word = ON_ROOT;
        return MMUL_OK;
    }
    status = mmul_held_drop_released(context->alone, err);
    if (status != MMUL_OK || !reads_from_root(context, program))
        return status;
    step = COPY;
    status = announce(context, &step, err);
    return status == MMUL_OK ? copy_values(context, program, err) : status;
}

enum mmul_status mmul_root_programs_plan(struct mmul_context *context,
                                         const struct mmul_program *program,
                                         const struct mmul_job *job, enum mmul_status status,
                                         struct mmul_program_plan **plan, struct mmul_error *err) {
    enum word word = ALL;
    if (context->comm->size == 1)
        return status == MMUL_OK ? mmul_program_prepare(context, program, job, plan, err) : status;
    *plan = NULL;
    if (context->comm->rank == 0) {
        if (status == MMUL_OK)
            status = choose(context, program, job, &word, plan, err);
        word = status == MMUL_OK ? word : FAILED;
    }
    status = announce(context, &word, err);
    while (status == MMUL_OK && word < ALL) {
        // A failure is one of all ranks, and root's next message is FAILED.
        (void)(word == MEASURE ? measure_messages(context, err) : copy_values(context, NULL, err));
        status = announce(context, &word, err);
    }
    if (status == MMUL_OK && word == ALL)
        status = mmul_program_prepare(context, program, job, plan, err);
    return status;
}

enum mmul_status mmul_root_programs_run(struct mmul_context *context,
                                        struct mmul_program_plan *plan, struct mmul_values **values,
                                        struct mmul_error *err) {
    enum word word = ON_ROOT;
    *values = NULL;
    if (context->comm->rank == 0) {
        mmul_job_status_set_phase(context, "run");
        // The report of this run has the startup times and the warnings of its planning.
        context->alone->startup = context->startup;
        context->startup = (struct mmul_startup){0};
        mmul_text_add(&context->alone->warnings, "%s", mmul_text_get(&context->warnings));
        mmul_text_fini(&context->warnings);
        mmul_node_context_lend_device(context, context->alone);
        if (mmul_program_execute(context->alone, plan, values, err) != MMUL_OK)
            word = FAILED;
        mmul_node_context_return_device(context, context->alone);
    }
    mmul_stopwatch_enter(&context->watch, NULL);
    const enum mmul_status status = announce(context, &word, err);
    if (status != MMUL_OK) {
        mmul_values_destroy(*values);
        *values = NULL;
    }
    return status;
}
