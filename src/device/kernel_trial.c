// SPDX-License-Identifier: MIT
// Measures OpenBLAS kernels in child processes. A child sets the environment and loads the library
// a second time, in a separate linker namespace, where it reads the environment again. Any process
// can do that, whatever its program. Each child takes the best of a few products, and the trials
// run in turns. The best turn counts, because single turns are slow on a busy machine.
#include "device/kernel_trial.h"

#include <cblas.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/text.h"

static const double CHILD_SECONDS = 6, PRODUCTS_SECONDS = 0.1, FIRST_TURN_SECONDS = 2;

enum { SIDE = 768, PRODUCTS = 3, TURNS = 2, TRIALS = 3 };

// Environment variables that OpenBLAS reads at its start and that change the speed of products. The
// first one selects the kernel set.
static const char *const variables[] = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE",
                                        "OPENBLAS_BLOCK_FACTOR"};

enum { VARIABLES = sizeof variables / sizeof variables[0] };

static enum mmul_vectors detect_cpu_vectors(void) {
#if defined(__x86_64__)
    const struct mmul_cpu_features features = {
        .avx = __builtin_cpu_supports("avx"),
        .avx2 = __builtin_cpu_supports("avx2"),
        .fma = __builtin_cpu_supports("fma"),
        .avx512f = __builtin_cpu_supports("avx512f"),
        .avx512dq = __builtin_cpu_supports("avx512dq"),
        .avx512bw = __builtin_cpu_supports("avx512bw"),
        .avx512vl = __builtin_cpu_supports("avx512vl"),
    };
    return mmul_cpu_vectors(&features);
#else
    return MMUL_VECTORS_UNKNOWN;
#endif
}

void mmul_kernels_identify(struct mmul_kernel_comparison *c) {
    *c = (struct mmul_kernel_comparison){.flops = 0};
    size_t length = 0;
    mmul_text_copy(c->kernels, sizeof c->kernels, openblas_get_corename());
    mmul_text_copy(c->vectors, sizeof c->vectors,
                   mmul_vectors_name(mmul_kernel_set_vectors(c->kernels)));
    mmul_text_copy(c->cpu_vectors, sizeof c->cpu_vectors, mmul_vectors_name(detect_cpu_vectors()));
    for (int v = 0; v < VARIABLES; v++) {
        const char *value = getenv(variables[v]);
        if (value != NULL && length < sizeof c->setting)
            length += (size_t)snprintf(c->setting + length, sizeof c->setting - length,
                                       "%s%s=%.31s", length > 0 ? " " : "", variables[v], value);
    }
    mmul_make_printable(c->kernels);
    mmul_make_printable(c->setting);
}

// ------------------------------------------------------------------------------------ in the child

struct trial {
    const char *library; // its path
    bool as_it_is;       // keeps the settings of this process
    const char *core;    // otherwise: these kernels; NULL: the library's own choice
};

struct outcome {
    char kernels[32];
    double flops;
};

static double time_products(__typeof__(&cblas_sgemm) gemm) {
    float *a = calloc(SIDE * SIDE, sizeof *a), *b = calloc(SIDE * SIDE, sizeof *b);
    float *c = calloc(SIDE * SIDE, sizeof *c); // all are freed with the process
    if (a == NULL || b == NULL || c == NULL)
        return 0;
    for (int i = 0; i < SIDE * SIDE; i++)
        a[i] = b[i] = (float)(i % 7 - 3);
    double best = 0, until = 0;
    for (int i = 0; i < PRODUCTS || mmul_clock_now() < until; i++) {
        const double begin = mmul_clock_now();
        gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, c,
             SIDE);
        const double seconds = mmul_clock_now() - begin;
        if (i == 0)
            until = begin + PRODUCTS_SECONDS; // warm-up
        else if (best <= 0 || seconds < best)
            best = seconds;
    }
    return best > 0 ? 2.0 * SIDE * SIDE * SIDE / best : 0;
}

static void try_kernels(const void *argument, void *result) {
    const struct trial *trial = argument;
    struct outcome *outcome = result;
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    for (int v = 0; !trial->as_it_is && v < VARIABLES; v++)
        unsetenv(variables[v]);
    if (trial->core != NULL)
        setenv(variables[0], trial->core, 1);
    void *library = dlmopen(LM_ID_NEWLM, trial->library, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
    // dlsym returns a function as void *; C has no conversion, hence the union.
    union {
        void *found;
        __typeof__(&openblas_get_corename) name;
        __typeof__(&cblas_sgemm) gemm;
    } name = {.found = dlsym(library, "openblas_get_corename")},
      gemm = {.found = dlsym(library, "cblas_sgemm")};
    if (name.found == NULL || gemm.found == NULL)
        return;
    mmul_text_copy(outcome->kernels, sizeof outcome->kernels, name.name());
    outcome->flops = time_products(gemm.gemm);
}

// ----------------------------------------------------------------------------------- in the parent

// Returns flops 0 if the child fails.
static struct outcome try_in_child(const struct trial *trial) {
    struct outcome outcome = {.flops = 0};
    struct mmul_child child;
    struct mmul_error ignored;
    int detail = 0;
    if (mmul_child_start(try_kernels, trial, sizeof outcome, &child, &ignored) == MMUL_OK &&
        mmul_child_finish(&child, mmul_clock_now() + CHILD_SECONDS, &outcome, &detail) !=
            MMUL_CHILD_DONE)
        outcome = (struct outcome){.flops = 0};
    return outcome;
}

// Returns the path of this process's OpenBLAS. NULL: it is linked into the program.
static const char *find_library(void) {
    union {
        __typeof__(&openblas_get_corename) function;
        void *address;
    } here = {.function = openblas_get_corename}, own = {.address = NULL};
    own.address = (void *)(uintptr_t)mmul_kernels_identify;
    Dl_info library, program;
    if (dladdr(here.address, &library) == 0 || dladdr(own.address, &program) == 0 ||
        library.dli_fbase == program.dli_fbase)
        return NULL;
    return library.dli_fname;
}

void mmul_kernels_compare(struct mmul_kernel_comparison *c) {
    mmul_kernels_identify(c);
    const char *library = find_library();
    if (!mmul_kernels_need_measurement(c) || library == NULL)
        return;
    const struct trial trials[TRIALS] = {
        {.library = library, .as_it_is = true},
        {.library = library},
        {.library = library, .core = mmul_kernel_set_for(detect_cpu_vectors())},
    };
    struct outcome best[TRIALS] = {{.flops = 0}};
    const double begin = mmul_clock_now();
    for (int i = 0; i < TURNS * TRIALS; i++) {
        if (i == TRIALS && mmul_clock_now() - begin > FIRST_TURN_SECONDS)
            break;
        const struct trial *trial = &trials[i % TRIALS];
        if (i % TRIALS == 2 && trial->core == NULL)
            continue;
        const struct outcome found = try_in_child(trial);
        if (found.flops > best[i % TRIALS].flops)
            best[i % TRIALS] = found;
    }
    c->flops = best[0].flops;
    // The library's own choice needs no setting, so that another set must be clearly better. The
    // setting in force is not reported as an alternative.
    char widest[sizeof c->other_setting] = "";
    if (best[2].flops > 0)
        snprintf(widest, sizeof widest, "%s=%s", variables[0], trials[2].core);
    const bool is_own = c->setting[0] == '\0', is_widest = strcmp(c->setting, widest) == 0;
    const int other =
        is_own || (!is_widest && best[1].flops < MMUL_KERNELS_SPEED_RATIO_LEAST * best[2].flops)
            ? 2
            : 1;
    mmul_text_copy(c->other, sizeof c->other, best[other].kernels);
    mmul_text_copy(c->other_setting, sizeof c->other_setting, other == 2 ? widest : "");
    c->other_flops = best[other].flops;
}
