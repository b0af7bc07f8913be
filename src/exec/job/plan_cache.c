// SPDX-License-Identifier: MIT
// Hashes the structure of programs and keeps a short list of plans, the newest first. A plan in use
// is not taken twice. Makes no plan.
#include "exec/job/plan_cache.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/job/rebalance.h"
#include "plan/program/program_make.h"

enum { PLANS = 16 };

struct mmul_cached_plan {
    struct mmul_cached_plan *next;
    struct mmul_program_plan *plan; // owned
    int64_t number;                 // identical on all ranks
    uint64_t key;                   // root only
};

// --------------------------------------------------------------------------------------------- key

// Hashed part of an operation. Zeroed first, so that padding does not count.
struct key_operation {
    struct mmul_parameters with;
    struct mmul_scale scale;
    struct mmul_shape shape;
    int operands[MMUL_OPERANDS];
    int kind, operand_count, result, is_integer, dtype, generator, requested_placement, kept;
};

struct key_value {
    struct mmul_shape shape;
    int dtype, is_integer, last_use, rank_group;
};

static void add_operation(struct mmul_hasher *hasher, const struct mmul_operation *o) {
    struct key_operation key;
    memset(&key, 0, sizeof key);
    for (int i = 0; i < o->operand_count; i++)
        key.operands[i] = o->operands[i];
    memcpy(key.with.begin, o->with.begin, sizeof key.with.begin);
    memcpy(key.with.end, o->with.end, sizeof key.with.end);
    memcpy(key.with.step, o->with.step, sizeof key.with.step);
    memcpy(key.with.axes, o->with.axes, sizeof key.with.axes);
    key.with.shape = o->with.shape;
    key.with.axis = o->with.axis;
    key.with.count = o->with.count;
    key.with.causal = o->with.causal;
    key.scale.is_given = o->scale.is_given;
    key.scale.transposed_factors[0] = o->scale.transposed_factors[0];
    key.scale.transposed_factors[1] = o->scale.transposed_factors[1];
    key.shape = o->shape;
    key.kind = (int)o->kind;
    key.operand_count = o->operand_count;
    key.result = o->result;
    key.is_integer = o->is_integer;
    key.dtype = (int)o->dtype;
    key.generator = (int)o->generator;
    key.requested_placement = (int)o->requested_placement;
    key.kept = o->kept;
    mmul_hasher_add(hasher, &key, sizeof key);
}

static void add_value(struct mmul_hasher *hasher, const struct mmul_value *v) {
    struct key_value key;
    memset(&key, 0, sizeof key);
    key.shape = v->shape;
    key.dtype = (int)v->dtype;
    key.is_integer = v->is_integer;
    key.last_use = v->last_use;
    key.rank_group = v->rank_group;
    mmul_hasher_add(hasher, &key, sizeof key);
}

static void add_kept(struct mmul_hasher *hasher, const struct mmul_persistent_value *kept) {
    const int facts[] = {kept->held > 0, kept->is_made, kept->parts, kept->offsets != NULL};
    mmul_hasher_add(hasher, facts, sizeof facts);
    if (kept->offsets != NULL)
        mmul_hasher_add(hasher, kept->offsets, (size_t)(kept->parts + 1) * sizeof *kept->offsets);
}

static void add_job(struct mmul_hasher *hasher, const struct mmul_context *context,
                    const struct mmul_job *job) {
    const struct mmul_job_options *o = &job->options;
    const double options[] = {o->split,
                              o->split_rule,
                              o->is_only_predicted,
                              o->io,
                              (double)o->memory_bytes,
                              (double)o->device_memory_bytes,
                              o->tail,
                              o->tail_share,
                              o->reproducible,
                              o->keeps_values,
                              o->no_verify,
                              o->no_fallback,
                              o->records,
                              o->device_timeout_seconds};
    mmul_hasher_add(hasher, options, sizeof options);
    if (job->weights != NULL)
        mmul_hasher_add(hasher, job->weights, strlen(job->weights));
    for (int rank = 0; rank < context->cluster->size; rank++) {
        const struct mmul_rank_info *r = &context->cluster->ranks[rank];
        const double speeds[] = {mmul_rank_flops(r, MMUL_F32), mmul_rank_flops(r, MMUL_F64)};
        mmul_hasher_add(hasher, speeds, sizeof speeds);
    }
    const int64_t input_bytes =
        context->cluster->nodes[context->cluster->ranks[0].node].input_bytes;
    mmul_hasher_add(hasher, &input_bytes, sizeof input_bytes);
    mmul_hasher_add(hasher, &context->replacements, sizeof context->replacements);
    const double *found = mmul_rebalance_weights(context);
    if (found != NULL)
        mmul_hasher_add(hasher, found, (size_t)context->cluster->size * sizeof *found);
}

// Returns true if plans of the program may be cached. Sets of shards rule that out, because the
// ranks have to check them each time.
static bool may_be_cached(const struct mmul_program *program) {
    for (int k = 0; k < program->persistent_count; k++)
        if (program->kept[k].held == 0)
            return false;
    return program->operation_count > 0;
}

uint64_t mmul_plan_key(const struct mmul_context *context, const struct mmul_program *program,
                       const struct mmul_job *job) {
    struct mmul_hasher *hasher = NULL;
    struct mmul_error ignored;
    if (!may_be_cached(program) || mmul_hasher_create(&hasher, &ignored) != MMUL_OK)
        return 0;
    add_job(hasher, context, job);
    for (int i = 0; i < program->operation_count; i++)
        add_operation(hasher, &program->operations[i]);
    for (int i = 0; i < program->value_count; i++)
        add_value(hasher, &program->values[i]);
    for (int k = 0; k < program->persistent_count; k++)
        add_kept(hasher, &program->kept[k]);
    if (program->rank_group_count > 0)
        mmul_hasher_add(hasher, program->rank_groups,
                        (size_t)program->rank_group_count * sizeof *program->rank_groups);
    const uint64_t key = mmul_hasher_value(hasher);
    mmul_hasher_destroy(hasher);
    return key;
}

// -------------------------------------------------------------------------------------------- list

static const struct mmul_cached_plan *find_number(const struct mmul_context *context,
                                                  int64_t number) {
    const struct mmul_cached_plan *at = context->plans;
    while (at != NULL && at->number != number)
        at = at->next;
    return at;
}

// Moves the values, numbers and outputs of the new program into the old one. Data that placements
// borrow from the old program stays.
static void replace_program(struct mmul_program *new, struct mmul_program *old) {
    for (int k = 0; k < old->persistent_count; k++) {
        struct mmul_persistent_value *kept = &new->kept[k];
        mmul_free(kept->offsets);
        mmul_free(kept->weights);
        kept->offsets = old->kept[k].offsets;
        kept->weights = old->kept[k].weights;
        old->kept[k] = *kept;
        kept->offsets = NULL;
        kept->weights = NULL;
    }
    memcpy(old->values, new->values, (size_t)old->value_count * sizeof *old->values);
    memcpy(old->operations, new->operations,
           (size_t)old->operation_count * sizeof *old->operations);
    mmul_program_destroy(new);
}

enum mmul_status mmul_plan_cache_take(struct mmul_context *context, uint64_t key,
                                      struct mmul_program *program, struct mmul_program_plan **plan,
                                      struct mmul_error *err) {
    int64_t number = 0;
    struct mmul_error missing;
    *plan = NULL;
    for (const struct mmul_cached_plan *at = context->plans;
         context->comm->rank == 0 && key != 0 && at != NULL; at = at->next)
        if (at->key == key && !at->plan->is_used && number == 0)
            number = at->number;
    enum mmul_status status = mmul_comm_broadcast(context->comm, &number, sizeof number, err);
    if (status != MMUL_OK || number == 0)
        return status;
    const struct mmul_cached_plan *found = find_number(context, number);
    status = found != NULL && !found->plan->is_used
                 ? MMUL_OK
                 : mmul_fail(&missing, MMUL_ERR_SYSTEM, "no plan %lld here", (long long)number);
    if (mmul_comm_agree(context->comm, status, &missing) != MMUL_OK)
        return MMUL_OK;
    replace_program(program, found->plan->owned);
    *plan = found->plan;
    (*plan)->is_used = (*plan)->is_repeated = true;
    return MMUL_OK;
}

static bool brings_files(const struct mmul_program_plan *plan) {
    bool brings = false;
    for (int i = 0; i < plan->product_count; i++) {
        const struct mmul_program_step *s = &plan->steps[plan->products[i]];
        brings |= mmul_place_is_file(plan, s->result);
        for (int j = 0; j < MMUL_OPERANDS; j++)
            brings |= mmul_place_is_file(plan, s->operands[j]);
    }
    return brings;
}

static void destroy_kept_plan(struct mmul_cached_plan *kept) {
    kept->plan->is_kept = false;
    mmul_program_plan_destroy(kept->plan);
    mmul_free(kept);
}

// Drops all but the newest plans, except those in use.
static void drop_old_plans(struct mmul_context *context) {
    int count = 0;
    for (struct mmul_cached_plan **at = &context->plans; *at != NULL;) {
        struct mmul_cached_plan *kept = *at;
        if (++count <= PLANS || kept->plan->is_used) {
            at = &kept->next;
            continue;
        }
        *at = kept->next;
        destroy_kept_plan(kept);
    }
}

void mmul_plan_cache_add(struct mmul_context *context, uint64_t key,
                         struct mmul_program_plan *plan) {
    struct mmul_cached_plan *made = NULL;
    struct mmul_error ignored;
    // Counts on all ranks, even if the plan is not cached.
    const int64_t number = ++context->plan_count;
    if (brings_files(plan) || !may_be_cached(plan->program) ||
        MMUL_ALLOCATE(made, 1, "a plan", &ignored) != MMUL_OK)
        return;
    *made = (struct mmul_cached_plan){context->plans, plan, number, key};
    plan->is_kept = plan->is_used = true;
    context->plans = made;
    drop_old_plans(context);
}

void mmul_plan_cache_destroy(struct mmul_context *context) {
    while (context->plans != NULL) {
        struct mmul_cached_plan *kept = context->plans;
        context->plans = kept->next;
        destroy_kept_plan(kept);
    }
}
