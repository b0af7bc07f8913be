// SPDX-License-Identifier: MIT
//
// Where the values of a text are wished by the names that it gives them (mmul_placements of the public header).
#pragma once

#include "tensor/evaluator.h"

// What is assigned to a name: matrices for which there is a wish, also in tuples, are placed so. Fails as
// mmul_program_place_on, with the place.
enum mmul_status mmul_place_named(struct mmul_evaluator *e, const struct mmul_node *at,
                                  const char *name, struct mmul_object *object);
