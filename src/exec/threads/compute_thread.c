// SPDX-License-Identifier: MIT
// Runs the compute thread, the naps of the main thread, and helper threads for the parts of one
// piece of work. Decides nothing about the contents of computing or traffic.
#include "exec/threads/compute_thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/status.h"

// ------------------------------------------------------------------------------- parts of one work

enum { HELD_MOST = 64 }; // limit of helper threads of one crew

// Helper thread that does one part after the other. `lock` guards its work. Either the helper waits
// for work, or the giver waits for the end of the work: never both.
struct helper {
    pthread_t thread;
    _Atomic int core; // core reserved for it; -1: any
    pthread_mutex_t lock;
    pthread_cond_t changed;
    _Atomic int state; // an enum helper_state
    mmul_work *work;
    void *context;
    int part;
};

enum helper_state { IDLE, BUSY, DISMISSED };

// Helpers of one thread. They are kept from one work to the next, because starting a thread costs
// as much as copying 100,000 elements.
struct crew {
    struct helper helpers[HELD_MOST];
    int count;
    bool is_alone; // true: no helper is ever started
};

static _Thread_local struct crew *crew_here; // crew of the compute thread; NULL: none

// Time to spin before sleeping, about as long as a wake-up takes (5 us on physical machines to 50
// us on virtual ones). Spin and sleep together then never take much more than twice the better of
// the two (Karlin, Manasse, McGeoch, Owicki, "Competitive randomized algorithms for non-uniform
// problems", 1990).
static const double LOOK_SECONDS = 50e-6;

// Waits until the state is, or is not, `state`. Returns with the lock held.
static void wait_for_state(struct helper *h, enum helper_state state, bool is) {
    const double begin = mmul_clock_now();
    while (atomic_load(&h->core) >= 0 && (atomic_load(&h->state) == (int)state) != is &&
           mmul_clock_now() - begin < LOOK_SECONDS)
        continue;
    pthread_mutex_lock(&h->lock);
    while ((atomic_load(&h->state) == (int)state) != is)
        pthread_cond_wait(&h->changed, &h->lock);
}

// Called with the lock held, which it releases.
static void set_state(struct helper *h, enum helper_state state) {
    atomic_store(&h->state, (int)state);
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static void *run_helper(void *argument) {
    struct helper *h = argument;
    for (;;) {
        wait_for_state(h, IDLE, false);
        const bool is_over = atomic_load(&h->state) == DISMISSED;
        pthread_mutex_unlock(&h->lock);
        if (is_over)
            return NULL;
        h->work(h->context, h->part);
        pthread_mutex_lock(&h->lock);
        set_state(h, IDLE);
    }
}

static void end_helpers(struct crew *crew) {
    for (int i = 0; i < crew->count; i++) {
        struct helper *h = &crew->helpers[i];
        pthread_mutex_lock(&h->lock);
        set_state(h, DISMISSED);
        pthread_join(h->thread, NULL);
        pthread_cond_destroy(&h->changed);
        pthread_mutex_destroy(&h->lock);
    }
    crew->count = 0;
}

// Starts helpers until there are `count`, or no more can be started.
static void start_helpers(struct crew *crew, int count) {
    while (crew->count < count && crew->count < HELD_MOST) {
        struct helper *h = &crew->helpers[crew->count];
        *h = (struct helper){.part = 0};
        atomic_init(&h->core, -1);
        pthread_mutex_init(&h->lock, NULL);
        pthread_cond_init(&h->changed, NULL);
        atomic_init(&h->state, IDLE);
        if (pthread_create(&h->thread, NULL, run_helper, h) != 0) {
            pthread_cond_destroy(&h->changed);
            pthread_mutex_destroy(&h->lock);
            return;
        }
        crew->count++;
    }
}

// Finds the cores of this thread without the one that it runs on. Leaves the set empty unless there
// are exactly `count`: then the system places the helpers.
static void find_helper_cores(int count, cpu_set_t *all, cpu_set_t *others) {
    const int here = sched_getcpu();
    CPU_ZERO(all);
    CPU_ZERO(others);
    if (here < 0 || sched_getaffinity(0, sizeof *all, all) != 0)
        return;
    *others = *all;
    CPU_CLR(here, others);
    if (CPU_COUNT(others) != count)
        CPU_ZERO(others);
}

static void set_helper_cores(struct helper *h, int core, const cpu_set_t *cores) {
    if (atomic_load(&h->core) == core)
        return;
    (void)pthread_setaffinity_np(h->thread, sizeof *cores, cores);
    atomic_store(&h->core, core);
}

// Gives each helper a core of its own. OpenBLAS's threads spin for some milliseconds after a
// product, so every core looks busy. Half of the time the system would run a helper on its parent's
// core.
static void place_helpers(struct crew *crew, int count) {
    cpu_set_t all, others;
    find_helper_cores(count, &all, &others);
    for (int i = 0; i < count; i++) { // a helper on one of these cores stays there
        const int core = atomic_load(&crew->helpers[i].core);
        if (core >= 0 && CPU_ISSET(core, &others))
            CPU_CLR(core, &others);
        else if (core >= 0)
            set_helper_cores(&crew->helpers[i], -1, &all);
    }
    int core = 0;
    for (int i = 0; i < count; i++) {
        while (core < CPU_SETSIZE && !CPU_ISSET(core, &others))
            core++;
        if (core == CPU_SETSIZE)
            return;
        if (atomic_load(&crew->helpers[i].core) >= 0)
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        set_helper_cores(&crew->helpers[i], core++, &one);
    }
}

void mmul_helper_threads_run(int parts, mmul_work *work, void *context) {
    if (parts == 1 || (crew_here != NULL && crew_here->is_alone)) {
        for (int i = 0; i < parts; i++)
            work(context, i);
        return;
    }
    struct crew own = {.count = 0}, *crew = crew_here != NULL ? crew_here : &own;
    struct crew *const before = crew_here;
    crew_here = NULL; // a part that shares work has helpers of its own
    start_helpers(crew, parts - 1);
    const int helped_stage = (int)mmul_min(parts - 1, crew->count);
    place_helpers(crew, helped_stage);
    for (int i = 0; i < helped_stage; i++) {
        struct helper *h = &crew->helpers[i];
        pthread_mutex_lock(&h->lock);
        h->work = work;
        h->context = context;
        h->part = i + 1;
        set_state(h, BUSY);
    }
    work(context, 0);
    for (int i = helped_stage + 1; i < parts; i++)
        work(context, i);
    for (int i = 0; i < helped_stage; i++) {
        wait_for_state(&crew->helpers[i], IDLE, true);
        pthread_mutex_unlock(&crew->helpers[i].lock);
    }
    crew_here = before;
    end_helpers(&own);
}

// ------------------------------------------------------------------------------ compute and attend

// Bounds of a nap. On a host with one core, naps of 50 us instead of 2 ms made products 20 %
// slower. In 2 ms a socket moves its buffer's contents, some MiB, so fast networks stay busy.
static const double NAP_LEAST_SECONDS = 20e-6, NAP_MOST_SECONDS = 2e-3;

// Bound of a nap while a message is awaited. A large message needs a request and an answer, and
// each is handled only when a side polls. At 1 Gbit/s blocks of 0.8 MB took 14 ms each with naps of
// 2 ms, 9 ms with these.
static const double AWAITED_NAP_SECONDS = 1e-4;

static void *run_compute_thread(void *argument) {
    const struct mmul_compute_thread *pipeline = argument;
    struct crew crew = {.count = 0, .is_alone = pipeline->is_alone};
    crew_here = &crew;
    pipeline->compute(pipeline->context);
    crew_here = NULL;
    end_helpers(&crew);
    mmul_eventcount_notify(pipeline->eventcount);
    return NULL;
}

static int start_compute_thread(const struct mmul_compute_thread *pipeline, pthread_t *thread) {
    int code = pthread_create(thread, NULL, run_compute_thread, (void *)(uintptr_t)pipeline);
    if (code != 0)
        pipeline->cancel(pipeline->context);
    return code;
}

// Runs the attend loop. `thread` is the compute thread. Returns the code of its last start.
static int run_attend_loop(const struct mmul_compute_thread *pipeline, pthread_t *thread,
                           int code) {
    double nap = NAP_LEAST_SECONDS;
    for (;;) {
        const uint32_t seen = mmul_eventcount_read(pipeline->eventcount);
        enum mmul_poll_result what = pipeline->attend(pipeline->context);
        if (what == MMUL_POLL_FINISHED)
            return code;
        if (what == MMUL_POLL_ABANDONED) {
            pthread_detach(*thread);
            code = start_compute_thread(pipeline, thread);
        }
        if (what == MMUL_POLL_ABANDONED || what == MMUL_POLL_PROGRESSED) {
            nap = NAP_LEAST_SECONDS;
            continue;
        }
        const double most = what == MMUL_POLL_AWAITED ? AWAITED_NAP_SECONDS : NAP_MOST_SECONDS;
        nap = nap < most ? nap : most;
        mmul_eventcount_wait(pipeline->eventcount, seen, nap);
        nap *= 1.5;
    }
}

static void *run_store_thread(void *argument) {
    const struct mmul_compute_thread *pipeline = argument;
    pipeline->store(pipeline->context);
    return NULL;
}

enum mmul_status mmul_compute_thread_run(const struct mmul_compute_thread *pipeline,
                                         struct mmul_error *err) {
    pthread_t thread, storing;
    struct mmul_eventcount own = {0};
    struct mmul_compute_thread with = *pipeline;
    with.eventcount = pipeline->eventcount != NULL ? pipeline->eventcount : &own;
    if (with.at_once) {
        run_compute_thread(&with);
        (void)run_attend_loop(&with, NULL, 0);
        return MMUL_OK;
    }
    bool stores =
        with.store != NULL && pthread_create(&storing, NULL, run_store_thread, &with) == 0;
    int code = run_attend_loop(&with, &thread, start_compute_thread(&with, &thread));
    if (stores)
        pthread_join(storing, NULL);
    if (code != 0)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, code, "cannot start the compute thread");
    pthread_join(thread, NULL);
    return MMUL_OK;
}
