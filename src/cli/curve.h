// SPDX-License-Identifier: MIT
// A curve in characters: in Braille's, which have two by four dots each, or in plain ones.
#pragma once

#include <stdbool.h>
#include <wchar.h>

struct curve {
    const double *x, *y; // count of them, x ascending; what is not finite is left out
    int count;
    int columns, rows; // of the picture
    bool is_braille;
};

// Fills cells (rows * columns, row by row). least, most: of y. False: there is nothing to be seen: fewer than two
// finite points.
bool mmul_curve_draw(const struct curve *curve, wchar_t *cells, double *least, double *most);
