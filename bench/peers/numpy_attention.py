#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""softmax(q k^T / sqrt(depth)) v in numpy, in place where that can be: numpy_attention.py ROWS HEADS DEPTH TYPE

Prints one line of JSON: the seconds of one computation after one that does not count, operands in memory. The number
of threads is OPENBLAS_NUM_THREADS.
"""
import json
import sys
import time

import numpy

rows, heads, depth = (int(word) for word in sys.argv[1:4])
dtype = numpy.dtype(sys.argv[4])
random = numpy.random.default_rng(1)
q, k, v = (random.standard_normal((heads, rows, depth), dtype=dtype) for _ in range(3))
for _ in range(2):
    begin = time.monotonic()
    scores = q @ k.transpose(0, 2, 1)
    scores *= dtype.type(depth**-0.5)
    scores -= scores.max(axis=-1, keepdims=True)
    numpy.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    result = scores @ v
    seconds = time.monotonic() - begin
    del scores
print(json.dumps({"peer": "numpy_attention", "counted": "computation only", "seconds": [seconds],
                  "finite": bool(numpy.isfinite(result).all())}))
