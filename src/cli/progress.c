// SPDX-License-Identifier: MIT
// Drawing progress on stderr.
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// A line soon, so that a user knows how long it takes; then now and then. A bar moves.
static const double plain_first_seconds = 2, plain_seconds = 5, bar_seconds = 0.1;

double mmul_progress_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void mmul_progress_init(struct progress *progress, int choice) {
    enum { AUTO, BAR, PLAIN };
    *progress = (struct progress){.style = PROGRESS_NONE};
    if (choice == BAR || (choice == AUTO && isatty(STDERR_FILENO)))
        progress->style = PROGRESS_BAR;
    else if (choice == AUTO || choice == PLAIN)
        progress->style = PROGRESS_PLAIN;
    progress->next_seconds =
        mmul_progress_now() + (progress->style == PROGRESS_BAR ? bar_seconds : plain_first_seconds);
}

// "3 h 25 min", "2 min 5 s", "4 s"
static void add_seconds(double seconds, char *text, size_t capacity) {
    const long long s = (long long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, capacity, "%lld h %lld min", s / 3600, s % 3600 / 60);
    else if (s >= 60)
        snprintf(text, capacity, "%lld min %lld s", s / 60, s % 60);
    else
        snprintf(text, capacity, "%lld s", s);
}

// "multiply 45 %, 1.1 GiB of 2.4 GiB, 350.2 GFLOP/s, 4 s left"
static void format_state(const struct mmul_progress *is, char *text, size_t capacity) {
    char done[32], total[32], left[32];
    int length = snprintf(text, capacity, "%s %.0f %%", is->phase, 100 * is->share);
    if (is->total_bytes > 0)
        length += snprintf(text + length, capacity - (size_t)length, ", %s of %s",
                           mmul_bytes_format(is->done_bytes, done),
                           mmul_bytes_format(is->total_bytes, total));
    if (is->flops_per_second > 5e7)
        length += snprintf(text + length, capacity - (size_t)length, ", %.1f GFLOP/s",
                           is->flops_per_second * 1e-9);
    if (is->left_seconds < 0)
        return;
    add_seconds(is->left_seconds, left, sizeof left);
    snprintf(text + length, capacity - (size_t)length, ", %s left", left);
}

static void draw_bar(struct progress *progress, const struct mmul_progress *is) {
    enum { WIDTH = 24 };
    char bar[WIDTH + 1], state[192];
    memset(bar, '.', WIDTH);
    memset(bar, '#', (size_t)((double)WIDTH * is->share));
    bar[WIDTH] = '\0';
    format_state(is, state, sizeof state);
    fprintf(stderr, "\r[%s] %s\033[K", bar, state); // \033[K clears what an older line left
    fflush(stderr);
    progress->is_drawn = true;
}

void mmul_progress_show(void *context, const struct mmul_progress *is) {
    struct progress *progress = context;
    const double now = mmul_progress_now();
    char state[192];
    if (progress->style == PROGRESS_NONE || now < progress->next_seconds)
        return;
    progress->next_seconds = now + (progress->style == PROGRESS_BAR ? bar_seconds : plain_seconds);
    if (progress->style == PROGRESS_BAR) {
        draw_bar(progress, is);
        return;
    }
    format_state(is, state, sizeof state);
    fprintf(stderr, "mpimatmul: %s\n", state);
}

void mmul_progress_fini(struct progress *progress) {
    if (progress->is_drawn)
        fputs("\r\033[K", stderr);
    progress->is_drawn = false;
}

void mmul_progress_notice(void *context, const char *text) {
    mmul_progress_fini(context);
    fprintf(stderr, "mpimatmul: %s\n", text);
}
