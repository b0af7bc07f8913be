# SPDX-License-Identifier: MIT
"""mpimatmul: matrices on whatever machines are at hand, one MPI rank per GPU or CPU.

    import mpimatmul as mm                    # python3 script.py, or mpirun ... python3 script.py
    x, w = mm.load("x.npy"), mm.load("w.npy")
    y = mm.relu(x @ w) @ w.T                  # nothing is computed yet
    mm.save("y.npy", y)                       # one job: relu(x @ w) stays on the ranks

All ranks run the same script. Names are those of programs (`mpimatmul run`): a program file is also a script,
`python3 -m mpimatmul FILE`.
"""
from ._library import Error
from ._operations import (abs, argmax, assert_close, attention, concat, exp, gelu, layer_norm, linear, log, max,
                          maximum, mean, min, minimum, neg, normalize, permute, place, print, relu, reshape,
                          rms_norm, rope, rsqrt, sigmoid, silu, softmax, sqrt, sum, take, tanh, topk, transpose,
                          where)
from ._values import Value, array, evaluate, generate, init, keep, load, program, rank, save, size

__version__ = "0.1.0"
__all__ = [name for name in dir() if not name.startswith("_")]
