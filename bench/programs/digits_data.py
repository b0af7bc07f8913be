# SPDX-License-Identifier: MIT
"""Writes digits.npy (1797 x 64, 0 to 1) and digits_labels.npy (1 x 1797) for digits.py, digits_module.py and pca.py, in
an order of chance, of the file digits.csv.gz that is in every package of scikit-learn:

    pip download --no-deps scikit-learn && unzip -j scikit_learn-*.whl '*/digits.csv.gz'
    python3 digits_data.py digits.csv.gz
"""
import sys

import numpy as np

rows = np.loadtxt(sys.argv[1], delimiter=",")
rows = rows[np.random.RandomState(1).permutation(len(rows))]
np.save("digits.npy", (rows[:, :-1] / 16).astype("f4"))
np.save("digits_labels.npy", rows[:, -1:].T.astype("i4"))
