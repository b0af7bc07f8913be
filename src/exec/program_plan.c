// SPDX-License-Identifier: MIT
// Root's program to everybody; then every rank plans for itself, from the same program, cluster and
// weights.
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "exec/calibrate.h"
#include "exec/kept.h"
#include "exec/program.h"
#include "plan/program_rooms.h"

// What root knows and the others are told.
struct told {
    int value_count, operation_count, kept_count;
    enum mmul_io io;
    struct mmul_program_limits limits;
    bool keep_values, no_verify, no_fallback, records, measures, balanced;
    double device_timeout_seconds;
    uint64_t verify_seed;
};

// Operations of the program, and of those that are computed in float64.
struct work {
    double flops, in_double;
    unsigned types; // of its products: a bit per type
};

static struct work work_of(const struct mmul_program *program) {
    struct work work = {.types = 0};
    for (int i = 0; i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        struct mmul_operand_info operands[MMUL_OPERANDS];
        const struct mmul_operation_call call = mmul_program_call(program, o, operands);
        const double flops = mmul_operation_flops(o->kind, &call, mmul_program_shape(program, o));
        const bool is_double = o->operand_count > 0 && operands[0].dtype == MMUL_F64;
        work.flops += flops;
        work.in_double += is_double ? flops : 0;
        if (o->kind == MMUL_MATMUL || o->kind == MMUL_SEARCH)
            work.types |= 1U << (is_double ? MMUL_F64 : MMUL_F32);
    }
    return work;
}

// What is measured: where nothing is multiplied, float32.
static unsigned types_of(const struct mmul_program *program) {
    const unsigned types = work_of(program).types;
    return types != 0 ? types : 1U << MMUL_F32;
}

static bool is_automatic(const struct mmul_program_wishes *wishes) {
    return wishes->weights == NULL || strcmp(wishes->weights, "auto") == 0;
}

// Speeds in what most of it is computed, where all are known, else equal ones; or as given.
static enum mmul_status choose_weights(const struct mmul_context *context,
                                       const struct mmul_program *program,
                                       const struct mmul_program_wishes *wishes, double *weights,
                                       struct mmul_error *err) {
    const struct mmul_cluster *cluster = context->cluster;
    const struct work work = work_of(program);
    const bool mostly_double = work.in_double > work.flops / 2,
               has_single = mmul_cluster_has_speeds(cluster, 1U << MMUL_F32),
               has_double = mmul_cluster_has_speeds(cluster, 1U << MMUL_F64);
    const enum mmul_dtype dtype =
        has_double && (mostly_double || !has_single) ? MMUL_F64 : MMUL_F32;
    bool known = is_automatic(wishes) && (has_single || has_double);
    double *given = NULL;
    int count = cluster->size;
    for (int rank = 0; rank < cluster->size; rank++)
        weights[rank] = known ? mmul_rank_flops(&cluster->ranks[rank], dtype) : 1;
    if (is_automatic(wishes) || strcmp(wishes->weights, "equal") == 0)
        return MMUL_OK;
    enum mmul_status status = mmul_weights_parse(wishes->weights, &given, &count, err);
    if (status == MMUL_OK && count != cluster->size)
        status = mmul_fail(err, MMUL_ERR_USAGE, "weights '%s' have %d number%s for %d rank%s",
                           wishes->weights, count, count == 1 ? "" : "s", cluster->size,
                           cluster->size == 1 ? "" : "s");
    if (status == MMUL_OK)
        memcpy(weights, given, (size_t)count * sizeof *weights);
    mmul_free(given);
    return status;
}

// A copy of root's program on every rank, with its types, folded; files stay root's.
static enum mmul_status send_program(const struct mmul_comm *comm,
                                     const struct mmul_program *program, const struct told *told,
                                     struct mmul_program **copy, struct mmul_error *err) {
    struct mmul_program *made = NULL;
    size_t value_bytes = (size_t)told->value_count * sizeof *made->values;
    size_t operation_bytes = (size_t)told->operation_count * sizeof *made->operations;
    size_t kept_bytes = (size_t)told->kept_count * sizeof *made->kept;
    enum mmul_status status = mmul_program_create(&made, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made->values, told->value_count, "a program", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made->operations, told->operation_count, "a program", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made->kept, told->kept_count, "a program", err);
    if (status == MMUL_OK && comm->rank == 0 && told->kept_count > 0)
        memcpy(made->kept, program->kept, kept_bytes);
    if (status == MMUL_OK && comm->rank == 0 && told->operation_count > 0) {
        memcpy(made->operations, program->operations, operation_bytes);
        if (told->value_count > 0)
            memcpy(made->values, program->values, value_bytes);
    }
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, made->values, (int64_t)value_bytes, err);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, made->operations, (int64_t)operation_bytes, err);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, made->kept, (int64_t)kept_bytes, err);
    if (status != MMUL_OK) {
        mmul_program_destroy(made);
        return status;
    }
    made->value_count = told->value_count;
    made->kept_count = told->kept_count;
    made->operation_count = made->capacity = told->operation_count;
    for (int i = 0; comm->rank != 0 && i < made->operation_count; i++) {
        made->operations[i].matrix = NULL;
        made->operations[i].output = NULL;
    }
    status = mmul_program_types(made, err);
    if (status == MMUL_OK && !told->keep_values)
        status = mmul_program_search(made, err);
    if (status == MMUL_OK)
        status = mmul_program_fold(made, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        *copy = made;
    else
        mmul_program_destroy(made);
    return status;
}

static struct told tell(const struct mmul_program *program,
                        const struct mmul_program_wishes *wishes) {
    static const double enough_flops = 2e9; // what is over in no time is not measured
    return (struct told){.value_count = program->value_count,
                         .operation_count = program->operation_count,
                         .kept_count = program->kept_count,
                         .io = wishes->io,
                         .limits = wishes->limits,
                         .keep_values = wishes->keep_values,
                         .balanced = is_automatic(wishes),
                         .no_verify = wishes->no_verify,
                         .no_fallback = wishes->no_fallback,
                         .records = wishes->records,
                         .device_timeout_seconds = wishes->device_timeout_seconds,
                         .measures = is_automatic(wishes) && !wishes->reproducible &&
                                     work_of(program).flops >= enough_flops,
                         .verify_seed =
                             wishes->verify_seed != 0 ? wishes->verify_seed : mmul_random_seed()};
}

static void obey(struct mmul_program_plan *plan, const struct mmul_cluster *cluster,
                 const struct told *told) {
    plan->io = told->io;
    mmul_program_rooms_limit(plan, cluster, told->limits);
    plan->no_verify = told->no_verify;
    plan->no_fallback = told->no_fallback;
    plan->records = told->records;
    plan->device_timeout_seconds = told->device_timeout_seconds;
    plan->verify_seed = told->verify_seed;
}

// Root's to all; where nobody has given any, those of what was kept.
static enum mmul_status share_weights(const struct mmul_context *context,
                                      const struct mmul_program_wishes *wishes,
                                      const struct mmul_program *program, double **weights,
                                      struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    enum mmul_status status = MMUL_ALLOCATE(*weights, comm->size, "weights", err);
    if (status == MMUL_OK && comm->rank == 0) {
        status = choose_weights(context, program, wishes, *weights, err);
        if (status == MMUL_OK)
            status = is_automatic(wishes)
                         ? mmul_kept_weights(program, comm->size, *weights, err)
                         : mmul_kept_check_weights(program, comm->size, *weights, err);
    }
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, *weights, comm->size * (int64_t)sizeof **weights, err);
    return status;
}

// ------------------------------------------------------------------------------------------- plans

// What plans are made from.
struct sources {
    struct mmul_context *context;
    const struct mmul_program *program;
    const double *weights;
    bool balanced;
};

// Pure. how: of enum mmul_program_how.
static enum mmul_status make_plan(const struct sources *from, const struct told *told, unsigned how,
                                  struct mmul_program_plan **plan, struct mmul_error *err) {
    const struct mmul_cluster *cluster = from->context->cluster;
    enum mmul_status status =
        mmul_program_plan_make(from->program, cluster, from->weights, how, plan, err);
    if (status != MMUL_OK)
        return status;
    obey(*plan, cluster, told);
    (void)mmul_program_fit_rooms(*plan, cluster);
    return mmul_program_check_memory(*plan, cluster, err);
}

// Collective. A plan that does not fit is made again, with products that bring their files in pieces.
static enum mmul_status make_fitting_plan(const struct sources *from, const struct told *told,
                                          struct mmul_program_plan **plan, struct mmul_error *err) {
    unsigned how = told->keep_values ? MMUL_PROGRAM_KEEPS_VALUES : 0;
    enum mmul_status status = MMUL_ERR_SYSTEM;
    for (int tries = 0; status == MMUL_ERR_SYSTEM && tries < 2; tries++) {
        struct mmul_program_plan *made = NULL;
        status = mmul_comm_agree(from->context->comm, make_plan(from, told, how, &made, err), err);
        if (status == MMUL_OK)
            status = mmul_program_plan_products(from->context, made, from->balanced, err);
        if (status == MMUL_OK)
            *plan = made;
        else
            mmul_program_plan_destroy(made);
        how |= MMUL_PROGRAM_STREAMS;
    }
    return status;
}

// ------------------------------------------------------------------------------- what would be enough

enum { MIB = 1 << 20 };

// On the node that has most of it; what its processes have is among it.
static int64_t mib_of(const struct mmul_program_plan *plan, const struct mmul_cluster *cluster) {
    int64_t most = 0;
    for (int node = 0; node < cluster->node_count; node++)
        most = mmul_larger(most, plan->node_bytes[node] + plan->shard_bytes[node] +
                                     mmul_program_node_rooms(plan, node) -
                                     mmul_plan_memory_left(cluster, node, 0));
    return mmul_divide_up(most, MIB);
}

// Collective. Is there a plan with such a limit? 0: without one; *mib: what it takes.
static bool fits_in(const struct sources *from, struct told told, int64_t limit_mib, int64_t *mib) {
    struct mmul_program_plan *plan = NULL;
    struct mmul_error refused;
    told.limits.memory_bytes = limit_mib * MIB;
    if (make_fitting_plan(from, &told, &plan, &refused) != MMUL_OK)
        return false;
    *mib = mib_of(plan, from->context->cluster);
    mmul_program_plan_destroy(plan);
    return true;
}

// What processes have before a job is not the same each time, by some pages of each; and shares follow speeds that are
// measured again.
static int64_t add_margin(const struct mmul_cluster *cluster, int64_t mib) {
    const int64_t each = MIB / 4, part = 64;
    int most = 0;
    for (int node = 0; node < cluster->node_count; node++)
        most = cluster->nodes[node].rank_count > most ? cluster->nodes[node].rank_count : most;
    return mib + mib / part + mmul_divide_up(most * each, MIB);
}

enum { NEAR = 32 }; // the part to which the least is looked for

// Collective. From a limit up to one that has a plan; *low: the last one that has none, if any was tried.
static bool raise_limit(const struct sources *from, const struct told *told, int64_t *low,
                        int64_t *mib) {
    enum { TRIES = 24 }; // more than twice as much
    int64_t taken;
    for (int i = 0; i < TRIES; i++) {
        if (fits_in(from, *told, *mib, &taken))
            return true;
        *low = *mib;
        *mib += *mib / NEAR + 1;
    }
    return false;
}

// Collective, after a refusal: by plans with other limits, of which some are refused as well, the least that is not is
// found to a thirtieth, and the hint says it. With a limit a plan may take more than without one: products then have
// other panels. No hint where more would not help: not without any limit.
static void hint_enough(const struct sources *from, const struct told *told,
                        struct mmul_error *err) {
    int64_t low = told->limits.memory_bytes / MIB, high, taken;
    if (!fits_in(from, *told, 0, &high) || !raise_limit(from, told, &low, &high))
        return;
    while (high - low > mmul_larger(1, high / NEAR)) {
        const int64_t middle = low + (high - low) / 2;
        *(fits_in(from, *told, middle, &taken) ? &high : &low) = middle;
    }
    high = add_margin(from->context->cluster, high);
    if (raise_limit(from, told, &low, &high))
        mmul_hint(err, "--memory %lldMiB has room for them", (long long)high);
}

enum mmul_status mmul_program_prepare(struct mmul_context *context,
                                      const struct mmul_program *program,
                                      const struct mmul_program_wishes *wishes,
                                      struct mmul_program_plan **plan, struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    struct told told = {0};
    struct mmul_program *copy = NULL;
    struct mmul_program_plan *made = NULL;
    double *weights = NULL;
    if (comm->rank == 0)
        told = tell(program, wishes);
    enum mmul_status status = mmul_comm_broadcast(comm, &told, sizeof told, err);
    if (status == MMUL_OK)
        status = send_program(comm, program, &told, &copy, err);
    if (status == MMUL_OK && told.kept_count > 0)
        status = mmul_kept_find(context, copy, err);
    if (status == MMUL_OK) {
        const struct mmul_calibrate_options options = {
            .depth = told.measures ? MMUL_CALIBRATE_BRIEF : MMUL_CALIBRATE_STORED,
            .types = types_of(copy),
            .job_flops = work_of(copy).flops,
            .no_fallback = told.no_fallback,
            .device_timeout_seconds = told.device_timeout_seconds};
        status = mmul_calibrate(context, &options, err);
    }
    if (status == MMUL_OK)
        status = share_weights(context, wishes, copy, &weights, err);
    if (status == MMUL_OK) {
        const struct sources from = {context, copy, weights,
                                     told.balanced &&
                                         mmul_cluster_has_speeds(context->cluster, types_of(copy))};
        status = make_fitting_plan(&from, &told, &made, err);
        if (status == MMUL_ERR_SYSTEM && told.limits.memory_bytes > 0)
            hint_enough(&from, &told, err);
    }
    mmul_free(weights);
    if (status != MMUL_OK) {
        mmul_program_destroy(copy);
        return status;
    }
    made->owned = copy;
    if (comm->rank == 0) {
        made->notice = wishes->notice;
        made->notice_context = wishes->notice_context;
        made->progress = wishes->progress;
        made->accept = wishes->accept;
        made->accept_context = wishes->accept_context;
    }
    *plan = made;
    return MMUL_OK;
}
