// SPDX-License-Identifier: MIT
// Parts of a plan's output that a simulation's contains too.
#pragma once

#include "base/json.h"
#include "plan/lists/program_plan.h"

// What mmul_plan_json formats; a new reference.
json_t *mmul_schedule_json(const struct mmul_schedule *schedule);

// The lines above the tables: shapes, axis, cut.
void mmul_schedule_print_heading(const struct mmul_schedule *schedule, FILE *stream);

// The list of every line of every node.
void mmul_transfers_print(const struct mmul_schedule *schedule, FILE *stream);
