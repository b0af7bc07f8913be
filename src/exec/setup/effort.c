// SPDX-License-Identifier: MIT
// Sensors are those that were opened when the run began (exec/setup/energy.h).
#include "exec/setup/effort.h"

#include <math.h>

#include "exec/setup/context.h"

static const double LOOK_SECONDS = 0.45, RATE_SECONDS = 1;

void mmul_effort_look(struct mmul_context *context, double flops, double now) {
    struct mmul_effort *effort = context->effort;
    if (now - effort->looked_at < LOOK_SECONDS)
        return;
    if (effort->looked_at == 0) {
        effort->since = now;
        effort->since_flops = effort->flops + flops;
        effort->flops_per_second = NAN;
    }
    effort->looked_at = now;
    effort->sensed = mmul_energy_sense(context, now);
    effort->resident_bytes = mmul_process_resident_bytes();
    if (now - effort->since < RATE_SECONDS)
        return;
    const double all = effort->flops + flops;
    effort->flops_per_second = (all - effort->since_flops) / (now - effort->since);
    effort->since = now;
    effort->since_flops = all;
}

void mmul_effort_end_run(struct mmul_context *context, double flops) {
    context->effort->flops += flops;
}
