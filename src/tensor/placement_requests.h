// SPDX-License-Identifier: MIT
//
// Requested placements for values by their names in the text (mmul_placements of the public
// header).
#pragma once

#include "tensor/evaluator.h"

// Applies the requested placements to the object that is assigned to `name`, also to matrices
// inside tuples. Fails as mmul_program_place_as, with the position.
enum mmul_status mmul_request_named_placement(struct mmul_evaluator *e, const struct mmul_node *at,
                                              const char *name, struct mmul_object *object);
