// SPDX-License-Identifier: MIT
// Draws a curve with characters: Braille patterns of 2 x 4 dots each, or plain ones.
#pragma once

#include <stdbool.h>
#include <wchar.h>

struct curve {
    const double *x, *y; // `count` points, x ascending; non-finite ones are skipped
    int count;
    int columns, rows; // size of the picture
    bool is_braille;
};

// Fills cells (rows * columns, row by row), and the range of y. Returns false for fewer than two
// finite points.
bool mmul_curve_draw(const struct curve *curve, wchar_t *cells, double *least, double *most);
