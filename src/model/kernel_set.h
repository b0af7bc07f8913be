// SPDX-License-Identifier: MIT
//
// The kernels that the CPU's library computes with. OpenBLAS has a set of them for each kind of processor and chooses
// one when it is loaded: by the processor's model, or as OPENBLAS_CORETYPE says. A model that is newer than the library
// may get one for old processors, and a setting that somebody made once stays: either way a part of the processor
// is all that is used. Pure: which vectors a set uses, which a processor has, and what is lost by how much.
#pragma once

#include "mpimatmul_local.h"

// Each has all that are above it.
enum mmul_vectors {
    MMUL_VECTORS_UNKNOWN, // of another architecture, or of a later library
    MMUL_VECTORS_SSE,     // 128 bits
    MMUL_VECTORS_AVX,     // 256 bits
    MMUL_VECTORS_AVX2,    // with multiply-add
    MMUL_VECTORS_AVX512,  // 512 bits
};

// "AVX-512"; "" of unknown ones.
const char *mmul_vectors_name(enum mmul_vectors vectors);

// What a processor and its system offer, as cpuid names it.
struct mmul_cpu_features {
    bool avx, avx2, fma, avx512f, avx512dq, avx512bw, avx512vl;
};

// The widest that OpenBLAS has kernels for.
enum mmul_vectors mmul_cpu_vectors(const struct mmul_cpu_features *features);

// Of the set as openblas_get_corename names it; the case of letters does not matter.
enum mmul_vectors mmul_kernel_set_vectors(const char *name);

// The set that every processor with these vectors can run, as OPENBLAS_CORETYPE names it; NULL: none.
const char *mmul_kernel_set_for(enum mmul_vectors vectors);

// What is in force in this process, and the best of what else there is.
struct mmul_kernel_comparison {
    char kernels[32]; // in force: "Haswell"; "": not the CPU, or another library
    char setting
        [96]; // variables that say so: "OPENBLAS_CORETYPE=Haswell OPENBLAS_L2_SIZE=512"; "": none
    char vectors[16];       // of them: "AVX2"; "": not known
    char cpu_vectors[16];   // of the processor
    double flops;           // float32 on one core; 0: not measured, as there was no reason to
    char other[32];         // the fastest of the others; "": none was measured
    char other_setting[48]; // what has to be set for it: "OPENBLAS_CORETYPE=SkylakeX"; "": nothing
    double other_flops;
};

// A lower speed than this part of the other's is worth a word: two runs of the same kernels differ by half of that.
#define MMUL_KERNELS_GOOD 0.9

// Has the processor wider vectors than these kernels?
bool mmul_kernels_are_narrow(const struct mmul_kernel_comparison *c);

// Is there a reason to measure: are kernels forced, or narrower than the processor?
bool mmul_kernels_are_doubtful(const struct mmul_kernel_comparison *c);

// Was it measured that more than a tenth is lost? Of kernels that would be the same without the setting nothing is,
// whatever was measured.
bool mmul_kernels_lose(const struct mmul_kernel_comparison *c);

// Of what mmul_kernels_compare returned: was there a reason to measure, and no result of one side? A child runs out of
// time on a machine that is busy.
bool mmul_kernels_are_unmeasured(const struct mmul_kernel_comparison *c);

// "OPENBLAS_CORETYPE=Haswell is set: 118 GFLOP/s on a core; without it 216 (Cooperlake)". Of kernels that were not
// measured only what is in force, and that. Returns `text`.
char *mmul_kernels_describe(const struct mmul_kernel_comparison *c, char text[static 320]);

// The command that mends it: "unset OPENBLAS_CORETYPE". Returns `text`.
char *mmul_kernels_mend(const struct mmul_kernel_comparison *c, char text[static 160]);

// "Haswell, OPENBLAS_CORETYPE=Haswell is set, not of AVX-512": of a device that has been opened. Returns `text`.
char *mmul_kernels_name(const struct mmul_device_info *info, char text[static 192]);

// What a stored speed depends on: the set, and other settings that change its blocks ("Haswell OPENBLAS_L2_SIZE=512").
// Returns `text`.
char *mmul_kernels_key(const struct mmul_device_info *info, char text[static 128]);
