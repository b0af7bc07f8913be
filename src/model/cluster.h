// SPDX-License-Identifier: MIT
//
// The second noun: what the ranks found when they looked around. Made by exec/setup/discover on all
// ranks alike; a unit test makes one by hand. Ranks of one node need not be consecutive.
#pragma once

#include "mpimatmul_local.h"

enum mmul_speed_origin { MMUL_SPEED_NONE, MMUL_SPEED_MEASURED, MMUL_SPEED_STORED };

// What was measured of a device: gemm rates of cubes of side MMUL_SPEED_SMALLEST << i, and the
// rates of its own transfers. 0: not measured, or (transfers) works in host memory, (traffic) does not.
enum { MMUL_SPEED_POINTS = 5, MMUL_SPEED_SMALLEST = 256 };
#define MMUL_UNSTABLE_TRANSFERS (1U << MMUL_SPEED_POINTS)
#define MMUL_UNSTABLE_DOUBLES   (MMUL_SPEED_POINTS + 1) // places that their bits are higher
struct mmul_speed {
    double flops[MMUL_SPEED_POINTS];        // per second, in float32
    int measured_points;                    // the rates behind these repeat the last of them
    double double_flops[MMUL_SPEED_POINTS]; // the same in float64, which a device may not have
    int double_points;
    double upload_bytes_per_second, download_bytes_per_second;
    double warm_up_seconds;
    double pack_a_seconds, pack_b_seconds; // per element, each time a product reads it: what its
                                           // library spends on bringing it into its own order
    double map_bytes_per_second,
        check_bytes_per_second; // that operations on elements, and the check, read and write in host memory, by all of
                                // the rank's threads
    double send_seconds_per_byte, receive_seconds_per_byte; // of a leader that computes on the CPU:
                                                            // what traffic keeps it from computing
    double duplex;     // of a leader: of a link's rate is left when it carries as much both ways
    unsigned unstable; // a bit per size: repeated, its times did not agree; one for transfers; then
                       // one per size of float64
    enum mmul_speed_origin origin; // by this process, or from the node's profile
    char date[24];                 // of the measurement: "2026-01-31T12:00:00Z"
};

// The network between a node's leader and another one, the slower of its directions. 0: not
// measured.
struct mmul_link {
    double bytes_per_second, latency_seconds;
};

// Which matrices the ranks of a node can use where they lie: files they map, or memory.
enum mmul_maps { MMUL_MAPS_A = 1, MMUL_MAPS_B = 2, MMUL_MAPS_C_IN = 4, MMUL_MAPS_C = 8 };

// The flag of the operand that is cut along `axis`, and of the whole one.
static inline unsigned mmul_maps_split(enum mmul_axis axis) {
    return axis == MMUL_ROWS ? MMUL_MAPS_A : MMUL_MAPS_B;
}

static inline unsigned mmul_maps_whole(enum mmul_axis axis) {
    return axis == MMUL_ROWS ? MMUL_MAPS_B : MMUL_MAPS_A;
}

// One rank. Plain data: sent as bytes.
struct mmul_rank_info {
    int node;      // index into nodes
    int node_rank; // among the ranks of the node, by rank
    char host[64];
    char device_name[128]; // what mmul_device_open is given
    struct mmul_device_info device;
    bool host_memory;        // the device multiplies float32 where it lies: no tiles, no copies
    bool is_trusted;         // no samples are made again of what the device makes (device/device.h)
    int device_index;        // in the cluster's devices; -1: not one of them
    int threads;             // of a CPU rank; 1 for others
    int64_t cache_bytes;     // of second caches, a core's part; 0: not known
    int64_t all_cache_bytes; // of the machine's third caches; 0: not known
    char cores[64];          // "0-3": bound to these; "" when not bound
    bool bound_by_user;
    int64_t process_bytes; // resident before the job, what is shared divided among the node's ranks
    char note[128];        // "shares the CPU with ranks 1 and 2"; "" when nothing to say
    double listed_weight;  // from --device @FILE; negative: none
    double speed_flops;    // measured float32 gemm rate per second; 0: not measured
    struct mmul_speed speed; // the same by size, and more; speed_flops is the last rate of `flops`
    char speed_unused
        [224]; // why the one that is stored for this device was not used; "": nothing to say
};

struct mmul_node_info {
    char host[64];
    int leader; // its lowest rank
    int rank_count;
    int packages, numa_nodes, cores, cores_allowed;
    int64_t memory_bytes, memory_available_bytes;
    int64_t
        input_bytes; // of that, what the job's inputs have taken since: root's (io/matrix_file.h: held)
    struct mmul_link root_link; // with root's node; unused for root's own
    struct mmul_link ring_link; // with the next node
    enum mmul_speed_origin links_origin;
    char profile[512]; // where `calibrate` stored its profile; "" when it did not
    bool
        launcher_loads_drivers; // mpirun loads every OpenCL driver here: HWLOC_COMPONENTS is not set
};

// A device of a node, used or not.
struct mmul_device_entry {
    int node;
    struct mmul_device_info info;
    int used_by;      // lowest rank using it; -1: unused, and info.reason says why
    bool failed_test; // and `auto` leaves it alone for that
};

struct mmul_cluster {
    int size, node_count, device_count;
    struct mmul_rank_info *ranks;      // size, owned
    struct mmul_node_info *nodes;      // node_count, owned
    struct mmul_device_entry *devices; // device_count, owned
};

enum mmul_status mmul_cluster_create(int size, int node_count, int device_count,
                                     struct mmul_cluster **cluster, struct mmul_error *err);
void mmul_cluster_destroy(struct mmul_cluster *cluster);

// The next rank of the same node; -1: it was the last one. From nodes[].leader on, all of them.
int mmul_cluster_next_rank(const struct mmul_cluster *cluster, int rank);

// Products are computed in float32 or in float64: rates by size, and the last of them; 0: not measured.
const double *mmul_speed_rates(const struct mmul_speed *speed, enum mmul_dtype dtype);
double mmul_rank_flops(const struct mmul_rank_info *rank, enum mmul_dtype dtype);

// Is there a rate of every one of these types (a bit per type, 1 << MMUL_F32)? Did times of that type not agree?
bool mmul_speed_has(const struct mmul_speed *speed, unsigned types);
bool mmul_speed_is_unstable(const struct mmul_speed *speed, enum mmul_dtype dtype);

// Of devices that are alike: the mean of each type over those that have it, as far as all of these measured it;
// unstable where one is. The date, the origin and, where others have none, what traffic costs are the first one's.
struct mmul_speed mmul_speed_mean(const struct mmul_speed *speeds, int count);

// Where that is not measured, what follows from the other type's rate, float64 being half as fast; else `assumed`,
// in float32.
double mmul_rank_likely_flops(const struct mmul_rank_info *rank, enum mmul_dtype dtype,
                              double assumed);

// Whether every rank's speed in these types (a bit per type, 1 << MMUL_F32), and every node's links, are known.
bool mmul_cluster_has_speeds(const struct mmul_cluster *cluster, unsigned types);
bool mmul_cluster_has_links(const struct mmul_cluster *cluster);

// The rank has computed faster than it was measured to be, which happens when the machine was busy
// then: all its rates in that type are raised in proportion. Slower ones change nothing.
void mmul_cluster_raise_speed(struct mmul_cluster *cluster, int rank, enum mmul_dtype dtype,
                              double flops_per_second);

// "stored profiles, measured 2026-01-31T12:00:00Z" (the oldest), "measured now" or "not measured";
// then ", unstable" where sizes are, and in which type where the other one is known and is not; of several nodes
// also "; links stored", "; links measured now" or "; links not measured".
// Returns `text`.
char *mmul_cluster_speed_origin(const struct mmul_cluster *cluster, char text[static 96]);
