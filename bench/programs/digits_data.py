# SPDX-License-Identifier: MIT
"""Writes digits.npy (64 columns, 0 to 1) and digits_labels.npy (one row) for digits.py, digits_module.py and pca.py.

Given digits.csv.gz, which is in every package of scikit-learn, it writes the 1,797 images in random order:

    pip download --no-deps scikit-learn && unzip -j scikit_learn-*.whl '*/digits.csv.gz'
    python3 digits_data.py digits.csv.gz

Given a number, it writes that many artificial images. Each is one of ten patterns, brighter or darker, with noise:

    python3 digits_data.py 1797
"""
import sys

import numpy as np

if sys.argv[1].isdecimal():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 10, (1, int(sys.argv[1])))
    images = rng.random((10, 64))[labels[0]] * rng.uniform(0.7, 1, labels.T.shape) + 0.1 * rng.random((labels.size, 64))
else:
    rows = np.loadtxt(sys.argv[1], delimiter=",")
    rows = rows[np.random.RandomState(1).permutation(len(rows))]
    images, labels = rows[:, :-1] / 16, rows[:, -1:].T
np.save("digits.npy", images.astype("f4"))
np.save("digits_labels.npy", labels.astype("i4"))
