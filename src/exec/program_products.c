// SPDX-License-Identifier: MIT
// Plans of a program's products: root makes them, from what every node sees of the files, and sends
// them. A matrix that is a value by then is like one that every node has mapped. Equal products of values, such as
// those of the turns of a loop, have one plan.
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/matmul.h"
#include "exec/program.h"
#include "exec/views.h"
#include "model/matrix.h"

// A product of the program, and what goes into its plan.
struct planning {
    struct mmul_context *context;
    struct mmul_program_plan *plan;
    struct mmul_program_step *step;
    bool balanced;
    unsigned *node_maps, value_maps; // of the step at hand
    int64_t *taken_bytes;            // of a node, by what is not the product's
};

static bool is_file(const struct planning *p, int place) {
    return p->plan->places[place].placement.kind == MMUL_PLACE_FILE;
}

static const struct mmul_operation *file_of(const struct planning *p, int place) {
    return &p->plan->program->operations[p->plan->places[place].operation];
}

// Of both operands and the result.
static enum mmul_dtype dtype_of(const struct planning *p) {
    const struct mmul_program *program = p->plan->program;
    return program->values[program->operations[p->step->operation].result].dtype;
}

// Root has the files; which of them are files, everybody knows.
static void borrow_files(const struct planning *p) {
    struct mmul_program_step *step = p->step;
    struct mmul_matmul *files = &step->files;
    *files = (struct mmul_matmul){.alpha = 1,
                                  .compute =
                                      dtype_of(p) == MMUL_F64 ? MMUL_COMPUTE_F64 : MMUL_COMPUTE_F32,
                                  .no_verify = p->plan->no_verify};
    if (is_file(p, step->operands[0]))
        files->a = file_of(p, step->operands[0])->matrix;
    if (is_file(p, step->operands[1]))
        files->b = file_of(p, step->operands[1])->matrix;
    if (is_file(p, step->result))
        files->output = file_of(p, step->result)->output;
}

static struct mmul_problem_operand operand_of(const struct planning *p, int index) {
    int place = p->step->operands[index];
    const struct mmul_value *value = &p->plan->program->values[p->plan->places[place].value];
    struct mmul_problem_operand operand = {
        .shape = value->shape, .dtype = dtype_of(p), .name = value->name};
    if (is_file(p, place) && dtype_of(p) == MMUL_F32)
        operand.dtype = mmul_matrix_info(file_of(p, place)->matrix).delivered;
    return operand;
}

// What every node can use where it lies: of files what it sees, of values all.
static enum mmul_status find_maps(struct planning *p, struct mmul_error *err) {
    const struct mmul_program_step *step = p->step;
    bool a = is_file(p, step->operands[0]), b = is_file(p, step->operands[1]);
    bool c = is_file(p, step->result);
    unsigned values = (a ? 0 : MMUL_MAPS_A) | (b ? 0 : MMUL_MAPS_B) | (c ? 0 : MMUL_MAPS_C);
    values &= step->spreads ? ~mmul_maps_whole(step->axis) : values;
    p->value_maps = values;
    enum mmul_status status = MMUL_OK;
    for (int node = 0; node < p->context->comm->node_count; node++)
        p->node_maps[node] = 0;
    if (a || b || c)
        status = mmul_views_find(p->context, &step->files, p->plan->io, p->node_maps, err);
    for (int node = 0; node < p->context->comm->node_count; node++)
        p->node_maps[node] |= values;
    return status;
}

// Root.
static enum mmul_status make_plan(const struct planning *p, struct mmul_error *err) {
    struct mmul_program_step *step = p->step;
    struct mmul_problem problem;
    const struct mmul_problem_request what = {.a = operand_of(p, 0),
                                              .b = operand_of(p, 1),
                                              .transpose_a = step->turned[0],
                                              .transpose_b = step->turned[1],
                                              .alpha = 1};
    enum mmul_status status = mmul_problem_make(&what, &problem, err);
    const struct mmul_program_place *whole =
        &p->plan->places[step->operands[step->axis == MMUL_ROWS ? 1 : 0]];
    bool is_free = step->offsets == NULL && p->balanced;
    const struct mmul_plan_request request = {
        .problem = &problem,
        .cluster = p->context->cluster,
        .weights = is_free ? NULL : p->plan->costs.shares,
        .node_maps = p->node_maps,
        .value_maps = p->value_maps,
        .offsets = step->offsets,
        .taken_bytes = p->taken_bytes,
        .memory_limit_bytes = p->plan->limits.memory_bytes,
        .device_memory_limit_bytes = p->plan->limits.device_memory_bytes,
        .whole_offsets = step->spreads ? whole->placement.row_offsets : NULL,
        .split = step->axis == MMUL_ROWS ? MMUL_SPLIT_ROWS : MMUL_SPLIT_COLS,
        .rule = MMUL_SPLIT_EXACT,
        .panels = true,
        .tail = p->plan->limits.tail == MMUL_TAIL_AUTO && !p->balanced ? MMUL_TAIL_OFF
                                                                       : p->plan->limits.tail,
        .tail_share = p->plan->limits.tail_share};
    if (status == MMUL_OK)
        status = mmul_plan_make(&request, &step->product, err);
    if (status == MMUL_OK)
        step->product->verify_seed = p->plan->verify_seed;
    return status;
}

// ---------------------------------------------------------------------------------- equal products

enum { DIFFERENT_MOST = 64 };

// The latest products that have plans of their own and no files.
struct different {
    const struct mmul_program_step *steps[DIFFERENT_MOST];
    int count;
};

static bool has_file(const struct mmul_program_plan *plan, const struct mmul_program_step *step) {
    const int places[] = {step->operands[0], step->operands[1], step->result};
    for (int i = 0; i < 3; i++)
        if (plan->places[places[i]].placement.kind == MMUL_PLACE_FILE)
            return true;
    return false;
}

static const int64_t *whole_offsets(const struct mmul_program_plan *plan,
                                    const struct mmul_program_step *step) {
    const int whole = step->operands[step->axis == MMUL_ROWS ? 1 : 0];
    return step->spreads ? plan->places[whole].placement.row_offsets : NULL;
}

// Nothing that make_plan asks for differs; neither has files. Offsets of equal parts are the same array.
static bool is_equal(const struct mmul_program_plan *plan, const struct mmul_program_step *x,
                     const struct mmul_program_step *y) {
    const struct mmul_value *values = plan->program->values;
    for (int i = 0; i < MMUL_FACTORS; i++) {
        const struct mmul_value *of_x = &values[plan->places[x->operands[i]].value],
                                *of_y = &values[plan->places[y->operands[i]].value];
        if (!mmul_shape_equal(of_x->shape, of_y->shape) || of_x->dtype != of_y->dtype ||
            x->turned[i] != y->turned[i])
            return false;
    }
    return x->axis == y->axis && x->spreads == y->spreads && x->offsets == y->offsets &&
           whole_offsets(plan, x) == whole_offsets(plan, y);
}

// A step with the same plan, or NULL, and then it is one of the different ones from now on. The same on all ranks.
static const struct mmul_program_step *find_equal(struct different *known,
                                                  const struct mmul_program_plan *plan,
                                                  const struct mmul_program_step *step) {
    if (has_file(plan, step))
        return NULL;
    for (int i = 0; i < DIFFERENT_MOST && i < known->count; i++)
        if (is_equal(plan, known->steps[i], step))
            return known->steps[i];
    known->steps[known->count++ % DIFFERENT_MOST] = step;
    return NULL;
}

// ------------------------------------------------------------------------------------------ plans

static enum mmul_status plan_product(struct planning *p, struct different *known,
                                     struct mmul_error *err) {
    borrow_files(p);
    p->step->same = find_equal(known, p->plan, p->step);
    if (p->step->same != NULL)
        return MMUL_OK;
    enum mmul_status status = find_maps(p, err);
    if (status == MMUL_OK && p->context->comm->rank == 0)
        status = make_plan(p, err);
    return mmul_comm_agree(p->context->comm, status, err);
}

// Values and rooms that are no product's, and as much as a product beside it may have: two of them are under way at the
// same time.
static void find_taken(const struct planning *p) {
    const struct mmul_cluster *cluster = p->context->cluster;
    const int64_t limit = p->plan->limits.memory_bytes;
    int products = 0;
    for (int i = 0; i < p->plan->step_count; i++)
        products += p->plan->steps[i].is_product;
    for (int node = 0; node < cluster->node_count; node++) {
        int64_t left = cluster->nodes[node].memory_available_bytes,
                taken = p->plan->node_bytes[node] + mmul_program_node_rooms(p->plan, node);
        if (limit > 0) {
            left = mmul_smaller(left, mmul_plan_memory_left(cluster, node, limit));
            taken += p->plan->shard_bytes[node];
        }
        p->taken_bytes[node] = taken + (products > 1 ? mmul_larger(left - taken, 0) / 2 : 0);
    }
}

// Root: scatter and gather are between all nodes that have work in any product.
static void join_members(const struct mmul_program_plan *plan) {
    for (int node = 0; node < plan->costs.node_count; node++) {
        bool takes_part = false;
        for (int i = 0; i < plan->step_count; i++)
            if (plan->steps[i].product != NULL)
                takes_part |= mmul_plan_nodes(plan->steps[i].product)[node].takes_part;
        for (int i = 0; i < plan->step_count; i++)
            if (plan->steps[i].product != NULL)
                mmul_plan_set_member(plan->steps[i].product, node, takes_part);
    }
}

static void predict(struct mmul_program_step *step) {
    // Small products are not worth measuring speeds: what the placements were chosen by stays.
    if (step->product->predicted_seconds > 0)
        step->seconds = step->product->predicted_seconds + step->link_seconds;
    step->network_bytes = 0;
    for (int node = 0; node < step->product->node_count; node++)
        step->network_bytes += (double)mmul_plan_nodes(step->product)[node].network_bytes;
}

static void drop_plans(struct mmul_program_plan *plan) {
    for (int i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].same == NULL)
            mmul_plan_destroy(plan->steps[i].product);
        plan->steps[i].product = NULL;
    }
}

// Collective: root's plans, then on all ranks.
static enum mmul_status make_plans(struct planning *p, struct mmul_error *err) {
    struct mmul_program_plan *plan = p->plan;
    struct different known = {.count = 0};
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < plan->step_count; i++) {
        p->step = &plan->steps[i];
        if (p->step->is_product)
            status = plan_product(p, &known, err);
    }
    if (status == MMUL_OK && p->context->comm->rank == 0)
        join_members(plan);
    for (int i = 0; status == MMUL_OK && i < plan->step_count; i++) {
        struct mmul_program_step *step = &plan->steps[i];
        if (step->is_product && step->same != NULL)
            step->product = step->same->product;
        else if (step->is_product)
            status = mmul_plan_send(p->context->comm, &step->product, err);
    }
    return status;
}

// Does all of it fit? What is too much is taken off the products. All ranks find the same; what they then do together,
// root says.
static enum mmul_status judge(const struct planning *p, bool *fits, struct mmul_error *err) {
    *fits = mmul_program_fit_rooms(p->plan, p->context->cluster);
    for (int node = 0; node < p->plan->costs.node_count; node++)
        p->taken_bytes[node] += mmul_program_excess(p->plan, p->context->cluster, node);
    return mmul_comm_broadcast(p->context->comm, fits, sizeof *fits, err);
}

// Each product fits; what all of them have in turn may still be more: of one the check's vectors, of another one the
// lanes. Then they get less.
static enum mmul_status make_fitting_plans(struct planning *p, struct mmul_error *err) {
    enum { TRIES = 3 };
    bool fits = false;
    enum mmul_status status = MMUL_OK;
    for (int tries = 0; status == MMUL_OK && !fits && tries < TRIES; tries++) {
        drop_plans(p->plan);
        status = make_plans(p, err);
        if (status == MMUL_OK)
            status = judge(p, &fits, err);
    }
    if (status != MMUL_OK || fits)
        return status;
    status = mmul_program_check_memory(p->plan, p->context->cluster, err);
    return mmul_comm_agree(p->context->comm, status, err);
}

enum mmul_status mmul_program_plan_products(struct mmul_context *context,
                                            struct mmul_program_plan *plan, bool balanced,
                                            struct mmul_error *err) {
    struct planning p = {.context = context, .plan = plan, .balanced = balanced};
    const int nodes = context->comm->node_count;
    enum mmul_status status = MMUL_ALLOCATE(p.node_maps, nodes, "nodes", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(p.taken_bytes, nodes, "nodes", err);
    if (status == MMUL_OK)
        find_taken(&p);
    status = mmul_comm_agree(context->comm, status, err);
    if (status == MMUL_OK)
        status = make_fitting_plans(&p, err);
    mmul_free(p.taken_bytes);
    mmul_free(p.node_maps);
    for (int i = 0; status == MMUL_OK && i < plan->step_count; i++)
        if (plan->steps[i].is_product)
            predict(&plan->steps[i]);
    if (status == MMUL_OK)
        mmul_program_plan_add_up(plan);
    return status;
}
