// SPDX-License-Identifier: MIT
// Parts of a plan's output that a simulation's output has, too.
#pragma once

#include "base/json.h"
#include "plan/lists/program_plan.h"

// Returns the JSON that mmul_plan_json formats; a new reference.
json_t *mmul_schedule_json(const struct mmul_schedule *schedule);

// Prints the lines above the tables: shapes, axis, cut.
void mmul_schedule_print_heading(const struct mmul_schedule *schedule, FILE *stream);

// Prints every transfer of every node.
void mmul_transfers_print(const struct mmul_schedule *schedule, FILE *stream);
