// SPDX-License-Identifier: MIT
// Table of the kernel sets of OpenBLAS, and their descriptions. Measures nothing
// (device/kernel_trial does) and reads no environment.
#include "model/kernel_set.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"

// Sets of driver/others/dynamic.c of OpenBLAS 0.3 for x86-64. Sets for processors with wider
// vectors than their kernels use (Barcelona, Bulldozer) are listed by the kernels.
static const struct {
    const char *name;
    enum mmul_vectors vectors;
} sets[] = {
    {"Katmai", MMUL_VECTORS_SSE},        {"Coppermine", MMUL_VECTORS_SSE},
    {"Northwood", MMUL_VECTORS_SSE},     {"Prescott", MMUL_VECTORS_SSE},
    {"Banias", MMUL_VECTORS_SSE},        {"Atom", MMUL_VECTORS_SSE},
    {"Core2", MMUL_VECTORS_SSE},         {"Penryn", MMUL_VECTORS_SSE},
    {"Dunnington", MMUL_VECTORS_SSE},    {"Nehalem", MMUL_VECTORS_SSE},
    {"Athlon", MMUL_VECTORS_SSE},        {"Opteron", MMUL_VECTORS_SSE},
    {"Opteron_SSE3", MMUL_VECTORS_SSE},  {"Barcelona", MMUL_VECTORS_SSE},
    {"Nano", MMUL_VECTORS_SSE},          {"Bobcat", MMUL_VECTORS_SSE},
    {"Sandybridge", MMUL_VECTORS_AVX},   {"Bulldozer", MMUL_VECTORS_AVX},
    {"Piledriver", MMUL_VECTORS_AVX},    {"Steamroller", MMUL_VECTORS_AVX},
    {"Excavator", MMUL_VECTORS_AVX2},    {"Haswell", MMUL_VECTORS_AVX2},
    {"Zen", MMUL_VECTORS_AVX2},          {"SkylakeX", MMUL_VECTORS_AVX512},
    {"Cooperlake", MMUL_VECTORS_AVX512}, {"SapphireRapids", MMUL_VECTORS_AVX512},
};

const char *mmul_vectors_name(enum mmul_vectors vectors) {
    static const char *const names[] = {"", "SSE", "AVX", "AVX2", "AVX-512"};
    return names[vectors];
}

enum mmul_vectors mmul_cpu_vectors(const struct mmul_cpu_features *f) {
    if (f->avx512f && f->avx512dq && f->avx512bw && f->avx512vl && f->avx2 && f->fma)
        return MMUL_VECTORS_AVX512;
    if (f->avx2 && f->fma)
        return MMUL_VECTORS_AVX2;
    return f->avx ? MMUL_VECTORS_AVX : MMUL_VECTORS_SSE;
}

enum mmul_vectors mmul_kernel_set_vectors(const char *name) {
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        if (strcasecmp(sets[i].name, name) == 0)
            return sets[i].vectors;
    return MMUL_VECTORS_UNKNOWN;
}

const char *mmul_kernel_set_for(enum mmul_vectors vectors) {
    static const char *const names[] = {NULL, "Nehalem", "Sandybridge", "Haswell", "SkylakeX"};
    return names[vectors];
}

static enum mmul_vectors vectors_of(const char *name) {
    for (enum mmul_vectors v = MMUL_VECTORS_SSE; v <= MMUL_VECTORS_AVX512; v++)
        if (strcmp(mmul_vectors_name(v), name) == 0)
            return v;
    return MMUL_VECTORS_UNKNOWN;
}

bool mmul_kernels_are_narrow(const struct mmul_kernel_comparison *c) {
    const enum mmul_vectors own = vectors_of(c->vectors);
    return own != MMUL_VECTORS_UNKNOWN && own < vectors_of(c->cpu_vectors);
}

bool mmul_kernels_need_measurement(const struct mmul_kernel_comparison *c) {
    return c->kernels[0] != '\0' && (c->setting[0] != '\0' || mmul_kernels_are_narrow(c));
}

static const char core_type[] = "OPENBLAS_CORETYPE=";

// Skips the setting of the set itself.
static const char *skip_core_type(const char *setting) {
    if (strncmp(setting, core_type, sizeof core_type - 1) == 0)
        setting += strcspn(setting, " ");
    return setting + strspn(setting, " ");
}

bool mmul_kernels_are_slower(const struct mmul_kernel_comparison *c) {
    const bool are_same =
        strcmp(c->kernels, c->other) == 0 && skip_core_type(c->setting)[0] == '\0';
    return !are_same && c->flops > 0 && c->flops < MMUL_KERNELS_SPEED_RATIO_LEAST * c->other_flops;
}

bool mmul_kernels_are_unmeasured(const struct mmul_kernel_comparison *c) {
    return mmul_kernels_need_measurement(c) && !(c->flops > 0 && c->other_flops > 0);
}

char *mmul_kernels_describe(const struct mmul_kernel_comparison *c, char text[static 320]) {
    int length;
    if (c->setting[0] != '\0')
        length = snprintf(text, 320, "%s %s set", c->setting,
                          strchr(c->setting, ' ') != NULL ? "are" : "is");
    else if (mmul_kernels_are_narrow(c))
        length = snprintf(text, 320, "OpenBLAS takes its %s kernels (%s) for a processor with %s",
                          c->kernels, c->vectors, c->cpu_vectors);
    else
        length = snprintf(text, 320, "OpenBLAS takes its %s kernels", c->kernels);
    if (!(c->flops > 0)) {
        if (mmul_kernels_need_measurement(c))
            snprintf(text + length, 320 - (size_t)length,
                     ": what that costs could not be measured");
        return text;
    }
    length +=
        snprintf(text + length, 320 - (size_t)length, ": %.1f GFLOP/s on a core", c->flops * 1e-9);
    if (!(c->other_flops > 0))
        snprintf(text + length, 320 - (size_t)length, "; others could not be measured");
    else if (c->other_setting[0] == '\0')
        snprintf(text + length, 320 - (size_t)length, "; without %s %.1f (%s)",
                 strchr(c->setting, ' ') != NULL ? "them" : "it", c->other_flops * 1e-9, c->other);
    else
        snprintf(text + length, 320 - (size_t)length, "; with %s %.1f", c->other_setting,
                 c->other_flops * 1e-9);
    return text;
}

// Adds the names of the variables in "A=1 B=2", except `but`.
static void add_names(struct mmul_text *text, const char *setting, const char *but) {
    while (*setting != '\0') {
        const size_t name = strcspn(setting, "="), whole = strcspn(setting, " ");
        if (but == NULL || strncmp(setting, but, name) != 0 || but[name] != '=')
            mmul_text_add(text, " %.*s", (int)name, setting);
        setting += whole + strspn(setting + whole, " ");
    }
}

char *mmul_kernels_fix_command(const struct mmul_kernel_comparison *c, char text[static 160]) {
    struct mmul_text names = {0};
    const char *set = c->other_setting;
    add_names(&names, c->setting, set);
    const char *unset = mmul_text_get(&names);
    snprintf(text, 160, "%s%s%s%s%s", unset[0] ? "unset" : "", unset,
             unset[0] && set[0] ? "; " : "", set[0] ? "export " : "", set);
    mmul_text_fini(&names);
    return text;
}

char *mmul_kernels_format(const struct mmul_device_info *info, char text[static 192]) {
    const char *set = info->kernels_setting;
    snprintf(text, 192, "%s%s%s%s%s%s", info->kernels, set[0] ? ", " : "", set,
             set[0] == '\0'             ? ""
             : strchr(set, ' ') != NULL ? " are set"
                                        : " is set",
             info->kernels_unused_vectors[0] ? ", not of this processor's " : "",
             info->kernels_unused_vectors);
    return text;
}

char *mmul_kernels_key(const struct mmul_device_info *info, char text[static 128]) {
    // the kernels' name already has its effect
    const char *set = skip_core_type(info->kernels_setting);
    snprintf(text, 128, "%s%s%s", info->kernels, set[0] ? " " : "", set);
    return text;
}
