// SPDX-License-Identifier: MIT
// The compute thread, the naps of the other one, and threads for the parts of one piece of work.
// Decides nothing about what is computed or sent.
#include "exec/pipeline.h"

#include <pthread.h>
#include <sched.h>

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

// Cores of this thread, without the one that it is on. None where there are not as many others as
// threads to start: then the system places them.
static void find_others(int threads, cpu_set_t *others) {
    int here = sched_getcpu();
    if (here < 0 || sched_getaffinity(0, sizeof *others, others) != 0)
        CPU_ZERO(others);
    else
        CPU_CLR(here, others);
    if (CPU_COUNT(others) != threads)
        CPU_ZERO(others);
}

// OpenBLAS's threads spin for some milliseconds after a product, so every core looks busy and the
// system starts a thread where its parent is, half of the time: each gets a core of its own.
static int start_part(struct part *part, cpu_set_t *others) {
    pthread_attr_t attributes;
    int code = pthread_attr_init(&attributes);
    if (code != 0)
        return code;
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(others) > 0; core++) {
        cpu_set_t one;
        if (!CPU_ISSET(core, others))
            continue;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        CPU_CLR(core, others);
        (void)pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
        break;
    }
    code = pthread_create(&part->thread, &attributes, do_part, part);
    pthread_attr_destroy(&attributes);
    return code;
}

void mmul_pipeline_share(int parts, mmul_work *work, void *context) {
    struct part started[HELD_MOST];
    cpu_set_t others;
    int count = 0;
    find_others(parts - 1, &others);
    for (int i = 1; i < parts && count < HELD_MOST; i++) {
        started[count] = (struct part){.work = work, .context = context, .index = i};
        if (start_part(&started[count], &others) != 0)
            break;
        count++;
    }
    work(context, 0);
    for (int i = count + 1; i < parts; i++)
        work(context, i);
    for (int i = 0; i < count; i++)
        pthread_join(started[i].thread, NULL);
}
