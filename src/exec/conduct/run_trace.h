// SPDX-License-Identifier: MIT
//
// The trace of a run: from the ranks' recorders to root's report.
#pragma once

#include "exec/steps/site.h"

// Collective. A recorder for this rank, when the job asks for one: of a size that depends on the
// number of ranks alone.
enum mmul_status mmul_run_create_trace(struct mmul_site *site, struct mmul_error *err);

// Collective, of a run with recorders. What all ranks have recorded, in root's `report`, with a last event of root's
// for the commit that is to come.
enum mmul_status mmul_run_collect_trace(struct mmul_site *site, struct mmul_report *report,
                                        struct mmul_error *err);
