// SPDX-License-Identifier: MIT
// Helpers of the programs here: arguments, a clock, matrices, and the printed line.
//
// Each program prints one line of JSON on standard output: its computation and the seconds of every
// counted run, in order.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double peer_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Returns argv[place] as a number of at least `least`; ends the program otherwise.
static inline int peer_number(int argc, char **argv, int place, int least, const char *usage) {
    char *end = NULL;
    long value = place < argc ? strtol(argv[place], &end, 10) : 0;
    if (place < argc && end != argv[place] && *end == '\0' && value >= least && value <= INT32_MAX)
        return (int)value;
    fprintf(stderr, "usage: %s\n", usage);
    exit(64);
}

// Element (i, j) of matrix `seed`: whole numbers from -4 to 4, so that float sums are exact.
static inline float peer_element(uint64_t seed, int64_t i, int64_t j) {
    uint64_t x = seed * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)i * UINT64_C(0xBF58476D1CE4E5B9) +
                 (uint64_t)j * UINT64_C(0x94D049BB133111EB);
    x ^= x >> 29;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    return (float)(int)((x >> 40) % 9) - 4;
}

// Element (i, j) of the product of matrices 1 and 2.
static inline float peer_product(int64_t i, int64_t j, int k) {
    double sum = 0;
    for (int p = 0; p < k; p++)
        sum += (double)peer_element(1, i, p) * (double)peer_element(2, p, j);
    return (float)sum;
}

static inline void *peer_allocate(size_t count) {
    void *memory = calloc(count > 0 ? count : 1, sizeof(float));
    if (memory != NULL)
        return memory;
    fprintf(stderr, "no memory for %zu elements\n", count);
    exit(71);
}

// Allocates a matrix of peer_element, without gaps; freed by the caller.
static inline float *peer_matrix(int rows, int cols, uint64_t seed) {
    float *matrix = (float *)peer_allocate((size_t)rows * (size_t)cols);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            matrix[i * cols + j] = peer_element(seed, i, j);
    return matrix;
}

static inline void peer_print_seconds(const double *seconds, int runs) {
    printf("\"seconds\": [");
    for (int r = 0; r < runs; r++)
        printf("%s%.9f", r > 0 ? ", " : "", seconds[r]);
    printf("]");
}
