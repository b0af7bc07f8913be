// SPDX-License-Identifier: MIT
// A handler gets no argument of ours, so the table is a mutable global. Each place changes hands by
// its state alone: whoever moves it on from OPEN owns the file, the thread that ends the output or a
// handler on any thread. unlink is all a handler does here.
#include "io/unfinished.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { PLACES = 64 };

enum state { FREE, TAKEN, OPEN };

static struct {
    _Atomic int state;
    char path[PATH_MAX];
} places[PLACES];

static _Atomic int64_t finished_count;

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler may only use atomics without locks");

static bool move(int place, int from, int to) {
    return atomic_compare_exchange_strong(&places[place].state, &from, to);
}

int mmul_unfinished_begin(const char *path) {
    if (strlen(path) >= PATH_MAX)
        return -1;
    for (int place = 0; place < PLACES; place++) {
        if (!move(place, FREE, TAKEN))
            continue;
        strcpy(places[place].path, path);
        atomic_store(&places[place].state, OPEN);
        return place;
    }
    return -1;
}

bool mmul_unfinished_end(int place, bool finished) {
    atomic_fetch_add(&finished_count, finished); // first: a handler must not find neither
    if (place < 0 || move(place, OPEN, FREE))
        return true;
    atomic_fetch_sub(&finished_count, finished);
    return false;
}

enum mmul_abandoned mmul_outputs_abandon(void) {
    enum mmul_abandoned result = MMUL_ABANDONED_NONE;
    for (int place = 0; place < PLACES; place++) {
        if (!move(place, OPEN, TAKEN)) // stays taken: nothing is going to be finished any more
            continue;
        (void)unlink(places[place].path);
        result = MMUL_ABANDONED_SOME;
    }
    if (atomic_load(&finished_count) > 0)
        return result == MMUL_ABANDONED_NONE ? MMUL_ABANDONED_FINISHED : MMUL_ABANDONED_REST;
    return result;
}
