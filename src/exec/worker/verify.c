// SPDX-License-Identifier: MIT
// The sequence of a check, for every method: look, look again, recompute, record. Knows neither the
// blocks nor the mathematics of their check, and prints nothing.
#include "exec/worker/verify.h"

#include "base/integer.h"
#include "base/status.h"

bool mmul_verification_is_needed(const struct mmul_verification *v) {
    return !(v->method->trusts_cpu && mmul_device_is_trusted(v->worker->context->device));
}

enum mmul_status mmul_verification_watch(const struct mmul_verification *v, int64_t done,
                                         int64_t total, struct mmul_error *err) {
    const struct mmul_verifier_callback *watch = &v->verifier->watch;
    return watch->look != NULL ? watch->look(watch->context, done, total, err) : MMUL_OK;
}

static enum mmul_status look(struct mmul_verification *v, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    v->lines = v->wrong = 0;
    if (mmul_verification_is_needed(v))
        status = v->method->look(v, err);
    else
        v->changed = 0; // a CPU has computed the block again
    v->verifier->lines_checked += v->lines;
    return status;
}

// Returns the number of wrong lines, or of chunks that changed. 0: the block is right.
static int64_t errors_of(const struct mmul_verification *v) {
    return mmul_max(v->wrong, v->changed);
}

// Replaces the device that made `wrong` wrong lines.
static enum mmul_status distrust(const struct mmul_verification *v, int64_t wrong,
                                 struct mmul_error *err) {
    char why[320];
    if (wrong > 0)
        snprintf(why, sizeof why, "%lld wrong %s%s in %s", (long long)wrong, v->line,
                 wrong == 1 ? "" : "s", v->place);
    else
        snprintf(why, sizeof why, "%s changed after they were computed", v->place);
    return mmul_worker_replace_wrong_device(v->worker, why, v->place, err);
}

// Repeats the computation until no line is wrong. No result of the device that made the block
// remains.
static enum mmul_status mend(struct mmul_verification *v, struct mmul_error *err) {
    const struct mmul_check_method *method = v->method;
    const struct mmul_context *context = v->worker->context;
    bool is_makers = !v->is_foreign; // the current device made the error
    enum mmul_status status = MMUL_OK;
    while (status == MMUL_OK && errors_of(v) > 0) {
        const int64_t found = v->wrong;
        const int replacements = context->replacements;
        const bool recuts = is_makers && method->recut != NULL && !v->is_recut &&
                            mmul_device_gemm_depends_on_cut(context->device);
        if (is_makers && !recuts)
            status = distrust(v, found, err);
        if (status != MMUL_OK)
            break;
        mmul_worker_invalidate_operands(v->worker); // cached operands on a device that stays
        mmul_worker_invalidate_memory(v->worker, NULL, NULL);
        v->recomputed = 0;
        status = recuts ? method->recut(v, err) : method->recompute(v, err);
        v->verifier->lines_recomputed += v->recomputed;
        v->is_recut |= recuts;
        is_makers = !recuts;
        if (status == MMUL_OK)
            status = look(v, err);
        if (status == MMUL_OK && recuts && v->wrong > 0)
            status = method->look_again(v, err); // lines that are right for one x only would stay
        if (status == MMUL_OK && recuts && context->replacements == replacements)
            status = distrust(v, found, err);
        if (status == MMUL_OK && errors_of(v) > 0)
            status = mmul_verification_watch(v, 0, errors_of(v), err);
    }
    return status;
}

enum mmul_status mmul_verification_run(struct mmul_verification *v, struct mmul_error *err) {
    enum mmul_status status = look(v, err);
    if (status != MMUL_OK || errors_of(v) == 0)
        return status;
    v->verifier->blocks_recomputed++;
    status = mmul_verification_watch(v, 0, errors_of(v), err);
    if (status == MMUL_OK && v->method->look_again != NULL)
        status = v->method->look_again(v, err);
    if (status != MMUL_OK)
        return status;
    v->verifier->lines_wrong += errors_of(v);
    return mend(v, err);
}
