// SPDX-License-Identifier: MIT
// Parts of a plan's output that a simulation's contains too.
#pragma once

#include "base/json.h"
#include "plan/lists/plan.h"

// What mmul_plan_json formats; a new reference.
json_t *mmul_plan_json_value(const struct mmul_plan *plan);

// The lines above the tables: shapes, axis, cut.
void mmul_plan_print_heading(const struct mmul_plan *plan, FILE *stream);

// The list of every line of every node.
void mmul_transfers_print(const struct mmul_plan *plan, FILE *stream);
