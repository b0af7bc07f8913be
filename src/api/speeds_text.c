// SPDX-License-Identifier: MIT
// Measured speeds as tables and as JSON.
#include <math.h>
#include <string.h>

#include "api/texts.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/rates.h"

// ------------------------------------------------------------------------------------------ tables

static void add_rates(struct mmul_text *table, const struct mmul_speed *speed) {
    for (int i = 0; i < MMUL_SPEED_POINTS; i++)
        if (i < speed->measured_points)
            mmul_text_add(table, "%.1f\t", speed->flops[i] * 1e-9);
        else
            mmul_text_add(table, "-\t");
    if (speed->double_points > 0)
        mmul_text_add(table, "%.1f\t", speed->double_flops[speed->double_points - 1] * 1e-9);
    else
        mmul_text_add(table, "-\t");
    const double transfers[] = {speed->upload_bytes_per_second, speed->download_bytes_per_second};
    for (int i = 0; i < 2; i++)
        if (transfers[i] > 0)
            mmul_text_add(table, "%.2f\t", transfers[i] * 1e-9);
        else
            mmul_text_add(table, "-\t");
}

// Prints devices in 120 columns, without the facts that `devices` shows.
static void print_devices(const struct mmul_cluster *cluster, FILE *stream) {
    struct mmul_text table = {0};
    char memory[32];
    mmul_text_add(&table, "rank\thost\tdevice\tthreads\t");
    for (int i = 0; i < MMUL_SPEED_POINTS; i++)
        mmul_text_add(&table, "%s%d\t", i == 0 ? "GFLOP/s " : "", MMUL_SPEED_SMALLEST << i);
    mmul_text_add(&table, "f64\tup GB/s\tdown\twarm-up s\tmemory\n");
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct mmul_rank_info *r = &cluster->ranks[rank];
        mmul_text_add(&table, "%d\t%s\t%s\t%d\t", rank, r->host, r->device_name, r->threads);
        add_rates(&table, &r->speed);
        mmul_text_add(&table, "%.3f\t%s\n", r->speed.warm_up_seconds,
                      mmul_bytes_format(r->device.memory_bytes, memory));
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}

// "unstable: rank 1 on gpu07 at 4096, transfers"
static void print_unstable(const struct mmul_cluster *cluster, FILE *stream) {
    bool any = false;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct mmul_rank_info *r = &cluster->ranks[rank];
        if (r->speed.unstable == 0)
            continue;
        fprintf(stream, "unstable: rank %d on %s at", rank, r->host);
        for (int i = 0; i < MMUL_SPEED_POINTS; i++)
            if ((r->speed.unstable & 1U << i) != 0)
                fprintf(stream, " %d", MMUL_SPEED_SMALLEST << i);
        for (int i = 0; i < MMUL_SPEED_POINTS; i++)
            if ((r->speed.unstable & 1U << i << MMUL_UNSTABLE_DOUBLES) != 0)
                fprintf(stream, " %d (float64)", MMUL_SPEED_SMALLEST << i);
        fputs((r->speed.unstable & MMUL_UNSTABLE_TRANSFERS) != 0 ? " transfers\n" : "\n", stream);
        any = true;
    }
    if (any)
        fputs("repeated, these times did not agree, or a size stayed slower than a smaller one: "
              "calibrate on idle machines\n",
              stream);
}

static void add_link(struct mmul_text *table, const struct mmul_link *link) {
    if (link->bytes_per_second > 0)
        mmul_text_add(table, "\t%.3f\t%.0f", link->bytes_per_second * 8e-9,
                      link->latency_seconds * 1e6);
    else
        mmul_text_add(table, "\t-\t-");
}

static void add_cost(struct mmul_text *table, double seconds_per_byte) {
    if (seconds_per_byte > 0)
        mmul_text_add(table, "\t%.2f", seconds_per_byte * 1e9);
    else
        mmul_text_add(table, "\t-");
}

static void print_links(const struct mmul_cluster *cluster, FILE *stream) {
    struct mmul_text table = {0};
    mmul_text_add(&table,
                  "node\tto root Gbit/s\tus\tto next\tGbit/s\tus\tCPU ns/B out\tin\tboth ways\n");
    for (int node = 0; node < cluster->node_count; node++) {
        const struct mmul_node_info *n = &cluster->nodes[node];
        mmul_text_add(&table, "%s", n->host);
        add_link(&table, &n->root_link);
        mmul_text_add(&table, "\t%s", cluster->nodes[(node + 1) % cluster->node_count].host);
        add_link(&table, &n->ring_link);
        add_cost(&table, cluster->ranks[n->leader].speed.send_seconds_per_byte);
        add_cost(&table, cluster->ranks[n->leader].speed.receive_seconds_per_byte);
        add_cost(&table, 1e-9 * cluster->ranks[n->leader].speed.duplex);
        mmul_text_add(&table, "\n");
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}

void mmul_cluster_print_speeds(const struct mmul_cluster *cluster, FILE *stream) {
    print_devices(cluster, stream);
    print_unstable(cluster, stream);
    fputc('\n', stream);
    if (cluster->node_count > 1)
        print_links(cluster, stream);
    else
        fputs("one node: no links to measure\n", stream);
    mmul_cluster_print_kernels(cluster, true, stream);
    for (int node = 0; node < cluster->node_count; node++)
        if (cluster->nodes[node].profile[0] != '\0')
            fprintf(stream, "profile of %s: %s\n", cluster->nodes[node].host,
                    cluster->nodes[node].profile);
}

// -------------------------------------------------------------------------------------------- JSON

static json_t *rank_json(const struct mmul_cluster *cluster, int rank) {
    const struct mmul_rank_info *r = &cluster->ranks[rank];
    const struct mmul_speed *s = &r->speed;
    return json_pack(
        "{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:i, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o, s:o, s:f, s:s}",
        "rank", rank, "host", r->host, "device", mmul_json_from_text(r->device_name), "device_name",
        mmul_json_from_text(r->device.name), "kernels", mmul_json_from_text(r->device.kernels),
        "kernels_setting", mmul_json_from_text(r->device.kernels_setting), "kernels_lack",
        mmul_json_from_text(r->device.kernels_unused_vectors), "threads", r->threads,
        "memory_bytes", (json_int_t)r->device.memory_bytes, "gemm",
        mmul_rates_json(s->flops, s->measured_points, MMUL_SPEED_SMALLEST, s->unstable),
        "gemm_float64",
        mmul_rates_json(s->double_flops, s->double_points, MMUL_SPEED_SMALLEST,
                        s->unstable >> MMUL_UNSTABLE_DOUBLES),
        "upload_bytes_per_second", mmul_rate_json(s->upload_bytes_per_second),
        "download_bytes_per_second", mmul_rate_json(s->download_bytes_per_second),
        "send_seconds_per_byte", mmul_rate_json(s->send_seconds_per_byte),
        "receive_seconds_per_byte", mmul_rate_json(s->receive_seconds_per_byte), "duplex",
        mmul_rate_json(s->duplex), "pack_a_seconds", mmul_rate_json(s->pack_a_seconds),
        "pack_b_seconds", mmul_rate_json(s->pack_b_seconds), "map_bytes_per_second",
        mmul_rate_json(s->map_bytes_per_second), "check_bytes_per_second",
        mmul_rate_json(s->check_bytes_per_second), "warm_up_seconds", s->warm_up_seconds,
        "measured_at", s->date);
}

static json_t *link_json(const struct mmul_link *link) {
    if (!(link->bytes_per_second > 0))
        return json_null();
    return json_pack("{s:f, s:f}", "bytes_per_second", link->bytes_per_second, "latency_seconds",
                     link->latency_seconds);
}

static json_t *node_json(const struct mmul_node_info *n) {
    return json_pack("{s:s, s:o, s:o, s:o}", "host", n->host, "root_link", link_json(&n->root_link),
                     "ring_link", link_json(&n->ring_link), "profile",
                     mmul_json_from_text(n->profile));
}

enum mmul_status mmul_cluster_speeds_json(const struct mmul_cluster *cluster, char **text,
                                          struct mmul_error *err) {
    json_t *ranks = json_array(), *nodes = json_array();
    for (int i = 0; i < cluster->size; i++)
        json_array_append_new(ranks, rank_json(cluster, i));
    for (int i = 0; i < cluster->node_count; i++)
        json_array_append_new(nodes, node_json(&cluster->nodes[i]));
    json_t *root =
        json_pack("{s:s, s:i, s:s, s:o, s:o}", "schema", "mpimatmul-calibration", "schema_version",
                  1, "version", MMUL_VERSION, "ranks", ranks, "nodes", nodes);
    enum mmul_status status = mmul_json_format(root, text, err);
    json_decref(root);
    return status;
}
