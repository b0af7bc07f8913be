// SPDX-License-Identifier: MIT
// The cluster as data, and conclusions from its speeds. exec/setup/discover fills it in.
#include "model/cluster.h"

#include <string.h>

#include "base/memory.h"

enum mmul_status mmul_cluster_create(int size, int node_count, int device_count,
                                     struct mmul_cluster **cluster, struct mmul_error *err) {
    struct mmul_cluster *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "the cluster", err);
    if (status != MMUL_OK)
        return status;
    *made =
        (struct mmul_cluster){.size = size, .node_count = node_count, .device_count = device_count};
    status = MMUL_ALLOCATE_ALL("the cluster", err, MMUL_ARRAY(made->ranks, size),
                               MMUL_ARRAY(made->nodes, node_count),
                               MMUL_ARRAY(made->devices, device_count));
    if (status == MMUL_OK)
        *cluster = made;
    else
        mmul_cluster_destroy(made);
    return status;
}

void mmul_cluster_destroy(struct mmul_cluster *cluster) {
    if (cluster == NULL)
        return;
    MMUL_FREE_ALL(cluster->ranks, cluster->nodes, cluster->devices, cluster);
}

int mmul_cluster_next_rank(const struct mmul_cluster *cluster, int rank) {
    const struct mmul_rank_info *own = &cluster->ranks[rank];
    if (own->node_rank + 1 >= cluster->nodes[own->node].rank_count)
        return -1;
    for (int next = rank + 1; next < cluster->size; next++)
        if (cluster->ranks[next].node == own->node)
            return next;
    return -1;
}

// ------------------------------------------------------------------------------------------ speeds

const double *mmul_speed_rates(const struct mmul_speed *speed, enum mmul_dtype dtype) {
    return dtype == MMUL_F64 ? speed->double_flops : speed->flops;
}

double mmul_rank_flops(const struct mmul_rank_info *rank, enum mmul_dtype dtype) {
    return dtype == MMUL_F64 ? rank->speed.double_flops[MMUL_SPEED_POINTS - 1] : rank->speed_flops;
}

double mmul_rank_estimate_flops(const struct mmul_rank_info *rank, enum mmul_dtype dtype,
                                double assumed) {
    const double single = mmul_rank_flops(rank, MMUL_F32),
                 twofold = mmul_rank_flops(rank, MMUL_F64),
                 likely = single > 0    ? single
                          : twofold > 0 ? 2 * twofold
                                        : assumed;
    return dtype != MMUL_F64 ? likely : twofold > 0 ? twofold : likely / 2;
}

bool mmul_speed_has_types(const struct mmul_speed *speed, unsigned types) {
    return speed->origin != MMUL_SPEED_NONE && (!(types & 1U << MMUL_F32) || speed->flops[0] > 0) &&
           (!(types & 1U << MMUL_F64) || speed->double_flops[0] > 0);
}

bool mmul_speed_is_unstable(const struct mmul_speed *speed, enum mmul_dtype dtype) {
    const unsigned sizes = (1U << MMUL_SPEED_POINTS) - 1;
    return (speed->unstable >> (dtype == MMUL_F64 ? MMUL_UNSTABLE_DOUBLES : 0) & sizes) != 0;
}

bool mmul_cluster_has_speeds(const struct mmul_cluster *cluster, unsigned types) {
    bool has = true;
    for (int rank = 0; has && rank < cluster->size; rank++)
        has = mmul_speed_has_types(&cluster->ranks[rank].speed, types);
    return has;
}

// Adds a measured speed to a mean of so far `count` ones.
static void add_to_mean(double mean[static MMUL_SPEED_POINTS], int *points, int *count,
                        const double flops[static MMUL_SPEED_POINTS], int measured_points) {
    if (!(flops[0] > 0))
        return;
    if (++*count == 1 || measured_points < *points)
        *points = measured_points;
    for (int i = 0; i < MMUL_SPEED_POINTS; i++)
        mean[i] += (flops[i] - mean[i]) / *count;
}

struct mmul_speed mmul_speed_mean(const struct mmul_speed *speeds, int count) {
    struct mmul_speed mean = {.origin = speeds->origin};
    int singles = 0, doubles = 0;
    memcpy(mean.date, speeds->date, sizeof mean.date);
    for (int i = 0; i < count; i++) {
        const struct mmul_speed *s = &speeds[i];
        add_to_mean(mean.flops, &mean.measured_points, &singles, s->flops, s->measured_points);
        add_to_mean(mean.double_flops, &mean.double_points, &doubles, s->double_flops,
                    s->double_points);
        mean.upload_bytes_per_second += s->upload_bytes_per_second / count;
        mean.download_bytes_per_second += s->download_bytes_per_second / count;
        mean.warm_up_seconds += s->warm_up_seconds / count;
        mean.pack_a_seconds += s->pack_a_seconds / count;
        mean.pack_b_seconds += s->pack_b_seconds / count;
        mean.map_bytes_per_second += s->map_bytes_per_second / count;
        mean.check_bytes_per_second += s->check_bytes_per_second / count;
        if (i == 0 || s->send_seconds_per_byte > 0) { // the leader's values
            mean.send_seconds_per_byte = s->send_seconds_per_byte;
            mean.receive_seconds_per_byte = s->receive_seconds_per_byte;
            mean.duplex = s->duplex;
        }
        mean.unstable |= s->unstable;
    }
    return mean;
}

bool mmul_cluster_has_links(const struct mmul_cluster *cluster) {
    for (int node = 0; cluster->node_count > 1 && node < cluster->node_count; node++) {
        const struct mmul_node_info *info = &cluster->nodes[node];
        if (!(info->ring_link.bytes_per_second > 0) ||
            (node > 0 && !(info->root_link.bytes_per_second > 0)))
            return false;
    }
    return true;
}

char *mmul_cluster_speed_origin(const struct mmul_cluster *cluster, char text[static 96]) {
    static const char *const links[] = {"not measured", "measured now", "stored"};
    const char *oldest = NULL;
    int length;
    const bool single = mmul_cluster_has_speeds(cluster, 1U << MMUL_F32),
               twofold = mmul_cluster_has_speeds(cluster, 1U << MMUL_F64);
    bool single_unstable = false, double_unstable = false;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct mmul_speed *speed = &cluster->ranks[rank].speed;
        if (speed->origin == MMUL_SPEED_STORED &&
            (oldest == NULL || strcmp(speed->date, oldest) < 0))
            oldest = speed->date;
        single_unstable |= single && mmul_speed_is_unstable(speed, MMUL_F32);
        double_unstable |= twofold && mmul_speed_is_unstable(speed, MMUL_F64);
    }
    if (!single && !twofold)
        length = snprintf(text, 96, "not measured");
    else if (oldest == NULL)
        length = snprintf(text, 96, "measured now");
    else
        length = snprintf(text, 96, "stored profiles, measured %s", oldest);
    if (single_unstable || double_unstable)
        length += snprintf(text + length, 96 - (size_t)length, ", unstable%s",
                           !single || !twofold || single_unstable == double_unstable ? ""
                           : single_unstable                                         ? " in float32"
                                             : " in float64");
    if (cluster->node_count > 1)
        snprintf(text + length, 96 - (size_t)length, "; links %s",
                 links[cluster->nodes[0].links_origin]);
    return text;
}

void mmul_cluster_raise_speed(struct mmul_cluster *cluster, int rank, enum mmul_dtype dtype,
                              double flops_per_second) {
    struct mmul_rank_info *info = &cluster->ranks[rank];
    const double before = mmul_rank_flops(info, dtype);
    double *flops = dtype == MMUL_F64 ? info->speed.double_flops : info->speed.flops;
    if (!(before > 0) || !(flops_per_second > before))
        return;
    for (int i = 0; i < MMUL_SPEED_POINTS; i++)
        flops[i] *= flops_per_second / before;
    if (dtype != MMUL_F64)
        info->speed_flops = flops_per_second;
}
