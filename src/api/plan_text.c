// SPDX-License-Identifier: MIT
// The plan as tables for people, with predictions. Computes nothing. JSON is in plan_json.c.
#include "api/plan_output.h"

#include <math.h>

#include "base/text.h"
#include "plan/lists/tasks.h"
#include "plan/lists/transfers.h"

static const char *axis_name(const struct mmul_schedule *schedule) {
    return schedule->axis == MMUL_ROWS ? "rows" : "cols";
}

static double percent(const struct mmul_schedule *schedule, const struct mmul_schedule_rank *rank) {
    return 100.0 * (double)(rank->end - rank->begin) / (double)schedule->total;
}

// Prints "2 rounds of 16 panels of 512 columns of B".
static void print_cut(const struct mmul_schedule *schedule, FILE *stream) {
    bool rows = schedule->axis == MMUL_ROWS;
    int64_t panels = mmul_schedule_panels(schedule);
    fprintf(stream, "%lld round%s of %lld panel%s of %lld ", (long long)schedule->rounds,
            mmul_text_plural(schedule->rounds), (long long)panels, mmul_text_plural(panels),
            (long long)(schedule->panel_matrices > 1 ? schedule->panel_matrices
                                                     : schedule->panel_units));
    if (schedule->panel_matrices > 1)
        fprintf(stream, "matrices of %s", rows ? "B" : "A");
    else
        fprintf(stream, "%s%s of %s", rows ? "column" : "row",
                mmul_text_plural(schedule->panel_units), rows ? "B" : "A");
    if (schedule->claim_share > 0 && schedule->size > schedule->node_count)
        fprintf(stream, "; %.3g %% of a rank's part open to work stealing on its machine",
                100 * schedule->claim_share);
    fputc('\n', stream);
}

// Prints "C = A B", "C = -2 A^T B + 3 C": factors of one and terms of zero are not shown.
static void print_formula(const struct mmul_problem *p, FILE *stream) {
    char sum[3] = "";
    fputs("C =", stream);
    if (p->alpha != 0) {
        if (p->alpha == -1)
            fputs(" -", stream);
        else if (p->alpha != 1)
            fprintf(stream, " %g", (double)p->alpha);
        fprintf(stream, "%sA%s B%s", p->alpha == -1 ? "" : " ", p->transpose_a ? "^T" : "",
                p->transpose_b ? "^T" : "");
        snprintf(sum, sizeof sum, " %c", p->beta < 0 ? '-' : '+');
    }
    double beta = p->alpha != 0 ? fabs((double)p->beta) : (double)p->beta;
    if (beta == 1)
        fprintf(stream, "%s C", sum);
    else if (beta != 0)
        fprintf(stream, "%s %g C", sum, beta);
    else if (p->alpha == 0)
        fputs(" 0", stream);
}

void mmul_schedule_print_heading(const struct mmul_schedule *schedule, FILE *stream) {
    const struct mmul_problem *p = &schedule->problem;
    char shape[96], moved[2][32];
    print_formula(p, stream);
    fprintf(stream, ": %s x %s -> %s, m n k = %lld %lld %lld\n", p->a_name, p->b_name,
            mmul_shape_format(p->c, shape), (long long)p->m, (long long)p->n, (long long)p->k);
    fprintf(stream,
            "split by %s%s: operand bytes over the network %s by rows, %s by columns; whole "
            "operand: %s\n",
            axis_name(schedule), schedule->axis_chosen ? " (chosen)" : "",
            mmul_bytes_format(schedule->rows_bytes_moved, moved[0]),
            mmul_bytes_format(schedule->cols_bytes_moved, moved[1]),
            schedule->axis == MMUL_ROWS ? "B" : "A");
    print_cut(schedule, stream);
}

static void print_ranks(const struct mmul_schedule *schedule, FILE *stream) {
    struct mmul_text table = {0};
    char host[32], device[32];
    mmul_text_add(&table,
                  "rank\thost\tdevice\t%s\tshare\tpanels\ttile m x n x k\thost memory\t"
                  "device memory\tcompute\tend\tnote\n",
                  axis_name(schedule));
    for (int i = 0; i < schedule->size; i++) {
        const struct mmul_schedule_rank *r = &mmul_schedule_ranks(schedule)[i];
        mmul_text_add(&table, "%d\t%s\t%s\t%lld-%lld\t%.1f %%\t%lld\t%lld x %lld x %lld\t%s\t%s\t",
                      i, mmul_schedule_nodes(schedule)[r->node].host, r->device,
                      (long long)r->begin, (long long)r->end, percent(schedule, r),
                      (long long)mmul_schedule_passes_of(schedule, i), (long long)r->tile.m,
                      (long long)r->tile.n, (long long)r->tile.k,
                      mmul_bytes_format(r->host_bytes, host),
                      mmul_bytes_format(r->tile.device_bytes, device));
        if (r->compute_seconds > 0)
            mmul_text_add(&table, "%.3f s\t%.3f s\t%s\n", r->compute_seconds, r->finish_seconds,
                          r->why);
        else
            mmul_text_add(&table, "-\t-\t%s\n", r->why);
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}

// Lists the matrices used in place, and the number of panels of the rest in memory at once.
static const char *format_mapped(const struct mmul_schedule_node *node, char text[static 64]) {
    static const char *const names[] = {"A", "B", "C in", "C"};
    int used = 0;
    text[0] = '\0';
    for (int i = 0; i < 4; i++)
        if (node->maps & 1u << i)
            used += snprintf(text + used, (size_t)(64 - used), "%s%s", used > 0 ? ", " : "maps ",
                             names[i]);
    if (!node->whole_stays)
        snprintf(text + used, (size_t)(64 - used), "%s%lld panels at once", used > 0 ? "; " : "",
                 (long long)node->whole_slots);
    return text;
}

static void print_nodes(const struct mmul_schedule *schedule, FILE *stream) {
    struct mmul_text table = {0};
    char text[5][32], held[64];
    mmul_text_add(&table, "node\twhole operand\tpieces\tresult\tallocated\tover the network\t"
                          "may use\tnote\n");
    for (int i = 0; i < schedule->node_count; i++) {
        const struct mmul_schedule_node *n = &mmul_schedule_nodes(schedule)[i];
        mmul_text_add(&table, "%s\t%s\t%s\t%s\t%s\t%s\t", n->host,
                      mmul_bytes_format(n->whole_bytes, text[0]),
                      mmul_bytes_format(n->piece_bytes + n->c_in_bytes, text[1]),
                      mmul_bytes_format(n->result_bytes, text[2]),
                      mmul_bytes_format(n->segment_bytes + n->private_bytes, text[3]),
                      mmul_bytes_format(n->network_bytes, text[4]));
        mmul_text_add(&table, "%s\t%s\n", mmul_bytes_format(n->memory_bytes, text[0]),
                      format_mapped(n, held));
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}

void mmul_plan_print(const struct mmul_plan *plan, FILE *stream) {
    const struct mmul_schedule *schedule = plan->schedule;
    mmul_schedule_print_heading(schedule, stream);
    print_ranks(schedule, stream);
    print_nodes(schedule, stream);
    if (schedule->predicted_seconds > 0)
        fprintf(stream,
                "predicted: %.3f s (rank %d ends last: compute %.3f s, waiting for bytes %.3f s); "
                "limit: %s\n",
                schedule->predicted_seconds, schedule->last_rank, schedule->compute_seconds,
                schedule->waiting_seconds, schedule->limits);
    else
        fprintf(stream, "predicted: moving bytes %.3f s; device speeds not measured\n",
                schedule->transfer_seconds);
    if (schedule->speed_hint[0] != '\0')
        fprintf(stream, "%s\n", schedule->speed_hint);
}

// Lists every transfer of every node.

static void add_content(struct mmul_text *table, const struct mmul_schedule *schedule,
                        const struct mmul_transfer *t) {
    const char *names[] = {schedule->axis == MMUL_ROWS ? "A" : "B", "C in",
                           schedule->axis == MMUL_ROWS ? "B" : "A", "C"};
    bool of_round = (t->content == MMUL_CONTENT_PIECES || t->content == MMUL_CONTENT_C_IN);
    mmul_text_add(table, "%s of %s %lld\t", names[t->content], of_round ? "round" : "pass",
                  (long long)(of_round ? t->pass.round : t->pass.index));
}

static void add_wait(struct mmul_text *table, const struct mmul_count *count, const char *before) {
    static const char *const names[MMUL_COUNTERS] = {
        [MMUL_PASSES_DONE] = "passes done",
        [MMUL_ARRIVED_COUNTERS + MMUL_ROUTE_SCATTER] = "rounds sent",
        [MMUL_SENT_COUNTERS + MMUL_ROUTE_RELAY] = "passes sent"};
    if (count->value > 0)
        mmul_text_add(table, "%s%s %lld", before, names[count->counter], (long long)count->value);
}

// Names what a transfer adds to at its end: at root's end of scatter, relay and gather, and
// elsewhere.
static void add_reached(struct mmul_text *table, const struct mmul_schedule *schedule, int node,
                        const struct mmul_transfer *t) {
    static const char *const names[MMUL_ROUTES][2] = {
        [MMUL_ROUTE_SCATTER] = {"rounds loaded", "rounds sent"},
        [MMUL_ROUTE_RELAY] = {"passes loaded", NULL},
        [MMUL_ROUTE_GATHER] = {"results stored", "results gathered"},
        [MMUL_ROUTE_READ] = {"rounds loaded", "rounds loaded"},
        [MMUL_ROUTE_LOAD] = {"passes loaded", "passes loaded"},
        [MMUL_ROUTE_STORE] = {"results stored", "results stored"}};
    const bool is_relay = t->route == MMUL_ROUTE_RELAY;
    const char *name =
        is_relay && schedule->whole_is_distributed ? "relayed" : names[t->route][node == 0];
    if (name != NULL)
        mmul_text_add(table, "%s %lld", name, (long long)t->reached);
    if (is_relay)
        mmul_text_add(table, "%spasses sent %lld", name != NULL ? ", " : "", (long long)t->reached);
}

static void add_node(struct mmul_text *table, int node) {
    if (node < 0)
        mmul_text_add(table, "-\t");
    else
        mmul_text_add(table, "%d\t", node);
}

static void add_transfer(struct mmul_text *table, const struct mmul_schedule *schedule, int node,
                         const struct mmul_transfer *t) {
    static const char *const lines[MMUL_ROUTES] = {"scatter", "relay", "gather",
                                                   "read",    "load",  "store"};
    mmul_text_add(table, "%d\t%s\t", node, lines[t->route]);
    add_content(table, schedule, t);
    mmul_text_add(table, "%lld\t", (long long)t->bytes);
    if (t->slot >= 0)
        mmul_text_add(table, "%lld\t", (long long)t->slot);
    else
        mmul_text_add(table, "%s\t", t->in_place ? "mapped" : "-");
    add_node(table, t->from);
    add_node(table, t->to);
    add_wait(table, &t->waits[0], "");
    add_wait(table, &t->waits[1], ", ");
    mmul_text_add(table, t->waits[0].value == 0 ? "-\t" : "\t");
    add_reached(table, schedule, node, t);
    mmul_text_add(table, "\n");
}

void mmul_transfers_print(const struct mmul_schedule *schedule, FILE *stream) {
    struct mmul_text table = {0};
    struct mmul_transfer transfer;
    mmul_text_add(&table, "node\tline\ttransfer\tbytes\tslot\tfrom\tto\twaits for\tbrings\n");
    for (int node = 0; node < schedule->node_count; node++)
        for (int route = 0; route < MMUL_ROUTES; route++) {
            struct mmul_transfers t = mmul_transfers_make(schedule, node, (enum mmul_route)route);
            while (mmul_transfers_next(&t, &transfer))
                add_transfer(&table, schedule, node, &transfer);
        }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}

void mmul_plan_print_steps(const struct mmul_plan *plan, FILE *stream) {
    const struct mmul_schedule *schedule = plan->schedule;
    fputs("transfers\n", stream);
    mmul_transfers_print(schedule, stream);
    fputs("tasks\n", stream);
    mmul_tasks_print(schedule, stream);
}
