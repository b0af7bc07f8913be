// SPDX-License-Identifier: MIT
// Lays out and exchanges the vectors of sums. The check of summands walks the parts of the result.
// For its summand a rank walks all parts, for the result only its own.
#include "exec/steps/sums.h"

#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/steps/checks.h"
#include "exec/steps/rank_resources.h"
#include "exec/steps/stage_work.h"
#include "model/dtype.h"
#include "model/matrix.h"

enum { COUNT_MOST = 1 << 24 }; // elements of one sum: MPI counts them in int

static int64_t find_round_begin(const struct mmul_stage *stage, int round) {
    return round > 0 ? stage->sums.ends[round - 1] : 0;
}

static double *vector_of(const struct mmul_stage *stage, int node_rank) {
    return (double *)(void *)stage->memory +
           node_rank * find_round_begin(stage, stage->sums.rounds);
}

double *mmul_sums_own_vector(const struct mmul_stage *stage, int round) {
    int64_t begin = find_round_begin(stage, round);
    double *mine = vector_of(stage, stage->comm->node_rank) + begin;
    memset(mine, 0, (size_t)(stage->sums.ends[round] - begin) * sizeof *mine);
    return mine;
}

void mmul_sums_publish(const struct mmul_stage *stage, int round) {
    mmul_progress_raise(stage->rank_resources->progress, stage->comm->node_rank,
                        &stage->progress->ranks[stage->comm->node_rank].sums_contributed, round + 1,
                        stage->index + 1);
}

const double *mmul_sums_wait(struct mmul_stage *stage, int round) {
    const bool is_there =
        mmul_stage_wait(stage, MMUL_TRAFFIC, &stage->progress->sums_finished, round + 1,
                        &stage->rank_resources->mine.scatter_seconds, -1);
    return is_there ? vector_of(stage, 0) + find_round_begin(stage, round) : NULL;
}

// ------------------------------------------------------------------------------------ the leader's

bool mmul_sums_are_complete(const struct mmul_stage *stage) {
    return atomic_load(&stage->progress->sums_finished) >= stage->sums.rounds;
}

bool mmul_sums_are_contributed(const struct mmul_stage *stage, int round) {
    bool given = true;
    for (int i = 0; i < stage->comm->node_size; i++)
        given = given && atomic_load(&stage->progress->ranks[i].sums_contributed) > round;
    return given || mmul_failure_is_void(&stage->rank_resources->failure);
}

static void add_node(const struct mmul_stage *stage, int64_t begin, int64_t end) {
    double *sum = vector_of(stage, 0);
    for (int rank = 1; rank < stage->comm->node_size; rank++) {
        const double *other = vector_of(stage, rank);
        for (int64_t i = begin; i < end; i++)
            sum[i] += other[i];
    }
}

bool mmul_sums_advance(struct mmul_sums_traffic *t, struct mmul_stage *stage) {
    const struct mmul_peers *leaders = &stage->rank_resources->transport.leaders;
    int round = (int)atomic_load(&stage->progress->sums_finished);
    if (t->is_under_way && !mmul_sum_is_over(leaders, &t->sum))
        return false;
    if (!t->is_under_way && !mmul_sums_are_contributed(stage, round))
        return false;
    t->begin = t->is_under_way ? t->begin + COUNT_MOST : find_round_begin(stage, round);
    int64_t end = mmul_min(t->begin + COUNT_MOST, stage->sums.ends[round]);
    t->is_under_way = t->begin < end;
    if (t->is_under_way) {
        add_node(stage, t->begin, end);
        mmul_sum_begin(leaders, vector_of(stage, 0) + t->begin, end - t->begin, &t->sum);
    } else {
        mmul_progress_raise(stage->rank_resources->progress, MMUL_TRAFFIC,
                            &stage->progress->sums_finished, round + 1, 0);
    }
    return true;
}

// ------------------------------------------------------------------------------ summands of a move

// Move of summands, and the layout of its lines.
struct lines {
    struct mmul_stage *stage;
    const struct mmul_values *values;
    struct mmul_move move;
    struct mmul_sum_lines sums;
};

static struct lines describe_lines(struct mmul_stage *stage) {
    const struct mmul_values *values = stage->rank_resources->values;
    struct lines l = {.stage = stage,
                      .values = values,
                      .move = mmul_program_step_move(values->plan, stage->is.step)};
    l.sums = mmul_program_sum_lines(&l.move);
    return l;
}

// Returns the index of a matrix's lines in the vector, for the part that a rank holds.
static int64_t find_line_index(const struct lines *l, int rank, int64_t matrix) {
    const int64_t part = l->sums.parts == 1 ? 0
                         : l->sums.by_cols  ? rank / l->move.to.col_parts
                                            : rank;
    return (part * l->sums.matrices + matrix) * l->sums.length;
}

enum {
    RUN = 512, // elements of a row at a time, which fit the first-level cache
    LANES = 8, // independent partial sums, so additions need not wait for each other
};

static void read_run(const struct mmul_view *view, int64_t i, int64_t j, int64_t count,
                     double to[static RUN]) {
    const void *from = mmul_view_element(view, i, j);
    const int64_t step = view->transposed ? view->ld : 1;
    if (view->dtype == MMUL_F64)
        for (int64_t e = 0; e < count; e++)
            to[e] = ((const double *)from)[e * step];
    else
        for (int64_t e = 0; e < count; e++)
            to[e] = (double)((const float *)from)[e * step];
}

// Adds the view's weighted elements of the region, and their sizes, to the sums of their lines.
static void add_lines(const struct lines *l, const struct mmul_view *view, struct mmul_region r,
                      double *restrict sums, double *restrict sizes) {
    for (int64_t i = r.row_begin; i < r.row_end; i++) {
        double x[RUN], sum[LANES] = {0}, size[LANES] = {0};
        const double row_weight = l->sums.by_cols ? mmul_move_sum_weight(i) : 1;
        for (int64_t j = r.col_begin, n; j < r.col_end; j += n) {
            n = mmul_min(RUN, r.col_end - j);
            read_run(view, i, j, n, x);
            for (int64_t e = 0; l->sums.by_cols && e < n; e++) {
                sums[j + e] += row_weight * x[e];
                sizes[j + e] += fabs(x[e]);
            }
            for (int64_t e = n; e % LANES != 0; e++)
                x[e] = 0;
            for (int64_t e = 0; !l->sums.by_cols && e < n; e += LANES)
                for (int lane = 0; lane < LANES; lane++) {
                    sum[lane] += mmul_move_sum_weight(j + e + lane) * x[e + lane];
                    size[lane] += fabs(x[e + lane]);
                }
        }
        for (int lane = 0; lane < LANES && !l->sums.by_cols; lane++) {
            sums[i] += sum[lane];
            sizes[i] += size[lane];
        }
    }
}

// Returns a rank's part of the result. Of copies only the first one counts.
static struct mmul_part_range find_result_part(const struct lines *l, int rank) {
    bool counts = mmul_placement_is_whole(l->move.to.kind)
                      ? rank == mmul_placement_first(&l->move.to)
                      : mmul_placement_copies(&l->move.to, rank).first == rank;
    return counts ? mmul_placement_part(&l->move.to, l->move.shape, rank)
                  : (struct mmul_part_range){0};
}

void mmul_move_sums_contribute(struct mmul_stage *stage) {
    const struct lines l = describe_lines(stage);
    double *mine = mmul_sums_own_vector(stage, 0);
    for (int rank = 0; rank < l.move.size; rank++) {
        const struct mmul_part_range part = find_result_part(&l, rank);
        for (int64_t t = part.matrix_begin; t < part.matrix_end; t++) {
            int64_t ignored, at = find_line_index(&l, rank, t);
            const struct mmul_view view =
                mmul_values_view(l.values, stage->is.step->operands[0], l.values->rank, t);
            if (view.at != NULL) // NULL: the rank has no summand
                add_lines(&l, &view,
                          mmul_placement_region(&l.move.to, l.move.shape, rank, t, &ignored),
                          mine + at, mine + l.sums.count + at);
        }
    }
    mmul_sums_publish(stage, 0);
}

static enum mmul_status fail_line(const struct lines *l, int64_t matrix, int64_t line,
                                  struct mmul_error *err) {
    const int result = l->stage->is.step->result;
    mmul_fail(err, MMUL_ERR_WRONG,
              "rank %d: sum over the ranks is wrong in %s %lld of matrix %lld of '%.90s'",
              l->values->rank, l->sums.by_cols ? "column" : "row", (long long)line,
              (long long)matrix, mmul_place_value(l->values->plan, result)->name);
    mmul_hint(err, "suspect the memory or the processor of that machine");
    return MMUL_ERR_WRONG;
}

static enum mmul_status look(struct mmul_verification *v, struct mmul_error *err) {
    const struct lines *l = v->block;
    struct mmul_stage *stage = l->stage;
    const double *sums = mmul_sums_wait(stage, 0);
    if (sums == NULL ||
        !mmul_stage_wait(stage, MMUL_TRAFFIC, &stage->progress->has_arrived, stage->is.panels,
                         &stage->rank_resources->mine.scatter_seconds, -1))
        return MMUL_OK; // another failure has ended the run
    const int rank = l->values->rank;
    const struct mmul_part_range part =
        mmul_placement_part(&l->move.to, l->move.shape, l->values->rank);
    const int64_t terms = l->sums.by_cols ? l->move.shape.rows : l->move.shape.cols;
    double *found = NULL;
    enum mmul_status status = MMUL_ALLOCATE(found, 2 * l->sums.length, "the check of sums", err);
    for (int64_t t = part.matrix_begin; status == MMUL_OK && t < part.matrix_end; t++) {
        const struct mmul_view view = mmul_values_view(l->values, stage->is.step->result, rank, t);
        const double *expected = sums + find_line_index(l, rank, t);
        const struct mmul_region r = view.region;
        int64_t begin = l->sums.by_cols ? r.col_begin : r.row_begin;
        int64_t end = l->sums.by_cols ? r.col_end : r.row_end;
        memset(found, 0, (size_t)(2 * l->sums.length) * sizeof *found);
        add_lines(l, &view, r, found, found + l->sums.length);
        v->lines += end - begin;
        v->rows += r.row_end - r.row_begin;
        v->cols = r.col_end - r.col_begin;
        for (int64_t i = begin; status == MMUL_OK && i < end; i++)
            if (!mmul_move_sum_is_right(found[i], expected[i], expected[l->sums.count + i],
                                        l->move.size, view.dtype, terms))
                status = fail_line(l, t, i, err);
    }
    mmul_free(found);
    mmul_progress_raise(stage->rank_resources->progress, stage->comm->node_rank,
                        &stage->progress->ranks[stage->comm->node_rank].checksums_compared, 1,
                        stage->is.due + 1);
    return status;
}

const struct mmul_check_method mmul_summand_check = {.look = look};

enum mmul_status mmul_move_sums_check(struct mmul_stage *stage, struct mmul_error *err) {
    const struct lines l = describe_lines(stage);
    struct mmul_verification v = {.block = &l};
    return mmul_stage_check(stage, MMUL_CHECK_SUMMANDS, &v, 0, err);
}

bool mmul_move_sums_are_checked(const struct mmul_stage *stage, mmul_reach *reach, void *context) {
    bool read = true;
    for (int i = 0; read && i < stage->comm->node_size; i++)
        read = reach(context, i, &stage->progress->ranks[i].checksums_compared, 1);
    return read;
}
