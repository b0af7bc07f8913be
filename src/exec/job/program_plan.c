// SPDX-License-Identifier: MIT
// Plans a program. Root's program goes to all ranks. Then every rank makes the same plan itself,
// from the same program, cluster and weights. Only the schedules of products are made on root
// (program_products.c).
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "exec/job/plan_cache.h"
#include "exec/job/program.h"
#include "exec/job/program_pack.h"
#include "exec/job/rebalance.h"
#include "exec/memory/held.h"
#include "exec/memory/persistent.h"
#include "exec/memory/segment_cache.h"
#include "exec/setup/calibrate.h"
#include "exec/status/job_status.h"
#include "io/matrix_file.h"
#include "io/weights_file.h"
#include "model/matrix.h"
#include "model/rank_groups.h"
#include "plan/program/program_footprint.h"
#include "plan/program/program_make.h"
#include "plan/program/program_memory.h"

// Facts that root tells the other ranks.
struct facts {
    int64_t program_bytes; // size of the packed program
    bool is_automatic;     // weights follow speeds, because none were given
    enum mmul_calibration_depth measures;
    int64_t input_bytes; // root's memory held by open inputs
    struct mmul_job_options options;
};

// Operations of a program, and the part of them computed in float64.
struct work {
    double flops, in_double;
    unsigned types; // types of products: one bit each
};

static struct work work_of(const struct mmul_program *program) {
    struct work work = {.types = 0};
    for (int i = 0; i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        const double flops = mmul_program_flops(program, o);
        const int first = o->operand_count > 0 ? o->operands[0] : MMUL_NUMBER;
        const bool is_double = first != MMUL_NUMBER && program->values[first].dtype == MMUL_F64;
        work.flops += flops;
        work.in_double += is_double ? flops : 0;
        if (o->kind == MMUL_MATMUL || o->kind == MMUL_FUSED_TOPK)
            work.types |= 1U << (is_double ? MMUL_F64 : MMUL_F32);
    }
    return work;
}

// Returns the types to be measured; float32 if there are no products.
static unsigned types_of(const struct mmul_program *program) {
    const unsigned types = work_of(program).types;
    return types != 0 ? types : 1U << MMUL_F32;
}

// Returns the number of ranks with a weight in --device @FILE.
static int count_listed(const struct mmul_cluster *cluster) {
    int count = 0;
    for (int rank = 0; rank < cluster->size; rank++)
        count += cluster->ranks[rank].listed_weight >= 0;
    return count;
}

static bool gives_weights(const struct mmul_job *job) {
    return job->weights != NULL && strcmp(job->weights, "auto") != 0;
}

// Sets the weights: the given ones, else those of the device file, else speeds in the type of most
// operations. Equal weights if speeds are not known for all ranks.
static enum mmul_status choose_weights(const struct mmul_context *context,
                                       const struct mmul_program *program,
                                       const struct mmul_job *job, double *weights,
                                       struct mmul_error *err) {
    const struct mmul_cluster *cluster = context->cluster;
    const struct work work = work_of(program);
    if (gives_weights(job))
        return mmul_weights_parse_for_ranks(job->weights, cluster->size, weights, err);
    const int listed = count_listed(cluster);
    if (listed > 0 && listed < cluster->size)
        return mmul_fail(err, MMUL_ERR_DATA,
                         "the device file gives weights to %d of %d ranks: give all or none",
                         listed, cluster->size);
    const bool mostly_double = work.in_double > work.flops / 2,
               has_single = mmul_cluster_has_speeds(cluster, 1U << MMUL_F32),
               has_double = mmul_cluster_has_speeds(cluster, 1U << MMUL_F64);
    const enum mmul_dtype dtype =
        has_double && (mostly_double || !has_single) ? MMUL_F64 : MMUL_F32;
    const bool known = has_single || has_double;
    for (int rank = 0; rank < cluster->size; rank++)
        weights[rank] = listed > 0 ? cluster->ranks[rank].listed_weight
                        : known    ? mmul_rank_flops(&cluster->ranks[rank], dtype)
                                   : 1;
    return MMUL_OK;
}

// Copies root's program to every rank, sets its types and rewrites it (search, fold, groups of
// ranks). Files stay root's.
static enum mmul_status send_program(const struct mmul_comm *comm,
                                     const struct mmul_program *program, const struct facts *facts,
                                     struct mmul_program **copy, struct mmul_error *err) {
    struct mmul_program *made = NULL;
    char *bytes = NULL;
    enum mmul_status status =
        mmul_comm_agree(comm, MMUL_ALLOCATE(bytes, facts->program_bytes, "a program", err), err);
    if (status == MMUL_OK && comm->rank == 0)
        mmul_program_pack(program, false, bytes);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, bytes, facts->program_bytes, err);
    if (status != MMUL_OK) {
        mmul_free(bytes);
        return status;
    }
    status = mmul_program_unpack(bytes, &made, err);
    mmul_free(bytes);
    for (int i = 0; status == MMUL_OK && comm->rank != 0 && i < made->operation_count; i++) {
        made->operations[i].matrix = NULL;
        made->operations[i].output = NULL;
    }
    if (status == MMUL_OK)
        status = mmul_program_assign_types(made, err);
    if (status == MMUL_OK && !facts->options.keeps_values)
        status = mmul_program_fuse_topk(made, err);
    if (status == MMUL_OK)
        status = mmul_program_fold_stacks(made, err);
    if (status == MMUL_OK)
        status = mmul_program_add_group_moves(made, comm->size, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        *copy = made;
    else
        mmul_program_destroy(made);
    return status;
}

// Returns the number of elements that the ranks hold after the program. Their shares bind later
// programs, which may be a loop of hours.
static double held_elements_of(const struct mmul_program *program) {
    double elements = 0;
    for (int i = 0; i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        if (o->kind != MMUL_SAVE_PERSISTENT || program->kept[o->kept].held == 0)
            continue;
        elements += mmul_shape_elements(program->values[o->operands[0]].shape);
    }
    return elements;
}

// Returns how long to measure speeds. A brief measurement takes a tenth of a second, so a program
// shorter than that uses known speeds. So does a CPU that runs alone and shares with no rank, and
// root when it tries to run a program that all ranks may run. A card alone is measured, because it
// may hang and its time limit follows from its speed. A program that holds much data may measure
// for a second.
static enum mmul_calibration_depth choose_depth(const struct mmul_context *context,
                                                const struct mmul_program *program,
                                                const struct mmul_job *job) {
    static const double enough_flops = 2e9, enough_held = 1 << 20;
    const bool is_alone = context->comm->size == 1 && mmul_device_can_borrow(context->device);
    if (job->options.reproducible || (is_alone && !job->options.is_only_predicted) ||
        mmul_context_is_of_root(context))
        return MMUL_CALIBRATE_STORED;
    return held_elements_of(program) >= enough_held ? MMUL_CALIBRATE_LONG
           : work_of(program).flops >= enough_flops ? MMUL_CALIBRATE_BRIEF
                                                    : MMUL_CALIBRATE_STORED;
}

// Returns the bytes of all loaded matrices, counting each once.
static int64_t input_bytes_of(const struct mmul_program *program) {
    int64_t bytes = 0;
    for (int i = 0; i < program->operation_count; i++) {
        const struct mmul_matrix *matrix = program->operations[i].matrix;
        int before = 0;
        while (before < i && program->operations[before].matrix != matrix)
            before++;
        bytes += matrix != NULL && before == i ? mmul_matrix_memory_bytes(matrix) : 0;
    }
    return bytes;
}

static struct facts collect_facts(const struct mmul_context *context,
                                  const struct mmul_program *program, const struct mmul_job *job) {
    struct facts facts = {.program_bytes = mmul_program_packed_bytes(program, false),
                          .is_automatic = !gives_weights(job) &&
                                          count_listed(context->cluster) == 0 &&
                                          work_of(program).flops > 0,
                          .input_bytes = input_bytes_of(program),
                          .options = job->options};
    facts.measures =
        facts.is_automatic ? choose_depth(context, program, job) : MMUL_CALIBRATE_STORED;
    facts.options.verify_seed = mmul_random_resolve_seed(job->options.verify_seed);
    if (job->options.reproducible)
        facts.options.tail = MMUL_TAIL_OFF;
    return facts;
}

// Returns true if no weights were given and the order of sums may differ from iteration to
// iteration.
static bool may_choose(const struct mmul_context *context, const struct mmul_job *job) {
    return !gives_weights(job) && count_listed(context->cluster) == 0 && !job->options.reproducible;
}

static bool reads_shards(const struct mmul_program *program) {
    bool any = false;
    for (int i = 0; i < program->persistent_count; i++)
        any |= !program->kept[i].is_made && program->kept[i].held == 0;
    return any;
}

// Sends root's weights to all ranks. Without given weights they come from persistent sets, or from
// the observed work of the ranks.
static enum mmul_status share_weights(const struct mmul_context *context,
                                      const struct mmul_job *job,
                                      const struct mmul_program *program, double **weights,
                                      struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    enum mmul_status status = MMUL_ALLOCATE(*weights, comm->size, "weights", err);
    const double *found = mmul_rebalance_weights(context);
    if (status == MMUL_OK && comm->rank == 0 && found != NULL && !reads_shards(program) &&
        may_choose(context, job)) {
        memcpy(*weights, found, (size_t)comm->size * sizeof *found);
    } else if (status == MMUL_OK && comm->rank == 0) {
        status = choose_weights(context, program, job, *weights, err);
        if (status == MMUL_OK)
            status = gives_weights(job)
                         ? mmul_persistent_check_weights(program, comm->size, *weights, err)
                         : mmul_persistent_choose_weights(program, comm->size, *weights, err);
    }
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, *weights, comm->size * (int64_t)sizeof **weights, err);
    return status;
}

enum mmul_status mmul_program_weights(struct mmul_context *context,
                                      const struct mmul_program *program,
                                      const struct mmul_job *job, double **weights, int *are_given,
                                      struct mmul_error *err) {
    struct mmul_calibrate_options options = {.depth = MMUL_CALIBRATE_BRIEF,
                                             .types = types_of(program),
                                             .no_fallback = job->options.no_fallback,
                                             .device_timeout_seconds =
                                                 job->options.device_timeout_seconds};
    const bool is_listed = count_listed(context->cluster) > 0;
    int facts[] = {gives_weights(job) || is_listed,
                   is_listed || gives_weights(job) || job->options.reproducible};
    enum mmul_status status = mmul_comm_broadcast(context->comm, facts, sizeof facts, err);
    *are_given = facts[0];
    if (facts[1])
        options.depth = MMUL_CALIBRATE_STORED;
    if (status == MMUL_OK)
        status = mmul_calibrate(context, &options, err);
    return status == MMUL_OK ? share_weights(context, job, program, weights, err) : status;
}

// ------------------------------------------------------------------------------------------- plans

// Input of the planning, and the plans made so far. EARLY: moves begin early. LATE: moves begin
// when their result is read. IN_PIECES: moves are late, and products bring their files in pieces.
// Plans do not depend on the memory limit.
enum { EARLY, LATE, IN_PIECES, WAYS };
struct planning {
    struct mmul_context *context;
    const struct mmul_program *program;
    const double *weights;
    const struct mmul_job_options *options;
    struct mmul_free_shares shares;
    struct mmul_program_plan *plans[WAYS]; // owned; NULL: not made yet
    bool is_shifted;                       // root's node has more than the share of its speed
};

// Makes a plan for a memory limit, without its products. Pure. A refused plan has needed_bytes set.
static enum mmul_status make_plan(struct planning *p, int way, int64_t memory_bytes,
                                  struct mmul_error *err) {
    struct mmul_program_plan **plan = &p->plans[way];
    const struct mmul_cluster *cluster = p->context->cluster;
    const struct mmul_program_request request = {.program = p->program,
                                                 .cluster = cluster,
                                                 .weights = p->weights,
                                                 .options = p->options,
                                                 .moves_late = way != EARLY,
                                                 .streams = way == IN_PIECES};
    enum mmul_status status = MMUL_OK;
    if (*plan == NULL)
        status = mmul_program_plan_make(&request, plan, err);
    if (status != MMUL_OK)
        return status;
    (*plan)->options.memory_bytes = memory_bytes;
    (*plan)->needed_bytes = 0;
    mmul_program_drop_schedules(*plan); // made for another limit
    if ((*plan)->node_bytes_most == 0)  // only products need memory
        return MMUL_OK;
    if (!mmul_program_fit_footprint(*plan, cluster))
        (*plan)->needed_bytes = mmul_program_needed_limit(*plan, cluster);
    return mmul_program_check_memory(*plan, cluster, err);
}

// Returns the first kind of plan that fits into memory_bytes (0: all there is); WAYS: none.
// Collective. *needed: least memory of a node with any of them, if none fits; 0: not known.
static int find_fitting_plan(struct planning *p, int64_t memory_bytes, int64_t *needed,
                             struct mmul_error *err) {
    enum mmul_status status = MMUL_ERR_SYSTEM;
    *needed = 0;
    for (int way = EARLY; status == MMUL_ERR_SYSTEM && way < WAYS; way++) {
        if (way == LATE && p->plans[EARLY] != NULL && !p->plans[EARLY]->moves_early)
            continue; // the LATE plan would equal the EARLY one
        status = mmul_comm_agree(p->context->comm, make_plan(p, way, memory_bytes, err), err);
        if (status == MMUL_OK)
            status = mmul_program_plan_products(p->context, p->plans[way], p->shares, err);
        if (status == MMUL_OK)
            return way;
        if (p->plans[way] != NULL && p->plans[way]->needed_bytes > 0)
            *needed = *needed > 0 ? mmul_min(*needed, p->plans[way]->needed_bytes)
                                  : p->plans[way]->needed_bytes;
    }
    return WAYS;
}

// ----------------------------------------------------------------------------- shares of the nodes

// Returns true if the run is long enough to plan other shares as well, and has products with shares
// by weight.
static bool is_worth_shifting(const struct mmul_program_plan *plan) {
    // Planning time per step, and per step and rank; largest part of the run time to spend on it.
    static const double step_seconds = 2e-4, rank_seconds = 2e-6, part = 0.02;
    const double planning = plan->step_count * (step_seconds + plan->costs.size * rank_seconds);
    bool any = false;
    for (int i = 0; i < plan->product_count; i++)
        any |= plan->steps[plan->products[i]].offsets != NULL;
    return any && plan->costs.node_count > 1 && planning < part * plan->seconds;
}

// Plans with the weight of root's node multiplied by `factor`. Collective. Keeps the new plan if it
// is predicted to be faster, and sets *is_better.
static enum mmul_status try_larger_share(struct planning *p, double factor, int *way,
                                         int *is_better, struct mmul_error *err) {
    static const double gain = 0.02;
    const struct mmul_comm *comm = p->context->comm;
    struct planning next = *p;
    struct mmul_error ignored; // the plan then stays as it is
    double *weights = NULL;
    int64_t needed = 0;
    enum mmul_status status =
        mmul_comm_agree(comm, MMUL_ALLOCATE(weights, comm->size, "weights", err), err);
    if (status != MMUL_OK) {
        mmul_free(weights);
        return status;
    }
    for (int rank = 0; rank < comm->size; rank++)
        weights[rank] =
            p->weights[rank] * (comm->rank_node[rank] == comm->rank_node[0] ? factor : 1);
    next.weights = weights;
    memset(next.plans, 0, sizeof next.plans);
    const int other = find_fitting_plan(&next, p->options->memory_bytes, &needed, &ignored);
    *is_better = other < WAYS && next.plans[other]->seconds < (1 - gain) * p->plans[*way]->seconds;
    status = mmul_comm_broadcast(comm, is_better, sizeof *is_better, err);
    mmul_free(weights); // plans have copies
    for (int i = 0; i < WAYS; i++) {
        mmul_program_plan_destroy(*is_better ? p->plans[i] : next.plans[i]);
        p->plans[i] = *is_better ? next.plans[i] : p->plans[i];
    }
    *way = *is_better ? other : *way;
    p->is_shifted |= *is_better != 0;
    return status;
}

// Gives root's node larger and larger shares as long as the plan is predicted to get faster.
// Collective. Speeds alone do not tell when a node can begin: other nodes wait for root's data, and
// root waits for theirs.
static enum mmul_status shift_shares(struct planning *p, int *way, struct mmul_error *err) {
    static const double factors[] = {1.25, 1.6, 2, 2.5, 3.2};
    int is_better = is_worth_shifting(p->plans[*way]);
    enum mmul_status status =
        mmul_comm_broadcast(p->context->comm, &is_better, sizeof is_better, err);
    for (size_t i = 0; status == MMUL_OK && is_better && i < sizeof factors / sizeof *factors; i++)
        status = try_larger_share(p, factors[i], way, &is_better, err);
    return status;
}

// ------------------------------------------------------------------------------- sufficient memory

enum { MIB = 1 << 20 };

// Returns true if there is a plan within the limit; 0: no limit. Collective. *mib: the least needed
// if there is none; 0: not known.
static bool fits_in(struct planning *p, int64_t limit_mib, int64_t *mib) {
    struct mmul_error refused;
    int64_t needed = 0;
    const bool fits = find_fitting_plan(p, limit_mib * MIB, &needed, &refused) < WAYS;
    *mib = mmul_divide_up(needed, MIB);
    return fits;
}

// Adds a margin: memory of processes before a job varies by some pages each, and shares follow
// speeds that are measured anew.
static int64_t add_margin(const struct mmul_cluster *cluster, int64_t mib) {
    const int64_t each = MIB / 4, part = 64;
    int most = 0;
    for (int node = 0; node < cluster->node_count; node++)
        most = cluster->nodes[node].rank_count > most ? cluster->nodes[node].rank_count : most;
    return mib + mib / part + mmul_divide_up(most * each, MIB);
}

// Raises the limit to what the last plan was refused for, until there is a plan. Collective. Other
// limits change the panels of products and the places of values.
static bool raise_limit(struct planning *p, int64_t *mib) {
    enum { TRIES = 8, NEAR = 64 };
    int64_t needed;
    for (int i = 0; *mib > 0 && i < TRIES; i++) {
        if (fits_in(p, *mib, &needed))
            return true;
        *mib = needed > 0 ? mmul_max(needed, *mib + *mib / NEAR + 1) : 0;
    }
    return false;
}

// Adds a hint with the least sufficient limit and a margin, after a refusal that named the memory
// needed. Collective. No hint if even an unlimited plan fails, because more would not help.
static void hint_enough(struct planning *p, int64_t needed, struct mmul_error *err) {
    int64_t mib = mmul_divide_up(needed, MIB), ignored;
    if (!fits_in(p, 0, &ignored) || !raise_limit(p, &mib))
        return;
    mib = add_margin(p->context->cluster, mib);
    if (raise_limit(p, &mib))
        mmul_hint(err, "--memory %lldMiB is enough for them", (long long)mib);
}

static void report_planning(void *context, int64_t done, int64_t total) {
    const struct mmul_job_calls *calls = context;
    const struct mmul_progress progress = {
        .phase = "plan", .share = (double)done / (double)total, .left_seconds = -1};
    calls->progress(calls->context, &progress);
}

// Chooses the fitting plan that is predicted to be fastest. Collective.
static enum mmul_status choose_plan(struct mmul_context *context,
                                    const struct mmul_program *program, const struct facts *facts,
                                    const double *weights, struct mmul_program_plan **plan,
                                    struct mmul_error *err) {
    const bool known = mmul_cluster_has_speeds(context->cluster, types_of(program));
    struct planning p = {.context = context,
                         .program = program,
                         .weights = weights,
                         .options = &facts->options,
                         .shares = {facts->is_automatic, facts->is_automatic && known}};
    int64_t needed = 0;
    int way = find_fitting_plan(&p, facts->options.memory_bytes, &needed, err);
    enum mmul_status status = way < WAYS ? MMUL_OK : err->status;
    // Held values and sets lie as the other programs have them, so their shares are not shifted.
    if (status == MMUL_OK && p.shares.balanced && !facts->options.reproducible &&
        program->persistent_count == 0)
        status = shift_shares(&p, &way, err);
    if (status == MMUL_ERR_SYSTEM && facts->options.memory_bytes > 0)
        hint_enough(&p, needed, err);
    for (int i = 0; i < WAYS; i++)
        if (status == MMUL_OK && i == way)
            *plan = p.plans[i];
        else
            mmul_program_plan_destroy(p.plans[i]);
    // Times under shifted shares do not show the speeds of the ranks, so they must not correct the
    // weights.
    if (status == MMUL_OK)
        (*plan)->has_free_shares = facts->is_automatic && !p.is_shifted;
    return status;
}

// Sets the placements of the held values that the program reads. They may have changed since it was
// built, because root alone and all ranks may hold copies of a value.
static void find_placements(const struct mmul_context *context, struct mmul_program *program) {
    for (int i = 0; i < program->operation_count; i++) {
        struct mmul_operation *o = &program->operations[i];
        if (o->kind == MMUL_LOAD_PERSISTENT && program->kept[o->kept].held > 0)
            o->requested_placement =
                mmul_held_info(context, mmul_held_find(context, program->kept[o->kept].held)).kind;
    }
}

enum mmul_status mmul_program_prepare(struct mmul_context *context,
                                      const struct mmul_program *program,
                                      const struct mmul_job *job, struct mmul_program_plan **plan,
                                      struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    struct mmul_program *copy = NULL;
    struct mmul_program_plan *made = NULL;
    double *weights = NULL;
    uint64_t key = 0; // root only
    mmul_job_status_set_phase(context, "plan");
    struct facts facts = comm->rank == 0 ? collect_facts(context, program, job) : (struct facts){0};
    enum mmul_status status = mmul_held_drop_released(context, err);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, &facts, sizeof facts, err);
    context->cluster->nodes[context->cluster->ranks[0].node].input_bytes = facts.input_bytes;
    if (status == MMUL_OK)
        status = send_program(comm, program, &facts, &copy, err);
    if (status == MMUL_OK && comm->rank == 0 && job->calls.progress != NULL) {
        copy->planning = report_planning;
        copy->planning_context = (void *)(uintptr_t)&job->calls;
    }
    if (status == MMUL_OK && copy->persistent_count > 0)
        status = mmul_persistent_find_sets(context, copy, err);
    if (status == MMUL_OK)
        find_placements(context, copy);
    if (status == MMUL_OK && comm->rank == 0)
        key = mmul_plan_key(context, copy, job);
    if (status == MMUL_OK)
        status = mmul_plan_cache_take(context, key, copy, &made, err);
    if (status == MMUL_OK && made != NULL) {
        made->options.verify_seed = facts.options.verify_seed;
        made->calls = job->calls;
        *plan = made;
        return MMUL_OK;
    }
    mmul_segment_cache_clear(context); // other plans may use all memory
    if (context->alone != NULL)
        mmul_segment_cache_clear(context->alone);
    if (status == MMUL_OK) {
        const struct mmul_calibrate_options options = {.depth = facts.measures,
                                                       .types = types_of(copy),
                                                       .job_flops = work_of(copy).flops,
                                                       .no_fallback = facts.options.no_fallback,
                                                       .device_timeout_seconds =
                                                           facts.options.device_timeout_seconds};
        mmul_stopwatch_enter(&context->watch, &context->startup.measure_seconds);
        status = mmul_calibrate(context, &options, err);
        mmul_stopwatch_enter(&context->watch, &context->startup.plan_seconds);
    }
    if (status == MMUL_OK)
        status = share_weights(context, job, copy, &weights, err);
    if (status == MMUL_OK)
        status = choose_plan(context, copy, &facts, weights, &made, err);
    mmul_free(weights);
    if (status != MMUL_OK) {
        mmul_program_destroy(copy);
        return status;
    }
    made->owned = copy;
    copy->planning = NULL; // the callbacks belong to the caller
    made->calls = job->calls;
    mmul_plan_cache_add(context, key, made);
    *plan = made;
    return MMUL_OK;
}
