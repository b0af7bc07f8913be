// SPDX-License-Identifier: MIT
// Packs root's programs, sends each to the leader of its node and runs it there. A delivery holds
// the numbers of the held values that the node must release, then the blocks of its program that
// differ from the last one. Weights and shares of the nodes come from program_plan.c.
#include "exec/job/node_programs.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "exec/job/program_pack.h"
#include "exec/memory/held.h"
#include "exec/setup/calibrate.h"
#include "exec/setup/node_context.h"
#include "io/matrix_file.h"
#include "model/report.h"

// ------------------------------------------------------------------------------------------ shares

enum mmul_status mmul_node_programs_open(struct mmul_context *context, const struct mmul_job *job,
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

// ---------------------------------------------------------------------------- sending the programs

// A packed program as it was sent last: only blocks that differ are sent next time. Root has one
// per node. Every leader has its own behind those.
struct mmul_packed_program {
    char *bytes; // owned
    int64_t length;
};

struct block {
    int64_t index;
    char bytes[MMUL_PACK_BYTES];
};

// Makes the buffer this long; zeros it if it had another length.
static enum mmul_status resize_parcel(struct mmul_packed_program *parcel, int64_t length,
                                      struct mmul_error *err) {
    if (parcel->bytes != NULL && parcel->length == length)
        return MMUL_OK;
    mmul_free(parcel->bytes);
    parcel->bytes = NULL;
    parcel->length = length;
    return MMUL_ALLOCATE(parcel->bytes, length, "a node's program", err);
}

// Data for all ranks, in rank order. Ranks that lead no node get none.
struct delivery {
    int64_t *sizes;        // owned, by rank
    char *all;             // owned; root only
    char *mine;            // owned; leaders only
    int64_t end, capacity; // of `all`
};

static void delivery_fini(struct delivery *d) {
    MMUL_FREE_ALL(d->sizes, d->all, d->mine);
}

static enum mmul_status append_bytes(struct delivery *d, const void *bytes, int64_t count,
                                     struct mmul_error *err) {
    if (d->end + count > d->capacity) {
        const int64_t capacity = 2 * (d->end + count);
        char *more = NULL;
        if (MMUL_ALLOCATE(more, capacity, "programs of nodes", err) != MMUL_OK)
            return err->status;
        if (d->end > 0)
            memcpy(more, d->all, (size_t)d->end);
        mmul_free(d->all);
        d->all = more;
        d->capacity = capacity;
    }
    if (count > 0)
        memcpy(d->all + d->end, bytes, (size_t)count);
    d->end += count;
    return MMUL_OK;
}

// Checks that a program can run on one node without root: its matrices are in root's memory, or
// held, and it writes nothing.
static enum mmul_status check_program(const struct mmul_program *program, struct mmul_error *err) {
    bool has_files = false;
    for (int i = 0; i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        has_files |= o->kind == MMUL_SAVE || (o->kind == MMUL_LOAD && o->matrix->path != NULL);
    }
    for (int i = 0; i < program->persistent_count; i++)
        has_files |= program->kept[i].held == 0;
    if (has_files)
        return mmul_fail(err, MMUL_ERR_USAGE, "a program for one node cannot read or write files");
    if (program->rank_group_count > 0)
        return mmul_fail(err, MMUL_ERR_USAGE,
                         "a program for one node cannot place values on only some of its ranks");
    return MMUL_OK;
}

// Appends a program for one node: its length and the blocks that differ from the last program.
static enum mmul_status append_program(struct delivery *d, const struct mmul_program *program,
                                       struct mmul_packed_program *last, struct mmul_error *err) {
    struct mmul_packed_program now = {NULL, 0};
    enum mmul_status status = check_program(program, err);
    if (status == MMUL_OK) {
        now.length = mmul_program_packed_bytes(program, true);
        status = MMUL_ALLOCATE(now.bytes, now.length, "a program", err);
    }
    if (status == MMUL_OK)
        status = resize_parcel(last, now.length, err);
    if (status == MMUL_OK)
        mmul_program_pack(program, true, now.bytes);
    if (status == MMUL_OK)
        status = append_bytes(d, &now.length, sizeof now.length, err);
    for (int64_t at = 0; status == MMUL_OK && at < now.length; at += MMUL_PACK_BYTES) {
        struct block block = {.index = at / MMUL_PACK_BYTES};
        if (memcmp(last->bytes + at, now.bytes + at, MMUL_PACK_BYTES) == 0)
            continue;
        memcpy(block.bytes, now.bytes + at, MMUL_PACK_BYTES);
        status = append_bytes(d, &block, sizeof block, err);
    }
    struct mmul_packed_program *over = status == MMUL_OK ? last : &now;
    mmul_free(over->bytes);
    if (status == MMUL_OK)
        *last = now;
    return status;
}

// Fills the delivery on root, before any of it is sent.
static enum mmul_status pack_programs(const struct mmul_context *context,
                                      const struct mmul_program *const *programs,
                                      struct delivery *d, struct mmul_error *err) {
    int64_t *released = NULL, count = 0;
    enum mmul_status status = mmul_held_list_released(context->node, &released, &count, err);
    for (int rank = 0; status == MMUL_OK && rank < context->comm->size; rank++) {
        const int node = context->comm->rank_node[rank];
        const int64_t begin = d->end;
        if (context->cluster->nodes[node].leader != rank)
            continue;
        status = append_bytes(d, &count, sizeof count, err);
        if (status == MMUL_OK)
            status = append_bytes(d, released, count * (int64_t)sizeof *released, err);
        if (status == MMUL_OK)
            status = append_program(d, programs[node], &context->node->packed_programs[node], err);
        d->sizes[rank] = d->end - begin;
    }
    mmul_free(released);
    return status;
}

static enum mmul_status send_programs(struct mmul_context *context,
                                      const struct mmul_program *const *programs,
                                      struct delivery *d, struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    enum mmul_status status = MMUL_ALLOCATE(d->sizes, comm->size, "programs of nodes", err);
    if (status == MMUL_OK && context->node->packed_programs == NULL)
        status = MMUL_ALLOCATE(context->node->packed_programs, comm->node_count + 1,
                               "programs of nodes", err);
    if (status == MMUL_OK && comm->rank == 0)
        status = pack_programs(context, programs, d, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, d->sizes, comm->size * (int64_t)sizeof *d->sizes, err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(
            comm, MMUL_ALLOCATE(d->mine, d->sizes[comm->rank] + 1, "a node's program", err), err);
    return status == MMUL_OK ? mmul_comm_scatter(comm, d->all, d->sizes, d->mine, err) : status;
}

// Unpacks a leader's part: releases held values and applies the changed blocks.
static enum mmul_status unpack_program(struct mmul_context *node, const struct delivery *d,
                                       int64_t size, struct mmul_program **program,
                                       struct mmul_error *err) {
    struct mmul_packed_program *last = &node->packed_programs[node->whole->comm->node_count];
    const char *at = d->mine, *end = d->mine + size;
    int64_t count, number, length;
    struct block block;
    memcpy(&count, at, sizeof count);
    at += sizeof count;
    for (int64_t i = 0; i < count; i++, at += sizeof number) {
        memcpy(&number, at, sizeof number);
        mmul_held_release(node, number);
    }
    memcpy(&length, at, sizeof length);
    if (resize_parcel(last, length, err) != MMUL_OK)
        return err->status;
    for (at += sizeof length; at < end; at += sizeof block) {
        memcpy(&block, at, sizeof block);
        memcpy(last->bytes + block.index * MMUL_PACK_BYTES, block.bytes, MMUL_PACK_BYTES);
    }
    return mmul_program_unpack(last->bytes, program, err);
}

// Drops the sent programs. After a failure root and leaders may disagree on the last one, so the
// next program is sent whole.
static void forget_sent_programs(struct mmul_context *context) {
    struct mmul_packed_program *packed_programs = context->node->packed_programs;
    for (int i = 0; packed_programs != NULL && i <= context->comm->node_count; i++) {
        mmul_free(packed_programs[i].bytes);
        packed_programs[i] = (struct mmul_packed_program){NULL, 0};
    }
}

void mmul_node_programs_close(struct mmul_context *context) {
    if (context->node == NULL)
        return;
    forget_sent_programs(context);
    mmul_free(context->node->packed_programs);
}

// ----------------------------------------------------------------------------- running one program

enum mmul_status mmul_node_programs_run(struct mmul_context *context,
                                        const struct mmul_program *const *programs,
                                        const struct mmul_job *job, struct mmul_error *err) {
    struct mmul_context *node = context->node;
    struct delivery delivery = {NULL};
    struct mmul_program *program = NULL;
    enum mmul_status status = send_programs(context, programs, &delivery, err);
    if (status == MMUL_OK) {
        mmul_node_context_lend_device(context, node);
        status = node->comm->rank == 0
                     ? unpack_program(node, &delivery, delivery.sizes[context->comm->rank],
                                      &program, err)
                     : MMUL_OK;
        status = mmul_comm_agree(node->comm, status, err);
        if (status == MMUL_OK)
            status = mmul_program_run_unseen(node, program, &job->options, err);
        mmul_node_context_return_device(context, node);
        status = mmul_comm_agree(context->comm, status, err);
    }
    if (status != MMUL_OK)
        forget_sent_programs(context);
    mmul_program_destroy_unpacked(program);
    delivery_fini(&delivery);
    return status;
}
