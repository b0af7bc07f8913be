// SPDX-License-Identifier: MIT
// Kernel sets of OpenBLAS: vector extension of each set and of described processors, detection of a
// doubtful choice, and messages for given measurements. Nothing is measured.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "model/kernel_set.h"

static void each_kernel_set_has_its_vectors(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum mmul_vectors vectors;
    } cases[] = {
        {"Prescott", MMUL_VECTORS_SSE},      {"Nehalem", MMUL_VECTORS_SSE},
        {"Barcelona", MMUL_VECTORS_SSE},     {"Sandybridge", MMUL_VECTORS_AVX},
        {"Bulldozer", MMUL_VECTORS_AVX},     {"Haswell", MMUL_VECTORS_AVX2},
        {"haswell", MMUL_VECTORS_AVX2},      {"Zen", MMUL_VECTORS_AVX2},
        {"Excavator", MMUL_VECTORS_AVX2},    {"SkylakeX", MMUL_VECTORS_AVX512},
        {"Cooperlake", MMUL_VECTORS_AVX512}, {"SapphireRapids", MMUL_VECTORS_AVX512},
        {"ARMV8", MMUL_VECTORS_UNKNOWN},     {"", MMUL_VECTORS_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(mmul_kernel_set_vectors(cases[i].name), cases[i].vectors);
    // The set advised for a processor uses exactly its vectors.
    for (enum mmul_vectors v = MMUL_VECTORS_SSE; v <= MMUL_VECTORS_AVX512; v++)
        assert_int_equal(mmul_kernel_set_vectors(mmul_kernel_set_for(v)), v);
    assert_null(mmul_kernel_set_for(MMUL_VECTORS_UNKNOWN));
}

static void processors_get_the_kernels_of_their_features(void **state) {
    (void)state;
    const struct {
        struct mmul_cpu_features features;
        const char *name;
    } cases[] = {
        {{.avx = false}, "SSE"},
        {{.avx = true}, "AVX"},
        {{.avx = true, .fma = true}, "AVX"},
        {{.avx = true, .avx2 = true}, "AVX"}, // a virtual machine that hides multiply-add
        {{.avx = true, .avx2 = true, .fma = true}, "AVX2"},
        {{.avx = true, .avx2 = true, .fma = true, .avx512f = true}, "AVX2"}, // Xeon Phi
        {{true, true, true, true, true, true, true}, "AVX-512"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(mmul_vectors_name(mmul_cpu_vectors(&cases[i].features)), cases[i].name);
}

static struct mmul_kernel_comparison make_choice(const char *kernels, const char *setting,
                                                 const char *cpu_vectors) {
    struct mmul_kernel_comparison c = {.flops = 0};
    strcpy(c.kernels, kernels);
    strcpy(c.setting, setting);
    strcpy(c.vectors, mmul_vectors_name(mmul_kernel_set_vectors(kernels)));
    strcpy(c.cpu_vectors, cpu_vectors);
    return c;
}

static const struct {
    const char *kernels, *setting, *cpu;
    double flops;
    const char *other, *other_setting;
    double other_flops;
    bool doubtful, narrow, lose;
    const char *text, *fix;
} measured[] = {
    {"SkylakeX", "", "AVX-512", 0, "", "", 0, false, false, false,
     "OpenBLAS takes its SkylakeX kernels", ""},
    {"Haswell", "", "AVX2", 0, "", "", 0, false, false, false, "OpenBLAS takes its Haswell kernels",
     ""},
    {"ARMV8", "", "", 0, "", "", 0, false, false, false, "OpenBLAS takes its ARMV8 kernels", ""},
    {"Haswell", "OPENBLAS_CORETYPE=Haswell", "AVX-512", 118e9, "Cooperlake", "", 216e9, true, true,
     true,
     "OPENBLAS_CORETYPE=Haswell is set: 118.0 GFLOP/s on a core; without it 216.0 (Cooperlake)",
     "unset OPENBLAS_CORETYPE"},
    {"Prescott", "", "AVX-512", 10e9, "SkylakeX", "OPENBLAS_CORETYPE=SkylakeX", 90e9, true, true,
     true,
     "OpenBLAS takes its Prescott kernels (SSE) for a processor with AVX-512: 10.0 GFLOP/s on "
     "a "
     "core; with OPENBLAS_CORETYPE=SkylakeX 90.0",
     "export OPENBLAS_CORETYPE=SkylakeX"},
    {"Nehalem", "OPENBLAS_CORETYPE=Nehalem OPENBLAS_L2_SIZE=512", "AVX2", 10e9, "Haswell",
     "OPENBLAS_CORETYPE=Haswell", 30e9, true, true, true,
     "OPENBLAS_CORETYPE=Nehalem OPENBLAS_L2_SIZE=512 are set: 10.0 GFLOP/s on a core; with "
     "OPENBLAS_CORETYPE=Haswell 30.0",
     "unset OPENBLAS_L2_SIZE; export OPENBLAS_CORETYPE=Haswell"},
    {"Zen", "OPENBLAS_L2_SIZE=64", "AVX2", 20e9, "Zen", "", 30e9, true, false, true,
     "OPENBLAS_L2_SIZE=64 is set: 20.0 GFLOP/s on a core; without it 30.0 (Zen)",
     "unset OPENBLAS_L2_SIZE"},
    // No finding: equal kernels, on a machine that was busy meanwhile; and a difference of a tenth.
    {"Zen", "OPENBLAS_CORETYPE=Zen", "AVX2", 20e9, "Zen", "", 30e9, true, false, false,
     "OPENBLAS_CORETYPE=Zen is set: 20.0 GFLOP/s on a core; without it 30.0 (Zen)",
     "unset OPENBLAS_CORETYPE"},
    {"Haswell", "OPENBLAS_CORETYPE=Haswell", "AVX-512", 91e9, "SkylakeX", "", 100e9, true, true,
     false, "OPENBLAS_CORETYPE=Haswell is set: 91.0 GFLOP/s on a core; without it 100.0 (SkylakeX)",
     "unset OPENBLAS_CORETYPE"},
    {"Haswell", "OPENBLAS_CORETYPE=Haswell", "AVX2", 91e9, "", "", 0, true, false, false,
     "OPENBLAS_CORETYPE=Haswell is set: 91.0 GFLOP/s on a core; others could not be measured",
     "unset OPENBLAS_CORETYPE"},
    // Trials that timed out: the current set's, then all.
    {"Haswell", "OPENBLAS_CORETYPE=Haswell", "AVX-512", 0, "Cooperlake", "", 216e9, true, true,
     false, "OPENBLAS_CORETYPE=Haswell is set: what that costs could not be measured",
     "unset OPENBLAS_CORETYPE"},
    {"Prescott", "", "AVX-512", 0, "", "", 0, true, true, false,
     "OpenBLAS takes its Prescott kernels (SSE) for a processor with AVX-512: what that costs "
     "could not be measured",
     ""},
};

static void measurements_give_their_message_and_remedy(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        struct mmul_kernel_comparison c =
            make_choice(measured[i].kernels, measured[i].setting, measured[i].cpu);
        char text[320], fix[160];
        c.flops = measured[i].flops;
        c.other_flops = measured[i].other_flops;
        strcpy(c.other, measured[i].other);
        strcpy(c.other_setting, measured[i].other_setting);
        assert_int_equal(mmul_kernels_need_measurement(&c), measured[i].doubtful);
        assert_int_equal(mmul_kernels_are_narrow(&c), measured[i].narrow);
        assert_int_equal(mmul_kernels_are_slower(&c), measured[i].lose);
        assert_int_equal(mmul_kernels_are_unmeasured(&c),
                         strstr(measured[i].text, " not be measured") != NULL);
        assert_string_equal(mmul_kernels_describe(&c, text), measured[i].text);
        assert_string_equal(mmul_kernels_fix_command(&c, fix), measured[i].fix);
    }
}

static void a_device_is_named_with_its_kernels(void **state) {
    (void)state;
    static const struct {
        const char *kernels, *setting, *lack, *name, *key;
    } cases[] = {
        {"", "", "", "", ""}, // a card
        {"SkylakeX", "", "", "SkylakeX", "SkylakeX"},
        {"Prescott", "", "AVX-512", "Prescott, not of this processor's AVX-512", "Prescott"},
        {"Haswell", "OPENBLAS_CORETYPE=haswell", "AVX-512",
         "Haswell, OPENBLAS_CORETYPE=haswell is set, not of this processor's AVX-512", "Haswell"},
        {"Zen", "OPENBLAS_L2_SIZE=512", "", "Zen, OPENBLAS_L2_SIZE=512 is set",
         "Zen OPENBLAS_L2_SIZE=512"},
        {"Haswell", "OPENBLAS_CORETYPE=Haswell OPENBLAS_L2_SIZE=512", "",
         "Haswell, OPENBLAS_CORETYPE=Haswell OPENBLAS_L2_SIZE=512 are set",
         "Haswell OPENBLAS_L2_SIZE=512"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_device_info info = {.id = "cpu"};
        char name[192], key[128];
        strcpy(info.kernels, cases[i].kernels);
        strcpy(info.kernels_setting, cases[i].setting);
        strcpy(info.kernels_unused_vectors, cases[i].lack);
        assert_string_equal(mmul_kernels_format(&info, name), cases[i].name);
        assert_string_equal(mmul_kernels_key(&info, key), cases[i].key);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kernel_set_has_its_vectors),
        cmocka_unit_test(processors_get_the_kernels_of_their_features),
        cmocka_unit_test(measurements_give_their_message_and_remedy),
        cmocka_unit_test(a_device_is_named_with_its_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
