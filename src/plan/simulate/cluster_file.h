// SPDX-License-Identifier: MIT
//
// A job on machines that need not exist, described in JSON:
//
//     {
//       "about": "any text",
//       "problem": {"m": 65536, "n": 65536, "k": 65536, "dtype": "float32"},
//       "nodes": [
//         {"count": 16, "name": "big", "link_gbit": 10, "latency_us": 50, "memory_gib": 64,
//          "cores": 32, "maps_files": false,
//          "ranks": [
//            {"count": 2, "device": "gpu", "name": "Radeon VII", "gflops": 9000, "memory_gib": 16,
//             "upload_gb": 12, "download_gb": 12},
//            {"device": "cpu", "gflops": [700, 900, 1000, 1050, 1100], "threads": 30}]}
//       ]
//     }
//
// The first rank of the first node is root. Rates are per second; a gb is 1e9 bytes. `gflops` is
// one number, or one per cube of side 256, 512, 1024, 2048, 4096. Defaults and meanings:
//   dtype       float32 (float16, bfloat16, float64)   type of A and B
//   count       1                             number of nodes, or of ranks on each of them
//   name        "node", the device            nodes are numbered
//   link_gbit   assumed as elsewhere          between the node and root's, and with its neighbours
//   latency_us  assumed as elsewhere
//   cores       0: all busy                   more than the threads of CPU ranks: some are idle
//   maps_files  true for the first node only
//   device      "cpu" or "gpu"                required
//   host_memory true for "cpu"                the device works in host memory
//   threads     the cores, else 1             threads of a CPU rank
//   memory_gib  of the node, for a cpu        required for nodes, and devices with their own memory
//   gflops_float64   half of gflops           one number, or one per cube
//   upload_gb, download_gb: 12, for devices with their own memory
#pragma once

#include "base/json.h"
#include "model/cluster.h"
#include "model/problem.h"

struct mmul_description {
    struct mmul_problem problem;
    struct mmul_cluster *cluster; // owned
    unsigned *node_maps;          // owned
    int *rank_kind;               // owned: entry of `kinds` of each rank
    int kinds;                    // entries of `ranks` in all groups
};

// Reads a description. `path` names the file in errors; `value` is borrowed. Fails with
// MMUL_ERR_DATA: a key that is missing, unknown, or of the wrong type or range; more than 65,536
// ranks.
enum mmul_status mmul_description_create(const json_t *value, const char *path,
                                         struct mmul_description **description,
                                         struct mmul_error *err);
void mmul_description_destroy(struct mmul_description *description);
