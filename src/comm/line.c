// SPDX-License-Identifier: MIT
// Which part a line's kind is done by; load and store, which need no other member, are done here.
#include "comm/line.h"

#include "base/integer.h"
#include "base/status.h"

static bool is_exchange(const struct mmul_line *line) {
    return line->kind == MMUL_LINE_SCATTER || line->kind == MMUL_LINE_GATHER;
}

enum mmul_status mmul_line_init(struct mmul_line *line, enum mmul_line_kind kind,
                                const struct mmul_transport *transport,
                                const struct mmul_line_end *end, int64_t buffer_bytes,
                                struct mmul_error *err) {
    *line = (struct mmul_line){
        .kind = kind, .transport = transport, .end = end, .buffer_bytes = buffer_bytes};
    if (is_exchange(line))
        return mmul_exchange_init(line, err);
    return kind == MMUL_LINE_RELAY ? mmul_relay_init(line, err) : MMUL_OK;
}

void mmul_line_fini(struct mmul_line *line) {
    mmul_exchange_fini(line);
    mmul_relay_fini(line);
    *line = (struct mmul_line){0};
}

bool mmul_line_is_idle(const struct mmul_line *line) {
    if (is_exchange(line))
        return line->chunks.ended == line->chunks.count;
    return line->at == line->cargo.bytes && line->packets.ended == line->packets.begun;
}

bool mmul_line_is_free(const struct mmul_line *line) {
    if (line->kind != MMUL_LINE_RELAY)
        return mmul_line_is_idle(line);
    return line->at == line->cargo.bytes &&
           line->packets.begun - line->packets.ended < MMUL_LINE_PACKETS;
}

void mmul_line_begin(struct mmul_line *line, const struct mmul_cargo *cargo) {
    line->cargo = *cargo;
    line->at = 0;
    if (is_exchange(line))
        mmul_exchange_begin(line);
    else if (line->kind == MMUL_LINE_RELAY)
        mmul_relay_begin(line);
    if (mmul_line_is_idle(line))
        line->arrived = line->left = cargo->mark; // nothing to carry
}

// Load, store: the next stretch.
static bool pass_stretch(struct mmul_line *line) {
    const struct mmul_cargo *cargo = &line->cargo;
    struct mmul_failure *failure = line->transport->failure;
    struct mmul_error err;
    if (line->at == cargo->bytes)
        return false;
    int64_t begin = line->at;
    int64_t end = mmul_smaller(begin + line->buffer_bytes, cargo->bytes);
    char *memory = cargo->memory;
    enum mmul_status status = MMUL_OK;
    if (memory == NULL)
        end = cargo->bytes;
    else
        memory += begin;
    if (!mmul_failure_is_void(failure)) // of root's own node
        status = line->kind == MMUL_LINE_LOAD
                     ? line->end->produce(cargo->context, 0, begin, end, memory, &err)
                     : line->end->consume(cargo->context, 0, begin, end, memory, &err);
    if (status != MMUL_OK)
        mmul_failure_keep(failure, &err);
    line->at = end;
    if (end == cargo->bytes)
        line->arrived = line->left = cargo->mark;
    return true;
}

bool mmul_line_advance(struct mmul_line *line) {
    if (is_exchange(line))
        return mmul_exchange_advance(line);
    return line->kind == MMUL_LINE_RELAY ? mmul_relay_advance(line) : pass_stretch(line);
}
