// SPDX-License-Identifier: MIT
// Bare cuBLAS: C = A B of one size on one NVIDIA card, operands in its memory, row-major; float32
// all through, no TF32.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "peer.h"

enum { RUNS_MAX = 1000 };

static const char usage[] = "cublas_sgemm PCI-ADDRESS|- M K N [RUNS [WARMUP]]";

static void must(int code, const char *what) {
    if (code == 0)
        return;
    fprintf(stderr, "cublas_sgemm: %s fails with %d\n", what, code);
    exit(69);
}

static float *send(int rows, int cols, uint64_t seed) {
    const size_t bytes = (size_t)rows * (size_t)cols * sizeof(float);
    float *host = peer_matrix(rows, cols, seed), *memory = NULL;
    must(cudaMalloc((void **)&memory, bytes), "allocating a matrix");
    must(cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice), "sending a matrix");
    free(host);
    return memory;
}

int main(int argc, char **argv) {
    const int m = peer_number(argc, argv, 2, 1, usage), k = peer_number(argc, argv, 3, 1, usage);
    const int n = peer_number(argc, argv, 4, 1, usage);
    const int runs = argc > 5 ? peer_number(argc, argv, 5, 1, usage) : 5;
    const int warmup = argc > 6 ? peer_number(argc, argv, 6, 0, usage) : 1;
    static double seconds[RUNS_MAX];
    const float one = 1, zero = 0;
    struct cudaDeviceProp card;
    cublasHandle_t blas;
    int device = 0, version = 0;
    if (runs > RUNS_MAX) {
        fprintf(stderr, "cublas_sgemm: more than %d runs\n", RUNS_MAX);
        return 64;
    }
    if (argv[1][0] != '-')
        must(cudaDeviceGetByPCIBusId(&device, argv[1]), "finding the card");
    must(cudaSetDevice(device), "opening the card");
    must(cudaGetDeviceProperties(&card, device), "asking the card's name");
    must(cublasCreate(&blas), "opening cuBLAS");
    must(cublasGetVersion(blas, &version), "asking the version");
    must(cublasSetMathMode(blas, CUBLAS_DEFAULT_MATH), "choosing float32");
    float *a = send(m, k, 1), *b = send(k, n, 2), *c = send(m, n, 3);
    // cuBLAS is column-major, so C' = B' A'.
    for (int r = -warmup; r < runs; r++) {
        double begin = peer_now();
        must(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, b, n, a, k, &zero, c, n),
             "multiplying");
        must(cudaDeviceSynchronize(), "waiting");
        if (r >= 0)
            seconds[r] = peer_now() - begin;
    }
    float last = 0;
    must(cudaMemcpy(&last, c + (size_t)m * (size_t)n - 1, sizeof last, cudaMemcpyDeviceToHost),
         "fetching an element");
    const bool is_right = last == peer_product(m - 1, n - 1, k);
    printf("{\"peer\": \"cuBLAS sgemm\", \"counted\": \"compute only\", \"m\": %d, \"k\": %d, "
           "\"n\": %d, \"device\": \"%s\", \"version\": %d, \"tf32\": false, \"right\": %s, ",
           m, k, n, card.name, version, is_right ? "true" : "false");
    peer_print_seconds(seconds, runs);
    printf("}\n");
    cudaFree(c);
    cudaFree(b);
    cudaFree(a);
    cublasDestroy(blas);
    return is_right ? 0 : 79;
}
