// SPDX-License-Identifier: MIT
// What goes to a leader: what nodes hold no more, then its program.
#include "exec/job/apart.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "exec/job/program_pack.h"
#include "exec/memory/held.h"
#include "exec/setup/calibrate.h"
#include "exec/setup/node_context.h"
#include "model/report.h"

// ------------------------------------------------------------------------------------------ shares

enum mmul_status mmul_apart_open(struct mmul_context *context, const struct mmul_job *job,
                                 struct mmul_apart_node *nodes, struct mmul_error *err) {
    const struct mmul_cluster *cluster = context->cluster;
    struct mmul_program *nothing = NULL;
    double *weights = NULL, sum = 0;
    int are_given = 0;
    enum mmul_status status =
        mmul_comm_agree(context->comm, mmul_program_create(&nothing, err), err);
    if (status == MMUL_OK)
        status = mmul_program_weights(context, nothing, job, &weights, &are_given, err);
    mmul_program_destroy(nothing);
    if (status == MMUL_OK && context->node == NULL)
        status = mmul_node_context_create(context, are_given ? weights : NULL, err);
    for (int rank = 0; status == MMUL_OK && rank < cluster->size; rank++)
        sum += weights[rank];
    for (int rank = 0; status == MMUL_OK && context->comm->rank == 0 && rank < cluster->size;
         rank++) {
        struct mmul_apart_node *node = &nodes[cluster->ranks[rank].node];
        node->share += weights[rank] / sum;
        node->ranks++;
    }
    mmul_free(weights);
    return status;
}

// ----------------------------------------------------------------------------- from root to leaders

// What is dealt out, one after the other by rank; of ranks that lead no node nothing.
struct parcels {
    int64_t *sizes; // owned, by rank
    char *all;      // owned, root's
    char *mine;     // owned, a leader's
};

static void fini(struct parcels *p) {
    mmul_free(p->sizes);
    mmul_free(p->all);
    mmul_free(p->mine);
}

// Root's: one more is ready.
static enum mmul_status append(struct parcels *p, int64_t *end, const void *bytes, int64_t count,
                               struct mmul_error *err) {
    char *more = NULL;
    enum mmul_status status = MMUL_ALLOCATE(more, *end + count, "programs of nodes", err);
    if (status != MMUL_OK)
        return status;
    if (*end > 0)
        memcpy(more, p->all, (size_t)*end);
    memcpy(more + *end, bytes, (size_t)count);
    mmul_free(p->all);
    p->all = more;
    *end += count;
    return MMUL_OK;
}

// Root's, before any of it is sent.
static enum mmul_status pack(const struct mmul_context *context,
                             const struct mmul_program *const *programs, struct parcels *p,
                             struct mmul_error *err) {
    int64_t *released = NULL, count = 0, end = 0;
    enum mmul_status status = mmul_held_released(context->node, &released, &count, err);
    for (int rank = 0; status == MMUL_OK && rank < context->comm->size; rank++) {
        const int node = context->comm->rank_node[rank];
        const int64_t begin = end;
        char *bytes = NULL;
        int64_t length = 0;
        if (context->cluster->nodes[node].leader != rank)
            continue;
        status = mmul_program_pack(programs[node], &bytes, &length, err);
        if (status == MMUL_OK)
            status = append(p, &end, &count, sizeof count, err);
        if (status == MMUL_OK)
            status = append(p, &end, released, count * (int64_t)sizeof *released, err);
        if (status == MMUL_OK)
            status = append(p, &end, bytes, length, err);
        p->sizes[rank] = end - begin;
        mmul_free(bytes);
    }
    mmul_free(released);
    return status;
}

static enum mmul_status send(struct mmul_context *context,
                             const struct mmul_program *const *programs, struct parcels *p,
                             struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    enum mmul_status status = MMUL_ALLOCATE(p->sizes, comm->size, "programs of nodes", err);
    if (status == MMUL_OK && comm->rank == 0)
        status = pack(context, programs, p, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, p->sizes, comm->size * (int64_t)sizeof *p->sizes, err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(
            comm, MMUL_ALLOCATE(p->mine, p->sizes[comm->rank] + 1, "a node's program", err), err);
    return status == MMUL_OK ? mmul_comm_deal(comm, p->all, p->sizes, p->mine, err) : status;
}

// A leader's.
static enum mmul_status unpack(struct mmul_context *node, const char *bytes,
                               struct mmul_program **program, struct mmul_error *err) {
    int64_t count, number;
    memcpy(&count, bytes, sizeof count);
    for (int64_t i = 0; i < count; i++) {
        memcpy(&number, bytes + (1 + i) * (int64_t)sizeof number, sizeof number);
        mmul_held_release(node, number);
    }
    return mmul_program_unpack(bytes + (1 + count) * (int64_t)sizeof number, program, err);
}

// --------------------------------------------------------------------------------------- a node's

// Collective over the node. What it has to say is said later, by the whole.
static enum mmul_status run(struct mmul_context *node, const struct mmul_program *program,
                            const struct mmul_job *job, struct mmul_error *err) {
    struct mmul_job own = {.options = job->options};
    struct mmul_program_plan *plan = NULL;
    struct mmul_values *values = NULL;
    enum mmul_status status = mmul_program_prepare(node, program, &own, &plan, err);
    if (status == MMUL_OK)
        status = mmul_program_carry_out(node, plan, &values, err);
    if (status == MMUL_OK) {
        const char *const *lines = NULL;
        const int count = mmul_report_warnings(values->report, &lines);
        for (int i = 0; i < count; i++)
            mmul_context_warn(node, "%s", lines[i]);
    }
    mmul_values_destroy(values);
    mmul_program_plan_destroy(plan);
    return status;
}

enum mmul_status mmul_apart_carry_out(struct mmul_context *context,
                                      const struct mmul_program *const *programs,
                                      const struct mmul_job *job, struct mmul_error *err) {
    struct mmul_context *node = context->node;
    struct parcels parcels = {NULL, NULL, NULL};
    struct mmul_program *program = NULL;
    enum mmul_status status = send(context, programs, &parcels, err);
    if (status == MMUL_OK) {
        mmul_node_context_enter(context);
        status = node->comm->rank == 0 ? unpack(node, parcels.mine, &program, err) : MMUL_OK;
        status = mmul_comm_agree(node->comm, status, err);
        if (status == MMUL_OK)
            status = run(node, program, job, err);
        mmul_node_context_leave(context);
        status = mmul_comm_agree(context->comm, status, err);
    }
    mmul_program_drop(program);
    fini(&parcels);
    return status;
}
