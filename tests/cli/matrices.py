# SPDX-License-Identifier: MIT
"""An independent reader and writer of the 4D .bin format for the tests: numpy, no code under test.
"""
import struct

import numpy as np

TAGS = {-1: np.dtype("<f4"), -2: np.dtype("<f2"), -3: np.dtype("<u2")}


def write_bin(path, array, tag=4):
    """Writes a 2-D to 4-D array; tag 4 is version 1 (float32), a negative one version 2."""
    array = np.asarray(array)
    dims = (1,) * (4 - array.ndim) + array.shape
    dtype = TAGS.get(tag, np.dtype("<f4"))
    with open(path, "wb") as file:
        file.write(struct.pack("<5i", tag, *dims))
        file.write(np.ascontiguousarray(array, dtype=dtype).tobytes())


def read_bin(path):
    """Returns (tag, 4-D array); bfloat16 as its bit patterns."""
    with open(path, "rb") as file:
        data = file.read()
    tag, *dims = struct.unpack("<5i", data[:20])
    dtype = TAGS.get(tag, np.dtype("<f4"))
    assert tag in (4, *TAGS), tag
    assert len(data) == 20 + int(np.prod(dims)) * dtype.itemsize, (len(data), dims)
    return tag, np.frombuffer(data, dtype, offset=20).reshape(dims)


def integers(seed, *dims):
    """Draws whole numbers in [-4, 4]: sums of their products are exact in float32."""
    return np.random.default_rng(seed).integers(-4, 5, dims).astype(np.float32)


def same_bits(x, y):
    """Returns true for equal shapes, types and bytes: NaN payloads and the sign of zero count."""
    return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()
