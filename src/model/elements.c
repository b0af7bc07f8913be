// SPDX-License-Identifier: MIT
// Elementwise operations on numbers: a function of double per row of operations.def. The reference
// device applies them to the elements of matrices.
#include "model/elements.h"

#include <string.h>

#include "model/element_formulas.h"

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

static const struct mmul_element_function FUNCTIONS[] = {
#define FUNCTION(KIND, NAME, FLOPS, ACCURACY, ULPS, FORMULA, HELP) {#NAME, HELP, compute_##NAME},
#define COMPOSITE(NAME, GRADIENT, FORMULA, HELP)                   {#NAME, HELP, compute_##NAME},
#include "model/operations.def"
};

const struct mmul_element_function *mmul_element_functions(int *count) {
    *count = (int)(sizeof FUNCTIONS / sizeof *FUNCTIONS);
    return FUNCTIONS;
}

const struct mmul_element_function *mmul_element_function_find(const char *name) {
    for (int i = 0; i < (int)(sizeof FUNCTIONS / sizeof *FUNCTIONS); i++)
        if (strcmp(FUNCTIONS[i].name, name) == 0)
            return &FUNCTIONS[i];
    return NULL;
}
