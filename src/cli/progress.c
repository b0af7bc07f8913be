// SPDX-License-Identifier: MIT
// Drawing progress on stderr. Rates are of the phase so far, time left follows from them.
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mpimatmul_local.h"

static const double plain_seconds = 5;
static const double bar_seconds = 0.1;

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
    progress->interval_seconds = progress->style == PROGRESS_BAR ? bar_seconds : plain_seconds;
    progress->shown_seconds = mmul_progress_now();
}

// "multiply 45 %, 1.1 GiB of 2.4 GiB, 350.0 MiB/s, 4 s left"
static void format_state(const struct progress *progress, double now, int64_t done, int64_t total,
                         char *text, size_t capacity) {
    char done_text[32], total_text[32], rate_text[32];
    double seconds = now - progress->phase_seconds;
    double rate = seconds > 0 ? (double)done / seconds : 0;
    int length = snprintf(text, capacity, "%s %.0f %%, %s of %s", progress->phase,
                          100 * (double)done / (double)total, mmul_bytes_format(done, done_text),
                          mmul_bytes_format(total, total_text));
    if (rate >= 1 && length > 0 && (size_t)length < capacity)
        snprintf(text + length, capacity - (size_t)length, ", %s/s, %.0f s left",
                 mmul_bytes_format((int64_t)rate, rate_text), (double)(total - done) / rate);
}

static void draw_bar(struct progress *progress, double now, int64_t done, int64_t total) {
    enum { WIDTH = 24 };
    char bar[WIDTH + 1], state[128];
    int filled = (int)((double)WIDTH * (double)done / (double)total);
    memset(bar, '.', WIDTH);
    memset(bar, '#', (size_t)filled);
    bar[WIDTH] = '\0';
    format_state(progress, now, done, total, state, sizeof state);
    fprintf(stderr, "\r[%s] %s\033[K", bar, state); // \033[K clears what an older line left
    fflush(stderr);
    progress->is_drawn = true;
}

void mmul_progress_show(void *context, const char *phase, int64_t done_bytes, int64_t total_bytes) {
    struct progress *progress = context;
    double now = mmul_progress_now();
    bool is_new = strncmp(progress->phase, phase, sizeof progress->phase - 1) != 0;
    if (is_new || done_bytes < progress->done_bytes) {
        snprintf(progress->phase, sizeof progress->phase, "%s", phase);
        progress->phase_seconds = now;
    }
    progress->done_bytes = done_bytes;
    if (progress->style == PROGRESS_NONE || total_bytes <= 0 || done_bytes < 0 ||
        now - progress->shown_seconds < progress->interval_seconds)
        return;
    int64_t done = done_bytes < total_bytes ? done_bytes : total_bytes;
    progress->shown_seconds = now;
    if (progress->style == PROGRESS_BAR) {
        draw_bar(progress, now, done, total_bytes);
    } else {
        char state[128];
        format_state(progress, now, done, total_bytes, state, sizeof state);
        fprintf(stderr, "mpimatmul: %s\n", state);
    }
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
