// SPDX-License-Identifier: MIT
// The screen, from top to bottom: job, progress, loop, printed numbers, table of ranks, curve,
// keys. Everything is redrawn each time; ncurses sends only the differences.
#include "cli/top_screen.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <ncurses.h>

#include "cli/curve.h"
#include "cli/failure.h"
#include "cli/top_lines.h"

enum { TICK_MILLISECONDS = 500, LINE_MOST = 1024, CURVE_ROWS_LEAST = 4, CURVE_ROWS_MOST = 12 };

struct screen {
    struct mmul_jobs *jobs; // owned; the data shown
    char id[24];            // job shown; "" if none yet
    bool has_ended;         // the job shown has ended
    int first_rank;         // first rank shown in the table
    bool is_utf8;
};

static volatile sig_atomic_t stopped_by; // signal that ends the screen; 0 for none

static void request_stop(int number) {
    stopped_by = number;
}

// ------------------------------------------------------------------------------------------- text

// Writes at most `width` columns. A longer text keeps both ends, with ".." between them.
static void put_text(int row, int column, int width, const char *text) {
    wchar_t line[LINE_MOST];
    if (width <= 0 || row < 0 || row >= LINES)
        return;
    size_t length = mbstowcs(line, text, LINE_MOST - 1);
    if (length == (size_t)-1) // bytes of another encoding
        for (length = 0; text[length] != '\0' && length < LINE_MOST - 1; length++)
            line[length] = (unsigned char)text[length] < 0x80 ? (wchar_t)text[length] : L'?';
    line[length] = L'\0';
    if (wcswidth(line, length) > width && width > 4) {
        const size_t tail = (size_t)(width - 2) / 2, head = (size_t)width - 2 - tail;
        wmemmove(line + head + 2, line + length - tail, tail + 1);
        line[head] = line[head + 1] = L'.';
        length = head + 2 + tail;
    }
    while (length > 0 && wcswidth(line, length) > width)
        length--;
    mvaddnwstr(row, column, line, (int)length);
}

static void put_right(int row, int column, int width, const char *text) {
    const int length = (int)strlen(text);
    put_text(row, length < width ? column + width - length : column, width, text);
}

// ------------------------------------------------------------------------------------------ ranks

// Number columns have fixed widths; text columns share the rest.
static void find_widths(int widths[TOP_COLUMNS]) {
    static const int fixed[TOP_COLUMNS] = {4, 8, 6, 9, 7, 5, 5, 9, 5, 6};
    int rest = COLS - (TOP_COLUMNS - 1);
    for (int c = 0; c < TOP_COLUMNS; c++)
        rest -= widths[c] = fixed[c];
    for (int c = TOP_HOST; c <= TOP_COMPUTES; c++) {
        const int more = rest > 0 ? rest / (TOP_COMPUTES + 1 - c) : 0;
        widths[c] += more;
        rest -= more;
    }
}

static void put_cells(int row, const int widths[TOP_COLUMNS], const struct top_cells *cells) {
    for (int c = 0, at = 0; c < TOP_COLUMNS; at += widths[c++] + 1)
        if (mmul_top_alignment[c] == 'r')
            put_right(row, at, widths[c], cells->text[c]);
        else
            put_text(row, at, widths[c], cells->text[c]);
}

// Returns the row after the table.
static int draw_ranks(struct screen *screen, const struct mmul_job_state *job, int row, int rows) {
    int widths[TOP_COLUMNS];
    struct top_cells cells = {0};
    const bool scrolls = job->rank_count > rows;
    const int shown = scrolls ? rows - 1 : job->rank_count;
    const int last = job->rank_count - shown;
    screen->first_rank = screen->first_rank < last ? screen->first_rank : last;
    screen->first_rank = screen->first_rank > 0 ? screen->first_rank : 0;
    find_widths(widths);
    for (int c = 0; c < TOP_COLUMNS; c++)
        strcpy(cells.text[c], mmul_top_headings[c]);
    attron(A_BOLD);
    put_cells(row++, widths, &cells);
    attroff(A_BOLD);
    for (int i = 0; i < shown; i++) {
        mmul_top_cells(job, screen->first_rank + i, &cells);
        put_cells(row++, widths, &cells);
    }
    if (scrolls) {
        char text[64];
        snprintf(text, sizeof text, "ranks %d to %d of %d", screen->first_rank,
                 screen->first_rank + shown - 1, job->rank_count);
        put_text(row++, 0, COLS, text);
    }
    return row;
}

// ----------------------------------------------------------------------------------------- screen

static void draw_bar(const struct mmul_job_state *job, int row) {
    char bar[64] = "", state[256];
    const int width = COLS >= 60 ? 24 : 10;
    const double share = isnan(job->share) ? 0 : job->share;
    bar[0] = '[';
    memset(bar + 1, '.', (size_t)width);
    memset(bar + 1, '#', (size_t)(share * width));
    strcpy(bar + 1 + width, "]");
    put_text(row, 0, COLS, bar);
    mmul_top_state(job, state);
    put_text(row, width + 3, COLS - width - 3, state);
}

static void draw_curve(const struct screen *screen, const struct mmul_job_state *job, int row,
                       int rows) {
    char text[160];
    double least, most;
    const struct curve curve = {.x = job->curve_turns,
                                .y = job->curve_values,
                                .count = job->curve_count,
                                .columns = COLS,
                                .rows = rows - 1,
                                .is_braille = screen->is_utf8};
    wchar_t *cells = malloc((size_t)(COLS * rows) * sizeof *cells);
    if (cells != NULL && mmul_curve_draw(&curve, cells, &least, &most)) {
        snprintf(text, sizeof text, "%s: %.6g to %.6g, from %.0f to %.0f", job->curve_name, least,
                 most, job->curve_turns[0], job->curve_turns[job->curve_count - 1]);
        attron(A_BOLD);
        put_text(row, 0, COLS, text);
        attroff(A_BOLD);
        for (int i = 0; i < rows - 1; i++)
            mvaddnwstr(row + 1 + i, 0, cells + i * COLS, COLS);
    }
    free(cells);
}

static void draw_job(struct screen *screen, const struct mmul_job_state *job) {
    char text[LINE_MOST];
    int row = 0;
    const int end = LINES - 1;
    snprintf(text, sizeof text, "job %s%s: %s", job->id, screen->has_ended ? " has ended" : "",
             job->command);
    attron(A_REVERSE);
    mvhline(row, 0, ' ', COLS);
    put_text(row++, 0, COLS, text);
    attroff(A_REVERSE);
    draw_bar(job, row++);
    mmul_top_turn(job, text);
    if (text[0] != '\0')
        put_text(row++, 0, COLS, text);
    mmul_top_numbers(job, text);
    if (text[0] != '\0')
        put_text(row++, 0, COLS, text);
    // The table needs a heading, one rank and a blank line; the curve gets the rest.
    int curve = job->curve_count > 1 ? end - row - job->rank_count - 2 : 0;
    const int most = end - row - 5;
    curve = job->curve_count > 1 && curve < CURVE_ROWS_LEAST + 1 ? CURVE_ROWS_LEAST + 1 : curve;
    curve = curve > CURVE_ROWS_MOST + 1 ? CURVE_ROWS_MOST + 1 : curve;
    curve = curve > most ? 0 : curve;
    const int ranks = end - row - 2 - (curve > 0 ? curve + 1 : 0);
    row = draw_ranks(screen, job, row + 1, ranks > 1 ? ranks : 1);
    if (curve > 0)
        draw_curve(screen, job, row + 1, curve);
}

static void draw_screen(struct screen *screen) {
    const int count = mmul_jobs_count(screen->jobs);
    char keys[128] = "q: quit";
    erase();
    for (int i = 0; i < count; i++) {
        const struct mmul_job_state *job = mmul_jobs_get(screen->jobs, i);
        if (strcmp(job->id, screen->id) != 0)
            continue;
        draw_job(screen, job);
        snprintf(keys, sizeof keys, "q: quit, up and down: scroll ranks, tab: job %d of %d", i + 1,
                 count);
    }
    if (count == 0)
        put_text(0, 0, COLS, "you have no running job on this machine: waiting for one");
    attron(A_REVERSE);
    mvhline(LINES - 1, 0, ' ', COLS);
    put_text(LINES - 1, 0, COLS, keys);
    attroff(A_REVERSE);
    refresh();
}

// ------------------------------------------------------------------------------------------- keys

static void select_job(struct screen *screen, int place) {
    snprintf(screen->id, sizeof screen->id, "%s", mmul_jobs_get(screen->jobs, place)->id);
    screen->has_ended = false;
    screen->first_rank = 0;
}

// Refreshes the jobs. A job that ended keeps its last state until another job is selected.
static enum mmul_status refresh_jobs(struct screen *screen, struct mmul_error *err) {
    struct mmul_jobs *now = NULL;
    if (mmul_jobs_find(&now, err) != MMUL_OK)
        return err->status;
    screen->has_ended = screen->id[0] != '\0' && mmul_top_find_job(now, screen->id) < 0;
    if (screen->has_ended && mmul_top_find_job(screen->jobs, screen->id) >= 0) {
        mmul_jobs_destroy(now);
        return MMUL_OK;
    }
    mmul_jobs_destroy(screen->jobs);
    screen->jobs = now;
    if (screen->id[0] == '\0' && mmul_jobs_count(now) > 0)
        select_job(screen, 0);
    return MMUL_OK;
}

// Selects the next job, or the first one after a job that ended.
static enum mmul_status select_next_job(struct screen *screen, struct mmul_error *err) {
    struct mmul_jobs *now = NULL;
    if (mmul_jobs_find(&now, err) != MMUL_OK)
        return err->status;
    if (mmul_jobs_count(now) == 0) {
        mmul_jobs_destroy(now);
        return MMUL_OK;
    }
    mmul_jobs_destroy(screen->jobs);
    screen->jobs = now;
    select_job(screen, (mmul_top_find_job(now, screen->id) + 1) % mmul_jobs_count(now));
    return MMUL_OK;
}

// Handles a key. Returns false to leave.
static bool handle_key(struct screen *screen, int key, struct mmul_error *err) {
    const int page = LINES > 12 ? LINES - 12 : 1;
    switch (key) {
    case 'q':
    case 'Q':
        return false;
    case '\t':
        return select_next_job(screen, err) == MMUL_OK;
    case KEY_UP:
        screen->first_rank--;
        return true;
    case KEY_DOWN:
        screen->first_rank++;
        return true;
    case KEY_PPAGE:
        screen->first_rank -= page;
        return true;
    case KEY_NPAGE:
        screen->first_rank += page;
        return true;
    default:
        return true;
    }
}

static enum mmul_status run_screen(struct screen *screen, struct mmul_error *err) {
    bool stays = true;
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    (void)curs_set(0);
    timeout(TICK_MILLISECONDS);
    while (stays && stopped_by == 0) {
        draw_screen(screen);
        const int key = getch();
        stays = handle_key(screen, key, err);
        if (stays && refresh_jobs(screen, err) != MMUL_OK)
            stays = false;
    }
    return err->status;
}

enum mmul_status mmul_top_screen(const char *id, struct mmul_error *err) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction ours = {.sa_handler = request_stop}, before[3];
    struct screen screen = {.jobs = NULL};
    setlocale(LC_CTYPE, "");
    screen.is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    snprintf(screen.id, sizeof screen.id, "%s", id != NULL ? id : "");
    if (mmul_jobs_find(&screen.jobs, err) == MMUL_OK && id == NULL &&
        mmul_jobs_count(screen.jobs) > 0)
        select_job(&screen, 0);
    if (err->status != MMUL_OK)
        return err->status;
    SCREEN *terminal = newterm(NULL, stdout, stdin);
    if (terminal == NULL) {
        mmul_jobs_destroy(screen.jobs);
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM, "top: unknown terminal type '%s'",
                             getenv("TERM") != NULL ? getenv("TERM") : "");
    }
    // Restores the terminal after any of these signals, then lets the signal act normally.
    for (int i = 0; i < 3; i++)
        sigaction(signals[i], &ours, &before[i]);
    const enum mmul_status status = run_screen(&screen, err);
    endwin();
    delscreen(terminal);
    mmul_jobs_destroy(screen.jobs);
    for (int i = 0; i < 3; i++)
        sigaction(signals[i], &before[i], NULL);
    if (stopped_by != 0)
        raise(stopped_by);
    return status;
}
