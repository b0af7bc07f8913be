// SPDX-License-Identifier: MIT
// Predicts the seconds of the final schedule, its limiting part, and if the job would be faster
// without some ranks. Does not change the shares.
#include "plan/product/schedule_planning.h"

#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "model/matrix.h"

enum { REMOVALS = 8 };
static const double WORTH_SAYING = 0.95; // share of the planned seconds

// -------------------------------------------------------------------------------------- prediction

// Returns the seconds of root's files. A mapped file costs nothing to read, and its first touch to
// write.
static double file_seconds(const struct mmul_planning *p) {
    const struct mmul_problem *problem = &p->schedule->problem;
    unsigned maps = p->maps[p->root_node];
    double read = 0,
           written = mmul_shape_data_bytes(problem->c, mmul_problem_result_dtype(problem));
    if (problem->alpha != 0 && !(maps & MMUL_MAPS_A))
        read += mmul_shape_data_bytes(problem->a, problem->a_dtype);
    if (problem->alpha != 0 && !(maps & MMUL_MAPS_B))
        read += mmul_shape_data_bytes(problem->b, problem->b_dtype);
    if (p->request->value_maps & MMUL_MAPS_C)
        written = 0;
    return read / MMUL_FILE_BYTES_PER_SECOND + written * (maps & MMUL_MAPS_C
                                                              ? MMUL_FIRST_TOUCH_SECONDS_PER_BYTE
                                                              : 1 / MMUL_FILE_BYTES_PER_SECOND);
}

// Returns the node with the slowest link in use; -1: none.
static int slowest_link(const struct mmul_planning *p) {
    int slowest = -1;
    double rate = 0;
    for (int node = 0; node < p->schedule->node_count; node++) {
        double own = mmul_cost_root_link(p->request->cluster, node).bytes_per_second;
        if (node == p->root_node || p->nodes[node].network_bytes == 0)
            continue;
        if (slowest < 0 || own < rate) {
            slowest = node;
            rate = own;
        }
    }
    return slowest;
}

// Names the limiting part. Compute time is that of the rank that ends last.
static void name_limit(struct mmul_planning *p, double files) {
    struct mmul_schedule *schedule = p->schedule;
    int last = schedule->last_rank, link = slowest_link(p);
    double network = p->replay->root_out_seconds + p->replay->root_in_seconds;
    double compute = p->speeds_known ? p->replay->ranks[last].compute_seconds : 0;
    if (compute >= 0.7 * p->replay->seconds && compute > 0) {
        snprintf(schedule->limits, sizeof schedule->limits, "compute on rank %d (%.40s)", last,
                 p->ranks[last].device);
    } else if (link >= 0 && network > files) {
        bool measured = p->request->cluster->nodes[link].root_link.bytes_per_second > 0;
        double rate = mmul_cost_root_link(p->request->cluster, link).bytes_per_second;
        snprintf(schedule->limits, sizeof schedule->limits, "network, %.3g Gbit/s %s%.40s",
                 rate * 8e-9, measured ? "to " : "assumed", measured ? p->nodes[link].host : "");
    } else {
        snprintf(schedule->limits, sizeof schedule->limits, "reading and writing files");
    }
}

// Returns the rank that ends last in the latest walk of the lists; -1: no rank has units.
static int find_last_rank(const struct mmul_planning *p) {
    const struct mmul_replay_rank *ranks = p->replay->ranks;
    int last = -1;
    for (int rank = 0; rank < p->schedule->size; rank++)
        if (ranks[rank].finish > 0 && (last < 0 || ranks[rank].finish > ranks[last].finish))
            last = rank;
    return last;
}

// Takes the seconds of the rank that ends last: it computes, and waits for bytes the rest of the
// time.
static void predict_whole(struct mmul_planning *p) {
    struct mmul_schedule *schedule = p->schedule;
    int last = find_last_rank(p);
    if (last < 0)
        return;
    for (int rank = 0; rank < schedule->size; rank++) {
        p->ranks[rank].compute_seconds = p->replay->ranks[rank].compute_seconds;
        p->ranks[rank].finish_seconds = p->replay->ranks[rank].finish;
    }
    schedule->predicted_seconds = p->replay->seconds;
    schedule->compute_seconds = p->replay->ranks[last].compute_seconds;
    schedule->waiting_seconds = schedule->predicted_seconds - schedule->compute_seconds;
    schedule->last_rank = last;
}

// Returns the bytes through root's link. A panel crosses it once, for all nodes.
static int64_t root_bytes(const struct mmul_planning *p) {
    const struct mmul_schedule *schedule = p->schedule;
    int64_t bytes = 0, panels = 0, most = 0;
    for (int i = 0; i < schedule->node_count; i++) {
        const struct mmul_schedule_node *node = &p->nodes[i];
        int64_t panel_sends = node->whole_stays ? 1 : schedule->rounds;
        bool takes =
            node->network_bytes > 0 && !(node->maps & mmul_maps_whole_operand(schedule->axis));
        int64_t its = takes ? panel_sends * node->whole_bytes : 0;
        bytes += node->network_bytes - its;
        panels += its;
        most = mmul_max(most, takes ? panel_sends : 0);
    }
    return bytes + mmul_min(panels, most * p->whole_bytes);
}

// ------------------------------------------------------------------------------------------ advice

// Formats like "4.1", "260", "0.041".
static char *format_seconds(double seconds, char text[static 32]) {
    snprintf(text, 32, "%.*f", seconds >= 100 ? 0 : seconds >= 1 ? 1 : 3, seconds);
    return text;
}

static void write_advice(struct mmul_planning *p, const bool *out, double seconds, double against) {
    char ranks[64], text[2][32];
    snprintf(p->schedule->speed_hint, sizeof p->schedule->speed_hint,
             "faster without %s: %s s against %s s",
             mmul_ranks_format(out, p->schedule->size, ranks), format_seconds(seconds, text[0]),
             format_seconds(against, text[1]));
}

// Work space of one search with given weights.
struct advice {
    struct mmul_planning *p;
    double *weights;
    bool *in, *out, *best_out;
    double best;
};

// Returns the seconds without the ranks in a->out; 0: the others cannot hold the work.
static double seconds_without_ranks(struct advice *a) {
    struct mmul_planning *p = a->p;
    struct mmul_candidate *rest = &p->trial;
    struct mmul_error ignored;
    for (int rank = 0; rank < p->schedule->size; rank++) {
        a->in[rank] = !a->out[rank] && p->everybody[rank];
        a->weights[rank] = a->in[rank] ? p->weights[rank] : 0;
    }
    rest->in = a->in;
    bool fits = mmul_planning_compute_capacity(p, rest) >= (double)p->schedule->total &&
                mmul_planning_share(p, a->weights, &ignored) == MMUL_OK &&
                mmul_planning_replay(p, &ignored) == MMUL_OK;
    return fits ? rest->seconds : 0;
}

// Takes out a rank, or all ranks of its node, and returns the seconds.
static double take_out_ranks(struct advice *a, int last, bool whole_node) {
    for (int rank = 0; rank < a->p->schedule->size; rank++)
        if (rank == last || (whole_node && a->p->rank_node[rank] == a->p->rank_node[last]))
            a->out[rank] = true;
    double seconds = seconds_without_ranks(a);
    if (seconds > 0 && seconds < a->best) {
        a->best = seconds;
        memcpy(a->best_out, a->out, (size_t)a->p->schedule->size * sizeof *a->out);
    }
    return seconds;
}

// Removes the rank that ends last, first alone, then with its node, a few times.
static void search_removals(struct advice *a) {
    double planned = seconds_without_ranks(a); // with all ranks
    a->best = planned;
    for (int i = 0; i < REMOVALS; i++) {
        int last = find_last_rank(a->p);
        if (last < 0 || !(take_out_ranks(a, last, false) > 0))
            break;
        if (a->p->rank_node[last] != a->p->root_node && !(take_out_ranks(a, last, true) > 0))
            break;
    }
    if (a->best < WORTH_SAYING * planned)
        write_advice(a->p, a->best_out, a->best, planned);
}

// Advises on given weights. They stay as given, but may slow the job.
static enum mmul_status advise_removals(struct mmul_planning *p, struct mmul_error *err) {
    struct advice a = {.p = p};
    int size = p->schedule->size;
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("ranks", err, MMUL_ARRAY(a.weights, size), MMUL_ARRAY(a.in, size),
                          MMUL_ARRAY(a.out, size), MMUL_ARRAY(a.best_out, size));
    if (status == MMUL_OK)
        search_removals(&a);
    MMUL_FREE_ALL(a.weights, a.in, a.out, a.best_out);
    return status;
}

// Reports the ranks that were left out of automatic shares.
static enum mmul_status report_left_out(struct mmul_planning *p, struct mmul_error *err) {
    bool *out = NULL, any = false;
    enum mmul_status status = MMUL_ALLOCATE(out, p->schedule->size, "ranks", err);
    for (int rank = 0; status == MMUL_OK && rank < p->schedule->size; rank++) {
        out[rank] = p->absence[rank] != MMUL_NOT_EXCLUDED &&
                    p->absence[rank] != MMUL_EXCLUDED_SPEED_UNKNOWN;
        any = any || out[rank];
    }
    if (any && p->best.seconds < WORTH_SAYING * p->all_seconds)
        write_advice(p, out, p->best.seconds, p->all_seconds);
    mmul_free(out);
    return status;
}

enum mmul_status mmul_planning_predict(struct mmul_planning *p, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    mmul_planning_copy(p, &p->best, &p->trial);
    mmul_cost_set(p->cost, &p->trial.cut);
    if (p->automatic)
        status = report_left_out(p, err);
    else if (p->speeds_known && p->schedule->size > 1)
        status = advise_removals(p, err);
    mmul_planning_copy(p, &p->best, &p->trial);
    if (status == MMUL_OK)
        status = mmul_planning_replay(p, err);
    if (status != MMUL_OK)
        return status;
    const double files = file_seconds(p);
    p->schedule->link_bytes_per_second = MMUL_LINK_BYTES_PER_SECOND;
    p->schedule->transfer_seconds =
        p->replay->root_out_seconds + p->replay->root_in_seconds + files;
    p->schedule->root_bytes = root_bytes(p);
    if (p->speeds_known)
        predict_whole(p);
    name_limit(p, files);
    return MMUL_OK;
}
