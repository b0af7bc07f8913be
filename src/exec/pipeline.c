// SPDX-License-Identifier: MIT
// The compute thread, the naps of the other one, and threads for the parts of one piece of work.
// Decides nothing about what is computed or sent.
#include "exec/pipeline.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/status.h"

// On a host of one core a nap of 50 us instead of 2 ms made products 20 % slower. In 2 ms a socket
// takes in or out what its buffer holds, some MiB, so that fast networks stay busy.
static const double NAP_LEAST_SECONDS = 20e-6, NAP_MOST_SECONDS = 2e-3;

static void *compute(void *argument) {
    const struct mmul_pipeline *pipeline = argument;
    pipeline->compute(pipeline->context);
    return NULL;
}

static int start(const struct mmul_pipeline *pipeline, pthread_t *thread) {
    int code = pthread_create(thread, NULL, compute, (void *)(uintptr_t)pipeline);
    if (code != 0)
        pipeline->cancel(pipeline->context);
    return code;
}

// `thread` is the one that computes; returns the code of the last start.
static int attend(const struct mmul_pipeline *pipeline, pthread_t *thread, int code) {
    double nap = NAP_LEAST_SECONDS;
    for (;;) {
        enum mmul_attention what = pipeline->attend(pipeline->context);
        if (what == MMUL_ATTEND_FINISHED)
            return code;
        if (what == MMUL_ATTEND_ABANDONED) {
            pthread_detach(*thread);
            code = start(pipeline, thread);
        }
        if (what == MMUL_ATTEND_ABANDONED || what == MMUL_ATTEND_MOVED) {
            nap = NAP_LEAST_SECONDS;
            continue;
        }
        mmul_clock_nap(nap);
        nap = nap * 1.5 < NAP_MOST_SECONDS ? nap * 1.5 : NAP_MOST_SECONDS;
    }
}

static void *store(void *argument) {
    const struct mmul_pipeline *pipeline = argument;
    pipeline->store(pipeline->context);
    return NULL;
}

enum mmul_status mmul_pipeline_run(const struct mmul_pipeline *pipeline, struct mmul_error *err) {
    pthread_t thread, storing;
    bool stores = pipeline->store != NULL &&
                  pthread_create(&storing, NULL, store, (void *)(uintptr_t)pipeline) == 0;
    int code = attend(pipeline, &thread, start(pipeline, &thread));
    if (stores)
        pthread_join(storing, NULL);
    if (code != 0)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, code, "cannot start the compute thread");
    pthread_join(thread, NULL);
    return MMUL_OK;
}

// -------------------------------------------------------------------------------- parts of one work

enum { HELD_MOST = 64 }; // threads at a time

struct part {
    pthread_t thread;
    mmul_work *work;
    void *context;
    int index;
};

static void *do_part(void *argument) {
    const struct part *part = argument;
    part->work(part->context, part->index);
    return NULL;
}

void mmul_pipeline_share(int parts, mmul_work *work, void *context) {
    struct part started[HELD_MOST];
    int count = 0;
    for (int i = 1; i < parts && count < HELD_MOST; i++) {
        started[count] = (struct part){.work = work, .context = context, .index = i};
        if (pthread_create(&started[count].thread, NULL, do_part, &started[count]) != 0)
            break;
        count++;
    }
    work(context, 0);
    for (int i = count + 1; i < parts; i++)
        work(context, i);
    for (int i = 0; i < count; i++)
        pthread_join(started[i].thread, NULL);
}
