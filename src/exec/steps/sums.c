// SPDX-License-Identifier: MIT
// Lays the vectors out, and carries them. What they mean is their readers' business.
#include "exec/steps/sums.h"

#include <string.h>

#include "base/integer.h"
#include "exec/steps/site.h"
#include "exec/steps/stage_work.h"

enum { COUNT_MOST = 1 << 24 }; // of one sum: MPI counts them in int

static int64_t begin_of(const struct mmul_stage *stage, int round) {
    return round > 0 ? stage->sums.ends[round - 1] : 0;
}

static double *vector_of(const struct mmul_stage *stage, int node_rank) {
    return (double *)(void *)stage->memory + node_rank * begin_of(stage, stage->sums.rounds);
}

double *mmul_sums_mine(const struct mmul_stage *stage, int round) {
    int64_t begin = begin_of(stage, round);
    double *mine = vector_of(stage, stage->comm->node_rank) + begin;
    memset(mine, 0, (size_t)(stage->sums.ends[round] - begin) * sizeof *mine);
    return mine;
}

// Gives it and waits until all have; NULL: the run was cancelled.
static const double *exchange(struct mmul_stage *stage, int round) {
    mmul_progress_raise(stage->site->progress, stage->comm->node_rank,
                        &stage->progress->ranks[stage->comm->node_rank].sums_given, round + 1,
                        stage->index + 1);
    if (!mmul_stage_wait_for_sums(stage, round))
        return NULL;
    return vector_of(stage, 0) + begin_of(stage, round);
}

enum mmul_status mmul_sums_check(struct mmul_stage *stage, const struct mmul_sums_check *check,
                                 struct mmul_error *err) {
    const double *sums[MMUL_SUMS_ROUNDS] = {NULL};
    for (int round = 0; round < stage->sums.rounds; round++) {
        check->give(stage, round, sums);
        sums[round] = exchange(stage, round);
        if (sums[round] == NULL)
            return MMUL_OK; // another failure has ended the run
    }
    return check->judge(stage, sums, err);
}

// ------------------------------------------------------------------------------------ the leader's

bool mmul_sums_are_over(const struct mmul_stage *stage) {
    return atomic_load(&stage->progress->sums_made) >= stage->sums.rounds;
}

bool mmul_sums_are_given(const struct mmul_stage *stage, int round) {
    bool given = true;
    for (int i = 0; i < stage->comm->node_size; i++)
        given = given && atomic_load(&stage->progress->ranks[i].sums_given) > round;
    return given || mmul_failure_is_void(&stage->site->failure);
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
    const struct mmul_peers *leaders = &stage->site->transport.leaders;
    int round = (int)atomic_load(&stage->progress->sums_made);
    if (t->is_under_way && !mmul_sum_is_over(leaders, &t->sum))
        return false;
    if (!t->is_under_way && !mmul_sums_are_given(stage, round))
        return false;
    t->begin = t->is_under_way ? t->begin + COUNT_MOST : begin_of(stage, round);
    int64_t end = mmul_smaller(t->begin + COUNT_MOST, stage->sums.ends[round]);
    t->is_under_way = t->begin < end;
    if (t->is_under_way) {
        add_node(stage, t->begin, end);
        mmul_sum_begin(leaders, vector_of(stage, 0) + t->begin, end - t->begin, &t->sum);
    } else {
        mmul_progress_raise(stage->site->progress, MMUL_TRAFFIC, &stage->progress->sums_made,
                            round + 1, 0);
    }
    return true;
}
