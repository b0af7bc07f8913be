// SPDX-License-Identifier: MIT
// Elementwise operations on numbers: a function of double per row of operations.def. The reference
// device applies them to the elements of matrices.
#include "model/elements.h"

#include <string.h>

#include "model/element_formulas.h"
#include "model/gradient.h"

#define FUNCTION(KIND, NAME, FLOPS, ACCURACY, ULPS, FORMULA, HELP) \
    static double compute_##NAME(double x) {                       \
        return FORMULA;                                            \
    }
#define UNARY(KIND, NAME, FLOPS, ACCURACY, ULPS, FORMULA) \
    FUNCTION(KIND, NAME, FLOPS, ACCURACY, ULPS, FORMULA, )
#define COMPOSITE(NAME, GRADIENT, FORMULA, HELP) FUNCTION(, NAME, , , , FORMULA, )
#include "model/operations.def"

#define BINARY(KIND, NAME, COUNT, FLOPS, ACCURACY, ULPS, FORMULA) \
    static double compute_##NAME(double x, double y) {            \
        return FORMULA;                                           \
    }
#define BINARY_OWN BINARY
#include "model/operations.def"

double mmul_element_of_one(enum mmul_operation_kind kind, double x) {
    switch (kind) {
#define FUNCTION(KIND, NAME, ...) \
    case MMUL_##KIND:             \
        return compute_##NAME(x);
#define UNARY FUNCTION
#include "model/operations.def"
    default:
        return x;
    }
}

double mmul_element_of_two(enum mmul_operation_kind kind, double x, double y) {
    switch (kind) {
#define BINARY(KIND, NAME, ...) \
    case MMUL_##KIND:           \
        return compute_##NAME(x, y);
#define BINARY_OWN BINARY
#include "model/operations.def"
    default:
        return x;
    }
}

// Composites, and the help of functions that are operations.
enum { STOPS, PASSES };
static const struct function {
    const char *name, *help;
    double (*compute)(double x);
    int gradient;
} COMPOSITES[] = {
#define COMPOSITE(NAME, GRADIENT, FORMULA, HELP) {#NAME, HELP, compute_##NAME, GRADIENT},
#include "model/operations.def"
};
enum { COMPOSITE_COUNT = sizeof COMPOSITES / sizeof *COMPOSITES };

static const char *const HELP[MMUL_OPERATION_KINDS] = {
#define FUNCTION(KIND, NAME, FLOPS, ACCURACY, ULPS, FORMULA, TEXT) [MMUL_##KIND] = TEXT,
#include "model/operations.def"
};

static bool is_elementwise(enum mmul_operation_kind kind) {
    return mmul_operation_row(kind)->class == MMUL_CLASS_ELEMENTS && kind != MMUL_CAST;
}

bool mmul_elements_get(int number, struct mmul_element_info *info) {
    const char *reason;
    for (enum mmul_operation_kind kind = 0; kind < MMUL_OPERATION_KINDS; kind++)
        if (is_elementwise(kind) && number-- == 0) {
            const struct mmul_operation_row *row = mmul_operation_row(kind);
            *info = (struct mmul_element_info){row->name, HELP[kind], row->least,
                                               mmul_gradient_rule_of(kind, &reason) != NULL};
            return true;
        }
    if (number < 0 || number >= COMPOSITE_COUNT)
        return false;
    const struct function *f = &COMPOSITES[number];
    *info = (struct mmul_element_info){f->name, f->help, 1, f->gradient == PASSES};
    return true;
}

double mmul_elements_compute(const char *name, double x) {
    enum mmul_operation_kind kind;
    const struct mmul_operation_row *row = mmul_operation_find(name, &kind);
    if (row != NULL && is_elementwise(kind) && row->most == 1)
        return mmul_element_of_one(kind, x);
    for (int i = 0; i < COMPOSITE_COUNT; i++)
        if (strcmp(COMPOSITES[i].name, name) == 0)
            return COMPOSITES[i].compute(x);
    return NAN;
}
