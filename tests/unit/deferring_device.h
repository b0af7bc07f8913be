// SPDX-License-Identifier: MIT
//
// A device that defers all work: operations are queued and run when a wait requires them. A wait
// runs those on the same buffer in order and the others in any order. A caller that relies on more
// than the device table promises gets wrong values. The device can be lost at a chosen call; the
// downloads then in flight write garbage much later (late_finish), as a driver might. One device at
// a time; everything is static.
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/device.h"

struct mmul_buffer {
    struct mmul_buffer_head head;
    float *data;
};

enum { LATE_OPERATIONS = 4000, LATE_BUFFERS = 3 };

struct late_operation {
    char kind; // U upload, G gemm, D download
    bool is_done;
    struct mmul_buffer *buffers[LATE_BUFFERS]; // NULL if fewer
    struct mmul_operand place;
    int64_t rows, cols, host_ld;
    const uint16_t *from_halves; // source or target: one of these three
    const float *from;
    float *to;
    struct mmul_gemm gemm;
};

static struct {
    struct late_operation operations[LATE_OPERATIONS];
    int count;
    char log[4 * LATE_OPERATIONS]; // a letter per queued operation; W: a wait for one buffer
    struct mmul_buffer *made[LATE_OPERATIONS]; // all buffers, freed by late_reset
    int made_count, buffers, most_buffers;
    int fail_gemm, fail_wait, fail_create; // number of the call that loses the device; 0: none
    int gemms, waits, uploads;
    bool is_lost;
} late;

static void late_reset(void) {
    for (int i = 0; i < late.made_count; i++) {
        free(late.made[i]->data);
        free(late.made[i]);
    }
    memset(&late, 0, sizeof late);
}

static void late_log(char kind) {
    late.log[strlen(late.log)] = kind;
}

// -------------------------------------------------------------------------------------- execution

static void late_transfer(const struct late_operation *o) {
    for (int64_t e = 0; e < o->rows * o->cols; e++) {
        int64_t r = e / o->cols, c = e % o->cols;
        float *here = &o->place.buffer->data[o->place.offset + r * o->place.ld + c];
        int64_t host = r * o->host_ld + c;
        if (o->to != NULL) {
            o->to[host] = late.is_lost ? NAN : *here;
        } else if (o->from != NULL) {
            *here = o->from[host];
        } else { // bfloat16: the upper half of a float32
            uint32_t bits = (uint32_t)o->from_halves[host] << 16;
            memcpy(here, &bits, sizeof bits);
        }
    }
}

static float late_element(struct mmul_operand x, bool transpose, int64_t r, int64_t c) {
    return x.buffer->data[x.offset + (transpose ? c * x.ld + r : r * x.ld + c)];
}

static void late_multiply(const struct mmul_gemm *g) {
    for (int64_t e = 0; e < g->m * g->n; e++) {
        int64_t i = e / g->n, j = e % g->n;
        float *c = &g->c.buffer->data[g->c.offset + i * g->c.ld + j], sum = 0;
        for (int64_t p = 0; p < g->k; p++) {
            sum +=
                late_element(g->a, g->transpose_a, i, p) * late_element(g->b, g->transpose_b, p, j);
        }
        *c = g->alpha * sum + (g->beta == 0 ? 0 : g->beta * *c);
    }
}

static void late_execute(struct late_operation *o) {
    if (o->kind == 'G')
        late_multiply(&o->gemm);
    else
        late_transfer(o);
    o->is_done = true;
}

static bool late_shares_buffer(const struct late_operation *x, const struct late_operation *y) {
    for (int i = 0; i < LATE_BUFFERS * LATE_BUFFERS; i++) {
        struct mmul_buffer *buffer = x->buffers[i / LATE_BUFFERS];
        if (buffer != NULL && buffer == y->buffers[i % LATE_BUFFERS])
            return true;
    }
    return false;
}

// Runs an operation, after the earlier ones on its buffers.
static void late_run(int index) {
    if (late.operations[index].is_done)
        return;
    for (int i = 0; i < index; i++)
        if (late_shares_buffer(&late.operations[i], &late.operations[index]))
            late_run(i);
    late_execute(&late.operations[index]);
}

// Runs all operations, the newest first as far as their buffers allow.
static void late_finish(void) {
    for (int i = late.count - 1; i >= 0; i--)
        late_run(i);
}

// ------------------------------------------------------------------------------------------ table

static enum mmul_status late_lose_device(struct mmul_error *err) {
    late.is_lost = true;
    return mmul_fail(err, MMUL_ERR_UNAVAILABLE, "the late device is lost");
}

static struct late_operation *late_queue(char kind) {
    if (late.count == LATE_OPERATIONS)
        abort();
    late_log(kind);
    late.operations[late.count] = (struct late_operation){.kind = kind};
    return &late.operations[late.count++];
}

// Buffers live until late_reset: operations of a lost device may run later.
static enum mmul_status late_create(void *self, enum mmul_dtype dtype, int64_t count,
                                    struct mmul_buffer **buffer, struct mmul_error *err) {
    (void)self;
    (void)dtype;
    if (late.made_count == LATE_OPERATIONS)
        abort();
    if (late.made_count + 1 == late.fail_create)
        return mmul_fail(err, MMUL_ERR_UNAVAILABLE, "no buffer");
    *buffer = late.made[late.made_count++] = malloc(sizeof **buffer);
    **buffer = (struct mmul_buffer){.data = malloc((size_t)count * sizeof(float))};
    for (int64_t e = 0; e < count; e++)
        (*buffer)->data[e] = NAN;
    late.buffers++;
    late.most_buffers = late.buffers > late.most_buffers ? late.buffers : late.most_buffers;
    return MMUL_OK;
}

static void late_destroy(void *self, struct mmul_buffer *buffer, bool lost) {
    (void)self;
    late.buffers--;
    for (int i = 0; !lost && i < late.count; i++) {
        const struct late_operation only = {.buffers = {buffer}};
        if (late_shares_buffer(&late.operations[i], &only))
            late_run(i);
    }
}

static enum mmul_status late_upload(void *self, const struct mmul_upload *u,
                                    struct mmul_error *err) {
    (void)self;
    (void)err;
    struct late_operation *o = late_queue('U');
    late.uploads++;
    o->buffers[0] = u->to.buffer;
    o->place = u->to;
    o->rows = u->rows;
    o->cols = u->cols;
    o->host_ld = u->host_ld;
    o->from = u->dtype == MMUL_F32 ? u->host : NULL;
    o->from_halves = u->dtype == MMUL_F32 ? NULL : u->host;
    return MMUL_OK;
}

static enum mmul_status late_download(void *self, const struct mmul_download *d,
                                      struct mmul_error *err) {
    (void)self;
    (void)err;
    struct late_operation *o = late_queue('D');
    o->buffers[0] = d->from.buffer;
    o->place = d->from;
    o->rows = d->rows;
    o->cols = d->cols;
    o->host_ld = d->host_ld;
    o->to = d->host;
    return MMUL_OK;
}

static enum mmul_status late_gemm(void *self, const struct mmul_gemm *args,
                                  struct mmul_error *err) {
    (void)self;
    if (++late.gemms == late.fail_gemm)
        return late_lose_device(err);
    struct late_operation *o = late_queue('G');
    o->gemm = *args;
    o->buffers[0] = args->a.buffer;
    o->buffers[1] = args->b.buffer;
    o->buffers[2] = args->c.buffer;
    return MMUL_OK;
}

static enum mmul_status late_wait(void *self, struct mmul_error *err) {
    (void)self;
    (void)err;
    late_finish();
    return MMUL_OK;
}

static enum mmul_status late_wait_buffer(void *self, struct mmul_buffer *buffer,
                                         struct mmul_error *err) {
    (void)self;
    late_log('W');
    if (++late.waits == late.fail_wait)
        return late_lose_device(err);
    late_destroy(NULL, buffer, false);
    late.buffers++;
    return MMUL_OK;
}

static void late_describe(const void *self, struct mmul_device_info *info) {
    (void)self;
    *info = (struct mmul_device_info){
        .id = "0:0", .name = "late", .memory_bytes = 1 << 30, .max_allocation_bytes = 1 << 28};
}

static void late_close(void *self, bool lost) {
    (void)self;
    if (!lost)
        late_finish();
}

static const struct mmul_device_table late_table = {
    .kind = "late",
    .close = late_close,
    .describe = late_describe,
    .buffer_create = late_create,
    .buffer_destroy = late_destroy,
    .upload = late_upload,
    .download = late_download,
    .gemm = late_gemm,
    .wait = late_wait,
    .wait_buffer = late_wait_buffer,
};
