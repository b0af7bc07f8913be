// SPDX-License-Identifier: MIT
// Draws straight lines between points: one dot per column of dots, plus vertical dots that connect
// it to its neighbor.
#include "cli/curve.h"

#include <math.h>
#include <stddef.h>

// Dots of a Braille cell.
enum { DOTS_ACROSS = 2, DOTS_DOWN = 4 };

struct picture {
    const struct curve *curve;
    wchar_t *cells;
    int across, down;  // dots per cell
    int width, height; // dots of the picture
};

static void set_dot(const struct picture *p, int x, int y) {
    // Bits of Unicode's Braille patterns, by row and column.
    static const int bits[DOTS_DOWN][DOTS_ACROSS] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    wchar_t *cell = &p->cells[y / p->down * p->curve->columns + x / p->across];
    if (p->curve->is_braille)
        *cell = (*cell == L' ' ? 0x2800 : *cell) | bits[y % DOTS_DOWN][x % DOTS_ACROSS];
    else
        *cell = L'*';
}

// Finds the range of the finite points and returns their number.
static int find_range(const struct curve *c, double *least, double *most) {
    int finite = 0;
    *least = INFINITY;
    *most = -INFINITY;
    for (int i = 0; i < c->count; i++) {
        if (!isfinite(c->y[i]))
            continue;
        finite++;
        *least = fmin(*least, c->y[i]);
        *most = fmax(*most, c->y[i]);
    }
    return finite;
}

// Interpolates y at x between the neighboring points.
static double value_at(const struct curve *c, double x) {
    int before = -1;
    for (int i = 0; i < c->count; i++) {
        if (!isfinite(c->y[i]))
            continue;
        if (c->x[i] >= x) {
            if (before < 0 || c->x[i] == c->x[before])
                return c->y[i];
            const double way = (x - c->x[before]) / (c->x[i] - c->x[before]);
            return c->y[before] + way * (c->y[i] - c->y[before]);
        }
        before = i;
    }
    return c->y[before];
}

bool mmul_curve_draw(const struct curve *c, wchar_t *cells, double *least, double *most) {
    struct picture p = {.curve = c, .cells = cells, .across = 1, .down = 1};
    if (c->is_braille) {
        p.across = DOTS_ACROSS;
        p.down = DOTS_DOWN;
    }
    p.width = p.across * c->columns;
    p.height = p.down * c->rows;
    for (int i = 0; i < c->rows * c->columns; i++)
        cells[i] = L' ';
    if (find_range(c, least, most) < 2 || p.width < 2)
        return false;
    const double range = *most > *least ? *most - *least : 1;
    for (int x = 0, last = -1; x < p.width; x++) {
        const double at = c->x[0] + (c->x[c->count - 1] - c->x[0]) * x / (p.width - 1);
        const int y = (int)lround((*most - value_at(c, at)) / range * (p.height - 1));
        set_dot(&p, x, y);
        for (int between = last; last >= 0 && between != y; between += between < y ? 1 : -1)
            if (between != last)
                set_dot(&p, x, between);
        last = y;
    }
    return true;
}
