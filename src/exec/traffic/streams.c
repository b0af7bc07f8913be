// SPDX-License-Identifier: MIT
// Walks the rectangles of a stream, and reads or writes those that overlap a range of bytes. Uses
// files and plans, not MPI.
#include "exec/traffic/streams.h"

#include "base/integer.h"
#include "exec/steps/rank_resources.h"
#include "exec/traffic/move.h"
#include "io/broadcast.h"
#include "model/matrix.h"

// The byte range of a call, and its memory.
struct window {
    int64_t begin, end;
    char *memory;
};

// One walk over the rectangles in order; `at` is the stream offset of the next one.
struct stream_walk {
    const struct mmul_stream *stream;
    struct window window;
    int64_t at, written; // bytes of C
};

static const struct mmul_schedule *schedule_of(const struct stream_walk *p) {
    return p->stream->stage->schedule;
}

static struct mmul_product_stage *product_of(const struct stream_walk *p) {
    return p->stream->stage->product;
}

static enum mmul_content content_of(const struct stream_walk *p) {
    return p->stream->transfer.content;
}

static enum mmul_dtype element_dtype(const struct stream_walk *p) {
    const struct mmul_schedule *schedule = schedule_of(p);
    if (content_of(p) == MMUL_CONTENT_PIECES)
        return mmul_problem_split_dtype(&schedule->problem, schedule->axis);
    if (content_of(p) == MMUL_CONTENT_PANEL)
        return mmul_problem_whole_dtype(&schedule->problem, schedule->axis);
    return mmul_problem_result_dtype(&schedule->problem);
}

static int64_t element_bytes(const struct stream_walk *p) {
    return (int64_t)mmul_dtype_bytes(element_dtype(p));
}

// ---------------------------------------------------------------------------------- rectangles

static enum mmul_status transfer_elements(struct stream_walk *p, struct mmul_region region,
                                          int64_t begin, int64_t end, char *memory,
                                          struct mmul_error *err) {
    const struct mmul_stage *stage = p->stream->stage;
    const struct mmul_product_files *files = &stage->files;
    float *floats = (float *)(void *)memory;
    double *doubles = (double *)(void *)memory;
    p->written += (end - begin) * element_bytes(p);
    if (content_of(p) == MMUL_CONTENT_RESULT)
        return element_dtype(p) == MMUL_F64
                   ? mmul_output_write_double(files->output, region, begin, end, doubles, err)
                   : mmul_output_write_float(files->output, region, begin, end, floats, err);
    if (content_of(p) == MMUL_CONTENT_PANEL && stage->places.spread >= 0) {
        mmul_values_read_rows(stage->rank_resources->values, stage->places.spread, region, begin,
                              end, floats);
        return MMUL_OK;
    }
    const bool is_split = content_of(p) == MMUL_CONTENT_PIECES,
               is_a = is_split == (stage->axis == MMUL_ROWS);
    struct mmul_matrix *input = content_of(p) == MMUL_CONTENT_C_IN ? files->c_in
                                : is_a                             ? files->a
                                                                   : files->b;
    int64_t elements = end - begin;
    enum mmul_status status;
    if (content_of(p) == MMUL_CONTENT_C_IN) {
        struct mmul_broadcast_matrix c_in = {
            .matrix = input, .shape = schedule_of(p)->problem.c, .dtype = element_dtype(p)};
        status = mmul_broadcast_read(&c_in, region, begin, end, memory, err);
        elements = c_in.elements_read;
    } else if (element_dtype(p) == MMUL_F64) {
        status = mmul_matrix_read_double(input, region, begin, end, doubles, err);
    } else {
        status = mmul_matrix_read(input, region, begin, end, memory, err);
    }
    stage->product->bytes_read +=
        elements * (int64_t)mmul_dtype_bytes(mmul_matrix_info(input).stored);
    return status;
}

// Transfers the part of the next rectangle that lies in the window.
static enum mmul_status transfer_region(struct stream_walk *p, struct mmul_region region,
                                        struct mmul_error *err) {
    int64_t each = element_bytes(p), at = p->at;
    p->at += mmul_region_count(region) * each;
    int64_t from = mmul_max(at, p->window.begin), to = mmul_min(p->at, p->window.end);
    if (from >= to)
        return MMUL_OK;
    enum mmul_status status = transfer_elements(p, region, (from - at) / each, (to - at) / each,
                                                p->window.memory + (from - p->window.begin), err);
    // Bytes arrive in order, and none after a failure: the last ones complete the rectangle.
    struct mmul_rank_resources *resources = p->stream->stage->rank_resources;
    if (status == MMUL_OK && to == p->at && content_of(p) == MMUL_CONTENT_RESULT &&
        resources->completed != NULL)
        mmul_completed_add(&resources->completed[p->stream->stage->comm->node_size], region);
    return status;
}

// Transfers the pieces, C_in, or C (with full extent along the other axis) of a range of units.
static enum mmul_status transfer_range(struct stream_walk *p, struct mmul_range range,
                                       struct mmul_error *err) {
    const struct mmul_schedule *schedule = schedule_of(p);
    const struct mmul_problem *problem = &schedule->problem;
    int64_t count = mmul_matrix_range_count(problem, schedule->axis, range.begin, range.end);
    enum mmul_status status = MMUL_OK;
    for (int64_t i = 0; status == MMUL_OK && i < count && p->at < p->window.end; i++) {
        struct mmul_matrix_range s =
            mmul_matrix_range_at(problem, schedule->axis, range.begin, range.end, i);
        status = transfer_region(p,
                                 content_of(p) == MMUL_CONTENT_PIECES
                                     ? mmul_matrix_range_operand(problem, schedule->axis, s)
                                     : mmul_matrix_range_result(problem, schedule->axis, s),
                                 err);
    }
    return status;
}

// Returns the lent part of a stretch's rectangle. lines_before: lines of the rank in the pass
// before this stretch.
static struct mmul_region lent_region(const struct mmul_schedule *schedule,
                                      const struct mmul_stolen_block_lines *lent,
                                      struct mmul_region stretch, int64_t lines_before) {
    bool rows = schedule->axis == MMUL_ROWS;
    struct mmul_region r = stretch;
    int64_t first = (rows ? stretch.row_begin : stretch.col_begin) - lines_before;
    *(rows ? &r.row_begin : &r.col_begin) += mmul_max(0, lent->lines.begin - lines_before);
    *(rows ? &r.row_end : &r.col_end) =
        mmul_min(rows ? stretch.row_end : stretch.col_end, first + lent->lines.end);
    *(rows ? &r.col_begin : &r.row_begin) = lent->width.begin;
    *(rows ? &r.col_end : &r.row_end) = lent->width.end;
    return r;
}

// Transfers a row of a stretch's rectangle, without its lent parts.
static enum mmul_status transfer_row(struct stream_walk *p, int rank, struct mmul_region stretch,
                                     int64_t lines_before, int64_t row, struct mmul_error *err) {
    const struct mmul_product_stage *product = product_of(p);
    struct mmul_region left = stretch;
    enum mmul_status status = MMUL_OK;
    left.row_begin = row;
    left.row_end = row + 1;
    while (status == MMUL_OK && left.col_begin < stretch.col_end) {
        struct mmul_range hole = {stretch.col_end, stretch.col_end};
        for (int i = 0; i < product->lent_count; i++) {
            const struct mmul_stolen_block_lines *lent = &product->lent[i];
            if (lent->rank != rank || lent->pass != p->stream->transfer.pass.index)
                continue;
            struct mmul_region r = lent_region(schedule_of(p), lent, stretch, lines_before);
            int64_t begin = mmul_max(r.col_begin, left.col_begin);
            if (r.row_begin <= row && row < r.row_end && begin < r.col_end && begin < hole.begin)
                hole = (struct mmul_range){begin, r.col_end};
        }
        left.col_end = hole.begin;
        status = transfer_region(p, left, err);
        p->at += (hole.end - hole.begin) * element_bytes(p);
        left.col_begin = hole.end;
    }
    return status;
}

static bool is_lent(const struct stream_walk *p, int rank) {
    const struct mmul_product_stage *product = product_of(p);
    for (int i = 0; i < product->lent_count; i++)
        if (product->lent[i].rank == rank &&
            product->lent[i].pass == p->stream->transfer.pass.index)
            return true;
    return false;
}

// Transfers a rank's block of C of a pass.
static enum mmul_status transfer_result(struct stream_walk *p, int rank, struct mmul_error *err) {
    const struct mmul_schedule *schedule = schedule_of(p);
    struct mmul_pass pass = p->stream->transfer.pass;
    struct mmul_matrix_range s;
    enum mmul_status status = MMUL_OK;
    struct mmul_stretch_walk walk =
        mmul_schedule_walk(schedule, mmul_schedule_part(schedule, rank, pass.round), pass);
    bool lent = is_lent(p, rank);
    int64_t lines = 0;
    while (status == MMUL_OK && p->at < p->window.end && mmul_schedule_next(&walk, &s)) {
        struct mmul_region region = mmul_pass_result(schedule, pass, s);
        if (!lent)
            status = transfer_region(p, region, err);
        for (int64_t row = region.row_begin;
             lent && status == MMUL_OK && row < region.row_end && p->at < p->window.end; row++)
            status = transfer_row(p, rank, region, lines, row, err);
        lines += s.end - s.begin;
    }
    return status;
}

static enum mmul_status transfer_node(struct stream_walk *p, int node, struct mmul_error *err) {
    const struct mmul_schedule *schedule = schedule_of(p);
    enum mmul_status status = MMUL_OK;
    for (int rank = 0; status == MMUL_OK && rank < schedule->size && p->at < p->window.end;
         rank++) {
        if (mmul_schedule_ranks(schedule)[rank].node != node)
            continue;
        status =
            content_of(p) == MMUL_CONTENT_RESULT
                ? transfer_result(p, rank, err)
                : transfer_range(
                      p, mmul_schedule_part(schedule, rank, p->stream->transfer.pass.round), err);
    }
    return status;
}

static enum mmul_status transfer_panel(struct stream_walk *p, struct mmul_error *err) {
    struct mmul_pass pass = p->stream->transfer.pass;
    enum mmul_status status = MMUL_OK;
    for (int64_t i = pass.matrix_begin;
         status == MMUL_OK && i < pass.matrix_end && p->at < p->window.end; i++)
        status = transfer_region(p, mmul_pass_panel(schedule_of(p), pass, i), err);
    return status;
}

// -------------------------------------------------------------------------------- end of a channel

static enum mmul_status produce(void *context, int node, int64_t begin, int64_t end, void *to,
                                struct mmul_error *err) {
    const struct mmul_stream *stream = context;
    const int64_t offset = stream->transfer.offset;
    struct stream_walk p = {.stream = stream, .window = {offset + begin, offset + end, to}};
    if (stream->transfer.content == MMUL_CONTENT_PANEL)
        return transfer_panel(&p, err);
    if (stream->transfer.content != MMUL_CONTENT_PART)
        return transfer_node(&p, node, err);
    if (to != NULL)
        return mmul_piece_read(stream->stage, &stream->transfer, to, err);
    const enum mmul_status status =
        mmul_piece_read(stream->stage, &stream->transfer, stream->staging, err);
    return status == MMUL_OK
               ? mmul_piece_write(stream->stage, &stream->transfer, false, stream->staging, err)
               : status;
}

static enum mmul_status consume(void *context, int node, int64_t begin, int64_t end,
                                const void *from, struct mmul_error *err) {
    const struct mmul_stream *stream = context;
    const struct mmul_transfer *transfer = &stream->transfer;
    struct stream_walk p = {.stream = stream, .window = {begin, end, (char *)(uintptr_t)from}};
    if (transfer->content == MMUL_CONTENT_PART)
        return mmul_piece_write(stream->stage, transfer, transfer->piece.is_sum, from, err);
    if (from == NULL) // in place already, and counted when it was computed
        return MMUL_OK;
    enum mmul_status status = transfer_node(&p, node, err);
    product_of(&p)->done_bytes += p.written;
    return status;
}

const struct mmul_channel_end mmul_stream_end = {.produce = produce, .consume = consume};
