// SPDX-License-Identifier: MIT
// COSMA's multiply on all ranks, operands and result in the layout that COSMA chooses. Only the
// call is timed, between barriers, on rank 0's clock. COSMA_OVERLAP_COMM_AND_COMP is COSMA's own
// variable. m, n or k names the side that is split between the ranks. Built if COSMA is given: make
// bench-peers COSMA=DIR, its installed folder.
#include <cosma/environment_variables.hpp>
#include <cosma/multiply.hpp>
#include <string>
#include <vector>

#include "peer.h"

static const char usage[] = "cosma_sgemm M K N [RUNS [WARMUP [m|n|k]]]";

using matrix = cosma::CosmaMatrix<float>;

static void fill(matrix &some, uint64_t seed) {
    for (size_t e = 0; e < some.matrix_size(); e++) {
        const auto place = some.global_coordinates((int)e);
        some.matrix_pointer()[e] = peer_element(seed, place.first, place.second);
    }
}

// By COSMA's own choice, or with one side split.
static cosma::Strategy make_strategy(int m, int k, int n, int ranks, const char *split) {
    const long long memory = cosma::get_cpu_max_memory<float>();
    const bool overlaps = cosma::get_overlap_comm_and_comp();
    if (split == nullptr)
        return cosma::Strategy(m, n, k, (size_t)ranks, memory, false, overlaps);
    std::vector<int> divisors = {ranks};
    std::string sides = split, types = "p";
    return cosma::Strategy(m, n, k, (size_t)ranks, divisors, sides, types, memory, false, overlaps);
}

static double multiply(matrix &a, matrix &b, matrix &c, const cosma::Strategy &strategy) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = peer_now();
    cosma::multiply(a, b, c, strategy, MPI_COMM_WORLD, 1.0f, 0.0f);
    MPI_Barrier(MPI_COMM_WORLD);
    return peer_now() - begin;
}

// Checks the last element of C on each rank.
static bool is_right(matrix &c, int k) {
    int right = 1, all = 0;
    if (c.matrix_size() > 0) {
        const auto place = c.global_coordinates((int)c.matrix_size() - 1);
        right = c.matrix_pointer()[c.matrix_size() - 1] ==
                peer_product(place.first, place.second, k);
    }
    MPI_Allreduce(&right, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all != 0;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int m = peer_number(argc, argv, 1, 1, usage), k = peer_number(argc, argv, 2, 1, usage);
    const int n = peer_number(argc, argv, 3, 1, usage);
    const int runs = argc > 4 ? peer_number(argc, argv, 4, 1, usage) : 5;
    const int warmup = argc > 5 ? peer_number(argc, argv, 5, 0, usage) : 1;
    bool right;
    {
        const cosma::Strategy strategy =
            make_strategy(m, k, n, ranks, argc > 6 ? argv[6] : nullptr);
        matrix a('A', strategy, rank), b('B', strategy, rank), c('C', strategy, rank);
        fill(a, 1);
        fill(b, 2);
        std::vector<double> seconds;
        for (int r = -warmup; r < runs; r++) {
            const double once = multiply(a, b, c, strategy);
            if (r >= 0)
                seconds.push_back(once);
        }
        right = is_right(c, k);
        if (rank == 0) {
            printf("{\"peer\": \"COSMA\", \"counted\": \"compute only, operands in place\", "
                   "\"m\": %d, \"k\": %d, \"n\": %d, \"overlap\": %s, \"split\": \"%s\", "
                   "\"right\": %s, ",
                   m, k, n, cosma::get_overlap_comm_and_comp() ? "true" : "false", strategy.split_dimension.c_str(),
                   right ? "true" : "false");
            peer_print_seconds(seconds.data(), runs);
            printf("}\n");
        }
    }
    MPI_Finalize();
    return right ? 0 : 79;
}
