// SPDX-License-Identifier: MIT
// A program as a text, carried out with a command's options: of `run`, and of commands that are a text of one line.
#pragma once

#include "cli/command.h"

// Collective. Of the request path, text and settings are taken, on root. An error that root has already ends it.
enum mmul_status mmul_run_script(const struct call *call, const struct mmul_script_request *request,
                                 struct mmul_error *err);
