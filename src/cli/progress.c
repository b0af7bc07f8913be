// SPDX-License-Identifier: MIT
// Draws progress on stderr.
#include "cli/progress.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

// The first plain line comes soon, so that a user sees an estimate; later ones are rare.
static const double plain_first_seconds = 2, plain_seconds = 5, bar_seconds = 0.1;

// Delay before the thread speaks, so that regular reports come first.
static const double tick_seconds = 0.5;

double mmul_progress_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void mmul_progress_init(struct progress *progress, int choice) {
    enum { AUTO, BAR, PLAIN };
    *progress = (struct progress){.style = PROGRESS_NONE, .begin_seconds = mmul_progress_now()};
    if (choice == BAR || (choice == AUTO && isatty(STDERR_FILENO)))
        progress->style = PROGRESS_BAR;
    else if (choice == AUTO || choice == PLAIN)
        progress->style = PROGRESS_PLAIN;
    pthread_mutex_init(&progress->lock, NULL);
    progress->next_seconds = progress->begin_seconds +
                             (progress->style == PROGRESS_BAR ? bar_seconds : plain_first_seconds);
}

void mmul_progress_seconds(double seconds, char *text, size_t capacity) {
    const long long s = isnan(seconds) ? -1 : (long long)(seconds + 0.5);
    if (s < 0)
        text[0] = '\0';
    else if (s >= 3600)
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
    mmul_progress_seconds(is->left_seconds, left, sizeof left);
    snprintf(text + length, capacity - (size_t)length, ", %s left", left);
}

// Columns of a bar.
enum { WIDTH = 24 };

// Draws within one line of the terminal. The overflow of a longer text would stay on the previous
// line.
static void draw_bar(struct progress *progress, const char bar[static WIDTH], const char *state) {
    // "[", "] " and one free column.
    enum { AROUND = 4 };
    struct winsize size;
    if (progress->is_held)
        return;
    const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    const int room = is_known ? size.ws_col - WIDTH - AROUND : INT_MAX;
    fprintf(stderr, "\r[%.*s] %.*s\033[K", WIDTH, bar, room > 0 ? room : 0,
            state); // \033[K clears the rest of an older line
    fflush(stderr);
    progress->is_drawn = true;
}

// Prints a line, or a bar with the columns [first, end) marked.
static void show_columns(struct progress *progress, double now, const char *state, size_t first,
                         size_t end) {
    char bar[WIDTH];
    progress->next_seconds = now + (progress->style == PROGRESS_BAR ? bar_seconds : plain_seconds);
    memset(bar, '.', WIDTH);
    memset(bar + first, '#', end - first);
    if (progress->style == PROGRESS_BAR)
        draw_bar(progress, bar, state);
    else
        fprintf(stderr, "mpimatmul: %s\n", state);
}

// Shows a state if that is due. share: completed part, from 0 to 1.
static void show_state(struct progress *progress, double now, const char *state, double share) {
    if (now >= progress->next_seconds)
        show_columns(progress, now, state, 0, (size_t)((double)WIDTH * share));
}

void mmul_progress_show(void *context, const struct mmul_progress *is) {
    struct progress *progress = context;
    char state[192];
    if (progress->style == PROGRESS_NONE)
        return;
    pthread_mutex_lock(&progress->lock);
    snprintf(progress->doing, sizeof progress->doing, "%.60s %.0f %%", is->phase, 100 * is->share);
    format_state(is, state, sizeof state);
    show_state(progress, mmul_progress_now(), state, is->share);
    pthread_mutex_unlock(&progress->lock);
}

// "turn 7 of 2000, 0.85 turns/s, 39 min 5 s left"
void mmul_progress_show_turn(struct progress *progress, const struct mmul_script_turn *turn) {
    const double now = mmul_progress_now();
    const double over = (double)(turn->at - turn->first), left = (double)(turn->end - turn->at);
    char state[192], seconds[32];
    if (progress->style == PROGRESS_NONE)
        return;
    pthread_mutex_lock(&progress->lock);
    if (turn->at == turn->first)
        progress->loop_seconds = now;
    snprintf(progress->doing, sizeof progress->doing, "turn %lld of %lld", (long long)turn->at + 1,
             (long long)turn->end);
    if (over > 0) {
        const double each = (now - progress->loop_seconds) / over;
        mmul_progress_seconds(left * each, seconds, sizeof seconds);
        snprintf(state, sizeof state, "%s, %.3g turns/s, %s left", progress->doing, 1 / each,
                 seconds);
        show_state(progress, now, state, over / (over + left));
    }
    pthread_mutex_unlock(&progress->lock);
}

// ------------------------------------------------------------------------------- background thread

// Shows the current activity and its duration after a period without reports.
static void show_activity(struct progress *progress, double now) {
    char state[192], seconds[32];
    const size_t column = (size_t)((now - progress->begin_seconds) / tick_seconds) % WIDTH;
    mmul_progress_seconds(now - progress->begin_seconds, seconds, sizeof seconds);
    snprintf(state, sizeof state, "%s, %s so far", progress->doing, seconds);
    show_columns(progress, now, state, column, column + 1);
}

static void *run_thread(void *context) {
    struct progress *progress = context;
    pthread_mutex_lock(&progress->lock);
    while (progress->is_thread_running) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(tick_seconds * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&progress->ends, &progress->lock, &until);
        const double now = mmul_progress_now(),
                     quiet = progress->style == PROGRESS_BAR ? tick_seconds : 0;
        if (progress->is_thread_running && now >= progress->next_seconds + quiet)
            show_activity(progress, now);
    }
    pthread_mutex_unlock(&progress->lock);
    return NULL;
}

// The thread blocks all signals, so that other threads receive them.
void mmul_progress_start_thread(struct progress *progress, const char *doing) {
    sigset_t all, before;
    if (progress->style == PROGRESS_NONE)
        return;
    snprintf(progress->doing, sizeof progress->doing, "%s", doing);
    pthread_cond_init(&progress->ends, NULL);
    progress->is_thread_running = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&progress->thread, NULL, run_thread, progress) != 0)
        progress->is_thread_running = false;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void mmul_progress_set_activity(struct progress *progress, const char *doing) {
    if (progress->style == PROGRESS_NONE)
        return;
    pthread_mutex_lock(&progress->lock);
    snprintf(progress->doing, sizeof progress->doing, "%s", doing);
    pthread_mutex_unlock(&progress->lock);
}

void mmul_progress_suspend(struct progress *progress, bool is_held) {
    if (progress->style == PROGRESS_NONE)
        return;
    pthread_mutex_lock(&progress->lock);
    progress->is_held = is_held;
    pthread_mutex_unlock(&progress->lock);
}

void mmul_progress_clear(struct progress *progress) {
    if (progress->style == PROGRESS_NONE)
        return;
    pthread_mutex_lock(&progress->lock);
    if (progress->is_drawn) {
        fputs("\r\033[K", stderr);
        progress->next_seconds = mmul_progress_now() + bar_seconds;
    }
    progress->is_drawn = false;
    pthread_mutex_unlock(&progress->lock);
}

void mmul_progress_fini(struct progress *progress) {
    if (progress->is_thread_running) {
        pthread_mutex_lock(&progress->lock);
        progress->is_thread_running = false;
        pthread_cond_signal(&progress->ends);
        pthread_mutex_unlock(&progress->lock);
        pthread_join(progress->thread, NULL);
    }
    mmul_progress_clear(progress);
    progress->style = PROGRESS_NONE;
}

void mmul_progress_print_notice(void *context, const char *text) {
    mmul_progress_clear(context);
    fprintf(stderr, "mpimatmul: %s\n", text);
}
