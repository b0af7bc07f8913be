// SPDX-License-Identifier: MIT
// Bare OpenBLAS: C = A B of one size on some threads, operands in memory, row-major.
#include <cblas.h>
#include <string.h>

#include "peer.h"

enum { RUNS_MAX = 1000 };

static const char usage[] = "sgemm M K N THREADS [RUNS [WARMUP [gate]]]";

// Prints that the counted runs may begin and waits for a line, so that several programs can begin
// together.
static void wait_at_gate(void) {
    printf("ready\n");
    fflush(stdout);
    for (int c = getchar(); c != '\n' && c != EOF; c = getchar())
        continue;
}

int main(int argc, char **argv) {
    const int m = peer_number(argc, argv, 1, 1, usage), k = peer_number(argc, argv, 2, 1, usage);
    const int n = peer_number(argc, argv, 3, 1, usage);
    const int threads = peer_number(argc, argv, 4, 1, usage);
    const int runs = argc > 5 ? peer_number(argc, argv, 5, 1, usage) : 5;
    const int warmup = argc > 6 ? peer_number(argc, argv, 6, 0, usage) : 1;
    static double seconds[RUNS_MAX];
    if (runs > RUNS_MAX) {
        fprintf(stderr, "sgemm: more than %d runs\n", RUNS_MAX);
        return 64;
    }
    float *a = peer_matrix(m, k, 1), *b = peer_matrix(k, n, 2);
    float *c = peer_allocate((size_t)m * (size_t)n);
    memset(c, 1, sizeof *c * (size_t)m * (size_t)n);
    openblas_set_num_threads(threads);
    const bool has_gate = argc > 7 && strcmp(argv[7], "gate") == 0;
    for (int r = -warmup; r < runs; r++) {
        if (r == 0 && has_gate)
            wait_at_gate();
        double begin = peer_now();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
        if (r >= 0)
            seconds[r] = peer_now() - begin;
    }
    const bool is_right = c[(size_t)m * (size_t)n - 1] == peer_product(m - 1, n - 1, k);
    printf("{\"peer\": \"OpenBLAS sgemm\", \"counted\": \"compute only\", \"m\": %d, \"k\": %d, "
           "\"n\": %d, \"threads\": %d, \"config\": \"%s\", \"right\": %s, ",
           m, k, n, threads, openblas_get_config(), is_right ? "true" : "false");
    peer_print_seconds(seconds, runs);
    printf("}\n");
    free(c);
    free(b);
    free(a);
    return is_right ? 0 : 79;
}
