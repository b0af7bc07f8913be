// SPDX-License-Identifier: MIT
//
// The cluster, the second noun: the machines, devices and ranks of a job. exec/setup/discover makes
// it on all ranks alike; a unit test makes one by hand. Ranks of one node need not be consecutive.
#pragma once

#include "mpimatmul_local.h"

enum mmul_speed_origin { MMUL_SPEED_NONE, MMUL_SPEED_MEASURED, MMUL_SPEED_STORED };

// Measured speeds of a device: gemm rates of cubes of side MMUL_SPEED_SMALLEST << i, and the rates
// of its own transfers. 0: not measured, or (transfers) works in host memory, (traffic) has no
// effect.
enum { MMUL_SPEED_POINTS = 5, MMUL_SPEED_SMALLEST = 256 };
#define MMUL_UNSTABLE_TRANSFERS (1U << MMUL_SPEED_POINTS)
#define MMUL_UNSTABLE_DOUBLES   (MMUL_SPEED_POINTS + 1) // shift of the bits of float64
struct mmul_speed {
    double flops[MMUL_SPEED_POINTS];        // per second, in float32
    int measured_points;                    // rates beyond these repeat the last of them
    double double_flops[MMUL_SPEED_POINTS]; // per second, in float64, which a device may not have
    int double_points;
    double upload_bytes_per_second, download_bytes_per_second;
    double warm_up_seconds;
    // Seconds per element each time a product reads it, for the library to pack it into its own
    // order.
    double pack_a_seconds, pack_b_seconds;
    double map_bytes_per_second,
        // Rates in host memory, by all of the rank's threads, of operations on elements and of the
        // check.
        check_bytes_per_second;
    // Computing time that traffic takes from a leader that computes on the CPU.
    double send_seconds_per_byte, receive_seconds_per_byte;
    // fraction of a link's rate that remains to a leader with equal traffic both ways
    double duplex;
    // A bit per size with repeated times that did not agree; one for transfers; then one per size
    // of float64.
    unsigned unstable;
    enum mmul_speed_origin origin; // measured by this process, or from the node's profile
    char date[24];                 // time of the measurement: "2026-01-31T12:00:00Z"
};

// Network between a node's leader and another leader, in the slower direction. 0: not measured.
struct mmul_link {
    double bytes_per_second, latency_seconds;
};

// Matrices that the ranks of a node use in place: files they map, or memory.
enum mmul_maps { MMUL_MAPS_A = 1, MMUL_MAPS_B = 2, MMUL_MAPS_C_IN = 4, MMUL_MAPS_C = 8 };

// Return the flag of the operand that is cut along `axis`, and of the whole one.
static inline unsigned mmul_maps_split_operand(enum mmul_axis axis) {
    return axis == MMUL_ROWS ? MMUL_MAPS_A : MMUL_MAPS_B;
}

static inline unsigned mmul_maps_whole_operand(enum mmul_axis axis) {
    return axis == MMUL_ROWS ? MMUL_MAPS_B : MMUL_MAPS_A;
}

// One rank. Plain data: sent as bytes.
struct mmul_rank_info {
    int node;      // index into nodes
    int node_rank; // index among the ranks of the node, by rank
    char host[64];
    char device_name[128]; // name for mmul_device_open
    struct mmul_device_info device;
    bool host_memory;        // the device multiplies float32 in host memory: no tiles, no copies
    bool is_trusted;         // samples of its results are not computed again (device/device.h)
    int device_index;        // index into the cluster's devices; -1: not one of them
    int threads;             // threads of a CPU rank; 1 for others
    int64_t cache_bytes;     // a core's part of second-level caches; 0: not known
    int64_t all_cache_bytes; // the machine's third-level caches; 0: not known
    char cores[64];          // bound cores, "0-3"; "" if not bound
    bool bound_by_user;
    // resident before the job; shared memory is divided among the node's ranks
    int64_t process_bytes;
    char note[128];          // "shares the CPU with ranks 1 and 2"; "": none
    double listed_weight;    // from --device @FILE; negative: none
    double speed_flops;      // measured float32 gemm rate per second; 0: not measured
    struct mmul_speed speed; // speeds by size, and more; speed_flops is the last rate of `flops`
    // reason for not using the stored speed of this device; "": none
    char speed_unused[224];
};

struct mmul_node_info {
    char host[64];
    int leader; // its lowest rank
    int rank_count;
    int packages, numa_nodes, cores, cores_allowed;
    int64_t memory_bytes, memory_available_bytes;
    // Part of that memory that the job's inputs have taken since; root's (io/matrix_file.h: held).
    int64_t input_bytes;
    struct mmul_link root_link; // link to root's node; unused for root's own
    struct mmul_link ring_link; // link to the next node
    enum mmul_speed_origin links_origin;
    char profile[512]; // path of the profile stored by `calibrate`; "" if not stored
    // mpirun loads every OpenCL driver here: HWLOC_COMPONENTS is not set
    bool launcher_loads_drivers;
};

// A device of a node, used or not.
struct mmul_device_entry {
    int node;
    struct mmul_device_info info;
    int used_by;      // lowest rank using it; -1: unused, and info.reason says why
    bool failed_test; // `auto` does not choose it because of a failed test
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

// Returns the next rank of the same node; -1: no more. From nodes[].leader on, this visits all of
// them.
int mmul_cluster_next_rank(const struct mmul_cluster *cluster, int rank);

// Return the rates by size, and the last of them, in float32 or float64; 0: not measured.
const double *mmul_speed_rates(const struct mmul_speed *speed, enum mmul_dtype dtype);
double mmul_rank_flops(const struct mmul_rank_info *rank, enum mmul_dtype dtype);

// Return true if all these types (a bit per type, 1 << MMUL_F32) have a rate, and if repeated times
// in one type did not agree.
bool mmul_speed_has_types(const struct mmul_speed *speed, unsigned types);
bool mmul_speed_is_unstable(const struct mmul_speed *speed, enum mmul_dtype dtype);

// Returns the mean speed of equal devices: each type's over those that have it, up to the sizes
// that all of them measured; unstable if one is. The date, the origin and, if no later one has any,
// the costs of traffic are those of the first.
struct mmul_speed mmul_speed_mean(const struct mmul_speed *speeds, int count);

// Returns the rank's rate or an estimate: from the other type's rate, with float64 half as fast;
// else `assumed`, which is for float32.
double mmul_rank_estimate_flops(const struct mmul_rank_info *rank, enum mmul_dtype dtype,
                                double assumed);

// Return true if every rank's speed in these types (a bit per type, 1 << MMUL_F32), or every node's
// links, are known.
bool mmul_cluster_has_speeds(const struct mmul_cluster *cluster, unsigned types);
bool mmul_cluster_has_links(const struct mmul_cluster *cluster);

// Corrects a speed of a rank that has computed faster than measured, because the machine was busy
// then: raises all its rates in that type in proportion. A slower rate changes nothing.
void mmul_cluster_raise_speed(struct mmul_cluster *cluster, int rank, enum mmul_dtype dtype,
                              double flops_per_second);

// Formats the origin of the speeds: "stored profiles, measured 2026-01-31T12:00:00Z" (the oldest),
// "measured now" or "not measured". Appends ", unstable" if sizes are, and names that type if the
// other one is known and stable. For several nodes appends "; links stored", "; links measured now"
// or "; links not measured". Returns `text`.
char *mmul_cluster_speed_origin(const struct mmul_cluster *cluster, char text[static 96]);
