// SPDX-License-Identifier: MIT
// A simulation as tables and JSON. They summarise ranks by kind, so they are short even for 4,096
// ranks.
#include <math.h>

#include "api/plan_output.h"
#include "base/json.h"
#include "base/text.h"
#include "plan/simulate/simulate.h"

// Sums over the ranks of one kind.
struct kind {
    int ranks, working;
    int64_t units, least, most;
    double compute, end; // longest computing time, last end
    const struct mmul_rank_info *info;
};

static struct kind sum_kind(const struct mmul_simulation *s, int index) {
    struct kind kind = {.least = INT64_MAX};
    for (int rank = 0; rank < s->schedule->size; rank++) {
        const struct mmul_schedule_rank *r = &mmul_schedule_ranks(s->schedule)[rank];
        int64_t units = r->end - r->begin;
        if (s->description->rank_kind[rank] != index)
            continue;
        kind.info = &s->description->cluster->ranks[rank];
        kind.ranks++;
        kind.working += units > 0;
        kind.units += units;
        kind.least = units < kind.least ? units : kind.least;
        kind.most = units > kind.most ? units : kind.most;
        kind.compute = fmax(kind.compute, r->compute_seconds);
        kind.end = fmax(kind.end, r->finish_seconds);
    }
    return kind;
}

static int working_ranks(const struct mmul_simulation *s) {
    int working = 0;
    for (int rank = 0; rank < s->schedule->size; rank++)
        working += mmul_schedule_ranks(s->schedule)[rank].end >
                   mmul_schedule_ranks(s->schedule)[rank].begin;
    return working;
}

// ------------------------------------------------------------------------------------------ tables

static void print_kinds(const struct mmul_simulation *s, FILE *stream) {
    struct mmul_text table = {0};
    mmul_text_add(&table, "device\tranks\tworking\t%s in all\tleast\tmost\tcompute\tend\n",
                  s->schedule->axis == MMUL_ROWS ? "rows" : "cols");
    for (int i = 0; i < s->description->kinds; i++) {
        struct kind kind = sum_kind(s, i);
        mmul_text_add(&table, "%s\t%d\t%d\t%lld\t%lld\t%lld\t%.3f s\t%.3f s\n",
                      kind.info->device_name, kind.ranks, kind.working, (long long)kind.units,
                      (long long)kind.least, (long long)kind.most, kind.compute, kind.end);
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}

static void print_totals(const struct mmul_simulation *s, FILE *stream) {
    const struct mmul_schedule *schedule = s->schedule;
    char bytes[32];
    int working = working_ranks(s);
    fprintf(stream, "predicted: %.3f s on %d of %d ranks; limit: %s\n", schedule->predicted_seconds,
            working, schedule->size, schedule->limits);
    fprintf(stream, "speed-up: %.2f against rank %d (%s) alone, %.3f s\n",
            s->best_alone_seconds / schedule->predicted_seconds, s->best_alone,
            s->description->cluster->ranks[s->best_alone].device_name, s->best_alone_seconds);
    fprintf(stream, "efficiency: %.1f %% of all devices at full speed, %.3f s\n",
            100 * s->ideal_seconds / schedule->predicted_seconds, s->ideal_seconds);
    fprintf(stream, "through root's link: %s\n", mmul_bytes_format(schedule->root_bytes, bytes));
    if (schedule->speed_hint[0] != '\0')
        fprintf(stream, "%s\n", schedule->speed_hint);
}

static void add_grid(struct mmul_text *table, const struct mmul_grid *g) {
    char bytes[32];
    mmul_text_add(table, "\t%d x %d x %d\t%s\t%.3f s", g->rows, g->cols, g->copies,
                  mmul_bytes_format((int64_t)g->bytes, bytes), g->seconds);
}

static void print_grids(const struct mmul_simulation *s, FILE *stream) {
    struct mmul_text table = {0};
    mmul_text_add(&table, "by formula\tnodes, operands in place\tbytes per node\tseconds\t"
                          "nodes, from root\tbytes per node\tseconds\n");
    for (int i = 0; i < MMUL_GRIDS; i++) {
        mmul_text_add(&table, "%s", s->grids[i].name);
        add_grid(&table, &s->grids[i].in_place);
        add_grid(&table, &s->grids[i].from_root);
        mmul_text_add(&table, "\n");
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}

void mmul_simulation_print(const struct mmul_simulation *simulation, FILE *stream) {
    mmul_schedule_print_heading(simulation->schedule, stream);
    print_kinds(simulation, stream);
    print_totals(simulation, stream);
    print_grids(simulation, stream);
}

// -------------------------------------------------------------------------------------------- JSON

static json_t *kinds_json(const struct mmul_simulation *s) {
    json_t *list = json_array();
    for (int i = 0; i < s->description->kinds; i++) {
        struct kind k = sum_kind(s, i);
        json_array_append_new(
            list, json_pack("{s:o, s:i, s:i, s:I, s:I, s:I, s:f, s:f}", "device",
                            mmul_json_from_text(k.info->device_name), "ranks", k.ranks, "working",
                            k.working, "units", (json_int_t)k.units, "least", (json_int_t)k.least,
                            "most", (json_int_t)k.most, "predicted_compute_seconds", k.compute,
                            "predicted_finish_seconds", k.end));
    }
    return list;
}

static json_t *grid_json(const struct mmul_grid *g) {
    return json_pack("{s:[i,i,i], s:f, s:f}", "grid", g->rows, g->cols, g->copies, "bytes_per_node",
                     g->bytes, "seconds", g->seconds);
}

static json_t *grids_json(const struct mmul_simulation *s) {
    json_t *list = json_array();
    for (int i = 0; i < MMUL_GRIDS; i++)
        json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "name", s->grids[i].name,
                                              "in_place", grid_json(&s->grids[i].in_place),
                                              "from_root", grid_json(&s->grids[i].from_root)));
    return list;
}

enum mmul_status mmul_simulation_json(const struct mmul_simulation *simulation, char **text,
                                      struct mmul_error *err) {
    const struct mmul_simulation *s = simulation;
    json_t *root =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:i, s:f, s:f, s:I, s:o, s:o, s:o}",
                  "schema", "mpimatmul-simulation", "schema_version", 1, "ranks", s->schedule->size,
                  "nodes", s->schedule->node_count, "working_ranks", working_ranks(s),
                  "predicted_seconds", s->schedule->predicted_seconds, "ideal_seconds",
                  s->ideal_seconds, "best_alone_seconds", s->best_alone_seconds, "best_alone",
                  s->best_alone, "speed_up", s->best_alone_seconds / s->schedule->predicted_seconds,
                  "efficiency", s->ideal_seconds / s->schedule->predicted_seconds,
                  "root_link_bytes", (json_int_t)s->schedule->root_bytes, "kinds", kinds_json(s),
                  "by_formula", grids_json(s), "plan", mmul_schedule_json(s->schedule));
    enum mmul_status status = mmul_json_format(root, text, err);
    json_decref(root);
    return status;
}
