// SPDX-License-Identifier: MIT
//
// Small programs on several ranks. Sending a program to all ranks, and agreeing on each of its
// parts, takes dozens of messages. So root runs a program alone, in a context of one rank
// (exec/setup/node_context.h), if the other ranks would save less time than the messages take. They
// wait for root's word meanwhile. Values that root then holds alone are copied to all ranks when a
// program of all ranks reads them.
#pragma once

#include "exec/job/program.h"

// Plans root's program for all ranks or for root alone, which sets (*plan)->is_on_root and gives
// the other ranks NULL. Collective. status: root's result up to now; a failure is
// returned on all ranks. Other ranks' status is ignored.
// Fails as mmul_program_prepare.
enum mmul_status mmul_root_programs_plan(struct mmul_context *context,
                                         const struct mmul_program *program,
                                         const struct mmul_job *job, enum mmul_status status,
                                         struct mmul_program_plan **plan, struct mmul_error *err);

// Runs a program that is planned for root alone. Collective. plan: root's, NULL on other ranks,
// which get no values. Fails as mmul_program_execute on root, with the same error on all ranks.
enum mmul_status mmul_root_programs_run(struct mmul_context *context,
                                        struct mmul_program_plan *plan, struct mmul_values **values,
                                        struct mmul_error *err);
