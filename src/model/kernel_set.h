// SPDX-License-Identifier: MIT
//
// Kernel sets of the CPU's library. OpenBLAS has a set of kernels for each kind of processor and
// chooses one when it is loaded: by the processor's model, or by OPENBLAS_CORETYPE. A model newer
// than the library may get a set for old processors, and a forgotten setting stays in force. Either
// way only a part of the processor is used. Pure: the vectors that a set uses and a processor has,
// and the measured loss.
#pragma once

#include "mpimatmul_local.h"

// Vectors, in rising order: each includes those above it.
enum mmul_vectors {
    MMUL_VECTORS_UNKNOWN, // set of another architecture, or of a later library
    MMUL_VECTORS_SSE,     // 128 bits
    MMUL_VECTORS_AVX,     // 256 bits
    MMUL_VECTORS_AVX2,    // with multiply-add
    MMUL_VECTORS_AVX512,  // 512 bits
};

// Returns "AVX-512"; "" for unknown ones.
const char *mmul_vectors_name(enum mmul_vectors vectors);

// Vectors offered by the processor and the system, with the names of cpuid.
struct mmul_cpu_features {
    bool avx, avx2, fma, avx512f, avx512dq, avx512bw, avx512vl;
};

// Returns the widest vectors that OpenBLAS has kernels for.
enum mmul_vectors mmul_cpu_vectors(const struct mmul_cpu_features *features);

// Returns the vectors of the set with this name in openblas_get_corename; case does not matter.
enum mmul_vectors mmul_kernel_set_vectors(const char *name);

// Returns the set that every processor with these vectors can run, as a value of OPENBLAS_CORETYPE;
// NULL: none.
const char *mmul_kernel_set_for(enum mmul_vectors vectors);

// The set in force in this process, and the best of the others.
struct mmul_kernel_comparison {
    char kernels[32]; // set in force: "Haswell"; "": not the CPU, or another library
    // Variables that choose it: "OPENBLAS_CORETYPE=Haswell OPENBLAS_L2_SIZE=512"; "": none.
    char setting[96];
    char vectors[16];       // vectors of the set: "AVX2"; "": not known
    char cpu_vectors[16];   // vectors of the processor
    double flops;           // float32 on one core; 0: not measured, for lack of a reason
    char other[32];         // fastest of the others; "": none was measured
    char other_setting[48]; // setting that selects it: "OPENBLAS_CORETYPE=SkylakeX"; "": nothing
    double other_flops;
};

// Speeds below this fraction of the other set's are reported. Two runs of the same kernels differ
// by half of the rest.
#define MMUL_KERNELS_SPEED_RATIO_LEAST 0.9

// Returns true if the processor has wider vectors than these kernels.
bool mmul_kernels_are_narrow(const struct mmul_kernel_comparison *c);

// Returns true if there is a reason to measure: kernels are forced, or narrower than the processor.
bool mmul_kernels_need_measurement(const struct mmul_kernel_comparison *c);

// Returns true if a loss of more than a tenth was measured. Always false for kernels that would be
// the same without the setting.
bool mmul_kernels_are_slower(const struct mmul_kernel_comparison *c);

// Returns true if mmul_kernels_compare had a reason to measure, but no result for one side: its
// child process ran out of time on a busy machine.
bool mmul_kernels_are_unmeasured(const struct mmul_kernel_comparison *c);

// Formats "OPENBLAS_CORETYPE=Haswell is set: 118 GFLOP/s on a core; without it 216 (Cooperlake)";
// for kernels that were not measured only the set in force, and that fact. Returns `text`.
char *mmul_kernels_describe(const struct mmul_kernel_comparison *c, char text[static 320]);

// Formats the command that fixes it: "unset OPENBLAS_CORETYPE". Returns `text`.
char *mmul_kernels_fix_command(const struct mmul_kernel_comparison *c, char text[static 160]);

// Formats "Haswell, OPENBLAS_CORETYPE=Haswell is set, not of AVX-512", for an opened device.
// Returns `text`.
char *mmul_kernels_format(const struct mmul_device_info *info, char text[static 192]);

// Formats the key of stored speeds: the set, and other settings that change its blocks ("Haswell
// OPENBLAS_L2_SIZE=512"). Returns `text`.
char *mmul_kernels_key(const struct mmul_device_info *info, char text[static 128]);
