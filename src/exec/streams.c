// SPDX-License-Identifier: MIT
// Walks the rectangles of a stream and reads or writes those that a range of bytes touches. Knows
// files and plans, not MPI.
#include "exec/streams.h"

#include "base/integer.h"
#include "model/matrix.h"

// A stretch of one rectangle: elements [begin, end) of `region`, at `memory`.
struct stretch {
    struct mmul_region region;
    int64_t begin, end;
    char *memory;
};

typedef enum mmul_status (*visit)(struct mmul_streams *streams, const struct stretch *stretch,
                                  struct mmul_error *err);

// Elements per unit, and bytes per element.
static int64_t unit_elements(const struct mmul_plan *plan, enum mmul_stream stream) {
    if (stream == MMUL_STREAM_PIECES)
        return plan->problem.k;
    return mmul_problem_result_width(&plan->problem, plan->axis);
}

static int64_t element_bytes(const struct mmul_plan *plan, enum mmul_stream stream) {
    if (stream == MMUL_STREAM_PIECES)
        return (int64_t)mmul_dtype_bytes(mmul_problem_split_dtype(&plan->problem, plan->axis));
    if (stream == MMUL_STREAM_WHOLE)
        return (int64_t)mmul_dtype_bytes(mmul_problem_whole_dtype(&plan->problem, plan->axis));
    return sizeof(float);
}

// The range of bytes a call is about, and the memory it is in.
struct window {
    int64_t begin, end;
    char *memory;
};

// A rectangle whose bytes begin at `at` in the stream: visits the stretch inside the window.
static enum mmul_status visit_region(struct mmul_streams *streams, struct mmul_region region,
                                     int64_t at, const struct window *window, visit call,
                                     struct mmul_error *err) {
    int64_t each = element_bytes(streams->plan, streams->stream);
    int64_t from = mmul_larger(at, window->begin);
    int64_t to = mmul_smaller(at + mmul_region_count(region) * each, window->end);
    if (from >= to)
        return MMUL_OK;
    const struct stretch stretch = {.region = region,
                                    .begin = (from - at) / each,
                                    .end = (to - at) / each,
                                    .memory = window->memory + (from - window->begin)};
    return call(streams, &stretch, err);
}

// The segments of one rank's part, which begins at `at`.
static enum mmul_status visit_part(struct mmul_streams *streams, const struct mmul_plan_rank *rank,
                                   int64_t at, const struct window *window, visit call,
                                   struct mmul_error *err) {
    const struct mmul_plan *plan = streams->plan;
    const struct mmul_problem *problem = &plan->problem;
    int64_t unit = unit_elements(plan, streams->stream) * element_bytes(plan, streams->stream);
    int64_t count = mmul_segment_count(problem, plan->axis, rank->begin, rank->end);
    for (int64_t i = 0; i < count; i++) {
        struct mmul_segment s = mmul_segment_at(problem, plan->axis, rank->begin, rank->end, i);
        int64_t begin = at + s.part_offset * unit;
        if (begin >= window->end)
            break;
        struct mmul_region region = streams->stream == MMUL_STREAM_PIECES
                                        ? mmul_segment_operand(problem, plan->axis, s)
                                        : mmul_segment_result(problem, plan->axis, s);
        enum mmul_status status = visit_region(streams, region, begin, window, call, err);
        if (status != MMUL_OK)
            return status;
    }
    return MMUL_OK;
}

static enum mmul_status visit_node(struct mmul_streams *streams, int node,
                                   const struct window *window, visit call,
                                   struct mmul_error *err) {
    const struct mmul_plan *plan = streams->plan;
    int64_t unit = unit_elements(plan, streams->stream) * element_bytes(plan, streams->stream);
    int64_t at = 0;
    for (int rank = 0; rank < plan->size && at < window->end; rank++) {
        const struct mmul_plan_rank *r = &mmul_plan_ranks(plan)[rank];
        if (r->node != node)
            continue;
        int64_t end = at + (r->end - r->begin) * unit;
        enum mmul_status status =
            end > window->begin ? visit_part(streams, r, at, window, call, err) : MMUL_OK;
        if (status != MMUL_OK)
            return status;
        at = end;
    }
    return MMUL_OK;
}

// The whole operand: its matrices one after another.
static enum mmul_status visit_whole(struct mmul_streams *streams, const struct window *window,
                                    visit call, struct mmul_error *err) {
    const struct mmul_plan *plan = streams->plan;
    struct mmul_shape shape = mmul_problem_whole_shape(&plan->problem, plan->axis);
    int64_t matrix_bytes = shape.rows * shape.cols * element_bytes(plan, streams->stream);
    for (int64_t i = window->begin / matrix_bytes; i * matrix_bytes < window->end; i++) {
        enum mmul_status status =
            visit_region(streams, mmul_region_whole(shape, i), i * matrix_bytes, window, call, err);
        if (status != MMUL_OK)
            return status;
    }
    return MMUL_OK;
}

// ------------------------------------------------------------------------------------- visitors

static enum mmul_status read_stretch(struct mmul_streams *streams, const struct stretch *s,
                                     struct mmul_error *err) {
    if (streams->stream == MMUL_STREAM_C_IN)
        return mmul_matrix_read_float(streams->c_in, s->region, s->begin, s->end,
                                      (float *)(void *)s->memory, err);
    struct mmul_matrix *from =
        streams->stream == MMUL_STREAM_WHOLE ? streams->whole : streams->split;
    return mmul_matrix_read(from, s->region, s->begin, s->end, s->memory, err);
}

static enum mmul_status write_stretch(struct mmul_streams *streams, const struct stretch *s,
                                      struct mmul_error *err) {
    return mmul_output_write_float(streams->output, s->region, s->begin, s->end,
                                   (const float *)(void *)s->memory, err);
}

static void tell_progress(struct mmul_streams *streams, int64_t bytes) {
    static const char *const phases[] = {"scatter", "scatter", "gather", "broadcast"};
    streams->done_bytes += bytes;
    if (streams->progress != NULL)
        streams->progress(streams->progress_context, phases[streams->stream], streams->done_bytes,
                          streams->total_bytes);
}

static enum mmul_status produce(void *context, int node, int64_t begin, int64_t end, void *to,
                                struct mmul_error *err) {
    struct mmul_streams *streams = context;
    const struct window window = {begin, end, to};
    enum mmul_status status = streams->stream == MMUL_STREAM_WHOLE
                                  ? visit_whole(streams, &window, read_stretch, err)
                                  : visit_node(streams, node, &window, read_stretch, err);
    streams->bytes_read += end - begin;
    tell_progress(streams, end - begin);
    return status;
}

static enum mmul_status consume(void *context, int node, int64_t begin, int64_t end,
                                const void *from, struct mmul_error *err) {
    struct mmul_streams *streams = context;
    const struct window window = {begin, end, (char *)(uintptr_t)from};
    enum mmul_status status = visit_node(streams, node, &window, write_stretch, err);
    streams->bytes_written += end - begin;
    tell_progress(streams, end - begin);
    return status;
}

// ---------------------------------------------------------------------------------------- start

void mmul_stream_sizes(const struct mmul_plan *plan, enum mmul_stream stream, int64_t *bytes) {
    for (int i = 0; i < plan->node_count; i++) {
        const struct mmul_plan_node *node = &mmul_plan_nodes(plan)[i];
        bytes[i] = stream == MMUL_STREAM_PIECES ? node->piece_bytes
                   : stream == MMUL_STREAM_C_IN ? node->c_in_bytes
                                                : node->result_bytes;
    }
    if (stream != MMUL_STREAM_WHOLE)
        return;
    bytes[0] = 0; // the same for every node that has work
    for (int i = 0; i < plan->node_count; i++)
        bytes[0] = mmul_larger(bytes[0], mmul_plan_nodes(plan)[i].whole_bytes);
}

struct mmul_stream_end mmul_streams_begin(struct mmul_streams *streams, enum mmul_stream stream,
                                          int64_t total_bytes) {
    streams->stream = stream;
    streams->done_bytes = 0;
    streams->total_bytes = total_bytes;
    return (struct mmul_stream_end){.produce = produce, .consume = consume, .context = streams};
}
