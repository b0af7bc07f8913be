#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Functions of the Python package that numpy or torch has, against numpy in double; run alone and by mpirun. Prints how
many were compared, and what is refused with which words."""
import sys

import numpy as np

import mpimatmul as mm

rng = np.random.default_rng(5)
X, S, R = (rng.standard_normal(sizes) for sizes in ((6, 9), (2, 3, 4, 6), (7,)))
x, s, r = mm.array(X), mm.array(S), mm.array(R)

# What the package makes, and what numpy does: all of it is one job.
CASES = [
    (x[::-2, ::3], X[::-2, ::3]), (x[-2:0:-1, 7::-2], X[-2:0:-1, 7::-2]), (s[::-1, 1::2, ::-3], S[::-1, 1::2, ::-3]),
    (x[::100, ::-100], X[::100, ::-100]), (x[2, ::-1], X[2, ::-1][None])]
REFUSED = [lambda: x[::0], lambda: x[::1.5], lambda: x[4:4:-1]]

found = mm.evaluate(*(case[0] for case in CASES))
for number, (got, (value, want)) in enumerate(zip(found, CASES)):
    assert value.shape == np.shape(want), (number, value.shape, np.shape(want))
    if mm.rank() == 0:
        assert np.allclose(got, want, 1e-12, 1e-14, equal_nan=True), (number, got, want)
        assert value.integers == (np.asarray(want).dtype.kind == "i"), (number, value)
if mm.rank() == 0:
    print(len(found), "compared")
for wrong in REFUSED:
    try:
        wrong()
        raise AssertionError("it is not refused")
    except mm.Error as error:
        if mm.rank() == 0:
            sys.stdout.write(f"{error.status} {error}{f' | {error.hint}' if error.hint else ''}\n")
