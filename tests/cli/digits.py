# SPDX-License-Identifier: MIT
"""digits.npy and digits_labels.npy, as bench/programs/digits_data.py writes them, of so many images that are not of
handwriting: one of ten, brighter or darker, with noise."""
import sys

import numpy as np

rng = np.random.default_rng(1)
labels = rng.integers(0, 10, (1, int(sys.argv[1])))
images = rng.random((10, 64))[labels[0]] * rng.uniform(0.7, 1, labels.T.shape) + 0.1 * rng.random((labels.size, 64))
np.save("digits.npy", images.astype("f4"))
np.save("digits_labels.npy", labels.astype("i4"))
