// SPDX-License-Identifier: MIT
// Schedules of a program's products. Root makes them from what every node sees of the files, and
// sends them to all. A matrix that is a value by then counts as mapped on every node. Equal
// products of values, such as those of loop iterations, share one schedule. At first each product
// may use all memory beside the values. If all of them together with the shared buffers need more
// than there is, each gets its least and a share of the rest.
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/job/program.h"
#include "exec/memory/mappings.h"
#include "exec/steps/product.h"
#include "model/matrix.h"
#include "plan/lists/tasks.h"
#include "plan/product/schedule_make.h"
#include "plan/program/program_memory.h"
#include "plan/program/program_predict.h"

// A product with a schedule of its own, and input of that schedule.
struct product {
    struct mmul_program_step *step;
    struct mmul_problem problem; // root
    // Matrices that every node can use in place, and those of them that are values.
    unsigned *node_maps, value_maps;
    int64_t least_bytes; // root: least memory of a node beside the values; 0: not known
};

struct planning {
    struct mmul_context *context;
    struct mmul_program_plan *plan;
    struct mmul_free_shares shares;
    struct product *products; // owned
    unsigned *maps;           // owned: the maps of all products
    int count;
    int64_t *taken_bytes; // owned: memory of each node used by values
    int64_t *most_bytes;  // owned: memory of each node for the current product
    int64_t *extra_bytes; // owned: memory of each node for each product, beyond its least
};

// Returns the type of both operands and the result.
static enum mmul_dtype dtype_of(const struct mmul_program_plan *plan,
                                const struct mmul_program_step *step) {
    return plan->program->values[mmul_step_operation(plan, step)->result].dtype;
}

// Returns the offsets of the operand that is not split, if it comes in parts; else NULL.
static const int64_t *whole_offsets(const struct mmul_program_plan *plan,
                                    const struct mmul_program_step *step) {
    const int whole = step->operands[step->axis == MMUL_ROWS ? 1 : 0];
    return step->relays_whole ? plan->places[whole].placement.row_offsets : NULL;
}

static struct mmul_problem_operand operand_of(const struct mmul_program_plan *plan,
                                              const struct mmul_program_step *step, int index) {
    const int place = step->operands[index];
    const struct mmul_value *value = mmul_place_value(plan, place);
    struct mmul_problem_operand operand = {
        .shape = value->shape, .dtype = dtype_of(plan, step), .name = value->name};
    if (mmul_place_is_file(plan, place) && operand.dtype == MMUL_F32)
        operand.dtype =
            mmul_matrix_info(plan->program->operations[plan->places[place].operation].matrix)
                .delivered;
    return operand;
}

// Finds the matrices that each node can use in place: files that it sees, and all values.
// Collective.
static enum mmul_status find_maps(const struct planning *p, struct product *product,
                                  struct mmul_error *err) {
    const struct mmul_program_step *step = product->step;
    const struct mmul_product_files files = mmul_program_step_files(p->plan, step);
    bool a = mmul_place_is_file(p->plan, step->operands[0]),
         b = mmul_place_is_file(p->plan, step->operands[1]);
    bool c = mmul_place_is_file(p->plan, step->result);
    unsigned values = (a ? 0 : MMUL_MAPS_A) | (b ? 0 : MMUL_MAPS_B) | (c ? 0 : MMUL_MAPS_C);
    values &= step->relays_whole ? ~mmul_maps_whole_operand(step->axis) : values;
    product->value_maps = values;
    enum mmul_status status = MMUL_OK;
    if (a || b || c)
        status =
            mmul_mappings_find(p->context, &files, p->plan->options.io, product->node_maps, err);
    for (int node = 0; node < p->context->comm->node_count; node++)
        product->node_maps[node] |= values;
    return status;
}

// Sets the memory of each node that values use. Shards count if the user has set a limit. The run's
// buffers are not counted yet: the products share some of them, and the check has one for all, so
// they are known only once the plans exist.
static void find_taken(const struct planning *p) {
    for (int node = 0; node < p->context->cluster->node_count; node++)
        p->taken_bytes[node] = p->plan->node_bytes[node] +
                               (p->plan->options.memory_bytes > 0 ? p->plan->shard_bytes[node] : 0);
}

static bool lies_as(const struct mmul_program_plan *plan, int place,
                    enum mmul_placement_kind kind) {
    return place >= 0 && plan->places[place].placement.kind == kind;
}

// Returns true if other nodes may compute rows of a late rank and the product is long enough to
// ask. Rows of A and C move; B is on every node.
static bool may_steal_across_nodes(const struct planning *p, const struct mmul_program_step *step) {
    static const double enough_seconds = 0.05;
    const struct mmul_program_plan *plan = p->plan;
    const struct mmul_cluster *cluster = p->context->cluster;
    const double flops = mmul_program_flops(plan->program, mmul_step_operation(plan, step));
    double speed = 0;
    for (int rank = 0; rank < cluster->size; rank++)
        speed += mmul_rank_flops(&cluster->ranks[rank], dtype_of(plan, step));
    return cluster->node_count > 1 && step->axis == MMUL_ROWS && !step->relays_whole &&
           step->operands[MMUL_FACTORS] < 0 && lies_as(plan, step->operands[0], MMUL_PLACE_ROWS) &&
           lies_as(plan, step->operands[1], MMUL_PLACE_REPLICATE) &&
           lies_as(plan, step->made, MMUL_PLACE_ROWS) &&
           mmul_shape_matrices(mmul_place_value(plan, step->made)->shape) == 1 &&
           (plan->options.tail == MMUL_TAIL_SHARE || flops >= enough_seconds * speed);
}

// Describes the product. Root.
static enum mmul_status describe_problem(const struct mmul_program_plan *plan,
                                         struct product *product, struct mmul_error *err) {
    const struct mmul_program_step *step = product->step;
    const struct mmul_scale scale = mmul_step_operation(plan, step)->scale;
    const bool adds = step->operands[MMUL_FACTORS] >= 0;
    struct mmul_problem_operand c_in = {0};
    if (adds)
        c_in = operand_of(plan, step, MMUL_FACTORS);
    const struct mmul_problem_request what = {.a = operand_of(plan, step, 0),
                                              .b = operand_of(plan, step, 1),
                                              .c_in = adds ? &c_in : NULL,
                                              .transpose_a = step->transposed_factors[0],
                                              .transpose_b = step->transposed_factors[1],
                                              .alpha = scale.is_given ? scale.alpha : 1,
                                              .beta = scale.beta};
    return mmul_problem_init(&what, &product->problem, err);
}

// Returns the input of a product's schedule. Root. most_bytes: memory of every node for it; NULL:
// all beside the values.
static struct mmul_schedule_request make_request(const struct planning *p,
                                                 const struct product *product,
                                                 const int64_t *most_bytes) {
    const struct mmul_program_step *step = product->step;
    const struct mmul_program_plan *plan = p->plan;
    const struct mmul_job_options *options = &plan->options;
    // Without a value on the ranks all of the product comes from files, so it may be split either
    // way.
    const bool is_free = step->offsets == NULL;
    const bool is_whole_free =
        is_free && mmul_place_is_file(plan, step->operands[step->axis == MMUL_ROWS ? 1 : 0]);
    const enum mmul_split_choice split =
        step->axis == MMUL_ROWS ? MMUL_SPLIT_ROWS : MMUL_SPLIT_COLS;
    const bool is_tailed = is_free ? p->shares.is_automatic : p->shares.balanced;
    return (struct mmul_schedule_request){
        .problem = &product->problem,
        .cluster = p->context->cluster,
        .weights = !is_free             ? plan->costs.shares
                   : p->shares.balanced ? NULL
                                        : plan->weights,
        .node_maps = product->node_maps,
        .value_maps = product->value_maps,
        .offsets = step->offsets,
        .taken_bytes = p->taken_bytes,
        .memory_limit_bytes = options->memory_bytes,
        .device_memory_limit_bytes = options->device_memory_bytes,
        .whole_offsets = whole_offsets(plan, step),
        .split = is_whole_free ? options->split : split,
        .rule = is_free ? options->split_rule : MMUL_SPLIT_EXACT,
        .panels = true,
        .journal_seconds = options->journal_seconds,
        .tail = options->tail == MMUL_TAIL_AUTO && !is_tailed ? MMUL_TAIL_OFF : options->tail,
        .tail_share = options->tail_share,
        .may_steal_across_nodes = may_steal_across_nodes(p, step),
        .most_bytes = most_bytes};
}

// Makes the schedule of one product and replaces the previous one. Root.
static enum mmul_status make_schedule(const struct planning *p, const struct product *product,
                                      const int64_t *most_bytes, struct mmul_error *err) {
    struct mmul_schedule *made = NULL;
    const struct mmul_schedule_request request = make_request(p, product, most_bytes);
    enum mmul_status status = mmul_schedule_make(&request, &made, err);
    if (status != MMUL_OK)
        return status;
    mmul_schedule_free(product->step->schedule);
    product->step->schedule = made;
    return MMUL_OK;
}

// ---------------------------------------------------------------------------------- equal products

enum { DIFFERENT_MOST = 64 };

// The latest products that have schedules and no files.
struct different {
    const struct mmul_program_step *steps[DIFFERENT_MOST];
    int count;
};

// Returns true if both products give make_schedule the same input. Neither has files. Equal offsets
// are the same array.
static bool is_equal(const struct mmul_program_plan *plan, const struct mmul_program_step *x,
                     const struct mmul_program_step *y) {
    for (int i = 0; i < MMUL_FACTORS; i++) {
        const struct mmul_value *of_x = mmul_place_value(plan, x->operands[i]),
                                *of_y = mmul_place_value(plan, y->operands[i]);
        if (!mmul_shape_equal(of_x->shape, of_y->shape) || of_x->dtype != of_y->dtype ||
            x->transposed_factors[i] != y->transposed_factors[i])
            return false;
    }
    return x->axis == y->axis && x->relays_whole == y->relays_whole && x->offsets == y->offsets &&
           whole_offsets(plan, x) == whole_offsets(plan, y);
}

// Returns an earlier step with the same schedule. If there is none, remembers this step and returns
// NULL. The same on all ranks.
static const struct mmul_program_step *find_equal(struct different *known,
                                                  const struct mmul_program_plan *plan,
                                                  const struct mmul_program_step *step) {
    if (mmul_place_is_file(plan, step->operands[0]) ||
        mmul_place_is_file(plan, step->operands[1]) || mmul_place_is_file(plan, step->result))
        return NULL;
    for (int i = 0; i < DIFFERENT_MOST && i < known->count; i++)
        if (is_equal(plan, known->steps[i], step))
            return known->steps[i];
    known->steps[known->count++ % DIFFERENT_MOST] = step;
    return NULL;
}

// ------------------------------------------------------------------------------------------- plans

// Finds the products that need a schedule. Collective.
static enum mmul_status find_products(struct planning *p, struct mmul_error *err) {
    const int nodes = p->context->comm->node_count;
    struct different known = {.count = 0};
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < p->plan->product_count; i++) {
        struct mmul_program_step *step = &p->plan->steps[p->plan->products[i]];
        step->same = find_equal(&known, p->plan, step);
        if (step->same != NULL)
            continue;
        struct product *product = &p->products[p->count];
        *product = (struct product){.step = step, .node_maps = p->maps + (int64_t)p->count * nodes};
        p->count++;
        status = find_maps(p, product, err);
        if (status == MMUL_OK && p->context->comm->rank == 0)
            status = describe_problem(p->plan, product, err);
        status = mmul_comm_agree(p->context->comm, status, err);
    }
    return status;
}

// Gives every product its schedule: its own, or that of an equal product.
static void share_schedules(const struct mmul_program_plan *plan) {
    for (int i = 0; i < plan->product_count; i++) {
        struct mmul_program_step *step = &plan->steps[plan->products[i]];
        step->schedule = (step->same != NULL ? step->same : step)->schedule;
        step->kind = MMUL_STEP_PRODUCT;
    }
}

// Makes all nodes that have work in any product members of scatter and gather. Root.
static void join_members(const struct planning *p) {
    for (int node = 0; node < p->plan->costs.node_count; node++) {
        bool participates = false;
        for (int i = 0; i < p->count; i++)
            participates |= mmul_schedule_nodes(p->products[i].step->schedule)[node].participates;
        for (int i = 0; i < p->count; i++)
            mmul_schedule_set_participation(p->products[i].step->schedule, node, participates);
    }
}

// Returns the share of a product without a schedule that other ranks of the node may claim. Only
// rows can be claimed, and only if the product is long enough to check the others' progress.
static double find_claim_share(const struct planning *p, const struct mmul_program_step *step) {
    static const double enough_flops = 1e9;
    const struct mmul_job_options *options = &p->plan->options;
    const struct mmul_program *program = p->plan->program;
    const struct mmul_operation *o = &program->operations[step->operation];
    if (step->kind != MMUL_STEP_COMPUTE || o->kind != MMUL_MATMUL ||
        p->plan->places[step->made].placement.kind != MMUL_PLACE_ROWS)
        return 0;
    if (options->tail == MMUL_TAIL_SHARE)
        return options->tail_share;
    const bool is_worth_it = p->shares.balanced && mmul_program_flops(program, o) >= enough_flops;
    return options->tail == MMUL_TAIL_AUTO && is_worth_it ? MMUL_CLAIM_SHARE : 0;
}

// --------------------------------------------------------------------- fitting all products (root)

enum memory { ALL, LEAST, LEAST_AND_EXTRA };

static const int64_t *memory_limits_of(const struct planning *p, const struct product *product,
                                       enum memory memory) {
    for (int node = 0; memory != ALL && node < p->plan->costs.node_count; node++)
        p->most_bytes[node] =
            product->least_bytes + (memory == LEAST_AND_EXTRA ? p->extra_bytes[node] : 0);
    return memory == ALL ? NULL : p->most_bytes;
}

// Makes the schedules of all products and checks that they fit beside the run's buffers. Products
// share some of these, such as the check's vectors. Others they do not share: of two consecutive
// products each has lanes.
static enum mmul_status try_schedules(const struct planning *p, enum memory memory, bool *fit,
                                      struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < p->count; i++)
        status =
            make_schedule(p, &p->products[i], memory_limits_of(p, &p->products[i], memory), err);
    if (status != MMUL_OK)
        return status;
    share_schedules(p->plan);
    join_members(p);
    *fit = mmul_program_fit_footprint(p->plan, p->context->cluster);
    return MMUL_OK;
}

// Finds the least memory of a product. Starts from the estimate of the cuts and raises it until
// there is a schedule.
static enum mmul_status find_least(const struct planning *p, struct product *product,
                                   struct mmul_error *err) {
    enum { TRIES = 32, STEP = 64 };
    const struct mmul_schedule_request request = make_request(p, product, NULL);
    enum mmul_status status = mmul_schedule_least_memory(&request, &product->least_bytes, err);
    if (status != MMUL_OK)
        return status;
    for (int i = 0; i < TRIES; i++) {
        status = make_schedule(p, product, memory_limits_of(p, product, LEAST), err);
        if (status == MMUL_OK)
            break;
        product->least_bytes += product->least_bytes / STEP + 1;
    }
    return status;
}

// Sets the extra memory of each node: what is left when all products have their least, divided
// between the two products that have lanes at a time.
static void find_extra(const struct planning *p) {
    const struct mmul_cluster *cluster = p->context->cluster;
    for (int node = 0; node < cluster->node_count; node++)
        p->extra_bytes[node] =
            mmul_program_memory_left(p->plan, cluster, node) / (p->plan->product_count > 1 ? 2 : 1);
}

// Makes the schedules within the memory there is. On a refusal plan->needed_bytes is set to the
// least that would do.
static enum mmul_status make_schedules(const struct planning *p, struct mmul_error *err) {
    bool fit = false;
    struct mmul_error ignored = {.status = MMUL_OK};
    enum mmul_status status, refused = try_schedules(p, ALL, &fit, err);
    if (fit || (refused != MMUL_OK && refused != MMUL_ERR_SYSTEM))
        return refused;
    struct mmul_error *later = refused == MMUL_OK ? err : &ignored; // the first error stands
    for (int i = 0; i < p->count; i++)
        if (find_least(p, &p->products[i], later) != MMUL_OK)
            return refused == MMUL_OK ? later->status : refused;
    status = try_schedules(p, LEAST, &fit, later);
    if (status != MMUL_OK)
        return refused == MMUL_OK ? status : refused;
    if (!fit) {
        p->plan->needed_bytes = mmul_program_needed_limit(p->plan, p->context->cluster);
        return refused;
    }
    find_extra(p);
    if (try_schedules(p, LEAST_AND_EXTRA, &fit, &ignored) == MMUL_OK && fit)
        return MMUL_OK;
    return try_schedules(p, LEAST, &fit, err);
}

// -------------------------------------------------------------------------- schedules on all ranks

// Sends a schedule from root to all other ranks, which have none yet.
static enum mmul_status send_schedule(const struct mmul_comm *comm, struct mmul_schedule **schedule,
                                      struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (comm->rank != 0)
        status = mmul_schedule_create(comm->size, comm->node_count, schedule, err);
    status = mmul_comm_agree(comm, status, err);
    return status == MMUL_OK ? mmul_comm_broadcast(comm, *schedule, (*schedule)->bytes, err)
                             : status;
}

enum mmul_status mmul_program_plan_products(struct mmul_context *context,
                                            struct mmul_program_plan *plan,
                                            struct mmul_free_shares shares,
                                            struct mmul_error *err) {
    struct planning p = {.context = context, .plan = plan, .shares = shares};
    const struct mmul_comm *comm = context->comm;
    const int64_t nodes = comm->node_count;
    struct mmul_error ignored;
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "products", err, MMUL_ARRAY(p.taken_bytes, nodes), MMUL_ARRAY(p.most_bytes, nodes),
        MMUL_ARRAY(p.extra_bytes, nodes), MMUL_ARRAY(p.products, plan->product_count),
        MMUL_ARRAY(p.maps, plan->product_count * nodes));
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = find_products(&p, err);
    if (status == MMUL_OK && comm->rank == 0) {
        find_taken(&p);
        status = make_schedules(&p, err);
    }
    status = mmul_comm_agree(comm, status, err);
    for (int i = 0; status == MMUL_OK && i < p.count; i++)
        status = send_schedule(comm, &p.products[i].step->schedule, err);
    if (status == MMUL_OK)
        share_schedules(plan);
    if (status == MMUL_OK || status == MMUL_ERR_SYSTEM)
        (void)mmul_comm_broadcast(comm, &plan->needed_bytes, sizeof plan->needed_bytes, &ignored);
    if (status == MMUL_OK) {
        (void)mmul_program_fit_footprint(plan, context->cluster); // identical result on all ranks
        status = mmul_comm_agree(comm, mmul_program_check_memory(plan, context->cluster, err), err);
    }
    MMUL_FREE_ALL(p.taken_bytes, p.most_bytes, p.extra_bytes, p.products, p.maps);
    for (int i = 0; status == MMUL_OK && i < plan->step_count; i++)
        plan->steps[i].claim_share = find_claim_share(&p, &plan->steps[i]);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, mmul_program_predict(plan, context->cluster, err), err);
    return status;
}
