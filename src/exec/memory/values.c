// SPDX-License-Identifier: MIT
// Lays places out in a segment and finds data in them. Moves and computes nothing.
#include "exec/memory/values.h"

#include "exec/memory/held.h"
#include "exec/memory/persistent.h"
#include "exec/memory/segment_cache.h"

#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "model/matrix.h"

// Returns the node rank of a rank of this node.
static int node_rank_of(const struct mmul_values *v, int rank) {
    int index = 0;
    for (int r = 0; r < rank; r++)
        index += v->plan->costs.rank_node[r] == v->node;
    return index;
}

// Lays out each place at its planned offset, the ranks' parts one after the other.
static void lay_out_places(struct mmul_values *v) {
    const struct mmul_program_plan *plan = v->plan;
    for (int i = 0; i < plan->place_count; i++) {
        const struct mmul_program_place *place = &plan->places[i];
        enum mmul_placement_kind kind = place->placement.kind;
        int64_t at = plan->offsets[(int64_t)i * plan->costs.node_count + v->node];
        const bool has_memory = at >= 0;
        int64_t *offsets = &v->offsets[(int64_t)i * v->node_size];
        for (int rank = 0, index = 0, leader = -1; rank < plan->costs.size; rank++) {
            if (plan->costs.rank_node[rank] != v->node)
                continue;
            leader = leader < 0 ? rank : leader;
            // Copies of a part share the memory of the first rank of the node that has it.
            int home = kind == MMUL_PLACE_REPLICATE
                           ? leader
                           : mmul_placement_first_copy(&place->placement, plan->costs.rank_node,
                                                       rank, v->node);
            offsets[index] = !has_memory ? -1 : home < rank ? offsets[node_rank_of(v, home)] : at;
            if (has_memory && home == rank)
                at += mmul_program_place_bytes(plan, place, rank);
            index++;
        }
    }
}

// Clears summands: a move writes only parts of them, and the rest must be zeros.
static void clear_summands(struct mmul_values *v) {
    const struct mmul_program_plan *plan = v->plan;
    for (int i = 0; i < plan->step_count; i++) {
        const struct mmul_program_step *s = &plan->steps[i];
        const struct mmul_memory memory = mmul_values_memory(v, s->result);
        if (s->kind == MMUL_STEP_MOVE && memory.begin != NULL &&
            plan->places[s->result].placement.kind == MMUL_PLACE_PARTIAL)
            memset((char *)(uintptr_t)memory.begin, 0, (size_t)(memory.end - memory.begin));
    }
}

// Creates the segment, or takes a cached one if the plan is run repeatedly. Collective.
static enum mmul_status take_segment(struct mmul_values *v, struct mmul_error *err) {
    const int64_t bytes = v->plan->node_bytes[v->node];
    bool is_new = true;
    enum mmul_status status = v->plan->is_repeated
                                  ? mmul_segment_cache_take(v->context, MMUL_SEGMENT_CACHE_VALUES,
                                                            bytes, &v->segment, &is_new, err)
                                  : mmul_shared_create(v->context->comm, bytes, &v->segment, err);
    if (status != MMUL_OK)
        return status;
    lay_out_places(v);
    if (!is_new && v->node_rank == 0)
        clear_summands(v);
    return MMUL_OK;
}

enum mmul_status mmul_values_create(struct mmul_context *context, struct mmul_program_plan *plan,
                                    struct mmul_values **values, struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    struct mmul_values *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "values", err);
    if (status == MMUL_OK) {
        *made = (struct mmul_values){.context = context,
                                     .plan = plan,
                                     .rank = comm->rank,
                                     .node = comm->node_index,
                                     .node_rank = comm->node_rank,
                                     .node_size = comm->node_size};
        const int64_t parts = (int64_t)plan->place_count * comm->node_size;
        status = MMUL_ALLOCATE_ALL("values", err, MMUL_ARRAY(made->offsets, parts),
                                   MMUL_ARRAY(made->persistent_parts, parts));
    }
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, take_segment(made, err), err);
    if (status == MMUL_OK)
        *values = made;
    else
        mmul_values_destroy(made);
    return status;
}

void mmul_values_destroy(struct mmul_values *values) {
    if (values == NULL)
        return;
    if (!values->is_abandoned && values->plan->is_repeated && values->segment.data != NULL)
        mmul_segment_cache_put(values->context, MMUL_SEGMENT_CACHE_VALUES, &values->segment);
    else if (!values->is_abandoned)
        mmul_shared_destroy(&values->segment);
    mmul_persistent_close_sets(values);
    mmul_held_close(values);
    mmul_free(values->persistent_parts);
    mmul_report_destroy(values->report);
    mmul_free(values->offsets);
    mmul_free(values);
}

static int64_t bytes_each(const struct mmul_view *view) {
    return (int64_t)mmul_dtype_bytes(view->dtype);
}

struct mmul_view mmul_values_view(const struct mmul_values *values, int place, int rank,
                                  int64_t matrix) {
    const struct mmul_program_place *p = &values->plan->places[place];
    if (p->view_of >= 0 && !p->reshaped) {
        struct mmul_view view = mmul_values_view(values, p->view_of, rank, matrix);
        struct mmul_region r = view.region;
        if (p->transposed) {
            view.transposed = !view.transposed;
            view.region =
                (struct mmul_region){r.matrix, r.col_begin, r.col_end, r.row_begin, r.row_end};
        }
        return view;
    }
    const struct mmul_value *value = &values->plan->program->values[p->value];
    struct mmul_shape shape = value->shape;
    struct mmul_view view = {.dtype = value->dtype, .region = {.matrix = matrix}};
    struct mmul_part_range part = mmul_placement_part(&p->placement, shape, rank);
    int64_t offset = 0;
    if (matrix < part.matrix_begin || matrix >= part.matrix_end)
        return view;
    view.region = mmul_placement_region(&p->placement, shape, rank, matrix, &offset);
    view.ld = view.region.col_end - view.region.col_begin;
    int index = p->placement.kind == MMUL_PLACE_REPLICATE ? 0 : node_rank_of(values, rank);
    place = mmul_program_base_place(values->plan, place);
    const int64_t at = (int64_t)place * values->node_size + index;
    char *part_at = values->plan->places[place].kept >= 0
                        ? values->persistent_parts[at]
                        : values->segment.data + values->offsets[at];
    view.at = part_at + offset * bytes_each(&view);
    return view;
}

struct mmul_memory mmul_values_memory(const struct mmul_values *values, int place) {
    const struct mmul_program_plan *plan = values->plan;
    struct mmul_memory memory = {NULL, NULL};
    for (int rank = 0, index = 0; rank < plan->costs.size; rank++) {
        if (plan->costs.rank_node[rank] != values->node)
            continue;
        int64_t offset = values->offsets[(int64_t)place * values->node_size + index++];
        int64_t bytes = mmul_program_place_bytes(plan, &plan->places[place], rank);
        if (offset < 0 || bytes == 0) // shards are files of their own, with nothing in them before
            continue;
        const char *begin = values->segment.data + offset, *end = begin + bytes;
        memory.begin = memory.begin == NULL || begin < memory.begin ? begin : memory.begin;
        memory.end = end > memory.end ? end : memory.end;
    }
    return memory;
}

bool mmul_values_has_place(const struct mmul_values *values, int place) {
    return values->plan->places[mmul_program_base_place(values->plan, place)].stays;
}

void *mmul_view_element(const struct mmul_view *view, int64_t row, int64_t col) {
    int64_t down = row - view->region.row_begin, along = col - view->region.col_begin;
    return (char *)view->at + bytes_each(view) * (view->transposed ? along * view->ld + down
                                                                   : down * view->ld + along);
}

void *mmul_view_contiguous(const struct mmul_view *view, struct mmul_region region) {
    bool one_row = region.row_end - region.row_begin == 1;
    int64_t row_step = view->transposed ? 1 : view->ld, col_step = view->transposed ? view->ld : 1;
    bool is_run = col_step == 1 && (one_row || region.col_end - region.col_begin == row_step);
    return is_run ? mmul_view_element(view, region.row_begin, region.col_begin) : NULL;
}

// A strided copy of `count` elements. add: adds to the present contents.
struct line {
    void *to;
    const void *from;
    int64_t to_step, from_step, count;
    bool add;
};

static void copy_floats(const struct line *l) {
    float *to = l->to;
    const float *from = l->from;
    for (int64_t j = 0; j < l->count; j++)
        to[j * l->to_step] =
            l->add ? to[j * l->to_step] + from[j * l->from_step] : from[j * l->from_step];
}

static void copy_doubles(const struct line *l) {
    double *to = l->to;
    const double *from = l->from;
    for (int64_t j = 0; j < l->count; j++)
        to[j * l->to_step] =
            l->add ? to[j * l->to_step] + from[j * l->from_step] : from[j * l->from_step];
}

// Copies between the view and packed rows, in either direction.
static void copy_region(const struct mmul_view *view, struct mmul_region region, bool add,
                        bool reads, char *packed) {
    const int64_t each = bytes_each(view), cols = region.col_end - region.col_begin;
    const int64_t row_step = view->transposed ? 1 : view->ld,
                  step = view->transposed ? view->ld : 1;
    char *at = mmul_view_element(view, region.row_begin, region.col_begin);
    for (int64_t i = region.row_begin; i < region.row_end; i++) {
        const struct line line = {.to = reads ? packed : at,
                                  .from = reads ? at : packed,
                                  .to_step = reads ? 1 : step,
                                  .from_step = reads ? step : 1,
                                  .count = cols,
                                  .add = add};
        if (!add && step == 1)
            memcpy(line.to, line.from, (size_t)(cols * each));
        else if (view->dtype == MMUL_F64)
            copy_doubles(&line);
        else
            copy_floats(&line);
        at += row_step * each;
        packed += cols * each;
    }
}

void mmul_view_read(const struct mmul_view *view, struct mmul_region region, bool add, void *to) {
    copy_region(view, region, add, true, to);
}

void mmul_view_write(const struct mmul_view *view, struct mmul_region region, bool add,
                     const void *from) {
    copy_region(view, region, add, false, (char *)(uintptr_t)from);
}

// Returns the view, among those of the node's ranks, that contains a row of the matrix.
static struct mmul_view find_view_of_row(const struct mmul_values *v, int place, int64_t matrix,
                                         int64_t row) {
    struct mmul_view view = {0};
    for (int rank = 0; rank < v->plan->costs.size; rank++) {
        if (v->plan->costs.rank_node[rank] != v->node)
            continue;
        view = mmul_values_view(v, place, rank, matrix);
        if (row >= view.region.row_begin && row < view.region.row_end)
            break;
    }
    return view;
}

void mmul_values_read_rows(const struct mmul_values *values, int place, struct mmul_region region,
                           int64_t begin, int64_t end, void *to) {
    int64_t cols = region.col_end - region.col_begin;
    struct mmul_view view = {0};
    char *next_to = to;
    for (int64_t next; begin < end; begin = next) {
        int64_t row = region.row_begin + begin / cols, col = region.col_begin + begin % cols;
        next = mmul_min(end, (begin / cols + 1) * cols);
        if (row < view.region.row_begin || row >= view.region.row_end)
            view = find_view_of_row(values, place, region.matrix, row);
        const int64_t bytes = (next - begin) * bytes_each(&view);
        memcpy(next_to, mmul_view_element(&view, row, col), (size_t)bytes);
        next_to += bytes;
    }
}
